//! What the rivals wrote, as a page for a repository: which is faster at what, in tables and in
//! words.

use serde_json::Value;

use everleaf_bench::BenchError;
use everleaf_bench::report::Machine;
use everleaf_bench::statistics::{Ratio, median};

use super::markdown::{cell, machine_line, table};
use super::page::is_own;
use super::saved::{SavedReport, SavedRow, reports_in};
use crate::experiment::{Grid, number};

/// Rounds below which no interval is worth its name.
const ROUNDS_MIN: usize = 3;

/// How Everleaf and a rival compare at one workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Faster,
    Slower,
    /// The interval holds 1, or there are too few rounds for one.
    Even,
}

/// One comparison: a rival, a workload, so many threads and keys.
struct Compared<'r> {
    rival: &'r SavedReport,
    row: &'r SavedRow,
    /// How many times as fast Everleaf is.
    ratio: Ratio,
    side: Side,
}

impl<'r> Compared<'r> {
    /// `None` if the base did not do the workload.
    fn of(base: &SavedReport, rival: &'r SavedReport, row: &'r SavedRow) -> Option<Self> {
        let speeds =
            |row: &SavedRow| row.rounds.iter().map(|round| round.per_second).collect::<Vec<_>>();
        let ours = base.rows.iter().find(|other| other.name() == row.name())?;
        let ratio = Ratio::of(&speeds(ours), &speeds(row))?;
        let side = match ratio {
            _ if row.rounds.len().min(ours.rounds.len()) < ROUNDS_MIN => Side::Even,
            Ratio { low, .. } if low > 1.0 => Side::Faster,
            Ratio { high, .. } if high < 1.0 => Side::Slower,
            _ => Side::Even,
        };
        Some(Compared { rival, row, ratio, side })
    }

    /// `1 M keys of 8 + 8 B, 2 threads`.
    fn setting(&self) -> String {
        let plural = if self.row.threads == 1 { "" } else { "s" };
        format!("{}, {} thread{plural}", sizes(self.rival), self.row.threads)
    }
}

/// The reports of one number of keys and one size of pairs.
struct Part<'r> {
    reports: Vec<&'r SavedReport>,
}

impl<'r> Part<'r> {
    /// What a rival is compared with: maps of integers in memory with the integer tree, the others
    /// with the store.
    fn base(&self, rival: &SavedReport) -> Option<&'r SavedReport> {
        let named = |name: &str| self.reports.iter().find(|report| report.setup.index == name);
        let tree = named("u64").filter(|_| rival.setup.medium == "memory");
        tree.or_else(|| named("bytes")).copied()
    }

    fn rivals(&self) -> impl Iterator<Item = &'r SavedReport> {
        self.reports.iter().filter(|report| !is_own(&report.setup.index)).copied()
    }

    fn compared(&self) -> Vec<Compared<'r>> {
        let of_rival = |rival: &'r SavedReport| {
            let base = self.base(rival);
            rival.rows.iter().filter_map(move |row| Compared::of(base?, rival, row))
        };
        self.rivals().flat_map(of_rival).collect()
    }
}

/// `1 M keys of 8 + 8 B`.
fn sizes(report: &SavedReport) -> String {
    let setup = &report.setup;
    let keys = match setup.keys {
        keys if keys % 1_000_000 == 0 => format!("{} M", keys / 1_000_000),
        keys if keys % 1000 == 0 => format!("{} k", keys / 1000),
        keys => keys.to_string(),
    };
    format!("{keys} keys of {} + {} B", setup.key_size_bytes, setup.value_size_bytes)
}

/// The page. `value`: a file of the rivals, or any JSON with reports of Everleaf and of others.
///
/// # Errors
/// There is nobody to compare.
pub fn render(value: &Value) -> Result<String, BenchError> {
    let reports = reports_in(value);
    let mut parts: Vec<Part<'_>> = Vec::new();
    for report in &reports {
        match parts.iter_mut().find(|part| sizes(part.reports[0]) == sizes(report)) {
            Some(part) => part.reports.push(report),
            None => parts.push(Part { reports: vec![report] }),
        }
    }
    let compared: Vec<Compared<'_>> = parts.iter().flat_map(Part::compared).collect();
    if compared.is_empty() {
        let text = "the file holds no reports of Everleaf beside those of rivals";
        return Err(BenchError::Settings(text.to_owned()));
    }
    let mut text = "# Everleaf and its rivals\n\n".to_owned();
    text.push_str(&setting(value, &reports));
    text.push_str(&summary(&compared));
    text.push_str(&losses(&compared));
    for part in &parts {
        text.push_str(&part_in_tables(part));
    }
    text.push_str(&promises(&reports));
    Ok(text)
}

