//! Keeping a log short when the same thing goes wrong again and again.

use std::sync::atomic::{AtomicU64, Ordering};

/// The least time between two lines about the same thing, in milliseconds.
const INTERVAL_MS: u64 = 10_000;

/// Says when something may be logged (again).
#[derive(Debug, Default)]
pub struct RateLimiter {
    /// The time of the last line plus one; 0 = there was none.
    last_ms: AtomicU64,
}

impl RateLimiter {
    /// True at the first call, and then once per ten seconds.
    pub fn allows(&self, now_ms: u64) -> bool {
        let now = now_ms + 1;
        // Relaxed: the worst outcome of a race is a line too many.
        let last = self.last_ms.load(Ordering::Relaxed);
        let allowed = last == 0 || now.saturating_sub(last) >= INTERVAL_MS;
        if allowed {
            // Relaxed: the worst outcome of a race is a line too many.
            self.last_ms.store(now, Ordering::Relaxed);
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_time_is_told_and_then_not_for_a_while() {
        let seldom = RateLimiter::default();
        let allowed = [0, 1, 9_999, 10_000, 10_001, 50_000].map(|now| seldom.allows(now));
        assert_eq!(allowed, [true, false, false, true, false, true]);
    }
}
