//! `SHUTDOWN`.

use super::{Context, Failure, Outcome};
use crate::resp::Request;

/// `SHUTDOWN [NOSAVE | SAVE] [NOW] [FORCE]`: everything acknowledged is durable already, so the
/// options make no difference. There is no reply: the connection closes.
pub fn shutdown(context: &mut Context<'_>, request: &Request<'_>) -> Outcome {
    for option in request.args_from(1) {
        match option.to_ascii_lowercase().as_slice() {
            b"nosave" | b"save" | b"now" | b"force" => {}
            b"abort" => return Err(Failure::text("ERR No shutdown in progress.")),
            _ => return Err(Failure::Syntax),
        }
    }
    let client = &context.session.client;
    tracing::info!("client {} from {} asked for a shutdown", client.id, client.peer);
    context.session.closing = true;
    context.shared.control.shutdown();
    Ok(())
}
