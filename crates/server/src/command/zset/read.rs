//! Reading sorted sets: `ZSCORE`, `ZRANK`, `ZCOUNT` and their like.

use super::find;
use super::parts::{By, Told};
use crate::command::context::Context;
use crate::command::scan_members;
use crate::failure::{CommandResult, Failure};
use crate::resp::Request;
use crate::types::Kind;

/// `ZCARD key`
pub fn zcard(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let set = find(context.keys.staged()?, request.arg(1))?;
    context.reply.count(set.map_or(0, |set| set.header.count));
    Ok(())
}

/// `ZSCORE key member`
pub fn zscore(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let score = match find(context.keys.staged()?, request.arg(1))? {
        Some(mut set) => set.score(request.arg(2))?,
        None => None,
    };
    match score {
        Some(score) => context.reply.double(score),
        None => context.reply.null(),
    }
    Ok(())
}

/// `ZMSCORE key member [member ...]`
pub fn zmscore(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let Context { keys, reply, .. } = context;
    let mut set = find(keys.staged()?, request.arg(1))?;
    reply.array(request.len() - 2);
    for member in request.args_from(2) {
        let score = match &mut set {
            Some(set) => set.score(member)?,
            None => None,
        };
        match score {
            Some(score) => reply.double(score),
            None => reply.null(),
        }
    }
    Ok(())
}

/// `ZRANK key member [WITHSCORE]`
pub fn zrank(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    rank(context, request, false)
}

/// `ZREVRANK key member [WITHSCORE]`
pub fn zrevrank(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    rank(context, request, true)
}

fn rank(context: &mut Context<'_>, request: &Request<'_>, reverse: bool) -> CommandResult {
    let with_score = match request.get(3) {
        None => false,
        Some(option) if request.len() == 4 && option.eq_ignore_ascii_case(b"withscore") => true,
        Some(_) => return Err(Failure::Syntax),
    };
    let mut found = None;
    if let Some(mut set) = find(context.keys.staged()?, request.arg(1))?
        && let Some(score) = set.score(request.arg(2))?
    {
        let rank = set.rank_of(request.arg(2), score)?;
        let last = set.header.count.saturating_sub(1);
        found = Some((if reverse { last.saturating_sub(rank) } else { rank }, score));
    }
    let reply = &mut context.reply;
    match found {
        Some((rank, score)) if with_score => {
            reply.array(2);
            reply.count(rank);
            reply.double(score);
        }
        Some((rank, _)) => reply.count(rank),
        None if with_score => reply.null_array(),
        None => reply.null(),
    }
    Ok(())
}

/// `ZCOUNT key min max`
pub fn zcount(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    count(context, request, By::Score)
}

/// `ZLEXCOUNT key min max`
pub fn zlexcount(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    count(context, request, By::Member)
}

fn count(context: &mut Context<'_>, request: &Request<'_>, by: By) -> CommandResult {
    let told = Told::parse(by, request.arg(2), request.arg(3))?;
    let mut count = 0;
    if let Some(mut set) = find(context.keys.staged()?, request.arg(1))?
        && let Some(part) = told.of(&mut set)?
    {
        count = set.count_between(&part)?;
    }
    context.reply.count(count);
    Ok(())
}

/// `ZSCAN key cursor [MATCH pattern] [COUNT count]`
pub fn zscan(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    scan_members::step(context, request, Kind::SortedSet)
}
