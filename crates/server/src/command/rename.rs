//! `RENAME`, `RENAMENX`, `MOVE`, `COPY`: what a key holds under another key, or in another database.

use super::keys::Result;
use super::table::Command;
use super::{Context, Failure, Outcome, connection};
use crate::databases::Database;
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

/// The database that a command names besides the one that is selected, if it does; `count` is how many there are.
pub fn database_of(request: &Request<'_>, command: &Command, count: usize) -> Option<Database> {
    let arg = match command.name {
        "select" => request.get(1)?,
        "move" => request.get(2)?,
        // Of several it means the last.
        "copy" => return parse_copy(request, count).ok()?.1,
        _ => return None,
    };
    connection::database_arg(arg, count).ok()
}

/// `MOVE key index`
pub fn move_key(context: &mut Context<'_>, request: &Request<'_>) -> Outcome {
    let count = context.shared.databases.count();
    let database = connection::database_arg(request.arg(2), count)?;
    let (staged, key) = (context.keys.staged()?, request.arg(1));
    if database == staged.database {
        return Err(same_object());
    }
    let is_free = staged.contains(key)? && !staged.within(database, |it| it.contains(key))?;
    let done = is_free && staged.relocate(key, database)?;
    context.reply.integer(i64::from(done));
    Ok(())
}

fn same_object() -> Failure {
    Failure::text("ERR source and destination objects are the same")
}

/// Reads the options of `COPY`; returns whether the destination is replaced, and its database.
fn parse_copy(request: &Request<'_>, count: usize) -> Result<(bool, Option<Database>)> {
    let (mut replace, mut database) = (false, None);
    let mut args = request.args_from(3);
    while let Some(arg) = args.next() {
        if arg.eq_ignore_ascii_case(b"replace") {
            replace = true;
        } else if arg.eq_ignore_ascii_case(b"db") {
            let arg = args.next().ok_or(Failure::Syntax)?;
            database = Some(connection::database_arg(arg, count)?);
        } else {
            return Err(Failure::Syntax);
        }
    }
    Ok((replace, database))
}

/// `COPY source destination [DB index] [REPLACE]`
pub fn copy(context: &mut Context<'_>, request: &Request<'_>) -> Outcome {
    let (replace, database) = parse_copy(request, context.shared.databases.count())?;
    let (source, destination) = (request.arg(1), request.arg(2));
    let staged = context.keys.staged()?;
    let database = database.unwrap_or(staged.database);
    if source == destination && database == staged.database {
        return Err(same_object());
    }
    let done = staged.contains(source)?
        && (replace || !staged.within(database, |it| it.contains(destination))?)
        && staged.duplicate(source, database, destination)?;
    context.reply.integer(i64::from(done));
    Ok(())
}
