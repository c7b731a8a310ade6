//! Series: commands of collections that follow each other in the pipeline of one client, done as one step.
//!
//! A command of a collection alone is a stage, a batch of header and members, and an entry of journal and log. A series
//! has all of that once: its commands are run on one stage, one after the other, and written as one batch. So others
//! see all of it or nothing, as does a process that opens the pool after a crash, and as if the client had been quick;
//! it depends on each header once; and each answer is that of the command at its place.
//!
//! A series ends behind a command that makes what a client waits for, which is then served before the next command;
//! when it has taken some time, or what it holds has some size; and before a command that fails with something
//! already on the stage, which has to go again: that command is run by itself. A command that fails with nothing on
//! the stage answers its error, and harms no other. What conflicts with others too often, is refused as a whole, or
//! touches what is damaged, is run command by command: nothing of it was done.

use std::ops::Range;
use std::time::{Duration, Instant};

use everleaf::Store;

use super::context::Context;
use super::dispatch::dispatch_after;
use super::draws;
use super::facts::COMMANDS;
use super::keys::Keys;
use super::limits::{ATTEMPT_COUNT_MAX, BATCH_SIZE_MAX};
use super::stage::{Stage, Staged};
use super::table::function;
use super::timing::note_slow;
use super::transaction::complete;
use crate::failure::{Failure, is_undone};
use crate::read_size;
use crate::resp::{Reply, Request, Series};
use crate::types::Kind;
use crate::types::collection::Collection;

/// Bytes on the stage from which on a series ends.
const STAGE_SIZE_MAX: usize = 1 << 20;
/// Bytes of answers that there is room for from the start.
const FIRST_ANSWERS_SIZE: usize = 1 << 10;
/// Bytes of answers from which on a series ends.
pub const ANSWER_SIZE_MAX: usize = 64 << 10;
/// Members that are looked up together: at least, and at most.
const LOOKED_UP_MIN: usize = 4;
const LOOKED_UP_MAX: usize = 32;
/// Time after which a series ends: the longer, the more likely is a conflict.
const TIME_MAX: Duration = Duration::from_millis(1);
/// It is looked at behind each so many commands.
const TIMED_LEN: usize = 4;

/// The commands of a series that were run on a stage: the first of those that were to be run.
#[derive(Default)]
pub struct Answers {
    bytes: Vec<u8>,
    /// Where the answer of each ends.
    ends: Vec<usize>,
    /// How long the step took, of which each of them is done when all are: from its begin, with what was waited for and
    /// done again.
    pub duration: Duration,
}

impl Answers {
    /// How many commands were run.
    pub fn count(&self) -> usize {
        self.ends.len()
    }

    /// The answer of each.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.bytes[start..*end])
    }
}

/// None of the first requests of a series from one on is done, or answered.
pub struct Undone {
    /// So many.
    pub count: usize,
    /// What those are told that change something: whether anything was done is as with a single command. Without it
    /// they must be run by themselves.
    pub failure: Option<Failure>,
    /// How long it took to find out.
    pub spent: Duration,
}

impl Undone {
    /// So many must be run by themselves.
    pub fn alone(count: usize) -> Self {
        Undone { count, failure: None, spent: Duration::ZERO }
    }

    /// The store refused what so many wanted.
    pub fn refused(count: usize, failure: Failure) -> Self {
        let failure = match failure {
            Failure::Store(error) if is_undone(&error) => None,
            failure => Some(failure),
        };
        Undone { count, failure, spent: Duration::ZERO }
    }

    /// Runs one of them by itself, or tells it that it failed, and counts it.
    pub fn run_or_tell(&self, context: &mut Context<'_>, command: usize, request: &Request<'_>) {
        context.tally.commands += 1;
        let Some(failure) = self.failure.as_ref().filter(|_| COMMANDS[command].writes()) else {
            return dispatch_after(context, request, self.spent);
        };
        context.tally.errors += 1;
        failure.write(&mut context.reply, context.shared);
        if let Some(limit) = context.shared.settings.slow_log_after() {
            note_slow(context, request, limit, self.spent);
        }
    }
}

