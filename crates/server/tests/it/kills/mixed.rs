//! Kills at any moment, under clients that write all types in several databases: of each client the server has done
//! what it acknowledged, perhaps some of what came behind it, and nothing else, and `check` finds nothing.
//!
//! Each client has databases of its own and a model of them. What it sends is a row of steps: one command, or a
//! transaction; commands of a pipeline may be done together, but as a prefix of them. After a kill the databases must
//! be as the model is after one of the steps from the last that was acknowledged to the last that was sent. The long
//! form:
//!
//! ```text
//! KILLS=10000 cargo test -p everleaf-server --test it kills:: -- --ignored --nocapture
//! ```
//!
//! `KILLS_SEED` gives the seed, which is printed. A folder outlives a number of kills, then a new one is begun with
//! another durability. Now and then the server is killed while it comes up, too.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::model::{Item, Model, Request, Value};
use crate::support::{Client, ServerProcess, encode, open};

const CLIENT_COUNT: u64 = 3;
/// Databases of each client.
const DATABASE_COUNT: u64 = 3;
/// What each life of a folder is told of durability, in turn.
const DURABILITIES: [&str; 4] = ["process", "power", "process", "interval"];
/// A time that does not come while this runs: the year 2100.
const FAR_MS: u64 = 4_102_444_800_000;

/// Numbers that a seed repeats (SplitMix64).
#[derive(Clone)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        everleaf::random::next(&mut self.0)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64
}

/// What is done as a whole or not at all: each request has a reply.
type Step = Vec<Request>;

/// A client that is what it sends, and what it knows to be done.
struct Writer {
    random: Random,
    /// The first of its databases.
    first: u64,
    /// As far as it was acknowledged.
    model: Model,
    /// The last that were acknowledged, to tell what went before.
    recent: VecDeque<Step>,
    /// What was sent behind that, in order.
    pending: VecDeque<Step>,
}

/// How many of the last steps are told.
const RECENT_COUNT: usize = 12;

impl Writer {
    fn new(number: u64, seed: u64) -> Self {
        let random = Random(seed.wrapping_mul(1_000_003).wrapping_add(number));
        Writer {
            random,
            first: number * DATABASE_COUNT,
            model: Model::default(),
            recent: VecDeque::new(),
            pending: VecDeque::new(),
        }
    }

    fn database(&mut self) -> String {
        (self.first + self.random.below(DATABASE_COUNT)).to_string()
    }

    /// A key of a kind, one of few.
    fn key(&mut self, kind: char) -> String {
        format!("{kind}{}", self.random.below(4))
    }

    /// Any key but those that expire soon.
    fn any_key(&mut self) -> String {
        let kind = ['t', 'n', 'h', 's', 'z', 'l'][self.random.below(6) as usize];
        self.key(kind)
    }

    fn word(&mut self) -> String {
        let word = format!("w{}", self.random.below(40));
        match self.random.below(40) {
            0 => word.repeat(1 + self.random.below(5_000) as usize),
            _ => word,
        }
    }

    fn words(&mut self) -> Vec<String> {
        let count = if self.random.below(30) == 0 { 150 } else { 3 };
        (0..1 + self.random.below(count)).map(|_| format!("m{}", self.random.below(400))).collect()
    }

