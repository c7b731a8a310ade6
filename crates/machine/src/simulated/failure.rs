//! What went wrong, and what is needed to see it again.

use std::fmt;

/// The class of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FailureKind {
    /// No order of the operations explains the results.
    NotLinearizable,
    /// A crash image recovered to contents that no order of the operations explains.
    NotDurable,
    /// Recovery of a crash image failed, panicked, or found a broken structure.
    Recovery,
    /// Every live thread waits for another.
    Deadlock,
    /// The schedule exceeded its step limit.
    Livelock,
    /// A thread touched memory that was freed or never handed out.
    UseAfterFree,
    /// A thread read bytes of handed-out memory that nobody wrote.
    Uninitialised,
    /// A private access meets another thread's write with nothing to order the two.
    DataRace,
    /// A compare-and-exchange of a persistent pair changed both halves.
    TornPair,
    /// Volatile memory was left when everything had been given back.
    Leak,
    /// The program panicked.
    Panic,
    /// Memory was changed without the machine's knowledge.
    Bypass,
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FailureKind::NotLinearizable => "not linearizable",
            FailureKind::NotDurable => "not durably linearizable",
            FailureKind::Recovery => "recovery failed",
            FailureKind::Deadlock => "deadlock",
            FailureKind::Livelock => "livelock",
            FailureKind::UseAfterFree => "use after free",
            FailureKind::Uninitialised => "read of uninitialised memory",
            FailureKind::DataRace => "data race",
            FailureKind::TornPair => "pair changed in both halves",
            FailureKind::Leak => "leak",
            FailureKind::Panic => "panic",
            FailureKind::Bypass => "write that bypassed the machine",
        })
    }
}

/// A failed schedule. `seed` and `choices` repeat it exactly
/// ([`Runner::replay`](super::Runner::replay)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The class.
    pub kind: FailureKind,
    /// What was seen, in words.
    pub message: String,
    /// The seed of the schedule (not of the whole search).
    pub seed: u64,
    /// The number of the schedule in its search, from 1.
    pub schedule: u64,
    /// The actor chosen at every point where there was a choice: a thread, or `threads + t` for a
    /// step of thread t's store buffer.
    pub choices: Vec<u8>,
    /// The scheduling points executed until the failure.
    pub steps: u64,
    /// The plan that was run, for the reader.
    pub plan: String,
}

impl Failure {
    /// Whether it failed before any schedule ran: no choice leads to it, and the plan has no part in it.
    pub fn is_before_all(&self) -> bool {
        self.schedule == 0
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.kind, self.message)?;
        writeln!(
            f,
            "schedule {} with seed {:#x}, {} steps, {} choices",
            self.schedule,
            self.seed,
            self.steps,
            self.choices.len()
        )?;
        write!(f, "plan:\n{}", self.plan)
    }
}

impl std::error::Error for Failure {}
