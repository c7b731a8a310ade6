//! `CLIENT`: the connections of the server.

use std::sync::Arc;

use super::client_line::describe;
use super::connection::valid_name;
use super::context::Context;
use super::integer::{integer_arg, parse_integer};
use super::waiting;
use crate::acl::user::User;
use crate::client_state::ReplyMode;
use crate::failure::{CommandResult, Failure};
use crate::registry::Client;
use crate::resp::Request;
use crate::shown::shown;

/// `CLIENT subcommand ...`
pub fn client(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let subcommand = request.arg(1).to_ascii_lowercase();
    // Of itself it is told what it is now, not when it was served last.
    let Context { session, later, .. } = &*context;
    session.client.set_last_command(session.last_command);
    if later.is_none() {
        session.client.gauges.set_queued(None);
    }
    match (subcommand.as_slice(), request.len()) {
        (b"id", 2) => context.reply.count(context.session.client.id),
        (b"info", 2) => {
            let line = describe(&context.session.client, context.shared.now_ms());
            context.reply.verbatim(&line);
        }
        (b"list", _) => return list(context, request),
        (b"kill", 3..) => return kill(context, request),
        (b"unblock", 3 | 4) => return unblock(context, request),
        (b"getname", 2) => {
            let name = context.session.client.details().name;
            let name = Some(name.as_bytes()).filter(|name| !name.is_empty());
            context.reply.bulk_or_null(name);
        }
        (b"setname", 3) => {
            let name = valid_name(request.arg(2))?;
            context.session.client.change(|details| details.name = name.into());
            context.reply.ok();
        }
        // Nobody is told which keys change.
        (b"getredir", 2) => context.reply.integer(-1),
        (b"trackinginfo", 2) => tracking_info(context),
        (b"setinfo", 4) => return setinfo(context, request),
        (b"reply", 3) => return reply(context, request),
        (b"no-evict", 3) => {
            let exempt = on_or_off(request.arg(2))?;
            context.session.client.change(|details| details.no_evict = exempt);
            context.reply.ok();
        }
        // There are no access times: it is only shown.
        (b"no-touch", 3) => {
            let untouched = on_or_off(request.arg(2))?;
            context.session.client.change(|details| details.no_touch = untouched);
            context.reply.ok();
        }
        // The table knows no others.
        _ => return Err(Failure::Syntax),
    }
    Ok(())
}

/// `CLIENT UNBLOCK id [TIMEOUT | ERROR]`
fn unblock(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let with_error = match request.get(3).map(|reason| reason.to_ascii_lowercase()).as_deref() {
        None | Some(b"timeout") => false,
        Some(b"error") => true,
        Some(_) => {
            return Err(Failure::text("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"));
        }
    };
    let client_id = u64::try_from(integer_arg(request.arg(2))?).unwrap_or(0);
    if context.later.is_some() {
        // The lock of the waiters comes before what is held here.
        let client = context.shared.registry.get(client_id);
        let waits = client.is_some_and(|client| client.is_waiting());
        let loop_index = context.session.client.loop_index;
        context.act(move |shared| {
            waiting::unblock(shared, loop_index, client_id, with_error);
        });
        context.reply.integer(i64::from(waits));
        return Ok(());
    }
    let loop_index = context.session.client.loop_index;
    let done = waiting::unblock(context.shared, loop_index, client_id, with_error);
    context.reply.integer(i64::from(done));
    Ok(())
}

/// `CLIENT TRACKINGINFO`: it is off.
fn tracking_info(context: &mut Context<'_>) {
    let reply = &mut context.reply;
    reply.map(3);
    reply.bulk(b"flags");
    reply.set(1);
    reply.bulk(b"off");
    reply.bulk(b"redirect");
    reply.integer(-1);
    reply.bulk(b"prefixes");
    reply.array(0);
}

