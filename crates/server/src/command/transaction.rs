//! `MULTI`, `EXEC`, `DISCARD`, `WATCH`: several commands as one.
//!
//! Between `MULTI` and `EXEC` commands are only kept. `EXEC` runs them on a stage (`keys.rs`) and
//! writes what they changed as one batch: all or nothing, for every reader and across a crash. If
//! another client changed a key that one of them read meanwhile, they are run again; if it changed a
//! *watched* key, nothing is done. A key counts as changed when its value or its time is another
//! than before: a key that was changed and changed back does not. Of the value a digest is kept, 16
//! bytes however long it is; what a connection watches may take 16 MiB, and all that is watched
//! together, at `EXEC`, as much as a request may have.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

use everleaf::{Expiry, Store, WriteBatch, Written};

use super::keys::{Keys, Stage, expect, read};
use super::table::{self, Command};
use super::{Context, Failure, Outcome};
use crate::resp::{KeptRequests, Reply, Request};

/// Commands a transaction may hold, and bytes of them.
const COMMAND_COUNT_MAX: usize = 1 << 20;
const SIZE_MAX: usize = 256 << 20;
/// Bytes that the watched keys of a connection may take, each with what it was.
const WATCHED_SIZE_MAX: usize = 16 << 20;
/// Bytes that a watched key takes besides itself: what it was, and its place in the map.
const WATCHED_OVERHEAD: usize = 96;
/// How often a transaction is run again before the client has to do that.
const ATTEMPT_COUNT_MAX: usize = 1000;

/// What a connection keeps for its next `EXEC`.
#[derive(Debug, Default)]
pub struct Transaction {
    /// The commands since `MULTI`; `None` outside of a transaction.
    queue: Option<Queue>,
    watched: Watched,
}

/// Watched keys, and what they were when they began to be watched.
#[derive(Debug, Default)]
struct Watched {
    keys: BTreeMap<Vec<u8>, Option<Seen>>,
    size: usize,
    digest: Digest,
}

/// What a key was.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    value: [u64; 2],
    value_size: usize,
    expiry: Expiry,
}

/// Digests of values, with two keys that nobody else knows: nobody can make two values of one digest,
/// and that it happens by chance is less likely than any failure of the machine.
#[derive(Debug, Default)]
struct Digest([RandomState; 2]);

impl Digest {
    fn see(&self, value: &[u8], expiry: Expiry) -> Seen {
        let digest = |state: &RandomState| {
            let mut hasher = state.build_hasher();
            hasher.write(value);
            hasher.finish()
        };
        Seen { value: [digest(&self.0[0]), digest(&self.0[1])], value_size: value.len(), expiry }
    }
}

impl Watched {
    /// Watches keys, all or none of them, as they are now; those that are watched already go on as they
    /// are.
    fn add<'k>(&mut self, store: &Store, keys: impl Iterator<Item = &'k [u8]>) -> Outcome {
        let (mut new, mut size) = (BTreeMap::new(), self.size);
        for key in keys.filter(|key| !self.keys.contains_key(*key)) {
            if new.contains_key(key) {
                continue;
            }
            size += key.len() + WATCHED_OVERHEAD;
            if size > WATCHED_SIZE_MAX {
                return Err(Failure::text(format!(
                    "ERR watched keys may take {WATCHED_SIZE_MAX} bytes per connection: none of these \
                     was added; use EXEC, DISCARD or UNWATCH, or watch fewer keys"
                )));
            }
            let see = |value: &[u8], expiry| self.digest.see(value, expiry);
            new.insert(key.to_vec(), store.get_with_expiry(key, see)?);
        }
        self.size = size;
        self.keys.append(&mut new);
        Ok(())
    }

    /// Makes a batch, which is empty, depend on what the keys are now. Returns whether that is what
    /// they were. The batch has a copy of all values, so together they may be as large as a request.
    fn expect(
        &self,
        store: &Store,
        batch: &mut WriteBatch,
        size_max: usize,
    ) -> Result<bool, Failure> {
        for (key, seen) in &self.keys {
            let now = read(store, key)?;
            let size = key.len() + now.as_ref().map_or(0, |(value, _)| value.len());
            if batch.size_bytes() + size > size_max {
                return Err(Failure::text(format!(
                    "ERR the watched keys and their values take more than {size_max} bytes: watch fewer"
                )));
            }
            let seen_now = now.as_ref().map(|(value, expiry)| self.digest.see(value, *expiry));
            if seen_now != *seen {
                return Ok(false);
            }
            expect(batch, store, key, now.as_ref());
        }
        Ok(true)
    }
}

#[derive(Debug, Default)]
struct Queue {
    /// With the command's index in the table.
    requests: KeptRequests,
    /// Whether one of them was refused: then `EXEC` does nothing.
    refused: bool,
}

impl Queue {
    /// Makes `EXEC` do nothing.
    fn refuse(&mut self) {
        *self = Queue { refused: true, ..Queue::default() };
    }
}

