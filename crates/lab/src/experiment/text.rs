//! Experiments as lines of text.

use everleaf_bench::table::aligned;

use super::finding::{Finding, Grid, Judgement};
use super::{CANNOT_RUN, Entry, FAMILIES};

/// The list of all experiments: name, kinds, time and what; then those that cannot be run, and why not.
pub fn list() -> String {
    let mut text = String::new();
    for family in FAMILIES {
        text.push_str(&format!("{}\n", family.source));
        let mut rows = vec![["name", "kind", "quick", "full", "what"].map(str::to_owned).to_vec()];
        for entry in family.entries {
            let (quick, full) = (time(entry.seconds.0), time(entry.seconds.1));
            let (id, what) = (entry.id.to_owned(), entry.what.to_owned());
            rows.push(vec![id, entry.letters(), quick, full, what]);
        }
        for line in aligned(&rows, &[true, true, false, false, true]).lines() {
            text.push_str(&format!("  {line}\n"));
        }
        text.push('\n');
    }
    text.push_str(
        "Kinds: C exact counts, L times of one thread, M many cores, R recovery, S space, X proofs.\n",
    );
    let reasons = CANNOT_RUN.iter().map(|one| format!("{}: {}", one.id, one.why_not));
    text.push_str(&format!("Cannot be run: {}.\n", reasons.collect::<Vec<_>>().join("; ")));
    text
}

/// Seconds, short.
pub(crate) fn time(seconds: u32) -> String {
    match seconds {
        0..100 => format!("{seconds} s"),
        _ => format!("{} min", seconds.div_ceil(60)),
    }
}

/// What an experiment found.
pub fn finding(entry: &Entry, finding: &Finding) -> String {
    let mut text = format!("{}: {}\n", entry.id, entry.what);
    let who = if entry.family() == "everleaf" { "shows" } else { "the paper" };
    text.push_str(&format!("  {who}: {}\n", entry.claim));
    let figures = &finding.outcome.figures;
    if !figures.is_empty() {
        let mut rows = vec![["figure", "paper", "ours", "verdict"].map(str::to_owned).to_vec()];
        for figure in figures {
            let verdict = match &figure.judgement {
                Judgement::Agrees => "agrees".to_owned(),
                Judgement::Differs(why) => format!("differs: {why}"),
                Judgement::Shown => String::new(),
            };
            rows.push(vec![
                figure.what.clone(),
                figure.claim.clone(),
                figure.ours.clone(),
                verdict,
            ]);
        }
        push_indented(&mut text, &aligned(&rows, &[true, true, true, true]));
    }
    for table in &finding.outcome.tables {
        text.push_str(&format!("\n  {}\n", table.title));
        push_indented(&mut text, &grid(table));
    }
    for note in &finding.outcome.notes {
        text.push_str(&format!("  {note}\n"));
    }
    text.push_str(&format!(
        "  {} ({}, seed {}, {:.0} s; a dependent miss took {:.0} ns before and {:.0} ns after{})\n",
        finding.verdict(),
        finding.scale.name(),
        finding.seed,
        finding.seconds,
        finding.miss_before_ns,
        finding.miss_after_ns,
        if finding.is_noisy() { ": the machine changed, distrust the times" } else { "" },
    ));
    text
}

fn push_indented(text: &mut String, lines: &str) {
    for line in lines.lines() {
        text.push_str(&format!("  {line}\n"));
    }
}

/// A table in columns.
fn grid(grid: &Grid) -> String {
    let rows: Vec<Vec<String>> =
        std::iter::once(&grid.columns).chain(&grid.rows).cloned().collect();
    let is_left: Vec<bool> = (0..grid.columns.len()).map(|column| column == 0).collect();
    aligned(&rows, &is_left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_a_line_for_each_experiment() {
        let text = list();
        for entry in super::super::entries() {
            let is_of = |line: &str| line.split_whitespace().next() == Some(entry.id);
            assert!(text.lines().any(is_of), "{} in\n{text}", entry.id);
        }
        let last = text.lines().last().unwrap_or_default();
        assert!(last.contains("nbtree.fig16: it needs a machine with two sockets"), "{last}");
        assert_eq!([time(5), time(99), time(100), time(1800)], ["5 s", "99 s", "2 min", "30 min"]);
    }
}
