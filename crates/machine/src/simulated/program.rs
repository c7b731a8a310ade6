//! What is run: a program under test and the operations of its threads.

use std::fmt::Debug;

use super::config::Domain;
use super::history::{Call, Reply};
use super::region::Memory;

/// A persistent map under test. Implement it once per structure, with `M = Simulated`.
///
/// The runner calls [`format`](Program::format) once. Every schedule then starts from that pool:
/// [`open`](Program::open), the operations of all threads inside the simulation, drop. At crash
/// points each crash image is opened on the side, its contents are taken and judged.
pub trait Program {
    /// One operation of a thread.
    type Operation: Clone + Debug;
    /// The opened structure, with whatever its threads need. Threads are fibers of one OS thread:
    /// no `Sync` is needed, but a `RefCell` must not stay borrowed across a machine operation.
    type Instance;

    /// The size of the pool in bytes, a multiple of 64. The cost of a schedule does not grow with
    /// it, that of starting a search does.
    fn pool_bytes(&self) -> usize;

    /// Builds the pool with its initial contents in zeroed memory. Not simulated.
    fn format(&self, memory: Memory);

    /// Opens the pool: on a formatted pool, a crash image, or an image of a crash during `open`.
    /// Runs the structure's recovery and must work whatever the pool went through.
    /// If [`Memory::outlives_stores`], it makes durable what a dead process left in the caches before it returns.
    ///
    /// # Errors
    /// What makes the pool unusable, in words; any error is a failure of the schedule.
    fn open(&self, memory: Memory) -> Result<Self::Instance, String>;

    /// What is done to the opened pool before the threads come: not simulated, durable when they
    /// begin, and a part of the initial contents. It reaches states of volatile memory that opening
    /// alone does not. Left out where the pool is opened inside the simulation, and after a crash.
    fn warm_up(&self, instance: &Self::Instance) {
        let _ = instance;
    }

    /// All pairs, sorted by key, after a check of the structure (order, reachability, leaks, ...).
    /// Not simulated, and nothing else runs meanwhile.
    ///
    /// # Errors
    /// What is broken, in words.
    fn contents(&self, instance: &Self::Instance) -> Result<Vec<(u64, u64)>, String>;

    /// Ends an instance whose contents were found to be right: what it has in memory and in the pool is
    /// given back, and what is left over has leaked. Says whether the program gives all volatile memory
    /// back, so that none may be left. Not simulated, and nothing else runs meanwhile.
    ///
    /// # Errors
    /// What of the pool is left, in words.
    fn give_back(&self, instance: Self::Instance) -> Result<bool, String> {
        drop(instance);
        Ok(false)
    }

    /// What the formatted pool must hold, and the opened one after [`warm_up`](Program::warm_up) if it is
    /// `warm`: sorted by key. None if the program does not know.
    fn expected(&self, warm: bool) -> Option<Vec<(u64, u64)>> {
        let _ = warm;
        None
    }

    /// What the calendar says in all of the run, in milliseconds since 1970-01-01 UTC. At 0 nothing
    /// expires.
    fn wall_clock_ms(&self) -> u64 {
        0
    }

    /// What `operation` does, key by key, for the judge; no key twice. A scan is a `Get` of each
    /// key in its range.
    fn calls(&self, operation: &Self::Operation, calls: &mut Vec<(u64, Call)>);

    /// Whether anything of it is in the pool. If not, no crash is judged, and the pool is opened before every
    /// schedule, at full speed.
    fn is_durable(&self) -> bool {
        true
    }

    /// Whether what `operation` answered must survive a crash in this domain. The answers of one that
    /// does not are judged against what runs beside it, and not against what a crash leaves.
    fn binds_crashes(&self, operation: &Self::Operation, domain: Domain) -> bool {
        let _ = (operation, domain);
        true
    }

    /// Whether writes become durable later than they answer, in every domain. A crash then leaves each key as it
    /// was at some moment since the last operation began that [persists what is
    /// deferred](Program::persists_deferred) and has answered.
    fn defers(&self) -> bool {
        false
    }

    /// Whether `operation` makes all durable that has answered before it began.
    fn persists_deferred(&self, operation: &Self::Operation) -> bool {
        let _ = operation;
        false
    }

    /// Closes the structure cleanly, inside the simulation, on the thread that ended last: in the runs of a program
    /// that [`defers`](Program::defers). What every operation wrote is durable then, and crashes behind it
    /// are judged. False if it does not close.
    ///
    /// # Errors
    /// Why it cannot be closed, in words.
    fn close(&self, instance: &Self::Instance) -> Result<bool, String> {
        let _ = instance;
        Ok(false)
    }

    /// Runs `operation` on `thread` inside the simulation and adds one reply per call, in order.
    fn run(
        &self,
        instance: &Self::Instance,
        thread: usize,
        operation: &Self::Operation,
        replies: &mut Vec<Reply>,
    );
}

/// The operations of each thread, in order. At most [`THREADS_MAX`](super::THREADS_MAX) threads.
pub type Plan<O> = Vec<Vec<O>>;

/// A plan in lines for people.
pub(super) fn describe<O: Debug>(plan: &Plan<O>) -> String {
    let mut text = String::new();
    for (thread, operations) in plan.iter().enumerate() {
        text.push_str(&format!("  T{thread}: {operations:?}\n"));
    }
    text
}
