//! The keys of a server that runs: `SCAN`, and of the keys that it shows `DUMP` and the time.
//!
//! What is large is read in pieces. So is everything of a server whose `DUMP` is of a newer format than is known here;
//! its strings by `GET`.

use super::clock;
use super::item::Item;
use super::kind::Kind;
use super::refusal::{refused, shown};
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::output::remark;
use crate::redis::address::Address;
use crate::redis::client::{Client, Reply};
use crate::redis::layout::Layout;
use crate::redis::log_in;
use everleaf_server::transfer::{
    Entry, Value, is_newer, is_too_large, is_unsupported, value_of_payload,
};
use std::io;
use std::path::Path;
use std::time::Duration;

/// Keys that are asked for at once, and of which all is asked at once.
const SCAN_COUNT: &[u8] = b"1000";
const GROUP_LENGTH: usize = 64;
/// Bytes of the keys of such a group, about.
const GROUP_SIZE: usize = 16 << 10;
/// Bytes of what keys hold that is asked for at once, about: a server makes all replies before it sends one, of its own
/// memory.
const RUN_SIZE: u64 = 16 << 20;
/// What a key is taken to hold of which the server does not tell.
const SIZE_UNKNOWN: u64 = RUN_SIZE / GROUP_LENGTH as u64;
/// What is told in place of the time of a key that is not there.
const GONE: i64 = -2;

/// Databases with the numbers of their keys.
type Databases = Vec<(u64, Option<u64>)>;

/// A server.
pub struct Live {
    client: Client,
    place: String,
    /// As far as it tells.
    databases: Databases,
    /// Only the one that the address names.
    is_one_database: bool,
    /// Whether it knows `PEXPIRETIME` (7.0).
    tells_moments: bool,
    /// How much the moments that are told may be off: of a server that tells how long keys have to live, the longest
    /// time that such an answer took so far.
    pub(super) slack_ms: u64,
    /// Collections that take more of its memory are read in pieces.
    whole_size_max: u64,
    /// Whether it may know times of fields (7.4).
    pub(super) may_know_field_times: bool,
}

/// A key, and how much it holds, about.
type SizedKey = (Vec<u8>, u64);
/// A key that is read by the commands of its type: a collection of this kind, or a string.
type ByType = (Vec<u8>, Option<Kind>);

/// What is done with the names of some keys of a database, which is selected.
type SeeGroup<'a> = dyn FnMut(&mut Live, u64, &[Vec<u8>]) -> Result<(), Failure> + 'a;

impl Live {
    /// Connects, and asks what there is.
    pub fn connect(
        address: &Address,
        cacert: Option<&Path>,
        patience: Duration,
        whole_size_max: u64,
    ) -> Result<Self, Failure> {
        let place = address.place();
        let mut client =
            Client::connect(address, cacert, patience).map_err(|error| fail(&place, &error))?;
        log_in(&mut client, address)?;
        let mut live = Live {
            client,
            place,
            databases: Vec::new(),
            is_one_database: address.database.is_some(),
            tells_moments: true,
            slack_ms: 0,
            whole_size_max,
            may_know_field_times: true,
        };
        let known = live.databases_told()?;
        live.databases = match address.database {
            Some(database) => {
                let count = known.iter().flatten().find(|(number, _)| *number == database);
                vec![(database, count.and_then(|(_, count)| *count))]
            }
            None => known.ok_or_else(|| live.untold())?,
        };
        let moment = live.ask(&[b"PEXPIRETIME", b"everleaf-import-asks"])?;
        // Of a cluster another server may have the key: the command is known all the same.
        live.tells_moments = match moment {
            Reply::Error(error) => error.starts_with("MOVED ") || error.starts_with("ASK "),
            _ => true,
        };
        Ok(live)
    }

    /// How many keys there are, if it told.
    pub fn key_count(&self) -> Option<u64> {
        self.databases.iter().map(|(_, count)| *count).sum()
    }

    /// Shows all keys.
    pub fn each(
        &mut self,
        see: &mut dyn FnMut(Item) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.each_group(&mut |live, database, keys| live.group(database, keys, see))
    }