impl Transaction {
    /// Whether commands are being kept.
    pub fn is_open(&self) -> bool {
        self.queue.is_some()
    }

    /// Bytes that it makes the server hold.
    pub fn memory(&self) -> usize {
        let queue = self.queue.as_ref().map_or(0, |queue| queue.requests.memory());
        queue + self.watched.size
    }
}

/// Whether a command is run at once between `MULTI` and `EXEC`.
fn is_immediate(name: &str) -> bool {
    matches!(name, "multi" | "exec" | "discard" | "watch" | "unwatch" | "reset" | "quit")
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
    if command.first_key == 0 && !matches!(command.name, "ping" | "echo") {
        queue.refuse();
        let name = command.name;
        return Err(Failure::text(format!("ERR '{name}' is not allowed inside a transaction")));
    }
    // What will not be run is not kept.
    if !queue.refused {
        queue.requests.push(index, request);
    }
    if queue.requests.memory() > SIZE_MAX || queue.requests.len() > COMMAND_COUNT_MAX {
        queue.refuse();
        return Err(Failure::text("ERR the transaction is too long: use several"));
    }
    context.reply.status("QUEUED");
    Ok(true)
}

/// Notes that a command was refused, if a transaction is open.
pub fn refuse(context: &mut Context<'_>) {
    if let Some(queue) = &mut context.session.transaction.queue {
        queue.refuse();
    }
}

/// `MULTI`
pub fn multi(context: &mut Context<'_>, _: &Request<'_>) -> Outcome {
    let transaction = &mut context.session.transaction;
    if transaction.is_open() {
        return Err(Failure::text("ERR MULTI calls can not be nested"));
    }
    transaction.queue = Some(Queue::default());
    context.reply.ok();
    Ok(())
}

/// `DISCARD`
pub fn discard(context: &mut Context<'_>, _: &Request<'_>) -> Outcome {
    if !context.session.transaction.is_open() {
        return Err(Failure::text("ERR DISCARD without MULTI"));
    }
    context.session.transaction = Transaction::default();
    context.reply.ok();
    Ok(())
}

/// `WATCH key [key ...]`
pub fn watch(context: &mut Context<'_>, request: &Request<'_>) -> Outcome {
    let transaction = &mut context.session.transaction;
    if transaction.is_open() {
        return Err(Failure::text("ERR WATCH inside MULTI is not allowed"));
    }
    transaction.watched.add(&context.shared.store, request.args_from(1))?;
    context.reply.ok();
    Ok(())
}

/// `UNWATCH`
pub fn unwatch(context: &mut Context<'_>, _: &Request<'_>) -> Outcome {
    context.session.transaction.watched = Watched::default();
    context.reply.ok();
    Ok(())
}

/// `EXEC`
pub fn exec(context: &mut Context<'_>, _: &Request<'_>) -> Outcome {
    let Transaction { queue, watched } = std::mem::take(&mut context.session.transaction);
    let Some(queue) = queue else { return Err(Failure::text("ERR EXEC without MULTI")) };
    if queue.refused {
        return Err(Failure::text("EXECABORT Transaction discarded because of previous errors."));
    }
    let store = Arc::clone(&context.shared.store);
    let mut batch = WriteBatch::new();
    let mut answers = Vec::new();
    for _ in 0..ATTEMPT_COUNT_MAX {
        batch.clear();
        if !watched.expect(&store, &mut batch, context.shared.config.request_size_max)? {
            context.reply.null_array();
            return Ok(());
        }
        let mut stage = Stage::new(Arc::clone(&store));
        answers.clear();
        run(context, &queue, &mut stage, &mut answers)?;
        stage.fill(&mut batch);
        match store.write(&batch)? {
            Written::All => {
                context.reply.array(queue.requests.len());
                context.reply.encoded(&answers);
                return Ok(());
            }
            Written::Refused(number) if number < watched.keys.len() => {
                context.reply.null_array();
                return Ok(());
            }
            Written::Refused(_) => {}
        }
    }
    Err(Failure::text(
        "TRYAGAIN other clients changed the keys of the transaction again and again: send it again",
    ))
}

/// Runs the commands on the stage, each with its answer.
fn run(
    context: &mut Context<'_>,
    queue: &Queue,
    stage: &mut Stage,
    answers: &mut Vec<u8>,
) -> Outcome {
    let protocol = context.session.protocol;
    for (index, request) in queue.requests.iter() {
        let start = answers.len();
        let limit = start.saturating_add(context.shared.config.reply_size_max);
        let mut inner = Context {
            shared: context.shared,
            session: context.session,
            tally: context.tally,
            reply: Reply::new(answers, protocol, limit),
            keys: Keys::Stage(stage),
        };
        if let Err(failure) = (table::COMMANDS[index].run)(&mut inner, &request) {
            inner.tally.errors += 1;
            inner.reply.truncate(start);
            failure.write(&mut inner.reply, inner.shared);
        }
        if answers.len() > context.shared.config.reply_size_max {
            return Err(Failure::ReplyTooLong);
        }
    }
    Ok(())
}
