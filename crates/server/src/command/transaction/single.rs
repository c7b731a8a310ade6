//! A command that is run on a stage, as a client sends it: one step, or as many as its draws take.

use super::prepare;
use super::step::run_step;
use crate::command::context::{Context, Run};
use crate::command::facts::{COMMANDS, RESTORE};
use crate::command::{draws, dump};
use crate::failure::CommandResult;
use crate::resp::Request;

/// Runs one command of a collection, as a transaction of its own; one that draws very many members as several.
pub fn run_single(
    context: &mut Context<'_>,
    request: &Request<'_>,
    index: usize,
    run: Run,
) -> CommandResult {
    if draws::takes_steps(request, index) {
        return draws::answer_in_steps(context, request, index);
    }
    let command = &COMMANDS[index];
    prepare(context, request, command)?;
    let key = usize::try_from(command.first_key).ok().filter(|index| *index > 0);
    let key = key.and_then(|index| request.get(index)).unwrap_or(b"");
    if index == RESTORE {
        let restore = dump::Restore::parse(request)?;
        return run_step(context, key, true, &mut |inner| restore.put(inner));
    }
    run_step(context, key, command.writes(), &mut |inner| run(inner, request))
}
