//! How long commands take: a histogram of each, and what was slower than a limit.
//!
//! Both are off unless asked for (`latency-tracking`, `latency-monitor-threshold`): then a command costs one relaxed
//! load more. With the histograms also how commands ended is counted (`INFO commandstats`).
//! While one of them is on every command is run by itself, none with others of its pipeline or of other clients, and
//! its time is taken. The time is that of the command alone: without waiting for elements, and for the disk at the end
//! of a turn. What a transaction runs is a part of `EXEC`.
//!
//! Relaxed throughout: counters that nobody draws a conclusion from, and settings that may be seen late.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Buckets: times of up to 1, 2, 4, .. microseconds, the last one of all that are longer.
const BUCKET_COUNT: usize = 40;
/// Samples of an event that are kept.
const SAMPLE_COUNT_MAX: usize = 160;
/// The events: commands that should be fast, and others.
pub const EVENTS: [&str; 2] = ["command", "fast-command"];

/// What is known of one command.
#[derive(Debug)]
struct Record {
    /// How many calls took as long as each bucket says.
    histogram: [AtomicU64; BUCKET_COUNT],
    nanoseconds: AtomicU64,
    rejected: AtomicU64,
    failed: AtomicU64,
}

impl Default for Record {
    fn default() -> Self {
        let none = || AtomicU64::new(0);
        let histogram = [const { AtomicU64::new(0) }; BUCKET_COUNT];
        Record { histogram, nanoseconds: none(), rejected: none(), failed: none() }
    }
}

impl Record {
    fn reset(&self) {
        let rest = [&self.nanoseconds, &self.rejected, &self.failed];
        self.histogram.iter().chain(rest).for_each(|count| count.store(0, Ordering::Relaxed));
    }
}

/// How a call of a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Done,
    /// With an error of the command itself.
    Failed,
    /// With an error before it began.
    Rejected,
}

impl Ending {
    /// That of a command, by whether it was run at all, and whether it succeeded.
    pub fn of(is_admitted: bool, is_done: bool) -> Self {
        match (is_admitted, is_done) {
            (false, _) => Ending::Rejected,
            (true, false) => Ending::Failed,
            (true, true) => Ending::Done,
        }
    }
}

/// The calls of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// Those that were run.
    pub count: u64,
    /// The sum of their times.
    pub microseconds: u64,
    /// Those that were not run.
    pub rejected: u64,
    /// Those of `count` that ended with an error.
    pub failed: u64,
}

/// What was seen of an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// Seconds since 1970 with the longest time in each, in milliseconds, the oldest first.
    pub samples: VecDeque<(u64, u64)>,
    /// The longest of all times, also of those that are not kept any more.
    pub longest_ms: u64,
}

/// All that is known of times.
#[derive(Debug, Default)]
pub struct Latency {
    is_tracking: AtomicBool,
    /// Milliseconds; 0 = none.
    threshold_ms: AtomicU64,
    /// Of each command and subcommand; made when they are first asked for.
    records: OnceLock<Box<[Record]>>,
    events: Mutex<[Event; EVENTS.len()]>,
}

impl Latency {
    /// True if somebody wants the times of commands.
    #[inline]
    pub fn wants_times(&self) -> bool {
        self.is_tracking() || self.threshold_ms() > 0
    }

    /// Whether there are histograms.
    pub fn is_tracking(&self) -> bool {
        self.is_tracking.load(Ordering::Relaxed)
    }

    /// Begins or ends histograms, of so many commands and subcommands.
    pub fn set_tracking(&self, is_tracking: bool, command_count: usize) {
        if is_tracking {
            self.records.get_or_init(|| (0..command_count).map(|_| Record::default()).collect());
        }
        self.is_tracking.store(is_tracking, Ordering::Relaxed);
    }

    /// From how many milliseconds on a command is an event; 0 = never.
    pub fn threshold_ms(&self) -> u64 {
        self.threshold_ms.load(Ordering::Relaxed)
    }

    pub fn set_threshold_ms(&self, milliseconds: u64) {
        self.threshold_ms.store(milliseconds, Ordering::Relaxed);
    }

    /// Takes the time of a command, by its number.
    pub fn note(&self, number: usize, is_fast: bool, duration: Duration, ending: Ending) {
        if self.is_tracking()
            && let Some(record) = self.records.get().and_then(|all| all.get(number))
        {
            match ending {
                Ending::Rejected => record.rejected.fetch_add(1, Ordering::Relaxed),
                Ending::Failed => record.failed.fetch_add(1, Ordering::Relaxed),
                Ending::Done => 0,
            };
            if ending != Ending::Rejected {
                record.histogram[bucket_of(duration)].fetch_add(1, Ordering::Relaxed);
                let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
                record.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
            }
        }
        let (limit, milliseconds) = (self.threshold_ms(), duration.as_millis());
        if limit > 0 && milliseconds >= u128::from(limit) {
            // A clock before 1970 has not been set yet.
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let milliseconds = u64::try_from(milliseconds).unwrap_or(u64::MAX);
            self.events()[usize::from(is_fast)].add(now.as_secs(), milliseconds);
        }
    }

