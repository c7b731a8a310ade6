//! How long one connection is served before the others have their turn.
//!
//! A read brings thousands of requests, each of which may take long and have a short answer. Behind a command it is
//! looked at whether the time is over; then the connection goes on in the next turn of its event loop, behind the
//! others, unless it was killed meanwhile. Nothing is cut but the batch: one command takes as long as it takes.
//!
//! Reading the clock takes as long as a part of a short command. So it is read behind each command that may take long,
//! behind long values that were read (`read_size.rs`), and behind each sixteenth of those that should be fast, or each
//! group of requests that are looked up or set together; never for a short request that comes alone.

use std::time::{Duration, Instant};

use crate::command::facts;
use crate::read_size;

/// The time of one connection in a turn.
const TIME_MAX: Duration = Duration::from_millis(5);
/// Fast commands that are run between two looks at the clock.
const FAST_COUNT: u32 = 16;
/// The same of requests that are collected.
const COLLECTED_COUNT: u32 = 64;

/// The time that a connection has in one turn.
#[derive(Clone, Copy, Debug, Default)]
pub struct Slice {
    /// When it was looked at first.
    began: Option<Instant>,
    /// Commands since the last look.
    count: u32,
}

impl Slice {
    /// Begins, if it has not: requests wait behind the next one.
    #[inline]
    pub fn begin(&mut self) {
        if self.began.is_none() {
            self.began = Some(Instant::now());
        }
    }

    /// One that begins now, whatever was done before.
    pub fn of_now() -> Self {
        Slice { began: Some(Instant::now()), count: 0 }
    }

    /// One that is over, in tests.
    #[cfg(test)]
    pub fn of_past() -> Self {
        Slice { began: Instant::now().checked_sub(TIME_MAX), count: 0 }
    }

    /// Whether it is over behind a command that was run.
    #[inline]
    pub fn is_over_behind(&mut self, command: usize) -> bool {
        self.count += 1;
        let is_looked_at =
            self.count >= FAST_COUNT || !facts::is_short(command) || read_size::is_large();
        is_looked_at && self.is_over()
    }

    /// The same behind so many requests that were collected.
    #[inline]
    pub fn is_over_behind_collected(&mut self, count: usize) -> bool {
        self.count += count as u32;
        let is_looked_at = self.count >= COLLECTED_COUNT || read_size::is_large();
        is_looked_at && self.is_over()
    }

    /// Whether it is over. Begins, if it has not.
    pub fn is_over(&mut self) -> bool {
        self.count = 0;
        read_size::forget();
        let now = Instant::now();
        now.duration_since(*self.began.get_or_insert(now)) >= TIME_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_read_behind_what_may_take_long() {
        let find = |name: &str| facts::find(name.as_bytes()).unwrap();
        let looks = |command: usize| {
            let mut slice = Slice::of_past();
            (1..100).find(|_| slice.is_over_behind(command))
        };
        for name in ["lcs", "bitcount", "keys", "exec", "append", "move", "zlexcount"] {
            assert_eq!(looks(find(name)), Some(1), "{name}");
        }
        for name in ["get", "ping", "hget", "incrby", "select"] {
            assert_eq!(looks(find(name)), Some(FAST_COUNT), "{name}");
        }
        // A long value makes it long.
        let mut slice = Slice::of_past();
        read_size::counted(&[0; 100 << 10]);
        assert!(slice.is_over_behind(find("strlen")));
        assert!(!slice.is_over_behind(find("strlen")));
        let mut slice = Slice::of_past();
        read_size::counted(&[0; 100 << 10]);
        assert!(slice.is_over_behind_collected(1));
        assert!(!slice.is_over_behind_collected(10) && slice.is_over_behind_collected(54));
        // A request that was refused has none.
        assert!(looks(usize::MAX).is_some());
        let mut new = Slice::default();
        assert!(!new.is_over(), "it begins with the first look");
    }
}
