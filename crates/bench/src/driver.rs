//! Runs one workload once: threads, warm-up, the clock, and what came out of the operations.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use everleaf_machine::topology;

use crate::clock::thread_time;
use crate::error::BenchError;
use crate::keys::KeyList;
use crate::stream::{Step, Stream};
use crate::target::{Target, Worker};
use crate::workload::{Action, Unit, Workload};

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
    /// Whether the updates of a mix are puts.
    pub upsert: bool,
    /// Bytes of a value, unless a trace says otherwise.
    pub value_size: usize,
}

/// What a workload took and did.
#[derive(Debug)]
pub(crate) struct WorkloadRun {
    /// From the start of the first thread to the end of the last.
    pub elapsed: Duration,
    /// On a CPU, all threads together.
    pub busy: Duration,
    /// In operations, all threads together: the same as `busy` in a closed loop; without the wait
    /// for the next arrival in an open one.
    pub service: Duration,
    /// Operations, all threads.
    pub operations: u64,
    /// Hits of operations, or keys that batches and scans returned.
    pub effects: u64,
    /// Latencies of the operations that were timed by themselves, in nanoseconds.
    pub samples: Vec<u64>,
}

impl WorkloadRun {
    /// How many units the throughput counts: operations, or keys.
    pub fn units(&self, workload: Workload) -> u64 {
        match workload.unit() {
            Unit::Key => self.effects,
            _ => self.operations,
        }
    }
}

/// What one thread took and did.
struct Part {
    started: Instant,
    ended: Instant,
    busy: Duration,
    service: Option<Duration>,
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
) -> Result<WorkloadRun, BenchError> {
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
        threads.into_iter().map(join).collect::<Result<Vec<Part>, BenchError>>()
    })?;
    let started = parts.iter().map(|part| part.started).min();
    let ended = parts.iter().map(|part| part.ended).max();
    let elapsed = started.zip(ended).map_or(Duration::ZERO, |(first, last)| last - first);
    let outcome = WorkloadRun {
        elapsed,
        busy: parts.iter().map(|part| part.busy).sum(),
        service: parts.iter().map(|part| part.service.unwrap_or(part.busy)).sum(),
        operations: parts.iter().map(|part| part.operations).sum(),
        effects: parts.iter().map(|part| part.effects).sum(),
        samples: parts.into_iter().flat_map(|part| part.samples).collect(),
    };
    verify(manner, &outcome, expected_of(streams))?;
    Ok(outcome)
}

fn run_thread<T: Target>(
    target: &T,
    manner: Manner,
    stream: &Stream<T::Keys>,
    cpu: usize,
    barrier: &Barrier,
) -> Result<Part, BenchError> {
    // A thread that cannot be tied runs where the system puts it: no reason not to measure.
    let _ = topology::pin_current_thread(cpu);
    let calls = |positions: usize| match manner.workload {
        batched if batched.is_batched() => positions / manner.batch,
        _ => positions,
    };
    let (before, all) = (calls(stream.warm_up), calls(stream.len()));
    let mut samples = Vec::with_capacity((all - before) / manner.sample_every + 1);
    // Every thread must come to the barrier, also one that failed, or the others would wait for
    // ever.
    let warm = catch_unwind(AssertUnwindSafe(|| {
        let mut worker = target.worker()?;
        if manner.workload == Workload::Trace {
            // Its values have different sizes.
            worker.set_value_size(manner.value_size);
        }
        let mut ignored = Vec::with_capacity(before / manner.sample_every + 1);
        execute(&mut worker, manner, stream, 0..before, &mut ignored)?;
        Ok::<_, BenchError>(worker)
    }));
    barrier.wait();
    let mut worker = warm.unwrap_or_else(|panic| resume_unwind(panic))?;
    let (started, idle) = (Instant::now(), thread_time());
    let (effects, service) = if stream.due.is_empty() {
        (execute(&mut worker, manner, stream, before..all, &mut samples)?, None)
    } else {
        let timed = before..all;
        let (effects, service) =
            execute_on_schedule(&mut worker, manner, stream, timed, &mut samples)?;
        (effects, Some(service))
    };
    let (busy, ended) = (thread_time() - idle, Instant::now());
    let operations = (all - before) as u64;
    Ok(Part { started, ended, busy, service, operations, effects, samples })
}

