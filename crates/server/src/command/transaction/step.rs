//! A command of a collection, as a transaction of its own: it is run again if another client was faster, and after some
//! times while nobody else writes.

use std::sync::Arc;

use everleaf::Store;

use super::{complete, finish};
use crate::command::context::Context;
use crate::command::keys::Keys;
use crate::command::limits::{ATTEMPT_COUNT_MAX, BATCH_SIZE_MAX};
use crate::command::source::Source;
use crate::command::stage::{Stage, Staged};
use crate::command::waiting::service::Service;
use crate::failure::{CommandResult, Failure};

/// Runs what works with collections, of which one has this key, as a transaction of its own; perhaps several
/// times. What it answers goes where replies go at once, and what it counts where that is counted: both are taken
/// back with each attempt. If it fails, something
/// of it may be left there.
pub fn run_step(
    context: &mut Context<'_>,
    key: &[u8],
    writes: bool,
    act: &mut dyn FnMut(&mut Context<'_>) -> CommandResult,
) -> CommandResult {
    let shared = context.shared;
    let (store, turns): (&Store, _) = (&shared.store, &shared.turns);
    let mut turn = if writes { turns.wait(key) } else { None };
    let (start, before) = (context.reply.size(), *context.tally);
    for _ in 0..ATTEMPT_COUNT_MAX {
        let mut stage = Stage::beside_others(BATCH_SIZE_MAX, store);
        context.reply.truncate(start);
        *context.tally = before;
        let result = run_one(context, act, &mut stage, &mut &*store);
        if result.is_err() && stage.is_over() && stage.is_unchanged() {
            // Alone it need not hold what it reads.
            break;
        }
        let is_done = match result.is_err() {
            true => stage.still_holds(&context.shared.databases, store)?,
            false => complete(context, &mut stage, store)?,
        };
        if is_done {
            // An error is one only if what was read of header and members fits together.
            return result;
        }
        turn = turn.or_else(|| Some(turns.wait_after_conflict(key)));
    }
    *context.tally = before;
    run_step_alone(context, act, start)
}

fn run_step_alone(
    context: &mut Context<'_>,
    act: &mut dyn FnMut(&mut Context<'_>) -> CommandResult,
    start: usize,
) -> CommandResult {
    let store = Arc::clone(&context.shared.store);
    let mut stage = Stage::new(BATCH_SIZE_MAX);
    let mut service = Service::if_any(context.shared, context.session.client.loop_index);
    store.write_alone(|alone, batch| {
        context.reply.truncate(start);
        run_one(context, act, &mut stage, alone)?;
        if let Some(service) = &mut service {
            service.serve(&mut stage, alone)?;
        }
        stage.fill(batch, &context.shared.databases, &context.shared.types);
        Ok::<(), Failure>(())
    })?;
    finish(context, service, &mut stage);
    Ok(())
}

fn run_one(
    context: &mut Context<'_>,
    act: &mut dyn FnMut(&mut Context<'_>) -> CommandResult,
    stage: &mut Stage,
    source: &mut dyn Source,
) -> CommandResult {
    let shared = context.shared;
    let place = stage.place(&shared.databases, context.session.database);
    let mut inner = Context {
        shared,
        session: context.session,
        tally: context.tally,
        reply: context.reply.here(),
        keys: Keys::Stage(Staged {
            stage,
            source,
            types: &shared.types,
            databases: &shared.databases,
            place,
        }),
        later: None,
    };
    act(&mut inner)?;
    if inner.reply.is_full() { Err(Failure::ReplyTooLong) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::context_of;
    use crate::batch::test_run::Bench;
    use crate::statistics::Tally;

    /// What was counted: a read that was done again, because somebody wrote meanwhile, was a hit each time.
    #[test]
    fn a_read_that_is_tried_again_counts_once() {
        for conflict_count in [2, ATTEMPT_COUNT_MAX + 1] {
            let bench = Bench::new(Bench::config());
            let map = bench.shared.store.default_map();
            map.put("key", "0").unwrap();
            let (mut session, mut tally, mut out) = (bench.client(), Tally::default(), vec![]);
            let limit = usize::MAX;
            let mut context = context_of(&bench.shared, &mut session, &mut tally, &mut out, limit);
            let mut count = 0;
            let run = run_step(&mut context, b"key", false, &mut |inner| {
                count += 1;
                inner.keys.get_with(b"key", |_| ())?;
                inner.tally.hits += 1;
                if count <= conflict_count.min(ATTEMPT_COUNT_MAX) {
                    inner.shared.store.default_map().put("key", count.to_string())?;
                }
                Ok(())
            });
            assert!(run.is_ok());
            assert_eq!((count, tally.hits), (conflict_count.min(ATTEMPT_COUNT_MAX) + 1, 1));
        }
    }
}