    /// The times of a command, by its number: how often it was run, and for each bucket that has some its upper bound
    /// in microseconds with the number of all times up to it. `None` if it was not run.
    pub fn histogram(&self, number: usize) -> Option<(u64, Vec<(u64, u64)>)> {
        let record = self.records.get()?.get(number)?;
        let mut sum = 0;
        let counts = record.histogram.iter().map(|count| count.load(Ordering::Relaxed));
        let bounds = counts.enumerate().filter(|(_, count)| *count > 0).map(|(bucket, count)| {
            sum += count;
            (1 << bucket, sum)
        });
        let bounds: Vec<_> = bounds.collect();
        (sum > 0).then_some((sum, bounds))
    }

    /// The calls of a command, by its number; `None` if there were none.
    pub fn calls(&self, number: usize) -> Option<Calls> {
        let record = self.records.get()?.get(number)?;
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let calls = Calls {
            count: record.histogram.iter().map(read).sum(),
            microseconds: read(&record.nanoseconds) / 1000,
            rejected: read(&record.rejected),
            failed: read(&record.failed),
        };
        (calls.count + calls.rejected > 0).then_some(calls)
    }

    /// Forgets the calls of all commands.
    pub fn reset_records(&self) {
        self.records.get().into_iter().flatten().for_each(Record::reset);
    }

    /// What was seen of an event; nothing of one that there is not.
    pub fn event(&self, name: &[u8]) -> Event {
        let index = EVENTS.iter().position(|known| known.as_bytes().eq_ignore_ascii_case(name));
        index.map_or_else(Event::default, |index| self.events()[index].clone())
    }

    /// Forgets an event; whether anything was seen of it.
    pub fn reset_event(&self, name: &[u8]) -> bool {
        let index = EVENTS.iter().position(|known| known.as_bytes().eq_ignore_ascii_case(name));
        let taken = index.map(|index| std::mem::take(&mut self.events()[index]));
        taken.is_some_and(|event| !event.samples.is_empty())
    }

    fn events(&self) -> MutexGuard<'_, [Event; EVENTS.len()]> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Event {
    fn add(&mut self, second: u64, milliseconds: u64) {
        self.longest_ms = self.longest_ms.max(milliseconds);
        match self.samples.back_mut() {
            Some((last, longest)) if *last == second => *longest = milliseconds.max(*longest),
            _ => {
                if self.samples.len() == SAMPLE_COUNT_MAX {
                    self.samples.pop_front();
                }
                self.samples.push_back((second, milliseconds));
            }
        }
    }
}

fn bucket_of(duration: Duration) -> usize {
    let microseconds = u64::try_from(duration.as_nanos().div_ceil(1000)).unwrap_or(u64::MAX);
    // The first bucket has all up to one microsecond, the next one up to two.
    let bucket = u64::BITS - microseconds.saturating_sub(1).leading_zeros();
    (bucket as usize).min(BUCKET_COUNT - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_counted_in_buckets_of_powers_of_two() {
        let bucket = |nanoseconds| bucket_of(Duration::from_nanos(nanoseconds));
        assert_eq!(
            [0, 1, 1000, 1001, 2000, 2001, 4000, 4001].map(bucket),
            [0, 0, 0, 1, 1, 2, 2, 3]
        );
        assert_eq!(bucket_of(Duration::MAX), BUCKET_COUNT - 1);
        let latency = Latency::default();
        latency.note(1, false, Duration::from_micros(3), Ending::Done);
        assert_eq!((latency.histogram(1), latency.calls(1)), (None, None));
        latency.set_tracking(true, 2);
        use Ending::{Done, Failed, Rejected};
        let notes = [(1, 3, Done), (1, 1, Failed), (1, 4, Done), (1, 9, Rejected), (2, 1, Done)];
        for (number, microseconds, ending) in notes {
            latency.note(number, false, Duration::from_micros(microseconds), ending);
        }
        assert_eq!(latency.histogram(1), Some((3, vec![(1, 1), (4, 3)])));
        assert_eq!((latency.histogram(0), latency.histogram(2)), (None, None));
        let calls = Calls { count: 3, microseconds: 8, rejected: 1, failed: 1 };
        assert_eq!((latency.calls(0), latency.calls(1)), (None, Some(calls)));
        latency.note(0, false, Duration::ZERO, Rejected);
        assert_eq!(latency.calls(0), Some(Calls { rejected: 1, ..Calls::default() }));
        latency.reset_records();
        assert_eq!((latency.histogram(1), latency.calls(0), latency.calls(1)), (None, None, None));
    }

    #[test]
    fn events_keep_the_longest_of_a_second_and_the_last_seconds() {
        let latency = Latency::default();
        latency.note(0, true, Duration::from_secs(9), Ending::Done);
        latency.set_threshold_ms(100);
        latency.note(0, true, Duration::from_millis(99), Ending::Done);
        assert_eq!(latency.event(b"fast-command"), Event::default());
        latency.note(0, true, Duration::from_millis(100), Ending::Done);
        assert_eq!(latency.event(b"FAST-command").longest_ms, 100);
        assert_eq!(latency.event(b"command"), Event::default());
        assert!(latency.reset_event(b"fast-command") && !latency.reset_event(b"fast-command"));
        assert!(!latency.reset_event(b"fork"));
        let mut event = Event::default();
        event.add(1, 500);
        (2..).take(SAMPLE_COUNT_MAX).for_each(|second| event.add(second, second));
        event.add(161, 7);
        assert_eq!(event.samples.len(), SAMPLE_COUNT_MAX);
        assert_eq!(event.samples.front(), Some(&(2, 2)));
        assert_eq!((event.samples.back(), event.longest_ms), (Some(&(161, 161)), 500));
    }
}
