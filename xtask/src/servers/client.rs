//! What asks the servers: redis-benchmark, and a small client for mixes of commands.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

/// What was measured of a command: requests a second, and milliseconds that 99 of 100 took at most.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    pub per_second: f64,
    pub p99_ms: f64,
}

/// The name of a row of a table, and the figures of everybody.
pub type Row = (String, Vec<Figures>);

/// Runs redis-benchmark: the figures of each of its tests, in its order.
pub fn benchmark(port: u16, arguments: &[&str]) -> Result<Vec<(String, Figures)>, String> {
    let mut command = Command::new("redis-benchmark");
    command.args(["-p", &port.to_string(), "--csv"]).args(arguments);
    let ended = command.output().map_err(|error| format!("redis-benchmark: {error}"))?;
    let text = String::from_utf8_lossy(&ended.stdout).into_owned();
    if !ended.status.success() {
        return Err(format!("{command:?}: {}\n{text}", ended.status));
    }
    let rows: Vec<_> = text.lines().filter_map(row_of).collect();
    if rows.is_empty() { Err(format!("{command:?}: no rows\n{text}")) } else { Ok(rows) }
}

/// `"SET","10000.00","0.1", .. "p99","max"`, whose name may have commas; the head is none.
fn row_of(line: &str) -> Option<(String, Figures)> {
    let cells: Vec<&str> = line.strip_prefix('"')?.strip_suffix('"')?.split("\",\"").collect();
    let number = |index: usize| cells.get(index)?.parse().ok();
    Some((cells.first()?.to_string(), Figures { per_second: number(1)?, p99_ms: number(6)? }))
}

/// A connection that asks and waits.
pub struct Connection {
    stream: BufReader<TcpStream>,
    requests: Vec<u8>,
}

impl Connection {
    pub fn new(port: u16) -> Result<Connection, String> {
        let stream = TcpStream::connect(("127.0.0.1", port)).map_err(|error| error.to_string())?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        let stream = BufReader::with_capacity(256 << 10, stream);
        Ok(Connection { stream, requests: Vec::new() })
    }

    /// Adds a request to those that are sent next.
    pub fn add(&mut self, words: &[&[u8]]) {
        self.requests.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
        for word in words {
            self.requests.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            self.requests.extend_from_slice(word);
            self.requests.extend_from_slice(b"\r\n");
        }
    }

    /// Sends them, and reads so many replies: the strings of the last.
    pub fn send(&mut self, replies: usize) -> Result<Vec<Vec<u8>>, String> {
        let sent = self.stream.get_mut().write_all(&self.requests);
        sent.map_err(|error| error.to_string())?;
        self.requests.clear();
        let mut strings = Vec::new();
        for _ in 0..replies {
            strings.clear();
            self.reply(&mut strings)?;
        }
        Ok(strings)
    }

    fn reply(&mut self, strings: &mut Vec<Vec<u8>>) -> Result<(), String> {
        let mut line = String::new();
        self.stream.read_line(&mut line).map_err(|error| error.to_string())?;
        let (mark, rest) = line.trim_end().split_at_checked(1).ok_or("the server has ended")?;
        let count = || rest.parse::<i64>().unwrap_or(0).max(0) as usize;
        match mark {
            "+" | ":" => Ok(()),
            "$" if rest == "-1" => Ok(()),
            "$" => {
                let mut text = vec![0; count() + 2];
                self.stream.read_exact(&mut text).map_err(|error| error.to_string())?;
                text.truncate(count());
                strings.push(text);
                Ok(())
            }
            "*" => (0..count()).try_for_each(|_| self.reply(strings)),
            _ => Err(line),
        }
    }
}

/// Runs work on so many connections for a time, a step at a time: what all did in a second, and the 99th percentile.
pub fn together<W>(port: u16, count: usize, time: Duration, work: W) -> Result<Figures, String>
where
    W: Fn(&mut Connection, u64) -> Result<(), String> + Sync,
{
    let start = Instant::now();
    let times: Result<Vec<Vec<f64>>, String> = std::thread::scope(|scope| {
        let run = |number: u64| {
            let work = &work;
            move || -> Result<Vec<f64>, String> {
                let mut connection = Connection::new(port)?;
                let (mut times, mut step) = (Vec::new(), 0);
                while start.elapsed() < time {
                    let begin = Instant::now();
                    work(&mut connection, mixed(number << 40 | step))?;
                    times.push(begin.elapsed().as_secs_f64() * 1000.0);
                    step += 1;
                }
                Ok(times)
            }
        };
        let threads: Vec<_> = (0..count as u64).map(|number| scope.spawn(run(number))).collect();
        threads.into_iter().map(|it| it.join().map_err(|_| "a client ended".to_string())?).collect()
    });
    let mut times = times?.concat();
    times.sort_by(f64::total_cmp);
    let per_second = times.len() as f64 / start.elapsed().as_secs_f64();
    let p99_ms = times.get(times.len() * 99 / 100).copied().unwrap_or(f64::NAN);
    Ok(Figures { per_second, p99_ms })
}

/// A number that looks drawn (SplitMix64; a copy, since these scripts are built without Everleaf).
pub fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

/// The figures of the rounds of each test: the median of each.
pub fn medians(rounds: &[Vec<(String, Figures)>]) -> BTreeMap<String, Figures> {
    let mut all: BTreeMap<String, Vec<Figures>> = BTreeMap::new();
    for (name, figures) in rounds.iter().flatten() {
        all.entry(name.clone()).or_default().push(*figures);
    }
    let of = |figures: &[Figures], field: fn(&Figures) -> f64| {
        let mut values: Vec<f64> = figures.iter().map(field).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let median = |figures: Vec<Figures>| Figures {
        per_second: of(&figures, |it| it.per_second),
        p99_ms: of(&figures, |it| it.p99_ms),
    };
    all.into_iter().map(|(name, figures)| (name, median(figures))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_and_the_head_is_none() {
        assert!(row_of("\"test\",\"rps\",\"avg_latency_ms\"").is_none());
        let row = "\"LPUSH (needed, to)\",\"71428.57\",\"0.380\",\"0.1\",\"0.367\",\"0.463\",\"0.703\",\"1.3\"";
        let (name, figures) = row_of(row).expect("a row");
        assert_eq!(
            (name.as_str(), figures.per_second, figures.p99_ms),
            ("LPUSH (needed, to)", 71428.57, 0.703)
        );
    }

    #[test]
    fn the_median_is_that_of_the_rounds() {
        let round = |value: f64| {
            vec![("SET".to_string(), Figures { per_second: value, p99_ms: 10.0 - value })]
        };
        let found = medians(&[round(3.0), round(1.0), round(2.0)]);
        assert_eq!((found["SET"].per_second, found["SET"].p99_ms), (2.0, 8.0));
    }
}
