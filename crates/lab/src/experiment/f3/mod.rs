//! F3-tree: Safdar Jamil, Awais Khan, Bernd Burgstaller, Youngjae Kim, "Towards Scalable
//! Manycore-aware Persistent B+-Trees for Efficient Indexing in Cloud Environments".

mod run;

use everleaf_bench::BenchError;
use everleaf_bench::clock::thread_time;
use everleaf_bench::random::mix;
use everleaf_bench::report::Spread;
use everleaf_bench::statistics::Ratio;
use everleaf_index::IndexError;
use everleaf_machine::topology;

use super::finding::{Bar, Chart, Figure, Grid, Series};
use super::{Context, Entry, Family, Kind, Results, proof};
use run::{Setting, Work};

/// Key-based, node-based, and what they are compared with, which is first.
const FORMS: &[&str] = &["fast-fair", "f3-tree", "f3-tree-nodes"];
/// By limits to what is pending.
const LIMITS: &[&str] = &[
    "fast-fair",
    "f3-tree-100",
    "f3-tree",
    "f3-tree-1000",
    "f3-tree-unlimited",
    "f3-tree-nodes-100",
    "f3-tree-nodes-1000",
    "f3-tree-nodes-unlimited",
];
/// By entries of a future object, with as many in all; that of 14 is first.
const SIZES: &[&str] =
    &["f3-tree", "f3-tree-entries-6", "f3-tree-entries-30", "f3-tree-entries-62"];
/// The same, ascending, with the entries of an object as they are called in the table.
const SIZES_ASCENDING: [(&str, &str); 4] = [
    ("f3-tree-entries-6", "6 entries"),
    ("f3-tree", "14 entries"),
    ("f3-tree-entries-30", "30 entries"),
    ("f3-tree-entries-62", "62 entries"),
];
/// What is searched for failures: both forms, and both with threads that evaluate beside the writers.
const SEARCHED: [&str; 4] =
    ["f3-tree", "f3-tree-evaluators", "f3-tree-nodes", "f3-tree-nodes-evaluators"];
/// Seconds for which each of them is searched: quick, full.
const SECONDS_OF_EACH: (u32, u32) = (proof::SECONDS_OF_TWO.0 / 4, proof::SECONDS_OF_TWO.1 / 4);
/// What the figure of limits needs: those, and the sizes.
const LIMITS_AND_SIZES: &[&str] = &[
    "fast-fair",
    "f3-tree-100",
    "f3-tree",
    "f3-tree-1000",
    "f3-tree-unlimited",
    "f3-tree-nodes-100",
    "f3-tree-nodes-1000",
    "f3-tree-nodes-unlimited",
    "f3-tree-entries-6",
    "f3-tree-entries-30",
    "f3-tree-entries-62",
];

pub(super) const FAMILY: Family = Family {
    name: "f3",
    source: "Jamil, Khan, Burgstaller, Kim: Towards Scalable Manycore-aware Persistent B+-Trees for \
             Efficient Indexing in Cloud Environments",
    setting: "four Xeon E5-4640v2 with 40 cores, latency of persistent memory emulated; 1 M keys",
    entries: &[
        Entry {
            id: "f3.points",
            what: "Figures 1 to 3: contention, design, durability points",
            claim: "durably linearizable",
            kinds: &[Kind::Crashes],
            seconds: proof::SECONDS_OF_TWO,
            needs: &[],
            make: |context| proof::search_for(context, &SEARCHED, SECONDS_OF_EACH),
        },
        Entry {
            id: "f3.fig4a",
            what: "Figure 4a: sequential inserts by threads and evaluators",
            claim: "3.3 (node-based) and 2.4 times FAST & FAIR with up to 80 threads",
            kinds: &[Kind::ManyCores],
            seconds: (5, 400),
            needs: FORMS,
            make: |context| {
                let claims =
                    [("f3-tree-nodes", "3.3 times with 40 cores"), ("f3-tree", "2.4 times")];
                compete(context, FORMS, (Work::Ascending, ""), &claims)
            },
        },
        Entry {
            id: "f3.fig4b",
            what: "Figure 4b: random inserts",
            claim: "FAST & FAIR saturates at 8 threads; 3.4 times on average",
            kinds: &[Kind::ManyCores],
            seconds: (5, 400),
            needs: FORMS,
            make: |context| {
                let claims =
                    [("f3-tree", "3.4 times on average"), ("f3-tree-nodes", "less than that")];
                compete(context, FORMS, (Work::Random, ""), &claims)
            },
        },
        Entry {
            id: "f3.fig5",
            what: "Figure 5: limits to pending operations; and objects of 6, 14, 30 and 62 entries",
            claim: "producers wait; 1000 are as good as no limit at 40 threads",
            kinds: &[Kind::ManyCores],
            seconds: (12, 1500),
            needs: LIMITS_AND_SIZES,
            make: limits,
        },
        Entry {
            id: "f3.fig6",
            what: "Figure 6: reads with a fifth of the keys pending",
            claim: "worst without the hash table, as FAST & FAIR with it",
            kinds: &[Kind::Latency],
            seconds: (3, 150),
            needs: &["fast-fair", "f3-tree-unlimited", "f3-tree-nodes-unlimited"],
            make: reads,
        },
        Entry {
            id: "f3.fig7",
            what: "Figure 7: the mix of 4 inserts, 16 searches, 1 removal of the text, and that of the \
                   caption, 80, 160 and 1",
            claim: "2.6 times",
            kinds: &[Kind::ManyCores],
            seconds: (12, 800),
            needs: FORMS,
            make: mixes,
        },
    ],
};

