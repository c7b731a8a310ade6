//! What a simulated run is asked to do.

use super::fault::Fault;
use super::sites::Site;

/// Which stores survive a crash of the simulated machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Domain {
    /// Power loss with volatile caches: every 64-byte line independently keeps any prefix of the
    /// stores made to it since it was last made durable by a flush and a drain.
    Adr,
    /// Power loss with persistent caches: every globally visible store is kept; what still waits in
    /// a store buffer is lost.
    Eadr,
    /// Death of the process: every store that was executed is kept, store buffers included.
    Process,
}

/// Which memory model the simulated threads see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemoryModel {
    /// Sequential consistency: a store is visible to all at once.
    Sc,
    /// Total store order (x86): each thread's stores wait in a FIFO buffer.
    ///
    /// A store that waits is written later, wherever its word is: pool and arena words stay, and one in
    /// ordinary memory takes the stores that wait for it along when it is dropped. It must not be moved
    /// elsewhere and its old memory freed while a run may still have such a store waiting.
    Tso,
    /// As weak as the language promises by the orderings that the source names, a little: a store is visible to all at
    /// once, but a load may be given the value before it where nothing orders the two. Data races are looked for, too.
    Weak,
}

/// How the next thread is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchedulerKind {
    /// Uniformly among all that can run.
    Random,
    /// Probabilistic concurrency testing: random priorities with `depth - 1` random changes.
    Pct {
        /// The number of ordering constraints a bug may need; 2 to 7 is useful.
        depth: u32,
    },
    /// Exhaustive, with at most this many preemptions of a thread that could have gone on.
    Dfs {
        /// The bound on preemptions per schedule.
        preemptions: u32,
    },
    /// Alternates `Random` with `Pct` of depth 2 to 7: the right default, for each finds bugs the
    /// other does not.
    Mixed,
}

/// What is explored at crash points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrashConfig {
    /// Whether crash images are computed, recovered and checked at all.
    pub enabled: bool,
    /// At most about this many images per crash point. All combinations if they fit; else all lost,
    /// all kept, each line alone lost and kept, and random cuts.
    pub budget: usize,
    /// One of this many new images is recovered *inside* the simulation, with crash points of its
    /// own, and then goes on to run the plan again; 0 never does that.
    pub nested_one_in: u64,
    /// How deep such nesting goes: 1 = a crash in recovery, 2 = a crash in the recovery from that.
    pub nested_depth: usize,
    /// Whether crashes come only where an operation has returned: far more orders for the same work, for
    /// what an answer promises and the medium does not have yet.
    pub at_returns: bool,
}

impl Default for CrashConfig {
    fn default() -> Self {
        CrashConfig {
            enabled: true,
            budget: 64,
            nested_one_in: 0,
            nested_depth: 2,
            at_returns: false,
        }
    }
}

/// Stops a thread for ever in the middle of its work, as if its core had died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abandon {
    /// The thread.
    pub thread: usize,
    /// It stops at this many scheduling points of its own.
    pub after_points: u64,
}

/// Everything that decides what one simulated run does, besides the program and its plan.
#[derive(Clone, Debug)]
pub struct Config {
    /// What a crash keeps.
    pub domain: Domain,
    /// What threads see of each other.
    pub memory: MemoryModel,
    /// Whether an atomic read-modify-write (and a full fence) also completes the thread's earlier
    /// flushes, as on x86, or only a drain does, as a portable program must assume.
    pub rmw_drains: bool,
    /// How threads are scheduled.
    pub scheduler: SchedulerKind,
    /// The root of all chance in the run.
    pub seed: u64,
    /// A schedule of more scheduling points than this is a livelock.
    pub step_limit: u64,
    /// What is explored at crash points.
    pub crash: CrashConfig,
    /// The planted bugs that are switched on (see [`Machine::mutant`](crate::Machine::mutant)).
    pub mutants: Vec<&'static str>,
    /// An access with a fault.
    pub fault: Option<Fault>,
    /// Whether the report lists which faults there could be.
    pub lists_faults: bool,
    /// The flush or drain call that is switched off.
    pub ablate: Option<Site>,
    /// Whether a byte match reads its line word by word, with others running in between.
    pub torn_matches: bool,
    /// Whether the machine compares a key with many words at once
    /// ([`match_entries`](crate::Machine::match_entries), [`match_at_most`](crate::Machine::match_at_most)):
    /// as a byte match, line by line.
    pub wide_compares: bool,
    /// Whether the orderings named in the source are followed, so that a private access that nothing
    /// orders after another thread's write is a failure. Under [`MemoryModel::Sc`] only; under [`MemoryModel::Weak`]
    /// they always are.
    pub races: bool,
    /// Whether they must order any use of memory behind its allocation, too, where they are followed.
    pub births: bool,
    /// Whether every schedule begins with [`open`](super::Program::open) inside the simulation, on
    /// thread 0 and with crash points, instead of at full speed with all it did durable.
    pub simulate_open: bool,
    /// A recovery at full speed of more machine operations than this never ends.
    pub recovery_limit: u64,
    /// A search does no further schedule, and begins no life after a crash, when it has done this much,
    /// in [`Counts::work`]: so that what one program costs is bounded, and the same on every machine.
    ///
    /// [`Counts::work`]: super::Counts::work
    pub work_limit: u64,
    /// A thread to stop for ever.
    pub abandon: Option<Abandon>,
    /// The allocation of this number (from 0, counted among those of the threads, not of the opening)
    /// fails.
    pub fail_allocation: Option<u64>,
    /// The request for space of the pool of this number, counted in the same way, finds none.
    pub fail_space: Option<u64>,
    /// Bytes of volatile memory a schedule may allocate; a multiple of 64.
    pub arena_bytes: usize,
}

impl Config {
    /// The same for what is in volatile memory only.
    pub(super) fn without_crashes(self) -> Config {
        let crash = CrashConfig { enabled: false, ..self.crash };
        Config { crash, simulate_open: false, ..self }
    }
}

impl Default for Config {
    fn default() -> Self {
        Config {
            domain: Domain::Adr,
            memory: MemoryModel::Sc,
            rmw_drains: false,
            scheduler: SchedulerKind::Mixed,
            seed: 1,
            step_limit: 20_000,
            crash: CrashConfig::default(),
            mutants: Vec::new(),
            fault: None,
            lists_faults: false,
            ablate: None,
            torn_matches: false,
            wide_compares: false,
            races: false,
            births: false,
            simulate_open: false,
            recovery_limit: 50_000_000,
            work_limit: u64::MAX,
            abandon: None,
            fail_allocation: None,
            fail_space: None,
            arena_bytes: 1 << 20,
        }
    }
}