/// Inserts the keys of the streams, without a clock.
///
/// # Errors
/// An insertion failed, or a key was there already.
pub(crate) fn fill<T: Target>(target: &T, streams: &[Stream<T::Keys>]) -> Result<(), BenchError> {
    let mut worker = target.worker()?;
    for stream in streams {
        let (added, expected) = (worker.fill(&stream.keys, stream.len())?, stream.len() as u64);
        if added != expected {
            return Err(BenchError::Wrong(format!(
                "{added} of {expected} new keys were inserted; please report this"
            )));
        }
    }
    Ok(())
}

/// Puts back the keys that the streams of a workload with removals took.
///
/// # Errors
/// A key is there although it was removed, or cannot be inserted.
pub(crate) fn put_back<T: Target>(
    target: &T,
    workload: Workload,
    streams: &[Stream<T::Keys>],
) -> Result<(), BenchError> {
    if workload.removal_share() == 0.0 {
        return Ok(());
    }
    let mut worker = target.worker()?;
    for stream in streams {
        for position in 0..stream.len() {
            let step = stream.steps.get(position);
            if step.is_some_and(|step| step.action != Action::Remove) {
                continue;
            }
            if !worker.insert(stream.keys.key(position), 0)? {
                return Err(BenchError::Wrong(
                    "a key that was removed is still there; please report this".to_owned(),
                ));
            }
        }
    }
    Ok(())
}

/// Carries out the calls of a range, one after the other. Returns their effects. The first of every
/// `sample_every` calls is timed by itself.
#[inline(never)]
fn execute<W: Worker>(
    worker: &mut W,
    manner: Manner,
    stream: &Stream<W::Keys>,
    calls: Range<usize>,
    samples: &mut Vec<u64>,
) -> Result<u64, BenchError> {
    let (keys, every) = (&stream.keys, manner.sample_every);
    // A loop of its own for whatever takes about as long as the choice between them.
    match manner.workload {
        Workload::Load | Workload::LoadSequential | Workload::Insert => {
            repeat(calls, every, samples, |call| {
                Ok(u64::from(worker.insert(keys.key(call), call as u64)?))
            })
        }
        Workload::Get | Workload::GetAbsent => {
            repeat(calls, every, samples, |call| Ok(u64::from(worker.get(keys.key(call))?)))
        }
        Workload::Scan => {
            repeat(calls, every, samples, |call| worker.scan(keys.key(call), manner.scan_length))
        }
        Workload::Update => repeat(calls, every, samples, |call| {
            Ok(u64::from(worker.update(keys.key(call), call as u64)?))
        }),
        Workload::Remove => {
            repeat(calls, every, samples, |call| Ok(u64::from(worker.remove(keys.key(call))?)))
        }
        mix if mix.is_mix() => repeat(calls, every, samples, |call| {
            let step = stream.steps[call];
            Ok(u64::from(perform(worker, manner, step, keys.key(call), call as u64)?))
        }),
        _ => repeat(calls, every, samples, |call| perform_call(worker, manner, stream, call)),
    }
}

/// Carries out one call of any workload. Returns its effects.
#[inline(never)]
fn perform_call<W: Worker>(
    worker: &mut W,
    manner: Manner,
    stream: &Stream<W::Keys>,
    call: usize,
) -> Result<u64, BenchError> {
    let (keys, version) = (&stream.keys, call as u64);
    let action = match manner.workload {
        Workload::GetMany => return worker.get_many(keys, call * manner.batch, manner.batch),
        Workload::UpdateMany => {
            return worker.update_many(keys, call * manner.batch, manner.batch, version);
        }
        Workload::Scan => return worker.scan(keys.key(call), manner.scan_length),
        Workload::Tpcc(_) => {
            let start = call.checked_sub(1).map_or(0, |before| stream.ends[before]);
            let mut is_done = true;
            for at in start as usize..stream.ends[call] as usize {
                is_done &= perform(worker, manner, stream.steps[at], keys.key(at), version)?;
            }
            return Ok(u64::from(is_done));
        }
        Workload::Load | Workload::LoadSequential | Workload::Insert => Action::Insert,
        Workload::Get | Workload::GetAbsent => Action::Get,
        Workload::Update => Action::Update,
        Workload::Put => Action::Put,
        Workload::Remove => Action::Remove,
        _ => stream.steps[call].action,
    };
    let length = stream.steps.get(call).map_or(0, |step| step.length);
    let is_trace = manner.workload == Workload::Trace;
    if is_trace && action == Action::Put {
        worker.set_value_size(length as usize);
    }
    let is_done = perform(worker, manner, Step { action, length }, keys.key(call), version)?;
    // Of a trace only the reads count: what a scan finds depends on the other threads, and not
    // everything that is measured knows what a removal found.
    Ok(u64::from(is_done && (!is_trace || action == Action::Get)))
}

