//! `SAVE`, `BGSAVE`, `LASTSAVE`: a snapshot for the log, or without one a backup beside the pool.
//!
//! Neither is needed for what was acknowledged to survive the death of the process.

use super::context::Context;
use crate::failure::{CommandResult, Failure};
use crate::resp::Request;
use crate::saver::Busy;

fn busy(_: Busy) -> Failure {
    Failure::text("ERR Background save already in progress")
}

/// `SAVE`
pub fn save(context: &mut Context<'_>, _: &Request<'_>) -> CommandResult {
    context.shared.saver.save(&context.shared.store).map_err(busy)??;
    context.reply.ok();
    Ok(())
}

/// `BGSAVE [SCHEDULE]`
pub fn bgsave(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    match request.get(1) {
        Some(option) if !option.eq_ignore_ascii_case(b"schedule") => return Err(Failure::Syntax),
        _ => {}
    }
    let begun = context.shared.saver.begin(&context.shared.store).map_err(busy)?;
    begun.map_err(|error| {
        Failure::text(format!(
            "ERR Background save cannot be started: {error}; raise the limit on threads, or SAVE, which needs none"
        ))
    })?;
    context.reply.status("Background saving started");
    Ok(())
}

/// `LASTSAVE`
pub fn lastsave(context: &mut Context<'_>, _: &Request<'_>) -> CommandResult {
    context.reply.count(context.shared.saver.last_s());
    Ok(())
}
