//! Lines of Rust have at most 120 columns, also those that the formatter leaves alone: comments and strings.

use super::{Finding, Rule, Workspace, counted_with, finding, rust_files};

pub const RULE: Rule = Rule { name: "width", may_be_debt: true, check };

const COLUMNS_MAX: usize = 120;

/// Rows of tables in comments cannot be broken.
fn is_row(line: &str) -> bool {
    let line = line.trim_start();
    ["//! |", "/// |", "// |"].iter().any(|start| line.starts_with(start)) && line.ends_with('|')
}

fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, _) in rust_files(workspace) {
        for (index, line) in file.text.lines().enumerate() {
            let columns = line.chars().count();
            if columns > COLUMNS_MAX && !is_row(line) {
                let place = format!("{}:{}", file.path, index + 1);
                let message = format!("{place} has {columns} columns: {COLUMNS_MAX} at most");
                findings.push(finding(&RULE, &counted_with(&file.path), 0, message));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::findings_in;
    use super::*;

    #[test]
    fn long_lines_are_counted_by_crate_and_rows_of_tables_are_not() {
        let comment = |length: usize| format!("// {}\n", "a".repeat(length - 3));
        let row = format!("//! | {} |\n", "a".repeat(120));
        let text = format!("{row}{}{}fn a() {{}}\n", comment(120), comment(121));
        let files = [
            ("crates/store/src/a.rs", &*text),
            ("crates/store/tests/b.rs", &*text),
            ("bindings/python/src/c.rs", &*text),
            ("xtask/src/d.rs", "fn d() {}\n"),
        ];
        let found: Vec<String> =
            findings_in(&RULE, &files).into_iter().map(|(path, _)| path).collect();
        assert_eq!(found, ["bindings/python", "crates/store", "crates/store"]);
    }
}
