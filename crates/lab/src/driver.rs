//! Runs one workload once: threads, warm-up, the clock, and what came out of the operations.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use everleaf_machine::topology;

use crate::clock::thread_time;
use crate::error::LabError;
use crate::keys::KeyList;
use crate::stream::{Step, Stream};
use crate::target::{Target, Worker};
use crate::workload::{Action, Workload};

/// How the operations of a workload are carried out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    pub workload: Workload,
    /// Keys of a `get-many`.
    pub batch: usize,
    /// Pairs of a `scan`.
    pub scan_length: u32,
    /// One operation in this many is timed by itself.
    pub sample_every: usize,
}

/// What a workload took and did.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// From the start of the first thread to the end of the last.
    pub elapsed: Duration,
    /// On a CPU, all threads together.
    pub busy: Duration,
    /// Operations, all threads.
    pub operations: u64,
    /// Hits of operations, or keys that batches and scans returned.
    pub effects: u64,
    /// Latencies of the operations that were timed by themselves, in nanoseconds.
    pub samples: Vec<u64>,
}

impl Outcome {
    /// How many units the throughput counts: operations, or keys.
    pub fn units(&self, workload: Workload) -> u64 {
        match workload {
            Workload::GetMany | Workload::Scan => self.effects,
            _ => self.operations,
        }
    }
}

/// What one thread took and did.
struct Part {
    started: Instant,
    ended: Instant,
    busy: Duration,
    operations: u64,
    effects: u64,
    samples: Vec<u64>,
}

/// Runs the streams, each on a thread of its own, tied to the CPUs in turn.
///
/// # Errors
/// An operation failed, returned a wrong value, or missed a key it had to find.
pub(crate) fn run<T: Target>(
    target: &T,
    manner: Manner,
    streams: &[Stream<T::Keys>],
    cpus: &[usize],
) -> Result<Outcome, LabError> {
    let barrier = Barrier::new(streams.len());
    let parts = thread::scope(|scope| {
        let start = |(index, stream)| {
            let (barrier, cpu) = (&barrier, cpus[index % cpus.len()]);
            scope.spawn(move || run_thread(target, manner, stream, cpu, barrier))
        };
        let threads: Vec<_> = streams.iter().enumerate().map(start).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|panic| resume_unwind(panic))
        };
        threads.into_iter().map(join).collect::<Result<Vec<Part>, LabError>>()
    })?;
    let started = parts.iter().map(|part| part.started).min();
    let ended = parts.iter().map(|part| part.ended).max();
    let elapsed = started.zip(ended).map_or(Duration::ZERO, |(first, last)| last - first);
    let outcome = Outcome {
        elapsed,
        busy: parts.iter().map(|part| part.busy).sum(),
        operations: parts.iter().map(|part| part.operations).sum(),
        effects: parts.iter().map(|part| part.effects).sum(),
        samples: parts.into_iter().flat_map(|part| part.samples).collect(),
    };
    verify(manner, &outcome)?;
    Ok(outcome)
}

fn run_thread<T: Target>(
    target: &T,
    manner: Manner,
    stream: &Stream<T::Keys>,
    cpu: usize,
    barrier: &Barrier,
) -> Result<Part, LabError> {
    // A thread that cannot be tied runs where the system puts it: no reason not to measure.
    let _ = topology::pin_current_thread(cpu);
    let calls = |positions: usize| match manner.workload {
        Workload::GetMany => positions / manner.batch,
        _ => positions,
    };
    let (before, all) = (calls(stream.warm_up), calls(stream.len()));
    let mut samples = Vec::with_capacity((all - before) / manner.sample_every + 1);
    // Everybody must come to the barrier, also who failed, or the others would wait for ever.
    let warm = catch_unwind(AssertUnwindSafe(|| {
        let mut worker = target.worker()?;
        let mut ignored = Vec::with_capacity(before / manner.sample_every + 1);
        execute(&mut worker, manner, stream, 0..before, &mut ignored)?;
        Ok::<_, LabError>(worker)
    }));
    barrier.wait();
    let mut worker = warm.unwrap_or_else(|panic| resume_unwind(panic))?;
    let (started, idle) = (Instant::now(), thread_time());
    let effects = execute(&mut worker, manner, stream, before..all, &mut samples)?;
    let (busy, ended) = (thread_time() - idle, Instant::now());
    Ok(Part { started, ended, busy, operations: (all - before) as u64, effects, samples })
}

