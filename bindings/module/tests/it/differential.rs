//! Random commands against a model, with reloads in between.

use std::collections::BTreeMap;
use std::ops::Bound;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use redis::{Connection, Value};

use crate::server::{Server, ask_bytes, digest, seed, setting, tell};

const KEYS: usize = 6;
/// A time that does not come while the test runs.
const FAR: u64 = 4_000_000_000_000;

#[derive(Clone, Debug, PartialEq)]
struct Stored {
    value: Vec<u8>,
    expiry: u64,
}

type Map = BTreeMap<Vec<u8>, Stored>;

struct Model {
    maps: Vec<Map>,
}

fn bulk(bytes: &[u8]) -> Value {
    Value::BulkString(bytes.to_vec())
}

fn optional(value: Option<&Stored>) -> Value {
    value.map_or(Value::Nil, |stored| bulk(&stored.value))
}

fn flat<'a>(entries: impl Iterator<Item = (&'a Vec<u8>, &'a Stored)>, values: bool) -> Value {
    let mut all = vec![];
    for (name, stored) in entries {
        all.push(bulk(name));
        if values {
            all.push(bulk(&stored.value));
        }
    }
    Value::Array(all)
}

struct Run {
    random: StdRng,
    model: Model,
    connection: Connection,
    /// Names that are drawn from: so many, in maps of different sizes.
    names: usize,
}

impl Run {
    fn name(&mut self) -> Vec<u8> {
        let number = self.random.random_range(0..self.names);
        match number % 5 {
            0 => format!("n{number}").into_bytes(),
            1 => (number as u32).to_be_bytes().to_vec(),
            2 => vec![b'a'; number % 60],
            3 => [vec![0xFF; number % 9], number.to_string().into_bytes()].concat(),
            _ => format!("{:x}/{:o}", number * 7919, number).into_bytes(),
        }
    }

    fn value(&mut self) -> Vec<u8> {
        if self.random.random_ratio(1, 4) {
            return self.random.random_range(-99..99).to_string().into_bytes();
        }
        let longest = if self.random.random_ratio(1, 100) { 9000 } else { 30 };
        let size = self.random.random_range(0..longest);
        vec![self.random.random(); size]
    }

    fn check(&mut self, words: &[&[u8]], expected: Value) {
        let answer = ask_bytes::<Value>(&mut self.connection, words);
        let shown: Vec<_> = words.iter().map(|word| word.escape_ascii().to_string()).collect();
        match answer {
            Ok(answer) => assert!(answer == expected, "{shown:?}: {answer:?}, not {expected:?}"),
            Err(error) => {
                let said = matches!(&expected, Value::SimpleString(text) if error.to_string().contains(text));
                assert!(said, "{shown:?}: {error}, not {expected:?}");
            }
        }
    }

