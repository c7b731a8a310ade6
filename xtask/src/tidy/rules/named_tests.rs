//! Tests that a page names in code quotes are there under that name.

use std::collections::BTreeSet;

use super::{Finding, Rule, Workspace, finding, rust_files};

pub const RULE: Rule = Rule { name: "named-test", may_be_debt: false, check };

/// Folders and files that speak of tests.
const PAGES: [&str; 2] = ["docs/", "CHANGELOG.md"];
/// What it names are fields of another program.
const OF_OTHERS: &str = "docs/redis-differences.md";
/// Names of tests are sentences: what has fewer of these may be a field or a command.
const UNDERSCORES_MIN: usize = 3;

fn check(workspace: &Workspace) -> Vec<Finding> {
    let known = known(workspace);
    let pages = workspace.files.iter().filter(|file| {
        let is_named = PAGES.iter().any(|page| file.path.starts_with(page));
        is_named && file.path != OF_OTHERS && file.path.ends_with(".md")
    });
    let mut findings = Vec::new();
    for file in pages {
        let quoted = quoted(&file.text);
        // Planted bugs have names of two parts, and the second is used alone behind that.
        let parts: BTreeSet<&str> =
            quoted.iter().filter_map(|(_, text)| Some(text.split_once('.')?.1)).collect();
        for (line, name) in quoted.iter().filter(|(_, text)| is_name(text)) {
            if !known.contains(name) && !parts.contains(name) {
                let message = format!("there is no test {name}: name what is there now");
                findings.push(finding(&RULE, &file.path, *line, message));
            }
        }
    }
    findings
}

/// The functions that are tests, and every name in code that is no test: of functions, fields, options.
fn known(workspace: &Workspace) -> BTreeSet<&str> {
    let mut known = BTreeSet::new();
    for (_, rust) in rust_files(workspace) {
        let mut is_test = false;
        for (index, line) in rust.lines.iter().enumerate() {
            if !rust.is_test_line(index + 1) {
                known.extend(line.code.split(|letter| !is_of_name(letter)));
                continue;
            }
            is_test |= line.code.trim_start().starts_with("#[test]");
            let Some((_, behind)) = line.code.split_once("fn ") else { continue };
            if std::mem::take(&mut is_test) {
                known.extend(behind.split(|letter| !is_of_name(letter)).next());
            }
        }
    }
    known
}

/// What stands between code quotes, with the number of its line. Blocks of code and what goes on in the next line,
/// which is no name, are passed over.
fn quoted(page: &str) -> Vec<(usize, &str)> {
    let (mut found, mut is_block, mut open) = (Vec::new(), false, false);
    for (index, line) in page.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_block = !is_block;
            open = false;
        } else if line.trim().is_empty() {
            // A quote ends with its paragraph at the latest.
            open = false;
        } else if !is_block {
            let last = line.matches('`').count();
            for (number, part) in line.split('`').enumerate() {
                open ^= number > 0;
                if open && number > 0 && number < last {
                    found.push((index + 1, part));
                }
            }
        }
    }
    found
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

    const CODE: &str = "//! What `was_once_a_test` was.\npub fn what_users_of_it_call() {}\n#[cfg(test)]\nmod tests {\n\
                        fn helper_of_a_test() {}\n#[test]\n#[ignore]\nfn what_is_there_stays() {}\n}\n";

    fn lines_of(path: &str, page: &str) -> Vec<usize> {
        let files = [(path, page), ("crates/x/src/lib.rs", CODE)];
        findings_in(&RULE, &files).into_iter().map(|(_, line)| line).collect()
    }

    #[test]
    fn a_test_that_is_not_there_is_found_on_every_page() {
        let page = "see `what_is_there_stays`, `el_get`\nand `what_is_gone_is_named`\n";
        assert_eq!(lines_of("docs/results/a.md", page), [2]);
        assert_eq!(lines_of("docs/mutants.md", page), [2]);
        assert_eq!(lines_of("CHANGELOG.md", page), [2]);
        assert!(lines_of("docs/redis-differences.md", page).is_empty());
    }

    #[test]
    fn a_comment_or_a_helper_of_that_name_is_no_test() {
        let page = "`was_once_a_test`\n\n`helper_of_a_test`\n\n`what_users_of_it_call`\n";
        assert_eq!(lines_of("docs/a.md", page), [1, 3]);
        // The second part of the name of a planted bug.
        assert!(lines_of("docs/a.md", "`x.was_once_a_test` and `was_once_a_test`\n").is_empty());
    }

    #[test]
    fn quotes_over_two_lines_and_blocks_of_code_are_read_right() {
        let page = "`one\ntwo` what `was_once_a_test`\n\na ` alone\n\n`was_once_a_test`\n```\n` was_once_a_test \
            `\n```\n`was_once_a_test`\n";
        assert_eq!(lines_of("docs/a.md", page), [2, 6, 10]);
    }
}
