//! How long commands take, for `SLOWLOG` and the statistics of times.

use std::time::Duration;

use super::context::Context;
use super::facts;
use crate::latency::Ending;
use crate::resp::Request;
use crate::shared::Shared;
use crate::shown::shown;

/// Whether the times of commands are wanted.
#[inline]
pub fn wants_time(shared: &Shared) -> bool {
    shared.settings.slow_log_after().is_some() || shared.latency.wants_times()
}

/// Keeps the time of a command, as far as somebody wants it.
#[inline]
pub fn note_time(
    context: &mut Context<'_>,
    request: &Request<'_>,
    duration: Duration,
    ending: Ending,
) {
    // What was not run is no slow command, and a client without a password writes nothing that others read.
    if let Some(limit) = context.shared.settings.slow_log_after()
        && ending != Ending::Rejected
    {
        note_slow(context, request, limit, duration);
    }
    if context.shared.latency.wants_times() {
        note_latency(context, request, duration, ending);
    }
}

/// Adds the time of a command that there is to those of its kind.
#[cold]
pub fn note_latency(
    context: &Context<'_>,
    request: &Request<'_>,
    duration: Duration,
    ending: Ending,
) {
    let Some(index) = facts::find(request.arg(0)) else { return };
    // Of a subcommand that there is not no time was taken.
    let subcommand = facts::COMMANDS[index].check_subcommand(request);
    let Ok(subcommand) = subcommand else { return };
    let number = facts::number(index, subcommand);
    context.shared.latency.note(number, facts::is_fast(number), duration, ending);
}

/// Keeps a command that took long, unless it may hold a password.
#[inline]
pub fn note_slow(
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

#[cfg(test)]
mod tests {
    use crate::Config;
    use crate::batch::test_run::Bench;

    /// What was kept: commands that were refused, of clients that had given no password, until nothing else was left.
    #[test]
    fn a_command_that_is_refused_is_no_slow_command() {
        let bench = Bench::new(Config { password: Some("p".into()), ..Bench::config() });
        let mut admin = bench.client();
        for line in ["AUTH p", "CONFIG SET slowlog-log-slower-than 0", "SLOWLOG RESET"] {
            assert_eq!(bench.run(&mut admin, line), "+OK");
        }
        assert_eq!(bench.run(&mut admin, "ACL SETUSER u on >q ~a +get +lpush"), "+OK");
        let (mut stranger, mut user) = (bench.client(), bench.client());
        assert!(bench.run(&mut stranger, "SET told me").starts_with("-NOAUTH"));
        assert_eq!(bench.run(&mut user, "AUTH u q"), "+OK");
        for (line, expected) in [
            ("SET a told", "-NOPERM"),
            ("GET told", "-NOPERM"),
            ("GET a told", "-ERR wrong number"),
            ("GET a", "$-1"),
            ("LPUSH a e", ":1"),
            // It was run.
            ("GET a", "-WRONGTYPE"),
        ] {
            let reply = bench.run(&mut user, line);
            assert!(reply.starts_with(expected), "{line}: {reply}");
        }
        let kept = bench.shared.slow_log.newest(99);
        let mut kept: Vec<String> =
            kept.iter().map(|it| String::from_utf8_lossy(&it.args.join(&b' ')).into()).collect();
        kept.reverse();
        assert_eq!(kept, ["SLOWLOG RESET", "GET a", "LPUSH a e", "GET a"]);
    }
}
