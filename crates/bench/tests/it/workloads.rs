//! Every workload, from an empty pool to the report, on both indexes. No times are asserted: what
//! operations return is, by the bench itself, which refuses to report when a key goes missing.

use std::ops::RangeInclusive;
use std::sync::Arc;

use everleaf_bench::measure::{self, Case, Length, Settings, contest};
use everleaf_bench::report::{Report, Row};
use everleaf_bench::{Arrivals, BenchError, Distribution, IndexKind, Medium, Trace, Workload};

const KEYS: u64 = 20_000;
const OPERATIONS: u64 = 4_000;

fn settings(index: IndexKind, cases: Vec<Case>) -> Settings {
    let (key_size, value_size) = match index {
        IndexKind::U64 | IndexKind::Design(_) => (8, 8),
        IndexKind::Bytes => (20, 30),
    };
    Settings {
        index,
        keys: KEYS,
        key_size,
        value_size,
        cases,
        rounds: 2,
        length: Length::Operations(OPERATIONS),
        miss_region: 1 << 20,
        ..Settings::default()
    }
}

fn run(settings: &Settings) -> Report {
    measure::run(settings, &mut |_| {}).unwrap_or_else(|error| panic!("{error}"))
}

fn every_case(threads: usize) -> Vec<Case> {
    let mut cases = vec![];
    let writes = [Workload::Writes { percent: 30 }];
    for workload in Workload::ALL.into_iter().chain(writes) {
        for distribution in [Distribution::Uniform, workload.default_distribution(0.99)] {
            let case = Case { workload, distribution, threads };
            if !cases.contains(&case) {
                cases.push(case);
            }
        }
    }
    cases
}

/// Operations and units (operations or keys) that a round of a row must have.
fn expected(row: &Row) -> (u64, RangeInclusive<u64>) {
    let exactly = |count| (count, count..=count);
    match row.workload {
        "load" | "load-sequential" => exactly(KEYS),
        // 4,000 keys, in whole batches of 32 for each thread.
        "get-many" | "update-many" if row.threads == 1 => (125, 4_000..=4_000),
        "get-many" | "update-many" => (126, 4_032..=4_032),
        // Scans weigh ten; a few start less than 100 keys before the end.
        "scan" => (400, 39_000..=40_000),
        // Transactions weigh twenty.
        tpcc if tpcc.starts_with("tpcc") => exactly(200),
        _ => exactly(OPERATIONS),
    }
}

fn assert_counts(report: &Report) {
    for row in &report.rows {
        let (operations, units) = expected(row);
        for round in &row.rounds {
            assert_eq!(round.operations, operations, "{row:?}");
            assert!(units.contains(&round.units), "{row:?}");
            assert!(round.elapsed_ns > 0 && round.misses > 0.0, "{row:?}");
        }
        assert_eq!(row.rounds.len(), 2);
        assert!(row.latency.samples >= 2 * (operations / 64), "{row:?}");
        assert!(row.latency.p50_ns <= row.latency.max_ns);
    }
}

#[test]
fn every_workload_runs_on_the_integer_tree() {
    for threads in [1, 2] {
        let cases = every_case(threads);
        let report = run(&settings(IndexKind::U64, cases.clone()));
        assert_eq!(report.rows.len(), cases.len());
        assert_counts(&report);
        assert_eq!(report.memory.keys, KEYS, "the first case is a load");
        assert!(report.memory.dram_bytes > KEYS && report.memory.pool_used_bytes > 16 * KEYS);
    }
}

#[test]
fn every_workload_runs_on_the_store_with_one_and_two_threads() {
    for threads in [1, 2] {
        let report = run(&settings(IndexKind::Bytes, every_case(threads)));
        assert_counts(&report);
        assert!(report.memory.pool_used_bytes > 50 * KEYS, "keys and values are in the pool");
    }
}

#[test]
fn two_threads_are_compared_with_one_and_only_then() {
    let case = |threads| Case {
        workload: Workload::Get,
        distribution: Distribution::Zipfian { theta: 0.9 },
        threads,
    };
    let both = run(&settings(IndexKind::U64, vec![case(1), case(2)]));
    assert!(both.rows[0].scaling.is_none());
    let scaling = both.rows[1].scaling.expect("one thread was measured");
    let rounds = both.rows[1].rounds.iter().zip(&both.rows[0].rounds);
    let mut ratios: Vec<f64> = rounds.map(|(two, one)| two.per_second / one.per_second).collect();
    ratios.sort_by(f64::total_cmp);
    assert_eq!((scaling.min, scaling.max), (ratios[0], ratios[1]));
    assert!(run(&settings(IndexKind::U64, vec![case(2)])).rows[0].scaling.is_none());
}

