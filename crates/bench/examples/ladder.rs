//! What a cache miss costs on this machine: the time of one dependent random read, by the size of
//! the region it falls in.
//!
//! Run: `cargo run --release -p everleaf-bench --example ladder`. A step between two sizes is a cache
//! level. The last but one size, 160 MB, is what a dependent miss (dm) is in `everleaf bench`.

use everleaf_bench::random::mix;
use std::time::Instant;

const READS: usize = 1_000_000;
/// Indices per cache line.
const STRIDE: usize = 16;

/// One random cycle through all lines of the region.
fn cycle(bytes: usize) -> Vec<u32> {
    let lines = bytes / 64;
    let mut order: Vec<u32> = (0..lines as u32).collect();
    for last in (1..lines).rev() {
        order.swap(last, (mix(last as u64) % last as u64) as usize);
    }
    let mut next = vec![0; lines * STRIDE];
    for (place, line) in order.iter().enumerate() {
        next[*line as usize * STRIDE] = order[(place + 1) % lines] * STRIDE as u32;
    }
    next
}

#[expect(clippy::print_stdout, reason = "the result")]
fn main() {
    for megabytes in [1, 2, 4, 8, 16, 32, 64, 160, 320] {
        let next = cycle(megabytes << 20);
        let mut at = 0;
        let mut best = f64::MAX;
        for _ in 0..4 {
            let started = Instant::now();
            for _ in 0..READS {
                at = next[at as usize];
            }
            best = best.min(started.elapsed().as_nanos() as f64 / READS as f64);
        }
        std::hint::black_box(at);
        println!("{megabytes:4} MB {best:6.1} ns");
    }
}
