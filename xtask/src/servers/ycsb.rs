//! The six mixes of YCSB, with the commands of its client for Redis: a record is a hash of ten fields, and its name has
//! its number as its score in the sorted set `_indices`.
//!
//! Each mix begins with servers of its own that have all records, so that none works on what another has made, and is
//! asked of everybody in turn, some rounds long. Records are drawn by ranks, few of them often (1 / rank, cut off); the
//! ranks are scattered over all records, but for D, where the latest record has the first rank: it reads what was
//! inserted just before.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::client::{Connection, Figures, Row, medians, mixed, together};
use super::commands::ROUNDS;
use super::contender::{Contender, Folder, Server};
use super::sections::{start_all, table};

/// Records that there are before a mix begins, its clients, and how long a round is.
const RECORDS: u64 = 100_000;
const CLIENTS: usize = 16;
const TIME: Duration = Duration::from_millis(1500);

/// The records of a server: those below a number are there.
#[derive(Debug)]
struct Records {
    next: u64,
    /// Numbers of those that are being inserted.
    pending: BTreeSet<u64>,
}

impl Records {
    /// The number of a record that is inserted now.
    fn begin(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        self.pending.insert(number);
        number
    }

    /// That one is there.
    fn finish(&mut self, number: u64) {
        self.pending.remove(&number);
    }

    /// All records below this number are there.
    fn end(&self) -> u64 {
        self.pending.first().copied().unwrap_or(self.next)
    }
}

/// A rank below [`RECORDS`], low ones more often than high ones: as 1 / rank.
fn rank_of(drawn: u64) -> u64 {
    let part = (drawn >> 11) as f64 / (1u64 << 53) as f64;
    (RECORDS as f64).powf(part) as u64 % RECORDS
}

/// The record that is read or written: of the latest ones in `D`.
fn record_of(mix: char, drawn: u64, end: u64) -> u64 {
    let rank = rank_of(drawn);
    match mix {
        // The rank of the latest is 1.
        'D' => end - rank.max(1),
        _ => mixed(rank) % RECORDS,
    }
}

fn key_of(record: u64) -> String {
    format!("user{record:016}")
}

fn fields() -> Vec<(String, Vec<u8>)> {
    (0..10).map(|field| (format!("field{field}"), vec![b'v'; 100])).collect()
}

fn insert(connection: &mut Connection, record: u64, fields: &[(String, Vec<u8>)]) {
    let key = key_of(record);
    let mut words = vec![&b"HMSET"[..], key.as_bytes()];
    words.extend(fields.iter().flat_map(|(name, value)| [name.as_bytes(), value]));
    connection.add(&words);
    connection.add(&[b"ZADD", b"_indices", record.to_string().as_bytes(), key.as_bytes()]);
}

fn read(connection: &mut Connection, record: u64) -> Result<(), String> {
    connection.add(&[b"HGETALL", key_of(record).as_bytes()]);
    connection.send(1).map(drop)
}

fn update(
    connection: &mut Connection,
    record: u64,
    fields: &[(String, Vec<u8>)],
) -> Result<(), String> {
    connection.add(&[b"HMSET", key_of(record).as_bytes(), fields[0].0.as_bytes(), &fields[0].1]);
    connection.send(1).map(drop)
}

/// Finds the names of records, then reads each.
fn scan(connection: &mut Connection, record: u64, count: u64) -> Result<(), String> {
    let (from, count) = (record.to_string(), count.to_string());
    let range = [&b"ZRANGEBYSCORE"[..], b"_indices", from.as_bytes(), b"+inf"];
    connection.add(&[&range[..], &[b"LIMIT", b"0", count.as_bytes()]].concat());
    for key in connection.send(1)? {
        connection.add(&[b"HGETALL", &key]);
        connection.send(1)?;
    }
    Ok(())
}