#[test]
fn keys_are_loaded_each_round_only_if_loading_is_measured() {
    let case = |workload| Case { workload, distribution: Distribution::Uniform, threads: 1 };
    let mut said = Vec::new();
    let cases = vec![case(Workload::Insert), case(Workload::Get)];
    let settings = settings(IndexKind::U64, cases);
    measure::run(&settings, &mut |progress| said.push(progress.what.to_owned())).unwrap();
    assert_eq!(
        said,
        [
            "loading",
            "insert, 1 thread, round 1 of 2",
            "get uniform, 1 thread, round 1 of 2",
            "insert, 1 thread, round 2 of 2",
            "get uniform, 1 thread, round 2 of 2",
        ]
    );
}

#[test]
fn a_removal_leaves_half_of_the_keys_whatever_is_asked_for() {
    let case = |threads| Case {
        workload: Workload::Remove,
        distribution: Distribution::Zipfian { theta: 0.99 },
        threads,
    };
    let settings = Settings {
        length: Length::Operations(10 * KEYS),
        ..settings(IndexKind::U64, vec![case(1), case(2)])
    };
    for row in run(&settings).rows {
        assert!(row.rounds.iter().all(|round| round.operations == KEYS / 2), "{row:?}");
    }
}

#[test]
fn in_an_open_loop_operations_are_timed_from_when_they_were_due() {
    let case = |workload| Case { workload, distribution: Distribution::Uniform, threads: 2 };
    let open = |arrivals| Settings {
        arrivals: Some(arrivals),
        ..settings(IndexKind::U64, vec![case(Workload::Get), case(Workload::MixQuarters)])
    };
    let single = run(&open(Arrivals { per_second: 100_000.0, burst: 1 }));
    for row in &single.rows {
        assert_eq!(row.latency.samples, 2 * OPERATIONS, "{row:?}");
        // Four thousand operations at a hundred thousand a second take 40 ms at least, but for luck.
        assert!(row.rounds.iter().all(|round| round.elapsed_ns > 30_000_000), "{row:?}");
    }
    assert_eq!(single.setup.offered_per_second, Some(100_000.0));
    // The last of a thousand that arrive together has waited for all others.
    let bursts = run(&open(Arrivals { per_second: 1e9, burst: 1000 }));
    assert!(bursts.rows[0].latency.max_ns > 10 * bursts.rows[0].latency.samples, "{bursts:?}");
}

#[test]
fn updates_of_mixes_can_be_upserts() {
    for index in [IndexKind::U64, IndexKind::Bytes] {
        let case = |workload| Case { workload, distribution: Distribution::Uniform, threads: 2 };
        let cases = vec![case(Workload::YcsbA), case(Workload::YcsbF)];
        let report = run(&Settings { upsert: true, ..settings(index, cases) });
        assert!(report.setup.upsert);
        assert_counts(&report);
    }
}

#[test]
fn a_trace_is_replayed_on_both_indexes_and_leaves_what_it_wrote() {
    let mut text = String::from("# a small one\n1.5 [0 :1] \"set\" \"first\" \"12345\"\n");
    for at in 0..2000 {
        let key = at * at % 97;
        text.push_str(&format!("get user:{key}\nput user:{key} {}\n", at % 50));
        text.push_str(&format!("scan user:{key} 5\ndel other:{}\nget other:{at}\n", at % 7));
    }
    let trace = Arc::new(Trace::parse(text.as_bytes(), "text").unwrap());
    for (index, threads) in [(IndexKind::U64, 1), (IndexKind::Bytes, 1), (IndexKind::Bytes, 2)] {
        let case = Case { workload: Workload::Trace, distribution: Distribution::Uniform, threads };
        let report = run(&Settings { trace: Some(trace.clone()), ..settings(index, vec![case]) });
        let row = &report.rows[0];
        assert_eq!((row.workload, row.distribution), ("trace", ""));
        assert_eq!(row.rounds[0].operations, trace.len() as u64);
        // Read or removed before they are written: the users, and the others.
        let users: std::collections::BTreeSet<u64> = (0..2000).map(|at| at * at % 97).collect();
        assert_eq!(report.memory.keys, users.len() as u64 + 2000);
    }
}

