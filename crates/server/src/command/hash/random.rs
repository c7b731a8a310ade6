//! `HRANDFIELD`.

use std::ops::ControlFlow;

use super::find;
use crate::command::copy_budget::CopyBudget;
use crate::command::members::{count_arg, draw};
use crate::command::{Context, Failure, Outcome};
use crate::resp::{Protocol, Request};

/// `HRANDFIELD key [count [WITHVALUES]]`
pub fn hrandfield(context: &mut Context<'_>, request: &Request<'_>) -> Outcome {
    let count = request.get(2).map(count_arg).transpose()?;
    let values = match request.get(3) {
        None => false,
        Some(option) if request.len() == 4 && option.eq_ignore_ascii_case(b"withvalues") => true,
        Some(_) => return Err(Failure::Syntax),
    };
    let Context { keys, reply, .. } = context;
    let half = i64::MAX / 2;
    if values && count.is_some_and(|count| !(-half..=half).contains(&count)) {
        return Err(Failure::text("ERR value is out of range"));
    }
    let hash = find(keys.staged()?, request.arg(1))?;
    let mut budget = CopyBudget::of(reply);
    let Some(count) = count else {
        let mut found = false;
        if let Some(mut hash) = hash {
            draw(&mut hash, 1, &mut budget, &mut |field, _| {
                found = true;
                reply.bulk(field);
                ControlFlow::Break(())
            })?;
        }
        if !found {
            reply.null();
        }
        return Ok(());
    };
    let pairs = values && reply.protocol == Protocol::Resp3;
    let array = reply.open_array();
    let mut drawn = 0;
    if let Some(mut hash) = hash {
        draw(&mut hash, count, &mut budget, &mut |field, value| {
            if pairs {
                reply.array(2);
            }
            reply.bulk(field);
            if values {
                reply.bulk(value);
            }
            drawn += 1;
            if reply.is_full() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
    }
    reply.close_array(array, if values && !pairs { 2 * drawn } else { drawn });
    Ok(())
}
