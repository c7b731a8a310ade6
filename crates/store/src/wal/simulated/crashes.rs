//! Programs of a whole store on a simulated disk, which loses its power at any moment.
//!
//! ```text
//!   run       one thread, and others that write whenever it is about to use the disk; views beside it
//!   brief     the same for a while
//!   threads   four threads that stand still between place, change and record, and read each other
//! ```
//!
//! Each run follows from its number. The pools are real files, in memory where there is such a folder: of the
//! machine below them only the death of the process is simulated.

mod changes;
mod clocks;
mod looking;
pub(crate) mod model;
pub(crate) mod threads;
mod turns;
pub(crate) mod world;

use everleaf_log::simulated::{Faults, Random};

pub use self::model::Counts;
pub use self::threads::Seen;
use self::world::Run;

/// Faults that follow from the number of a run.
fn faults_of(number: u64, mutants: &[&'static str]) -> Faults {
    let mut random = Random::new(number ^ 0x5EED);
    Faults {
        block_size: if random.one_in(2) { 512 } else { 4096 },
        tears: random.one_in(3),
        mutants: mutants.to_vec(),
        ..Faults::default()
    }
}

/// Runs some lives of a store with these planted bugs: what it has seen.
///
/// # Panics
/// The store did what it must not.
pub fn run(number: u64, mutants: &[&'static str]) -> Counts {
    Run::new(number, faults_of(number, mutants)).go()
}

/// As [`run`], one life that does not take long.
///
/// # Panics
/// As [`run`].
pub fn brief(number: u64, mutants: &[&'static str]) -> Counts {
    Run::new(number, faults_of(number, mutants)).go_briefly()
}

/// Runs threads that stand still, with these planted bugs: what they have seen.
///
/// # Errors
/// What was found that must not be.
pub fn threads(number: u64, mutants: &[&'static str]) -> Result<Seen, String> {
    threads::run(number, mutants)
}
