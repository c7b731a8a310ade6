//! The commands: one function each, found through one table.

mod acl;
mod admin;
mod bits;
mod certificates;
mod client;
mod client_line;
mod configuration;
mod connection;
pub mod copy_budget;
pub mod counter;
mod debug;
mod description;
mod draws;
pub mod dump;
pub mod expiry;
pub mod facts;
mod hash;
mod info;
pub mod key_positions;
pub mod keys;
mod keyspace;
mod latency;
mod lcs;
mod list;
mod members;
pub mod mset_series;
mod object;
pub mod permission;
pub mod queue;
mod random_key;
mod range;
mod rename;
mod save;
mod scan;
pub mod series;
mod set;
mod sets;
mod slow_log;
mod sort;
pub mod source;
pub mod stage;
mod staged_members;
mod staged_value;
mod string;
mod table;
pub mod transaction;
mod undo;
pub mod waiting;
pub mod walk;
pub mod watched;
mod zset;

use std::time::{Duration, Instant};

use everleaf::Error;

use self::certificates::ReadAhead;
use self::keys::Keys;
use crate::client_state::{ClientState, ReplyMode};
pub use crate::failure::Failure;
use crate::latency::Ending;
use crate::resp::{Reply, Request};
use crate::shared::Shared;
pub use crate::shown::shown;
use crate::statistics::Tally;
use crate::tls::TlsFiles;

/// What a command works with.
pub struct Context<'a> {
    pub shared: &'a Shared,
    pub session: &'a mut ClientState,
    pub tally: &'a mut Tally,
    pub reply: Reply<'a>,
    /// What it reads and writes.
    pub keys: Keys<'a>,
    /// Within a transaction: what is to be done once it is written.
    pub later: Option<&'a mut Later>,
}

type Act = Box<dyn FnOnce(&Shared)>;

/// What a transaction does besides reading and writing keys.
#[derive(Default)]
pub struct Later {
    acts: Vec<Act>,
    /// The files of TLS as they will be, if it changes them: what changes them once more begins with these.
    pub tls_files: Option<TlsFiles>,
    /// The files of TLS that its commands name.
    pub ahead: ReadAhead,
}

impl Later {
    /// Nothing is to be done yet.
    pub fn new(ahead: ReadAhead) -> Self {
        Later { ahead, ..Later::default() }
    }

    /// Nothing is to be done any more.
    pub fn restart(&mut self) {
        *self = Later::new(std::mem::take(&mut self.ahead));
    }

    /// Does all of it.
    pub fn perform(self, shared: &Shared) {
        self.acts.into_iter().for_each(|act| act(shared));
    }
}

impl Context<'_> {
    /// Does what is more than reading and writing keys: within a transaction when that is written,
    /// otherwise at once.
    pub fn act(&mut self, act: impl FnOnce(&Shared) + 'static) {
        match &mut self.later {
            Some(later) => later.acts.push(Box::new(act)),
            None => act(self.shared),
        }
    }
}

/// What every command returns. It has written its reply, or nothing that counts.
pub type Outcome = Result<(), Failure>;

impl Failure {
    /// Answers with this error.
    pub fn write(&self, reply: &mut Reply<'_>, shared: &Shared) {
        match self {
            Failure::Syntax => reply.error("ERR syntax error"),
            Failure::WrongType => {
                reply.error("WRONGTYPE Operation against a key holding the wrong kind of value")
            }
            Failure::NotInteger => reply.error("ERR value is not an integer or out of range"),
            Failure::WrongArity(name) => {
                reply.error(&format!("ERR wrong number of arguments for '{name}' command"));
            }
            Failure::ReplyTooLong => reply.error(&format!(
                "ERR the reply would have more than {} bytes: ask for less at a time",
                shared.config.reply_size_max
            )),
            Failure::Text(text) => reply.error(text),
            Failure::Store(error) => write_store_error(error, reply, shared),
        }
    }
}

