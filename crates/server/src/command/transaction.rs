//! `MULTI`, `EXEC`, `DISCARD`, `WATCH`: several commands as one.
//!
//! Between `MULTI` and `EXEC` commands are only kept. `EXEC` runs them on a stage (`keys.rs`) and
//! writes what they changed as one batch: all or nothing, for every reader and across a crash. If
//! another client changed a key that one of them read meanwhile, they are run again, and after some
//! times while nobody else may write. A transaction with a command that does more than read and
//! write single keys (`KEYS`, `DBSIZE`, `FLUSHALL`, `CONFIG` ..) is run in that way at once: what it
//! does must not be done twice, and what it reads cannot be a condition. What it does besides writing
//! keys (`CONFIG SET`, `CLIENT KILL`) is done when the batch is, and a transaction that fails leaves the
//! connection as it was.
//!
//! If a *watched* key was written meanwhile, nothing is done, whatever it was written with; the store
//! tells that ([`everleaf::Map::watch`]). What a connection watches may take 16 MiB.

pub mod single;
pub mod step;

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use everleaf::{Store, WriteBatch, Written};

use super::context::{Context, Later, Run};
use super::facts::{COMMANDS, Command};
use super::keys::Keys;
use super::limits::{ATTEMPT_COUNT_MAX, BATCH_SIZE_MAX};
use super::queue::{Queue, Transaction};
use super::source::Source;
use super::stage::{Stage, Staged};
use super::timing::note_latency;
use super::waiting::service::{Service, serve_rest};
use super::watched::{self, Watched};
use super::{configuration, connection, permission, rename};
use crate::failure::{CommandResult, Failure};
use crate::latency::Ending;
use crate::resp::{Reply, Request};

/// Commands a transaction may hold, and bytes of them.
const COMMAND_COUNT_MAX: usize = 1 << 20;
const SIZE_MAX: usize = 256 << 20;

/// Whether a command is run at once between `MULTI` and `EXEC`.
fn is_immediate(name: &str) -> bool {
    matches!(name, "multi" | "exec" | "discard" | "watch" | "reset" | "quit")
}

/// Whether a command of this index is kept for `EXEC`, or refused: it is counted when it is run.
pub fn keeps(transaction: &Transaction, index: usize) -> bool {
    transaction.queue.is_some() && !is_immediate(COMMANDS[index].name)
}

/// Keeps a command for `EXEC`, if a transaction is open. Returns whether that was all.
pub fn keep(
    context: &mut Context<'_>,
    request: &Request<'_>,
    index: usize,
    command: &Command,
) -> Result<bool, Failure> {
    let Some(queue) = &mut context.session.transaction.queue else { return Ok(false) };
    if is_immediate(command.name) {
        return Ok(false);
    }
    if command.is_refused_in_multi() {
        queue.refuse();
        return Err(Failure::text("ERR Command not allowed inside a transaction"));
    }
    // What will not be run is not kept.
    if !queue.refused {
        queue.exchanges |= command.exchanges();
        queue.requests.push(index, request);
    }
    if queue.requests.memory() > SIZE_MAX || queue.requests.len() > COMMAND_COUNT_MAX {
        queue.refuse();
        return Err(Failure::text("ERR the transaction is too long: use several"));
    }
    context.reply.status("QUEUED");
    Ok(true)
}

/// `MULTI`
pub fn multi(context: &mut Context<'_>, _: &Request<'_>) -> CommandResult {
    let transaction = &mut context.session.transaction;
    if transaction.is_open() {
        return Err(Failure::text("ERR MULTI calls can not be nested"));
    }
    transaction.queue = Some(Queue { database: context.session.database, ..Queue::default() });
    context.reply.ok();
    Ok(())
}

/// `DISCARD`
pub fn discard(context: &mut Context<'_>, _: &Request<'_>) -> CommandResult {
    if !context.session.transaction.is_open() {
        return Err(Failure::text("ERR DISCARD without MULTI"));
    }
    context.session.transaction = Transaction::default();
    context.reply.ok();
    Ok(())
}

/// `WATCH key [key ...]`
pub fn watch(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let database = context.session.database;
    let transaction = &mut context.session.transaction;
    if transaction.is_open() {
        return Err(Failure::text("ERR WATCH inside MULTI is not allowed"));
    }
    let shared = context.shared;
    let watched = transaction.watched.get_or_insert_with(|| shared.watching.begin());
    watched::lock(watched).add(&shared.databases, database, request.args_from(1))?;
    context.reply.ok();
    Ok(())
}

/// `UNWATCH`
pub fn unwatch(context: &mut Context<'_>, _: &Request<'_>) -> CommandResult {
    context.session.transaction.watched = None;
    context.reply.ok();
    Ok(())
}

