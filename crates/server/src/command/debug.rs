//! `DEBUG`: what tests of clients and of the server need. It is refused unless the configuration allows it.

use std::net::SocketAddr;
use std::time::Duration;

use super::context::Context;
use super::dump;
use super::facts::DIFFERENCES;
use super::object::{encoding, help};
use crate::config::DebugCommand;
use crate::failure::{CommandResult, Failure, Result};
use crate::resp::Request;
use crate::shown::shown;

/// Bytes of a payload that are not its value: the type in front, and the footer.
const PAYLOAD_OVERHEAD: usize = 11;

/// `DEBUG subcommand ...`
pub fn debug(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    check_allowed(context)?;
    match (request.arg(1).to_ascii_lowercase().as_slice(), request.len()) {
        (b"sleep", 3) => sleep(context, request),
        (b"object", 3) => object(context, request),
        (b"set-active-expire", 3) => {
            match request.arg(2) {
                b"0" => context.act(|shared| shared.store.pause_sweep()),
                b"1" => context.act(|shared| shared.store.resume_sweep()),
                _ => return Err(Failure::Syntax),
            }
            context.reply.ok();
            Ok(())
        }
        (b"log", 3) => {
            tracing::warn!("DEBUG LOG: {}", shown(request.arg(2)));
            context.reply.ok();
            Ok(())
        }
        (b"help", 2) => {
            help(
                context,
                &[
                    "DEBUG SLEEP seconds: keeps the event loop of this connection busy",
                    "DEBUG OBJECT key: how a value is kept",
                    "DEBUG SET-ACTIVE-EXPIRE 0 | 1: whether keys that have expired are removed in the background",
                    "DEBUG LOG text: writes a line to the log",
                ],
            );
            Ok(())
        }
        _ => Err(Failure::text(format!(
            "ERR DEBUG has no '{}' of this form here: it knows SLEEP, OBJECT, SET-ACTIVE-EXPIRE, LOG and HELP. \
             What else it has in Redis is about how Redis keeps things {DIFFERENCES}",
            shown(request.arg(1))
        ))),
    }
}

fn check_allowed(context: &Context<'_>) -> CommandResult {
    let peer = &context.session.client.peer;
    // That of a Unix socket is a path.
    let is_local = || peer.parse().map_or(true, |peer: SocketAddr| peer.ip().is_loopback());
    match context.shared.config.debug_command {
        DebugCommand::Yes => Ok(()),
        DebugCommand::Local if is_local() => Ok(()),
        _ => Err(Failure::text(
            "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can \
             run it from a local connection, otherwise you need to set this option in the configuration \
             file, and then restart the server.",
        )),
    }
}

/// Others of the same event loop wait meanwhile; in Redis all do.
fn sleep(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let seconds = std::str::from_utf8(request.arg(2)).ok().and_then(|text| text.parse().ok());
    let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    std::thread::sleep(time.ok_or(Failure::text("ERR value is not a valid float"))?);
    context.reply.ok();
    Ok(())
}

fn object(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let size_max = context.shared.config.reply_size_max;
    let Context { keys, reply, .. } = context;
    let (staged, key) = (keys.staged()?, request.arg(2));
    let payload: Result<_> = dump::payload(staged, key, size_max);
    let Some(payload) = payload? else { return Err(Failure::text("ERR no such key")) };
    let encoding = String::from_utf8_lossy(encoding(staged.kind(key)?)).into_owned();
    let size = payload.len().saturating_sub(PAYLOAD_OVERHEAD);
    reply.status(&format!(
        "Value at:0x0 refcount:1 encoding:{encoding} serializedlength:{size} lru:0 lru_seconds_idle:0"
    ));
    Ok(())
}
