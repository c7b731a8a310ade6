//! Section VI.I: the trees behind a server of the protocol of Redis.

use everleaf_bench::measure::redis::{self, Server};
use everleaf_bench::measure::{Case, Length, Settings};
use everleaf_bench::report::Row;
use everleaf_bench::statistics::{Ratio, median};
use everleaf_bench::{BenchError, Workload};
use everleaf_machine::topology;

use super::super::cores::skewed;
use super::super::finding::{Figure, Grid};
use super::super::{Context, Results};
use crate::loopback::{Loopback, VALUE_SIZE};

/// The first is what the others are compared with.
const DESIGNS: [&str; 6] = ["nbtree", "fast-fair", "rntree", "fptree", "utree", "bztree"];
/// Requests of a connection that are under way at once.
const DEPTH: usize = 16;
/// Connections, each with a thread of the server, for each processor.
const CONNECTIONS_PER_CPU: usize = 2;

/// One tree behind a server, and what was measured of it, round by round.
struct Served {
    design: &'static str,
    loopback: Loopback,
    per_second: Vec<f64>,
    p99_us: Vec<f64>,
}

pub(super) fn run(context: &mut Context<'_>) -> Result<Results, BenchError> {
    let keys = context.scale.pick(100_000, 4_000_000);
    let operations = context.scale.pick(60_000, 1_000_000);
    let rounds = context.scale.pick(3, 9);
    compare(context, keys, operations, rounds)
}

/// Measures all trees in turn, so often.
fn compare(
    context: &mut Context<'_>,
    keys: u64,
    operations: u64,
    rounds: usize,
) -> Result<Results, BenchError> {
    let settings = Settings {
        keys,
        value_size: VALUE_SIZE,
        rounds: 1,
        length: Length::Operations(operations),
        cases: vec![Case { workload: Workload::YcsbA, distribution: skewed(0.99), threads: 1 }],
        seed: context.seed,
        ..Settings::default()
    };
    let start = |design: &&'static str| {
        let loopback = Loopback::start(design, settings.keys)?;
        Ok(Served { design, loopback, per_second: vec![], p99_us: vec![] })
    };
    let mut all = DESIGNS.iter().map(start).collect::<Result<Vec<Served>, BenchError>>()?;
    for round in 0..rounds {
        for served in &mut all {
            measure(context, &settings, served, round == 0)?;
        }
    }
    Ok(results(&all))
}

/// One round of one tree.
fn measure(
    context: &mut Context<'_>,
    settings: &Settings,
    served: &mut Served,
    is_loading: bool,
) -> Result<(), BenchError> {
    let server = Server {
        address: served.loopback.address(),
        password: None,
        connections: CONNECTIONS_PER_CPU * topology::allowed_cpus().len().max(1),
        depth: DEPTH,
        is_loading,
    };
    let design = served.design;
    let report = redis::run(&server, settings, &mut |progress| {
        (context.tell)(&format!("{design}: {}", progress.what));
    })?;
    let row: &Row = &report.rows[0];
    served.per_second.push(row.per_second.median);
    served.p99_us.push(row.latency.p99_ns as f64 / 1e3);
    Ok(())
}

fn results(all: &[Served]) -> Results {
    let mut outcome = Results::default();
    let title = "reads and writes half and half, zipfian .99, behind a server";
    let mut grid = Grid::new(title, &["tree", "K requests/s", "99th percentile us"]);
    for served in all {
        let middle = |values: &[f64]| median(values).unwrap_or(f64::NAN);
        grid.add(served.design, [middle(&served.per_second) / 1e3, middle(&served.p99_us)]);
    }
    outcome.tables.push(grid);
    let (first, others) = all.split_first().expect("there are designs");
    for other in others {
        let ratio = Ratio::of(&first.per_second, &other.per_second);
        let ours = ratio.map_or_else(|| "-".to_owned(), |ratio| ratio.to_string());
        let what = format!("throughput of {} in multiples of {}'s", first.design, other.design);
        let claim = "1.13 to 1.53 times the others with 28 threads";
        outcome.figures.push(Figure::statement(what, claim, ours, true).without_verdict());
    }
    outcome.notes.push(format!(
        "{} processors for server and client together, not 28 for the server alone; keys of 8 bytes, values of \
         {VALUE_SIZE}; the server is a loop around the tree, not the authors' Redis.",
        topology::allowed_cpus().len()
    ));
    outcome
}

#[cfg(test)]
mod tests {
    use super::super::super::tests::quick;
    use super::*;

    #[test]
    fn every_tree_is_compared_with_the_first_behind_the_server() {
        let outcome = compare(&mut quick(&mut |_| ()), 2000, 2000, 3).expect("measured");
        let table = &outcome.tables[0];
        assert_eq!(table.rows.len(), DESIGNS.len());
        assert!(table.rows.iter().flatten().all(|cell| cell != "NaN"), "{:?}", table.rows);
        assert_eq!(outcome.figures.len(), DESIGNS.len() - 1);
        assert!(outcome.figures.iter().all(|figure| figure.ours.contains(" to ")));
    }
}
