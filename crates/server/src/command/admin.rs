//! `SHUTDOWN`, `ROLE`, `TIME`.

use std::time::{SystemTime, UNIX_EPOCH};

use super::context::Context;
use crate::failure::{CommandResult, Failure};
use crate::resp::Request;

/// `SHUTDOWN [NOSAVE | SAVE] [NOW] [FORCE]`: everything acknowledged is durable already, so the
/// options make no difference. There is no reply: the connection closes.
pub fn shutdown(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let (mut saves, mut skips, mut aborts) = (false, false, false);
    for option in request.args_from(1) {
        match option.to_ascii_lowercase().as_slice() {
            b"nosave" => skips = true,
            b"save" => saves = true,
            b"now" | b"force" => {}
            b"abort" => aborts = true,
            _ => return Err(Failure::Syntax),
        }
    }
    if saves && skips || aborts && request.len() > 2 {
        return Err(Failure::Syntax);
    }
    if aborts {
        return Err(Failure::text("ERR No shutdown in progress."));
    }
    let client = &context.session.client;
    tracing::info!("client {} from {} asked for a shutdown", client.id, client.peer);
    context.session.closing = true;
    context.shared.control.shutdown();
    Ok(())
}

/// `ROLE`: that of a master, with no replicas.
pub fn role(context: &mut Context<'_>, _: &Request<'_>) -> CommandResult {
    context.reply.array(3);
    context.reply.bulk(b"master");
    context.reply.integer(0);
    context.reply.array(0);
    Ok(())
}

/// `TIME`
pub fn time(context: &mut Context<'_>, _: &Request<'_>) -> CommandResult {
    // A clock before 1970 has not been set yet.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    context.reply.array(2);
    context.reply.bulk(now.as_secs().to_string().as_bytes());
    context.reply.bulk(now.subsec_micros().to_string().as_bytes());
    Ok(())
}