    fn command(&mut self) -> Request {
        let number = (self.random.below(200) as i64 - 100).to_string();
        let line = |text: String| text.split(' ').map(str::to_string).collect::<Request>();
        match self.random.below(36) {
            0..4 => line(format!("SET {} {}", self.key('t'), self.word())),
            4 => line(format!("SET {} {} PXAT {FAR_MS}", self.key('t'), self.word())),
            5 => line(format!("SET {} {} KEEPTTL", self.key('t'), self.word())),
            6 => line(format!("APPEND {} {}", self.key('t'), self.random.below(10))),
            7 => line(format!("INCRBY {} {number}", self.key('n'))),
            8 => line(format!("MSET t0 {} t1 {}", self.word(), self.word())),
            9..12 => {
                let mut request = line(format!("HSET {}", self.key('h')));
                for field in self.words() {
                    request.extend([field, self.word()]);
                }
                request
            }
            12 => line(format!("HDEL {} m{}", self.key('h'), self.random.below(400))),
            13 => line(format!("HINCRBY {} count {number}", self.key('h'))),
            14 | 15 => [line(format!("SADD {}", self.key('s'))), self.words()].concat(),
            16 => line(format!("SREM {} m{}", self.key('s'), self.random.below(400))),
            17 => {
                let member = self.random.below(400);
                line(format!("SMOVE {} {} m{member}", self.key('s'), self.key('s')))
            }
            18 => {
                let name = ["SUNIONSTORE", "SINTERSTORE"][self.random.below(2) as usize];
                line(format!("{name} {} {} {}", self.key('s'), self.key('s'), self.key('s')))
            }
            19 | 20 => {
                let mut request = line(format!("ZADD {}", self.key('z')));
                for member in self.words() {
                    request.extend([self.random.below(50).to_string(), member]);
                }
                request
            }
            21 => line(format!("ZINCRBY {} {number} m{}", self.key('z'), self.random.below(400))),
            22 => line(format!("ZREM {} m{}", self.key('z'), self.random.below(400))),
            23 => line(format!("ZPOPMIN {}", self.key('z'))),
            24 => {
                line(format!("ZUNIONSTORE {} 2 {} {}", self.key('z'), self.key('z'), self.key('z')))
            }
            25 | 26 => {
                let side = ["LPUSH", "RPUSH"][self.random.below(2) as usize];
                [line(format!("{side} {}", self.key('l'))), self.words()].concat()
            }
            27 => line(format!(
                "{} {}",
                ["LPOP", "RPOP"][self.random.below(2) as usize],
                self.key('l')
            )),
            28 => {
                let sides =
                    ["LEFT RIGHT", "RIGHT LEFT", "LEFT LEFT"][self.random.below(3) as usize];
                line(format!("LMOVE {} {} {sides}", self.key('l'), self.key('l')))
            }
            29 => line(format!("LREM {} 0 m{}", self.key('l'), self.random.below(400))),
            30 => line(format!("LTRIM {} 0 {}", self.key('l'), self.random.below(30))),
            _ => self.command_of_keys(),
        }
    }

    /// A command of keys whatever they hold, and of databases.
    fn command_of_keys(&mut self) -> Request {
        let line = |text: String| text.split(' ').map(str::to_string).collect::<Request>();
        let key = self.any_key();
        let other = self.key(key.chars().next().unwrap());
        match self.random.below(16) {
            0..2 => line(format!("{} {key}", ["DEL", "UNLINK"][self.random.below(2) as usize])),
            2..4 => line(format!("RENAME {key} {other}")),
            4..7 => line(format!("COPY {key} {other} DB {} REPLACE", self.database())),
            7..9 => line(format!("MOVE {key} {}", self.database())),
            9 => line(format!("PEXPIREAT {key} {}", FAR_MS + self.random.below(1_000))),
            10 => line(format!("PEXPIREAT {key} 1")),
            11 => line(format!("PERSIST {key}")),
            12 => line(format!("SWAPDB {} {}", self.database(), self.database())),
            13 if self.random.below(8) == 0 => line("FLUSHDB".to_string()),
            // It is gone soon, and nothing else is done to it.
            _ => {
                let time = now_ms() + 1 + self.random.below(400);
                line(format!("SET brief{} {} PXAT {time}", self.random.below(3), self.word()))
            }
        }
    }

    fn step(&mut self) -> Step {
        let select = vec!["SELECT".to_string(), self.database()];
        if self.random.below(8) > 0 {
            return vec![select, self.command()];
        }
        let mut step = vec![select, vec!["MULTI".to_string()]];
        for _ in 0..1 + self.random.below(6) {
            step.push(match self.random.below(6) {
                0 => vec!["SELECT".to_string(), self.database()],
                _ => self.command(),
            });
        }
        step.push(vec!["EXEC".to_string()]);
        step
    }

    /// One step, or a pipeline of commands each of which is a step.
    fn steps(&mut self) -> Vec<Step> {
        if self.random.below(4) > 0 {
            return vec![self.step()];
        }
        let mut steps = vec![vec![vec!["SELECT".to_string(), self.database()]]];
        if self.random.below(3) == 0 {
            steps.extend(self.row().into_iter().map(|request| vec![request]));
            return steps;
        }
        for _ in 0..1 + self.random.below(60) {
            steps.push(vec![self.command()]);
        }
        steps
    }

