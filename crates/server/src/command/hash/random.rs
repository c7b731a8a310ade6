//! `HRANDFIELD`.

use super::find;
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
    let Some(count) = count else {
        match hash {
            None => reply.null(),
            Some(mut hash) => {
                let drawn = draw(&mut hash, 1)?;
                reply.bulk_or_null(drawn.first().map(|(field, _)| &field[..]));
            }
        }
        return Ok(());
    };
    let drawn = match hash {
        None => Vec::new(),
        Some(mut hash) => draw(&mut hash, count)?,
    };
    let pairs = values && reply.protocol == Protocol::Resp3;
    reply.array(if values && !pairs { 2 * drawn.len() } else { drawn.len() });
    for (field, value) in drawn {
        if pairs {
            reply.array(2);
        }
        reply.bulk(&field);
        if values {
            reply.bulk(&value);
        }
        if reply.is_full() {
            return Err(Failure::ReplyTooLong);
        }
    }
    Ok(())
}
