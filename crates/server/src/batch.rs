//! Runs the requests that one read brought.
//!
//! Consecutive `GET`s of a pipeline are collected and looked up together, so that the cache misses
//! of one lookup overlap with those of the next. Consecutive `SET`s, and `INCR`s, are collected, too: a lookup of
//! all their keys brings what they will change into the cache, then they run one after the other.
//! The replies of a group are written in order before the next request of another kind runs.
//! Consecutive commands of collections are collected and done as one step (`command/series.rs`), and so are
//! consecutive `MSET`s (`command/mset_series.rs`).

mod alone;
mod batch_end;
mod group;
#[cfg(test)]
pub mod test_run;
mod undone;

use std::ops::ControlFlow;

pub use self::batch_end::BatchEnd;
use self::group::Group;
use crate::client_state::ClientState;
use crate::command::context::Context;
use crate::command::dispatch::dispatch;
use crate::command::keys::Keys;
use crate::command::series::{self, Undone};
use crate::command::{counter, facts, mset_series};
use crate::exclusion::Entered;
use crate::failure::Failure;
use crate::read_size::counted;
use crate::resp::{Limits, Parser, ProtocolError, Reply, Series};
use crate::shared::Shared;
use crate::slice::Slice;
use crate::statistics::Tally;
use crate::types::would_be_header;

/// Requests that are collected before they run.
const GROUP_SIZE: usize = 64;
/// Commands of collections that are done as one step, and their arguments, but for those of the last.
const SERIES_LEN: usize = 128;
const SERIES_ARG_COUNT: usize = 4096;
/// Before the password: enough for `HELLO 3 AUTH user password SETNAME name`.
const UNAUTHENTICATED_ARG_COUNT_MAX: usize = 10;
/// Where commands count as slow from fewer microseconds on, all are timed.
const TIMED_US_MIN: i64 = 1_000;
/// Before the password, in bytes.
const UNAUTHENTICATED_BULK_SIZE_MAX: usize = 16 << 10;

/// The requests of one read.
pub struct Batch<'a> {
    pub parser: &'a mut Parser,
    pub session: &'a mut ClientState,
    pub shared: &'a Shared,
    pub tally: &'a mut Tally,
    /// Where replies go.
    pub out: &'a mut Vec<u8>,
    /// Size of `out` from which on no further request is run.
    pub pause_size: usize,
    /// How long it may take.
    pub slice: &'a mut Slice,
    /// Whether a request that is all there is may be left to be done together with those of others.
    pub can_gather: bool,
    /// Nobody is alone meanwhile; given away only while a request is run alone.
    pub entered: Option<Entered<'a>>,
}

/// The requests that can be collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Get,
    Set,
    Incr,
}

/// How a request can be collected.
enum Next<'b> {
    /// With its key and value.
    Plain(Kind, &'b [u8], &'b [u8]),
    /// A command of a collection, or an `MSET`, by its number.
    Serial(usize),
    /// Not at all.
    Other,
}

