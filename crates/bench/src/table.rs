//! A report as text for people: aligned columns.

use everleaf_index::human_size;

use crate::report::{Report, Row};

/// Reports of the same cases on different indexes, side by side: a line per index, a column per case
/// in dependent misses, then in units a second.
pub fn compare(reports: &[Report]) -> String {
    let Some(first) = reports.first() else { return String::new() };
    let mut text = heading(first).replace(&format!("index {}, ", first.setup.index), "");
    let cost = |row: &Row| format!("{:.2}", row.misses.median);
    let fast = |row: &Row| grouped(row.per_second.median as u64);
    text.push_str("CPU time of a unit in dependent misses (dm):\n");
    text.push_str(&side_by_side(reports, cost));
    text.push_str("\nUnits a second:\n");
    text.push_str(&side_by_side(reports, fast));
    text
}

fn side_by_side(reports: &[Report], cell: impl Fn(&Row) -> String) -> String {
    // A hash index lacks what needs order.
    let longest = reports.iter().max_by_key(|report| report.rows.len());
    let columns: &[Row] = longest.map_or(&[], |report| &report.rows);
    let names = columns.iter().map(|row| match row.threads {
        1 => row.workload.to_owned(),
        threads => format!("{} x{threads}", row.workload),
    });
    let mut cells = vec![std::iter::once("index".to_owned()).chain(names).collect::<Vec<_>>()];
    for report in reports {
        let is_of = |row: &Row, column: &Row| {
            (row.workload, row.distribution, row.threads)
                == (column.workload, column.distribution, column.threads)
        };
        let rows = columns.iter().map(|column| {
            let row = report.rows.iter().find(|row| is_of(row, column));
            row.map_or_else(|| "-".to_owned(), &cell)
        });
        cells.push(std::iter::once(report.setup.index.to_owned()).chain(rows).collect());
    }
    let is_left: Vec<bool> = (0..cells[0].len()).map(|column| column == 0).collect();
    aligned(&cells, &is_left)
}

/// The report as lines of text.
pub fn render(report: &Report) -> String {
    let mut text = heading(report);
    let mut cells: Vec<Vec<String>> =
        vec![COLUMNS.iter().map(|(name, _)| (*name).to_owned()).collect()];
    cells.extend(report.rows.iter().map(row_cells));
    text.push_str(&aligned(&cells, &COLUMNS.map(|(_, is_left)| is_left)));
    text.push_str(&footnotes(report));
    text
}

/// The columns: heading, and whether they are aligned to the left.
const COLUMNS: [(&str, bool); 12] = [
    ("workload", true),
    ("keys", true),
    ("threads", false),
    ("per second", false),
    ("spread", false),
    ("unit", true),
    ("dm", false),
    ("p50 ns", false),
    ("p99 ns", false),
    ("p99.9 ns", false),
    ("miss ns", false),
    ("scaling", false),
];

fn heading(report: &Report) -> String {
    let (setup, machine) = (&report.setup, &report.machine);
    let arrivals = setup.offered_per_second.map_or_else(String::new, |rate| {
        let (rate, burst) = (grouped(rate as u64), setup.burst.unwrap_or(1));
        format!(
            "open loop: {rate} operations a second are due, {burst} at a time; latencies count from \
             then on\n"
        )
    });
    format!(
        "everleaf bench: index {}, {} keys of {} B + values of {} B, pool in {}, domain {}\n\
         {}, {} CPUs; {} rounds, seed {}\n{arrivals}\n",
        setup.index,
        grouped(setup.keys),
        setup.key_size_bytes,
        setup.value_size_bytes,
        setup.medium,
        setup.domain,
        machine.cpu,
        machine.cpu_count,
        setup.rounds,
        setup.seed,
    )
}

