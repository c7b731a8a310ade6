//! `ZREM` and `ZREMRANGEBY..`.

use std::ops::{Bound, ControlFlow};

use super::find;
use super::parts::{By, Told};
use crate::command::context::Context;
use crate::failure::{CommandResult, Failure};
use crate::resp::Request;

/// Bytes of members that are removed at once, unless all are.
const SIZE_MAX: usize = 256 << 20;

/// `ZREM key member [member ...]`: how many were there.
pub fn zrem(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let mut count = 0;
    if let Some(mut set) = find(context.keys.staged()?, request.arg(1))? {
        for member in request.args_from(2) {
            if let Some(score) = set.score(member)? {
                set.remove_scored(member, score)?;
                count += 1;
            }
        }
        if count > 0 {
            set.finish()?;
        }
    }
    context.reply.integer(count);
    Ok(())
}

/// `ZREMRANGEBYRANK key first last`
pub fn zremrangebyrank(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    remove(context, request, By::Rank)
}

/// `ZREMRANGEBYSCORE key min max`
pub fn zremrangebyscore(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    remove(context, request, By::Score)
}

/// `ZREMRANGEBYLEX key min max`
pub fn zremrangebylex(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    remove(context, request, By::Member)
}

fn remove(context: &mut Context<'_>, request: &Request<'_>, by: By) -> CommandResult {
    let told = Told::parse(by, request.arg(2), request.arg(3))?;
    let mut count = 0;
    if let Some(mut set) = find(context.keys.staged()?, request.arg(1))?
        && let Some(part) = told.of(&mut set)?
    {
        if part == (Bound::Unbounded, Bound::Unbounded) {
            count = set.header.count;
            set.clear()?;
        } else {
            let (mut items, mut size) = (Vec::new(), 0);
            set.walk_order(&part, false, |member, score| {
                size += member.len() + size_of::<(Vec<u8>, f64)>();
                items.push((member.to_vec(), score));
                if size > SIZE_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
            if size > SIZE_MAX {
                return Err(Failure::text("OOM so many members cannot be removed at once"));
            }
            for (member, score) in &items {
                set.remove_scored(member, *score)?;
            }
            count = items.len() as u64;
            if count > 0 {
                set.finish()?;
            }
        }
    }
    context.reply.count(count);
    Ok(())
}
