//! What others notice while a collection of many members goes: the times of their `GET`s, before it and beside it.

use std::fmt::Write;
use std::time::{Duration, Instant};

use super::client::{Connection, mixed};
use super::contender::{Contender, Folder, Server};

/// Members that are added with one command.
const AT_ONCE: u64 = 200;
/// How long is asked before it goes, and from then on.
const BEFORE: Duration = Duration::from_secs(3);
const BESIDE: Duration = Duration::from_secs(15);
/// How a set goes, and what is sent for it.
const WAYS: [(&str, &[&[u8]]); 2] =
    [("DEL", &[b"DEL", b"large"]), ("expiry", &[b"PEXPIRE", b"large", b"1"])];

/// Has a set of so many members removed, and let expire, by everybody, and tells what one other client noticed.
pub fn section(contenders: &[Contender], members: u64) -> Result<String, String> {
    let mut text = format!(
        "## Removal of a set of {members} members\n\nMilliseconds of the `GET`s of one client that waits for each \
         reply: for {} seconds before, and for {} seconds from the removal on; and what the removal itself took.\n\n\
         | | way | before: 99 % | 99.9 % | most | beside: 99 % | 99.9 % | most | the removal |\n\
         |---|---|---|---|---|---|---|---|---|",
        BEFORE.as_secs(),
        BESIDE.as_secs()
    );
    for it in contenders {
        for (way, request) in WAYS {
            let folder = Folder::new()?;
            let server = it.start(&folder.0)?;
            fill(&server, members)?;
            let quiet = ask_for(server.port, BEFORE)?;
            let (beside, took) = remove_beside(&server, request)?;
            let _ = write!(text, "\n| {} {} | {way} |", it.name, it.version);
            for times in [quiet, beside] {
                for part in [0.99, 0.999, 1.0] {
                    let _ = write!(text, " {:.2} |", at_part(&times, part));
                }
            }
            let _ = write!(text, " {took:.2} |");
        }
    }
    Ok(text + "\n")
}

fn fill(server: &Server, members: u64) -> Result<(), String> {
    let mut connection = Connection::new(server.port)?;
    connection.add(&[b"SET", b"key", b"value"]);
    for start in (0..members).step_by(AT_ONCE as usize) {
        let names: Vec<String> = (start..members.min(start + AT_ONCE))
            .map(|number| format!("m:{:016x}", mixed(number)))
            .collect();
        let mut words = vec![&b"SADD"[..], b"large"];
        words.extend(names.iter().map(String::as_bytes));
        connection.add(&words);
        connection.send(1 + usize::from(start == 0))?;
    }
    Ok(())
}

/// Asks for a time: what each request took, in milliseconds, the shortest first.
fn ask_for(port: u16, time: Duration) -> Result<Vec<f64>, String> {
    let mut connection = Connection::new(port)?;
    let (start, mut times) = (Instant::now(), Vec::new());
    while start.elapsed() < time {
        let begin = Instant::now();
        connection.add(&[b"GET", b"key"]);
        connection.send(1)?;
        times.push(begin.elapsed().as_secs_f64() * 1000.0);
    }
    times.sort_by(f64::total_cmp);
    Ok(times)
}

/// Asks while the set goes: the times, and what the removal took.
fn remove_beside(server: &Server, request: &[&[u8]]) -> Result<(Vec<f64>, f64), String> {
    let mut remover = Connection::new(server.port)?;
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| ask_for(server.port, BESIDE));
        let begin = Instant::now();
        remover.add(request);
        remover.send(1)?;
        let took = begin.elapsed().as_secs_f64() * 1000.0;
        let times = asking.join().map_err(|_| "a client ended".to_string())??;
        Ok((times, took))
    })
}

/// The time that a part of all took at most.
fn at_part(times: &[f64], part: f64) -> f64 {
    let behind = (times.len() as f64 * part).ceil() as usize;
    times.get(behind.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::at_part;

    #[test]
    fn a_part_took_at_most_what_its_last_one_took() {
        let times: Vec<f64> = (1..=1_000).map(f64::from).collect();
        assert_eq!(at_part(&times, 0.99), 990.0);
        assert_eq!(at_part(&times, 0.999), 999.0);
        assert_eq!(at_part(&times, 1.0), 1_000.0);
        assert!(at_part(&[], 0.99).is_nan());
    }
}