/// Carries out one step of a mix. Returns whether it did what it had to. Not inlined: a program has
/// this for everything that can be measured, and the call is nothing beside an operation.
#[inline(never)]
fn perform<W: Worker>(
    worker: &mut W,
    manner: Manner,
    step: Step,
    key: <W::Keys as KeyList>::Key<'_>,
    version: u64,
) -> Result<bool, BenchError> {
    if matches!(step.action, Action::Get | Action::ReadModifyWrite) {
        let is_found = worker.get(key)?;
        if step.action == Action::Get || !is_found {
            return Ok(is_found);
        }
    }
    let is_update = matches!(step.action, Action::Update | Action::ReadModifyWrite);
    match step.action {
        Action::Insert => worker.insert(key, version),
        Action::Remove => worker.remove(key),
        Action::Scan => Ok(worker.scan(key, step.length)? > 0),
        _ if is_update && !manner.upsert => worker.update(key, version),
        _ => worker.put(key, version).map(|()| true),
    }
}

/// Calls `call` for each of a range and sums up what it returns. The first of every `every` calls
/// is timed by itself.
#[inline(always)]
fn repeat(
    calls: Range<usize>,
    every: usize,
    samples: &mut Vec<u64>,
    mut call: impl FnMut(usize) -> Result<u64, BenchError>,
) -> Result<u64, BenchError> {
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

/// Makes each call when it is due, or as soon after as the thread comes to it. Every call is timed,
/// from the moment when it was due: a call that waited in the queue has waited, too. The thread
/// keeps its CPU while it waits for the next arrival.
///
/// Returns the effects, and the time in calls.
fn execute_on_schedule<W: Worker>(
    worker: &mut W,
    manner: Manner,
    stream: &Stream<W::Keys>,
    calls: Range<usize>,
    samples: &mut Vec<u64>,
) -> Result<(u64, Duration), BenchError> {
    let started = Instant::now();
    let (mut effects, mut service) = (0, Duration::ZERO);
    for (call, due) in calls.zip(&stream.due) {
        let due = Duration::from_nanos(*due);
        let mut began = started.elapsed();
        while began < due {
            std::hint::spin_loop();
            began = started.elapsed();
        }
        effects += perform_call(worker, manner, stream, call)?;
        let ended = started.elapsed();
        service += ended - began;
        samples.push((ended - due).as_nanos() as u64);
    }
    Ok((effects, service))
}

/// What the effects of all streams must sum up to, if the streams say so.
fn expected_of<K>(streams: &[Stream<K>]) -> Option<u64> {
    streams.iter().map(|stream| stream.expected).sum()
}

/// Checks that the operations did what they had to, all of them.
fn verify(manner: Manner, outcome: &WorkloadRun, expected: Option<u64>) -> Result<(), BenchError> {
    let Manner { workload, batch, scan_length, .. } = manner;
    let operations = outcome.operations;
    let allowed = match (expected, workload) {
        (Some(expected), _) => expected..=expected,
        (None, Workload::GetAbsent) => 0..=0,
        (None, batched) if batched.is_batched() => {
            let keys = operations * batch as u64;
            keys..=keys
        }
        // A scan that starts near the highest key is shorter; none is empty.
        (None, Workload::Scan) => operations..=operations * u64::from(scan_length),
        _ => operations..=operations,
    };
    if allowed.contains(&outcome.effects) {
        return Ok(());
    }
    Err(BenchError::Wrong(format!(
        "{operations} operations of the workload {workload} had {} effects instead of {} to {}: \
         the index lost or invented keys; please report this",
        outcome.effects,
        allowed.start(),
        allowed.end()
    )))
}
