//! `ACL`: users and what they may do.

use std::io::Read;
use std::sync::Arc;

use super::context::Context;
use super::facts::{self, COMMANDS};
use super::integer::integer_arg;
use super::object::help;
use crate::acl::user::User;
use crate::acl::{self, DEFAULT, Denied, Selector, commands};
use crate::failure::{CommandResult, Failure};
use crate::resp::{Reply, Request};
use crate::shown::shown;

/// Entries of the log that are told unless the client says otherwise.
const LOG_COUNT_DEFAULT: i64 = 10;
/// Bits of a password that is made up: those asked for at most, and unless the client says otherwise.
const PASSWORD_BITS_MAX: i64 = 4096;
const PASSWORD_BITS_DEFAULT: i64 = 256;
const NO_FILE: &str = "ERR This Redis instance is not configured to use an ACL file: start it with --aclfile, to keep \
                       users in one.";

/// `ACL subcommand ...`
pub fn acl(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let subcommand = request.arg(1).to_ascii_lowercase();
    match (subcommand.as_slice(), request.len()) {
        (b"setuser", _) => return setuser(context, request),
        (b"deluser", _) => return deluser(context, request),
        (b"getuser", _) => getuser(context, request),
        (b"list", _) => list(context),
        (b"users", _) => {
            let users = context.shared.acl.all();
            context.reply.array(users.len());
            users.iter().for_each(|user| context.reply.bulk(&user.name));
        }
        (b"whoami", _) => {
            let user = Arc::clone(&context.session.access.user);
            context.reply.bulk(&user.name);
        }
        (b"load", _) => return load(context),
        (b"save", _) => return save(context),
        (b"cat", 2 | 3) => return cat(context, request.get(2)),
        (b"genpass", 2 | 3) => return genpass(context, request.get(2)),
        (b"log", 2 | 3) => return log(context, request.get(2)),
        (b"dryrun", _) => return dryrun(context, request),
        (b"help", _) => help(context, &HELP),
        _ => {
            return Err(Failure::text(format!(
                "ERR unknown subcommand or wrong number of arguments for '{}'. Try ACL HELP.",
                shown(request.arg(1))
            )));
        }
    }
    Ok(())
}

const HELP: [&str; 13] = [
    "ACL CAT [category]: the categories, or the commands of one",
    "ACL DELUSER name ...: deletes users and closes their connections",
    "ACL DRYRUN name command ...: tells whether a user may run a command",
    "ACL GENPASS [bits]: makes up a password",
    "ACL GETUSER name: shows a user",
    "ACL HELP: these lines",
    "ACL LIST: shows all users as lines of the file",
    "ACL LOAD: reads all users from the file",
    "ACL LOG [count | RESET]: shows what was refused",
    "ACL SAVE: writes all users to the file",
    "ACL SETUSER name rule ...: makes or changes a user",
    "ACL USERS: the names of all users",
    "ACL WHOAMI: the name of this connection's user",
];

fn setuser(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let (name, rules) = (request.arg(2), request.args_from(3).collect::<Vec<_>>());
    if acl::has_space(name) {
        return Err(Failure::text("ERR Usernames can't contain spaces or null characters"));
    }
    let acl = &context.shared.acl;
    let is_later = context.later.is_some();
    if is_later { acl.check(name, &rules) } else { acl.set(name, &rules) }
        .map_err(|error| Failure::text(format!("ERR {}", String::from_utf8_lossy(&error))))?;
    if is_later {
        let (name, rules) =
            (name.to_vec(), rules.into_iter().map(<[u8]>::to_vec).collect::<Vec<_>>());
        context.act(move |shared| {
            let rules: Vec<&[u8]> = rules.iter().map(Vec::as_slice).collect();
            if shared.acl.set(&name, &rules).is_err() {
                // Without the rule, which may be a password.
                tracing::warn!(
                    "ACL SETUSER of a transaction was not done: a rule takes away what the user has no more"
                );
            }
        });
    }
    context.reply.ok();
    Ok(())
}

