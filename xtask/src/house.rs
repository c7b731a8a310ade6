//! `cargo xtask house`: what became of the code since product and research were parted, in one table: what can be
//! counted of both checkouts, and what was measured of each, which is kept in `docs/results/house.csv`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::tidy;

/// What was measured: lines `when,what,amount`.
const KEPT: &str = "docs/results/house.csv";
const HEADER: &str = "when,what,amount\n";
/// The page with the table, and what it stands between.
const PAGE: &str = "docs/results/house.md";
const BEGIN: &str = "<!-- the table: cargo xtask house -->\n";
const END: &str = "<!-- its end -->\n";
/// Of the two checkouts.
const WHEN: [&str; 2] = ["before", "now"];
const USAGE: &str = "usage: cargo xtask house OLDER_CHECKOUT [--update]
       cargo xtask house --read LOG   a log of commands behind `/usr/bin/time -v`";

/// A row of what is measured.
struct Row {
    what: &'static str,
    title: &'static str,
    /// What it should be at most.
    aim: Option<f64>,
    digits: usize,
}

const fn row(what: &'static str, title: &'static str, aim: Option<f64>, digits: usize) -> Row {
    Row { what, title, aim, digits }
}

/// All of them, in the order in which they are shown.
const ROWS: [Row; 18] = [
    row("test-cold-minutes", "`cargo xtask test`, cold, minutes", Some(12.0), 1),
    row("test-cold-build-cpu", "of it CPU seconds of building", None, 0),
    row("test-cold-run-cpu", "of it CPU seconds of the tests", None, 0),
    row("test-warm-minutes", "`cargo xtask test`, warm, minutes", Some(4.0), 1),
    row("test-warm-run-cpu", "of it CPU seconds of the tests", None, 0),
    row("test-passed", "its tests", None, 0),
    row("test-programs", "its test programs, those of unit tests among them", None, 0),
    row("landing-minutes", "`cargo xtask landing` behind it, minutes", None, 1),
    row("landing-build-cpu", "of it CPU seconds of building", None, 0),
    row("landing-run-cpu", "of it CPU seconds of the tests", None, 0),
    row("landing-passed", "its tests", None, 0),
    row("landing-programs", "its test programs, those of unit tests among them", None, 0),
    row("checks-minutes", "`cargo xtask checks` behind these, minutes", None, 1),
    row("ci-minutes", "`cargo xtask ci`, cold: these three, minutes", Some(25.0), 1),
    row("target-gb", "`target` after `test`, GB", Some(3.0), 1),
    row("product-minutes", "building the program, cold, minutes", Some(2.5), 1),
    row("product-cpu", "of it CPU seconds", None, 0),
    row("product-mb", "the program, stripped, MB", Some(10.0), 1),
];

/// Amounts by when and what.
type Amounts = BTreeMap<(String, String), f64>;

/// Prints the table, or keeps what a log says.
pub fn run(root: &Path, arguments: &[String]) -> bool {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["--read", log] => read(root, Path::new(log)),
        [older] if !older.starts_with('-') => {
            table(root, Path::new(older)).map(|text| print!("{text}"))
        }
        [older, "--update"] => update(root, Path::new(older)),
        _ => Err(USAGE.to_string()),
    };
    done.map_err(|error| eprintln!("xtask: {error}")).is_ok()
}

/// Keeps what a log says of now.
fn read(root: &Path, log: &Path) -> Result<(), String> {
    let text = read_file(log)?;
    let mut amounts = kept(root)?;
    let found = measured(&text);
    if found.is_empty() {
        return Err(format!("{}: nothing that is measured was timed in it", log.display()));
    }
    for (what, amount) in found {
        let amount = (amount * 100.0).round() / 100.0;
        println!("{what} {amount}");
        amounts.insert((WHEN[1].to_string(), what.to_string()), amount);
    }
    let lines = amounts.iter().map(|((when, what), amount)| format!("{when},{what},{amount}\n"));
    let text = HEADER.to_string() + &lines.collect::<String>();
    fs::write(root.join(KEPT), text).map_err(|error| format!("{KEPT}: {error}"))
}

/// Writes the table into its page.
fn update(root: &Path, older: &Path) -> Result<(), String> {
    let page = root.join(PAGE);
    let text = read_file(&page)?;
    let text = replaced(&text, &table(root, older)?)
        .ok_or_else(|| format!("{PAGE} does not say where the table is"))?;
    fs::write(&page, text).map_err(|error| format!("{PAGE}: {error}"))
}

/// A page with another table.
fn replaced(page: &str, table: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, behind) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}{table}{END}{behind}"))
}