/// How it was measured, and where.
fn setting(value: &Value, reports: &[SavedReport]) -> String {
    let mut text = "Which is faster at what, measured by one program: each one's index is made anew, \
                    loaded and asked, one after the other in an order that is drawn, and every answer is \
                    checked. Where loads are measured each round begins with a new index, elsewhere all \
                    rounds are made on one. What each promises about a crash stands [below](#promises); how to \
                    read the workloads: [workloads](../workloads.md). This page is made by the program \
                    from what it measured.\n\n"
        .to_owned();
    let mut commands: Vec<&str> = Vec::new();
    for part in value["parts"].as_array().into_iter().flatten() {
        commands.extend(part["command"].as_str().filter(|command| !commands.contains(command)));
    }
    if !commands.is_empty() {
        text.push_str(&format!("```text\n{}\n```\n\n", commands.join("\n")));
    }
    let mut machines: Vec<&Machine> = Vec::new();
    for report in reports {
        if !machines.iter().any(|known| known.is_same_machine(&report.machine)) {
            machines.push(&report.machine);
        }
    }
    machines.iter().for_each(|machine| text.push_str(&machine_line(machine)));
    let programs: std::collections::BTreeSet<&str> =
        reports.iter().map(|report| report.machine.program.as_str()).collect();
    if programs.len() > 1 {
        text.push_str(
            "**Its parts were measured by different programs, maybe of different versions.**\n\n",
        );
    }
    text
}

/// How often Everleaf is faster than each rival, and how often not.
fn summary(compared: &[Compared<'_>]) -> String {
    let count = |of: &[&Compared<'_>], side| of.iter().filter(|one| one.side == side).count();
    let all: Vec<&Compared<'_>> = compared.iter().collect();
    let disturbed = all.iter().filter(|one| one.row.is_disturbed()).count();
    let mut text = format!(
        "Of {} comparisons Everleaf is faster in {}, slower in {}, and no difference was shown in {} (the \
         interval of the ratio holds 1, or there are fewer than {ROUNDS_MIN} rounds). Integer maps in \
         memory are compared with `u64`, the tree of integers, all others with `bytes`, the store.",
        all.len(),
        count(&all, Side::Faster),
        count(&all, Side::Slower),
        count(&all, Side::Even),
    );
    if disturbed > 0 {
        text.push_str(&format!(
            " In {disturbed} of them threads waited for more than a tenth of a round (for each other, \
             for the disk or for other programs), or the memory changed its speed: marked ~."
        ));
    }
    text.push_str("\n\n");
    let columns = ["rival", "faster", "slower", "no difference", "median ratio", "least", "most"];
    let mut grid = Grid::new("Everleaf against each, all workloads and sizes:", &columns);
    for name in names(compared) {
        let of: Vec<&Compared<'_>> =
            compared.iter().filter(|one| one.rival.setup.index == name).collect();
        let mut ratios: Vec<f64> = of.iter().map(|one| one.ratio.ratio).collect();
        ratios.sort_by(f64::total_cmp);
        let sides = [Side::Faster, Side::Slower, Side::Even].map(|side| count(&of, side) as f64);
        let ends = [median(&ratios), ratios.first().copied(), ratios.last().copied()];
        grid.add(name, sides.into_iter().chain(ends.map(|end| end.unwrap_or(f64::NAN))));
    }
    text + &table(&grid)
}

/// The names of the rivals, in order of appearance.
fn names<'r>(compared: &[Compared<'r>]) -> Vec<&'r str> {
    let mut names: Vec<&str> = Vec::new();
    for one in compared {
        if !names.contains(&one.rival.setup.index.as_str()) {
            names.push(&one.rival.setup.index);
        }
    }
    names
}