    /// How many keys there are that another server has not.
    pub fn more_than(&mut self, other: &mut Live) -> Result<u64, Failure> {
        let mut more = 0;
        self.each_group(&mut |live, database, keys| {
            let gone = other.gone(database, keys.to_vec())?;
            if gone.is_empty() {
                return Ok(());
            }
            let count = gone.len();
            // What has expired is gone here, too, as soon as it is looked at.
            more += (count - live.gone(database, gone)?.len()) as u64;
            Ok(())
        })?;
        Ok(more)
    }

    /// Shows the names of all keys, a group at a time, with their database selected.
    fn each_group(&mut self, see: &mut SeeGroup<'_>) -> Result<(), Failure> {
        if !self.is_one_database {
            // There may be others since it was asked last.
            self.databases = self.databases_told()?.ok_or_else(|| self.untold())?;
        }
        for (database, _) in self.databases.clone() {
            self.must(&[b"SELECT", database.to_string().as_bytes()])?;
            let mut cursor = b"0".to_vec();
            loop {
                let step = self.must(&[b"SCAN", &cursor, b"COUNT", SCAN_COUNT])?;
                let (next, keys) = step_of(step).ok_or_else(|| self.strange("SCAN"))?;
                for group in groups(&keys) {
                    see(self, database, group)?;
                }
                if next == b"0" {
                    break;
                }
                cursor = next;
            }
        }
        Ok(())
    }

    /// Which of some keys are not there any more.
    pub fn gone(&mut self, database: u64, keys: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>, Failure> {
        self.must(&[b"SELECT", database.to_string().as_bytes()])?;
        let mut gone = Vec::new();
        for group in groups(&keys) {
            group.iter().for_each(|key| self.client.add(&[self.time_command(), key]));
            self.client.send().map_err(|error| fail(&self.place, &error))?;
            for key in group {
                match self.reply()? {
                    Reply::Number(GONE) => gone.push(key.clone()),
                    Reply::Number(_) => {}
                    Reply::Error(error) => return Err(self.refusal("PEXPIRETIME", &error)),
                    _ => return Err(self.strange("PEXPIRETIME")),
                }
            }
        }
        Ok(gone)
    }

    /// The command that tells the time of a key, and whether it is there.
    fn time_command(&self) -> &'static [u8] {
        if self.tells_moments { b"PEXPIRETIME" } else { b"PTTL" }
    }

    fn group(
        &mut self,
        database: u64,
        keys: &[Vec<u8>],
        see: &mut dyn FnMut(Item) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let (whole, mut by_type) = self.sized(keys)?;
        for run in runs(&whole) {
            by_type.extend(self.dumps(database, run, see)?);
        }
        by_type.into_iter().try_for_each(|(key, kind)| match kind {
            Some(kind) => self.pieces(database, &key, kind, see),
            None => self.string(database, key, see),
        })
    }

    /// Shows keys by `DUMP`; returns those that must be read otherwise.
    fn dumps(
        &mut self,
        database: u64,
        keys: &[SizedKey],
        see: &mut dyn FnMut(Item) -> Result<(), Failure>,
    ) -> Result<Vec<ByType>, Failure> {
        let time = self.time_command();
        for (key, _) in keys {
            self.client.add(&[b"DUMP", key]);
            self.client.add(&[time, key]);
        }
        let now_ms = clock::now_ms();
        self.client.send().map_err(|error| fail(&self.place, &error))?;
        let mut others = Vec::new();
        for (key, _) in keys {
            let (payload, time) = (self.reply()?, self.reply()?);
            let payload = match payload {
                Reply::Text(payload) => payload,
                // It went meanwhile.
                Reply::Null => continue,
                Reply::Error(error) => return Err(self.refusal("DUMP", &error)),
                _ => return Err(self.strange("DUMP")),
            };
            if time == Reply::Number(GONE) {
                continue;
            }
            let expiry_ms = self.expiry_in(&time, now_ms)?;
            let key = key.clone();
            see(match value_of_payload(&payload) {
                Ok(value) => {
                    let (entry, slack_ms) = (Entry { value, expiry_ms }, self.slack_ms);
                    Item::Key { database, key, entry, slack_ms, offset: None }
                }
                Err(what) if is_unsupported(&payload) => {
                    Item::Unsupported { database, key: Some(key), what }
                }
                // It takes more than the server's estimate said; or nobody here knows how it is written.
                Err(what) if is_too_large(&payload) || is_newer(&payload) => {
                    others.push((key, what));
                    continue;
                }
                Err(what) => {
                    let key = shown(database, &key);
                    return Err(refused(format!("{key} is {what}")));
                }
            })?;
        }
        let mut by_type = Vec::new();
        for (key, what) in others {
            let told = self.must(&[b"TYPE", &key])?;
            match (Kind::of(&told), told) {
                (Some(kind), _) => by_type.push((key, Some(kind))),
                (None, Reply::Text(name)) if name == b"string" => by_type.push((key, None)),
                // It went meanwhile.
                (None, Reply::Text(name)) if name == b"none" => {}
                _ => return Err(refused(format!("{} is {what}", shown(database, &key)))),
            }
        }
        Ok(by_type)
    }