fn setinfo(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let value = valid_name(request.arg(3)).map_err(|_| {
        Failure::text(
            "ERR lib-name and lib-ver cannot contain spaces, newlines or special characters.",
        )
    })?;
    match request.arg(2).to_ascii_lowercase().as_slice() {
        b"lib-name" => context.session.client.change(|details| details.library_name = value.into()),
        b"lib-ver" => {
            context.session.client.change(|details| details.library_version = value.into())
        }
        _ => {
            let option = shown(request.arg(2));
            return Err(Failure::text(format!("ERR Unrecognized option '{option}'")));
        }
    }
    context.reply.ok();
    Ok(())
}

fn reply(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let mode = &mut context.session.reply_mode;
    match request.arg(2).to_ascii_lowercase().as_slice() {
        b"on" => {
            *mode = ReplyMode::On;
            context.reply.ok();
        }
        b"off" => *mode = ReplyMode::Off,
        b"skip" if *mode != ReplyMode::Off => *mode = ReplyMode::SkipNext,
        b"skip" => {}
        _ => return Err(Failure::Syntax),
    }
    Ok(())
}

fn on_or_off(arg: &[u8]) -> Result<bool, Failure> {
    match arg.to_ascii_lowercase().as_slice() {
        b"on" => Ok(true),
        b"off" => Ok(false),
        _ => Err(Failure::Syntax),
    }
}

/// `CLIENT LIST [TYPE type] [ID id ...]`
fn list(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let registry = &context.shared.registry;
    let mut clients = None;
    let mut normal = true;
    match request.get(2).map(|option| option.to_ascii_lowercase()).as_deref() {
        None => {}
        Some(b"type") if request.len() == 4 => normal = parse_type(request.arg(3))?,
        Some(b"id") if request.len() > 3 => {
            let id_of = |arg| {
                let id = parse_integer(arg).ok_or(Failure::text("ERR Invalid client ID"))?;
                // Nobody has a lower one.
                Ok::<_, Failure>(u64::try_from(id).unwrap_or(0))
            };
            let ids: Vec<u64> = request.args_from(3).map(id_of).collect::<Result<_, _>>()?;
            // As often, and in the order, as they are asked for.
            clients = Some(registry.with_all(|all| {
                ids.iter().filter_map(|id| all.get(id).cloned()).collect::<Vec<_>>()
            }));
        }
        Some(_) => return Err(Failure::Syntax),
    }
    let clients = match (normal, clients) {
        (false, _) => Vec::new(),
        (true, Some(clients)) => clients,
        (true, None) => registry.all(),
    };
    let (now_ms, size_max) = (context.shared.now_ms(), context.shared.config.reply_size_max);
    let mut lines = String::new();
    for client in clients {
        // Before it is made: their names may be long, and asked for many times.
        if lines.len() + client.details_size() > size_max {
            return Err(Failure::ReplyTooLong);
        }
        lines.push_str(&describe(&client, now_ms));
    }
    context.reply.verbatim(&lines);
    Ok(())
}

fn parse_id(arg: &[u8]) -> Result<u64, Failure> {
    let id = parse_integer(arg).and_then(|id| u64::try_from(id).ok()).filter(|&id| id > 0);
    id.ok_or(Failure::text("ERR client-id should be greater than 0"))
}

/// True for the one type of client there is.
fn parse_type(arg: &[u8]) -> Result<bool, Failure> {
    match arg.to_ascii_lowercase().as_slice() {
        b"normal" => Ok(true),
        b"master" | b"replica" | b"slave" | b"pubsub" => Ok(false),
        _ => Err(Failure::text(format!("ERR Unknown client type '{}'", shown(arg)))),
    }
}

/// Which clients to close.
#[derive(Default)]
struct KillFilter<'a> {
    id: Option<u64>,
    peer: Option<&'a [u8]>,
    local: Option<&'a [u8]>,
    age_s: Option<u64>,
    user: Option<Arc<User>>,
    /// True if a condition was given that no client meets.
    nobody: bool,
    spare_self: bool,
}