/// Figure 5, and the size of an object, which the paper does not give.
fn limits(context: &mut Context<'_>) -> Result<Results, BenchError> {
    let claims = [("f3-tree-1000", "as without a limit at 40 threads")];
    let outcome = compete(context, LIMITS, (Work::Random, ""), &claims)?;
    let sizes = compete(context, SIZES, (Work::Random, SIZES_ABOUT), &[])?;
    Ok(both(outcome, sizes))
}

/// Figure 7, by the mix of the text and by that of the caption.
fn mixes(context: &mut Context<'_>) -> Result<Results, BenchError> {
    let claims = [("f3-tree", "2.6 times with 40 cores")];
    let outcome = compete(context, FORMS, (Work::Mix, ""), &claims)?;
    let caption = compete(context, FORMS, (Work::CaptionMix, ", the caption's mix"), &claims)?;
    Ok(both(outcome, caption))
}

/// Two results of one experiment, which have the same notes.
fn both(mut first: Results, second: Results) -> Results {
    first.figures.extend(second.figures);
    first.tables.extend(second.tables);
    first.charts.extend(second.charts);
    first.series.extend(second.series);
    first
}

/// What tells the tables by entries of an object from the others.
const SIZES_ABOUT: &str = ", by entries of an object";

/// Evaluators beside the writers: none, and as many as in the paper.
const EVALUATORS: [usize; 4] = [0, 1, 2, 4];

/// Measures designs, with one writer and one for each CPU, without evaluators and with up to four beside them.
fn compete(
    context: &mut Context<'_>,
    designs: &'static [&'static str],
    (work, about): (Work, &str),
    claims: &[(&'static str, &'static str)],
) -> Result<Results, BenchError> {
    let cpus = topology::allowed_cpus().len().max(1);
    let operations = context.scale.pick(40_000, 1_000_000);
    let rounds = context.scale.pick(3, 9);
    let teams = [1, cpus].map(|writers| EVALUATORS.map(|evaluators| (writers, evaluators)));
    let teams = teams.as_flattened();
    let mut outcome = Results::default();
    let mut all = vec![];
    for &(writers, evaluators) in teams {
        let mut speeds = vec![vec![]; designs.len()];
        for round in 0..rounds {
            for turn in 0..designs.len() {
                let at = (turn + round) % designs.len();
                let design = designs[at];
                let who = format!("{writers} writers, {evaluators} evaluators");
                (context.tell)(&format!("{design}, {who}, round {}", round + 1));
                let seed = context.seed + round as u64;
                let setting = Setting { design, work, writers, evaluators, operations, seed };
                speeds[at].push(run::throughput(setting)?);
            }
        }
        let title = format!("{writers} writers, {evaluators} evaluators{about}, M/s");
        describe(&mut outcome, &title, designs, &speeds, claims);
        all.push(speeds);
    }
    for (of_writers, writers) in all.chunks(EVALUATORS.len()).zip([1, cpus]) {
        let team = format!("{writers} writers{about}");
        compare_evaluators(&mut outcome, &team, designs, of_writers, claims);
    }
    outcome.notes.push(format!(
        "{cpus} CPUs, not the paper's machine: figures are shown beside the paper's without a verdict. Without \
         evaluators writers evaluate when the objects are full. Several evaluators work at once, each on a part of \
         the table of pending keys at a time; fast-fair has none, whatever the title says. Where there are more \
         threads than CPUs, evaluators take the writers' time. The clock stops with the writers: what is pending then \
         is in none of the figures; without a limit and without evaluators that is every key. Threads are spread over \
         the nodes of memory where there are several; here {}.",
        topology::numa_nodes().len()
    ));
    Ok(outcome)
}