/// The code tells client libraries what to do; the sentence tells people.
fn write_store_error(error: &Error, reply: &mut Reply<'_>, shared: &Shared) {
    let code = match error {
        Error::DiskFull(_) | Error::PoolFull(_) => {
            shared.log_store_error(error);
            "OOM"
        }
        // What clients of Redis know for a server that cannot make writes durable.
        Error::LogFailed(_) | Error::LogFull(_) => {
            shared.log_store_error(error);
            "MISCONF"
        }
        Error::ReadOnly => "READONLY",
        Error::KeyTooLarge(_) | Error::ValueTooLarge(_) => "ERR",
        _ => {
            shared.log_store_error(error);
            "ERR"
        }
    };
    reply.error(&format!("{code} {error}"));
}

/// What a client is told in place of replies to writes of which nobody knows whether they will last.
pub fn write_maybe_lost(error: &Error, reply: &mut Reply<'_>, shared: &Shared) {
    shared.log_store_error(error);
    reply.error(&format!("MISCONF what was written since the last reply may be lost: {error}"));
}

/// Finds the command and runs it; the request has at least one argument.
pub fn dispatch(context: &mut Context<'_>, request: &Request<'_>) {
    let start = context.reply.size();
    let mode = context.session.reply_mode;
    if mode == ReplyMode::SkipNext {
        context.session.reply_mode = ReplyMode::SkipThis;
    }
    let began = wants_time(context.shared).then(Instant::now);
    let admitted = admit(context, request);
    let is_admitted = admitted.is_ok();
    let index = admitted.as_ref().ok().copied().flatten();
    let is_kept = index.is_some_and(|it| transaction::keeps(&context.session.transaction, it));
    let outcome = admitted.and_then(|command| execute(context, request, command));
    let outcome = outcome.and_then(|()| context.reply.check());
    // What the command has set counts already.
    if let Some(began) = began
        && wants_time(context.shared)
        && !(is_kept && outcome.is_ok())
    {
        let ending = Ending::of(is_admitted && !is_kept, outcome.is_ok());
        note_time(context, request, began.elapsed(), ending);
    }
    if let Err(failure) = outcome {
        context.tally.errors += 1;
        context.reply.truncate(start);
        failure.write(&mut context.reply, context.shared);
    }
    // What has switched replies on has one.
    if mode != ReplyMode::On && context.session.reply_mode != ReplyMode::On {
        if context.session.reply_mode == ReplyMode::SkipThis {
            context.session.reply_mode = ReplyMode::On;
        }
        context.reply.truncate(start);
        if let Some(waiting) = &mut context.session.waiting {
            waiting.is_silent = true;
        }
    }
}

/// Whether the times of commands are wanted.
#[inline]
fn wants_time(shared: &Shared) -> bool {
    shared.settings.slow_log_after().is_some() || shared.latency.wants_times()
}

/// Keeps the time of a command, as far as somebody wants it.
#[inline]
fn note_time(context: &mut Context<'_>, request: &Request<'_>, duration: Duration, ending: Ending) {
    if let Some(limit) = context.shared.settings.slow_log_after() {
        note_slow(context, request, limit, duration);
    }
    if context.shared.latency.wants_times() {
        note_latency(context, request, duration, ending);
    }
}

/// Adds the time of a command that there is to those of its kind.
#[cold]
fn note_latency(context: &Context<'_>, request: &Request<'_>, duration: Duration, ending: Ending) {
    let Some(index) = facts::find(request.arg(0)) else { return };
    // Of a subcommand that there is not no time was taken.
    let subcommand = facts::COMMANDS[index].check_subcommand(request);
    let Ok(subcommand) = subcommand else { return };
    let number = facts::number(index, subcommand);
    context.shared.latency.note(number, facts::is_fast(number), duration, ending);
}