/// Puts back the keys that the streams of a removal took.
///
/// # Errors
/// A key is there although it was removed, or cannot be inserted.
pub(crate) fn put_back<T: Target>(target: &T, streams: &[Stream<T::Keys>]) -> Result<(), LabError> {
    let mut worker = target.worker()?;
    for stream in streams {
        for position in 0..stream.len() {
            if !worker.insert(stream.keys.key(position), 0)? {
                return Err(LabError::Wrong(
                    "a key that was removed is still there; please report this".to_owned(),
                ));
            }
        }
    }
    Ok(())
}

/// Carries out the calls of a range. Returns their effects.
fn execute<W: Worker>(
    worker: &mut W,
    manner: Manner,
    stream: &Stream<W::Keys>,
    calls: Range<usize>,
    samples: &mut Vec<u64>,
) -> Result<u64, LabError> {
    let (keys, every) = (&stream.keys, manner.sample_every);
    match manner.workload {
        Workload::Load | Workload::Insert => repeat(calls, every, samples, |call| {
            Ok(u64::from(worker.insert(keys.key(call), call as u64)?))
        }),
        Workload::Get | Workload::GetAbsent => {
            repeat(calls, every, samples, |call| Ok(u64::from(worker.get(keys.key(call))?)))
        }
        Workload::GetMany => repeat(calls, every, samples, |call| {
            worker.get_many(keys, call * manner.batch, manner.batch)
        }),
        Workload::Scan => {
            repeat(calls, every, samples, |call| worker.scan(keys.key(call), manner.scan_length))
        }
        Workload::Update => repeat(calls, every, samples, |call| {
            Ok(u64::from(worker.update(keys.key(call), call as u64)?))
        }),
        Workload::Remove => {
            repeat(calls, every, samples, |call| Ok(u64::from(worker.remove(keys.key(call))?)))
        }
        Workload::YcsbA
        | Workload::YcsbB
        | Workload::YcsbC
        | Workload::YcsbD
        | Workload::YcsbE
        | Workload::YcsbF => repeat(calls, every, samples, |call| {
            let is_done = perform(worker, stream.steps[call], keys.key(call), call as u64)?;
            Ok(u64::from(is_done))
        }),
    }
}

/// Carries out one step of a mix. Returns whether it did what it had to.
#[inline(always)]
fn perform<W: Worker>(
    worker: &mut W,
    step: Step,
    key: <W::Keys as KeyList>::Key<'_>,
    version: u64,
) -> Result<bool, LabError> {
    match step.action {
        Action::Get => worker.get(key),
        Action::Update => worker.update(key, version),
        Action::Insert => worker.insert(key, version),
        Action::Scan => Ok(worker.scan(key, step.length)? > 0),
        Action::ReadModifyWrite => Ok(worker.get(key)? && worker.update(key, version)?),
    }
}

/// Calls `call` for each of a range and sums up what it returns. The first of every `every` calls
/// is timed by itself.
#[inline(always)]
fn repeat(
    calls: Range<usize>,
    every: usize,
    samples: &mut Vec<u64>,
    mut call: impl FnMut(usize) -> Result<u64, LabError>,
) -> Result<u64, LabError> {
    let mut effects = 0;
    let mut next = calls.start;
    while next < calls.end {
        let started = Instant::now();
        effects += call(next)?;
        samples.push(started.elapsed().as_nanos() as u64);
        let end = calls.end.min(next + every);
        for index in next + 1..end {
            effects += call(index)?;
        }
        next = end;
    }
    Ok(effects)
}

/// Checks that the operations did what they had to, all of them.
fn verify(manner: Manner, outcome: &Outcome) -> Result<(), LabError> {
    let Manner { workload, batch, scan_length, .. } = manner;
    let operations = outcome.operations;
    let allowed = match workload {
        Workload::GetAbsent => 0..=0,
        Workload::GetMany => {
            let keys = operations * batch as u64;
            keys..=keys
        }
        // A scan that starts near the highest key is shorter; none is empty.
        Workload::Scan => operations..=operations * u64::from(scan_length),
        _ => operations..=operations,
    };
    if allowed.contains(&outcome.effects) {
        return Ok(());
    }
    Err(LabError::Wrong(format!(
        "{operations} operations of the workload {workload} had {} effects instead of {} to {}: \
         the index lost or invented keys; please report this",
        outcome.effects,
        allowed.start(),
        allowed.end()
    )))
}