    fn write(&mut self, at: usize, key: &[u8]) {
        let (name, value) = (self.name(), self.value());
        let map = &mut self.model.maps[at];
        let old = map.get(&name).cloned();
        match self.random.random_range(0..12) {
            0..4 => {
                map.insert(name.clone(), Stored { value: value.clone(), expiry: 0 });
                self.check(&[b"EL.PUT", key, &name, &value], Value::Int(i64::from(old.is_none())));
            }
            4 => {
                let only_new = self.random.random();
                let allowed = old.is_none() == only_new;
                let expiry = old.as_ref().map_or(0, |old| old.expiry);
                if allowed {
                    map.insert(name.clone(), Stored { value: value.clone(), expiry });
                }
                let option: &[u8] = if only_new { b"NX" } else { b"XX" };
                let answer = if allowed { Value::Int(i64::from(only_new)) } else { Value::Nil };
                self.check(&[b"EL.PUT", key, &name, &value, option, b"KEEPTTL"], answer);
            }
            5 => {
                let expiry = FAR + self.random.random_range(0..1000);
                map.insert(name.clone(), Stored { value: value.clone(), expiry });
                let time = expiry.to_string();
                let words: [&[u8]; 6] = [b"EL.PUT", key, &name, &value, b"PXAT", time.as_bytes()];
                self.check(&words, Value::Int(i64::from(old.is_none())));
            }
            6 | 7 => {
                map.remove(&name);
                self.check(&[b"EL.DEL", key, &name], Value::Int(i64::from(old.is_some())));
            }
            8 => {
                let hit = self.random.random();
                let expected = match &old {
                    Some(old) if hit => old.value.clone(),
                    _ => b"something else".to_vec(),
                };
                let matches = old.as_ref().is_some_and(|old| old.value == expected);
                if matches && let Some(stored) = map.get_mut(&name) {
                    stored.value = value.clone();
                }
                let words: [&[u8]; 5] = [b"EL.CAS", key, &name, &expected, &value];
                self.check(&words, Value::Int(i64::from(matches)));
            }
            9 => self.increment(at, key, name, old),
            10 => {
                let is_over = self.random.random_ratio(1, 4);
                let expiry = if is_over { 5000 } else { FAR };
                if is_over {
                    map.remove(&name);
                } else if let Some(stored) = map.get_mut(&name) {
                    stored.expiry = expiry;
                }
                let time = (expiry / 1000).to_string();
                let words: [&[u8]; 4] = [b"EL.EXPIREAT", key, time.as_bytes(), &name];
                self.check(&words, Value::Int(i64::from(old.is_some())));
            }
            _ => {
                let had = old.is_some_and(|old| old.expiry != 0);
                if let Some(stored) = map.get_mut(&name) {
                    stored.expiry = 0;
                }
                self.check(&[b"EL.PERSIST", key, &name], Value::Int(i64::from(had)));
            }
        }
    }

    fn increment(&mut self, at: usize, key: &[u8], name: Vec<u8>, old: Option<Stored>) {
        let amount: i64 = self.random.random_range(-50..50);
        let text = old.as_ref().map_or(Some("0"), |old| std::str::from_utf8(&old.value).ok());
        let number =
            text.and_then(|text| text.parse::<i64>().ok().filter(|n| n.to_string() == text));
        let answer = match number {
            Some(number) => {
                let expiry = old.map_or(0, |old| old.expiry);
                let value = (number + amount).to_string().into_bytes();
                self.model.maps[at].insert(name.clone(), Stored { value, expiry });
                Value::Int(number + amount)
            }
            None => Value::SimpleString("not an integer".into()),
        };
        self.check(&[b"EL.INCRBY", key, &name, amount.to_string().as_bytes()], answer);
    }

    fn read(&mut self, at: usize, key: &[u8]) {
        let (name, other) = (self.name(), self.name());
        let map = self.model.maps[at].clone();
        let bytes = |mark: &[u8], name: &[u8]| [mark, name].concat();
        match self.random.random_range(0..8) {
            0 => self.check(&[b"EL.GET", key, &name], optional(map.get(&name))),
            1 => {
                let answer = vec![optional(map.get(&name)), optional(map.get(&other))];
                self.check(&[b"EL.MGET", key, &name, &other], Value::Array(answer));
            }
            2 => {
                let bounds = (Bound::Excluded(&name), Bound::Included(&other));
                let is_empty = name >= other;
                let entries = || map.range::<Vec<u8>, _>(bounds);
                let limit = self.random.random_range(0..50);
                let forward =
                    if is_empty { Value::Array(vec![]) } else { flat(entries().take(limit), true) };
                let back =
                    if is_empty { Value::Array(vec![]) } else { flat(entries().rev(), false) };
                let (from, to) = (bytes(b"(", &name), bytes(b"[", &other));
                let limit = limit.to_string();
                self.check(&[b"EL.RANGE", key, &from, &to, b"LIMIT", limit.as_bytes()], forward);
                self.check(&[b"EL.RANGE", key, &from, &to, b"REV", b"NOVALUES"], back);
                let count = if is_empty { 0 } else { map.range::<Vec<u8>, _>(bounds).count() };
                self.check(&[b"EL.COUNT", key, &from, &to], Value::Int(count as i64));
            }
            3 => {
                let prefix = &name[..name.len().min(2)];
                let found = map.iter().filter(|(name, _)| name.starts_with(prefix));
                self.check(&[b"EL.PREFIX", key, prefix], flat(found, true));
            }
            4 => self.check(&[b"EL.COUNT", key], Value::Int(map.len() as i64)),
            5 => {
                let pair = |found: Option<(&Vec<u8>, &Stored)>| match found {
                    Some(found) => flat(std::iter::once(found), true),
                    None => Value::Nil,
                };
                self.check(
                    &[b"EL.FLOOR", key, &name],
                    pair(map.range::<Vec<u8>, _>(..=name.clone()).next_back()),
                );
                self.check(
                    &[b"EL.CEILING", key, &name],
                    pair(map.range::<Vec<u8>, _>(name.clone()..).next()),
                );
            }
            6 => {
                let time = map.get(&name).map_or(-2, |stored| match stored.expiry {
                    0 => -1,
                    time => time as i64,
                });
                self.check(&[b"EL.PEXPIRETIME", key, &name], Value::Int(time));
            }
            _ => {
                let after = map.range::<Vec<u8>, _>((Bound::Excluded(&name), Bound::Unbounded));
                let found: Vec<_> = after.take(7).collect();
                let cursor = match found.get(6) {
                    Some((last, _)) => bytes(b">", last),
                    None => b"0".to_vec(),
                };
                let answer = Value::Array(vec![bulk(&cursor), flat(found.into_iter(), true)]);
                self.check(&[b"EL.SCAN", key, &bytes(b">", &name), b"COUNT", b"7"], answer);
            }
        }
    }

