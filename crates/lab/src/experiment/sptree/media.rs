//! Bytes of the medium: Figures 2, 3 and 7 e to l. The authors' programs are played back
//! ([`crate::replay`]); SPTree is also counted as it is built here.

use everleaf_bench::statistics::median;
use everleaf_bench::{BenchError, Workload};

use super::super::finding::{Figure, Grid, Series};
use super::super::timed::{self, Contest};
use super::super::{Context, Results};
use crate::replay::{LogWrites, PAPERS_KEYS, Program, Techniques, Traffic, Volumes, play};
use everleaf_lab_designs::Scans;
use everleaf_lab_designs::count::{CountedOperation, load, scaled_caches};
use everleaf_machine::simulated::counting::Tally;

/// What may lie between a prediction and what was measured.
const TOLERANCE: f64 = 0.15;

const COLUMNS: [&str; 5] = [
    "program, operation",
    "controller B read",
    "controller B written",
    "media B read",
    "media B written",
];

fn keys(context: &Context<'_>) -> u64 {
    context.scale.pick(50_000, 1_000_000)
}

fn played(context: &mut Context<'_>, name: &str, program: Program) -> Volumes {
    (context.tell)(&format!("playing {name}"));
    play(program, keys(context), context.seed)
}

/// What was played back, judged only with as many keys as the model is meant for.
fn judged(context: &Context<'_>, mut outcome: Results) -> Results {
    if context.scale.pick(true, false) {
        outcome.figures = outcome.figures.into_iter().map(Figure::without_verdict).collect();
        outcome.notes.push(
            "With 50,000 keys the caches of the model are too small against the nodes, so what is played back has no \
             verdict: `--full` takes a million keys and judges."
                .to_owned(),
        );
    }
    outcome
}

fn row(grid: &mut Grid, name: String, traffic: &Traffic) {
    let Traffic { controller_read, controller_written, media_read, media_written } = *traffic;
    grid.add(name, [controller_read, controller_written, media_read, media_written]);
}

/// Gigabytes of a whole load as the paper counts them: thousands of 2^20 bytes.
fn gigabytes(each: f64) -> f64 {
    each * PAPERS_KEYS / f64::from(1 << 20) / 1000.0
}

const NONE: Techniques = Techniques::of("");
const BUFFERING: Techniques = Techniques::of("b");

/// Figure 2, with what its bars say.
pub(super) fn buffers(context: &mut Context<'_>) -> Result<Results, BenchError> {
    let programs: [(&str, Program, f64); 6] = [
        ("CCEH", Program::Cceh(NONE), 70.6),
        ("CCEH, buffers", Program::Cceh(BUFFERING), 16.6),
        ("FAST & FAIR", Program::FastFair(NONE), 98.4),
        ("FAST & FAIR, buffers", Program::FastFair(BUFFERING), 17.9),
        ("skip list", Program::SkipList(NONE), 53.4),
        ("skip list, buffers", Program::SkipList(BUFFERING), 28.6),
    ];
    let mut outcome = Results::default();
    for (name, program, claim) in programs {
        let ours = gigabytes(played(context, name, program).load.media_written);
        outcome.figures.push(Figure::near(name, claim, ours, "GB written", TOLERANCE));
    }
    Ok(judged(context, outcome))
}

