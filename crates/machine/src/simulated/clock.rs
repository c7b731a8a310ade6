//! How long a search has worked, whatever else the machine does.

use std::time::Duration;

/// The CPU time of the calling thread: what a search is given, and not the time on the wall, of which
/// others may take a part.
pub fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