    /// Shows a string that is there.
    fn string(
        &mut self,
        database: u64,
        key: Vec<u8>,
        see: &mut dyn FnMut(Item) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let value = match self.must(&[b"GET", &key])? {
            Reply::Text(value) => Value::String(value),
            // It went meanwhile.
            Reply::Null => return Ok(()),
            _ => return Err(self.strange("GET")),
        };
        let now_ms = clock::now_ms();
        let time = self.ask(&[self.time_command(), &key])?;
        if time == Reply::Number(GONE) {
            // It went behind the value.
            return Ok(());
        }
        let expiry_ms = self.expiry_in(&time, now_ms)?;
        let (entry, slack_ms) = (Entry { value, expiry_ms }, self.slack_ms);
        see(Item::Key { database, key, entry, slack_ms, offset: None })
    }

    /// Keys with what they hold, as the server estimates it, and those with collections so large that they are read in
    /// pieces; none of a server that does not say.
    fn sized(&mut self, keys: &[Vec<u8>]) -> Result<(Vec<SizedKey>, Vec<ByType>), Failure> {
        for key in keys {
            self.client.add(&[b"MEMORY", b"USAGE", key]);
            self.client.add(&[b"TYPE", key]);
        }
        self.client.send().map_err(|error| fail(&self.place, &error))?;
        let (mut whole, mut large) = (Vec::new(), Vec::new());
        for key in keys {
            let (size, kind) = (self.reply()?, self.reply()?);
            let size = match size {
                Reply::Number(size) => Some(size as u64),
                _ => None,
            };
            let is_large = size.is_some_and(|size| size > self.whole_size_max);
            match Kind::of(&kind).filter(|_| is_large) {
                Some(kind) => large.push((key.clone(), Some(kind))),
                None => whole.push((key.clone(), size.unwrap_or(SIZE_UNKNOWN))),
            }
        }
        Ok((whole, large))
    }

    /// When a key expires, of a reply to [`Self::time_command`] that was asked for then.
    fn expiry_in(&mut self, time: &Reply, now_ms: u64) -> Result<Option<u64>, Failure> {
        if !self.tells_moments {
            let taken_ms = clock::now_ms().saturating_sub(now_ms);
            self.slack_ms = self.slack_ms.max(taken_ms + 1);
        }
        match time {
            Reply::Number(time) if *time >= 0 && self.tells_moments => Ok(Some(*time as u64)),
            Reply::Number(time) if *time >= 0 => Ok(Some(now_ms.saturating_add(*time as u64))),
            Reply::Number(_) => Ok(None),
            Reply::Error(error) => Err(self.refusal("PEXPIRETIME", error)),
            _ => Err(self.strange("PEXPIRETIME")),
        }
    }

    /// When a key expires.
    pub(super) fn expiry_of(&mut self, key: &[u8]) -> Result<Option<u64>, Failure> {
        let now_ms = clock::now_ms();
        let time = self.ask(&[self.time_command(), key])?;
        self.expiry_in(&time, now_ms)
    }

    /// What `INFO` tells of the databases; `None` if it may not be asked.
    fn databases_told(&mut self) -> Result<Option<Databases>, Failure> {
        match self.ask(&[b"INFO", b"keyspace"])? {
            Reply::Text(text) => Ok(Some(parse_keyspace(&String::from_utf8_lossy(&text)))),
            Reply::Error(error) if error.starts_with("NOPERM") => Ok(None),
            Reply::Error(error) => Err(self.refusal("INFO", &error)),
            _ => Err(self.strange("INFO")),
        }
    }

