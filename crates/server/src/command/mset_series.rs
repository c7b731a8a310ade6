//! `MSET`s that follow each other in the pipeline of one client, written as one batch.
//!
//! Each would be a batch of its own, with an entry of journal and log. Together they have one: others see all of them
//! or nothing, as does a process that opens the pool after a crash, and as if the client had been quick. Of a key that
//! several of them set, the last counts. What the store refuses as a whole is run command by command.

use std::time::{Duration, Instant};

use everleaf::WriteBatch;

use super::context::Context;
use super::facts;
use super::series::{SeriesResult, Undone};
use super::timing::note_slow;
use crate::failure::Failure;
use crate::resp::Series;

/// Keys that are written together, unless one command has more: another that reads one of them waits so long.
const KEY_COUNT_MAX: usize = 512;
/// Bytes of keys and values from which on no further command is added.
const SIZE_MAX: usize = 1 << 20;
/// Bytes of a key and its value that there is room for from the start.
const PAIR_SIZE: usize = 32;

/// Carries out the first requests of a series of `MSET`s from one on, and answers them.
pub fn run(context: &mut Context<'_>, series: &Series<'_>, first: usize) -> SeriesResult {
    let shared = context.shared;
    let slow_after = shared.settings.slow_log_after();
    let began = slow_after.map(|_| Instant::now());
    let map = shared.databases.map_of(context.session.database);
    let mut batch = WriteBatch::new();
    let key_count = (series.arg_count() / 2).min(KEY_COUNT_MAX);
    batch.reserve(key_count, PAIR_SIZE * key_count);
    let mut end = first;
    while end < series.len() {
        let (_, request) = series.request(end);
        let is_full =
            batch.len() + request.len() / 2 > KEY_COUNT_MAX || batch.size_bytes() > SIZE_MAX;
        if is_full && end > first {
            break;
        }
        let pairs = request.args_from(1).zip(request.args_from(2)).step_by(2);
        for (key, value) in pairs {
            if shared.types.would_be_header(value) {
                // Refused by itself, behind those before it.
                return Err(Undone::alone(end + 1 - first));
            }
            batch.put(map, key, value);
        }
        end += 1;
    }
    if let Err(error) = shared.store.write(&batch) {
        // What one damaged key refuses is no matter of the others.
        let spent = began.map_or(Duration::ZERO, |began| began.elapsed());
        return Err(Undone { spent, ..Undone::refused(end - first, Failure::Store(error)) });
    }
    context.session.last_command = facts::MSET;
    context.tally.commands += (end - first) as u64;
    (first..end).for_each(|_| context.reply.ok());
    if let (Some(limit), Some(began)) = (slow_after, began) {
        // Each is done when all are.
        let duration = began.elapsed();
        if duration >= limit {
            for index in first..end {
                note_slow(context, &series.request(index).1, limit, duration);
            }
        }
    }
    Ok(end - first)
}