/// A step of a mix, as YCSB's client for Redis asks.
fn step(
    connection: &mut Connection,
    mix: char,
    drawn: u64,
    fields: &[(String, Vec<u8>)],
    records: &Mutex<Records>,
) -> Result<(), String> {
    let records = || records.lock().unwrap_or_else(PoisonError::into_inner);
    let record = record_of(mix, drawn, records().end());
    let read_share = match mix {
        'A' | 'F' => 50,
        'C' => 100,
        _ => 95,
    };
    let is_read = mixed(drawn ^ 0x5555) % 100 < read_share;
    match mix {
        'E' if is_read => scan(connection, record, 1 + mixed(drawn ^ 9) % 100),
        _ if is_read => read(connection, record),
        'D' | 'E' => {
            let record = records().begin();
            insert(connection, record, fields);
            connection.send(2)?;
            records().finish(record);
            Ok(())
        }
        'F' => {
            read(connection, record)?;
            update(connection, record, fields)
        }
        _ => update(connection, record, fields),
    }
}

fn load(server: &Server, fields: &[(String, Vec<u8>)]) -> Result<(), String> {
    let mut connection = Connection::new(server.port)?;
    for start in (0..RECORDS).step_by(100) {
        (start..start + 100).for_each(|record| insert(&mut connection, record, fields));
        connection.send(200)?;
    }
    Ok(())
}

/// Everybody's figures of a mix.
fn row(contenders: &[Contender], mix: char) -> Result<Row, String> {
    let (folder, fields) = (Folder::new()?, fields());
    let servers = start_all(contenders, &folder)?;
    servers.iter().try_for_each(|server| load(server, &fields))?;
    let new = || Mutex::new(Records { next: RECORDS, pending: BTreeSet::new() });
    let records: Vec<Mutex<Records>> = servers.iter().map(|_| new()).collect();
    let mut found: Vec<Vec<Vec<(String, Figures)>>> = servers.iter().map(|_| vec![]).collect();
    for round in 0..ROUNDS {
        for turn in 0..servers.len() {
            let index = (turn + round) % servers.len();
            let of_round = mixed(round as u64);
            let figures = together(servers[index].port, CLIENTS, TIME, |connection, number| {
                step(connection, mix, mixed(number ^ of_round), &fields, &records[index])
            })?;
            found[index].push(vec![(mix.to_string(), figures)]);
        }
    }
    let figures = found.iter().map(|rounds| medians(rounds)[&mix.to_string()]).collect();
    Ok((mix.to_string(), figures))
}

/// The section of the six mixes.
pub fn section(contenders: &[Contender]) -> Result<String, String> {
    let rows = ('A'..='F').map(|mix| row(contenders, mix)).collect::<Result<Vec<Row>, String>>()?;
    Ok(format!(
        "## YCSB\n\nThe mixes A to F with the commands of its client (HMSET of ten fields of 100 bytes and ZADD to \
         `_indices`; HGETALL; ZRANGEBYSCORE and HGETALL of each): {RECORDS} records, drawn as 1 / rank, in D from the \
         latest on, {CLIENTS} clients that wait for each reply; medians of {ROUNDS} rounds of {} ms in turn, each mix \
         with servers of its own.\n\n{}",
        TIME.as_millis(),
        table(contenders, &rows, 1.5)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// D read records that were drawn as those of the other mixes, and none that had been inserted.
    #[test]
    fn the_latest_records_are_read_most_where_that_is_asked() {
        let mut records = Records { next: RECORDS, pending: BTreeSet::new() };
        let inserted: Vec<u64> = (0..1000).map(|_| records.begin()).collect();
        assert_eq!(records.end(), RECORDS);
        records.finish(inserted[1]);
        assert_eq!(records.end(), RECORDS, "one before it is not there yet");
        inserted.iter().for_each(|number| records.finish(*number));
        assert_eq!(records.end(), RECORDS + 1000);
        let drawn =
            |mix| (0..10_000).map(move |number| record_of(mix, mixed(number), RECORDS + 1000));
        let latest = drawn('D').filter(|record| *record >= RECORDS).count();
        // log(1000) of log(100,000).
        assert!((5_500..6_500).contains(&latest), "{latest}");
        assert!(drawn('D').all(|record| (1000..RECORDS + 1000).contains(&record)));
        assert!(drawn('A').all(|record| record < RECORDS));
    }
}
