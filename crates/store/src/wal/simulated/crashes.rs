//! Programs of a whole store on a simulated disk, which loses its power at any moment.
//!
//! ```text
//!   run       one thread, and others that write whenever it is about to use the disk; views beside it
//!   brief     the same for a while
//!   threads   four threads that stand still between place, change and record, and read each other
//!   calls     one thread that makes every call there is, on a clock that moves
//!   meeting   two threads, of which the first stops in the middle of a call
//!   refusing  the same calls on a disk that refuses, and in a pool that is full
//!   racing    threads that nobody holds up, on the same keys
//!   damaging  stores that are damaged, or put back from older copies, while they are closed
//! ```
//!
//! Each run but a race follows from its number. The pools are real files, in memory where there is such a folder: of
//! the machine below them only the death of the process is simulated.

mod calling;
pub(crate) mod calls;
mod changes;
mod clocks;
mod damaging;
mod looking;
mod meeting;
pub(crate) mod model;
mod racing;
mod refusing;
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

/// Makes every call there is, with these planted bugs: what it has seen.
///
/// # Panics
/// As [`run`].
pub fn calls(number: u64, mutants: &[&'static str]) -> Counts {
    calling::run(number, faults_of(number, mutants))
}

/// Lets two threads meet, with these planted bugs: what was seen.
///
/// # Panics
/// As [`run`].
pub fn meeting(number: u64, mutants: &[&'static str]) -> Counts {
    meeting::run(number, faults_of(number, mutants))
}

/// Makes calls of which some are refused, with these planted bugs: what was seen.
///
/// # Panics
/// As [`run`].
pub fn refusing(number: u64, mutants: &[&'static str]) -> Counts {
    refusing::run(number, faults_of(number, mutants))
}

/// Lets threads race, with these planted bugs: what was seen.
///
/// # Panics
/// As [`run`].
pub fn racing(number: u64, mutants: &[&'static str]) -> Counts {
    racing::run(number, faults_of(number, mutants))
}

/// Damages a store while it is closed, with these planted bugs: what was seen.
///
/// # Panics
/// As [`run`].
pub fn damaging(number: u64, mutants: &[&'static str]) -> Counts {
    damaging::run(number, faults_of(number, mutants))
}