impl Batch<'_> {
    /// Runs the complete requests in `bytes`, in order. The bytes after `consumed` must be shown
    /// again, followed by more unless the output was full or the time was over.
    pub fn run(mut self, bytes: &[u8]) -> BatchEnd {
        let mut group = Group::new();
        let mut series = Series::default();
        let mut limits = self.limits();
        let mut at = 0;
        loop {
            let rest = &bytes[at..];
            let parsed = self.parser.parse(rest, &limits);
            let size = match parsed {
                Ok(Some(size)) => size,
                Ok(None) | Err(_) => {
                    if let ControlFlow::Break(end) = self.run_collected(&mut group, &mut series) {
                        return end;
                    }
                    if let Err(error) = parsed {
                        self.refuse(error);
                        at = bytes.len();
                    }
                    return BatchEnd::done(at);
                }
            };
            let next = match self.next(rest) {
                // Nothing is behind it with which it could be done as one step.
                Next::Serial(command) if series.is_empty() && at + size == bytes.len() => {
                    if at == 0 && self.can_gather && is_gathered(command, self.parser.arg_count()) {
                        self.session.last_command = command;
                        return BatchEnd { gathered: Some(command), ..BatchEnd::done(size) };
                    }
                    Next::Other
                }
                next => next,
            };
            let can_wait = match next {
                Next::Plain(kind, ..) => series.is_empty() && group.takes(kind),
                Next::Serial(command) => group.len == 0 && takes(&series, command),
                Next::Other => false,
            };
            if !can_wait
                && let ControlFlow::Break(end) = self.run_collected(&mut group, &mut series)
            {
                return end;
            }
            at += size;
            match next {
                Next::Plain(kind, key, value) => {
                    group.push(kind, key, value, at);
                    continue;
                }
                Next::Serial(command) if series.push(command, self.parser, rest, at) => continue,
                Next::Serial(_) | Next::Other => {}
            }
            let is_over = self.run_next(rest, at == bytes.len());
            limits = self.limits();
            if self.session.closing {
                return BatchEnd::done(bytes.len());
            }
            if is_over || self.out.len() > self.pause_size || self.session.waiting.is_some() {
                return BatchEnd::paused(at);
            }
        }
    }

    fn limits(&self) -> Limits {
        let config = &self.shared.config;
        let bulk_size_max = self.shared.settings.bulk_size_max();
        let authenticated = self.session.is_let_in(&self.shared.acl);
        let unless_authenticated = |limit: usize, before: usize| {
            if authenticated { limit } else { limit.min(before) }
        };
        Limits {
            arg_count_max: unless_authenticated(
                config.arg_count_max,
                UNAUTHENTICATED_ARG_COUNT_MAX,
            ),
            bulk_size_max: unless_authenticated(bulk_size_max, UNAUTHENTICATED_BULK_SIZE_MAX),
            inline_size_max: unless_authenticated(
                config.inline_size_max,
                UNAUTHENTICATED_BULK_SIZE_MAX,
            ),
            request_size_max: config.request_size_max,
            authenticated,
        }
    }

    /// Whether the request that was just parsed can be collected.
    #[inline]
    fn next<'b>(&self, rest: &'b [u8]) -> Next<'b> {
        // Those that are collected are not timed, or not all of them, and shown to nobody.
        let generation = self.shared.acl.generation();
        if !self.session.is_plain(generation) || is_each_seen(self.shared) {
            return Next::Other;
        }
        let Some(name) = self.parser.wire_arg(rest, 0) else { return Next::Other };
        let arg = |index| self.parser.wire_arg(rest, index).unwrap_or(b"");
        match self.parser.arg_count() {
            2 if is_name(name, *b"get") => Next::Plain(Kind::Get, arg(1), b""),
            2 if is_name(name, *b"incr") => Next::Plain(Kind::Incr, arg(1), b""),
            3 if is_name(name, *b"set") => Next::Plain(Kind::Set, arg(1), arg(2)),
            arg_count if arg_count > 2 && arg_count % 2 == 1 && is_name(name, *b"mset") => {
                Next::Serial(facts::MSET)
            }
            arg_count => match facts::find(name) {
                Some(index)
                    if facts::is_serial(index) && facts::COMMANDS[index].accepts(arg_count) =>
                {
                    Next::Serial(index)
                }
                _ => Next::Other,
            },
        }
    }

    /// Runs the request that was just parsed, alone if it must be. Returns whether those behind it, if there are any,
    /// have to wait for the next turn.
    #[inline]
    fn run_next(&mut self, rest: &[u8], is_last: bool) -> bool {
        if !is_last {
            self.slice.begin();
        }
        match self.must_be_alone(rest) {
            true => self.run_alone(rest),
            false => self.run_one(rest),
        }
        !is_last && self.slice.is_over_behind(self.session.last_command)
    }

    /// Runs the request that was just parsed.
    #[inline]
    fn run_one(&mut self, rest: &[u8]) {
        let request = self.parser.request(rest);
        if request.is_empty() {
            return;
        }
        self.tally.commands += 1;
        let limit = self.out.len().saturating_add(self.shared.config.reply_size_max);
        let Batch { shared, session, tally, out, .. } = self;
        dispatch(&mut context_of(shared, session, tally, out, limit), &request);
    }

    /// What commands work with.
    #[inline]
    fn context(&mut self) -> Context<'_> {
        let limit = self.out.len().saturating_add(self.shared.config.reply_size_max);
        let Batch { shared, session, tally, out, .. } = self;
        context_of(shared, session, tally, out, limit)
    }

    /// Runs what was collected. Breaks if the output is full, or the time over, before all is answered: the parser
    /// then starts again behind the last request that was answered.
    #[inline]
    fn run_collected(
        &mut self,
        group: &mut Group<'_>,
        series: &mut Series<'_>,
    ) -> ControlFlow<BatchEnd> {
        if !series.is_empty() {
            let flow = self.run_series(series);
            series.clear();
            flow?;
        }
        self.run_group(group)
    }

    fn run_series(&mut self, series: &Series<'_>) -> ControlFlow<BatchEnd> {
        let mut first = 0;
        self.slice.begin();
        while first < series.len() {
            let mut context = self.context();
            let outcome = match series.len() - first {
                1 => Err(Undone::alone(1)),
                _ if series.request(first).0 == facts::MSET => {
                    mset_series::run(&mut context, series, first)
                }
                _ => series::run(&mut context, series, first),
            };
            let undone = match outcome {
                Ok(count) => {
                    first += count;
                    let is_over = self.slice.is_over();
                    self.check(is_over, series.end(first - 1))?;
                    continue;
                }
                Err(undone) => undone,
            };
            self.run_undone(series, first, &undone)?;
            first += undone.count;
        }
        ControlFlow::Continue(())
    }

    /// Runs what was collected of plain requests.
    #[inline]
    fn run_group(&mut self, group: &mut Group<'_>) -> ControlFlow<BatchEnd> {
        let len = std::mem::take(&mut group.len);
        if len == 0 {
            return ControlFlow::Continue(());
        }
        match group.kind {
            Kind::Get => self.run_gets(&group.keys[..len], &group.ends),
            Kind::Set => {
                self.run_sets(&group.keys[..len], &group.values);
                let is_over = self.slice.is_over_behind_collected(len);
                self.check(is_over, group.ends[len - 1])
            }
            Kind::Incr => {
                let (answered, is_over) = self.run_incrs(&group.keys[..len]);
                self.check(is_over, group.ends[answered - 1])
            }
        }
    }

    fn run_gets(&mut self, keys: &[&[u8]], ends: &[usize]) -> ControlFlow<BatchEnd> {
        self.session.last_command = facts::GET;
        let answered = if keys.len() > 1 { self.get_many(keys) } else { 0 };
        if answered > 0 {
            let is_over = self.slice.is_over_behind_collected(answered);
            self.check(is_over, ends[answered - 1])?;
        }
        for index in answered..keys.len() {
            self.get_one(keys[index]);
            let is_over = self.slice.is_over_behind_collected(1);
            self.check(is_over, ends[index])?;
        }
        ControlFlow::Continue(())
    }

    /// Breaks if the output is full, or the time over; everything up to `end` was answered.
    fn check(&mut self, is_over: bool, end: usize) -> ControlFlow<BatchEnd> {
        if self.out.len() <= self.pause_size && !is_over {
            return ControlFlow::Continue(());
        }
        self.parser.restart();
        ControlFlow::Break(BatchEnd::paused(end))
    }

    fn run_sets(&mut self, keys: &[&[u8]], values: &[&[u8]]) {
        self.session.last_command = facts::SET;
        self.tally.commands += keys.len() as u64;
        self.prefetch(keys);
        let map = self.shared.databases.map_of(self.session.database);
        let types = &self.shared.types;
        let mut reply = Reply::new(self.out, self.session.protocol, usize::MAX);
        for (key, value) in keys.iter().zip(values) {
            let done = match types.would_be_header(value) {
                false => map.put(key, value).map_err(Failure::from),
                true => Err(would_be_header()),
            };
            match done {
                Ok(_) => reply.ok(),
                Err(failure) => {
                    self.tally.errors += 1;
                    failure.write(&mut reply, self.shared);
                }
            }
        }
    }

    /// Returns how many were answered, and whether the time is over behind them.
    fn run_incrs(&mut self, keys: &[&[u8]]) -> (usize, bool) {
        self.session.last_command = facts::INCR;
        self.prefetch(keys);
        let limit = self.out.len().saturating_add(self.shared.config.reply_size_max);
        let Batch { shared, session, tally, out, slice, .. } = self;
        let mut context = context_of(shared, session, tally, out, limit);
        for (index, key) in keys.iter().enumerate() {
            context.tally.commands += 1;
            let start = context.reply.size();
            if let Err(failure) = counter::increment(&mut context, key) {
                context.tally.errors += 1;
                context.reply.truncate(start);
                failure.write(&mut context.reply, context.shared);
            }
            if slice.is_over_behind_collected(1) {
                return (index + 1, true);
            }
        }
        (keys.len(), false)
    }

    /// Looks keys up that will be written, only for what it brings into the cache.
    fn prefetch(&self, keys: &[&[u8]]) {
        let map = self.shared.databases.map_of(self.session.database);
        // A key that makes it fail will fail again when it is written.
        if keys.len() > 1 && map.prefetch(keys).is_err() {
            tracing::trace!("the keys of a group cannot be looked up together");
        }
    }

    /// Looks the keys up together. Returns how many were answered: all, unless the output became
    /// full or the lookup failed.
    fn get_many(&mut self, keys: &[&[u8]]) -> usize {
        let (pause_size, start) = (self.pause_size, self.out.len());
        let (mut hits, mut answered, mut errors) = (0, 0, 0);
        let shared = self.shared;
        let types = &shared.types;
        let mut reply = Reply::new(self.out, self.session.protocol, pause_size);
        let result =
            shared.databases.map_of(self.session.database).get_many_until(keys, |_, value| {
                answered += 1;
                if value.is_some_and(|value| types.is_header(value)) {
                    errors += 1;
                    Failure::WrongType.write(&mut reply, shared);
                } else {
                    hits += u64::from(value.is_some());
                    reply.bulk_or_null(value.map(counted));
                }
                if reply.is_full() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
        if result.is_err() {
            // One key is to blame; one by one, the others get their answers.
            reply.truncate(start);
            return 0;
        }
        self.tally.commands += answered as u64;
        self.tally.hits += hits;
        self.tally.errors += errors;
        self.tally.misses += answered as u64 - hits - errors;
        answered
    }

    fn get_one(&mut self, key: &[u8]) {
        self.tally.commands += 1;
        let mut reply = Reply::new(self.out, self.session.protocol, usize::MAX);
        let map = self.shared.databases.map_of(self.session.database);
        let mut keys = Keys::Store(&self.shared.store, map, &self.shared.types);
        match keys.get_with(key, |value| reply.bulk(value)) {
            Ok(Some(())) => self.tally.hits += 1,
            Ok(None) => {
                self.tally.misses += 1;
                reply.null();
            }
            Err(failure) => {
                self.tally.errors += 1;
                failure.write(&mut reply, self.shared);
            }
        }
    }

    /// The stream has no meaning any more: say why and close.
    fn refuse(&mut self, error: ProtocolError) {
        tracing::debug!("client {}: protocol error: {error}", self.session.client.id);
        self.tally.errors += 1;
        let mut reply = Reply::new(self.out, self.session.protocol, usize::MAX);
        reply.error(&format!("ERR Protocol error: {error}"));
        self.session.closing = true;
    }
}

/// What a command works with whose answer may make `out` grow up to a limit.
#[inline]
pub fn context_of<'c>(
    shared: &'c Shared,
    session: &'c mut ClientState,
    tally: &'c mut Tally,
    out: &'c mut Vec<u8>,
    limit: usize,
) -> Context<'c> {
    let reply = Reply::new(out, session.protocol, limit);
    let map = shared.databases.map_of(session.database);
    let keys = Keys::Store(&shared.store, map, &shared.types);
    Context { shared, session, tally, reply, keys, later: None }
}