/// `CLIENT KILL address`, or `CLIENT KILL option value ...`
fn kill(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let by_address = request.len() == 3;
    let filter = if by_address {
        KillFilter { peer: Some(request.arg(2)), ..KillFilter::default() }
    } else {
        parse_kill(context, request)?
    };
    let now_ms = context.shared.now_ms();
    let own_id = context.session.client.id;
    let mut count = 0;
    let registry = &context.shared.registry;
    // A transaction may ask for any number of them while everybody waits.
    let is_meant = |client: &&Arc<Client>| filter.includes(client, own_id, now_ms);
    let clients: Vec<Arc<Client>> = match filter.id {
        // Nobody is looked at.
        _ if filter.nobody => Vec::new(),
        Some(id) => registry.get(id).iter().filter(is_meant).cloned().collect(),
        None => registry.with_all(|all| all.values().filter(is_meant).cloned().collect()),
    };
    for client in clients {
        if context.is_killed(&client) {
            continue;
        }
        count += 1;
        if client.id == own_id {
            // After the reply.
            context.session.closing = true;
        } else {
            context.kill(client);
        }
    }
    match (by_address, count) {
        (false, count) => context.reply.count(count),
        (true, 0) => return Err(Failure::text("ERR No such client")),
        (true, _) => context.reply.ok(),
    }
    Ok(())
}

fn parse_kill<'a>(context: &Context<'_>, request: &Request<'a>) -> Result<KillFilter<'a>, Failure> {
    let mut filter = KillFilter { spare_self: true, ..KillFilter::default() };
    let mut args = request.args_from(2);
    while let Some(option) = args.next() {
        let value = args.next().ok_or(Failure::Syntax)?;
        match option.to_ascii_lowercase().as_slice() {
            b"id" => filter.id = Some(parse_id(value)?),
            b"addr" => filter.peer = Some(value),
            b"laddr" => filter.local = Some(value),
            b"maxage" => filter.age_s = Some(parse_id(value)?),
            b"type" => filter.nobody |= !parse_type(value)?,
            b"user" => {
                let no_user = || Failure::text(format!("ERR No such user '{}'", shown(value)));
                filter.user = Some(context.shared.acl.get(value).ok_or_else(no_user)?);
            }
            b"skipme" => {
                filter.spare_self = match value.to_ascii_lowercase().as_slice() {
                    b"yes" => true,
                    b"no" => false,
                    _ => return Err(Failure::Syntax),
                };
            }
            _ => return Err(Failure::Syntax),
        }
    }
    Ok(filter)
}

impl KillFilter<'_> {
    fn includes(&self, client: &Client, own_id: u64, now_ms: u64) -> bool {
        let age_s = now_ms.saturating_sub(client.created_ms) / 1000;
        let spared = self.nobody || (self.spare_self && client.id == own_id);
        !spared
            && self.id.is_none_or(|id| id == client.id)
            && self.peer.is_none_or(|peer| peer == client.peer.as_bytes())
            && self.local.is_none_or(|local| local == client.local.as_bytes())
            && self
                .user
                .as_ref()
                .is_none_or(|user| client.user().is_some_and(|own| Arc::ptr_eq(user, &own)))
            && self.age_s.is_none_or(|age| age_s >= age)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use crate::batch::test_run::Bench;

    /// What went through all clients, in a transaction for each command and with everybody waiting.
    #[test]
    fn a_client_that_is_named_is_looked_up() {
        let bench = Bench::new(Bench::config());
        let (mut admin, other, mut waiting) = (bench.client(), bench.client(), bench.client());
        assert_eq!(bench.run(&mut waiting, "BLPOP k 0"), "");
        let (other, waiting) = (other.client.id, waiting.client.id);
        assert_eq!(bench.run(&mut admin, "MULTI"), "+OK");
        for line in [
            format!("CLIENT KILL ID {other}"),
            "CLIENT KILL ID 99".to_string(),
            "CLIENT KILL TYPE pubsub".to_string(),
            format!("CLIENT UNBLOCK {waiting}"),
            format!("CLIENT UNBLOCK {other}"),
        ] {
            assert_eq!(bench.run(&mut admin, &line), "+QUEUED", "{line}");
        }
        assert_eq!(bench.run(&mut admin, "EXEC"), "*5\r\n:1\r\n:0\r\n:0\r\n:1\r\n:0");
        // Relaxed: counted by this thread.
        assert_eq!(bench.shared.registry.all_count.load(Ordering::Relaxed), 0);
    }
}
