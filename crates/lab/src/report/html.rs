//! The report as one HTML file that needs nothing else: no network, no script.

use super::page::{Contest, Made, Page, command, is_own};
use super::svg;
use crate::experiment::{Chart, Entry, Figure, Finding, Grid, Judgement};

/// Colours, type and layout: light and dark, a phone's width and paper.
const STYLE: &str = include_str!("style.css");

/// Text as it may stand in HTML.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// The page.
pub fn render(page: &Page) -> String {
    let mut text = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>Everleaf: the laboratory</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
         <h1>Everleaf: the laboratory</h1>\n\
         <p class=\"lead\">What the papers claim, what we found, and where the two differ. Everything \
         here was counted or measured by the commands that stand beside it.</p>\n"
    );
    text.push_str(&tiles(page));
    if let Some(warning) = page.warning() {
        text.push_str(&format!("<p class=\"warning\"><b>{}</b></p>\n", escape(&warning)));
    }
    text.push_str(&machines(page));
    text.push_str(&contents(page));
    for contest in &page.contests {
        text.push_str(&side_by_side(contest));
    }
    for (family, entries) in &page.families {
        text.push_str(&format!(
            "<h2 id=\"{}\">{}</h2>\n<p class=\"setting\">{}: {}.</p>\n",
            family.name,
            escape(family.source),
            if family.name == "everleaf" { "Setting" } else { "Their setting" },
            escape(family.setting)
        ));
        for (entry, finding) in entries {
            if let Some(finding) = finding {
                text.push_str(&experiment(entry, finding));
            }
        }
        text.push_str(&waiting(entries));
    }
    text.push_str(GLOSSARY);
    text.push_str("</main>\n</body>\n</html>\n");
    text
}

const GLOSSARY: &str = "\
<h2 id=\"how\">How to read this</h2>
<p><b>dm</b> is a dependent miss: the time of a random read of ordinary memory that has to wait for \
the one before, measured before and after every measurement. A cost in dm can be compared between \
machines and between hours of a busy one. <b>Counts</b> come from running the same code on a machine \
that counts: they are exact and the same in every run. <b>Waiting</b> is counts times the latency of a \
model, no measurement. <b>Intervals</b> hold the ratio of two medians in 95 of 100 cases, by \
the noise between the rounds; fewer rounds make them wider. Rounds are made in random order, each with a \
new tree; threads are pinned and warmed up. A figure <b>differs</b> if it is outside of the tolerance \
that the experiment states in its source; the reason is our reading, not a measurement, unless it says \
so.</p>
";

fn tiles(page: &Page) -> String {
    let counts = page.tally();
    let tile = |class: &str, count: usize, name: &str| {
        format!("<div class=\"tile {class}\"><b>{count}</b><span>{name}</span></div>\n")
    };
    let mut text = "<div class=\"tiles\">\n".to_owned();
    text.push_str(&tile("agrees", counts.agree, "agree with the paper"));
    text.push_str(&tile("differs", counts.differ, "differ, and say why"));
    text.push_str(&tile("differs", counts.unexplained, "differ, not all explained"));
    text.push_str(&tile("", counts.shown, "shown without verdict"));
    if counts.not_run > 0 {
        text.push_str(&tile("", counts.not_run, "not run this time"));
    }
    text.push_str(&tile("", counts.not_yet, "not yet possible"));
    text.push_str("</div>\n");
    text
}

fn machines(page: &Page) -> String {
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
    format!("<h2 id=\"machine\">The machine</h2>\n{}", table(&grid))
}

fn contents(page: &Page) -> String {
    let mut text = "<nav>\n".to_owned();
    for (index, contest) in page.contests.iter().enumerate() {
        if index == 0 || page.contests[index - 1].file != contest.file {
            let name = escape(&contest.file);
            text.push_str(&format!("<a href=\"#{}\">{name}</a>\n", anchor(&contest.file)));
        }
    }
    for (family, _) in &page.families {
        text.push_str(&format!("<a href=\"#{0}\">{0}</a>\n", family.name));
    }
    text.push_str("<a href=\"#how\">how to read this</a>\n</nav>\n");
    text
}

/// A name as the target of a link.
fn anchor(name: &str) -> String {
    name.chars()
        .map(|character| if character.is_ascii_alphanumeric() { character } else { '-' })
        .collect()
}

fn side_by_side(contest: &Contest) -> String {
    let mut text = format!(
        "<h2 id=\"{}\">Side by side: {}</h2>\n<p class=\"setting\">From {}.</p>\n",
        anchor(&contest.file),
        escape(&contest.title()),
        escape(&contest.file)
    );
    for shown in contest.tables() {
        text.push_str("<section>\n");
        text.push_str(&table(&shown.grid));
        text.push_str(&charts(&shown.charts));
        text.push_str("</section>\n");
    }
    text
}

