//! What a search did, in numbers.

use super::fault::Fault;
use super::sites::SiteHits;

/// Depths of lives after crashes that are counted apart; deeper ones count with the last.
pub const NESTED_LEVELS: usize = 4;

/// Totals over the schedules of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Schedules run (nested runs after crashes not counted).
    pub schedules: u64,
    /// Runs that began with a recovery inside the simulation.
    pub nested_runs: u64,
    /// The same by depth: after a crash of the schedule, after a crash of that life, ..
    pub nested_at: [u64; NESTED_LEVELS],
    /// Simulated accesses.
    pub accesses: u64,
    /// Scheduling points.
    pub steps: u64,
    /// Changes of the running thread.
    pub switches: u64,
    /// Flushes executed.
    pub flushes: u64,
    /// Drains executed.
    pub drains: u64,
    /// Pieces of volatile memory that the threads asked for in a schedule, at most.
    pub allocations: u64,
    /// Requests of the threads for space of the pool in a schedule, at most.
    pub requests: u64,
    /// Points at which crash images were computed.
    pub crash_points: u64,
    /// Crash states checked.
    pub images: u64,
    /// Crash states that had to be recovered (the others were known).
    pub recoveries: u64,
}

impl Counts {
    /// What it took, about, in simulated accesses: recoveries at full speed cost as much as some
    /// hundred of them.
    pub fn work(&self) -> u64 {
        self.accesses + 4 * self.images + 300 * self.recoveries
    }

    /// Adds the counts of another search.
    pub fn add(&mut self, other: &Counts) {
        self.schedules += other.schedules;
        self.nested_runs += other.nested_runs;
        for (mine, theirs) in self.nested_at.iter_mut().zip(other.nested_at) {
            *mine += theirs;
        }
        self.accesses += other.accesses;
        self.steps += other.steps;
        self.switches += other.switches;
        self.flushes += other.flushes;
        self.drains += other.drains;
        self.allocations = self.allocations.max(other.allocations);
        self.requests = self.requests.max(other.requests);
        self.crash_points += other.crash_points;
        self.images += other.images;
        self.recoveries += other.recoveries;
    }
}

/// The outcome of a search that found no failure.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Totals.
    pub counts: Counts,
    /// Whether an exhaustive search came to its end.
    pub exhausted: bool,
    /// The coverage marks met, with counts, in order of name.
    pub marks: Vec<(&'static str, u64)>,
    /// The flush and drain calls executed, by place.
    pub sites: Vec<SiteHits>,
    /// Which faults there could be, in order of place, if [`Config::lists_faults`](super::Config::lists_faults).
    pub faults: Vec<Fault>,
}