    /// A row of commands of one end of a list: what it pushes is one entry, or few.
    fn row(&mut self) -> Vec<Request> {
        let key = self.key('l');
        let name = ["LPUSH", "RPUSH", "LPOP", "RPOP"][self.random.below(4) as usize];
        let mut row = Vec::new();
        for _ in 0..10 + self.random.below(60) {
            let mut request = vec![name.to_string(), key.clone()];
            if name.ends_with("PUSH") {
                request.push(format!("m{}", self.random.below(400)));
            }
            row.push(request);
        }
        row
    }

    /// Writes until the server is gone.
    fn run(&mut self, port: u16, acknowledged: &AtomicUsize) {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return };
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut replies = BufReader::new(stream.try_clone().unwrap());
        loop {
            let mut bytes = Vec::new();
            for _ in 0..1 + self.random.below(40) {
                for step in self.steps() {
                    step.iter().for_each(|request| bytes.extend(encode(request)));
                    self.pending.push_back(step);
                }
            }
            // What was written in part may have been done in part.
            if stream.write_all(&bytes).is_err() {
                return;
            }
            while let Some(step) = self.pending.front() {
                for request in step {
                    match reply(&mut replies) {
                        Ok(None) => {}
                        Ok(Some(error)) => panic!("{request:?}: {error}"),
                        Err(error) => {
                            let is_end = error.kind() != io::ErrorKind::WouldBlock;
                            assert!(is_end, "no reply to {request:?}");
                            return;
                        }
                    }
                }
                let step = self.pending.pop_front().unwrap();
                step.iter().for_each(|request| self.model.apply(request));
                self.recent.push_back(step);
                if self.recent.len() > RECENT_COUNT {
                    self.recent.pop_front();
                }
                // Relaxed: it only says when to kill.
                acknowledged.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Compares what is there, and takes it as what was done.
    fn check(&mut self, client: &mut Client) {
        let from = now_ms();
        let found: Vec<_> = (self.first..self.first + DATABASE_COUNT)
            .flat_map(|database| keys_of(client, database))
            .collect();
        let to = now_ms();
        // Which has come for sure, and which may have or not, while it was read.
        let has_come = |item: &Item| item.expiry_ms.is_some_and(|time| time <= from);
        let may_come = |item: &Item| item.expiry_ms.is_some_and(|time| from < time && time <= to);
        let is_found = |model: &Model| {
            let known = model.keys.iter().filter(|(_, item)| !has_come(item) && !may_come(item));
            known
                .eq(found.iter().filter(|(_, item)| !may_come(item)).map(|(key, item)| (key, item)))
        };
        let acknowledged = self.model.clone();
        let pending = std::mem::take(&mut self.pending);
        let mut steps = pending.iter();
        while !is_found(&self.model) {
            let Some(step) = steps.next() else {
                let differ =
                    |(key, item): &&((u64, String), Item)| acknowledged.keys.get(key) != Some(item);
                let strange: Vec<_> = found.iter().filter(differ).collect();
                let is_missing = |(key, item): &(&(u64, String), &Item)| {
                    !found.iter().any(|(found, it)| found == *key && it == *item)
                };
                let missing: Vec<_> = acknowledged.keys.iter().filter(is_missing).collect();
                panic!(
                    "differs from what was acknowledged\n found {}\n known {}\n done {}\n sent {}",
                    shown(&strange),
                    shown(&missing),
                    shown(&self.recent),
                    shown(&pending)
                );
            };
            step.iter().for_each(|request| self.model.apply(request));
        }
        self.model.keys.retain(|_, item| !has_come(item) && !may_come(item));
    }
}

/// The beginning of what may be long.
fn shown(value: &impl std::fmt::Debug) -> String {
    format!("{value:?}").chars().take(4_000).collect()
}

/// Passes over a reply. Returns the error that it is, if it is one that must not come.
fn reply(replies: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = String::new();
    replies.read_line(&mut line)?;
    if !line.ends_with("\r\n") {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let size = |line: &str| line[1..].trim_end().parse::<i64>().unwrap();
    let allowed = ["-ERR no such key", "-ERR source and destination objects are the same"];
    match line.as_bytes()[0] {
        b'+' | b':' => Ok(None),
        b'-' if allowed.contains(&line.trim_end()) => Ok(None),
        b'$' if size(&line) >= 0 => {
            let size = size(&line) as u64 + 2;
            match io::copy(&mut replies.take(size), &mut io::sink())? == size {
                true => Ok(None),
                false => Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
        b'$' => Ok(None),
        b'*' if size(&line) >= 0 => {
            for _ in 0..size(&line) {
                if let Some(error) = reply(replies)? {
                    return Ok(Some(error));
                }
            }
            Ok(None)
        }
        _ => Ok(Some(line)),
    }
}

/// The strings of a flat reply.
fn strings(reply: &str) -> Vec<String> {
    reply.split('"').skip(1).step_by(2).map(str::to_string).collect()
}

/// Everything in a database, in the order of the model.
fn keys_of(client: &mut Client, database: u64) -> Vec<((u64, String), Item)> {
    assert_eq!(client.line(&format!("SELECT {database}")), "+OK");
    let mut keys = strings(&client.line("KEYS *"));
    keys.sort();
    let mut requests = Vec::new();
    for key in &keys {
        let line = match key.as_bytes()[0] {
            b'h' => format!("HGETALL {key}"),
            b's' => format!("SMEMBERS {key}"),
            b'z' => format!("ZRANGE {key} 0 -1 WITHSCORES"),
            b'l' => format!("LRANGE {key} 0 -1"),
            _ => format!("GET {key}"),
        };
        for line in [format!("PEXPIRETIME {key}"), line] {
            requests.extend(encode(&line.split(' ').collect::<Vec<_>>()));
        }
    }
    client.send(&requests);
    let mut found = Vec::new();
    for key in keys {
        let (time, value) = (client.reply(), strings(&client.reply()));
        let time: i64 = time[1..].parse().unwrap();
        if time == -2 || value.is_empty() && time > 0 {
            // It expired meanwhile.
            continue;
        }
        let mut pairs = value.chunks(2).map(|pair| (pair[0].clone(), pair.last().unwrap().clone()));
        let value = match key.as_bytes()[0] {
            b'h' => Value::Hash(pairs.collect()),
            b's' => Value::Set(value.into_iter().collect()),
            b'z' => Value::SortedSet(
                pairs.map(|(member, score)| (member, score.parse().unwrap())).collect(),
            ),
            b'l' => Value::List(value.into()),
            _ => Value::String(pairs.next().map(|(text, _)| text).unwrap_or_default()),
        };
        found.push(((database, key), Item { value, expiry_ms: u64::try_from(time).ok() }));
    }
    found
}

/// Nothing is wrong in the pool as the kill left it: in a copy, so that the server finds it as it was left. One with
/// problems is kept.
fn check_copy(folder: &Path) {
    let copy = tempfile::tempdir().unwrap();
    copy_files(folder, copy.path());
    let store = open(&copy.path().join("test.pool"), 1 << 30);
    let mut problems = store.check().unwrap().problems;
    problems.extend(everleaf_server::check_collections(&store).unwrap().problems);
    if !problems.is_empty() {
        drop(store);
        let kept = copy.keep().join("as-it-was");
        std::fs::create_dir(&kept).unwrap();
        copy_files(folder, &kept);
        panic!("{problems:?}, kept in {}", kept.display());
    }
}

fn copy_files(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap().map(|entry| entry.unwrap()) {
        let target = to.join(entry.file_name());
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            std::fs::create_dir(&target).unwrap();
            copy_files(&entry.path(), &target);
        } else if kind.is_file() {
            std::fs::copy(entry.path(), &target).unwrap();
        }
    }
}

/// Kills a server that often, and begins anew after each life.
fn run(kill_count: u64, kills_of_life: u64, seed: u64) {
    let mut random = Random(seed);
    let (mut killed, mut life, mut steps) = (0, 0, 0);
    let begin = Instant::now();
    while killed < kill_count {
        let folder = tempfile::tempdir().unwrap();
        let durability = DURABILITIES[(seed as usize + life) % DURABILITIES.len()];
        let mut writers: Vec<_> =
            (0..CLIENT_COUNT).map(|number| Writer::new(number, random.next())).collect();
        life += 1;
        for _ in 0..kills_of_life.min(kill_count - killed) {
            if random.below(8) == 0 {
                let mut child = ServerProcess::spawn(folder.path(), "", durability);
                std::thread::sleep(Duration::from_micros(random.below(60_000)));
                child.kill().unwrap();
                child.wait().unwrap();
            }
            let server = ServerProcess::start_with(folder.path(), "", durability);
            let mut client = server.connect();
            writers.iter_mut().for_each(|writer| writer.check(&mut client));
            steps += kill_under_load(server, &mut writers, &mut random);
            check_copy(folder.path());
            killed += 1;
        }
        let server = ServerProcess::start_with(folder.path(), "", durability);
        let mut client = server.connect();
        writers.iter_mut().for_each(|writer| writer.check(&mut client));
        server.stop();
        check_copy(folder.path());
        println!(
            "{killed} kills, {steps} steps acknowledged, {:.0} s",
            begin.elapsed().as_secs_f64()
        );
    }
}

/// Returns how many steps were acknowledged.
fn kill_under_load(server: ServerProcess, writers: &mut [Writer], random: &mut Random) -> usize {
    let acknowledged = AtomicUsize::new(0);
    let port = server.port;
    std::thread::scope(|scope| {
        let threads: Vec<_> = writers
            .iter_mut()
            .map(|writer| scope.spawn(|| writer.run(port, &acknowledged)))
            .collect();
        let enough = random.below(600) as usize;
        // Relaxed: any moment will do.
        while acknowledged.load(Ordering::Relaxed) < enough
            && !threads.iter().any(|it| it.is_finished())
        {
            std::thread::sleep(Duration::from_micros(50));
        }
        std::thread::sleep(Duration::from_micros(random.below(3_000)));
        server.kill();
    });
    acknowledged.into_inner()
}

fn seed() -> u64 {
    let given = std::env::var("KILLS_SEED").ok().map(|seed| seed.parse().unwrap());
    let seed = given.unwrap_or_else(|| now_ms() ^ u64::from(std::process::id()) << 32);
    println!("KILLS_SEED={seed}");
    seed
}

#[test]
fn what_was_acknowledged_survives_kills_at_any_moment() {
    run(8, 2, seed());
}

#[test]
#[ignore = "a long run: as many kills as KILLS says"]
fn very_many_kills_lose_nothing_that_was_acknowledged() {
    let count = std::env::var("KILLS").map_or(10_000, |count| count.parse().unwrap());
    run(count, 50, seed());
}

/// The comparison itself: whatever is changed behind the clients' backs is found.
#[test]
fn what_differs_from_the_model_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random(seed());
    let mut writers = [Writer::new(0, random.next())];
    let start = || ServerProcess::start(folder.path(), "");
    while writers[0].model.keys.len() < 20 {
        kill_under_load(start(), &mut writers, &mut random);
    }
    let server = start();
    let mut client = server.connect();
    writers[0].check(&mut client);
    let mut keys = writers[0].model.keys.keys().cloned();
    let (database, key) = keys.find(|(_, key)| !key.starts_with("brief")).unwrap();
    let select = format!("SELECT {database}");
    for change in [
        format!("SET {key} other"),
        format!("DEL {key}"),
        format!("PEXPIREAT {key} 4102444900000"),
        format!("RENAME {key} new"),
        "SADD new m".to_string(),
        "SWAPDB 0 1".to_string(),
    ] {
        let back = format!("COPY {key} kept DB 15 REPLACE");
        [&*select, &*back, &*change].iter().for_each(|line| drop(client.line(line)));
        let noticed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            writers[0].check(&mut client);
        }));
        assert!(noticed.is_err(), "{change}");
        // As it was.
        let restore = match change.starts_with("SWAPDB") {
            true => vec!["SWAPDB 0 1".to_string()],
            false => vec![
                select.clone(),
                "DEL new".to_string(),
                "SELECT 15".to_string(),
                format!("COPY kept {key} DB {database} REPLACE"),
            ],
        };
        restore.iter().for_each(|line| drop(client.line(line)));
        writers[0].check(&mut client);
    }
    server.stop();
}
