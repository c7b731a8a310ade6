//! How long it takes to fill a pool, to return its space to the file system, and to fill it again.
//!
//! ```text
//! cargo run --release -p everleaf --example space [MIB [FOLDER]]
//! ```
//!
//! Each round fills a new pool with pairs of 8 and 1,000 bytes, empties it, fills it again without having returned
//! anything, empties it, returns its space, and fills it again: what returned space costs the fill behind it is the
//! last against the one before. `FOLDER` is on the file system to be measured.

#![allow(clippy::print_stdout, reason = "the numbers are the result")]

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use everleaf::{Options, Result, Store};

const ROUNDS: usize = 5;
const VALUE_SIZE: usize = 1000;

/// Seconds for all of it.
fn fill(store: &Store, count: u64) -> Result<f64> {
    let began = Instant::now();
    for number in 0..count {
        // Spread, so that neighbours do not come together.
        let key = number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
        let _ = store.default_map().put(key, [7; VALUE_SIZE])?;
    }
    Ok(began.elapsed().as_secs_f64())
}

/// MiB that the file system has for the pool.
fn allocated(pool: &Path) -> u64 {
    pool.metadata().map_or(0, |found| (found.blocks() * 512) >> 20)
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mib: u64 = arguments.next().map_or(512, |mib| mib.parse().expect("a number of MiB"));
    let within = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let count = (mib << 20) / VALUE_SIZE as u64;
    println!("{count} pairs, seconds (MiB that the file system has behind it)");
    println!("first fill | second, nothing returned | return of space | third, all returned");
    let mut ratios = vec![];
    for _ in 0..ROUNDS {
        let folder = tempfile::tempdir_in(&within).expect("a folder");
        let pool = folder.path().join("pool");
        // Without the sweep, which returns space by itself.
        let options = Options::new().create(true).max_size_bytes(64 << 30).sweep(false);
        let store = options.open(&pool)?;
        let first = fill(&store, count)?;
        let filled = allocated(&pool);
        store.default_map().clear()?;
        let second = fill(&store, count)?;
        let filled_again = allocated(&pool);
        store.default_map().clear()?;
        let began = Instant::now();
        let returned = store.return_space()?;
        let returning = began.elapsed().as_secs_f64();
        let left = allocated(&pool);
        let third = fill(&store, count)?;
        println!(
            "{first:.2} ({filled}) | {second:.2} ({filled_again}) | {returning:.2} ({left}; {} returned) | \
             {third:.2} ({})",
            returned >> 20,
            allocated(&pool)
        );
        ratios.push([second / first, third / second]);
    }
    for (index, what) in ["second by first", "third by second"].iter().enumerate() {
        let mut of: Vec<f64> = ratios.iter().map(|ratios| ratios[index]).collect();
        of.sort_by(f64::total_cmp);
        println!("{what}: {:.2} (of {:.2} to {:.2})", of[ROUNDS / 2], of[0], of[ROUNDS - 1]);
    }
    Ok(())
}
