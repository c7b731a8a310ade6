//! `ZRANDMEMBER`.

use super::{Scored, find, show};
use crate::command::members::{count_arg, draw};
use crate::command::{Context, Failure, Outcome};
use crate::resp::Request;
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
    let drawn = match find(context.keys.staged()?, request.arg(1))? {
        None => Vec::new(),
        Some(mut set) => draw(&mut set, count.unwrap_or(1))?,
    };
    if count.is_none() {
        context.reply.bulk_or_null(drawn.first().map(|(member, _)| &member[..]));
        return Ok(());
    }
    let items: Vec<Scored> =
        drawn.into_iter().map(|(member, value)| (member, score_of(&value))).collect();
    show(&mut context.reply, &items, scores, false)
}
