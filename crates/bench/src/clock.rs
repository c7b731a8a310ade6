//! Time as a thread spends it.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// How long the calling thread has been running on a CPU. On a busy machine this is less than the
/// time that has passed: waiting for a CPU does not count, waiting for memory does.
pub fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_works_spends_time() {
        let started = thread_time();
        let mut word = 1_u64;
        while thread_time() - started < Duration::from_millis(2) {
            word = std::hint::black_box(word.wrapping_mul(3));
        }
        assert!(thread_time() > started);
    }
}