/// What reads or writes files, or closes connections, cannot be left to be done behind a transaction.
fn refuse_within_transaction(context: &Context<'_>, subcommand: &str) -> CommandResult {
    match context.later {
        Some(_) => Err(Failure::text(format!(
            "ERR ACL {subcommand} inside of a transaction is not possible"
        ))),
        None => Ok(()),
    }
}

fn deluser(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    refuse_within_transaction(context, "DELUSER")?;
    if request.args_from(2).any(|name| name == DEFAULT) {
        return Err(Failure::text("ERR The 'default' user cannot be removed"));
    }
    let acl = &context.shared.acl;
    let deleted: Vec<Arc<User>> =
        request.args_from(2).filter_map(|name| acl.delete(name)).collect();
    close_clients_of(context, &deleted);
    context.reply.count(deleted.len() as u64);
    Ok(())
}

/// Closes the connections of users that there are no more; this one when it is answered.
fn close_clients_of(context: &mut Context<'_>, users: &[Arc<User>]) {
    let shared = context.shared;
    let is_gone = |user: &Arc<User>| users.iter().any(|gone| Arc::ptr_eq(gone, user));
    for client in shared.registry.all() {
        if client.id != context.session.client.id && client.user().as_ref().is_some_and(is_gone) {
            client.kill();
            shared.control.wake(client.loop_index);
        }
    }
    if is_gone(&context.session.access.user) {
        context.session.closing = true;
        context.session.authenticated = false;
    }
}

fn getuser(context: &mut Context<'_>, request: &Request<'_>) {
    let user = context.shared.acl.get(request.arg(2)).and_then(|user| user.rules());
    let reply = &mut context.reply;
    let Some(rules) = user else { return reply.null() };
    let (root, others) = rules.parts();
    reply.map(6);
    reply.bulk(b"flags");
    let flags = rules.flags();
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.bulk(b"passwords");
    let passwords = rules.passwords();
    reply.array(passwords.len());
    passwords.iter().for_each(|hash| reply.bulk(hash.as_bytes()));
    show_selector(reply, root);
    reply.bulk(b"selectors");
    reply.array(others.len());
    for selector in others {
        reply.map(3);
        show_selector(reply, selector);
    }
}

fn show_selector(reply: &mut Reply<'_>, selector: &Selector) {
    let fields = [
        ("commands", selector.describe_commands()),
        ("keys", selector.describe_keys()),
        ("channels", selector.describe_channels()),
    ];
    for (name, text) in fields {
        reply.bulk(name.as_bytes());
        reply.bulk(&text);
    }
}

fn list(context: &mut Context<'_>) {
    let users = context.shared.acl.all();
    let known = users.iter().filter_map(|user| Some((&user.name, user.rules()?)));
    let lines: Vec<Vec<u8>> = known.map(|(name, rules)| acl::describe(name, &rules)).collect();
    context.reply.array(lines.len());
    lines.iter().for_each(|line| context.reply.bulk(line));
}

fn load(context: &mut Context<'_>) -> CommandResult {
    refuse_within_transaction(context, "LOAD")?;
    let acl = &context.shared.acl;
    let path = acl.file().ok_or(Failure::text(NO_FILE))?;
    let gone = acl.load(path).map_err(|errors| Failure::text(format!("ERR {errors}")))?;
    close_clients_of(context, &gone);
    context.reply.ok();
    Ok(())
}

fn save(context: &mut Context<'_>) -> CommandResult {
    refuse_within_transaction(context, "SAVE")?;
    let acl = &context.shared.acl;
    let path = acl.file().ok_or(Failure::text(NO_FILE))?;
    acl.save(path).map_err(|error| {
        tracing::error!("the users cannot be written to {}: {error}", path.display());
        Failure::text(
            "ERR There was an error trying to save the ACLs. Please check the server logs for more information",
        )
    })?;
    context.reply.ok();
    Ok(())
}

