//! `everleaf-lab prove mutants`: every planted bug must be found, by what is known of it or, with a
//! budget, by the plain search.

use super::args::{ProveArgs, mutant_of};
use everleaf_cli::exit_code::ExitCode;
use everleaf_cli::failure::Failure;
use everleaf_cli::global::Global;
use everleaf_cli::output::Output;
use everleaf_prove::hunt::mutants::{Kill, all, hunt, hunt_plainly};
use everleaf_prove_designs::structures::find;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Rounds of the search for one bug, each twice as long as the one before.
const ROUNDS: u64 = 4;

/// What came of a hunt, as JSON.
#[derive(Serialize)]
struct Hunted<'a> {
    mutant: &'static str,
    structure: &'static str,
    found: bool,
    cpu_seconds: f64,
    schedules: Option<u64>,
    program: Option<&'a str>,
    kind: Option<String>,
}

/// Plants one bug after the other and looks for it.
pub fn run(args: &ProveArgs, global: Global, out: &mut Output) -> Result<(), Failure> {
    let wanted = mutant_of(args)?;
    let chosen: Vec<_> =
        all().filter(|mutant| wanted.is_none_or(|wanted| wanted == *mutant)).collect();
    let mut alive = vec![];
    let mut figures = BTreeMap::new();
    for mutant in &chosen {
        let structure = find(mutant.structure).expect("planted in a structure of the list");
        let clock = || structure.programs().cpu_time();
        let started = clock();
        let kill = match args.budget {
            Some(budget) => hunt_plainly(structure, *mutant, budget, args.seed),
            None => hunt(structure, *mutant, ROUNDS),
        };
        let seconds = (clock() - started).as_secs_f64();
        if global.json {
            out.json(&Hunted {
                mutant: mutant.name,
                structure: mutant.structure,
                found: kill.is_some(),
                cpu_seconds: seconds,
                schedules: kill.as_ref().map(|kill| kill.schedules),
                program: kill.as_ref().map(|kill| &*kill.program),
                kind: kill.as_ref().map(|kill| kill.failure.kind.to_string()),
            })?;
        } else {
            let found = match &kill {
                Some(kill) => format!("{} ({})", kill.failure.kind, kill.program),
                None => "ALIVE".to_owned(),
            };
            let schedules = kill.as_ref().map_or(0, |kill| kill.schedules);
            let name = mutant.name;
            out.line(&format!("{name:<32} {schedules:>8} schedules {seconds:>7.2} s  {found}"))?;
        }
        // Each line as it comes: the whole takes a while.
        out.flush()?;
        match kill {
            Some(Kill { program, schedules, .. }) => {
                figures.insert(mutant.name, Figures { program, schedules, seconds });
            }
            None => alive.push(mutant.name),
        }
    }
    if let Some(path) = &args.page {
        keep(path, &figures)?;
    }
    if !alive.is_empty() {
        let what = format!("not found: {}", alive.join(", "));
        return Err(Failure::new(ExitCode::Violated, what));
    }
    if !global.json {
        let count = chosen.len();
        out.line(&format!("{count} of {count} planted bugs found"))?;
    }
    Ok(())
}

/// How one was found.
struct Figures {
    program: String,
    schedules: u64,
    seconds: f64,
}

/// Puts the figures into a page that has the planted bugs in tables.
fn keep(path: &Path, figures: &BTreeMap<&str, Figures>) -> Result<(), Failure> {
    let shown = path.display();
    let page = fs::read_to_string(path)
        .map_err(|error| Failure::io(&format!("cannot read {shown}"), &error))?;
    fs::write(path, with_figures(&page, figures))
        .map_err(|error| Failure::io(&format!("cannot write {shown}"), &error))
}

/// The page with what is new in the rows of these planted bugs: by the columns that their table has.
fn with_figures(page: &str, figures: &BTreeMap<&str, Figures>) -> String {
    let mut columns: Vec<&str> = vec![];
    let mut text = String::with_capacity(page.len());
    for line in page.lines() {
        let cells = cells_of(line);
        if cells.first() == Some(&"planted bug") {
            columns.clone_from(&cells);
        }
        let name = cells.first().map(|first| first.trim_matches('`'));
        let Some(found) = name.and_then(|name| figures.get(name)) else {
            text.push_str(line);
            text.push('\n');
            continue;
        };
        let program = found.program.strip_prefix("small/").unwrap_or(&found.program);
        let cell = |(cell, column): (&&str, &&str)| match *column {
            "found by" => program.to_owned(),
            "schedules" => found.schedules.to_string(),
            "s" => format!("{:.2}", found.seconds),
            _ => (*cell).to_owned(),
        };
        let cells: Vec<String> = cells.iter().zip(&columns).map(cell).collect();
        text.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    text
}

/// The cells of a line of a table; none of any other line.
fn cells_of(line: &str) -> Vec<&str> {
    let inner = line.strip_prefix('|').and_then(|rest| rest.strip_suffix('|'));
    inner.map_or(vec![], |inner| inner.split('|').map(str::trim).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use everleaf_prove::hunt::mutants::HARMLESS;
    use std::collections::BTreeSet;

    const PAGE: &str = include_str!("../../../../../docs/mutants.md");

    /// What stands in the first column of a table, quoted.
    fn named_in(page: &'static str) -> BTreeSet<&'static str> {
        let first = |line| cells_of(line).first().copied();
        let quoted =
            |cell: &'static str| cell.strip_prefix('`').and_then(|cell| cell.strip_suffix('`'));
        page.lines()
            .filter_map(first)
            .filter_map(quoted)
            .filter(|name| name.contains('.'))
            .collect()
    }

    /// The page has a row for every planted bug, and none for another.
    #[test]
    fn the_page_is_about_what_is_planted() {
        let planted: BTreeSet<&str> = all().map(|mutant| mutant.name).collect();
        let harmless: BTreeSet<&str> = HARMLESS.iter().map(|mutant| mutant.name).collect();
        let named = named_in(PAGE);
        let missing: Vec<_> = planted.difference(&named).collect();
        assert!(missing.is_empty(), "not on the page: {missing:?}");
        let gone: Vec<_> =
            named.difference(&planted).filter(|name| !harmless.contains(*name)).collect();
        assert!(gone.is_empty(), "on the page, and not planted: {gone:?}");
        assert!(PAGE.contains(&format!("There are {}.", planted.len())), "{}", planted.len());
    }

    #[test]
    fn figures_go_where_the_columns_say() {
        let page = "\
text | with | bars
| planted bug | what | found by | schedules | s |
|---|---|---|---|---|
| `a.b` | why | nobody | | |
| `c.d` | why | x | 1 | 2 |
";
        let found = Figures { program: "small/split".to_owned(), schedules: 7, seconds: 0.128 };
        let text = with_figures(page, &BTreeMap::from([("a.b", found)]));
        assert!(text.contains("| `a.b` | why | split | 7 | 0.13 |\n"), "{text}");
        assert!(text.contains("| `c.d` | why | x | 1 | 2 |\n"), "{text}");
        assert_eq!(with_figures(PAGE, &BTreeMap::new()), PAGE);
    }
}