    /// It may not be asked which databases there are, and all are wanted.
    fn untold(&self) -> Failure {
        Failure::new(
            ExitCode::Io,
            format!(
                "{} does not tell our user which databases it has: give that user the permission +info, or name the \
                 database that a pool is to get (redis://HOST/0)",
                self.place
            ),
        )
    }

    fn reply(&mut self) -> Result<Reply, Failure> {
        self.client.reply().map_err(|error| fail(&self.place, &error))
    }

    pub(super) fn ask(&mut self, args: &[&[u8]]) -> Result<Reply, Failure> {
        self.client.ask(args).map_err(|error| fail(&self.place, &error))
    }

    /// The reply to a request that must not be refused.
    pub(super) fn must(&mut self, args: &[&[u8]]) -> Result<Reply, Failure> {
        match self.ask(args)? {
            Reply::Error(error) => {
                let command = String::from_utf8_lossy(args.first().copied().unwrap_or_default());
                Err(self.refusal(&command, &error))
            }
            reply => Ok(reply),
        }
    }

    pub(super) fn refusal(&self, command: &str, error: &str) -> Failure {
        let hint = match error.starts_with("MOVED ") || error.starts_with("ASK ") {
            true => ": slots move in its cluster; begin anew when none does",
            false => "",
        };
        Failure::new(ExitCode::Io, format!("{} refuses {command}: {error}{hint}", self.place))
    }

    /// Says of a server that is one of several of a cluster that the others have keys, too.
    pub(super) fn tell_of_others(&mut self, address: &Address) -> Result<(), Failure> {
        let Reply::Text(told) = self.ask(&[b"CLUSTER", b"INFO"])? else { return Ok(()) };
        let count = master_count(&String::from_utf8_lossy(&told));
        if count > 1 {
            remark(&format!(
                "{} is one of {count} masters of a cluster, and its own keys alone are copied: {} copies those of all",
                self.place,
                address.of_cluster()
            ));
        }
        Ok(())
    }

    /// Which server has which slot, as this one of them tells it.
    pub(super) fn layout(&mut self, address: &Address) -> Result<Layout, Failure> {
        Layout::ask(&mut self.client, address)
    }

    /// Whether a slot of this server of a cluster moves, from it or to it.
    pub(super) fn has_open_slots(&mut self) -> Result<bool, Failure> {
        match self.must(&[b"CLUSTER", b"NODES"])? {
            Reply::Text(nodes) => Ok(has_open_slots(&String::from_utf8_lossy(&nodes))),
            _ => Err(self.strange("CLUSTER NODES")),
        }
    }

    pub(super) fn strange(&self, command: &str) -> Failure {
        let message = format!("{} answers {command} with what is no answer to it", self.place);
        Failure::new(ExitCode::Io, message)
    }
}

/// Keys that are asked for together: so few, and so short, that a server takes all requests before it has to send a
/// reply.
fn groups(keys: &[Vec<u8>]) -> impl Iterator<Item = &[Vec<u8>]> {
    let mut rest = keys;
    std::iter::from_fn(move || {
        let (mut count, mut size) = (0, 0);
        while count < rest.len().min(GROUP_LENGTH) && (count == 0 || size < GROUP_SIZE) {
            size += rest[count].len();
            count += 1;
        }
        let (group, behind) = rest.split_at(count);
        rest = behind;
        (!group.is_empty()).then_some(group)
    })
}

/// Keys whose values are asked for together: one that is long is alone.
fn runs(keys: &[SizedKey]) -> impl Iterator<Item = &[SizedKey]> {
    let mut rest = keys;
    std::iter::from_fn(move || {
        let mut size = 0_u64;
        let fits = |(_, more): &&SizedKey| {
            size = size.saturating_add(*more);
            size <= RUN_SIZE
        };
        let count = rest.iter().take_while(fits).count().max(1).min(rest.len());
        let (run, behind) = rest.split_at(count);
        rest = behind;
        (!run.is_empty()).then_some(run)
    })
}

fn fail(place: &str, error: &io::Error) -> Failure {
    Failure::new(ExitCode::Io, format!("{place} cannot be read: {error}"))
}