fn cat(context: &mut Context<'_>, category: Option<&[u8]>) -> CommandResult {
    let reply = &mut context.reply;
    let Some(name) = category else {
        let names = acl::facts::CATEGORIES;
        reply.array(names.len());
        names.iter().for_each(|name| reply.bulk(name.as_bytes()));
        return Ok(());
    };
    let category = commands::category(name);
    let category =
        category.ok_or_else(|| Failure::text(format!("ERR Unknown category '{}'", shown(name))))?;
    let known = commands::all().iter();
    let members: Vec<&str> = known
        .filter(|known| known.categories & category != 0 && !known.is_reserved)
        .map(|known| known.name.as_str())
        .collect();
    reply.array(members.len());
    members.iter().for_each(|name| reply.bulk(name.as_bytes()));
    Ok(())
}

fn genpass(context: &mut Context<'_>, bits: Option<&[u8]>) -> CommandResult {
    let bits = bits.map_or(Ok(PASSWORD_BITS_DEFAULT), integer_arg)?;
    if !(1..=PASSWORD_BITS_MAX).contains(&bits) {
        return Err(Failure::text(format!(
            "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to \
             {PASSWORD_BITS_MAX}"
        )));
    }
    let digits = usize::try_from((bits + 3) / 4).unwrap_or(1);
    let mut random = vec![0; digits.div_ceil(2)];
    let source = std::fs::File::open("/dev/urandom");
    source
        .and_then(|mut source| source.read_exact(&mut random))
        .map_err(|error| Failure::text(format!("ERR the system gives no random bytes: {error}")))?;
    let text: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    context.reply.bulk(&text.as_bytes()[..digits]);
    Ok(())
}

fn log(context: &mut Context<'_>, option: Option<&[u8]>) -> CommandResult {
    if option.is_some_and(|option| option.eq_ignore_ascii_case(b"reset")) {
        context.act(|shared| shared.acl.log.reset());
        context.reply.ok();
        return Ok(());
    }
    let count = option.map_or(Ok(LOG_COUNT_DEFAULT), integer_arg)?;
    let count = usize::try_from(count).unwrap_or(0);
    let entries = context.shared.acl.log.newest(count);
    let now_ms = context.shared.now_ms();
    let reply = &mut context.reply;
    reply.array(entries.len());
    for entry in entries {
        reply.map(7);
        reply.bulk(b"count");
        reply.count(entry.count);
        let age = now_ms.saturating_sub(entry.at_ms) as f64 / 1000.0;
        for (name, value) in [
            ("reason", entry.reason.as_bytes()),
            ("context", entry.context.as_bytes()),
            ("object", &entry.object),
            ("username", &entry.user),
        ] {
            reply.bulk(name.as_bytes());
            reply.bulk(value);
        }
        reply.bulk(b"age-seconds");
        reply.double(age);
        reply.bulk(b"client-info");
        reply.bulk(entry.client.trim_end().as_bytes());
    }
    Ok(())
}

fn dryrun(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let name = request.arg(2);
    let user = context.shared.acl.get(name).and_then(|user| user.rules());
    let rules =
        user.ok_or_else(|| Failure::text(format!("ERR User '{}' not found", shown(name))))?;
    let args: Vec<&[u8]> = request.args_from(3).collect();
    let not_found = || Failure::text(format!("ERR Command '{}' not found", shown(args[0])));
    let command = facts::find(args[0]).ok_or_else(not_found)?;
    let id = commands::of_request(command, &args).ok_or_else(not_found)?;
    let full_name = commands::all().get(id).map_or("", |known| known.name.as_str());
    if !COMMANDS[command].accepts_with_subcommand(&args) {
        return Err(Failure::text(format!(
            "ERR wrong number of arguments for '{full_name}' command"
        )));
    }
    match rules.check(id, &args) {
        Ok(()) => context.reply.ok(),
        Err(Denied::Command) => {
            let text = format!("This user has no permissions to run the '{full_name}' command");
            context.reply.bulk(text.as_bytes());
        }
        Err(Denied::Key(at)) => {
            let key = args.get(at).copied().unwrap_or(b"");
            let text = [b"This user has no permissions to access the '", key, b"' key"].concat();
            context.reply.bulk(&text);
        }
    }
    Ok(())
}
