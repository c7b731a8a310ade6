//! The report as Markdown, for a repository.

use everleaf_bench::report::Machine;

use super::page::{Page, command};
use crate::experiment::{Entry, Finding, Grid, Judgement};

/// The page.
pub fn render(page: &Page) -> String {
    let counts = page.tally();
    let mut text = format!(
        "# The laboratory's report\n\nOf the experiments, {} agree with the paper, {} differ and say \
         why, {} differ without a reason for all of it, {} show figures without a verdict, {} were not run this \
         time.\n\n## The machine\n\n",
        counts.agree, counts.differ, counts.unexplained, counts.shown, counts.not_run
    );
    if let Some(warning) = page.warning() {
        let place = text.find("## The machine").expect("the heading is above");
        text.insert_str(place, &format!("**{}**\n\n", cell(&warning)));
    }
    for machine in page.machines() {
        text.push_str(&machine_line(machine));
    }
    for contest in &page.contests {
        text.push_str(&format!("## Side by side: {}\n\n", cell(&contest.title())));
        for shown in contest.tables() {
            text.push_str(&table(&shown.grid));
        }
    }
    for (family, entries) in &page.families {
        text.push_str(&format!(
            "## {}\n\n{}: {}.\n\n",
            cell(family.source),
            if family.name == "everleaf" { "Setting" } else { "Their setting" },
            cell(family.setting)
        ));
        for (entry, finding) in entries {
            if let Some(finding) = finding {
                text.push_str(&experiment(entry, finding));
            }
        }
        let mut waiting = Grid::new("Not run this time:", &["experiment", "what", "kind"]);
        for (entry, _) in entries.iter().filter(|(_, finding)| finding.is_none()) {
            let cells = [entry.id, entry.what, &entry.letters()];
            waiting.rows.push(cells.map(str::to_owned).into());
        }
        if !waiting.rows.is_empty() {
            text.push_str(&table(&waiting));
        }
    }
    text
}

fn experiment(entry: &Entry, finding: &Finding) -> String {
    let mut text = format!(
        "### {}: {}\n\n{}\n\n*{}:* {}. *Verdict:* {}.\n\n",
        entry.id,
        cell(entry.what),
        format_args!("`{}`", command(finding)),
        if entry.family() == "everleaf" { "Shows" } else { "The paper" },
        cell(entry.claim),
        finding.verdict()
    );
    if !finding.outcome.figures.is_empty() {
        let mut grid = Grid::new("", &["figure", "paper", "ours", "verdict"]);
        for figure in &finding.outcome.figures {
            let verdict = match &figure.judgement {
                Judgement::Agrees => "agrees".to_owned(),
                Judgement::Differs(why) => format!("**differs**: {why}"),
                Judgement::Shown => String::new(),
            };
            let cells = [figure.what.clone(), figure.claim.clone(), figure.ours.clone(), verdict];
            grid.rows.push(cells.into());
        }
        text.push_str(&table(&grid));
    }
    finding.outcome.tables.iter().for_each(|grid| text.push_str(&table(grid)));
    for note in &finding.outcome.notes {
        text.push_str(&format!("{}\n\n", cell(note)));
    }
    if finding.is_noisy() {
        text.push_str("The machine changed its speed meanwhile: distrust the times.\n\n");
    }
    text
}

/// A machine in a line.
pub(super) fn machine_line(machine: &Machine) -> String {
    format!(
        "{}{}, {} CPUs, caches {}, {} GB of memory, {}.{}\n\n",
        cell(&machine.cpu),
        if machine.is_virtual { " (virtual)" } else { "" },
        machine.cpu_count,
        cell(&machine.caches),
        machine.memory_bytes / 1_000_000_000,
        cell(&machine.system),
        if machine.is_optimized {
            ""
        } else {
            " Built without optimisation: its times mean nothing."
        }
    )
}

/// Text that does not end a cell of a table, nor begin markup.
pub(super) fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;").replace('\n', " ")
}

pub(super) fn table(grid: &Grid) -> String {
    let mut text = String::new();
    if !grid.title.is_empty() {
        text.push_str(&format!("{}\n\n", cell(&grid.title)));
    }
    let line = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|text| cell(text)).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    text.push_str(&line(&grid.columns));
    text.push_str(&format!("|{}\n", "---|".repeat(grid.columns.len())));
    grid.rows.iter().for_each(|row| text.push_str(&line(row)));
    text.push('\n');
    text
}