fn read_file(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn kept(root: &Path) -> Result<Amounts, String> {
    let text = read_file(&root.join(KEPT))?;
    let lines = text.lines().enumerate().skip(1);
    lines.map(|(index, line)| kept_in(line).ok_or(format!("{KEPT}, line {}", index + 1))).collect()
}

fn kept_in(line: &str) -> Option<((String, String), f64)> {
    let [when, what, amount] = line.split(',').collect::<Vec<_>>()[..] else { return None };
    let is_known = WHEN.contains(&when) && ROWS.iter().any(|row| row.what == what);
    let amount = amount.parse().ok().filter(|_| is_known)?;
    Some(((when.to_string(), what.to_string()), amount))
}

/// The whole table, in Markdown.
fn table(root: &Path, older: &Path) -> Result<String, String> {
    let counted = |root| tidy::figures::of(root).map_err(|errors| errors.join("\n"));
    Ok(shown(&counted(older)?, &counted(root)?, &kept(root)?))
}

fn shown(
    before: &tidy::figures::Figures,
    now: &tidy::figures::Figures,
    measured: &Amounts,
) -> String {
    let mut text = "| | before | now | aim |\n|---|---:|---:|---:|\n".to_string();
    for ((title, then), (_, now)) in before.iter().zip(now) {
        let _ = writeln!(text, "| {title} | {then} | {now} | |");
    }
    for Row { what, title, aim, digits } in ROWS {
        let amount = |when: &str| {
            let amount = measured.get(&(when.to_string(), what.to_string()));
            amount.map_or("-".to_string(), |amount| format!("{amount:.digits$}"))
        };
        let aim = aim.map_or(String::new(), |aim| format!("{aim} "));
        let [then, now] = WHEN.map(amount);
        let _ = writeln!(text, "| {title} | {then} | {now} | {aim}|");
    }
    text
}

/// What a log says of the commands that were timed in it.
fn measured(log: &str) -> BTreeMap<&'static str, f64> {
    let mut found = BTreeMap::new();
    let mut output = String::new();
    let mut timed: Option<Timed> = None;
    for line in log.lines() {
        if let Some(command) = line.trim_start().strip_prefix(TIMED) {
            timed = Some(Timed { command: command.trim_matches('"').to_string(), cpu: 0.0 });
        } else if let Some(of) = &mut timed {
            let value = line.rsplit(": ").next().unwrap_or_default();
            match line.trim_start() {
                line if line.starts_with("User time") || line.starts_with("System time") => {
                    of.cpu += value.parse::<f64>().unwrap_or_default();
                }
                line if line.starts_with("Elapsed") => {
                    note(&mut found, of, minutes_of(value), &std::mem::take(&mut output));
                }
                line if line.starts_with("Exit status") => timed = None,
                _ => {}
            }
        } else {
            output.extend([line, "\n"]);
        }
        if let Some(bytes) = line.strip_prefix(STRIPPED).and_then(first_number) {
            found.insert("product-mb", bytes / 1e6);
        }
        if let Some(bytes) = line.strip_suffix(TARGET).and_then(first_number) {
            found.insert("target-gb", bytes / 1e9);
        }
    }
    // `cargo xtask ci` is these three, one after the other.
    if let [Some(test), Some(landing), Some(checks)] =
        ["test-cold-minutes", "landing-minutes", "checks-minutes"].map(|what| found.get(what))
    {
        let minutes = test + landing + checks;
        found.entry("ci-minutes").or_insert(minutes);
    }
    found
}

/// How the line of `time -v` begins that names the command.
const TIMED: &str = "Command being timed: ";
/// How that of `cargo xtask product` begins that has the size.
const STRIPPED: &str = "the program, stripped: ";
/// How that of `du -sb target` ends.
const TARGET: &str = "\ttarget";
/// What Cargo prints where nothing was there.
const COLD: &str = "   Compiling everleaf-machine v";

/// A command and its CPU seconds.
struct Timed {
    command: String,
    cpu: f64,
}

/// Notes what a command printed that took so long.
fn note(found: &mut BTreeMap<&'static str, f64>, of: &Timed, minutes: f64, output: &str) {
    let has = |words: &str| of.command.contains(words);
    let is_cold = output.contains(COLD);
    let names = match () {
        () if has("xtask test") && is_cold => {
            ["test-cold-minutes", "test-cold-build-cpu", "test-cold-run-cpu", "", ""]
        }
        () if has("xtask test") => {
            ["test-warm-minutes", "", "test-warm-run-cpu", "test-passed", "test-programs"]
        }
        () if has("xtask landing") => [
            "landing-minutes",
            "landing-build-cpu",
            "landing-run-cpu",
            "landing-passed",
            "landing-programs",
        ],
        () if has("xtask checks") => ["checks-minutes", "", "", "", ""],
        () if has("xtask ci") && is_cold => ["ci-minutes", "", "", "", ""],
        () if has("build") && has("--release") && is_cold => {
            found.insert("product-cpu", of.cpu);
            ["product-minutes", "", "", "", ""]
        }
        () => return,
    };
    let whole = output.lines().find(|line| line.contains(" test programs: built in "));
    let behind = |words: &str| {
        whole.and_then(|line| line.split_once(words)).and_then(|(_, rest)| first_number(rest))
    };
    let passed =
        output.lines().rev().find(|line| line.contains(" passed, ")).and_then(first_number);
    let programs = whole.and_then(first_number);
    let amounts = [Some(minutes), behind("built in "), behind("run in "), passed, programs];
    for (what, amount) in names.into_iter().zip(amounts) {
        if let Some(amount) = amount.filter(|_| !what.is_empty()) {
            found.insert(what, amount);
        }
    }
}

