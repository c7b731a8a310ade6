//! The budget: what a tier may cost, so that it does not grow unseen.
//!
//! `xtask/budget.txt` has lines `tier what amount`. The number of test programs is exact. CPU seconds
//! are noise to a tenth, and differ between machines; so they are recorded with the time of a fixed
//! piece of work, a machine that is slower at it may take longer by as much, and all may grow by a tenth. What has no
//! line is not limited. `cargo xtask test --record` writes the lines of what was measured.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

const FILE: &str = "xtask/budget.txt";
const HEADER: &str =
    "# What a tier may cost: `tier what amount` (cargo xtask test --record writes it).\n";
/// Milliseconds of the fixed piece of work.
const UNIT: &str = "unit-ms";
/// By how much CPU seconds may grow.
const SLACK: f64 = 1.1;

/// The lines of one tier: what, and how much.
pub type Costs = BTreeMap<String, f64>;

/// Something that costs more than the budget allows.
#[derive(Clone, Debug)]
pub struct Excess {
    /// What, by how much, and what to do.
    pub sentence: String,
    /// Whether it is time, which a busy machine makes longer.
    pub is_time: bool,
}

/// What exceeds the tier's budget; unreadable lines, too.
pub fn check(root: &Path, tier: &str, measured: &Costs) -> Vec<Excess> {
    let text = std::fs::read_to_string(root.join(FILE)).unwrap_or_default();
    match parse(&text, tier) {
        Ok(budget) => exceeded(tier, &budget, measured),
        Err(sentence) => vec![Excess { sentence, is_time: false }],
    }
}

/// Writes what was measured as the tier's budget; the other tiers' lines stay.
pub fn record(root: &Path, tier: &str, measured: &Costs) -> std::io::Result<()> {
    let path = root.join(FILE);
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    let is_other = |line: &&str| !line.starts_with('#') && !line.starts_with(&format!("{tier} "));
    let mut lines: Vec<String> = text.lines().filter(is_other).map(String::from).collect();
    lines.extend(measured.iter().map(|(what, amount)| format!("{tier} {what} {amount:.0}")));
    lines.sort();
    std::fs::write(path, format!("{HEADER}{}\n", lines.join("\n")))
}

/// Milliseconds of a fixed piece of work: the best of three.
pub fn unit() -> (String, f64) {
    let work = || {
        let started = Instant::now();
        let mut state = black_box(1_u64);
        for number in 0..100_000_000_u64 {
            state = (state ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
        }
        black_box(state);
        started.elapsed().as_secs_f64() * 1e3
    };
    (UNIT.to_string(), (0..3).map(|_| work()).fold(f64::MAX, f64::min))
}

fn parse(text: &str, tier: &str) -> Result<Costs, String> {
    let mut costs = Costs::new();
    for (index, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [] => {}
            [first, ..] if first.starts_with('#') => {}
            [name, what, amount] if amount.parse::<f64>().is_ok() => {
                if name == tier {
                    costs.insert(what.to_string(), amount.parse().unwrap_or_default());
                }
            }
            _ => return Err(format!("{FILE}, line {}: not `tier what amount`", index + 1)),
        }
    }
    Ok(costs)
}

fn exceeded(tier: &str, budget: &Costs, measured: &Costs) -> Vec<Excess> {
    let unit = |costs: &Costs| costs.get(UNIT).copied();
    // Only a slower machine counts: where the fixed work, which knows neither memory nor the system, took less time,
    // the tests did not.
    let speed = match (unit(budget), unit(measured)) {
        (Some(then), Some(now)) if then > 0.0 && now > 0.0 => (then / now).min(1.0),
        _ => 1.0,
    };
    let mut excesses = Vec::new();
    for (what, allowed) in budget.iter().filter(|(what, _)| *what != UNIT) {
        let Some(found) = measured.get(what) else { continue };
        let is_time = what.ends_with("cpu-seconds");
        let (found, limit) =
            if is_time { (found * speed, allowed * SLACK) } else { (*found, *allowed) };
        if found > limit {
            let sentence = format!(
                "tier {tier}, {what}: {found:.0} where {FILE} has {allowed:.0}: make it less, or say why not and \
                 record it with `cargo xtask {tier} --record`"
            );
            excesses.push(Excess { sentence, is_time });
        }
    }
    excesses
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs(pairs: &[(&str, f64)]) -> Costs {
        pairs.iter().map(|(what, amount)| (what.to_string(), *amount)).collect()
    }

    #[test]
    fn seconds_may_grow_by_a_tenth_and_programs_not_at_all() {
        let budget = costs(&[("programs", 30.0), ("run-cpu-seconds", 100.0)]);
        let found = |programs, seconds| {
            exceeded(
                "test",
                &budget,
                &costs(&[("programs", programs), ("run-cpu-seconds", seconds)]),
            )
            .len()
        };
        assert_eq!(found(30.0, 109.0), 0);
        assert_eq!(found(31.0, 109.0), 1);
        assert_eq!(found(31.0, 111.0), 2);
        let longer =
            exceeded("test", &budget, &costs(&[("programs", 30.0), ("run-cpu-seconds", 200.0)]));
        assert!(longer.iter().all(|excess| excess.is_time), "{longer:?}");
        let sentence = &longer[0].sentence;
        assert!(sentence.starts_with("tier test, run-cpu-seconds: 200 where"), "{sentence}");
        assert!(sentence.ends_with("`cargo xtask test --record`"), "{sentence}");
        // What was not measured is not judged.
        assert!(exceeded("test", &budget, &costs(&[])).is_empty());
    }

    #[test]
    fn a_slower_machine_may_take_longer() {
        let budget = costs(&[("run-cpu-seconds", 100.0), (UNIT, 50.0)]);
        let found = |seconds, unit| {
            exceeded("test", &budget, &costs(&[("run-cpu-seconds", seconds), (UNIT, unit)])).len()
        };
        assert_eq!(found(200.0, 100.0), 0);
        // A quicker one is not asked for more: 638 CPU seconds, beside a unit of 129 where 166 was recorded, were once
        // taken for 822.
        assert_eq!(found(100.0, 25.0), 0);
        assert_eq!(found(111.0, 25.0), 1);
    }

    #[test]
    fn lines_are_read_and_bad_ones_are_named() {
        let text = "# comment\n\ntest programs 30\nci programs 40\n";
        assert_eq!(parse(text, "test"), Ok(costs(&[("programs", 30.0)])));
        assert!(parse("test programs many\n", "test").is_err_and(|text| text.contains("line 1")));
    }

    #[test]
    fn what_is_recorded_is_the_budget() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("xtask")).unwrap();
        let measured = costs(&[("programs", 3.0), ("run-cpu-seconds", 7.0)]);
        record(folder.path(), "ci", &costs(&[("programs", 9.0)])).unwrap();
        record(folder.path(), "test", &costs(&[("programs", 2.0)])).unwrap();
        assert_eq!(check(folder.path(), "test", &measured).len(), 1);
        record(folder.path(), "test", &measured).unwrap();
        assert!(check(folder.path(), "test", &measured).is_empty());
        assert_eq!(check(folder.path(), "ci", &costs(&[("programs", 10.0)])).len(), 1);
    }
}