/// Whether commands are shown to somebody, or those that are quick are timed, too: then each is run by itself.
#[inline]
pub fn is_each_seen(shared: &Shared) -> bool {
    (0..TIMED_US_MIN).contains(&shared.settings.slow_log_us())
        || shared.latency.wants_times()
        || shared.monitors.any()
}

/// Whether a command of a collection with so many arguments is done together with those of other connections. One that
/// only reads writes no batch, and gains nothing; one that may take long would hold all of them.
fn is_gathered(command: usize, arg_count: usize) -> bool {
    let entry = &facts::COMMANDS[command];
    // What needs no more than a key takes a count behind it, which may be that of all members.
    let is_quick = facts::is_fast(command) && (arg_count == 2 || !entry.accepts(2));
    command != facts::MSET && entry.writes() && is_quick
}

/// Whether one more request, of this command, may follow the others of a series.
fn takes(series: &Series<'_>, command: usize) -> bool {
    let is_of_kind =
        series.is_empty() || (series.request(0).0 == facts::MSET) == (command == facts::MSET);
    is_of_kind && series.len() < SERIES_LEN && series.arg_count() < SERIES_ARG_COUNT
}

/// Compares a command name of so many letters, whatever their case.
#[inline]
fn is_name<const LENGTH: usize>(name: &[u8], lower: [u8; LENGTH]) -> bool {
    // Setting this bit makes a capital letter small, and nothing else a small letter.
    let small = |name: [u8; LENGTH]| name.map(|letter| letter | 0x20);
    <[u8; LENGTH]>::try_from(name).is_ok_and(|name| small(name) == lower)
}

