//! The tables: speeds, and each rival in units of Everleaf.

use everleaf_lab::report::{Report, Row};
use everleaf_lab::statistics::Ratio;

use crate::rival::Rival;

/// The reports of one contest, those of Everleaf first, as text.
pub fn render(reports: &[Report], rivals: &[Rival]) -> String {
    let Some(first) = reports.first() else { return String::new() };
    let (setup, machine) = (&first.setup, &first.machine);
    let mut text = format!(
        "\n{} keys of {} B + values of {} B; {} rounds in random order, seed {}\n{}, {} CPUs\n",
        setup.keys,
        setup.key_size_bytes,
        setup.value_size_bytes,
        setup.rounds,
        setup.seed,
        machine.cpu,
        machine.cpu_count,
    );
    let ours = |name| reports.iter().find(|report| report.setup.index == name);
    // What is like is compared: maps of integers in memory with the integer tree, stores with the
    // store.
    let base_of = |report: &Report| {
        let is_durable =
            rivals.iter().all(|rival| rival.is_durable || rival.name != report.setup.index);
        let tree = ours("u64").filter(|_| !is_durable);
        tree.or_else(|| ours("bytes")).unwrap_or(first)
    };
    let speed = |report: &Report, row: usize| mark(&report.rows[row]);
    text.push_str("\nMillion units a second (all threads, median of the rounds):\n");
    text.push_str(&grid(reports, speed));
    let ratio = |report: &Report, row: usize| times(&base_of(report).rows[row], &report.rows[row]);
    text.push_str(
        "\nHow many times as fast Everleaf is (bytes; u64 where the rival is a map of integers in \
         memory),\nwith the interval that holds the ratio in 95 of 100 cases:\n",
    );
    text.push_str(&grid(reports, ratio));
    text.push_str("\nBytes of files after loading, a key:\n");
    for report in reports {
        let memory = &report.memory;
        let line = match memory.pool_used_bytes {
            0 => "-".to_owned(),
            _ => format!("{:.1}", memory.pool_bytes_per_key),
        };
        text.push_str(&format!("  {:10} {line}\n", report.setup.index));
    }
    text.push_str("\nSettings:\n  u64, bytes  Everleaf: survives kill -9 (domain process)\n");
    for rival in rivals.iter().filter(|rival| is_among(rival, reports)) {
        text.push_str(&format!("  {:10}  {}: {}\n", rival.name, rival.what, rival.durability));
    }
    text.push_str(&disturbances(reports));
    if !machine.is_optimized {
        text.push_str("This program was built without optimisation: its times mean nothing.\n");
    }
    text
}

fn is_among(rival: &Rival, reports: &[Report]) -> bool {
    reports.iter().any(|report| report.setup.index == rival.name)
}

/// A line for each row, a column for each report.
fn grid(reports: &[Report], cell: impl Fn(&Report, usize) -> String) -> String {
    let names = reports.iter().map(|report| report.setup.index.to_owned());
    let mut lines = vec![std::iter::once(String::new()).chain(names).collect::<Vec<_>>()];
    for (index, row) in reports[0].rows.iter().enumerate() {
        let name = format!("{} x{}", row.workload, row.threads);
        let cells = reports.iter().map(|report| cell(report, index));
        lines.push(std::iter::once(name).chain(cells).collect());
    }
    let width = |column: usize| lines.iter().map(|line| line[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..lines[0].len()).map(width).collect();
    let mut text = String::new();
    for line in &lines {
        let mut shown = format!("  {:<width$}", line[0], width = widths[0]);
        for (cell, width) in line.iter().zip(&widths).skip(1) {
            shown.push_str(&format!("  {cell:>width$}"));
        }
        text.push_str(shown.trim_end());
        text.push('\n');
    }
    text
}

fn mark(row: &Row) -> String {
    let hindered = if row.hindered_rounds > 0 { "~" } else { "" };
    let speed = row.per_second.median / 1e6;
    format!("{hindered}{speed:.*}", if speed < 1.0 { 3 } else { 2 })
}

/// How many times as fast the base is.
fn times(base: &Row, rival: &Row) -> String {
    let speeds = |row: &Row| row.rounds.iter().map(|round| round.per_second).collect::<Vec<_>>();
    match Ratio::of(&speeds(base), &speeds(rival)) {
        None => "-".to_owned(),
        Some(Ratio { ratio, low, high }) => {
            format!("{} [{}-{}]", short(ratio), short(low), short(high))
        }
    }
}

/// Three digits that matter.
fn short(number: f64) -> String {
    match number {
        _ if number < 10.0 => format!("{number:.2}"),
        _ if number < 100.0 => format!("{number:.1}"),
        _ => format!("{number:.0}"),
    }
}

fn disturbances(reports: &[Report]) -> String {
    let rows = || reports.iter().flat_map(|report| &report.rows);
    let hindered = rows().filter(|row| row.hindered_rounds > 0).count();
    let unsteady = rows().filter(|row| row.unsteady_rounds > 0).count();
    let mut text = String::new();
    if hindered > 0 {
        text.push_str(&format!(
            "~: in {hindered} of {} figures the threads did not run for more than 10 % of a round: \
             they waited\n   for each other or for the disk, or other programs ran.\n",
            rows().count()
        ));
    }
    if unsteady > 0 {
        text.push_str(&format!(
            "In {unsteady} of {} figures the memory changed its speed by more than 15 % within a \
             round.\n",
            rows().count()
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_three_digits() {
        assert_eq!([0.5, 9.994, 12.34, 123.4].map(short), ["0.50", "9.99", "12.3", "123"]);
    }
}
