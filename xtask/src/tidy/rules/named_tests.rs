//! Tests that a page of `docs/results` names in code quotes are there under that name.

use std::collections::BTreeSet;

use super::{Finding, Rule, Workspace, finding, rust_files};

pub const RULE: Rule = Rule { name: "named-test", may_be_debt: false, check };

const PAGES: &str = "docs/results/";
/// Names of tests are sentences: what has fewer of these may be a field or a command.
const UNDERSCORES_MIN: usize = 3;

fn check(workspace: &Workspace) -> Vec<Finding> {
    let functions: BTreeSet<&str> = rust_files(workspace)
        .flat_map(|(file, _)| file.text.split("fn ").skip(1))
        .filter_map(|text| text.split(|letter| !is_of_name(letter)).next())
        .collect();
    let pages = workspace.files.iter().filter(|file| file.path.starts_with(PAGES));
    let mut findings = Vec::new();
    for file in pages.filter(|file| file.path.ends_with(".md")) {
        for (index, line) in file.text.lines().enumerate() {
            let quoted = line.split('`').skip(1).step_by(2);
            for name in quoted.filter(|name| is_name(name) && !functions.contains(name)) {
                let message = format!("there is no test {name}: name what is there now");
                findings.push(finding(&RULE, &file.path, index + 1, message));
            }
        }
    }
    findings
}

fn is_of_name(letter: char) -> bool {
    letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_'
}

fn is_name(quoted: &str) -> bool {
    quoted.chars().all(is_of_name) && quoted.matches('_').count() >= UNDERSCORES_MIN
}

#[cfg(test)]
mod tests {
    use super::super::findings_in;
    use super::*;

    #[test]
    fn a_test_that_is_not_there_is_found() {
        let page = "see `what_is_there_stays`, `el_get`\nand `what_is_gone_is_named`\n";
        let files = [
            ("docs/results/a.md", page),
            ("docs/other.md", "`what_is_gone_is_named`\n"),
            ("crates/x/src/lib.rs", "#[test]\nfn what_is_there_stays() {}\n"),
        ];
        assert_eq!(findings_in(&RULE, &files), [("docs/results/a.md".to_string(), 2)]);
    }
}