fn row_cells(row: &Row) -> Vec<String> {
    let keys = match row.theta {
        Some(theta) => format!("{} {}", row.distribution, format!("{theta}").replace("0.", ".")),
        None if row.distribution.is_empty() => "new".to_owned(),
        None => row.distribution.to_owned(),
    };
    let noisy = if row.noisy_rounds > 0 { "!" } else { "" };
    let preempted = if row.preempted_rounds > 0 { "~" } else { "" };
    vec![
        row.workload.to_owned(),
        keys,
        row.threads.to_string(),
        format!("{preempted}{}", grouped(row.per_second.median as u64)),
        format!("{:.0}%", row.per_second.percent()),
        row.unit.to_owned(),
        format!("{:.2}", row.misses.median),
        grouped(row.latency.p50_ns),
        grouped(row.latency.p99_ns),
        grouped(row.latency.p999_ns),
        format!("{noisy}{:.0}/{:.0}", row.miss_before_ns, row.miss_after_ns),
        row.scaling.map_or_else(|| "-".to_owned(), |scaling| format!("{:.2}x", scaling.median)),
    ]
}

fn footnotes(report: &Report) -> String {
    let memory = &report.memory;
    let mut text = format!(
        "\nmemory after loading: pool {} ({:.1} B/key), DRAM {} ({:.1} % of the pool), {} \
         leaves, {} levels\n",
        human_size(memory.pool_used_bytes),
        memory.pool_bytes_per_key,
        human_size(memory.dram_bytes),
        memory.dram_percent,
        grouped(memory.leaves),
        memory.height,
    );
    text.push_str(&format!(
        "per second: units, all threads, median of the rounds; spread: from the lowest \
         to the highest.\n\
         dm: CPU time of a unit in dependent misses: random reads of {} MB of ordinary memory, \
         each\n    waiting for the one before; miss ns: what one of these took, before/after.\n\
         p50..: latency of single operations, one in {} timed; a batch has {} keys, a scan {} \
         pairs;\n    reading the clock takes {:.0} ns.\n",
        report.setup.miss_region_bytes / 1_000_000,
        report.setup.sample_every,
        report.setup.batch,
        report.setup.scan_length,
        report.machine.clock_ns,
    ));
    let (rows, count) = (&report.rows, report.rows.len());
    let noisy = rows.iter().filter(|row| row.noisy_rounds > 0).count();
    if noisy > 0 {
        text.push_str(&format!(
            "!: in {noisy} of {count} rows the memory changed its speed by more than 15 % \
             within a round:\n   distrust their dm.\n",
        ));
    }
    let preempted = rows.iter().filter(|row| row.preempted_rounds > 0).count();
    if preempted > 0 {
        text.push_str(&format!(
            "~: in {preempted} of {count} rows threads were kept from running for more than 10 % of \
             a round:\n   other programs run; distrust their speed and scaling.\n",
        ));
    }
    if report.rows.iter().any(|row| row.threads > report.machine.cpu_count) {
        text.push_str("There are fewer CPUs than threads: some rows share them.\n");
    }
    if !report.machine.is_optimized {
        text.push_str("This program was built without optimisation: its times mean nothing.\n");
    }
    text
}

/// Cells in columns two spaces apart; the first row is the heading.
pub fn aligned(rows: &[Vec<String>], is_left: &[bool]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..is_left.len()).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for ((cell, width), is_left) in row.iter().zip(&widths).zip(is_left) {
            match is_left {
                true => line.push_str(&format!("{cell:<width$}  ")),
                false => line.push_str(&format!("{cell:>width$}  ")),
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A number with its digits in groups of three: `1 234 567` reads as `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of any sign, rounded to a whole one, in groups of three digits from 10,000 on.
pub fn grouped_signed(number: f64) -> String {
    let sign = if number < 0.0 { "-" } else { "" };
    let whole = number.abs().round() as u64;
    if whole < 10_000 { format!("{sign}{whole}") } else { format!("{sign}{}", grouped(whole)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_by_thousands() {
        let shown: Vec<_> = [0, 999, 1000, 123_456, 1_234_567].map(grouped).into();
        assert_eq!(shown, ["0", "999", "1,000", "123,456", "1,234,567"]);
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let row = |a: &str, b: &str| vec![a.to_owned(), b.to_owned()];
        let text = aligned(&[row("a", "number"), row("long", "1")], &[true, false]);
        assert_eq!(text, "a     number\nlong       1\n");
    }
}