/// A program, and the media bytes an insert reads and writes by the authors' data.
type Measured = (&'static str, Program, [f64; 2]);

const CASES: [Measured; 12] = [
    ("CCEH", Program::Cceh(NONE), [892.8, 611.9]),
    ("CCEH B", Program::Cceh(BUFFERING), [391.2, 143.7]),
    ("CCEH BO", Program::Cceh(Techniques::of("bo")), [326.4, 142.7]),
    ("CCEH BOC", Program::Cceh(Techniques::of("boc")), [322.7, 142.7]),
    ("CCEH B, log", Program::Cceh(Techniques::of("bf")), [428.1, 289.1]),
    ("CCEH BOC, log", Program::Cceh(Techniques::of("bocf")), [355.6, 280.7]),
    ("FAST & FAIR", Program::FastFair(NONE), [1574.7, 852.6]),
    ("FAST & FAIR B", Program::FastFair(BUFFERING), [1001.1, 155.5]),
    ("FAST & FAIR BO", Program::FastFair(Techniques::of("bo")), [978.7, 215.2]),
    ("FAST & FAIR BOC", Program::FastFair(Techniques::of("boc")), [231.9, 214.2]),
    ("FAST & FAIR B, log", Program::FastFair(Techniques::of("bf")), [1059.0, 282.3]),
    ("FAST & FAIR BOC, log", Program::FastFair(Techniques::of("bocf")), [271.0, 343.0]),
];

/// The same with a log that is left to the caches, as reading the programs of the authors suggests; what was
/// measured of them says otherwise.
const STORED_LOGS: [(&str, Program); 4] = [
    ("CCEH B, log not flushed", Program::Cceh(Techniques::of("bl"))),
    ("CCEH BOC, log not flushed", Program::Cceh(Techniques::of("bocl"))),
    ("FAST & FAIR B, log not flushed", Program::FastFair(Techniques::of("bl"))),
    ("FAST & FAIR BOC, log not flushed", Program::FastFair(Techniques::of("bocl"))),
];

/// The skip list, of which no data are published.
const SKIP_LISTS: [(&str, Techniques); 8] = [
    ("skip list", NONE),
    ("skip list B", BUFFERING),
    ("skip list C", Techniques::of("c")),
    ("skip list BC", Techniques::of("bc")),
    ("skip list B, log", Techniques::of("bf")),
    ("skip list BC, log", Techniques::of("bcf")),
    ("skip list B, log not flushed", Techniques::of("bl")),
    ("skip list BC, log not flushed", Techniques::of("bcl")),
];

/// Media bytes that CCEH reads for a lookup of a key that is there, by the authors' data.
const CCEH_LOOKUP: f64 = 528.0;

/// Figure 3, the volumes of one thread.
pub(super) fn techniques(context: &mut Context<'_>) -> Result<Results, BenchError> {
    let mut outcome = Results::default();
    let mut grid = Grid::new("bytes of an operation, played back", &COLUMNS);
    let (mut near, mut of) = (0, 0);
    for (name, program, [read, written]) in CASES {
        let volumes = played(context, name, program);
        phases(&mut outcome, &mut grid, name, &volumes);
        let load = volumes.load;
        let figure = |what, claim, ours| {
            Figure::near(format!("{name}, {what} by an insert"), claim, ours, "B", TOLERANCE)
        };
        outcome.figures.push(figure("read", read, load.media_read));
        outcome.figures.push(figure("written", written, load.media_written));
        if program == Program::Cceh(NONE) {
            let what = format!("{name}, read by a positive lookup");
            let read = volumes.positive.media_read;
            outcome.figures.push(Figure::near(what, CCEH_LOOKUP, read, "B", TOLERANCE));
        }
        if program != Program::Cceh(NONE) && program != Program::FastFair(NONE) {
            let pairs = [(read, load.media_read), (written, load.media_written)];
            of += pairs.len();
            near += pairs.iter().filter(|pair| (pair.1 / pair.0 - 1.0).abs() <= TOLERANCE).count();
        }
    }
    // Each of them has its verdict above.
    outcome.figures.push(Figure::shown(
        "volumes of programs with buffers within 15 %",
        near as f64,
        &format!("of {of}"),
    ));
    for (name, program) in STORED_LOGS {
        let load = played(context, name, program).load;
        row(&mut grid, format!("{name}, insert"), &load);
        series(&mut outcome, name, &load);
    }
    for (name, techniques) in SKIP_LISTS {
        let volumes = played(context, name, Program::SkipList(techniques));
        phases(&mut outcome, &mut grid, name, &volumes);
    }
    outcome.tables.push(grid);
    Ok(judged(context, outcome))
}

fn series(outcome: &mut Results, name: &str, load: &Traffic) {
    for (what, bytes) in [("read", load.media_read), ("written", load.media_written)] {
        let name = format!("{name} insert, {what}");
        outcome.series.push(Series::count(name, "media B", bytes));
    }
}

/// All phases of a program.
fn phases(outcome: &mut Results, grid: &mut Grid, name: &str, volumes: &Volumes) {
    let Volumes { load, positive, negative, scan } = volumes;
    row(grid, format!("{name}, insert"), load);
    row(grid, format!("{name}, positive lookup"), positive);
    row(grid, format!("{name}, negative lookup"), negative);
    row(grid, format!("{name}, scan of 50"), scan);
    series(outcome, name, load);
}

const fn sptree(buffered: Option<LogWrites>, filtered: bool, flushes_bitmap: bool) -> Program {
    Program::SpTree { buffered, filtered, flushes_bitmap }
}

/// SPTree as published, by variant.
const SPTREES: [(&str, Program); 7] = [
    ("SPTree, bitmap not flushed", sptree(None, true, false)),
    ("SPTree", sptree(None, true, true)),
    ("SPTree without filters", sptree(None, false, true)),
    ("SPTree with buffers", sptree(Some(LogWrites::Flushed), true, true)),
    ("SPTree with buffers, without filters", sptree(Some(LogWrites::Flushed), false, true)),
    ("SPTree with buffers, without log", sptree(Some(LogWrites::None), true, true)),
    ("SPTree with buffers, without log and filters", sptree(Some(LogWrites::None), false, true)),
];

/// Media bytes that FAST & FAIR reads by the authors' data: insert, lookups, scan of 50.
const FAST_FAIR: [(&str, f64); 4] = [
    ("an insert", 1577.0),
    ("a positive lookup", 1656.9),
    ("a negative lookup", 2184.9),
    ("a scan of 50", 3553.9),
];

/// Figure 7 e to h: FAST & FAIR, PACTree and SPTree played back, then ours as they are counted.
pub(super) fn trees(context: &mut Context<'_>) -> Result<Results, BenchError> {
    let mut outcome = Results::default();
    let mut grid = Grid::new("bytes of an operation, played back", &COLUMNS);
    let fast_fair = played(context, "FAST & FAIR", Program::FastFair(NONE));
    phases(&mut outcome, &mut grid, "FAST & FAIR", &fast_fair);
    let ours = [fast_fair.load, fast_fair.positive, fast_fair.negative, fast_fair.scan];
    for ((what, claim), traffic) in FAST_FAIR.into_iter().zip(ours) {
        let what = format!("FAST & FAIR, read by {what}");
        outcome.figures.push(Figure::near(what, claim, traffic.media_read, "B", TOLERANCE));
    }
    let pactree = played(context, "PACTree", Program::PacTree);
    phases(&mut outcome, &mut grid, "PACTree", &pactree);
    let mut loads = Vec::new();
    for (name, program) in SPTREES {
        let volumes = played(context, name, program);
        phases(&mut outcome, &mut grid, name, &volumes);
        loads.push(volumes.load);
        if program == sptree(None, true, true) {
            for (name, other) in [("FAST & FAIR", &fast_fair), ("PACTree", &pactree)] {
                let share = volumes.positive.media_read / other.positive.media_read;
                let what = format!("SPTree's positive lookup, as a share of {name}'s");
                outcome.figures.push(Figure::near(what, 1.0 / 3.0, share, "", TOLERANCE));
            }
            let bytes = volumes.negative.media_read;
            let what = "SPTree's negative lookup reads";
            let said =
                Figure::statement(what, "almost nothing", format!("{bytes:.1} B"), bytes < 20.0);
            outcome.figures.push(said);
        }
    }
    let volume = |load: &Traffic| load.media_read + load.media_written;
    let saved = volume(&loads[0]) / volume(&loads[3]);
    outcome.figures.push(Figure::near("an insert with buffers, saved", 3.0, saved, "x", TOLERANCE));
    outcome.tables.push(grid);
    built(context, &mut outcome)?;
    Ok(judged(context, outcome))
}

/// Pairs of a scan in the paper.
const SCANNED: u32 = 50;
const SCAN: CountedOperation = CountedOperation::Scan(SCANNED as usize);

/// What is counted as it is built here.
const BUILT: [&str; 22] = [
    "cceh",
    "cceh-b",
    "cceh-bo",
    "cceh-bc",
    "cceh-boc",
    "fast-fair",
    "fast-fair-b",
    "fast-fair-bo",
    "fast-fair-bc",
    "fast-fair-boc",
    "p-skiplist",
    "p-skiplist-b",
    "p-skiplist-bo",
    "p-skiplist-c",
    "p-skiplist-bc",
    "p-skiplist-boc",
    "pactree",
    "sptree",
    "sptree-unfiltered",
    "sptree-buffered",
    "sptree-plain",
    "sptree-unlogged",
];

/// The trees as they are built here, on the counting machine.
fn built(context: &mut Context<'_>, outcome: &mut Results) -> Result<(), BenchError> {
    let keys = context.scale.pick(20_000, 500_000);
    let title = "bytes of an operation, our trees as counted, without prefetchers";
    let columns = ["tree, operation", "media B read", "media B written", "lines flushed", "drains"];
    let mut grid = Grid::new(title, &columns);
    for name in BUILT {
        for (operation, tally) in count_phases(context, name, keys)? {
            let each = |sum| tally.per_operation(sum);
            let numbers = [
                each(tally.media_read_bytes),
                each(tally.media_written_bytes),
                each(tally.flushes),
                each(tally.drains),
            ];
            grid.add(format!("{name}, {}", operation.name()), numbers);
        }
    }
    outcome.tables.push(grid);
    Ok(())
}

/// Counts the phases of a tree as it is built here.
fn count_phases(
    context: &mut Context<'_>,
    name: &str,
    keys: u64,
) -> Result<Vec<(CountedOperation, Tally)>, BenchError> {
    (context.tell)(&format!("counting {name}"));
    let mut loaded = load::design(name, scaled_caches(keys, PAPERS_KEYS), keys, context.seed)?;
    loaded.perform(CountedOperation::Get, keys / 8)?;
    loaded.perform(CountedOperation::GetAbsent, keys / 8)?;
    let mut operations =
        vec![CountedOperation::Insert, CountedOperation::Get, CountedOperation::GetAbsent];
    if loaded.tree.info().scans != Scans::Never {
        loaded.perform(SCAN, keys / 30)?;
        operations.push(SCAN);
    }
    Ok(operations.into_iter().map(|operation| (operation, loaded.tree.tally(operation))).collect())
}

/// Figure 7 i to l, of one thread: the bytes of an operation by counts, times the operations that a thread makes.
pub(super) fn bandwidth(context: &mut Context<'_>) -> Result<Results, BenchError> {
    const DESIGNS: [&str; 4] = ["sptree", "sptree-buffered", "fast-fair", "pactree"];
    const WORKLOADS: [Workload; 4] =
        [Workload::Insert, Workload::Get, Workload::GetAbsent, Workload::Scan];
    let contest = Contest {
        designs: &DESIGNS,
        workloads: &WORKLOADS,
        keys: context.scale.pick(100_000, 4_000_000),
        operations: context.scale.pick(40_000, 1_000_000),
        scan_length: SCANNED,
        rounds: context.scale.pick(3, 7),
    };
    let reports = timed::run(context, &contest)?;
    let keys = context.scale.pick(20_000, 500_000);
    let columns = ["tree, operation", "media B", "M/s of one thread", "MB/s of one thread"];
    let mut grid = Grid::new("what one thread moves", &columns);
    let mut outcome = Results::default();
    let mut bytes = vec![];
    for name in DESIGNS {
        let report = timed::of(&reports, name);
        for ((operation, tally), workload) in
            count_phases(context, name, keys)?.into_iter().zip(WORKLOADS)
        {
            let each = tally.per_operation(tally.media_read_bytes + tally.media_written_bytes);
            // The unit of a scan is a pair.
            let units = if operation == SCAN { f64::from(SCANNED) } else { 1.0 };
            let ns = median(&timed::costs(report, workload)).unwrap_or(f64::NAN) * units;
            grid.add(format!("{name}, {}", operation.name()), [each, 1e3 / ns, each * 1e3 / ns]);
            bytes.push((name, operation, each));
        }
    }
    outcome.tables.push(grid);
    outcome.series = reports.iter().flat_map(timed::series).collect();
    let of = |name: &str, operation| {
        let found = bytes.iter().find(|one| one.0 == name && one.1 == operation);
        found.map_or(f64::NAN, |one| one.2)
    };
    for other in ["fast-fair", "pactree"] {
        for operation in
            [CountedOperation::Insert, CountedOperation::Get, CountedOperation::GetAbsent]
        {
            let (own, theirs) = (of("sptree", operation), of(other, operation));
            let what = format!("media bytes of {other} and SPTree, {}", operation.name());
            let found = format!("{theirs:.0} and {own:.0} an operation");
            outcome.figures.push(Figure::statement(
                what,
                "as much bandwidth for less throughput",
                found,
                theirs > own,
            ));
        }
    }
    outcome.notes.push(
        "The speeds are those of a pool in ordinary memory. With 20 threads on persistent memory its bandwidth is \
         the limit, which is not modelled here. Bytes of an operation are the same with one thread and with many."
            .to_owned(),
    );
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_is_as_many_gigabytes_as_the_figure_says() {
        // The authors' data and their figure, of the same program.
        assert!((gigabytes(611.9) - 70.6).abs() < 0.1);
        assert!((gigabytes(852.6) - 98.4).abs() < 0.1);
    }

    /// The leaf used to be asked for beside its filter, so an absent key read its block for nothing.
    #[test]
    fn a_key_that_a_filter_knows_to_be_absent_reads_no_block() {
        for name in ["sptree", "sptree-buffered"] {
            let mut loaded = load::design(name, scaled_caches(4000, PAPERS_KEYS), 4000, 1).unwrap();
            loaded.perform(CountedOperation::GetAbsent, 2000).unwrap();
            loaded.perform(CountedOperation::Get, 2000).unwrap();
            let read = |operation| {
                let tally = loaded.tree.tally(operation);
                tally.per_operation(tally.media_read_bytes)
            };
            assert!(
                read(CountedOperation::GetAbsent) < 16.0,
                "{name}: {}",
                read(CountedOperation::GetAbsent)
            );
            assert!(read(CountedOperation::Get) > 100.0, "{name}: {}", read(CountedOperation::Get));
        }
    }

    #[test]
    fn every_program_has_a_name_of_its_own() {
        let cases = CASES.iter().map(|case| case.0);
        let others = SPTREES.into_iter().chain(STORED_LOGS).map(|case| case.0);
        let names = cases.chain(SKIP_LISTS.map(|case| case.0)).chain(others);
        let mut names: Vec<&str> = names.collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
