//! `ZRANDMEMBER`.

use std::ops::ControlFlow;

use super::find;
use crate::command::copy_budget::CopyBudget;
use crate::command::members::{count_arg, draw};
use crate::command::{Context, Failure, Outcome};
use crate::resp::{Protocol, Request};
use crate::types::order::score_of;

/// `ZRANDMEMBER key [count [WITHSCORES]]`
pub fn zrandmember(context: &mut Context<'_>, request: &Request<'_>) -> Outcome {
    let count = request.get(2).map(count_arg).transpose()?;
    let scores = match request.get(3) {
        None => false,
        Some(option) if request.len() == 4 && option.eq_ignore_ascii_case(b"withscores") => true,
        Some(_) => return Err(Failure::Syntax),
    };
    let half = i64::MAX / 2;
    if scores && count.is_some_and(|count| !(-half..=half).contains(&count)) {
        return Err(Failure::text("ERR value is out of range"));
    }
    let Context { keys, reply, .. } = context;
    let mut budget = CopyBudget::of(reply);
    let pairs = scores && reply.protocol == Protocol::Resp3;
    let array = count.map(|_| reply.open_array());
    let mut drawn = 0;
    if let Some(mut set) = find(keys.staged()?, request.arg(1))? {
        draw(&mut set, count.unwrap_or(1), &mut budget, &mut |member, value| {
            if pairs {
                reply.array(2);
            }
            reply.bulk(member);
            if scores {
                reply.double(score_of(value));
            }
            drawn += 1;
            if reply.is_full() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
    }
    match array {
        Some(array) => reply.close_array(array, if scores && !pairs { 2 * drawn } else { drawn }),
        None if drawn == 0 => reply.null(),
        None => {}
    }
    Ok(())
}
