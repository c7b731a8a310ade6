//! `SLOWLOG`: which commands took long; and `WAIT`.

use super::context::Context;
use super::integer::{integer_arg, parse_integer};
use super::object::help;
use crate::failure::{CommandResult, Failure};
use crate::resp::Request;
use crate::shown::shown;

/// Entries that are told unless the client says otherwise.
const COUNT_DEFAULT: i64 = 10;

/// `SLOWLOG GET [count] | LEN | RESET | HELP`
pub fn slowlog(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    match (request.arg(1).to_ascii_lowercase().as_slice(), request.len()) {
        (b"get", 2 | 3) => return get(context, request),
        (b"len", _) => context.reply.count(context.shared.slow_log.len() as u64),
        (b"reset", _) => {
            context.act(|shared| shared.slow_log.reset());
            context.reply.ok();
        }
        (b"help", _) => help(
            context,
            &[
                "SLOWLOG GET [count]: the newest slow commands, 10 of them, or all with -1",
                "SLOWLOG LEN: how many there are",
                "SLOWLOG RESET: forgets them",
            ],
        ),
        // The table knows no other subcommands.
        _ => {
            return Err(Failure::text(format!(
                "ERR unknown subcommand or wrong number of arguments for '{}'. Try SLOWLOG HELP.",
                shown(request.arg(1))
            )));
        }
    }
    Ok(())
}

fn get(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let count = request.get(2).map_or(Some(COUNT_DEFAULT), parse_integer);
    let count = count
        .filter(|count| *count >= -1)
        .ok_or(Failure::text("ERR count should be greater than or equal to -1"))?;
    let entries = context.shared.slow_log.newest(usize::try_from(count).unwrap_or(usize::MAX));
    let reply = &mut context.reply;
    reply.array(entries.len());
    for entry in entries {
        reply.array(6);
        reply.count(entry.id);
        reply.count(entry.ended_s);
        reply.count(u64::try_from(entry.duration.as_micros()).unwrap_or(u64::MAX));
        reply.array(entry.args.len());
        entry.args.iter().for_each(|arg| reply.bulk(arg));
        reply.bulk(entry.peer.as_bytes());
        reply.bulk(entry.name.as_bytes());
    }
    Ok(())
}

/// `WAIT replicas milliseconds`: the number of replicas that have what was written. There are none, and
/// there will be none while one waits; so it does not wait.
pub fn wait(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    integer_arg(request.arg(1))?;
    let timeout = parse_integer(request.arg(2));
    let timeout = timeout.ok_or(Failure::text("ERR timeout is not an integer or out of range"))?;
    if timeout < 0 {
        return Err(Failure::text("ERR timeout is negative"));
    }
    context.reply.integer(0);
    Ok(())
}