/// Cursor and keys of a reply to `SCAN`.
fn step_of(reply: Reply) -> Option<(Vec<u8>, Vec<Vec<u8>>)> {
    let Reply::Array(parts) = reply else { return None };
    let mut parts = parts.into_iter();
    let (Reply::Text(cursor), Reply::Array(keys)) = (parts.next()?, parts.next()?) else {
        return None;
    };
    let key_of = |key| match key {
        Reply::Text(key) => Some(key),
        _ => None,
    };
    Some((cursor, keys.into_iter().map(key_of).collect::<Option<_>>()?))
}

/// How many masters have slots, as `CLUSTER INFO` says.
fn master_count(told: &str) -> u64 {
    let count = told.lines().find_map(|line| line.strip_prefix("cluster_size:"));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

/// Whether the line of a server itself, among those of `CLUSTER NODES`, has slots like `[7->-ID]` or `[7-<-ID]`.
fn has_open_slots(nodes: &str) -> bool {
    nodes.lines().any(|line| line.contains("myself") && line.contains(" ["))
}

/// The databases in the lines `db0:keys=1,expires=0,avg_ttl=0`.
fn parse_keyspace(text: &str) -> Databases {
    let database_of = |line: &str| {
        let (number, figures) = line.strip_prefix("db")?.split_once(":keys=")?;
        let count = figures.split(',').next()?.trim().parse().ok();
        Some((number.parse().ok()?, count))
    };
    text.lines().filter_map(database_of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_info_and_scan_say_is_understood() {
        let text =
            "# Keyspace\r\ndb0:keys=3,expires=0,avg_ttl=0\r\ndb12:keys=1,expires=1\r\nmaps:2\r\n";
        assert_eq!(parse_keyspace(text), [(0, Some(3)), (12, Some(1))]);
        let key = Reply::Text(b"k".to_vec());
        let step = Reply::Array(vec![Reply::Text(b"7".to_vec()), Reply::Array(vec![key.clone()])]);
        assert_eq!(step_of(step), Some((b"7".to_vec(), vec![b"k".to_vec()])));
        assert_eq!(step_of(Reply::Array(vec![key])), None);
    }

    #[test]
    fn the_masters_of_a_cluster_are_counted() {
        let told = "cluster_state:ok\r\ncluster_known_nodes:6\r\ncluster_size:3\r\n";
        assert_eq!(
            (master_count(told), master_count("cluster_size:x"), master_count("")),
            (3, 0, 0)
        );
    }

    #[test]
    fn slots_that_move_are_seen_in_the_lines_of_a_cluster() {
        let at_rest = "07c3 127.0.0.1:7001@17001 myself,master - 0 1 1 connected 0-5460\n\
                       67ed [::1]:7002@17002 master - 0 2 2 connected 5461-16383\n";
        assert!(!has_open_slots(at_rest));
        assert!(has_open_slots(&at_rest.replace("0-5460", "0-5460 [93->-67ed]")));
        assert!(!has_open_slots(&at_rest.replace("5461-16383", "5461-16383 [93-<-07c3]")));
    }

    /// What hung: 64 keys of 40 KiB, asked for four times each, fill the buffers of both sides before a reply is read.
    #[test]
    fn long_keys_are_asked_for_a_few_at_a_time() {
        let keys = vec![b"short".to_vec(); 1000];
        assert!(groups(&keys).all(|group| group.len() <= GROUP_LENGTH));
        assert_eq!(groups(&keys).map(<[_]>::len).sum::<usize>(), keys.len());
        let long = vec![vec![7; 40_000]; 5];
        assert_eq!(groups(&long).map(<[_]>::len).collect::<Vec<_>>(), [1; 5]);
        assert_eq!(groups(&[]).count(), 0);
    }

    #[test]
    fn long_values_are_asked_for_a_few_at_a_time() {
        let keys = |sizes: &[u64]| sizes.iter().map(|size| (vec![], *size)).collect::<Vec<_>>();
        let lengths = |sizes: &[u64]| runs(&keys(sizes)).map(<[_]>::len).collect::<Vec<_>>();
        assert_eq!(lengths(&[100; 64]), [64]);
        assert_eq!(lengths(&[SIZE_UNKNOWN; 64]), [64]);
        assert_eq!(lengths(&[RUN_SIZE / 4; 9]), [4, 4, 1]);
        assert_eq!(lengths(&[1, 2 * RUN_SIZE, u64::MAX, 1, RUN_SIZE - 1]), [1, 1, 1, 2]);
        assert_eq!(lengths(&[]), [0; 0]);
    }
}