#[cfg(test)]
mod tests {
    use super::{is_gathered, is_name};
    use crate::command::facts;

    #[test]
    fn only_the_letters_of_a_name_match_it() {
        for name in [&b"get"[..], b"GET", b"Get", b"gEt"] {
            assert!(is_name(name, *b"get"));
        }
        for name in [&b""[..], b"ge", b"gett", b"set", b"g\x05t"] {
            assert!(!is_name(name, *b"get"), "{}", name.escape_ascii());
        }
        let matching = (0..=255u8).filter(|&byte| is_name(&[byte, b'e', b't'], *b"get"));
        assert_eq!(matching.collect::<Vec<_>>(), b"Gg");
    }

    #[test]
    fn only_quick_changes_of_collections_are_gathered() {
        let all = |arg_count| {
            let is_one = |index: &usize| {
                facts::is_serial(*index)
                    && facts::COMMANDS[*index].accepts(arg_count)
                    && is_gathered(*index, arg_count)
            };
            let mut names: Vec<&str> =
                (0..facts::COUNT).filter(is_one).map(|index| facts::COMMANDS[index].name).collect();
            names.sort_unstable();
            names.join(" ")
        };
        assert_eq!(all(2), "lpop rpop spop zpopmax zpopmin");
        // With a count they may take as long as they like, and LREM and its like do.
        assert_eq!(all(3), "hdel lpush lpushx rpush rpushx sadd srem zrem");
        let fields = "hdel hincrby hincrbyfloat hmset hset hsetnx";
        assert_eq!(
            all(4),
            format!("{fields} lpush lpushx rpush rpushx sadd srem zadd zincrby zrem")
        );
    }
}
