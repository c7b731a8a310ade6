//! Syncing at intervals: the clock, and the thread that looks at it.
//!
//! A sync is due every half interval: a group appended just after one began waits for one half, and
//! the next sync may take the other. The leader does the sync that is due, since under load the
//! thread might get its turn late.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::shared::Shared;
use crate::{Disk, Error, Result, SyncMode};

/// When the next sync is due. Times are counted from any fixed moment.
pub(crate) struct Clock {
    /// Half of the interval; `None` if nothing is done at intervals.
    half: Option<Duration>,
    next: Option<Duration>,
}

impl Clock {
    pub(crate) fn new(mode: SyncMode) -> Clock {
        let half = match mode {
            SyncMode::Interval(interval) => Some((interval / 2).max(Duration::from_millis(1))),
            SyncMode::Sync => None,
        };
        Clock { half, next: None }
    }

    /// Whether a sync is due at `now`; if so, the next half begins.
    pub(crate) fn is_due(&mut self, now: Duration) -> bool {
        let Some(half) = self.half else { return false };
        let next = *self.next.get_or_insert(now.saturating_add(half));
        if now < next {
            return false;
        }
        self.next = Some(now.saturating_add(half));
        true
    }

    /// How long it is until the next sync is due.
    fn left(&self, now: Duration) -> Duration {
        self.next.map_or(Duration::ZERO, |next| next.saturating_sub(now))
    }
}

/// Starts the thread.
///
/// # Errors
/// The operating system's answer.
pub(crate) fn start<D: Disk>(shared: &Arc<Shared<D>>) -> Result<JoinHandle<()>> {
    let shared = Arc::clone(shared);
    std::thread::Builder::new().name("everleaf-log".into()).spawn(move || run(&shared)).map_err(
        |error| {
            Error::io("cannot start the thread of the log (raise the limit on threads)", &error)
        },
    )
}

fn run<D: Disk>(shared: &Shared<D>) {
    let start = Instant::now();
    shared.turn().clock.is_due(Duration::ZERO);
    loop {
        let mut turn = shared.turn();
        if turn.is_ending || turn.failed.is_some() {
            return;
        }
        let left = turn.clock.left(start.elapsed());
        // Relaxed: a hint, see `Log::append_to`.
        if !left.is_zero() && !shared.is_work_due.load(Ordering::Relaxed) {
            turn = turn.wait_timeout(&shared.work, left);
            if turn.is_ending {
                return;
            }
        }
        turn.is_sync_due |= turn.clock.is_due(start.elapsed());
        let is_sync_due = turn.is_sync_due;
        drop(turn);
        // Relaxed: a hint; what is appended from here on sets it again.
        let is_work_due = shared.is_work_due.swap(false, Ordering::Relaxed);
        let result = match (is_sync_due, is_work_due) {
            (true, _) => shared.take_due_turn(),
            (false, true) => shared.take_turn(false),
            (false, false) => Ok(()),
        };
        if result.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sync_is_due_every_half_interval_and_once() {
        let ms = Duration::from_millis;
        let mut clock = Clock::new(SyncMode::Interval(ms(10)));
        let due: Vec<u64> = (3..30).filter(|&now| clock.is_due(ms(now))).collect();
        assert_eq!(due, [8, 13, 18, 23, 28]);
        assert_eq!(clock.left(ms(30)), ms(3));
        assert_eq!(clock.left(ms(40)), ms(0));
        let mut never = Clock::new(SyncMode::Sync);
        assert!((0..30).all(|now| !never.is_due(ms(now))));
        let mut rare = Clock::new(SyncMode::Interval(Duration::MAX));
        assert!(!rare.is_due(ms(1)) && !rare.is_due(Duration::from_secs(1 << 60)));
    }
}
