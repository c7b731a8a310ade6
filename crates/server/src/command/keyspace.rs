//! Keys as such: `DEL`, `EXISTS`, `KEYS` and their like.

use std::ops::ControlFlow;

use super::at_once::with_names;
use super::context::Context;
use super::keys::Keys;
use super::stage::Staged;
use super::walk::Bounds;
use crate::failure::{CommandResult, Failure};
use crate::glob::{self, Pattern};
use crate::resp::Request;
use crate::types::Kind;

/// `DEL key [key ...]` and `UNLINK`
pub fn del(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let count = with_names(request.args_from(1), |names| context.keys.remove_many(names))?;
    context.reply.integer(count);
    Ok(())
}

/// `EXISTS key [key ...]`: a key that is given twice counts twice.
pub fn exists(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let count = with_names(request.args_from(1), |names| context.keys.count_of(names))?;
    context.reply.integer(count);
    Ok(())
}

/// `TYPE key`
pub fn type_of(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let kind = context.keys.kind(request.arg(1))?;
    context.reply.status(kind.map_or("none", |kind| kind.map_or("string", Kind::name)));
    Ok(())
}

/// `KEYS pattern`
pub fn keys(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let pattern = request.arg(1);
    let bounds = Bounds::of_prefix(&glob::literal_prefix(pattern));
    let pattern = Pattern::new(pattern);
    let Context { keys, reply, .. } = context;
    let array = reply.open_array();
    let mut count = 0;
    keys.walk(&bounds, false, |key, _| {
        if pattern.matches(key) {
            reply.bulk(key);
            count += 1;
        }
        if reply.is_full() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    if reply.is_full() {
        return Err(Failure::ReplyTooLong);
    }
    reply.close_array(array, count);
    Ok(())
}

/// `DBSIZE`
pub fn dbsize(context: &mut Context<'_>, _: &Request<'_>) -> CommandResult {
    context.reply.count(context.keys.len()?);
    Ok(())
}

/// `FLUSHDB [ASYNC | SYNC]`: the map of the database; others stay.
pub fn flushdb(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    check_mode(request)?;
    context.keys.clear()?;
    context.reply.ok();
    Ok(())
}

/// `FLUSHALL [ASYNC | SYNC]`: the maps of all databases; other maps of the pool stay. If there are several, nobody else
/// runs a command (`batch/alone.rs`).
pub fn flushall(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    check_mode(request)?;
    match &mut context.keys {
        Keys::Store(..) => {
            context.shared.databases.clear_all(context.shared.exclusion.is_alone())?;
        }
        Keys::Stage(staged) => {
            let mut all = staged.databases.existing();
            all.try_for_each(|place| staged.within(place, Staged::clear))?;
        }
    }
    context.reply.ok();
    Ok(())
}

/// Whether what follows the name is right.
pub fn check_mode(request: &Request<'_>) -> CommandResult {
    match request.get(1) {
        None => Ok(()),
        Some(mode) if request.len() == 2 && mode.eq_ignore_ascii_case(b"async") => Ok(()),
        Some(mode) if request.len() == 2 && mode.eq_ignore_ascii_case(b"sync") => Ok(()),
        Some(_) => Err(Failure::Syntax),
    }
}