/// The number that a text begins with.
fn first_number(text: &str) -> Option<f64> {
    text.split_whitespace().next()?.parse().ok()
}

/// Minutes of `h:mm:ss` or `m:ss.ss`.
fn minutes_of(time: &str) -> f64 {
    time.split(':').fold(0.0, |sum, part| 60.0 * sum + part.parse::<f64>().unwrap_or_default())
        / 60.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "   Compiling everleaf-machine v0.1.0 (/a)
36 test programs: built in 983 CPU seconds and 9.6 minutes (from nothing), run in 453 CPU seconds, 202 of them from
1974 passed, 0 failed
\tCommand being timed: \"cargo xtask test --record\"
\tUser time (seconds): 1368.37
\tElapsed (wall clock) time (h:mm:ss or m:ss): 13:31.50
\tExit status: 0
36 test programs: built in 3 CPU seconds and 0.1 minutes (some of it was there), run in 460 CPU seconds, 0 of them
1975 passed, 0 failed
\tCommand being timed: \"cargo xtask test\"
\tUser time (seconds): 400.0
\tElapsed (wall clock) time (h:mm:ss or m:ss): 4:06.00
\tExit status: 0
   Compiling everleaf-machine v0.1.0 (/a)
\tCommand being timed: \"cargo build --release -p everleaf-cli\"
\tUser time (seconds): 200.5
\tSystem time (seconds): 12
\tElapsed (wall clock) time (h:mm:ss or m:ss): 1:00:00
\tExit status: 0
the program, stripped: 9700000 bytes, of 10000000 at most
2650000000\ttarget
";

    #[test]
    fn a_log_says_what_each_timed_command_took() {
        let found = measured(LOG);
        let expected = [
            ("product-cpu", 212.5),
            ("product-mb", 9.7),
            ("product-minutes", 60.0),
            ("target-gb", 2.65),
            ("test-cold-build-cpu", 983.0),
            ("test-cold-minutes", 13.525),
            ("test-cold-run-cpu", 453.0),
            ("test-passed", 1975.0),
            ("test-programs", 36.0),
            ("test-warm-minutes", 4.1),
            ("test-warm-run-cpu", 460.0),
        ];
        assert_eq!(found.into_iter().collect::<Vec<_>>(), expected);
        assert!(measured("1974 passed, 0 failed\n").is_empty(), "nothing was timed");
    }

    #[test]
    fn the_three_tiers_are_the_whole_unless_that_was_timed() {
        let timed = |what: &str, time: &str| {
            format!(
                "   Compiling everleaf-machine v0.1.0 (/a)\n\tCommand being timed: \"cargo xtask {what}\"\n\
                 \tElapsed (wall clock) time (h:mm:ss or m:ss): {time}\n\tExit status: 0\n"
            )
        };
        let two = timed("test", "8:00.00") + &timed("landing", "9:00.00");
        assert!(!measured(&two).contains_key("ci-minutes"));
        let three = two + &timed("checks", "1:30.00");
        assert_eq!(measured(&three)["ci-minutes"], 18.5);
        assert_eq!(measured(&(three + &timed("ci", "18:00.00")))["ci-minutes"], 18.0);
    }

    #[test]
    fn what_a_log_says_is_kept_and_shown_beside_what_is_counted() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(folder.path().join("docs/results")).expect("a folder");
        let log = folder.path().join("log");
        fs::write(&log, LOG).expect("a log");
        fs::write(
            folder.path().join(KEPT),
            format!("{HEADER}before,product-mb,24\nnow,product-mb,99\n"),
        )
        .expect("a file");
        read(folder.path(), &log).expect("a log with times");
        let amounts = kept(folder.path()).expect("what was kept");
        let text = shown(&vec![("files", 3)], &vec![("files", 4)], &amounts);
        assert!(text.contains("\n| files | 3 | 4 | |\n"), "{text}");
        assert!(text.contains("\n| the program, stripped, MB | 24.0 | 9.7 | 10 |\n"), "{text}");
        assert!(
            text.contains("\n| `cargo xtask test`, cold, minutes | - | 13.5 | 12 |\n"),
            "{text}"
        );
        fs::write(folder.path().join(KEPT), "when,what,amount\nnow,nothing,1\n").expect("a file");
        assert!(kept(folder.path()).is_err_and(|error| error.ends_with("line 2")));
    }

    #[test]
    fn the_page_keeps_what_is_around_the_table() {
        let page = format!("a\n{BEGIN}old\n{END}b\n");
        assert_eq!(replaced(&page, "new\n"), Some(format!("a\n{BEGIN}new\n{END}b\n")));
        assert_eq!(replaced("a\n", "new\n"), None);
        let kept = include_str!("../../docs/results/house.md");
        assert!(replaced(kept, "").is_some(), "the page has a table");
        kept_in(include_str!("../../docs/results/house.csv").lines().nth(1).expect("a line"))
            .expect("the first line is one that is known");
    }
}