/// Keeps a command that took long, unless it may hold a password.
#[inline]
fn note_slow(
    context: &mut Context<'_>,
    request: &Request<'_>,
    limit: Duration,
    duration: Duration,
) {
    let is_known = |index: usize| {
        let command = &facts::COMMANDS[index];
        !command.before_auth() && command.name != "acl"
    };
    if duration >= limit && facts::find(request.arg(0)).is_some_and(is_known) {
        let Context { shared, session, .. } = context;
        let count_max = shared.settings.slow_log_len_max();
        shared.slow_log.add(request, &session.client, duration, count_max);
        // Its arguments are not for the log.
        if shared.slow_commands.allows(shared.now_ms()) {
            let (name, client) = (shown(request.arg(0)), &session.client);
            tracing::info!(
                "{name} of client {} from {} took {duration:?}; SLOWLOG has it, and the others",
                client.id,
                client.peer
            );
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
fn execute(context: &mut Context<'_>, request: &Request<'_>, index: Option<usize>) -> Outcome {
    let Some(index) = index else { return Ok(()) };
    let command = &facts::COMMANDS[index];
    if transaction::keep(context, request, index, command)? {
        return Ok(());
    }
    let outcome = if command.can_wait() {
        waiting::wait(context, request)
    } else if command.is_staged() {
        transaction::run_single(context, request, index)
    } else {
        run(context, request, index)
    };
    let Context { shared, session, .. } = context;
    if shared.monitors.any() {
        shared.show_to_monitors(&session.client, session.database, request, index);
    }
    outcome
}

/// Runs the command of this index, as a client asks for it or as a transaction has kept it.
#[inline]
pub fn run(context: &mut Context<'_>, request: &Request<'_>, index: usize) -> Outcome {
    table::function(index)(context, request)
}

/// Whether a line is one of a request of HTTP. A web page can make a browser post a form to us; nothing of it may be
/// run as inline commands, not even a password be tried.
fn is_http(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:")
}

fn close_http(context: &mut Context<'_>) {
    let Context { shared, session, .. } = context;
    let client = &session.client;
    // Who need not know a password fills no disk with lines.
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

/// The most digits of an integer behind its first one.
const DIGITS_MAX: usize = 18;

/// An integer in its one canonical spelling: no sign but `-`, no leading zeros, no spaces.
pub fn parse_integer(bytes: &[u8]) -> Option<i64> {
    let digits = bytes.strip_prefix(b"-").unwrap_or(bytes);
    match digits {
        b"0" => return (bytes == b"0").then_some(0),
        [b'1'..=b'9', rest @ ..] if rest.len() <= DIGITS_MAX => {}
        _ => return None,
    }
    let mut size = 0_u64;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        // Nineteen digits are below 2^64.
        size = 10 * size + u64::from(digit);
    }
    match bytes.len() > digits.len() {
        true => 0_i64.checked_sub_unsigned(size),
        false => i64::try_from(size).ok(),
    }
}

/// An integer argument.
pub fn integer_arg(bytes: &[u8]) -> Result<i64, Failure> {
    parse_integer(bytes).ok_or(Failure::NotInteger)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_canonical_spelling_is_an_integer() {
        for value in [0, 1, -1, 10, i64::MAX, i64::MIN] {
            assert_eq!(parse_integer(value.to_string().as_bytes()), Some(value));
        }
        let bad = ["", "-", "-0", "+1", "01", "1 ", " 1", "1.0", "x", "9223372036854775808"];
        let bad = bad.into_iter().chain(["-9223372036854775809", "9999999999999999999", "--1"]);
        let bad = bad.chain(["10000000000000000000", "18446744073709551617", "1-", "12345/", "1:"]);
        for text in bad {
            assert_eq!(parse_integer(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn what_a_client_sent_is_cut_and_cleaned_before_it_is_shown() {
        assert_eq!(shown(b"a\r\nb"), "a  b");
        assert_eq!(shown(&[b'x'; 500]).len(), crate::shown::SIZE_MAX);
    }
}
