//! The laboratory's experiments: a claim, how it is looked into, and a verdict.
//!
//! An experiment is an [`Entry`] in the table of its family, one file per family; the families are
//! listed in [`FAMILIES`]. Adding an experiment is one entry and the function that it names, adding
//! a family is one file and one line.
//!
//! ```text
//!   entry --> run (counts, bench, files) --> outcome --> finding (JSON) --> report
//! ```
//!
//! A figure of a paper is written down in the claim it belongs to and nowhere else; everything else
//! that is shown was counted or measured in the run that shows it.

mod cores;
mod f3;
mod fast_fair;
pub(crate) mod finding;
mod leaf_table;
mod model;
mod nbtree;
mod ours;
mod pace;
mod proof;
mod recovery;
mod rntree;
mod runner;
mod sptree;
pub mod text;
mod timed;
mod waiting;

use everleaf_bench::BenchError;

pub(crate) use finding::number;
pub use finding::{
    Axis, Bar, Chart, Figure, Finding, Grid, Judgement, Line, Outcome, Scale, Series, Side,
};
pub use pace::Pace;
pub use proof::{PAPERS_PROTOCOL_WITH_THREADS, Proof, Prover, no_prover};
pub(crate) use runner::read_json;
pub use runner::{Folder, Plan, run};

/// What an experiment needs of a machine to be made at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// C: exact counts; no clock.
    Counts,
    /// L: times of one thread.
    Latency,
    /// M: many threads on many cores.
    ManyCores,
    /// R: recovery.
    Recovery,
    /// S: space.
    Space,
    /// X: crashes and orders of execution; a proof, not a measurement.
    Crashes,
}

impl Kind {
    /// The letter used in lists.
    pub fn letter(self) -> char {
        match self {
            Kind::Counts => 'C',
            Kind::Latency => 'L',
            Kind::ManyCores => 'M',
            Kind::Recovery => 'R',
            Kind::Space => 'S',
            Kind::Crashes => 'X',
        }
    }
}

/// What a running experiment is given.
pub struct Context<'c> {
    /// How much to measure.
    pub scale: Scale,
    /// The seed of keys and operations.
    pub seed: u64,
    /// Searches for failures.
    pub(crate) prove: Prover,
    /// Told what is being done.
    pub(crate) tell: &'c mut dyn FnMut(&str),
}

/// A function that makes an experiment.
pub type Make = fn(&mut Context<'_>) -> Result<Outcome, BenchError>;

/// An experiment.
///
/// # Example
/// ```
/// use everleaf_bench::BenchError;
/// use everleaf_lab::experiment::{Context, Entry, Figure, Kind, Outcome};
/// fn made(context: &mut Context<'_>) -> Result<Outcome, BenchError> {
///     let keys = context.scale.pick(100_000_u64, 10_000_000);
///     let ours = keys as f64 / 1e6; // count or measure here
///     let figure = Figure::near("what it is", 0.1, ours, "lines", 0.05).if_above("why more");
///     Ok(Outcome { figures: vec![figure], ..Outcome::default() })
/// }
/// let entry = Entry {
///     id: "paper.fig1",
///     what: "Figure 1: what is measured",
///     claim: "what the paper says",
///     kinds: &[Kind::Counts],
///     seconds: (10, 100),
///     needs: &["nbtree"],
///     make: made,
/// };
/// assert_eq!(entry.family(), "paper");
/// ```
pub struct Entry {
    /// Its name: family and place, such as `nbtree.table1`.
    pub id: &'static str,
    /// What is measured.
    pub what: &'static str,
    /// What the paper claims; for experiments of our own, what is shown.
    pub claim: &'static str,
    /// What it needs.
    pub kinds: &'static [Kind],
    /// Seconds that it takes at about, on a quiet machine with two cores: quick, full.
    pub seconds: (u32, u32),
    /// Designs of the catalogue that it runs.
    pub needs: &'static [&'static str],
    /// The function that makes it.
    pub make: Make,
}

impl Entry {
    /// The letters of its kinds, such as `C+L`.
    pub fn letters(&self) -> String {
        let letters: Vec<_> = self.kinds.iter().map(|kind| kind.letter().to_string()).collect();
        letters.join("+")
    }

    /// The family: the part of the name before the first dot.
    pub fn family(&self) -> &'static str {
        self.id.split('.').next().unwrap_or(self.id)
    }
}

/// A paper, or ourselves.
pub struct Family {
    /// The first part of the names of its experiments.
    pub name: &'static str,
    /// The paper.
    pub source: &'static str,
    /// The machine and sizes of the paper.
    pub setting: &'static str,
    /// Its experiments.
    pub entries: &'static [Entry],
}

/// Everything there is. A family joins with one line.
pub static FAMILIES: &[Family] =
    &[ours::FAMILY, nbtree::FAMILY, fast_fair::FAMILY, rntree::FAMILY, sptree::FAMILY, f3::FAMILY];

/// All experiments, in the order of the families.
pub fn entries() -> impl Iterator<Item = &'static Entry> {
    FAMILIES.iter().flat_map(|family| family.entries)
}

/// The experiments of a name: one, a family's (`nbtree`), or all (`all`). Empty if there is none.
pub fn named(name: &str) -> Vec<&'static Entry> {
    let is_meant = |entry: &&Entry| name == "all" || entry.id == name || entry.family() == name;
    entries().filter(is_meant).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use everleaf_designs::catalogue;

    /// What a quick experiment of a test is given.
    pub(super) fn quick(tell: &mut dyn FnMut(&str)) -> Context<'_> {
        Context { scale: Scale::Quick, seed: 1, prove: no_prover, tell }
    }

    #[test]
    fn experiments_are_named_once_and_say_what_they_show() {
        let mut seen = std::collections::BTreeSet::new();
        for family in FAMILIES {
            for entry in family.entries {
                assert!(seen.insert(entry.id), "{} twice", entry.id);
                assert_eq!(entry.family(), family.name);
                assert!(!entry.what.is_empty() && !entry.kinds.is_empty(), "{}", entry.id);
                assert!(!entry.claim.is_empty(), "{}", entry.id);
                for design in entry.needs {
                    assert!(catalogue::names().contains(design), "{}: no {design}", entry.id);
                }
            }
        }
        assert_eq!(named("all").len(), seen.len());
        assert_eq!(named("fast-fair.flushes").len(), 1);
        assert!(named("fast-fair").len() > 3 && named("nothing").is_empty());
    }

    /// What is quick stays quick: twelve minutes in all.
    #[test]
    fn the_quick_runs_together_take_less_than_twelve_minutes() {
        let sum: u32 = entries().map(|entry| entry.seconds.0).sum();
        assert!(sum < 720, "{sum} s");
    }
}