/// How many were done as one step, and are answered; or why none was.
pub type SeriesResult = Result<usize, Undone>;

/// Carries out the first requests of a series from one on, as one step, and answers them.
pub fn run(context: &mut Context<'_>, series: &Series<'_>, first: usize) -> SeriesResult {
    let answers = run_unanswered(context, series, first..series.len())?;
    context.reply.encoded(&answers.bytes);
    context.session.last_command = series.request(first + answers.count() - 1).0;
    if let Some(limit) = context.shared.settings.slow_log_after()
        && answers.duration >= limit
    {
        for index in first..first + answers.count() {
            note_slow(context, &series.request(index).1, limit, answers.duration);
        }
    }
    Ok(answers.count())
}

/// The same with the first of some requests, and gives the answers back. Of the session only the database and the
/// protocol count. No answer is longer than the reply may be.
pub fn run_unanswered(
    context: &mut Context<'_>,
    series: &Series<'_>,
    range: Range<usize>,
) -> Result<Answers, Undone> {
    let began = Instant::now();
    match run_step(context, series, range) {
        Ok(answers) => Ok(Answers { duration: began.elapsed(), ..answers }),
        Err(undone) => Err(Undone { spent: began.elapsed(), ..undone }),
    }
}

fn run_step(
    context: &mut Context<'_>,
    series: &Series<'_>,
    range: Range<usize>,
) -> Result<Answers, Undone> {
    let shared = context.shared;
    let Range { start: first, mut end } = range;
    // What is of several steps is done by itself, behind those before it.
    let is_long = |index: &usize| {
        let (command, request) = series.request(*index);
        draws::takes_steps(&request, command)
    };
    if let Some(long) = (first..end).find(is_long) {
        if long == first {
            return Err(Undone::alone(1));
        }
        end = long;
    }
    let makes = (first..end).any(|index| COMMANDS[series.request(index).0].makes_collections());
    if makes && shared.types.begin(&shared.store).is_err() {
        // Those that make nothing can do without.
        return Err(Undone::alone(end - first));
    }
    let store: &Store = &shared.store;
    let keys = |end: usize| {
        let requests = (first..end).map(|index| series.request(index));
        // A command that only reads waits for nobody.
        requests
            .filter(|(command, _)| COMMANDS[*command].writes())
            .map(|(_, request)| request.arg(1))
    };
    let mut turns = shared.turns.wait_all(keys(end));
    let before = *context.tally;
    let mut attempts = 0;
    while attempts < ATTEMPT_COUNT_MAX {
        let mut stage = Stage::beside_others(BATCH_SIZE_MAX, store);
        stage.expect_many();
        let bytes = Vec::with_capacity(FIRST_ANSWERS_SIZE);
        let ends = Vec::with_capacity(end - first);
        let mut answers = Answers { bytes, ends, duration: Duration::ZERO };
        if !stage_all(context, series, first..end, &mut stage, store, &mut answers) {
            // Those before it are run again without it.
            end = first + answers.count();
        } else {
            match complete(context, &mut stage, store) {
                Ok(true) => return Ok(answers),
                Ok(false) => {}
                Err(failure) => {
                    *context.tally = before;
                    // Behind what was on the stage nothing was looked at.
                    return Err(Undone::refused(answers.count(), failure));
                }
            }
            attempts += 1;
            // What others did with one key is no matter of threads that wait for the rest.
            stage.tell_changed(&shared.databases, &mut |key| shared.turns.heat(key));
            // Those that are held first: all are taken in one order.
            drop(turns);
            turns = shared.turns.wait_all(keys(end));
        }
        *context.tally = before;
        if end == first {
            return Err(Undone::alone(1));
        }
    }
    Err(Undone::alone(end - first))
}

/// Of a command that asks for one member: its kind, where the member is among its arguments, and how many they are.
fn member_of(command: usize) -> Option<(Kind, usize, usize)> {
    match COMMANDS[command].name {
        "sadd" | "srem" | "sismember" => Some((Kind::Set, 2, 3)),
        "hget" | "hdel" => Some((Kind::Hash, 2, 3)),
        "hset" | "hincrby" => Some((Kind::Hash, 2, 4)),
        "zscore" | "zrem" => Some((Kind::SortedSet, 2, 3)),
        "zadd" | "zincrby" => Some((Kind::SortedSet, 3, 4)),
        _ => None,
    }
}