#[test]
fn a_contest_measures_each_entrant_each_round_on_a_new_index() {
    let case = |workload| Case { workload, distribution: Distribution::Uniform, threads: 1 };
    let cases = vec![case(Workload::Insert), case(Workload::Get)];
    let entrants = [IndexKind::U64, IndexKind::Bytes]
        .map(|index| contest::ours(&settings(index, cases.clone())).unwrap());
    let mut loaded = 0;
    let mut count = |_: &str, step: measure::Progress<'_>| {
        loaded += u32::from(step.what == "loading");
    };
    let reports = contest::run(entrants.into(), 2, 1, 1 << 20, &mut count).unwrap();
    assert_eq!(loaded, 4);
    assert_eq!(
        reports.iter().map(|report| report.setup.index).collect::<Vec<_>>(),
        ["u64", "bytes"]
    );
    reports.iter().for_each(assert_counts);
}

#[test]
fn a_length_in_seconds_becomes_a_number_of_operations() {
    let cases = Workload::ALL.map(|workload| Case {
        workload,
        distribution: workload.default_distribution(0.99),
        threads: 1,
    });
    let settings = Settings {
        length: Length::Seconds(0.002),
        rounds: 1,
        ..settings(IndexKind::U64, cases.to_vec())
    };
    for row in run(&settings).rows {
        assert!(row.rounds[0].operations > 0, "{row:?}");
    }
}

#[test]
fn a_pool_file_is_used_where_asked_for_and_removed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("bench.pool");
    let case = Case { workload: Workload::Load, distribution: Distribution::Uniform, threads: 1 };
    for index in [IndexKind::U64, IndexKind::Bytes] {
        let settings = Settings {
            medium: Medium::File(path.clone()),
            domain: Some(everleaf::Domain::Adr),
            ..settings(index, vec![case])
        };
        let mut was_there = false;
        measure::run(&settings, &mut |progress| was_there |= progress.done > 0 && path.exists())
            .unwrap();
        assert!(was_there && !path.exists(), "{index:?}");
    }
}

#[test]
fn settings_that_do_not_go_together_are_refused_with_advice() {
    let get = Case { workload: Workload::Get, distribution: Distribution::Uniform, threads: 1 };
    let good = settings(IndexKind::U64, vec![get]);
    let zipf = |theta| Case { distribution: Distribution::Zipfian { theta }, ..get };
    let of = |workload| Case { workload, ..get };
    let remove = Case { workload: Workload::Remove, threads: 2, ..get };
    for (bad, part) in [
        (Settings { cases: vec![], ..good.clone() }, "at least one workload"),
        (Settings { key_size: 16, ..good.clone() }, "index bytes"),
        (Settings { index: IndexKind::Bytes, key_size: 7, ..good.clone() }, "8 to 65536"),
        (Settings { keys: 0, ..good.clone() }, "number of keys"),
        (Settings { rounds: 0, ..good.clone() }, "rounds"),
        (Settings { batch: 0, ..good.clone() }, "batch"),
        (Settings { length: Length::Operations(0), ..good.clone() }, "operation"),
        (Settings { length: Length::Seconds(f64::NAN), ..good.clone() }, "seconds"),
        (Settings { cases: vec![Case { threads: 0, ..get }], ..good.clone() }, "threads"),
        (Settings { cases: vec![zipf(1.0)], ..good.clone() }, "theta"),
        (Settings { cases: vec![remove], keys: 3, ..good.clone() }, "remove"),
        (Settings { cases: vec![of(Workload::MixQuarters)], keys: 99, ..good.clone() }, "100 keys"),
        (Settings { cases: vec![of(Workload::Trace)], ..good.clone() }, "file"),
        (
            Settings { cases: vec![of(Workload::Writes { percent: 101 })], ..good.clone() },
            "percent",
        ),
        (
            Settings { arrivals: Some(Arrivals { per_second: 0.0, burst: 1 }), ..good.clone() },
            "rate",
        ),
    ] {
        match measure::run(&bad, &mut |_| {}) {
            Err(BenchError::Settings(text)) => assert!(text.contains(part), "{text}"),
            other => panic!("{part}: {other:?}"),
        }
    }
}
