//! Changing lists inside: `LSET`, `LTRIM`, `LREM`, `LINSERT`.

use std::ops::ControlFlow;

use super::{find, place};
use crate::command::context::Context;
use crate::command::integer::integer_arg;
use crate::command::zset::parts::ranks;
use crate::failure::{CommandResult, Failure};
use crate::resp::Request;

/// `LSET key index element`
pub fn lset(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let Some(mut list) = find(context.keys.staged()?, request.arg(1))? else {
        return Err(Failure::text("ERR no such key"));
    };
    let at = place(integer_arg(request.arg(2))?, list.header.count)
        .ok_or(Failure::text("ERR index out of range"))?;
    list.set_element(at, request.arg(3))?;
    list.finish()?;
    context.reply.ok();
    Ok(())
}

/// `LTRIM key first last`
pub fn ltrim(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let (first, last) = (integer_arg(request.arg(2))?, integer_arg(request.arg(3))?);
    if let Some(mut list) = find(context.keys.staged()?, request.arg(1))? {
        match ranks(first, last, list.header.count) {
            None => list.clear()?,
            Some((first, last)) => {
                list.keep_elements(first, last)?;
                list.finish()?;
            }
        }
    }
    context.reply.ok();
    Ok(())
}

/// `LREM key count element`: negative counts begin at the right, 0 means all.
pub fn lrem(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let count = integer_arg(request.arg(2))?;
    let (element, wanted) = (request.arg(3), count.unsigned_abs());
    let (mut found, mut found_count, mut is_too_much) = (Vec::new(), 0, false);
    let staged = context.keys.staged()?;
    // More are too many for one step, unless the list goes as a whole: then nobody needs to know where they are.
    let count_max = staged.stage.removal_count_max();
    if let Some(mut list) = find(staged, request.arg(1))? {
        let last = list.header.count.saturating_sub(1);
        let mut seen = 0;
        list.walk_elements(0, last, count < 0, |at, value| {
            seen += 1;
            if value == element {
                found_count += 1;
                if found.len() < count_max {
                    found.push(at);
                }
            }
            is_too_much = found_count > found.len() as u64 && found_count < seen;
            let is_done = is_too_much || wanted != 0 && found_count == wanted;
            if is_done { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        if found_count == found.len() as u64 {
            // While others write, and of a damaged list, an element may be seen twice.
            found.sort_unstable();
            found.dedup();
            found_count = found.len() as u64;
        }
        if found_count == list.header.count {
            list.clear()?;
        } else if found_count > found.len() as u64 {
            is_too_much = true;
        } else if !found.is_empty() {
            list.remove_elements(&found)?;
            list.finish()?;
        }
    }
    if is_too_much {
        return Err(context.keys.staged()?.stage.failure());
    }
    context.reply.count(found_count);
    Ok(())
}

/// `LINSERT key BEFORE | AFTER pivot element`
pub fn linsert(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let after = match request.arg(2) {
        side if side.eq_ignore_ascii_case(b"after") => 1,
        side if side.eq_ignore_ascii_case(b"before") => 0,
        _ => return Err(Failure::Syntax),
    };
    let Some(mut list) = find(context.keys.staged()?, request.arg(1))? else {
        context.reply.integer(0);
        return Ok(());
    };
    let (pivot, mut found) = (request.arg(3), None);
    let last = list.header.count.saturating_sub(1);
    list.walk_elements(0, last, false, |at, value| {
        if value == pivot {
            found = Some(at);
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })?;
    let Some(at) = found else {
        context.reply.integer(-1);
        return Ok(());
    };
    list.insert_element(at + after, request.arg(4))?;
    context.reply.count(list.header.count);
    list.finish()
}
