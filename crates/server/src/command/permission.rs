//! The check before each command: whether the user of the connection may run it.

use super::client_line::describe_shortly;
use super::context::Context;
use super::facts::{self, COMMANDS, Command};
use crate::acl::log::Entry;
use crate::acl::user::Rules;
use crate::acl::{Denied, commands};
use crate::failure::{CommandResult, Failure};
use crate::registry::Client;
use crate::resp::Request;
use crate::shared::Shared;

/// Refuses a command that the connection's user may not run, and makes a note of it.
pub fn check(
    context: &mut Context<'_>,
    request: &Request<'_>,
    index: usize,
    command: &Command,
) -> CommandResult {
    let session = &mut *context.session;
    if !session.access.refresh(&context.shared.acl) {
        // It was deleted; the connection is closed.
        session.authenticated = false;
        session.closing = true;
        return Err(Failure::text("NOAUTH Authentication required."));
    }
    if session.access.rules().allows_all() {
        return Ok(());
    }
    let Err((id, denied)) = may_run(session.access.rules(), request, index) else { return Ok(()) };
    let is_open = session.transaction.is_open();
    note(context, request, id, denied, is_open);
    let name = commands::all().get(id).map_or(command.name, |known| &known.name);
    let text = refusal(denied, name);
    Err(context.session.transaction.refuse_permission(command, text))
}

/// The same for a command of a transaction that is run: what it may do can have changed since it was kept.
pub fn check_kept(context: &mut Context<'_>, request: &Request<'_>, index: usize) -> CommandResult {
    let session = &mut *context.session;
    let is_there = session.access.refresh(&context.shared.acl);
    if is_there && session.access.rules().allows_all() {
        return Ok(());
    }
    let denied = match is_there {
        true => may_run(session.access.rules(), request, index),
        false => Err((index, Denied::Command)),
    };
    let Err((id, denied)) = denied else { return Ok(()) };
    note(context, request, id, denied, true);
    let reason = match denied {
        Denied::Command => "no permission to execute the command or subcommand",
        Denied::Key(_) => "no permission to touch the specified keys",
    };
    Err(Failure::text(format!(
        "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command \
         is no longer allowed for the following reason: {reason}"
    )))
}

/// The same for the command with which a client waits, when it is about to be served.
pub fn check_waiting(shared: &Shared, client: &Client, args: &[Vec<u8>]) -> CommandResult {
    let Some(user) = client.user() else { return Ok(()) };
    let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
    // It was deleted; the connection is closed.
    let rules = user.rules().ok_or(Failure::text("NOAUTH Authentication required."))?;
    let name = args.first().copied().unwrap_or(b"");
    let Some(index) = facts::find(name).filter(|_| !rules.allows_all()) else { return Ok(()) };
    let id = commands::of_request(index, &args).unwrap_or(index);
    let Err(denied) = rules.check(id, &args) else { return Ok(()) };
    let (reason, object) = match denied {
        Denied::Command => ("command", COMMANDS[index].name.as_bytes()),
        Denied::Key(at) => ("key", args.get(at).copied().unwrap_or(b"")),
    };
    add_entry_of(shared, client, reason, object, &user.name, false);
    Err(Failure::text(refusal(denied, COMMANDS[index].name)))
}

/// What a client is told that may not run a command.
fn refusal(denied: Denied, name: &str) -> String {
    match denied {
        Denied::Command => {
            format!("NOPERM this user has no permissions to run the '{name}' command")
        }
        Denied::Key(_) => {
            "NOPERM this user has no permissions to access one of the keys used as arguments"
                .to_string()
        }
    }
}

/// Whether a request may be run by a user with these rules; otherwise what, by its number, and why not.
fn may_run(rules: &Rules, request: &Request<'_>, index: usize) -> Result<(), (usize, Denied)> {
    let args: Vec<&[u8]> = request.args_from(0).collect();
    let id = commands::of_request(index, &args).unwrap_or(index);
    rules.check(id, &args).map_err(|denied| (id, denied))
}

/// Whether a request reads or writes keys.
pub fn is_of_keys(request: &Request<'_>, index: usize) -> bool {
    commands::is_of_keys(index, &request.args_from(0).collect::<Vec<_>>())
}

/// Whether a command may also read keys that it does not name (`SORT .. BY`).
pub fn may_read_all(context: &Context<'_>, request: &Request<'_>) -> bool {
    let rules = context.session.access.rules();
    if rules.allows_all() {
        return true;
    }
    let args: Vec<&[u8]> = request.args_from(0).collect();
    let index = facts::find(args.first().copied().unwrap_or(b""));
    index.is_some_and(|index| rules.check_reading_all(index, &args))
}

fn note(context: &Context<'_>, request: &Request<'_>, id: usize, denied: Denied, in_multi: bool) {
    let (reason, object) = match denied {
        Denied::Command => {
            let name = commands::all().get(id).map_or("", |known| known.name.as_str());
            ("command", name.as_bytes())
        }
        Denied::Key(at) => ("key", request.get(at).unwrap_or(b"")),
    };
    add_entry(context, reason, object, &context.session.access.user.name, in_multi);
}

/// Makes a note of a wrong password.
pub fn note_wrong_password(context: &Context<'_>, command: &[u8], user: &[u8]) {
    let in_multi = context.session.transaction.is_open();
    add_entry(context, "auth", command, user, in_multi);
}

fn add_entry(
    context: &Context<'_>,
    reason: &'static str,
    object: &[u8],
    user: &[u8],
    in_multi: bool,
) {
    add_entry_of(context.shared, &context.session.client, reason, object, user, in_multi);
}

fn add_entry_of(
    shared: &Shared,
    client: &Client,
    reason: &'static str,
    object: &[u8],
    user: &[u8],
    in_multi: bool,
) {
    let at_ms = shared.now_ms();
    let short = |bytes: &[u8]| bytes[..bytes.len().min(1024)].to_vec();
    let entry = Entry {
        count: 1,
        reason,
        context: if in_multi { "multi" } else { "toplevel" },
        object: short(object),
        user: short(user),
        at_ms,
        client: describe_shortly(client, at_ms),
    };
    shared.acl.log.add(entry, shared.settings.acl_log_len_max());
}