fn experiment(entry: &Entry, finding: &Finding) -> String {
    let class = match finding.differences() {
        (_, 0) => "shown",
        (0, _) => "agrees",
        _ => "differs",
    };
    let mut text = format!(
        "<section id=\"{0}\">\n<h3>{1} <span class=\"badge {class}\">{2}</span></h3>\n\
         <p><code>{0}</code> <span class=\"kind\">{3}</span></p>\n\
         <p class=\"claim\"><b>{4}:</b> {5}.</p>\n",
        entry.id,
        escape(entry.what),
        finding.verdict(),
        entry.letters(),
        if entry.family() == "everleaf" { "Shows" } else { "The paper" },
        escape(entry.claim),
    );
    text.push_str(&figures(&finding.outcome.figures));
    text.push_str(&charts(&finding.outcome.charts));
    for grid in &finding.outcome.tables {
        text.push_str(&format!(
            "<details><summary>{}</summary>\n{}</details>\n",
            escape(&grid.title),
            table(&Grid { title: String::new(), ..grid.clone() })
        ));
    }
    for note in &finding.outcome.notes {
        text.push_str(&format!("<p class=\"note\">{}</p>\n", escape(note)));
    }
    let warning = match finding.is_noisy() {
        true => " <b>The machine changed its speed meanwhile: distrust the times.</b>",
        false => "",
    };
    text.push_str(&format!(
        "<p class=\"foot\"><code>{}</code> took {:.0} s; a dependent miss {:.0} ns before, {:.0} ns \
         after.{warning}</p>\n</section>\n",
        escape(&command(finding)),
        finding.seconds,
        finding.miss_before_ns,
        finding.miss_after_ns
    ));
    text
}

fn figures(figures: &[Figure]) -> String {
    if figures.is_empty() {
        return String::new();
    }
    let mut text =
        "<div class=\"wide\"><table>\n<thead><tr><th>figure</th><th>paper</th><th>ours</th>\
                    <th>verdict</th></tr></thead>\n<tbody>\n"
            .to_owned();
    for figure in figures {
        let verdict = match &figure.judgement {
            Judgement::Agrees => "<span class=\"badge agrees\">agrees</span>".to_owned(),
            Judgement::Differs(why) => {
                format!("<span class=\"badge differs\">differs</span> {}", escape(why))
            }
            Judgement::Shown => String::new(),
        };
        text.push_str(&format!(
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{verdict}</td></tr>\n",
            escape(&figure.what),
            escape(&figure.claim),
            escape(&figure.ours)
        ));
    }
    text.push_str("</tbody></table></div>\n");
    text
}

fn charts(charts: &[Chart]) -> String {
    if charts.is_empty() {
        return String::new();
    }
    let mut text = "<div class=\"charts\">\n".to_owned();
    for chart in charts {
        let caption = match chart {
            Chart::Bars { title, unit, .. } => format!("{title} ({unit})"),
            Chart::Lines { title, .. } => title.clone(),
        };
        text.push_str(&format!(
            "<figure><figcaption>{}</figcaption>\n{}</figure>\n",
            escape(&caption),
            svg::chart(chart, &is_own)
        ));
    }
    text.push_str("</div>\n");
    text
}

/// A table; it scrolls by itself where it is too wide.
fn table(grid: &Grid) -> String {
    // Beside the part that scrolls: on a narrow screen a caption within it would be cut off.
    let mut text = match grid.title.as_str() {
        "" => String::new(),
        title => format!("<p class=\"note\">{}</p>\n", escape(title)),
    };
    text.push_str("<div class=\"wide\"><table>\n");
    let head: String =
        grid.columns.iter().map(|name| format!("<th>{}</th>", escape(name))).collect();
    text.push_str(&format!("<thead><tr>{head}</tr></thead>\n<tbody>\n"));
    for row in &grid.rows {
        let class =
            if row.first().is_some_and(|name| is_own(name)) { " class=\"own\"" } else { "" };
        let cells: String = row.iter().map(|text| format!("<td>{}</td>", cell(text))).collect();
        text.push_str(&format!("<tr{class}>{cells}</tr>\n"));
    }
    text.push_str("</tbody></table></div>\n");
    text
}

/// The text of a cell; what stands in brackets behind a number is an interval, and gets a line of its
/// own.
fn cell(text: &str) -> String {
    match text.split_once(" (") {
        Some((number, interval)) if interval.ends_with(')') && !number.contains(' ') => {
            format!("{} <span class=\"interval\">({}</span>", escape(number), escape(interval))
        }
        _ => escape(text),
    }
}

/// What was not made: what waits, and why.
fn waiting(entries: &[Made]) -> String {
    let rows: String = entries
        .iter()
        .filter(|(_, finding)| finding.is_none())
        .map(|(entry, _)| {
            let why = entry.method().err().unwrap_or_else(|| "not run this time".to_owned());
            format!(
                "<tr><td><code>{}</code></td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                entry.id,
                escape(entry.what),
                escape(entry.claim),
                entry.letters(),
                escape(&why)
            )
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    format!(
        "<details class=\"waiting\"><summary>Not made</summary>\n<div class=\"wide\"><table>\n\
         <thead><tr><th>experiment</th><th>what</th><th>claim</th><th>kind</th><th>why not</th></tr>\
         </thead>\n<tbody>\n{rows}</tbody></table></div></details>\n"
    )
}
