//! What the seam costs: the same work written generically over a machine, and by hand.
//!
//! `cargo run --release -p everleaf-machine --example seam` times both; with `cargo rustc --release
//! -p everleaf-machine --example seam -- --emit asm` the two functions can be read side by side. A
//! linker that folds equal functions shows them at one address.

#![allow(clippy::print_stdout, reason = "a measurement prints its result")]

use std::hint::black_box;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use everleaf_machine::{Atomic, Hardware, Machine, Ordering};

/// A load, two stores, an exchange, an addition and a compare-and-exchange, through the seam.
#[inline(never)]
fn through_the_seam<M: Machine>(words: &[Atomic<u64, M>; 8]) -> u64 {
    // Acquire, Release, AcqRel: as a leaf uses them; one thread here, they pair with nothing.
    let seen = words[0].load(Ordering::Acquire);
    words[1].store(seen + 1, Ordering::Release);
    words[2].write_private(words[3].read_private() ^ seen);
    let old = words[4].swap(seen, Ordering::AcqRel);
    let sum = words[5].fetch_add(old | 1, Ordering::AcqRel);
    match words[6].compare_exchange(old, sum, Ordering::AcqRel, Ordering::Acquire) {
        Ok(value) | Err(value) => value ^ sum,
    }
}

/// The same by hand.
#[inline(never)]
fn by_hand(words: &[AtomicU64; 8]) -> u64 {
    let seen = words[0].load(Ordering::Acquire);
    words[1].store(seen + 1, Ordering::Release);
    // Relaxed: what a private access is.
    words[2].store(words[3].load(Ordering::Relaxed) ^ seen, Ordering::Relaxed);
    let old = words[4].swap(seen, Ordering::AcqRel);
    let sum = words[5].fetch_add(old | 1, Ordering::AcqRel);
    match words[6].compare_exchange(old, sum, Ordering::AcqRel, Ordering::Acquire) {
        Ok(value) | Err(value) => value ^ sum,
    }
}

const CALLS: u32 = 20_000_000;

fn nanoseconds(mut call: impl FnMut() -> u64) -> f64 {
    let started = Instant::now();
    for _ in 0..CALLS {
        black_box(call());
    }
    started.elapsed().as_nanos() as f64 / f64::from(CALLS)
}

fn main() {
    let ours: [Atomic<u64, Hardware>; 8] = std::array::from_fn(|_| Atomic::new(0));
    let plain: [AtomicU64; 8] = std::array::from_fn(|_| AtomicU64::new(0));
    for round in 1..=3 {
        let seam = nanoseconds(|| through_the_seam(black_box(&ours)));
        let hand = nanoseconds(|| by_hand(black_box(&plain)));
        println!("round {round}: through the seam {seam:.2} ns, by hand {hand:.2} ns");
    }
    let generic: fn(&[Atomic<u64, Hardware>; 8]) -> u64 = through_the_seam::<Hardware>;
    println!("the functions: {:p} and {:p}", generic, by_hand as fn(&[AtomicU64; 8]) -> u64);
}
