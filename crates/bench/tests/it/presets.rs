//! The run that compares with the targets, and how reports read.

use everleaf_bench::measure::{self, Settings};
use everleaf_bench::presets::{judge, render, targets};
use everleaf_bench::report::{Report, Spread};
use everleaf_bench::table;

fn report() -> Report {
    let settings = Settings { rounds: 1, miss_region: 1 << 20, ..targets(10_000) };
    measure::run(&settings, &mut |_| {}).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn every_target_has_a_figure_and_a_verdict_that_follows_from_it() {
    let verdicts = judge(&report());
    // Six costs, a speed, two threads on each operation twice (insert once), two of memory.
    assert_eq!(verdicts.len(), 6 + 1 + 13 + 2);
    for verdict in &verdicts {
        let measured = verdict.measured.unwrap_or_else(|| panic!("not measured: {verdict:?}"));
        let is_met = match verdict.bound {
            "<=" => measured <= verdict.target,
            _ => measured >= verdict.target,
        };
        assert_eq!(verdict.holds, Some(is_met), "{verdict:?}");
    }
    let text = render(&verdicts);
    for name in ["get-absent", "scan of 100", "2 threads, remove, zipfian .99", "DRAM", "% of pool"]
    {
        assert!(text.contains(name), "{name} in\n{text}");
    }
    assert_eq!(text.lines().count(), 1 + verdicts.len() + 2);
}

#[test]
fn a_verdict_turns_with_its_figure_and_needs_one() {
    let mut report = report();
    let exactly = |value| Spread { median: value, min: value, max: value };
    let mut get_with = |misses: f64| {
        report.rows.iter_mut().for_each(|row| row.misses = exactly(misses));
        judge(&report).into_iter().find(|verdict| verdict.figure == "get").unwrap()
    };
    assert_eq!(get_with(1.79).holds, Some(true));
    assert_eq!(get_with(1.81).holds, Some(false));
    let mut disturbed_with = |noisy, preempted| {
        for row in &mut report.rows {
            (row.noisy_rounds, row.preempted_rounds) = (noisy, preempted);
        }
        let verdicts = judge(&report);
        assert_eq!(render(&verdicts).contains("disturbed"), noisy + preempted > 0);
        verdicts.iter().filter(|verdict| verdict.is_disturbed).count()
    };
    assert_eq!(disturbed_with(0, 0), 0);
    assert_eq!(disturbed_with(1, 0), 6, "what is counted in dm");
    assert_eq!(disturbed_with(0, 1), 1 + 13, "what is counted in time");
    report.rows.clear();
    let verdicts = judge(&report);
    assert_eq!(verdicts.iter().filter(|verdict| verdict.holds.is_some()).count(), 2, "memory");
    assert!(render(&verdicts).contains("not measured"));
}

#[test]
fn the_table_has_a_line_for_each_row_and_says_what_disturbed_it() {
    let mut report = report();
    let count = report.rows.len();
    report.rows.iter_mut().for_each(|row| {
        (row.noisy_rounds, row.preempted_rounds) = (0, 0);
    });
    let calm = table::render(&report);
    assert!(!calm.contains("distrust"));
    let lines = |start: &str| calm.lines().filter(|line| line.starts_with(start)).count();
    assert_eq!(lines("get "), 4);
    assert_eq!(lines("insert "), 2);
    assert!(calm.contains("10,000 keys"));
    report.rows[0].noisy_rounds = 1;
    let noisy = table::render(&report);
    assert!(noisy.contains(&format!("!: in 1 of {count} rows")), "{noisy}");
    (report.rows[0].noisy_rounds, report.rows[1].preempted_rounds) = (0, 1);
    let preempted = table::render(&report);
    assert!(preempted.contains(&format!("~: in 1 of {count} rows")), "{preempted}");
}