/// Where Everleaf is slower, in words.
fn losses(compared: &[Compared<'_>]) -> String {
    let mut text = "## Where Everleaf is slower\n\n".to_owned();
    let lost: Vec<&Compared<'_>> = compared.iter().filter(|one| one.side == Side::Slower).collect();
    if lost.is_empty() {
        return text + "Nowhere in this run, as far as its intervals can tell.\n\n";
    }
    for name in names(compared) {
        let of_rival = lost.iter().filter(|one| one.rival.setup.index == name);
        let mut workloads: Vec<&str> = Vec::new();
        for one in of_rival.clone() {
            if !workloads.contains(&one.row.workload.as_str()) {
                workloads.push(&one.row.workload);
            }
        }
        for workload in workloads {
            let each = of_rival.clone().filter(|one| one.row.workload == workload).map(|one| {
                // Turned round: how many times as fast the rival is.
                let Ratio { ratio, low, high } = one.ratio;
                let mark = if one.row.is_disturbed() { "~" } else { "" };
                let [ratio, low, high] = [1.0 / ratio, 1.0 / high, 1.0 / low].map(number);
                format!("{mark}{ratio} times ({low} to {high}) with {}", one.setting())
            });
            let each: Vec<String> = each.collect();
            let words = in_words(workload);
            text.push_str(&format!(
                "- **{}** {words} faster: {}\n",
                cell(name),
                cell(&each.join("; "))
            ));
        }
    }
    text.push('\n');
    text
}

/// What a rival does that is faster at a workload.
fn in_words(workload: &str) -> String {
    let words = match workload {
        "load" => "loads keys in random order",
        "load-sequential" => "loads keys in ascending order",
        "get" => "reads keys that are there",
        "get-absent" => "finds out that keys are absent",
        "get-many" => "reads batches of keys",
        "scan" => "reads runs of neighbouring pairs",
        "update" => "replaces values",
        "put" => "writes values whether or not the key is there",
        "insert" => "adds keys to what is loaded",
        "remove" => "removes keys",
        "ycsb-a" => "does half reads, half updates (YCSB A)",
        other => return format!("does `{}`", cell(other)),
    };
    words.to_owned()
}

/// Speeds and ratios of one part.
fn part_in_tables(part: &Part<'_>) -> String {
    let first = part.reports[0];
    let rounds = first.rows.first().map_or(0, |row| row.rounds.len());
    let plural = if rounds == 1 { "" } else { "s" };
    let mut text = format!("## {} ({rounds} round{plural})\n\n", sizes(first));
    let mut threads: Vec<usize> = first.rows.iter().map(|row| row.threads).collect();
    threads.sort_unstable();
    threads.dedup();
    let compared = part.compared();
    for count in threads {
        let rows: Vec<&SavedRow> = first.rows.iter().filter(|row| row.threads == count).collect();
        let columns: Vec<&str> =
            std::iter::once("index").chain(rows.iter().map(|row| row.workload.as_str())).collect();
        let plural = if count == 1 { "" } else { "s" };
        let mut speeds = Grid::new(
            format!("Million keys or operations a second, {count} thread{plural}:"),
            &columns,
        );
        for report in &part.reports {
            let speed = |row: &&SavedRow| {
                let found = report.rows.iter().find(|other| other.name() == row.name());
                found.map_or_else(
                    || "-".to_owned(),
                    |found| marked(found, found.per_second.median / 1e6),
                )
            };
            speeds.rows.push(
                std::iter::once(report.setup.index.clone()).chain(rows.iter().map(speed)).collect(),
            );
        }
        let title = format!(
            "How many times as fast Everleaf is, {count} thread{plural}, with the interval that holds the \
             ratio in 95 of 100 cases; bold where it is slower:"
        );
        let mut ratios = Grid::new(title, &columns);
        for rival in part.rivals() {
            let ratio = |row: &&SavedRow| {
                let is_it = |one: &&Compared<'_>| {
                    one.rival.setup.index == rival.setup.index && one.row.name() == row.name()
                };
                compared.iter().find(is_it).map_or_else(|| "-".to_owned(), ratio_cell)
            };
            ratios.rows.push(
                std::iter::once(rival.setup.index.clone()).chain(rows.iter().map(ratio)).collect(),
            );
        }
        text.push_str(&table(&speeds));
        text.push_str(&table(&ratios));
    }
    text
}

fn marked(row: &SavedRow, value: f64) -> String {
    format!("{}{}", if row.is_disturbed() { "~" } else { "" }, number(value))
}

fn ratio_cell(one: &Compared<'_>) -> String {
    let Ratio { ratio, low, high } = one.ratio;
    let rounds = one.row.rounds.len();
    let shown = match rounds {
        0..ROUNDS_MIN => number(ratio),
        _ => format!("{} ({} to {})", number(ratio), number(low), number(high)),
    };
    if one.side == Side::Slower { format!("**{shown}**") } else { shown }
}

