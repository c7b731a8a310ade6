//! Whether the target holds what the source does.

use super::super::arguments::ImportArgs;
use super::super::clock::may_have_expired;
use super::super::comparison::NAMED_COUNT_MAX;
use super::super::item::Item;
use super::super::live::Live;
use super::super::refusal::shown;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::output::counted;
use crate::progress::Progress;
use crate::redis::address::Address;
use crate::redis::client::{Client, Reply};
use crate::redis::log_in;
use everleaf_server::transfer::{Entry, Extent, Value, is_newer, value_of_payload};
use std::io;
use std::time::Duration;

/// Keys that are asked for together, and bytes of them and of what they hold: neither side waits then for the
/// other to read, and few values are held.
const GROUP_LENGTH: usize = 32;
const GROUP_SIZE: usize = 16 << 10;
/// Members of a collection that are asked for together.
const MEMBER_COUNT_MAX: usize = 1000;

/// The side of the target.
struct Side {
    client: Client,
    place: String,
    database: u64,
    /// Keys of the source that were not asked for.
    waiting: Vec<(Vec<u8>, Entry)>,
    waiting_size: usize,
    /// How much the times that the source tells may be off.
    slack_ms: u64,
    /// Of a collection that comes in pieces: its type's command that counts, and whether it was the same so far.
    pieces: (&'static [u8], bool),
    compared: u64,
    different: u64,
    named: Vec<String>,
}

/// Compares all keys of a source with the target's; returns how many.
///
/// # Errors
/// Some differ, or a server cannot be read.
pub fn run(
    source: &Address,
    target: &Address,
    args: &ImportArgs,
    keys: u64,
    show: bool,
) -> Result<u64, Failure> {
    let (cacert, patience) = (args.cacert.as_deref(), Duration::from_secs(args.timeout));
    let mut live = Live::connect(source, cacert, patience, args.whole_size_max)?;
    let place = target.place();
    let connected = Client::connect(target, cacert, patience);
    let mut client = connected.map_err(|error| fail(&place, &error))?;
    log_in(&mut client, target)?;
    let mut side = Side {
        client,
        place,
        database: 0,
        waiting: Vec::new(),
        waiting_size: 0,
        slack_ms: 0,
        pieces: (b"EXISTS", true),
        compared: 0,
        different: 0,
        named: Vec::new(),
    };
    let progress = Progress::pairs(show, "comparing", keys);
    live.each(&mut |item| {
        side.take(item)?;
        progress.set(side.compared);
        Ok(())
    })?;
    side.ask()?;
    drop(progress);
    let mut theirs = Live::connect(target, cacert, patience, args.whole_size_max)?;
    let more = theirs.more_than(&mut live)?;
    if side.different == 0 && more == 0 {
        return Ok(side.compared);
    }
    let which = match side.named.is_empty() {
        true => String::new(),
        false => format!(" ({})", side.named.join(", ")),
    };
    Err(Failure::not_found(format!(
        "{} of the source differ from the target's{which}, and the target has {} more: let nobody write to either \
         meanwhile; with --follow SECONDS the source is followed until it has been silent for so long",
        counted(side.different, "key"),
        counted(more, "key"),
    )))
}

impl Side {
    fn take(&mut self, item: Item) -> Result<(), Failure> {
        match item {
            Item::Key { database, key, entry, slack_ms, .. } => {
                self.slack_ms = slack_ms;
                self.select(database)?;
                let size = 2 * key.len() + entry.value.size();
                if self.waiting_size + size > GROUP_SIZE {
                    self.ask()?;
                }
                self.waiting_size += size;
                self.waiting.push((key, entry));
                let is_full = self.waiting.len() >= GROUP_LENGTH || self.waiting_size > GROUP_SIZE;
                if is_full { self.ask() } else { Ok(()) }
            }
            Item::Unsupported { .. } | Item::Empty => Ok(()),
            Item::Begin { database, .. } => {
                self.select(database)?;
                self.pieces = (b"EXISTS", true);
                Ok(())
            }
            Item::Members { key, first, members, .. } => self.members(&key, first, members),
            Item::End { key, extent, slack_ms, .. } => {
                self.slack_ms = slack_ms;
                self.end(&key, extent)
            }
        }
    }

    fn select(&mut self, database: u64) -> Result<(), Failure> {
        if self.database == database {
            return Ok(());
        }
        self.ask()?;
        self.database = database;
        self.request(&[b"SELECT", database.to_string().as_bytes()]).map(drop)
    }

    /// Asks for the keys that wait.
    fn ask(&mut self) -> Result<(), Failure> {
        let waiting = std::mem::take(&mut self.waiting);
        self.waiting_size = 0;
        for (key, _) in &waiting {
            self.client.add(&[b"DUMP", key]);
            self.client.add(&[b"PEXPIRETIME", key]);
        }
        self.client.send().map_err(|error| fail(&self.place, &error))?;
        let mut others = Vec::new();
        for (key, entry) in waiting {
            let (payload, time) = (self.reply()?, self.reply()?);
            let found = match payload {
                Reply::Text(payload) => match value_of_payload(&payload) {
                    Ok(value) => Some(value),
                    Err(_) if is_newer(&payload) => {
                        others.push((key, entry));
                        continue;
                    }
                    Err(what) => {
                        let key = shown(self.database, &key);
                        return Err(self.cannot_compare(&format!("of {key} it sends {what}")));
                    }
                },
                Reply::Error(error) => return Err(self.cannot_compare(&error)),
                _ => None,
            };
            let is_same = found.is_some_and(|found| found.sorted() == entry.value.sorted())
                && is_time(&time, entry.expiry_ms, self.slack_ms);
            self.judge(&key, is_same || may_have_expired(entry.expiry_ms, self.slack_ms));
        }
        others.into_iter().try_for_each(|(key, entry)| self.ask_by_type(&key, entry))
    }

