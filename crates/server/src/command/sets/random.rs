//! `SRANDMEMBER` and `SPOP`.

use super::find;
use crate::command::members::{count_arg, draw, pop_one};
use crate::command::{Context, Failure, Outcome, parse_integer};
use crate::resp::Request;

/// `SRANDMEMBER key [count]`
pub fn srandmember(context: &mut Context<'_>, request: &Request<'_>) -> Outcome {
    if request.len() > 3 {
        return Err(Failure::Syntax);
    }
    let count = request.get(2).map(count_arg).transpose()?;
    let Context { keys, reply, .. } = context;
    let set = find(keys.staged()?, request.arg(1))?;
    let drawn = match set {
        Some(mut set) => draw(&mut set, count.unwrap_or(1))?,
        None => Vec::new(),
    };
    if count.is_none() {
        reply.bulk_or_null(drawn.first().map(|(member, _)| &member[..]));
        return Ok(());
    }
    reply.array(drawn.len());
    for (member, _) in drawn {
        reply.bulk(&member);
        if reply.is_full() {
            return Err(Failure::ReplyTooLong);
        }
    }
    Ok(())
}

/// `SPOP key [count]`
pub fn spop(context: &mut Context<'_>, request: &Request<'_>) -> Outcome {
    if request.len() > 3 {
        return Err(Failure::Syntax);
    }
    let count = match request.get(2) {
        None => None,
        Some(arg) => {
            let count = parse_integer(arg).filter(|count| *count >= 0);
            Some(count.ok_or(Failure::text("ERR value is out of range, must be positive"))?)
        }
    };
    let Context { keys, reply, .. } = context;
    if count.is_none() {
        let mut popped = None;
        if let Some(mut set) = find(keys.staged()?, request.arg(1))? {
            popped = pop_one(&mut set)?;
            if popped.is_some() {
                set.finish()?;
            }
        }
        reply.bulk_or_null(popped.as_deref());
        return Ok(());
    }
    let mut popped = Vec::new();
    if let Some(mut set) = find(keys.staged()?, request.arg(1))? {
        popped = draw(&mut set, count.unwrap_or(1))?;
        for (member, _) in &popped {
            set.remove_known(member)?;
        }
        if !popped.is_empty() {
            set.finish()?;
        }
    }
    reply.set(popped.len());
    popped.iter().for_each(|(member, _)| reply.bulk(member));
    Ok(())
}