/// What each promises and takes.
fn promises(reports: &[SavedReport]) -> String {
    let mut parts: Vec<String> = reports.iter().map(sizes).collect();
    let mut seen = std::collections::BTreeSet::new();
    parts.retain(|part| seen.insert(part.clone()));
    let mut columns = vec!["index", "what", "settings; a write that returned"];
    columns.extend(parts.iter().map(String::as_str));
    let mut grid = Grid::new("Promises, and bytes of files a key after loading:", &columns);
    for report in reports {
        let name = &report.setup.index;
        if grid.rows.iter().any(|row| row[0] == *name) {
            continue;
        }
        let bytes = |part: &String| {
            let is_it = |one: &&SavedReport| one.setup.index == *name && sizes(one) == *part;
            match reports.iter().find(is_it) {
                Some(one) if one.memory.pool_used_bytes > 0 => {
                    number(one.memory.pool_used_bytes as f64 / one.setup.keys.max(1) as f64)
                }
                _ => "-".to_owned(),
            }
        };
        let domain = if is_own(name) {
            format!("survives kill -9 (domain {})", report.setup.domain)
        } else {
            report.setup.domain.clone()
        };
        let cells = [name.clone(), report.setup.what.clone(), domain].into_iter();
        grid.rows.push(cells.chain(parts.iter().map(bytes)).collect());
    }
    format!(
        "## Promises\n\n{}LSM trees (fjall, RocksDB) write without looking for the key, so their inserts, \
         updates and removals do less than Everleaf's, which report whether the key was there; LMDB's \
         updates, too, are puts.\n",
        table(&grid)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn report(index: &str, medium: &str, speeds: &[f64]) -> Value {
        let rounds: Vec<_> = speeds.iter().map(|speed| json!({ "per_second": speed })).collect();
        let middle = median(speeds).unwrap();
        let row = |workload: &str| {
            json!({
                "workload": workload, "threads": 2, "unit": "op",
                "per_second": { "median": middle, "min": middle, "max": middle }, "rounds": rounds,
            })
        };
        json!({
            "setup": {
                "index": index, "keys": 2_000_000, "key_size_bytes": 8, "value_size_bytes": 8,
                "medium": medium, "domain": "a | b", "what": "a library",
            },
            "memory": { "pool_used_bytes": if medium == "memory" { 0 } else { 32_000_000 } },
            "rows": [row("get"), row("insert")],
        })
    }

    #[test]
    fn what_is_slower_is_said_and_compared_with_its_like() {
        let value = json!({
            "parts": [{ "command": "rivals --keys 2m", "reports": [
                report("u64", "a.pool", &[9e6, 9e6, 9e6]),
                report("bytes", "b.pool", &[2e6, 2e6, 2e6]),
                report("fast", "file", &[3.8e6, 4e6, 4.2e6]),
                report("slow", "file", &[1e6, 1e6, 1e6]),
                report("map", "memory", &[8e6, 9e6, 10e6]),
            ] }],
        });
        let text = render(&value).unwrap();
        for part in [
            "rivals --keys 2m",
            "Of 6 comparisons Everleaf is faster in 2, slower in 2, and no difference was shown in 2",
            "- **fast** adds keys to what is loaded faster: 2 times (1.69 to 2.36) with 2 M keys of 8 + 8 B, 2 \
             threads\n",
            "- **fast** reads keys that are there faster",
            "| fast | **0.50 (0.42 to 0.59)** |",
            "| slow | 2 (2 to 2) |",
            "| map | 1 (0.69 to 1.45) |",
            "| slow | a library | a \\| b | 16 |",
            "| map | a library | a \\| b | - |",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
    }

    #[test]
    fn with_fewer_than_three_rounds_nobody_is_slower() {
        let value = json!([report("bytes", "a.pool", &[1e6]), report("fast", "file", &[3e6])]);
        let text = render(&value).unwrap();
        assert!(text.contains("slower in 0") && text.contains("Nowhere in this run"), "{text}");
        assert!(text.contains("| fast | 0.33 | 0.33 |"), "{text}");
        assert!(render(&json!([report("bytes", "a.pool", &[1e6])])).is_err());
        assert!(render(&json!({})).is_err());
    }
}
