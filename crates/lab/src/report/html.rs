//! The report as one HTML file that needs nothing else: no network, no script.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::page::{Contest, Made, Page, command, is_own};
use super::svg;
use crate::experiment::{Chart, Entry, Figure, Finding, Grid, Judgement};

/// Colours, type and layout: light and dark, a phone's width and paper.
const STYLE: &str = include_str!("style.css");

/// The page.
pub fn render(page: &Page) -> String {
    let text = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "Everleaf: the laboratory" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main { (main_part(page)) }
            }
        }
    };
    text.into_string()
}

fn main_part(page: &Page) -> Markup {
    html! {
        h1 { "Everleaf: the laboratory" }
        p class="lead" {
            "What the papers claim, what we found, and where the two differ. Everything here was counted or \
             measured by the commands that stand beside it."
        }
        (tiles(page))
        @if let Some(warning) = page.warning() {
            p class="warning" { b { (warning) } }
        }
        (machines(page))
        (contents(page))
        @for contest in &page.contests { (side_by_side(contest)) }
        @for (family, entries) in &page.families {
            h2 id=(family.name) { (family.source) }
            p class="setting" {
                @if family.name == "everleaf" { "Setting" } @else { "Their setting" }
                ": " (family.setting) "."
            }
            @for (entry, finding) in entries {
                @if let Some(finding) = finding { (experiment(entry, finding)) }
            }
            (waiting(entries))
        }
        (how_to_read())
    }
}

fn how_to_read() -> Markup {
    html! {
        h2 id="how" { "How to read this" }
        p {
            b { "dm" }
            " is a dependent miss: the time of a random read of ordinary memory that has to wait for the one \
             before, measured before and after every measurement. A cost in dm can be compared between \
             machines and between hours of a busy one. "
            b { "Counts" }
            " come from running the same code on a machine that counts: they are exact and the same in every \
             run. "
            b { "Waiting" }
            " is counts times the latency of a model, no measurement. "
            b { "Intervals" }
            " hold the ratio of two medians in 95 of 100 cases, by the noise between the rounds; fewer rounds \
             make them wider. Rounds are made in random order, each with a new tree; threads are pinned and \
             warmed up. A figure "
            b { "differs" }
            " if it is outside of the tolerance that the experiment states in its source; the reason is our \
             reading, not a measurement, unless it says so."
        }
    }
}

fn tiles(page: &Page) -> Markup {
    let counts = page.tally();
    let tile = |class: &str, count: usize, name: &str| {
        html! { div class={ "tile " (class) } { b { (count) } span { (name) } } }
    };
    html! {
        div class="tiles" {
            (tile("agrees", counts.agree, "agree with the paper"))
            (tile("differs", counts.differ, "differ, and say why"))
            (tile("differs", counts.unexplained, "differ, not all explained"))
            (tile("", counts.shown, "shown without verdict"))
            @if counts.not_run > 0 { (tile("", counts.not_run, "not run this time")) }
        }
    }
}

fn machines(page: &Page) -> Markup {
    let mut grid = Grid::new("", &["machine", "CPUs", "caches", "memory", "system", "notes"]);
    for machine in page.machines() {
        let mut notes = Vec::new();
        if machine.is_virtual {
            notes.push("virtual".to_owned());
        }
        if !machine.is_optimized {
            notes.push("built without optimisation: its times mean nothing".to_owned());
        }
        notes.push(format!("load {}", machine.load));
        grid.rows.push(vec![
            machine.cpu.clone(),
            machine.cpu_count.to_string(),
            machine.caches.clone(),
            format!("{} GB", machine.memory_bytes / 1_000_000_000),
            machine.system.clone(),
            notes.join("; "),
        ]);
    }
    html! {
        h2 id="machine" { "The machine" }
        (table(&grid.title, &grid))
    }
}

fn contents(page: &Page) -> Markup {
    let mut files: Vec<&str> = page.contests.iter().map(|contest| contest.file.as_str()).collect();
    files.dedup();
    html! {
        nav {
            @for file in files {
                a href={ "#" (anchor(file)) } { (file) } " "
            }
            @for (family, _) in &page.families {
                a href={ "#" (family.name) } { (family.name) } " "
            }
            a href="#how" { "how to read this" }
        }
    }
}

/// A name as the target of a link.
fn anchor(name: &str) -> String {
    name.chars()
        .map(|character| if character.is_ascii_alphanumeric() { character } else { '-' })
        .collect()
}

