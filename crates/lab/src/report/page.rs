//! Everything that is known, in the order in which it is shown: experiments by paper, then the
//! indexes side by side.

use everleaf_bench::BenchError;
use everleaf_bench::report::Machine;
use everleaf_bench::statistics::Ratio;

use super::saved::{SavedReport, SavedRow, reports_in};
use crate::experiment::{Bar, Chart, Entry, FAMILIES, Family, Finding, Folder, Grid, number};

/// Names under which Everleaf takes part.
const OWN: [&str; 4] = ["everleaf", "u64", "bytes", "nbtree"];

/// Whether a name is that of Everleaf's flagship.
pub(crate) fn is_own(name: &str) -> bool {
    OWN.contains(&name) || name.starts_with("everleaf")
}

/// An experiment, and what it found if it was made.
pub(crate) type Made = (&'static Entry, Option<Finding>);

/// What a report shows.
pub struct Page {
    pub(crate) families: Vec<(&'static Family, Vec<Made>)>,
    pub(crate) contests: Vec<Contest>,
}

/// Indexes that were measured with the same keys, in the same file.
pub(crate) struct Contest {
    /// The file, without its folder.
    pub file: String,
    pub reports: Vec<SavedReport>,
}

/// A table with a picture, of one number of threads.
pub(crate) struct Shown {
    pub grid: Grid,
    pub charts: Vec<Chart>,
}

impl Page {
    /// What a folder of `everleaf-lab run` holds, and any reports of the bench and of the rivals in
    /// it.
    ///
    /// # Errors
    /// A file cannot be read; the folder holds nothing to show.
    pub fn read(folder: &Folder) -> Result<Self, BenchError> {
        let mut families = Vec::new();
        let mut count = 0;
        for family in FAMILIES {
            let mut entries = Vec::new();
            for entry in family.entries {
                let finding = folder.finding(entry.id)?;
                count += usize::from(finding.is_some());
                entries.push((entry, finding));
            }
            families.push((family, entries));
        }
        let mut contests = Vec::new();
        for (path, value) in folder.others()? {
            let file = path.file_name().map(|name| name.to_string_lossy().into_owned());
            let file = file.unwrap_or_default();
            for report in reports_in(&value) {
                let same = |contest: &&mut Contest| {
                    contest.file == file && sizes(&contest.reports[0]) == sizes(&report)
                };
                match contests.iter_mut().find(same) {
                    Some(contest) => contest.reports.push(report),
                    None => contests.push(Contest { file: file.clone(), reports: vec![report] }),
                }
            }
        }
        if count == 0 && contests.is_empty() {
            return Err(BenchError::Settings(
                "the folder holds no findings: run `everleaf-lab run all --quick --out FOLDER` first"
                    .to_owned(),
            ));
        }
        Ok(Page { families, contests })
    }

    /// All findings.
    pub(crate) fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.families
            .iter()
            .flat_map(|(_, entries)| entries)
            .filter_map(|(_, found)| found.as_ref())
    }

    /// The machines that were measured, each once, by what does not change from minute to minute.
    pub(crate) fn machines(&self) -> Vec<&Machine> {
        let of_reports = self.contests.iter().flat_map(|contest| &contest.reports);
        let all = self
            .findings()
            .map(|finding| &finding.machine)
            .chain(of_reports.map(|report| &report.machine));
        let mut machines: Vec<&Machine> = Vec::new();
        for machine in all {
            let is_same = |other: &&Machine| {
                (&other.cpu, other.cpu_count, &other.system)
                    == (&machine.cpu, machine.cpu_count, &machine.system)
            };
            if !machines.iter().any(is_same) {
                machines.push(machine);
            }
        }
        machines
    }

    /// What a reader must know if the findings are not those of one program: then they may be of
    /// different versions.
    pub(crate) fn warning(&self) -> Option<String> {
        let mut programs: Vec<(&str, Vec<&str>)> = Vec::new();
        for finding in self.findings() {
            let program = finding.machine.program.as_str();
            match programs.iter_mut().find(|(known, _)| *known == program) {
                Some((_, ids)) => ids.push(&finding.id),
                None => programs.push((program, vec![&finding.id])),
            }
        }
        if programs.len() < 2 {
            return None;
        }
        // Those that are few are named.
        programs.sort_by_key(|(_, ids)| std::cmp::Reverse(ids.len()));
        let others: Vec<String> = programs[1..].iter().map(|(_, ids)| ids.join(", ")).collect();
        Some(format!(
            "These findings were made by {} programs, which may be different versions: {} by one, the \
             others ({}) not. Run `everleaf-lab run all` again with the same folder; what this very \
             program made is not rebuilt.",
            programs.len(),
            programs[0].1.len(),
            others.join("; ")
        ))
    }

    /// How many experiments agree, differ with reasons and without, only show, and were not made;
    /// and of the last, how many could not be.
    pub(crate) fn tally(&self) -> Counts {
        let mut counts = Counts::default();
        for (_, finding) in self.families.iter().flat_map(|(_, entries)| entries) {
            match finding.as_ref().map(Finding::differences) {
                Some((0, 0)) => counts.shown += 1,
                Some((0, _)) => counts.agree += 1,
                Some(_) if finding.as_ref().is_some_and(|one| one.unexplained() > 0) => {
                    counts.unexplained += 1;
                }
                Some(_) => counts.differ += 1,
                None => counts.not_run += 1,
            }
        }
        counts
    }
}

/// Numbers of experiments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub agree: usize,
    /// With a reason for each difference.
    pub differ: usize,
    /// With a difference that nobody can explain.
    pub unexplained: usize,
    pub shown: usize,
    pub not_run: usize,
}