/// `EXEC`, by the functions of all commands.
pub fn exec(context: &mut Context<'_>, function: fn(usize) -> Run) -> CommandResult {
    let transaction = &mut context.session.transaction;
    let Some(queue) = transaction.queue.take() else {
        // What is watched stays so.
        return Err(Failure::text("ERR EXEC without MULTI"));
    };
    // For a `CLIENT INFO` of this transaction.
    context.session.client.gauges.set_queued(Some(queue.requests.len()));
    let transaction = &mut context.session.transaction;
    // Taken out, so that a SWAPDB of this transaction does not look at it.
    let watched = transaction.watched.take();
    let watched =
        watched.map_or_else(Watched::default, |it| std::mem::take(&mut *watched::lock(&it)));
    if queue.refused {
        return Err(Failure::text("EXECABORT Transaction discarded because of previous errors."));
    }
    if watched.is_broken() {
        context.reply.null_array();
        return Ok(());
    }
    for (index, request) in queue.requests.iter() {
        prepare(context, &request, &COMMANDS[index])?;
    }
    let requests = queue.requests.iter().map(|(_, it)| it);
    let (ahead, changing) = configuration::read_ahead(context.shared, requests);
    let (mut answers, mut later) = (Answers::default(), Later::new(ahead));
    let before = context.session.state();
    let kept = Kept { queue: &queue, watched: &watched, function };
    let done = run_all(context, &kept, &mut answers, &mut later);
    if matches!(done, Ok(true)) {
        later.perform(context.shared);
    } else {
        context.session.restore(before);
    }
    drop(changing);
    let done = done?;
    // `HELLO` may have changed it.
    context.reply.protocol = context.session.protocol;
    if done && context.shared.monitors.any() {
        show(context, &queue);
    }
    if done {
        note_endings(context, &queue, &answers);
        context.reply.array(answers.count);
        context.reply.encoded(&answers.bytes);
    } else {
        context.reply.null_array();
    }
    Ok(())
}

/// What is run.
struct Kept<'a> {
    queue: &'a Queue,
    watched: &'a Watched,
    /// The functions of all commands. Only what is above these knows them (`table.rs`).
    function: fn(usize) -> Run,
}

/// What the commands of a transaction have answered.
#[derive(Default)]
struct Answers {
    bytes: Vec<u8>,
    /// How many they are: `CLIENT REPLY OFF` has none.
    count: usize,
    /// How long each command took, and how it ended, if somebody wants to know.
    endings: Vec<(Duration, Ending)>,
}

/// Counts the commands of a transaction that is done.
fn note_endings(context: &Context<'_>, queue: &Queue, answers: &Answers) {
    for ((_, request), (duration, ending)) in queue.requests.iter().zip(&answers.endings) {
        note_latency(context, &request, *duration, *ending);
    }
}

/// Shows the commands of a transaction that is done to the monitors, each with the database in which it was run.
fn show(context: &Context<'_>, queue: &Queue) {
    let (shared, mut database) = (context.shared, queue.database);
    for (index, request) in queue.requests.iter() {
        if COMMANDS[index].name == "select" {
            let selected = connection::database_arg(request.arg(1), shared.databases.count());
            database = selected.unwrap_or(database);
        }
        shared.show_to_monitors(&context.session.client, database, &request, index);
    }
}

/// Bytes that a transaction may hold while it is run, besides its commands and replies.
fn stage_size_max(context: &Context<'_>) -> usize {
    let limit = context.shared.settings.client_memory_max();
    limit.map_or(BATCH_SIZE_MAX, |limit| limit.min(BATCH_SIZE_MAX))
}

/// Runs a transaction. Returns whether it was done, or not because of a watched key. What it does
/// besides reading and writing keys is left to be done then.
fn run_all(
    context: &mut Context<'_>,
    kept: &Kept<'_>,
    answers: &mut Answers,
    later: &mut Later,
) -> Result<bool, Failure> {
    let tally = *context.tally;
    if let Some(done) = run_among_others(context, kept, answers)? {
        return Ok(done);
    }
    *context.tally = tally;
    run_alone(context, kept, answers, later)
}