fn side_by_side(contest: &Contest) -> Markup {
    html! {
        h2 id=(anchor(&contest.file)) { "Side by side: " (contest.title()) }
        p class="setting" { "From " (contest.file) "." }
        @for shown in contest.tables() {
            section {
                (table(&shown.grid.title, &shown.grid))
                (charts(&shown.charts))
            }
        }
    }
}

fn experiment(entry: &Entry, finding: &Finding) -> Markup {
    let class = match finding.differences() {
        (_, 0) => "shown",
        (0, _) => "agrees",
        _ => "differs",
    };
    html! {
        section id=(entry.id) {
            h3 { (entry.what) " " span class={ "badge " (class) } { (finding.verdict()) } }
            p { code { (entry.id) } " " span class="kind" { (entry.letters()) } }
            p class="claim" {
                b { @if entry.family() == "everleaf" { "Shows:" } @else { "The paper:" } }
                " " (entry.claim) "."
            }
            (figures(&finding.outcome.figures))
            (charts(&finding.outcome.charts))
            @for grid in &finding.outcome.tables {
                details { summary { (grid.title) } (table("", grid)) }
            }
            @for note in &finding.outcome.notes {
                p class="note" { (note) }
            }
            p class="foot" {
                code { (command(finding)) }
                (format!(
                    " took {:.0} s; a dependent miss {:.0} ns before, {:.0} ns after.",
                    finding.seconds, finding.miss_before_ns, finding.miss_after_ns
                ))
                @if finding.is_noisy() {
                    " " b { "The machine changed its speed meanwhile: distrust the times." }
                }
            }
        }
    }
}

fn figures(figures: &[Figure]) -> Markup {
    if figures.is_empty() {
        return html! {};
    }
    let verdict = |judgement: &Judgement| match judgement {
        Judgement::Agrees => html! { span class="badge agrees" { "agrees" } },
        Judgement::Differs(why) => html! { span class="badge differs" { "differs" } " " (why) },
        Judgement::Shown => html! {},
    };
    html! {
        div class="wide" {
            table {
                thead { tr { th { "figure" } th { "paper" } th { "ours" } th { "verdict" } } }
                tbody {
                    @for figure in figures {
                        tr {
                            td { (figure.what) }
                            td { (figure.claim) }
                            td { (figure.ours) }
                            td { (verdict(&figure.judgement)) }
                        }
                    }
                }
            }
        }
    }
}

fn charts(charts: &[Chart]) -> Markup {
    if charts.is_empty() {
        return html! {};
    }
    let caption = |chart: &Chart| match chart {
        Chart::Bars { title, unit, .. } => format!("{title} ({unit})"),
        Chart::Lines { title, .. } => title.clone(),
    };
    html! {
        div class="charts" {
            @for chart in charts {
                figure { figcaption { (caption(chart)) } (svg::chart(chart, &is_own)) }
            }
        }
    }
}

/// A table; it scrolls by itself where it is too wide.
fn table(title: &str, grid: &Grid) -> Markup {
    let is_own_row = |row: &[String]| row.first().is_some_and(|name| is_own(name));
    html! {
        // Beside the part that scrolls: on a narrow screen a caption within it would be cut off.
        @if !title.is_empty() { p class="note" { (title) } }
        div class="wide" {
            table {
                thead { tr { @for name in &grid.columns { th { (name) } } } }
                tbody {
                    @for row in &grid.rows {
                        tr class=[is_own_row(row).then_some("own")] {
                            @for text in row { td { (cell(text)) } }
                        }
                    }
                }
            }
        }
    }
}

/// The text of a cell; what stands in brackets behind a number is an interval, and gets a line of its
/// own.
fn cell(text: &str) -> Markup {
    match text.split_once(" (") {
        Some((number, interval)) if interval.ends_with(')') && !number.contains(' ') => {
            html! { (number) " " span class="interval" { "(" (interval) } }
        }
        _ => html! { (text) },
    }
}

/// What was not run this time.
fn waiting(entries: &[Made]) -> Markup {
    let missing: Vec<&Entry> =
        entries.iter().filter(|(_, finding)| finding.is_none()).map(|(entry, _)| *entry).collect();
    if missing.is_empty() {
        return html! {};
    }
    html! {
        details class="waiting" {
            summary { "Not run this time" }
            div class="wide" {
                table {
                    thead {
                        tr { th { "experiment" } th { "what" } th { "claim" } th { "kind" } }
                    }
                    tbody {
                        @for entry in missing {
                            tr {
                                td { code { (entry.id) } }
                                td { (entry.what) }
                                td { (entry.claim) }
                                td { (entry.letters()) }
                            }
                        }
                    }
                }
            }
        }
    }
}
