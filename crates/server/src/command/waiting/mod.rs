//! Commands that wait for a key to get members: `BLPOP`, `BRPOP`, `BLMPOP`, `BLMOVE`, `BRPOPLPUSH`, `BZPOPMIN`,
//! `BZPOPMAX`, `BZMPOP`.
//!
//! If one of the keys has members the command is done at once, as that of the same name without `B`. Otherwise
//! what it asks for is kept (`waiters.rs`), and the connection runs nothing more until it is answered: by a
//! command that makes such a collection (`service.rs`), by `CLIENT UNBLOCK`, or when the time is over. Between
//! `MULTI` and `EXEC` nothing waits.

mod parse;
pub mod service;

pub use parse::parse;

use super::context::Context;
use super::copy_budget::CopyBudget;
use super::list::{pop::pop as pop_elements, pop::show as show_elements, push::transfer};
use super::stage::Staged;
use super::transaction::step::run_step;
use super::zset::{pop::pop as pop_members, show as show_members};
use crate::blocking_request::{BlockingRequest, What};
use crate::client_state::Waiting;
use crate::failure::{CommandResult, Failure, Result};
use crate::resp::{Reply, Request};
use crate::shared::Shared;
use crate::waiters::{Delivery, Waiter};

/// Bytes that a key takes besides itself, which it does twice, while somebody waits for it.
const KEY_OVERHEAD: usize = 140;
/// Bytes that an argument takes besides itself.
const ARG_OVERHEAD: usize = 40;

impl BlockingRequest {
    /// Does it with this key, if that has members. Returns whether it had.
    pub fn grant(
        &self,
        staged: &mut Staged<'_>,
        key: &[u8],
        reply: &mut Reply<'_>,
    ) -> Result<bool> {
        let mut budget = CopyBudget::of(reply);
        match &self.what {
            What::Pop(side) => {
                let popped = pop_elements(staged, key, 1, *side, &mut budget)?.unwrap_or_default();
                let Some(element) = popped.first() else { return Ok(false) };
                reply.array(2);
                reply.bulk(key);
                reply.bulk(element);
            }
            What::PopMany(side, count) => {
                let popped =
                    pop_elements(staged, key, *count, *side, &mut budget)?.unwrap_or_default();
                if popped.is_empty() {
                    return Ok(false);
                }
                reply.array(2);
                reply.bulk(key);
                show_elements(reply, &popped)?;
            }
            What::Move { destination, from, to } => {
                let moved = transfer(staged, key, destination, *from, *to)?;
                let Some(element) = moved else { return Ok(false) };
                reply.bulk(&element);
            }
            What::PopMember { reverse } => {
                let popped = pop_members(staged, key, 1, *reverse, &mut budget)?;
                let Some((member, score)) = popped.iter().next() else { return Ok(false) };
                reply.array(3);
                reply.bulk(key);
                reply.bulk(member);
                reply.double(score);
            }
            What::PopMembers { reverse, count } => {
                let popped = pop_members(staged, key, *count, *reverse, &mut budget)?;
                if popped.is_empty() {
                    return Ok(false);
                }
                reply.array(2);
                reply.bulk(key);
                show_members(reply, popped.iter(), true, true)?;
            }
        }
        Ok(true)
    }

    /// Whether one of the keys has a collection of its kind. With members, unless it is damaged.
    fn is_any_there(&self, staged: &mut Staged<'_>) -> Result<bool> {
        for key in &self.keys {
            if staged.kind(key)? == Some(self.kind) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Does it with the first key that has members. Returns whether one had.
    fn grant_first(&self, staged: &mut Staged<'_>, reply: &mut Reply<'_>) -> Result<bool> {
        for key in &self.keys {
            if self.grant(staged, key, reply)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The bytes that it takes while it is kept.
    fn memory(&self) -> usize {
        let keys: usize = self.keys.iter().map(|key| 2 * key.len() + KEY_OVERHEAD).sum();
        match &self.what {
            What::Move { destination, .. } => keys + destination.len(),
            _ => keys,
        }
    }
}

/// The bytes that the arguments of a command take while they are kept.
fn memory_of(args: &[Vec<u8>]) -> usize {
    args.iter().map(|arg| arg.len() + ARG_OVERHEAD).sum()
}

/// Runs one of the commands where nothing waits: between `MULTI` and `EXEC`.
pub fn run(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let (blocking, _) = parse(request)?;
    if !blocking.grant_first(context.keys.staged()?, &mut context.reply)? {
        match blocking.what {
            What::Move { .. } => context.reply.null(),
            _ => context.reply.null_array(),
        }
    }
    Ok(())
}

/// Runs one of the commands. If it has to wait, nothing is answered, and the connection is marked.
pub fn wait(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let (blocking, timeout_ms) = parse(request)?;
    let shared = context.shared;
    // What it moves becomes a list, perhaps the first there is.
    if matches!(blocking.what, What::Move { .. }) {
        shared.types.begin(&shared.store)?;
    }
    loop {
        let (mut granted, mut is_damaged) = (false, false);
        let first = blocking.keys.first().map_or(&b""[..], Vec::as_slice);
        run_step(context, first, true, &mut |inner| {
            let staged = inner.keys.staged()?;
            granted = blocking.grant_first(staged, &mut inner.reply)?;
            is_damaged = !granted && blocking.is_any_there(staged)?;
            Ok(())
        })?;
        if granted {
            return Ok(());
        }
        // It would neither be granted nor wait, again and again.
        if is_damaged {
            return Err(Failure::damaged());
        }
        let args: Vec<_> = request.args_from(0).map(<[u8]>::to_vec).collect();
        let memory = blocking.memory() + memory_of(&args);
        let mut waiters = shared.waiters.lock();
        let waiter = Waiter {
            client: context.session.client.clone(),
            database: context.session.database,
            place: shared.databases.place(context.session.database),
            blocking: blocking.clone(),
            args,
            protocol: context.session.protocol,
        };
        let ticket = waiters.add(waiter);
        match has_members(context, &blocking) {
            Ok(false) => {}
            result => {
                waiters.take(ticket);
                result?;
                continue;
            }
        }
        context.session.waiting = Some(Waiting {
            ticket,
            until_ms: timeout_ms.map(|timeout| shared.now_ms().saturating_add(timeout)),
            is_silent: false,
            memory,
        });
        context.session.client.set_waiting(true);
        return Ok(());
    }
}

/// Whether one of the keys has what is wished for.
fn has_members(context: &Context<'_>, blocking: &BlockingRequest) -> Result<bool> {
    let types = &context.shared.types;
    let map = context.shared.databases.map_of(context.session.database);
    for key in &blocking.keys {
        let kind = map.get_with(key, |value| types.header(value))?;
        if kind.flatten().is_some_and(|header| header.kind == blocking.kind) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Ends the waiting of a client. Returns whether it waited.
pub fn unblock(shared: &Shared, loop_index: usize, client_id: u64, with_error: bool) -> bool {
    let Some((ticket, waiter)) = shared.waiters.lock().take_client(client_id) else { return false };
    let mut answer = Vec::new();
    let mut reply = Reply::new(&mut answer, waiter.protocol, usize::MAX);
    if with_error {
        reply.error("UNBLOCKED client unblocked via CLIENT UNBLOCK");
    } else {
        write_timeout(&mut reply);
    }
    let delivery = Delivery { client: waiter.client, ticket, reply: answer };
    shared.loops[loop_index].send_later(std::iter::once(delivery));
    true
}

/// What a client is told whose time is over.
pub fn write_timeout(reply: &mut Reply<'_>) {
    reply.null_array();
}