/// Looks up what the next commands ask for, if each asks for a member of one collection. Returns the first behind those
/// that need not be asked about again.
fn look_ahead(staged: &mut Staged<'_>, series: &Series<'_>, range: Range<usize>) -> usize {
    let (command, first) = series.request(range.start);
    let behind = |is_next: &dyn Fn(usize) -> bool| {
        range.clone().find(|index| !is_next(*index)).unwrap_or(range.end)
    };
    let Some((kind, at, len)) = member_of(command) else {
        return behind(&|index| series.request(index).0 == command);
    };
    let member = |index: usize| {
        let (next, request) = series.request(index);
        let is_like = next == command && request.len() == len && request.arg(1) == first.arg(1);
        is_like.then(|| request.arg(at))
    };
    let end = behind(&|index| member(index).is_some()).min(range.start + LOOKED_UP_MAX);
    if end - range.start >= LOOKED_UP_MIN
        && let Ok(Some(mut collection)) = Collection::find(staged, first.arg(1), kind)
        && collection.look_up((range.start..end).filter_map(member)).is_err()
    {
        // The command that asks for it will meet it again.
        tracing::trace!("members of a series cannot be looked up together");
    }
    end.max(range.start + 1)
}

/// Runs commands on a stage. Returns false if one failed that had changed it, or that has more room for its answer by
/// itself: then it is not among those that are counted, and the stage is of no use.
fn stage_all(
    context: &mut Context<'_>,
    series: &Series<'_>,
    range: Range<usize>,
    stage: &mut Stage,
    mut store: &Store,
    answers: &mut Answers,
) -> bool {
    let shared = context.shared;
    let place = stage.place(&shared.databases, context.session.database);
    let answer_size_max = context.reply.room();
    // Then what has no room here may have it by itself.
    let has_more_alone = answer_size_max < shared.config.reply_size_max;
    let began = Instant::now();
    let (mut looked_up, end) = (range.start, range.end);
    for index in range {
        let (command, request) = series.request(index);
        if index >= looked_up {
            let (types, databases) = (&shared.types, &shared.databases);
            let staged = &mut Staged { stage, source: &mut store, types, databases, place };
            looked_up = look_ahead(staged, series, index..end);
        }
        let (start, changes, made) =
            (answers.bytes.len(), stage.change_count(), stage.made().len());
        let limit = start.saturating_add(answer_size_max);
        let mut inner = Context {
            shared,
            session: context.session,
            tally: context.tally,
            reply: Reply::new(&mut answers.bytes, context.reply.protocol, limit),
            keys: Keys::Stage(Staged {
                stage,
                source: &mut store,
                types: &shared.types,
                databases: &shared.databases,
                place,
            }),
            later: None,
        };
        let mut outcome = function(command)(&mut inner, &request);
        if outcome.is_ok() && inner.reply.is_full() {
            outcome = Err(Failure::ReplyTooLong);
        }
        if let Err(failure) = outcome {
            if matches!(failure, Failure::ReplyTooLong) && has_more_alone {
                return false;
            }
            inner.reply.truncate(start);
            inner.tally.errors += 1;
            failure.write(&mut inner.reply, shared);
            // What was read counts, too: a stage that is over can hold nothing more.
            if stage.change_count() != changes || stage.is_over() {
                return false;
            }
        }
        context.tally.commands += 1;
        answers.ends.push(answers.bytes.len());
        let is_wanted = || {
            let mut made = stage.made()[made..].iter();
            made.any(|(place, key)| shared.waiters.may_want(*place, key))
        };
        let is_full = stage.size() > STAGE_SIZE_MAX || answers.bytes.len() > ANSWER_SIZE_MAX;
        // The clock is read now and then: it takes as long as a part of a short command.
        let is_late = || {
            let is_looked_at =
                answers.ends.len().is_multiple_of(TIMED_LEN) || read_size::is_large();
            is_looked_at && began.elapsed() > TIME_MAX
        };
        if is_full || is_wanted() || is_late() {
            break;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use everleaf::{Expiry, Options};

    use super::*;
    use crate::Config;
    use crate::acl::Acl;
    use crate::client_state::ClientState;
    use crate::command::facts;
    use crate::resp::{Limits, Parser, Protocol};
    use crate::shared::Control;
    use crate::shared::Shared;
    use crate::statistics::Tally;

    const LIMITS: Limits = Limits {
        arg_count_max: 100,
        bulk_size_max: 100,
        inline_size_max: 100,
        request_size_max: 1000,
        authenticated: true,
    };

    fn shared(folder: &std::path::Path) -> Shared {
        let options = Options::new().create(true).max_size_bytes(64 << 20).sweep(false);
        let store = Arc::new(options.open(folder.join("pool")).unwrap());
        let config = Config { threads: 1, ..Config::default() };
        let acl = Acl::open(&config).unwrap();
        Shared::new(config, acl, store, Arc::new(Control::new(vec![], &[], None, None)))
    }

    /// One `HSET` of each key.
    fn bytes_of(keys: &[String]) -> Vec<Vec<u8>> {
        let bytes = |key: &String| {
            format!("*4\r\n$4\r\nHSET\r\n${}\r\n{key}\r\n$1\r\nf\r\n$1\r\nv\r\n", key.len()).into()
        };
        keys.iter().map(bytes).collect()
    }

    #[test]
    fn what_damage_refused_is_run_one_by_one() {
        use everleaf::Error;
        for error in [Error::Corrupt("a leaf".into()), Error::PoolFull("full".into())] {
            let undone = Undone::refused(7, Failure::Store(error));
            assert_eq!((undone.count, undone.failure.is_none()), (7, true));
        }
        // Some of it may be there.
        let undone = Undone::refused(7, Failure::Store(Error::LogFailed("the disk".into())));
        assert!(undone.failure.is_some());
    }

    /// All keys of a step were hot behind a conflict over one of them, and the next 256 commands of each took turns.
    #[test]
    fn a_conflict_heats_only_the_key_that_others_changed() {
        let folder = tempfile::tempdir().unwrap();
        let shared = shared(folder.path());
        let client = shared.registry.add(("a:1".into(), "b:2".into()), 0, 0);
        let mut session = ClientState::new(client, &shared.acl);
        let mut keys: Vec<String> = (0..32).map(|number| format!("calm{number}")).collect();
        keys.insert(16, "busy".to_string());
        let (bytes, mut parser, mut series) =
            (bytes_of(&keys), Parser::default(), Series::default());
        for bytes in &bytes {
            assert_eq!(parser.parse(bytes, &LIMITS).ok(), Some(Some(bytes.len())));
            assert!(series.push(facts::find(b"hset").unwrap(), &parser, bytes, 0));
        }
        // Dropped behind the steps below, also by a panic: then the others end.
        let steps = Arc::new(());
        let watch = Arc::downgrade(&steps);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in (0..).take_while(|_| watch.strong_count() > 0) {
                    let later = Expiry::from_unix_ms((1 << 42) + number);
                    let _ = shared.store.default_map().expire("busy", later).unwrap();
                }
            });
            // Until it comes between the reading and the writing of a step.
            let conflicts = (0..100_000).any(|_| {
                let (mut tally, mut out) = (Tally::default(), Vec::new());
                let map = shared.databases.map_of(0);
                let mut context = Context {
                    shared: &shared,
                    session: &mut session,
                    tally: &mut tally,
                    reply: Reply::new(&mut out, Protocol::Resp2, usize::MAX),
                    keys: Keys::Store(&shared.store, map, &shared.types),
                    later: None,
                };
                // What conflicts too often is run command by command: nothing failed then.
                let undone = run(&mut context, &series, 0).err();
                assert!(undone.is_none_or(|undone| undone.failure.is_none()));
                shared.turns.is_hot(b"busy")
            });
            drop(steps);
            assert!(conflicts, "nothing came between");
        });
        let calm = keys.iter().filter(|key| shared.turns.is_hot(key.as_bytes()));
        // Some may have the lock of the other.
        assert!(calm.count() < 8);
    }
}