/// What makes reports comparable.
fn sizes(report: &SavedReport) -> (u64, usize, usize) {
    let setup = &report.setup;
    (setup.keys, setup.key_size_bytes, setup.value_size_bytes)
}

impl Contest {
    /// Keys and sizes in a few words.
    pub fn title(&self) -> String {
        let setup = &self.reports[0].setup;
        format!(
            "{} keys of {} B with values of {} B",
            everleaf_bench::table::grouped(setup.keys),
            setup.key_size_bytes,
            setup.value_size_bytes
        )
    }

    /// The index that another is compared with: Everleaf if it is there; a store in files with the
    /// store if that is there too.
    fn base(&self, other: &SavedReport) -> &SavedReport {
        let named = |name| self.reports.iter().find(|report| report.setup.index == name);
        let store = named("bytes").filter(|_| other.setup.medium == "file");
        let own = || self.reports.iter().find(|report| is_own(&report.setup.index));
        store.or_else(|| named("u64")).or_else(own).unwrap_or(&self.reports[0])
    }

    /// The names of those that the others are compared with.
    fn bases(&self) -> String {
        let mut names: Vec<&str> = Vec::new();
        for report in &self.reports {
            let name = self.base(report).setup.index.as_str();
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names.sort_unstable();
        match names.as_slice() {
            ["bytes", "u64"] => "bytes, of maps in memory to u64".to_owned(),
            _ => names.join(", "),
        }
    }

    /// A table for each number of threads: million units a second, and the ratio to Everleaf.
    pub fn tables(&self) -> Vec<Shown> {
        let mut threads: Vec<usize> =
            self.reports.iter().flat_map(|report| &report.rows).map(|row| row.threads).collect();
        threads.sort_unstable();
        threads.dedup();
        threads.into_iter().map(|count| self.table(count)).collect()
    }

    fn table(&self, threads: usize) -> Shown {
        let base = self.base(&self.reports[0]);
        let rows: Vec<&SavedRow> = base.rows.iter().filter(|row| row.threads == threads).collect();
        let plural = if threads == 1 { "" } else { "s" };
        let title = format!(
            "million units a second, {threads} thread{plural}; in brackets the ratio to {}, with \
             the interval that holds it in 95 of 100 cases; ~ if the machine was disturbed",
            self.bases()
        );
        let mut grid = Grid::new(title, &["index", "domain"]);
        grid.columns.extend(rows.iter().map(|row| heading(row)));
        grid.columns.extend(["pool MB".to_owned(), "DRAM MB".to_owned()]);
        let mut charts: Vec<(String, Vec<Bar>)> =
            rows.iter().map(|row| (row.name(), vec![])).collect();
        for report in &self.reports {
            let mut cells = vec![report.setup.index.clone(), report.setup.domain.clone()];
            let base = self.base(report);
            for (row, (_, bars)) in rows.iter().zip(&mut charts) {
                let found = report.rows.iter().find(|other| other.name() == row.name());
                cells.push(found.map_or_else(|| "-".to_owned(), |found| cell(found, base)));
                if let Some(found) = found {
                    let speed = found.per_second;
                    bars.push(Bar {
                        name: report.setup.index.clone(),
                        value: speed.median / 1e6,
                        spread: Some((speed.min / 1e6, speed.max / 1e6)),
                    });
                }
            }
            let bytes = [report.memory.pool_used_bytes, report.memory.dram_bytes];
            cells.extend(bytes.map(|bytes| number(bytes as f64 / 1e6)));
            grid.rows.push(cells);
        }
        let unit = "M/s".to_owned();
        let chart = |(title, bars)| Chart::Bars { title, unit: unit.clone(), bars };
        Shown { grid, charts: charts.into_iter().map(chart).collect() }
    }
}

/// Workload and keys.
fn heading(row: &SavedRow) -> String {
    let skew = row.theta.map_or(String::new(), |theta| format!(" {theta}"));
    let keys = if row.distribution.is_empty() { "" } else { " " };
    format!("{}{keys}{}{skew}", row.workload, row.distribution)
}

fn cell(found: &SavedRow, base: &SavedReport) -> String {
    let speeds =
        |row: &SavedRow| row.rounds.iter().map(|round| round.per_second).collect::<Vec<_>>();
    let mark = if found.is_disturbed() { "~" } else { "" };
    let speed = number(found.per_second.median / 1e6);
    let ours = base.rows.iter().find(|row| row.name() == found.name());
    match ours.and_then(|ours| Ratio::of(&speeds(found), &speeds(ours))) {
        Some(ratio) => {
            format!("{mark}{speed} ({:.2}, {})", ratio.ratio, ratio.interval())
        }
        None => format!("{mark}{speed}"),
    }
}

/// The command that repeats an experiment.
pub(crate) fn command(finding: &Finding) -> String {
    let seed = if finding.seed == 1 { String::new() } else { format!(" --seed {}", finding.seed) };
    format!("everleaf-lab run {} --{}{seed}", finding.id, finding.scale.name())
}

#[cfg(test)]
mod tests {
    use super::super::{render_html, render_markdown};
    use super::*;
    use crate::experiment::{Figure, Results, Scale};

