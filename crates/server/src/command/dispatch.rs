//! Running the command that a request names: whether it may be run, how, and what is noted of it.

use std::time::{Duration, Instant};

use super::context::Context;
use super::table::function;
use super::timing::{note_time, wants_time};
use super::transaction::single::run_single;
use super::waiting::wait;
use super::{facts, permission, transaction};
use crate::client_state::ReplyMode;
use crate::failure::{CommandResult, Failure};
use crate::latency::Ending;
use crate::resp::Request;
use crate::shown::shown;

/// Finds the command and runs it; the request has at least one argument.
#[inline]
pub fn dispatch(context: &mut Context<'_>, request: &Request<'_>) {
    dispatch_after(context, request, Duration::ZERO);
}

/// The same, of a command for which so much time was spent before.
pub fn dispatch_after(context: &mut Context<'_>, request: &Request<'_>, spent: Duration) {
    let start = Start::of(context, spent);
    let admitted = admit(context, request);
    let is_admitted = admitted.is_ok();
    let index = admitted.as_ref().ok().copied().flatten();
    let is_kept = index.is_some_and(|it| transaction::keeps(&context.session.transaction, it));
    let outcome = admitted.and_then(|command| execute(context, request, command));
    let outcome = outcome.and_then(|()| context.reply.check());
    let is_only_kept = is_kept && outcome.is_ok();
    let ending = Ending::of(is_admitted && !is_kept, outcome.is_ok());
    start.end(context, request, outcome, (!is_only_kept).then_some(ending));
}

/// Answers a command that the client may not run, and runs none. Returns whether it may not.
pub fn refuse(context: &mut Context<'_>, request: &Request<'_>) -> bool {
    let Err(failure) = admit(context, request) else { return false };
    let start = Start::of(context, Duration::ZERO);
    start.end(context, request, Err(failure), Some(Ending::Rejected));
    true
}

/// Where the answer to a command begins.
struct Start {
    reply_size: usize,
    mode: ReplyMode,
    /// When it began, if somebody wants to know.
    began: Option<Instant>,
    /// The time that was spent for it before.
    spent: Duration,
}

impl Start {
    #[inline]
    fn of(context: &mut Context<'_>, spent: Duration) -> Self {
        let mode = context.session.reply_mode;
        if mode == ReplyMode::SkipNext {
            context.session.reply_mode = ReplyMode::SkipThis;
        }
        let began = wants_time(context.shared).then(Instant::now);
        Start { reply_size: context.reply.size(), mode, began, spent }
    }

    /// The command has ended; how is noted, unless it was only kept.
    #[inline]
    fn end(
        self,
        context: &mut Context<'_>,
        request: &Request<'_>,
        outcome: CommandResult,
        ending: Option<Ending>,
    ) {
        // What the command has set counts already.
        if let (Some(began), Some(ending)) = (self.began, ending)
            && wants_time(context.shared)
        {
            note_time(context, request, self.spent + began.elapsed(), ending);
        }
        if let Err(failure) = outcome {
            context.tally.errors += 1;
            context.reply.truncate(self.reply_size);
            failure.write(&mut context.reply, context.shared);
        }
        // What has switched replies on has one.
        if self.mode != ReplyMode::On && context.session.reply_mode != ReplyMode::On {
            if context.session.reply_mode == ReplyMode::SkipThis {
                context.session.reply_mode = ReplyMode::On;
            }
            context.reply.truncate(self.reply_size);
            if let Some(waiting) = &mut context.session.waiting {
                waiting.is_silent = true;
            }
        }
    }
}

/// Whether the client may run the command, whose index it is then; `None` if it is no client of ours.
#[inline]
fn admit(context: &mut Context<'_>, request: &Request<'_>) -> Result<Option<usize>, Failure> {
    let index = facts::find(request.arg(0));
    let command = index.map(|index| &facts::COMMANDS[index]);
    if command.is_none() && is_http(request.arg(0)) {
        close_http(context);
        return Ok(None);
    }
    let needs_password = !command.is_some_and(|command| command.before_auth());
    if needs_password && !context.session.is_let_in(&context.shared.acl) {
        return Err(Failure::text("NOAUTH Authentication required."));
    }
    let (Some(index), Some(command)) = (index, command) else {
        context.session.transaction.refuse();
        return Err(unknown(request));
    };
    if !command.accepts(request.len()) {
        return Err(context.session.transaction.refuse_arity(command));
    }
    let subcommand = command.check_subcommand(request);
    let subcommand = subcommand.inspect_err(|_| context.session.transaction.refuse())?;
    if !context.session.transaction.refuses(command) {
        permission::check(context, request, index, command)?;
    }
    if context.session.monitor.is_some() && permission::is_of_keys(request, index) {
        context.session.transaction.refuse();
        return Err(Failure::text("ERR Replica can't interact with the keyspace"));
    }
    context.session.last_command = facts::number(index, subcommand);
    Ok(Some(index))
}

/// Runs a command that was admitted.
#[inline]
fn execute(
    context: &mut Context<'_>,
    request: &Request<'_>,
    index: Option<usize>,
) -> CommandResult {
    let Some(index) = index else { return Ok(()) };
    let command = &facts::COMMANDS[index];
    if transaction::keep(context, request, index, command)? {
        return Ok(());
    }
    let outcome = if command.can_wait() {
        wait(context, request)
    } else if command.is_staged() {
        run_single(context, request, index, function(index))
    } else {
        function(index)(context, request)
    };
    let Context { shared, session, .. } = context;
    if shared.monitors.any() {
        shared.show_to_monitors(&session.client, session.database, request, index);
    }
    outcome
}

/// Whether a line is one of a request of HTTP. A web page can make a browser post a form to us; nothing of it may be
/// run as inline commands, not even a password be tried.
fn is_http(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:")
}

fn close_http(context: &mut Context<'_>) {
    let Context { shared, session, .. } = context;
    let client = &session.client;
    // A client that need not know a password fills no disk with lines.
    if shared.defences.allows(shared.now_ms()) {
        tracing::warn!("client {} from {} speaks HTTP and is closed", client.id, client.peer);
    }
    context.session.closing = true;
}

fn unknown(request: &Request<'_>) -> Failure {
    let name = request.arg(0);
    let mut text = format!("ERR unknown command '{}', with args beginning with: ", shown(name));
    let mut size = 0;
    for arg in request.args_from(1) {
        if size >= crate::shown::SIZE_MAX {
            break;
        }
        let arg = shown(arg);
        size += arg.len();
        text.push_str(&format!("'{arg}' "));
    }
    // What clients compare stands before it.
    text.push_str(facts::DIFFERENCES);
    Failure::Text(text.into())
}