/// Runs a transaction while others write. Returns whether it was done, or not because of a watched
/// key; `None` if it must be run while nobody else writes.
fn run_among_others(
    context: &mut Context<'_>,
    kept: &Kept<'_>,
    answers: &mut Answers,
) -> Result<Option<bool>, Failure> {
    let Kept { queue, watched, .. } = *kept;
    if !queue.requests.iter().all(|(index, _)| COMMANDS[index].is_of_keys()) {
        return Ok(None);
    }
    let store = Arc::clone(&context.shared.store);
    let mut batch = WriteBatch::new();
    let tally = *context.tally;
    for _ in 0..ATTEMPT_COUNT_MAX {
        // What an attempt before this one counted was not done.
        *context.tally = tally;
        batch.clear();
        watched.expect(&mut batch);
        let mut stage = Stage::beside_others(stage_size_max(context), &store);
        if let Err(failure) =
            run(context, kept, &mut stage, &mut &*store, answers, &mut Later::default())
        {
            // Alone it need not hold what it reads.
            return if stage.is_over() { Ok(None) } else { Err(failure) };
        }
        let service = serve(context, &mut stage, &store)?;
        stage.expect_read(&mut batch, &context.shared.databases);
        stage.fill(&mut batch, &context.shared.databases, &context.shared.types);
        match store.write(&batch)? {
            Written::All => {
                finish(context, service, &mut stage);
                return Ok(Some(true));
            }
            Written::Refused(number) if number < watched.len() => return Ok(Some(false)),
            Written::Refused(_) => {}
        }
    }
    Ok(None)
}

/// Runs a transaction while nobody else writes. Returns whether it was done.
fn run_alone(
    context: &mut Context<'_>,
    kept: &Kept<'_>,
    answers: &mut Answers,
    later: &mut Later,
) -> Result<bool, Failure> {
    let Kept { queue, watched, .. } = *kept;
    let store = Arc::clone(&context.shared.store);
    let asks = queue.requests.iter().any(|(index, _)| COMMANDS[index].name == "info");
    let statistics = asks.then(|| store.statistics());
    let mut stage = Stage::new(stage_size_max(context));
    stage.statistics = statistics;
    let mut service = Service::if_any(context.shared, context.session.client.loop_index);
    let mut is_broken = false;
    let written = store.write_alone(|alone, batch| {
        watched.expect(batch);
        is_broken = watched.is_broken();
        if is_broken {
            // Nothing may be done that is not in the batch, which has nothing in it. It need not be refused: a key may
            // count as expired here, and not by the clock a moment later.
            return Ok(());
        }
        later.restart();
        run(context, kept, &mut stage, alone, answers, later)?;
        if let Some(service) = &mut service {
            service.serve(&mut stage, alone)?;
        }
        stage.fill(batch, &context.shared.databases, &context.shared.types);
        Ok::<(), Failure>(())
    })?;
    let is_done = written.is_done() && !is_broken;
    if is_done {
        finish(context, service, &mut stage);
    }
    Ok(is_done)
}

/// Serves the clients that wait for what a stage makes, while others write.
fn serve<'a>(
    context: &Context<'a>,
    stage: &mut Stage,
    store: &Store,
) -> Result<Option<Service<'a>>, Failure> {
    let loop_index = context.session.client.loop_index;
    let mut service = Service::if_wanted(context.shared, loop_index, stage.made());
    if let Some(service) = &mut service {
        service.serve(stage, &mut &*store)?;
    }
    Ok(service)
}

/// Answers the clients that were served on a stage that is written, and serves those that came too late for that.
fn finish(context: &Context<'_>, service: Option<Service<'_>>, stage: &mut Stage) {
    let (shared, loop_index) = (context.shared, context.session.client.loop_index);
    stage.keep_separators(&shared.types);
    let mut made = Vec::new();
    let served = match (stage.places(), service) {
        (Some(places), service) => {
            // It has served nobody.
            drop(service);
            shared.databases.exchange(places);
            shared.watching.follow(&shared.databases, stage.exchanged());
            let waited = shared.waiters.lock().follow(&shared.databases, stage.exchanged());
            made = [stage.made(), &waited].concat();
            serve_rest(shared, loop_index, &made)
        }
        (None, Some(service)) => {
            service.finish();
            Ok(())
        }
        (None, None) => {
            let served = serve_rest(shared, loop_index, stage.made());
            if served.is_err() {
                made = stage.made().to_vec();
            }
            served
        }
    };
    // What was written is written; a client that waits goes on to do so, and it is tried again (`event_loop.rs`).
    if let Err(failure) = served {
        if let Failure::Store(error) = failure {
            shared.log_store_error(&error);
        }
        shared.loops[loop_index].serve_later(made);
    }
}

/// Makes what a command needs of the store, before it is run within an operation of that.
fn prepare(context: &Context<'_>, request: &Request<'_>, command: &Command) -> CommandResult {
    let Context { shared, .. } = context;
    if command.makes_collections() {
        shared.types.begin(&shared.store)?;
    }
    for database in rename::databases_of(request, command, shared.databases.count()) {
        shared.databases.begin(&shared.store, database)?;
    }
    if command.exchanges() {
        shared.databases.begin_swaps(&shared.store)?;
    }
    Ok(())
}