    /// Asks for a key by the commands of its type, where nobody here knows what `DUMP` tells.
    fn ask_by_type(&mut self, key: &[u8], entry: Entry) -> Result<(), Failure> {
        let Entry { value, expiry_ms } = entry;
        let count = value.count();
        if let Value::String(value) = value {
            let is_same = self.request(&[b"GET", key])? == Reply::Text(value);
            let time = self.request(&[b"PEXPIRETIME", key])?;
            let is_same = is_same && is_time(&time, expiry_ms, self.slack_ms);
            self.judge(key, is_same || may_have_expired(expiry_ms, self.slack_ms));
            return Ok(());
        }
        self.pieces = (b"EXISTS", true);
        let mut first = 0;
        for members in pieces_of(&value) {
            let length = members.count();
            self.members(key, first, members)?;
            first += length;
        }
        self.end(key, Extent { count, expiry_ms })
    }

    fn members(&mut self, key: &[u8], first: u64, members: Value) -> Result<(), Failure> {
        let (count, ask): (&'static [u8], &[u8]) = match members {
            Value::List(_) | Value::String(_) => (b"LLEN", b"LRANGE"),
            Value::Set(_) => (b"SCARD", b"SMISMEMBER"),
            Value::Hash(_) => (b"HLEN", b"HMGET"),
            Value::SortedSet(_) => (b"ZCARD", b"ZMSCORE"),
        };
        let text = |text: &[u8]| Reply::Text(text.to_vec());
        let (asked, expected): (Vec<Vec<u8>>, Vec<Reply>) = match &members {
            Value::String(_) => (Vec::new(), Vec::new()),
            Value::List(elements) => {
                let last = first + elements.len() as u64 - 1;
                let range = [first.to_string().into_bytes(), last.to_string().into_bytes()];
                (range.to_vec(), elements.iter().map(|it| text(it)).collect())
            }
            Value::Set(members) => (members.clone(), vec![Reply::Number(1); members.len()]),
            Value::Hash(fields) => {
                fields.iter().map(|(it, value)| (it.clone(), text(value))).unzip()
            }
            Value::SortedSet(members) => members
                .iter()
                .map(|(it, score)| (it.clone(), text(score.to_string().as_bytes())))
                .unzip(),
        };
        let mut request: Vec<&[u8]> = vec![ask, key];
        request.extend(asked.iter().map(Vec::as_slice));
        let is_same = match self.request(&request)? {
            Reply::Array(found) if matches!(members, Value::SortedSet(_)) => {
                found.len() == expected.len()
                    && found.iter().zip(&expected).all(|(a, b)| score_of(a) == score_of(b))
            }
            Reply::Array(found) => found == expected,
            _ => false,
        };
        self.pieces = (count, self.pieces.1 && is_same);
        Ok(())
    }

    fn end(&mut self, key: &[u8], extent: Extent) -> Result<(), Failure> {
        let count = self.request(&[self.pieces.0, key])?;
        let time = self.request(&[b"PEXPIRETIME", key])?;
        let is_same = self.pieces.1 && count == Reply::Number(extent.count as i64);
        let is_gone = extent.count == 0 && count == Reply::Number(0);
        let is_same = is_gone || is_same && is_time(&time, extent.expiry_ms, self.slack_ms);
        self.judge(key, is_same || may_have_expired(extent.expiry_ms, self.slack_ms));
        Ok(())
    }

    fn cannot_compare(&self, why: &str) -> Failure {
        let message = format!(
            "{}: {why}. All is copied, and was not compared: --no-verify does without",
            self.place
        );
        Failure::new(ExitCode::Io, message)
    }

    fn judge(&mut self, key: &[u8], is_same: bool) {
        self.compared += 1;
        if !is_same {
            self.different += 1;
            if self.named.len() < NAMED_COUNT_MAX {
                self.named.push(shown(self.database, key));
            }
        }
    }

    fn request(&mut self, args: &[&[u8]]) -> Result<Reply, Failure> {
        self.client.ask(args).map_err(|error| fail(&self.place, &error))
    }

    fn reply(&mut self) -> Result<Reply, Failure> {
        self.client.reply().map_err(|error| fail(&self.place, &error))
    }
}

/// Whether a reply to `PEXPIRETIME` is this time; a target that does not know the command is believed.
fn is_time(reply: &Reply, expiry_ms: Option<u64>, slack_ms: u64) -> bool {
    match reply {
        Reply::Number(time) => match (u64::try_from(*time).ok(), expiry_ms) {
            (Some(here), Some(there)) => here.abs_diff(there) <= slack_ms,
            (here, there) => here == there,
        },
        Reply::Error(error) => error.starts_with("ERR unknown command"),
        _ => false,
    }
}

/// A collection in pieces of so many members as are asked for together.
fn pieces_of(value: &Value) -> Vec<Value> {
    fn cut<T: Clone>(items: &[T], piece: fn(Vec<T>) -> Value) -> Vec<Value> {
        items.chunks(MEMBER_COUNT_MAX).map(|items| piece(items.to_vec())).collect()
    }
    match value {
        Value::String(_) => Vec::new(),
        Value::List(elements) => cut(elements, Value::List),
        Value::Set(members) => cut(members, Value::Set),
        Value::Hash(fields) => cut(fields, Value::Hash),
        Value::SortedSet(members) => cut(members, Value::SortedSet),
    }
}

fn score_of(reply: &Reply) -> Option<f64> {
    let Reply::Text(text) = reply else { return None };
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn fail(place: &str, error: &io::Error) -> Failure {
    Failure::new(ExitCode::Io, format!("{place} cannot be used: {error}"))
}
