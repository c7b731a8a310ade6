//! What operations on loaded trees wait for, by counts: tables and verdicts that several papers share.

use everleaf_bench::BenchError;
use everleaf_machine::simulated::Domain;

use super::finding::{Figure, Grid, Series};
use super::model::Latencies;
use super::{Context, Results};
use everleaf_lab_designs::count::{CountedOperation, load, scaled_caches};

/// The four operations, in the order of the tables.
pub(super) const FOUR: [CountedOperation; 4] = [
    CountedOperation::Insert,
    CountedOperation::Update,
    CountedOperation::Remove,
    CountedOperation::Get,
];

/// What is counted, and what a wait takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    /// Keys of each tree.
    pub keys: u64,
    /// Keys of the tree that the caches are scaled for.
    pub reference: f64,
    pub domain: Domain,
    pub latencies: Latencies,
}

/// Nanoseconds of waiting of an operation of one design.
#[derive(Clone, Debug)]
pub(super) struct Waits {
    pub design: &'static str,
    /// In the order of [`FOUR`].
    pub of: [f64; 4],
}

impl Waits {
    /// The mean of the four: what a mix of a quarter each waits.
    pub fn mean(&self) -> f64 {
        self.of.iter().sum::<f64>() / self.of.len() as f64
    }
}

/// The waits of a design among others; no number if it is not there.
pub(super) fn find(all: &[Waits], design: &str) -> [f64; 4] {
    let found = all.iter().find(|waits| waits.design == design);
    found.map_or([f64::NAN; 4], |waits| waits.of)
}

/// Counts each design: random inserts with all splits, then a fifth as many of each other operation.
///
/// # Errors
/// The design's.
pub(super) fn count(
    context: &mut Context<'_>,
    designs: &[&'static str],
    setting: Setting,
) -> Result<Vec<Waits>, BenchError> {
    let one = |design: &&'static str| {
        (context.tell)(&format!("counting {design}"));
        let mut config = scaled_caches(setting.keys, setting.reference);
        config.domain = setting.domain;
        let mut loaded = load::design(design, config, setting.keys, context.seed)?;
        for operation in &FOUR[1..] {
            loaded.perform(*operation, setting.keys / 5)?;
        }
        let waiting = |operation| setting.latencies.waiting(&loaded.tree.tally(operation));
        Ok(Waits { design, of: FOUR.map(waiting) })
    };
    designs.iter().map(one).collect()
}

/// Adds the table and the series of some waits.
pub(super) fn describe(outcome: &mut Results, all: &[Waits], title: &str) {
    let columns: Vec<&str> =
        std::iter::once("tree").chain(FOUR.iter().map(|operation| operation.name())).collect();
    let mut grid = Grid::new(title, &columns);
    for waits in all {
        grid.add(waits.design, waits.of);
        for (operation, wait) in FOUR.iter().zip(waits.of) {
            let name = format!("{} {}", waits.design, operation.name());
            outcome.series.push(Series::count(name, "ns modelled", wait));
        }
    }
    outcome.tables.push(grid);
}

/// The design that waits least for an operation, and how long.
pub(super) fn least(
    all: &[Waits],
    operation: CountedOperation,
    takes_part: fn(&str) -> bool,
) -> (&'static str, f64) {
    let at = FOUR.iter().position(|one| *one == operation).expect("one of the four");
    let among = all.iter().filter(|waits| takes_part(waits.design));
    let least = among.min_by(|one, other| one.of[at].total_cmp(&other.of[at]));
    least.map_or(("none", f64::NAN), |waits| (waits.design, waits.of[at]))
}

/// What a query of `length` pairs reads, by count, for each design; the first is the measure of the
/// verdicts: each other's lines a pair in multiples of its.
///
/// # Errors
/// The design's.
pub(super) fn ranges(
    context: &mut Context<'_>,
    designs: &[&'static str],
    setting: (u64, f64, usize),
    outcome: &mut Results,
) -> Result<(), BenchError> {
    let (keys, reference, length) = setting;
    let scan = CountedOperation::Scan(length);
    let columns = ["tree", "lines read a pair", "misses to wait for a pair"];
    let mut grid = Grid::new(format!("a query of {length} of {keys} pairs, counted"), &columns);
    let mut lines: Vec<(&str, f64)> = Vec::new();
    for design in designs {
        (context.tell)(&format!("counting {design}"));
        let mut loaded = load::design(design, scaled_caches(keys, reference), keys, context.seed)?;
        loaded.perform(scan, 100)?;
        let tally = loaded.tree.tally(scan);
        let each = |sum| tally.per_operation(sum) / length as f64;
        let read = each(tally.pool_lines_read);
        grid.add(*design, [read, each(tally.pool_chains)]);
        let name = format!("{design} query of {length}");
        outcome.series.push(Series::count(name, "pool lines read", read));
        lines.push((design, read));
    }
    outcome.tables.push(grid);
    for (design, read) in &lines[1..] {
        let what = format!("pool lines a pair of {design} in multiples of {}'s", lines[0].0);
        outcome.figures.push(Figure::shown(what, read / lines[0].1, ""));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_design_that_waits_least_is_found_among_those_compared() {
        let waits = |design, of| Waits { design, of };
        let all = [waits("a", [1.0, 2.0, 3.0, 6.0]), waits("b", [2.0, 1.0, 1.0, 1.0])];
        assert_eq!(all[0].mean(), 3.0);
        assert_eq!(least(&all, CountedOperation::Get, |_| true), ("b", 1.0));
        assert_eq!(least(&all, CountedOperation::Get, |design| design == "a"), ("a", 6.0));
        assert_eq!(find(&all, "b")[0], 2.0);
        assert!(find(&all, "c")[0].is_nan());
    }

    #[test]
    fn every_operation_of_a_counted_tree_waits_for_something() {
        let mut tell = |_: &str| ();
        let mut context = super::super::tests::quick(&mut tell);
        let setting = Setting {
            keys: 2000,
            reference: 16e6,
            domain: Domain::Adr,
            latencies: Latencies::MODULES,
        };
        let all = count(&mut context, &["nbtree", "fast-fair"], setting).unwrap();
        assert!(all.iter().all(|waits| waits.of.iter().all(|wait| *wait > 0.0)), "{all:?}");
        let mut outcome = Results::default();
        describe(&mut outcome, &all, "waiting");
        ranges(&mut context, &["nbtree", "fptree"], (2000, 16e6, 50), &mut outcome).unwrap();
        assert_eq!((outcome.tables.len(), outcome.figures.len()), (2, 1));
        assert_eq!(outcome.series.len(), 10);
    }
}
