//! `COMMAND`: the commands, described to clients.

use super::context::Context;
use super::facts::{self, COMMANDS, Command};
use super::key_positions;
use crate::acl::commands;
use crate::failure::{CommandResult, Failure};
use crate::glob::Pattern;
use crate::resp::{Reply, Request};

/// `COMMAND [subcommand ...]`
pub fn command(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let reply = &mut context.reply;
    let Some(subcommand) = request.get(1) else {
        reply.array(COMMANDS.len());
        COMMANDS.iter().for_each(|command| info(reply, command));
        return Ok(());
    };
    match (subcommand.to_ascii_lowercase().as_slice(), request.len()) {
        (b"count", 2) => reply.count(COMMANDS.len() as u64),
        (b"info", 2) => {
            reply.array(COMMANDS.len());
            COMMANDS.iter().for_each(|command| info(reply, command));
        }
        (b"info", _) => {
            reply.array(request.len() - 2);
            for name in request.args_from(2) {
                match facts::find(name) {
                    Some(index) => info(reply, &COMMANDS[index]),
                    None => reply.null(),
                }
            }
        }
        (b"getkeys", _) => return getkeys(reply, request),
        (b"docs", _) => docs(reply, request),
        (b"list", _) => return list(reply, request),
        // The table knows no others.
        _ => return Err(Failure::Syntax),
    }
    Ok(())
}

/// `COMMAND GETKEYS command argument ...`
fn getkeys(reply: &mut Reply<'_>, request: &Request<'_>) -> CommandResult {
    let args: Vec<&[u8]> = request.args_from(2).collect();
    let command = args.first().and_then(|name| facts::find(name)).map(|index| &COMMANDS[index]);
    let command = command.ok_or_else(|| {
        Failure::text(format!("ERR Invalid command specified {}", facts::DIFFERENCES))
    })?;
    let positions = key_positions::asked_for(command, &args)?;
    reply.array(positions.len());
    positions.iter().for_each(|at| reply.bulk(args[*at]));
    Ok(())
}

fn info(reply: &mut Reply<'_>, command: &Command) {
    reply.array(10);
    reply.bulk(command.name.as_bytes());
    reply.integer(i64::from(command.arity));
    let mut flags = command.flag_names();
    if key_positions::depend_on_arguments(command) {
        flags.push("movablekeys");
    }
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.status(flag));
    for position in [command.first_key, command.last_key, command.key_step] {
        reply.integer(i64::from(position));
    }
    let id = facts::find(command.name.as_bytes()).unwrap_or(usize::MAX);
    let categories: Vec<_> = commands::category_names(id).collect();
    reply.set(categories.len());
    categories.iter().for_each(|name| reply.status(&format!("@{name}")));
    // Tips, key specifications, subcommands: none.
    for _ in 0..3 {
        reply.array(0);
    }
}

fn docs(reply: &mut Reply<'_>, request: &Request<'_>) {
    let named: Vec<&Command> =
        request.args_from(2).filter_map(facts::find).map(|index| &COMMANDS[index]).collect();
    let wanted = if request.len() == 2 { COMMANDS.iter().collect() } else { named };
    reply.map(wanted.len());
    for command in wanted {
        reply.bulk(command.name.as_bytes());
        reply.map(3);
        let fields = [("summary", command.summary), ("since", "0.1.0"), ("group", command.group)];
        for (field, value) in fields {
            reply.bulk(field.as_bytes());
            reply.bulk(value.as_bytes());
        }
    }
}

/// `COMMAND LIST [FILTERBY MODULE name | ACLCAT category | PATTERN pattern]`: each command before its subcommands.
fn list(reply: &mut Reply<'_>, request: &Request<'_>) -> CommandResult {
    let any = || b"*".to_vec();
    let (pattern, categories) = match request.len() {
        2 => (any(), u32::MAX),
        5 if request.arg(2).eq_ignore_ascii_case(b"filterby") => {
            let value = request.arg(4);
            match request.arg(3).to_ascii_lowercase().as_slice() {
                b"pattern" => (value.to_ascii_lowercase(), u32::MAX),
                // Nothing belongs to one that is not known.
                b"aclcat" => (any(), commands::category(value).unwrap_or(0)),
                // There are none, so nothing is of one.
                b"module" => (any(), 0),
                _ => return Err(Failure::Syntax),
            }
        }
        _ => return Err(Failure::Syntax),
    };
    let known = commands::in_order().map(|id| &commands::all()[id]).filter(|it| !it.is_reserved);
    let found = known.filter(|it| it.categories & categories != 0);
    let pattern = Pattern::new(&pattern);
    let names: Vec<&[u8]> =
        found.map(|it| it.name.as_bytes()).filter(|name| pattern.matches(name)).collect();
    reply.array(names.len());
    names.iter().for_each(|name| reply.bulk(name));
    Ok(())
}
