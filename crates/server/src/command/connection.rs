//! The connection itself: `HELLO`, `AUTH`, `PING` and their like.

use super::context::Context;
use super::integer::{integer_arg, parse_integer};
use super::permission;
use crate::acl::attempts::Line;
use crate::databases::Database;
use crate::failure::{CommandResult, Failure};
use crate::resp::{Protocol, Request};
use crate::shown::shown;

/// The version of the protocol's original server whose behaviour this one follows; clients choose
/// their features by it.
pub const COMPATIBLE_VERSION: &str = "7.0.0";

/// `PING [message]`
pub fn ping(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    match (request.get(1), request.len()) {
        (None, _) => context.reply.status("PONG"),
        (Some(message), 2) => context.reply.bulk(message),
        _ => return Err(Failure::WrongArity("ping")),
    }
    Ok(())
}

/// `ECHO message`
pub fn echo(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    context.reply.bulk(request.arg(1));
    Ok(())
}

/// The number of a database, of which there are so many.
pub fn database_arg(arg: &[u8], count: usize) -> Result<Database, Failure> {
    let index = integer_arg(arg)?;
    if i32::try_from(index).is_err() {
        return Err(Failure::text(
            "ERR value is out of range, value must between -2147483648 and 2147483647",
        ));
    }
    let database = Database::try_from(index).ok().filter(|database| *database < count);
    database.ok_or(Failure::text("ERR DB index is out of range"))
}

/// `SELECT index`
pub fn select(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let Context { shared, session, .. } = context;
    let database = database_arg(request.arg(1), shared.databases.count())?;
    // Within a transaction it is there already.
    shared.databases.begin(&shared.store, database)?;
    session.select(database);
    context.reply.ok();
    Ok(())
}

/// `MONITOR`
pub fn monitor(context: &mut Context<'_>, _: &Request<'_>) -> CommandResult {
    if context.later.is_some() {
        return Err(Failure::text("ERR MONITOR isn't allowed for DENY BLOCKING client"));
    }
    let Context { shared, session, .. } = context;
    // A client that is one already gets no answer, as there.
    if session.monitor.is_none() {
        session.monitor = Some(shared.monitors.begin(&session.client));
        session.client.change(|details| details.is_monitor = true);
        context.reply.ok();
    }
    Ok(())
}

/// `QUIT`
pub fn quit(context: &mut Context<'_>, _: &Request<'_>) -> CommandResult {
    context.reply.ok();
    context.session.closing = true;
    Ok(())
}

/// `RESET`
pub fn reset(context: &mut Context<'_>, _: &Request<'_>) -> CommandResult {
    context.session.reset(&context.shared.acl);
    context.reply.protocol = Protocol::default();
    context.reply.status("RESET");
    Ok(())
}

/// `AUTH [user] password`
pub fn auth(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let (user, given) = match request.len() {
        2 => (&b"default"[..], request.arg(1)),
        3 => (request.arg(1), request.arg(2)),
        _ => return Err(Failure::Syntax),
    };
    if request.len() == 2 && context.shared.acl.default_has_no_password() {
        return Err(Failure::text(
            "ERR AUTH <password> called without any password configured for the default user. \
             Are you sure your configuration is correct?",
        ));
    }
    authenticate(context, request, user, given)?;
    context.reply.ok();
    Ok(())
}

/// `HELLO [version [AUTH user password] [SETNAME name]]`
pub fn hello(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let protocol = match request.get(1).map(parse_integer) {
        None => context.session.protocol,
        Some(Some(2)) => Protocol::Resp2,
        Some(Some(3)) => Protocol::Resp3,
        Some(Some(_)) => return Err(Failure::text("NOPROTO unsupported protocol version")),
        Some(None) => {
            return Err(Failure::text("ERR Protocol version is not an integer or out of range"));
        }
    };
    let mut args = request.args_from(2);
    while let Some(option) = args.next() {
        match (option.to_ascii_lowercase().as_slice(), args.len()) {
            (b"auth", 2..) => {
                let credentials = (args.next().unwrap_or(b""), args.next().unwrap_or(b""));
                authenticate(context, request, credentials.0, credentials.1)?;
            }
            // Kept even if what follows is refused, as clients know it.
            (b"setname", 1..) => {
                let name = valid_name(args.next().unwrap_or(b""))?;
                context.session.client.change(|details| details.name = name.into());
            }
            _ => {
                let option = shown(option);
                return Err(Failure::text(format!("ERR Syntax error in HELLO option '{option}'")));
            }
        }
    }
    if !context.session.is_let_in(&context.shared.acl) {
        return Err(Failure::text(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the \
             HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and \
             select the RESP protocol version at the same time",
        ));
    }
    context.session.protocol = protocol;
    context.reply.protocol = protocol;
    context.session.client.change(|details| details.protocol = protocol);
    greet(context);
    Ok(())
}

fn greet(context: &mut Context<'_>) {
    let id = context.session.client.id;
    let reply = &mut context.reply;
    reply.map(7);
    for (field, value) in [("server", "everleaf"), ("version", COMPATIBLE_VERSION)] {
        reply.bulk(field.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"proto");
    reply.integer(reply.protocol.number());
    reply.bulk(b"id");
    reply.count(id);
    for (field, value) in [("mode", "standalone"), ("role", "master")] {
        reply.bulk(field.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"modules");
    reply.array(0);
}

/// Makes the connection this user, if the password is right.
fn authenticate(
    context: &mut Context<'_>,
    request: &Request<'_>,
    user: &[u8],
    given: &[u8],
) -> CommandResult {
    let Context { shared, session, .. } = context;
    let (limit, now_ms) = (shared.config.wrong_password_count_max, shared.now_ms());
    let client = &session.client;
    if !shared.acl.attempts.allows(&client.peer, limit, now_ms) {
        if shared.defences.allows(now_ms) {
            tracing::warn!(
                "{} gave {limit} wrong passwords within a minute: it has to wait (--auth-attempts)",
                client.peer
            );
        }
        return Err(Failure::text(
            "ERR too many wrong passwords from this address: none is looked at for a minute",
        ));
    }
    let Some(access) = shared.acl.admit(user, given) else {
        match shared.acl.attempts.failed(&client.peer, now_ms) {
            Line::Own => {
                tracing::info!("client {} from {} gave a wrong password", client.id, client.peer);
            }
            Line::Last => tracing::warn!(
                "very many wrong passwords, the last from {}: of the next ones nothing is said here for a while; \
                 ACL LOG counts them",
                client.peer
            ),
            Line::None => {}
        }
        permission::note_wrong_password(context, request.arg(0), user);
        return Err(Failure::text("WRONGPASS invalid username-password pair or user is disabled."));
    };
    session.become_user(access);
    Ok(())
}

/// A name that can be shown in a line of `CLIENT LIST`.
pub fn valid_name(name: &[u8]) -> Result<String, Failure> {
    let valid = name.iter().all(|byte| (b'!'..=b'~').contains(byte));
    match String::from_utf8(name.to_vec()) {
        Ok(name) if valid => Ok(name),
        _ => Err(Failure::text(
            "ERR Client names cannot contain spaces, newlines or special characters.",
        )),
    }
}