    fn whole_keys(&mut self, at: usize, key: &[u8]) {
        let to = self.random.random_range(0..KEYS);
        let other = format!("key{to}").into_bytes();
        match self.random.random_range(0..4) {
            0 => {
                let was = !self.model.maps[at].is_empty();
                self.model.maps[at].clear();
                self.check(&[b"UNLINK", key], Value::Int(i64::from(was)));
            }
            1 if to != at => {
                let copied = !self.model.maps[at].is_empty();
                if copied {
                    self.model.maps[to] = self.model.maps[at].clone();
                }
                self.check(&[b"COPY", key, &other, b"REPLACE"], Value::Int(i64::from(copied)));
            }
            2 if to != at && !self.model.maps[at].is_empty() => {
                self.model.maps[to] = std::mem::take(&mut self.model.maps[at]);
                self.check(&[b"RENAME", key, &other], Value::Okay);
            }
            _ => {
                let dumped: Value =
                    ask_bytes(&mut self.connection, &[b"DUMP", key]).expect("DUMP answers");
                if let Value::BulkString(payload) = dumped {
                    let words: [&[u8]; 5] = [b"RESTORE", key, b"0", &payload, b"REPLACE"];
                    self.check(&words, Value::Okay);
                } else {
                    assert!(self.model.maps[at].is_empty());
                }
            }
        }
    }
}

#[test]
fn random_commands_answer_as_the_model() {
    let server = Server::start(&[]);
    let model = Model { maps: vec![Map::new(); KEYS] };
    let random = StdRng::seed_from_u64(seed());
    let mut run = Run { random, model, connection: server.connect(), names: 300 };
    let count = setting("EVERLEAF_COMMANDS", 60_000);
    for step in 0..count {
        run.names = [20, 300, 4000][(step / 5000) as usize % 3];
        let at = run.random.random_range(0..KEYS);
        let key = format!("key{at}").into_bytes();
        match run.random.random_range(0..400) {
            0..240 => run.write(at, &key),
            240..399 => run.read(at, &key),
            _ => run.whole_keys(at, &key),
        }
        if step % 10_000 == 9_999 {
            let before = digest(&mut run.connection);
            tell(&mut run.connection, &["DEBUG", "RELOAD"]);
            assert_eq!(digest(&mut run.connection), before);
        }
    }
    for at in 0..KEYS {
        let key = format!("key{at}").into_bytes();
        let all = flat(run.model.maps[at].iter(), true);
        run.check(&[b"EL.RANGE", &key, b"-", b"+"], all);
    }
    println!("{count} random commands");
}