thread_local! {
    /// A batch with nothing in it, whose memory the next step needs again.
    static SPARE: Cell<WriteBatch> = Cell::default();
}

/// Bytes and changes of a batch up to which its memory is kept.
const SPARE_SIZE_MAX: usize = 64 << 10;
const SPARE_LEN_MAX: usize = 1 << 10;

/// Keeps the memory of a batch for the next one.
fn keep_spare(mut batch: WriteBatch) {
    if batch.size_bytes() <= SPARE_SIZE_MAX && batch.len() <= SPARE_LEN_MAX {
        batch.clear();
        SPARE.set(batch);
    }
}

/// Writes what a stage holds that was made while others write, if what it depends on is still so. Returns whether it
/// is.
pub fn complete(context: &Context<'_>, stage: &mut Stage, store: &Store) -> Result<bool, Failure> {
    let Context { shared, .. } = context;
    if stage.is_unchanged() {
        let is_so = stage.still_holds(&shared.databases, store)?;
        if is_so {
            stage.keep_separators(&shared.types);
        }
        return Ok(is_so);
    }
    let service = serve(context, stage, store)?;
    let mut batch = SPARE.take();
    stage.expect_read(&mut batch, &shared.databases);
    stage.fill(&mut batch, &shared.databases, &shared.types);
    let is_done = store.write(&batch)?.is_done();
    keep_spare(batch);
    if is_done {
        finish(context, service, stage);
    }
    Ok(is_done)
}

/// Runs the commands on the stage, each with its answer.
fn run(
    context: &mut Context<'_>,
    kept: &Kept<'_>,
    stage: &mut Stage,
    source: &mut dyn Source,
    answers: &mut Answers,
    later: &mut Later,
) -> CommandResult {
    let Kept { queue, function, .. } = *kept;
    *answers = Answers::default();
    let Answers { bytes: answers, count, endings } = answers;
    // An attempt before this one may have selected another.
    context.session.select(queue.database);
    let Context { shared, .. } = *context;
    // Once: others may change it meanwhile, and each time belongs to its command.
    let wants_times = shared.latency.wants_times();
    for (index, request) in queue.requests.iter() {
        let start = answers.len();
        let began = wants_times.then(Instant::now);
        let mark = stage.mark();
        let place = stage.place(&shared.databases, context.session.database);
        let protocol = context.session.protocol;
        let limit = start.saturating_add(context.shared.config.reply_size_max);
        let mut inner = Context {
            shared,
            session: context.session,
            tally: context.tally,
            reply: Reply::new(answers, protocol, limit),
            keys: Keys::Stage(Staged {
                stage,
                source,
                types: &shared.types,
                databases: &shared.databases,
                place,
            }),
            later: Some(later),
        };
        let allowed = permission::check_kept(&mut inner, &request, index);
        let is_allowed = allowed.is_ok();
        let outcome = allowed.and_then(|()| function(index)(&mut inner, &request));
        let outcome = outcome.and_then(|()| inner.reply.check());
        if let Some(began) = began {
            endings.push((began.elapsed(), Ending::of(is_allowed, outcome.is_ok())));
        }
        if let Err(failure) = outcome {
            inner.tally.errors += 1;
            inner.reply.truncate(start);
            failure.write(&mut inner.reply, inner.shared);
            // A stage that is over ends the transaction.
            if !stage.is_over() {
                stage.roll_back(&mark);
            }
        }
        if stage.is_over() {
            return Err(stage.failure());
        }
        *count += usize::from(answers.len() > start);
        if answers.len() > context.shared.config.reply_size_max {
            return Err(Failure::ReplyTooLong);
        }
    }
    stage.forget_mark();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::context_of;
    use crate::batch::test_run::Bench;
    use crate::statistics::Tally;

    fn no_command(_: usize) -> Run {
        panic!("the queue is empty")
    }

    /// What was answered: `EXEC` that had not run a command, because a watched key counted as written, was answered as
    /// done if the batch with nothing in it was written a moment later.
    #[test]
    fn a_transaction_that_was_not_run_is_not_answered_as_done() {
        let bench = Bench::new(Bench::config());
        let (shared, mut session) = (&bench.shared, bench.client());
        let (mut tally, mut out, queue) = (Tally::default(), vec![], Queue::default());
        let mut context = context_of(shared, &mut session, &mut tally, &mut out, usize::MAX);
        for (watched, is_done) in [(Watched::default(), true), (Watched::touched(), false)] {
            let kept = Kept { queue: &queue, watched: &watched, function: no_command };
            let (mut answers, mut later) = (Answers::default(), Later::default());
            let done = run_alone(&mut context, &kept, &mut answers, &mut later);
            assert_eq!(done.ok(), Some(is_done));
        }
    }
}
