//! What an experiment is: its name, its claim, what it needs, and the function that makes it.

use everleaf_bench::BenchError;

use super::finding::{Results, Scale};
use super::proof::Prover;

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
pub type Make = fn(&mut Context<'_>) -> Result<Results, BenchError>;

/// An experiment.
///
/// # Example
/// ```
/// use everleaf_bench::BenchError;
/// use everleaf_lab::experiment::{Context, Entry, Figure, Kind, Results};
/// fn made(context: &mut Context<'_>) -> Result<Results, BenchError> {
///     let keys = context.scale.pick(100_000_u64, 10_000_000);
///     let ours = keys as f64 / 1e6; // count or measure here
///     let figure = Figure::near("what it is", 0.1, ours, "lines", 0.05).if_above("why more");
///     Ok(Results { figures: vec![figure], ..Results::default() })
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

/// An experiment of a paper that cannot be run here.
pub struct CannotRun {
    /// The name that it would have.
    pub id: &'static str,
    /// What is measured.
    pub what: &'static str,
    /// What the paper claims.
    pub claim: &'static str,
    /// Why not.
    pub why_not: &'static str,
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
