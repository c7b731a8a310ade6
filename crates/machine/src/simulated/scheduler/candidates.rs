//! What a strategy chooses among.

/// The actors that can act at a scheduling point.
pub(in crate::simulated) struct Candidates<'a> {
    /// Threads are `0..threads`, the store buffer of thread t is `threads + t`. If the running
    /// thread can go on it comes first.
    pub actors: &'a [u8],
    /// The number of threads.
    pub threads: usize,
    /// Whether `actors[0]` is the thread that is running now.
    pub current_first: bool,
    /// Scheduling points so far in this schedule.
    pub step: u64,
}
