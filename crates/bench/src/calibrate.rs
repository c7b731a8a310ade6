//! The dependent miss: the unit in which the cost of operations is given.
//!
//! A search in a tree waits for memory again and again, each time for an address that it has just
//! learnt. How long one such wait takes differs between machines, and on a shared machine from
//! minute to minute; how many waits an operation costs does not. So the wait itself is measured:
//! a walk along a random cycle through memory, one step per cache line.

use std::hint::black_box;
use std::time::Instant;

use crate::clock::thread_time;
use crate::random::Random;

/// Bytes of the memory that is walked: 160 MB, more than the caches of most machines. A build with debug
/// assertions, whose times say nothing, walks little: the walks were nine tenths of the tests of the
/// program that measures.
pub const REGION_SIZE_BYTES: usize = if cfg!(debug_assertions) { 1_000_000 } else { 160_000_000 };

/// Steps of one leg, and legs of one measurement: the median leg counts.
const STEP_COUNT: usize = 20_000;
const LEG_COUNT: usize = 5;

/// A cache line that names the next.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line {
    next: u32,
}

/// A random cycle through ordinary memory.
///
/// # Example
/// ```
/// let mut chase = everleaf_bench::calibrate::Chase::new(1 << 20);
/// assert!(chase.measure() > 0.0);
/// ```
pub struct Chase {
    lines: Vec<Line>,
    at: u32,
}

impl Chase {
    /// A cycle through `size` bytes, at least 128: takes about a second per gigabyte to make.
    pub fn new(size: usize) -> Self {
        let count = (size / size_of::<Line>()).clamp(2, u32::MAX as usize) as u32;
        let mut lines: Vec<Line> = (0..count).map(|next| Line { next }).collect();
        // Sattolo's shuffle: exchanging only with what lies before leaves one single cycle.
        let mut random = Random::new(0x000d_1ce5);
        for last in (1..count as usize).rev() {
            let other = random.below(last as u64) as usize;
            let next = lines[last].next;
            lines[last].next = lines[other].next;
            lines[other].next = next;
        }
        Chase { lines, at: 0 }
    }

    /// Nanoseconds of one dependent miss, now, on the calling thread (time without a CPU does not
    /// count). Takes some 30 ms. Goes on where the last call ended, so that no line is met again
    /// while a cache may hold it.
    pub fn measure(&mut self) -> f64 {
        let mut legs = [0.0; LEG_COUNT];
        for leg in &mut legs {
            let started = thread_time();
            let mut at = self.at;
            for _ in 0..STEP_COUNT {
                at = self.lines[at as usize].next;
            }
            self.at = black_box(at);
            *leg = (thread_time() - started).as_nanos() as f64 / STEP_COUNT as f64;
        }
        legs.sort_by(f64::total_cmp);
        legs[LEG_COUNT / 2]
    }
}

/// Nanoseconds that one reading of the clock takes (the smallest of many).
pub fn clock_ns() -> f64 {
    let count = 100;
    let batch = |_| {
        let started = Instant::now();
        for _ in 0..count {
            black_box(Instant::now());
        }
        started.elapsed().as_nanos() as f64 / f64::from(count)
    };
    (0..50).map(batch).fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_walk_is_one_cycle_through_all_lines() {
        for size in [0, 128, 64 * 100, 64 * 1000] {
            let chase = Chase::new(size);
            let mut at = 0;
            let mut steps = 0;
            loop {
                at = chase.lines[at as usize].next;
                steps += 1;
                if at == 0 {
                    break;
                }
            }
            assert_eq!(steps, chase.lines.len());
        }
    }

    #[test]
    fn a_step_and_a_look_at_the_clock_take_time() {
        let mut chase = Chase::new(1 << 20);
        let before = chase.at;
        assert!(chase.measure() > 0.0);
        assert_ne!(chase.at, before, "the next measurement goes on elsewhere");
        assert!(clock_ns() > 0.0);
    }
}
