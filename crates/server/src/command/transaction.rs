//! `MULTI`, `EXEC`, `DISCARD`, `WATCH`: several commands as one.
//!
//! Between `MULTI` and `EXEC` commands are only kept. `EXEC` runs them on a stage (`keys.rs`) and
//! writes what they changed as one batch: all or nothing, for every reader and across a crash. If
//! another client changed a key that one of them read meanwhile, they are run again; if it changed a
//! *watched* key, nothing is done. A key counts as changed when its value or its time is another
//! than before: a key that was changed and changed back does not.

use std::collections::BTreeMap;
use std::sync::Arc;

use everleaf::{Expiry, WriteBatch, Written};

use super::keys::{Keys, Stage, expect, read};
use super::table::{self, Command};
use super::{Context, Failure, Outcome};
use crate::resp::{OwnedRequest, Reply, Request};

/// Commands a transaction may hold, and bytes of them.
const COMMAND_COUNT_MAX: usize = 1 << 20;
const SIZE_MAX: usize = 256 << 20;
/// How often a transaction is run again before the client has to do that.
const ATTEMPT_COUNT_MAX: usize = 1000;

/// What a connection keeps for its next `EXEC`.
#[derive(Debug, Default)]
pub struct Transaction {
    /// The commands since `MULTI`; `None` outside of a transaction.
    queue: Option<Queue>,
    /// Watched keys and what they were.
    watched: BTreeMap<Vec<u8>, Option<(Vec<u8>, Expiry)>>,
}

#[derive(Debug, Default)]
struct Queue {
    /// With the command's index in the table.
    requests: Vec<(usize, OwnedRequest)>,
    size: usize,
    /// Whether one of them was refused: then `EXEC` does nothing.
    refused: bool,
}

impl Transaction {
    /// Whether commands are being kept.
    pub fn is_open(&self) -> bool {
        self.queue.is_some()
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
        queue.refused = true;
        let name = command.name;
        return Err(Failure::text(format!("ERR '{name}' is not allowed inside a transaction")));
    }
    let kept = request.keep();
    queue.size += kept.size();
    if queue.size > SIZE_MAX || queue.requests.len() == COMMAND_COUNT_MAX {
        queue.refused = true;
        queue.requests = Vec::new();
        return Err(Failure::text("ERR the transaction is too long: use several"));
    }
    queue.requests.push((index, kept));
    context.reply.status("QUEUED");
    Ok(true)
}

/// Notes that a command was refused, if a transaction is open.
pub fn refuse(context: &mut Context<'_>) {
    if let Some(queue) = &mut context.session.transaction.queue {
        queue.refused = true;
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
    for key in request.args_from(1) {
        if !transaction.watched.contains_key(key) {
            let value = read(&context.shared.store, key)?;
            transaction.watched.insert(key.to_vec(), value);
        }
    }
    context.reply.ok();
    Ok(())
}

/// `UNWATCH`
pub fn unwatch(context: &mut Context<'_>, _: &Request<'_>) -> Outcome {
    context.session.transaction.watched.clear();
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
        for (key, value) in &watched {
            expect(&mut batch, &store, key, value.as_ref());
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
            Written::Refused(number) if number < watched.len() => {
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
    for (index, request) in &queue.requests {
        let start = answers.len();
        let limit = start.saturating_add(context.shared.config.reply_size_max);
        let mut inner = Context {
            shared: context.shared,
            session: context.session,
            tally: context.tally,
            reply: Reply::new(answers, protocol, limit),
            keys: Keys::Stage(stage),
        };
        if let Err(failure) = (table::COMMANDS[*index].run)(&mut inner, &request.as_request()) {
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
