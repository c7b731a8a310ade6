//! `RENAME`, `RENAMENX`, `COPY`: what a key holds under another key.

use super::keys::Result;
use super::{Context, Failure, Outcome, connection};
use crate::resp::Request;

/// `RENAME key newkey`
pub fn rename(context: &mut Context<'_>, request: &Request<'_>) -> Outcome {
    if !context.keys.staged()?.rename(request.arg(1), request.arg(2))? {
        return Err(no_such_key());
    }
    context.reply.ok();
    Ok(())
}

/// `RENAMENX key newkey`
pub fn renamenx(context: &mut Context<'_>, request: &Request<'_>) -> Outcome {
    let (source, destination) = (request.arg(1), request.arg(2));
    let staged = context.keys.staged()?;
    if !staged.contains(source)? {
        return Err(no_such_key());
    }
    let is_free = !staged.contains(destination)?;
    if is_free {
        staged.rename(source, destination)?;
    }
    context.reply.integer(i64::from(is_free));
    Ok(())
}

fn no_such_key() -> Failure {
    Failure::text("ERR no such key")
}

/// Reads the options of `COPY`; returns whether the destination is replaced.
fn parse_copy(request: &Request<'_>) -> Result<bool> {
    let mut replace = false;
    let mut args = request.args_from(3);
    while let Some(arg) = args.next() {
        if arg.eq_ignore_ascii_case(b"replace") {
            replace = true;
        } else if arg.eq_ignore_ascii_case(b"db") {
            connection::database_arg(args.next().ok_or(Failure::Syntax)?)?;
        } else {
            return Err(Failure::Syntax);
        }
    }
    Ok(replace)
}

/// `COPY source destination [DB index] [REPLACE]`
pub fn copy(context: &mut Context<'_>, request: &Request<'_>) -> Outcome {
    let replace = parse_copy(request)?;
    let (source, destination) = (request.arg(1), request.arg(2));
    if source == destination {
        return Err(Failure::text("ERR source and destination objects are the same"));
    }
    let staged = context.keys.staged()?;
    let done = staged.contains(source)?
        && (replace || !staged.contains(destination)?)
        && staged.duplicate(source, destination)?;
    context.reply.integer(i64::from(done));
    Ok(())
}
