//! Claims about crashes and orders of execution: proven on the simulated machine, not measured.
//!
//! Proofs are another part of the program, beside the laboratory: a program that runs experiments hands in a
//! [`Prover`].

use std::time::Duration;

use everleaf_bench::BenchError;
use everleaf_bench::table::grouped;

use super::finding::{Figure, Grid};
use super::{Context, Results};

/// What came of a search for orders of execution and crashes that break a promise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proof {
    /// Programs that were run.
    pub programs: u64,
    /// Schedules of these, all together.
    pub schedules: u64,
    /// States after a crash that were recovered and judged.
    pub crashes: u64,
    /// What went wrong, if something did.
    pub failure: Option<String>,
}

/// Searches the structure of a name for failures, for about so long, with a seed: the same seed, the
/// same search.
///
/// # Errors
/// There is no such structure, or nothing that could search.
pub type Prover =
    fn(structure: &'static str, budget: Duration, seed: u64) -> Result<Proof, BenchError>;

/// The prover of a program that has none.
///
/// # Errors
/// Always.
pub fn no_prover(structure: &'static str, _: Duration, _: u64) -> Result<Proof, BenchError> {
    let text = format!("this program cannot prove {structure}: use `everleaf-lab run`");
    Err(BenchError::Settings(text))
}

/// What a prover is asked for that shall run the published NBTree with several threads: the programs of
/// `docs/trees/nbtree-published.md`. Any other search of it has one thread, with which it keeps its
/// promise.
pub const PAPERS_PROTOCOL_WITH_THREADS: &str = "nbtree-published with threads";

/// Why programs of several threads lose something there.
const LOSSES: &str = "its operations take several steps, and do not look again at what others have done in between; \
                      docs/trees/nbtree-published.md tells the course of each program";

/// Seconds for which a structure is searched: quick, full.
const SECONDS: (u32, u32) = (4, 300);
/// What an experiment takes that looks at one structure.
pub(super) const SECONDS_OF_ONE: (u32, u32) = SECONDS;
/// What an experiment takes that looks at two.
pub(super) const SECONDS_OF_TWO: (u32, u32) = (2 * SECONDS.0, 2 * SECONDS.1);
/// What an experiment takes that looks at three.
pub(super) const SECONDS_OF_THREE: (u32, u32) = (3 * SECONDS.0, 3 * SECONDS.1);

/// Searches structures for failures, one after the other.
pub(super) fn search(
    context: &mut Context<'_>,
    structures: &[&'static str],
) -> Result<Results, BenchError> {
    search_for(context, structures, SECONDS)
}

/// The same, each for so many seconds: quick, full.
pub(super) fn search_for(
    context: &mut Context<'_>,
    structures: &[&'static str],
    each: (u32, u32),
) -> Result<Results, BenchError> {
    let budget = Duration::from_secs(context.scale.pick(each.0, each.1).into());
    let mut outcome = Results::default();
    let columns = ["structure", "programs", "schedules", "crashes recovered"];
    let mut grid = Grid::new("what was searched", &columns);
    for structure in structures {
        (context.tell)(&format!("searching {structure} for failures"));
        let proof = (context.prove)(structure, budget, context.seed)?;
        let numbers = [proof.programs, proof.schedules, proof.crashes].map(grouped);
        grid.rows.push(std::iter::once((*structure).to_owned()).chain(numbers).collect());
        let schedules = grouped(proof.schedules);
        let ours = match &proof.failure {
            None if proof.schedules == 0 => "nothing was searched".to_owned(),
            None => format!("none in {schedules} schedules, {} crashes", grouped(proof.crashes)),
            Some(failure) => failure.clone(),
        };
        let is_clean = proof.failure.is_none() && proof.schedules > 0;
        let what = format!("{structure}: orders and crashes that break its promise");
        let figure = Figure::statement(what, "none", ours, is_clean);
        let is_known = *structure == PAPERS_PROTOCOL_WITH_THREADS && proof.failure.is_some();
        outcome.figures.push(if is_known { figure.because(LOSSES) } else { figure });
    }
    outcome.tables.push(grid);
    outcome.notes.push(
        "A search for a given time through random programs, their schedules, and the crashes in them; \
         `everleaf-lab prove` searches as long as wanted, and shows what fails. What promises something to \
         one thread at a time only is searched with one."
            .to_owned(),
    );
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::super::tests::quick;
    use super::*;

    /// Fails for one name, is empty for another, and clean otherwise.
    #[expect(clippy::unnecessary_wraps, reason = "it is a prover")]
    fn prover(structure: &'static str, _: Duration, seed: u64) -> Result<Proof, BenchError> {
        let failure = (structure == "wrong").then(|| "a key is lost".to_owned());
        let schedules = if structure == "empty" { 0 } else { 1000 * seed };
        Ok(Proof { programs: 1, schedules, crashes: 2, failure })
    }

    #[test]
    fn a_search_agrees_only_if_it_searched_and_nothing_failed() {
        let mut tell = |_: &str| ();
        let mut context = Context { prove: prover, ..quick(&mut tell) };
        let outcome = search(&mut context, &["right", "wrong", "empty"]).unwrap();
        let ours: Vec<(&str, bool)> =
            outcome.figures.iter().map(|figure| (figure.ours.as_str(), figure.differs())).collect();
        assert_eq!(
            ours,
            [
                ("none in 1,000 schedules, 2 crashes", false),
                ("a key is lost", true),
                ("nothing was searched", true),
            ]
        );
        assert_eq!(outcome.tables[0].rows.len(), 3);
        assert!(search(&mut quick(&mut |_| ()), &["right"]).is_err(), "nothing can search");
    }
}