/// The table of all teams of as many writers, by their evaluators, and what two and four add to the designs of
/// which the paper claims something.
fn compare_evaluators(
    outcome: &mut Results,
    team: &str,
    designs: &[&'static str],
    speeds: &[Vec<Vec<f64>>],
    claims: &[(&'static str, &'static str)],
) {
    let title = format!("{team}: by evaluators, M/s, median");
    let mut grid = Grid::new(title, &["tree", "none", "1", "2", "4"]);
    let median = |speeds: &Vec<f64>| {
        Spread::of(speeds.iter().copied()).map_or(f64::NAN, |spread| spread.median)
    };
    let is_by_size = team.ends_with(SIZES_ABOUT);
    let rows: Vec<(&str, &str)> = match is_by_size {
        true => SIZES_ASCENDING.to_vec(),
        false => designs.iter().map(|design| (*design, *design)).collect(),
    };
    for (design, name) in rows {
        let Some(at) = designs.iter().position(|one| *one == design) else { continue };
        grid.add(name, speeds.iter().map(|team| median(&team[at])));
        if !claims.iter().any(|(claimed, _)| *claimed == design) {
            continue;
        }
        for (many, evaluators) in EVALUATORS.iter().enumerate().skip(2) {
            let Some(ratio) = Ratio::of(&speeds[many][at], &speeds[0][at]) else { continue };
            let what = format!("{team}: {name} with {evaluators} evaluators in multiples of none");
            let figure = Figure::statement(what, "", ratio.to_string(), true);
            outcome.figures.push(figure.without_verdict());
        }
    }
    outcome.tables.push(grid);
}

/// The table and the picture of a team, and its claims.
fn describe(
    outcome: &mut Results,
    title: &str,
    designs: &[&'static str],
    speeds: &[Vec<f64>],
    claims: &[(&'static str, &'static str)],
) {
    let mut grid = Grid::new(title, &["tree", "median", "least", "most"]);
    let mut bars = vec![];
    for (design, speeds) in designs.iter().zip(speeds) {
        let spread = Spread::of(speeds.iter().copied()).unwrap_or_default();
        grid.add(*design, [spread.median, spread.min, spread.max]);
        let ends = Some((spread.min, spread.max));
        bars.push(Bar { name: (*design).to_owned(), value: spread.median, spread: ends });
        outcome.series.push(Series {
            name: format!("{design}, {title}"),
            unit: "M/s".to_owned(),
            more_is_better: true,
            is_exact: false,
            is_disturbed: false,
            values: speeds.clone(),
        });
    }
    for (design, claim) in claims {
        let at = designs.iter().position(|one| one == design);
        let ratio = at.and_then(|at| Ratio::of(&speeds[at], &speeds[0]));
        let ours = ratio.map_or_else(|| "-".to_owned(), |ratio| ratio.to_string());
        let what = format!("{title}: {design} in multiples of {}", designs[0]);
        outcome.figures.push(Figure::statement(what, claim, ours, true).without_verdict());
    }
    outcome.tables.push(grid);
    outcome.charts.push(Chart::Bars { title: title.to_owned(), unit: "M/s".to_owned(), bars });
}

/// Figure 6: gets of keys of which a fifth is pending, by the CPU time of one thread.
fn reads(context: &mut Context<'_>) -> Result<Results, BenchError> {
    // Those with the table of pending keys, and one without.
    const TREES: [(&str, u64, bool); 6] = [
        ("fast-fair", 0, true),
        ("f3-tree-unlimited", 0, true),
        ("f3-tree-unlimited", 5, true),
        ("f3-tree-nodes-unlimited", 0, true),
        ("f3-tree-nodes-unlimited", 5, true),
        ("f3-tree-unlimited", 5, false),
    ];
    let keys = context.scale.pick(100_000, 1_000_000);
    let rounds = context.scale.pick(3, 9);
    let mut spent = vec![vec![]; TREES.len()];
    for round in 0..rounds {
        for turn in 0..TREES.len() {
            let at = (turn + round) % TREES.len();
            let (design, part, has_table) = TREES[at];
            (context.tell)(&format!("{design}, round {}", round + 1));
            spent[at].push(read(design, part, keys, (context.seed, has_table))?);
        }
    }
    let mut outcome = Results::default();
    let mut grid = Grid::new(
        format!("CPU time of a get of {keys} keys, ns"),
        &["tree", "pending", "median", "least", "most"],
    );
    for ((design, part, has_table), spent) in TREES.iter().zip(&spent) {
        let spread = Spread::of(spent.iter().copied()).unwrap_or_default();
        let pending = if *part == 0 { 0.0 } else { 1.0 / *part as f64 };
        let name =
            if *has_table { (*design).to_owned() } else { format!("{design}, without its table") };
        grid.add(name, [pending, spread.median, spread.min, spread.max]);
    }
    outcome.tables.push(grid);
    let slowest = Ratio::of(&spent[5], &spent[0]).map_or(f64::NAN, |ratio| ratio.ratio);
    outcome.figures.push(Figure::statement(
        "get without the table, a fifth pending, in multiples of fast-fair",
        "the worst of all",
        format!("{slowest:.1}"),
        spent[..5]
            .iter()
            .all(|others| Ratio::of(&spent[5], others).is_some_and(|one| one.ratio > 1.0)),
    ));
    let with_table = TREES.iter().enumerate().filter(|(_, tree)| tree.1 > 0 && tree.2);
    for (at, (design, ..)) in with_table {
        let Some(ratio) = Ratio::of(&spent[at], &spent[0]) else { continue };
        let what = format!("get of {design}, a fifth pending, in multiples of {}", TREES[0].0);
        outcome.figures.push(
            Figure::near(what, 1.0, ratio.ratio, "", 0.25)
                .if_above("the table of pending keys is ordered and locked, for scans and removals, where the \
                    paper's is a hash table")
                .if_below("a pending key is found in DRAM, and the global tree has a fifth less"),
        );
    }
    outcome.notes.push(
        "Without the table a get looks at every entry of every object, so its time grows with what is pending: a \
         fifth of all keys here, of which the paper gives no number. One in a hundred keys is looked for that way."
            .to_owned(),
    );
    Ok(outcome)
}

/// Nanoseconds of a get of a tree, of whose keys one in `part` is pending (0: none), with the table of what is
/// pending or, of fewer keys, without.
fn read(
    design: &str,
    part: u64,
    keys: u64,
    (seed, has_table): (u64, bool),
) -> Result<f64, BenchError> {
    let key = |number: u64| mix(number ^ seed << 32);
    let opened = run::tree(design, keys)?;
    let mut session = opened.heap().session().map_err(IndexError::from)?;
    let stored = keys - keys.checked_div(part).unwrap_or(0);
    for number in 0..keys {
        if number == stored {
            opened.evaluate(&mut session)?;
        }
        let _ = opened.tree().insert(&mut session, key(number), number)?;
    }
    if part == 0 {
        opened.evaluate(&mut session)?;
    }
    let count = if has_table { keys } else { (keys / 100).max(1) };
    let started = thread_time();
    for number in 0..count {
        // In another order than they came.
        let number = mix(number) % keys;
        let found = if has_table {
            opened.tree().get(&mut session, key(number))?
        } else {
            opened.get_without_table(&mut session, key(number))?
        };
        if found != Some(number) {
            return Err(BenchError::Wrong(format!("{design}: key {number} is not as it was left")));
        }
    }
    Ok((thread_time() - started).as_nanos() as f64 / count as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_does_every_work_with_and_without_evaluators() {
        for design in FORMS.iter().chain(LIMITS).chain(SIZES) {
            for work in [Work::Ascending, Work::Random, Work::Mix, Work::CaptionMix] {
                for evaluators in [0, 1, 4] {
                    let (writers, operations, seed) = (2, 2000, 1);
                    let setting = Setting { design, work, writers, evaluators, operations, seed };
                    assert!(run::throughput(setting).unwrap() > 0.0, "{design}, {work:?}");
                }
            }
        }
    }

    #[test]
    fn keys_are_read_whether_pending_or_not() {
        for (design, part, has_table) in [
            ("fast-fair", 0, true),
            ("f3-tree-nodes-unlimited", 0, true),
            ("f3-tree-unlimited", 5, true),
            ("f3-tree-unlimited", 5, false),
        ] {
            assert!(read(design, part, 2000, (1, has_table)).unwrap() > 0.0, "{design}");
        }
    }
}