    fn finding(id: &str, figures: Vec<Figure>) -> Finding {
        Finding {
            id: id.to_owned(),
            version: "0".to_owned(),
            scale: Scale::Quick,
            seed: 7,
            seconds: 1.0,
            miss_before_ns: 100.0,
            miss_after_ns: 130.0,
            machine: Machine { cpu: "a <cpu>".to_owned(), ..Machine::default() },
            outcome: Results { figures, ..Results::default() },
        }
    }

    /// A report of one workload with these speeds of its rounds.
    fn report(index: &str, speeds: [f64; 3]) -> serde_json::Value {
        let rounds: Vec<_> =
            speeds.iter().map(|speed| serde_json::json!({ "per_second": speed })).collect();
        serde_json::json!({
            "setup": { "index": index, "keys": 1000, "key_size_bytes": 8, "value_size_bytes": 8 },
            "rows": [{
                "workload": "get", "distribution": "uniform", "threads": 1, "unit": "op",
                "per_second": { "median": speeds[1], "min": speeds[0], "max": speeds[2] },
                "rounds": rounds,
            }],
        })
    }

    #[test]
    fn a_page_has_what_was_made_what_was_not_and_the_rivals() {
        let directory = tempfile::tempdir().unwrap();
        let folder = Folder::create(directory.path()).unwrap();
        assert!(Page::read(&folder).is_err(), "nothing to show");
        let near = |ours| Figure::near("flushes", 1.0, ours, "lines", 0.0).if_above("of <that>");
        folder.keep(&finding("nbtree.table1", vec![near(1.0), near(2.0)])).unwrap();
        folder.keep(&finding("rntree.table1", vec![near(1.0)])).unwrap();
        folder.keep(&finding("nbtree.fig6", vec![near(2.0), near(0.5)])).unwrap();
        let slow = report("slow", [1e6, 2e6, 3e6]);
        let rivals = serde_json::json!([slow, report("everleaf", [4e6, 4e6, 4e6])]);
        std::fs::write(directory.path().join("rivals.json"), rivals.to_string()).unwrap();
        let page = Page::read(&folder).unwrap();
        let counts = page.tally();
        assert_eq!((counts.agree, counts.differ, counts.unexplained), (1, 1, 1));
        assert!(counts.not_run > 5);
        assert_eq!(page.contests.len(), 1);
        let shown = &page.contests[0].tables()[0];
        assert_eq!(shown.grid.rows[0][2], "2 (0.50, 0.08 to 3.18)");
        assert_eq!(shown.grid.rows[1][2], "4 (1.00, 1.00 to 1.00)");
        let html = render_html(&page);
        for text in ["a &lt;cpu&gt;", "of &lt;that&gt;", "--quick --seed 7", "distrust the times"] {
            assert!(html.contains(text), "{text}");
        }
        assert!(!html.contains("<that>"));
        assert_eq!(html.matches("<section").count(), html.matches("</section>").count());
        let markdown = render_markdown(&page);
        assert!(markdown.contains("| flushes | 1 lines | 2 lines | **differs**: of &lt;that> |"));
        assert!(markdown.contains("| slow |"));
        assert!(markdown.contains("differs in 2 of 2, 1 not explained"));
        assert!(!markdown.contains("different versions") && !html.contains("different versions"));
        let mut other = finding("rntree.fig4", vec![near(1.0)]);
        other.machine.program = "another".to_owned();
        folder.keep(&other).unwrap();
        let page = Page::read(&folder).unwrap();
        for text in [render_html(&page), render_markdown(&page)] {
            assert!(text.contains("the others (rntree.fig4) not"));
        }
    }
}
