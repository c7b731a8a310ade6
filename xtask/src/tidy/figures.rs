//! `cargo xtask figures`: the house in numbers, beside another checkout of it if one is given.

use std::path::Path;

use super::circles::{Circle, circles, circles_beside_folders};
use super::rules::{LENGTH_AIM, RESEARCH, count_of_replaced_words};
use super::source::SourceFile;
use super::workspace::Workspace;

/// The numbers of a checkout, by name, in the order in which they are shown.
pub type Figures = Vec<(&'static str, usize)>;

/// The numbers of a checkout.
///
/// # Errors
/// A sentence for each file that cannot be read.
pub fn of(root: &Path) -> Result<Figures, Vec<String>> {
    Workspace::load(root).map(|workspace| figures(&workspace))
}

/// Prints the numbers of each checkout as a table in Markdown. Returns whether all could be read.
pub fn run(roots: &[&Path]) -> bool {
    let mut columns = vec![];
    for root in roots {
        match of(root) {
            Ok(column) => columns.push(column),
            Err(errors) => {
                errors.iter().for_each(|error| eprintln!("{error}"));
                return false;
            }
        }
    }
    let titles: Vec<String> = roots.iter().map(|root| root.display().to_string()).collect();
    println!("| | {} |", titles.join(" | "));
    println!("|---|{}", "---:|".repeat(columns.len()));
    for row in 0..columns.first().map_or(0, Vec::len) {
        let values: Vec<String> = columns.iter().map(|column| column[row].1.to_string()).collect();
        println!("| {} | {} |", columns[0][row].0, values.join(" | "));
    }
    true
}

fn figures(workspace: &Workspace) -> Figures {
    let rust = || workspace.files.iter().filter(|file| file.rust.is_some());
    let in_crates = || rust().filter(|file| file.path.starts_with("crates/"));
    let is_research = |file: &SourceFile| RESEARCH.contains(&crate_of(&file.path));
    let lines = |file: &SourceFile| count_lines(file, false);
    let tests = |file: &SourceFile| count_lines(file, true);
    // As the rule counts them, empty lines too.
    let is_long = |file: &SourceFile| {
        file.rust.as_ref().is_some_and(|rust| rust.product_line_count() > LENGTH_AIM)
    };
    let circles = circles(workspace);
    let in_circles = |circles: &[Circle]| circles.iter().map(|circle| circle.files.len()).sum();
    vec![
        (
            "lines of product, without tests",
            in_crates().filter(|f| !is_research(f)).map(lines).sum(),
        ),
        (
            "lines of research, without tests",
            in_crates().filter(|f| is_research(f)).map(lines).sum(),
        ),
        ("lines of tests", in_crates().map(tests).sum()),
        ("Rust files", rust().count()),
        ("files above 500 lines", rust().filter(|file| is_long(file)).count()),
        ("files that are test programs", rust().filter(|file| is_test_program(&file.path)).count()),
        ("files in circles above two", in_circles(&circles)),
        (
            "the same without uses of a file above in its folders",
            in_circles(&circles_beside_folders(workspace)),
        ),
        ("largest circle", circles.iter().map(|circle| circle.files.len()).max().unwrap_or(0)),
        ("items marked pub in the store", public_items(workspace, "store")),
        ("words that were replaced", count_of_replaced_words(workspace)),
    ]
}

/// Lines with something on them, of tests or of everything else.
fn count_lines(file: &SourceFile, of_tests: bool) -> usize {
    let Some(rust) = &file.rust else { return 0 };
    let lines = file.text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines.filter(|(index, _)| rust.is_test_line(index + 1) == of_tests).count()
}

/// The folder of a crate.
fn crate_of(path: &str) -> &str {
    path.split('/').nth(1).unwrap_or_default()
}

/// Whether cargo makes a test program of a file.
fn is_test_program(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    matches!(parts[..], ["crates", _, "tests", _] | ["crates", _, "tests", _, "main.rs"])
}

/// Functions, types, constants, traits, modules and re-exports that begin with `pub`, outside of tests.
fn public_items(workspace: &Workspace, name: &str) -> usize {
    let sources = workspace.files.iter().filter(|file| file.crate_of_source() == Some(name));
    let is_public = |line: &str| {
        let line = line.trim_start();
        [
            "pub fn ",
            "pub struct ",
            "pub enum ",
            "pub trait ",
            "pub const ",
            "pub type ",
            "pub async ",
        ]
        .iter()
        .any(|start| line.starts_with(start))
    };
    let count = |file: &SourceFile| {
        let Some(rust) = &file.rust else { return 0 };
        let lines = file.text.lines().enumerate();
        lines.filter(|(index, line)| is_public(line) && !rust.is_test_line(index + 1)).count()
    };
    sources.map(count).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(texts: &[(&str, &str)], name: &str) -> usize {
        let texts = texts.iter().map(|(path, text)| (path.to_string(), text.to_string())).collect();
        let workspace = Workspace::from_texts(texts).expect("it parses");
        let found = figures(&workspace);
        found.iter().find(|(known, _)| *known == name).expect("a figure of that name").1
    }

    #[test]
    fn circles_are_counted_within_a_crate() {
        let ring = [
            ("crates/a/src/lib.rs", "mod x;\nmod y;\nmod z;\n"),
            ("crates/a/src/x.rs", "use crate::y::A;\n"),
            ("crates/a/src/y.rs", "use super::z::B;\n"),
            ("crates/a/src/z.rs", "fn f() { crate::x::g(); }\n"),
        ];
        assert_eq!(figure(&ring, "files in circles above two"), 3);
        assert_eq!(figure(&ring[..3], "files in circles above two"), 0, "a line is no circle");
        let folder = [
            ("crates/a/src/x.rs", "mod y;\nmod z;\nfn f() { y::g(); z::h() }\n"),
            ("crates/a/src/x/y.rs", "use super::f;\n"),
            ("crates/a/src/x/z.rs", "use super::f;\n"),
        ];
        assert_eq!(figure(&folder, "files in circles above two"), 3);
        assert_eq!(figure(&folder, "the same without uses of a file above in its folders"), 0);
    }

    #[test]
    fn product_research_and_test_programs_are_told_apart() {
        let texts = [
            ("crates/store/src/lib.rs", "pub fn one() {}\nfn two() {}\n"),
            ("crates/prove/src/lib.rs", "fn three() {}\n"),
            ("crates/store/tests/a.rs", "fn four() {}\n"),
            ("crates/store/tests/it/main.rs", "fn five() {}\n"),
            ("crates/store/tests/it/more.rs", "fn six() {}\n"),
            ("crates/store/src/wal/tests/seven.rs", "//! A part of the tests inside.\n"),
        ];
        assert_eq!(figure(&texts, "lines of product, without tests"), 2);
        assert_eq!(figure(&texts, "lines of research, without tests"), 1);
        assert_eq!(figure(&texts, "lines of tests"), 4);
        assert_eq!(figure(&texts, "files that are test programs"), 2);
        assert_eq!(figure(&texts, "items marked pub in the store"), 1);
    }

    #[test]
    fn long_files_are_those_that_the_rule_refuses() {
        let of = |lines: usize| format!("//! A file.\n{}", "fn f() {}\n\n".repeat(lines / 2));
        let files = |texts: [(&str, &str); 2]| figure(&texts, "files above 500 lines");
        let (long, short) = (of(502), of(480));
        assert_eq!(files([("crates/a/src/lib.rs", &long), ("crates/b/src/lib.rs", &short)]), 1);
    }
}
