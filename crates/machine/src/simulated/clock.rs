//! How long a search has worked, whatever else the machine does.

use std::time::Duration;

/// The CPU time of the calling thread: what a search is given, and not the time on the wall, of which
/// others may take a part.
pub fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The CPU time of all threads of the process, those that have ended too: for a search whose programs start threads of
/// their own. It counts what else the process does meanwhile.
pub fn process_cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
