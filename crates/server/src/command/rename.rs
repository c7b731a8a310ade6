//! `RENAME`, `RENAMENX`, `MOVE`, `COPY`: what a key holds under another key, or in another database; `SWAPDB`: all keys
//! of two databases.

use super::connection;
use super::context::Context;
use super::facts::Command;
use super::integer::integer_arg;
use crate::databases::Database;
use crate::failure::{CommandResult, Failure, Result};
use crate::resp::Request;

/// `RENAME key newkey`
pub fn rename(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    if !context.keys.staged()?.rename(request.arg(1), request.arg(2))? {
        return Err(no_such_key());
    }
    context.reply.ok();
    Ok(())
}

/// `RENAMENX key newkey`
pub fn renamenx(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let (source, destination) = (request.arg(1), request.arg(2));
    let staged = context.keys.staged()?;
    if !staged.contains(source)? {
        return Err(no_such_key());
    }
    let done = !staged.contains(destination)? && staged.rename(source, destination)?;
    context.reply.integer(i64::from(done));
    Ok(())
}

fn no_such_key() -> Failure {
    Failure::text("ERR no such key")
}

/// The databases that a command names besides the one that is selected; `count` is how many there are.
pub fn databases_of(request: &Request<'_>, command: &Command, count: usize) -> Vec<Database> {
    let args = match command.name {
        "select" => [request.get(1), None],
        "move" => [request.get(2), None],
        "swapdb" => [request.get(1), request.get(2)],
        // Of several it means the last.
        "copy" => {
            let named = parse_copy(request, count).ok().and_then(|(_, database)| database);
            return named.into_iter().collect();
        }
        _ => return Vec::new(),
    };
    let named = args.into_iter().flatten();
    named.filter_map(|arg| connection::database_arg(arg, count).ok()).collect()
}

/// The databases that a `SWAPDB` names, of which there are so many.
pub fn exchanged(request: &Request<'_>, count: usize) -> Result<(Database, Database)> {
    let index = |index: usize, wrong: &'static str| {
        let number = integer_arg(request.arg(index)).ok();
        number.filter(|number| i32::try_from(*number).is_ok()).ok_or(Failure::text(wrong))
    };
    if request.len() != 3 {
        return Err(Failure::WrongArity("swapdb"));
    }
    let first = index(1, "ERR invalid first DB index")?;
    let second = index(2, "ERR invalid second DB index")?;
    let database = |index: i64| {
        let database = Database::try_from(index).ok().filter(|it| *it < count);
        database.ok_or(Failure::text("ERR DB index is out of range"))
    };
    Ok((database(first)?, database(second)?))
}

/// `SWAPDB index1 index2`: nobody else runs a command meanwhile (`exclusion.rs`).
pub fn swapdb(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let databases = &context.shared.databases;
    let (first, second) = exchanged(request, databases.count())?;
    context.keys.staged()?.stage.exchange(databases, first, second);
    context.reply.ok();
    Ok(())
}

/// `MOVE key index`
pub fn move_key(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let count = context.shared.databases.count();
    let database = connection::database_arg(request.arg(2), count)?;
    let (staged, key) = (context.keys.staged()?, request.arg(1));
    let place = staged.place_of(database);
    if place == staged.place {
        return Err(same_object());
    }
    let is_free = staged.contains(key)? && !staged.within(place, |it| it.contains(key))?;
    let done = is_free && staged.relocate(key, place)?;
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
pub fn copy(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let (replace, database) = parse_copy(request, context.shared.databases.count())?;
    let (source, destination) = (request.arg(1), request.arg(2));
    let staged = context.keys.staged()?;
    let place = database.map_or(staged.place, |database| staged.place_of(database));
    if source == destination && place == staged.place {
        return Err(same_object());
    }
    let done = staged.contains(source)?
        && (replace || !staged.within(place, |it| it.contains(destination))?)
        && staged.duplicate(source, place, destination)?;
    context.reply.integer(i64::from(done));
    Ok(())
}
