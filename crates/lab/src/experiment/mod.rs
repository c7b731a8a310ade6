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
mod entry;
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

pub use entry::{CannotRun, Context, Entry, Family, Kind, Make};
pub use finding::{
    Axis, Bar, Chart, Figure, Finding, Grid, Judgement, Line, Results, Scale, Series, Side,
};
pub(crate) use finding::{has_changed, number};
pub use pace::Pace;
pub use proof::{PAPERS_PROTOCOL_WITH_THREADS, Proof, Prover, no_prover};
pub(crate) use runner::read_json;
pub use runner::{Folder, Plan, run};

/// Everything there is. A family joins with one line.
pub static FAMILIES: &[Family] =
    &[ours::FAMILY, nbtree::FAMILY, fast_fair::FAMILY, rntree::FAMILY, sptree::FAMILY, f3::FAMILY];

/// What the papers have and this machine cannot do; `docs/laboratory.md` has the same table.
pub static CANNOT_RUN: &[CannotRun] = &[CannotRun {
    id: "nbtree.fig16",
    what: "Figure 16: a pool for each of two nodes of memory",
    claim: "1.7 times",
    why_not: "it needs a machine with two sockets, with persistent memory at each",
}];

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

    #[test]
    fn the_page_has_what_cannot_be_run() {
        let page = include_str!("../../../../docs/laboratory.md");
        for absent in CANNOT_RUN {
            assert!(named(absent.id).is_empty(), "{} can be run", absent.id);
            let (place, what) = absent.what.split_once(": ").expect("place and what");
            let row = format!("{place} | {what} | {} | {} |", absent.claim, absent.why_not);
            assert!(page.contains(&row), "no row {row}");
        }
    }

    /// What is quick stays quick: twelve minutes in all.
    #[test]
    fn the_quick_runs_together_take_less_than_twelve_minutes() {
        let sum: u32 = entries().map(|entry| entry.seconds.0).sum();
        assert!(sum < 720, "{sum} s");
    }
}
