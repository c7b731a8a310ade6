//! Every mark of a rare branch is named in a test, which says what search is known to meet it; no list has those that
//! no test is known to meet.
//!
//! A mark that nobody looks at says nothing when its branch is not met any more.

use std::collections::BTreeMap;

use super::{Finding, Rule, Workspace, finding, rust_files};

pub const RULE: Rule = Rule { name: "mark", may_be_debt: true, check };

/// What no test is known to meet.
pub const UNMET: Rule = Rule { name: "unmet-mark", may_be_debt: false, check: check_unmet };

/// How a list of such marks begins in a test, and ends.
const LIST: &str = "const UNMET: ";
const LIST_END: &str = "];";

const CALL: &str = "M::mark(";

fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut marks: BTreeMap<&str, (&str, usize)> = BTreeMap::new();
    for (file, rust) in rust_files(workspace) {
        if file.crate_of_source().is_none_or(|name| name == "machine") {
            continue;
        }
        for (index, text) in file.text.lines().enumerate() {
            if rust.lines[index].code.contains(CALL) && !rust.is_test_line(index + 1) {
                marks.extend(names(text).map(|name| (name, (file.path.as_str(), index + 1))));
            }
        }
    }
    let is_named = |name: &str| {
        let literal = format!("\"{name}\"");
        rust_files(workspace)
            .any(|(file, _)| file.path.contains("/tests/") && file.text.contains(&literal))
    };
    marks
        .into_iter()
        .filter(|(name, _)| !is_named(name))
        .map(|(name, (path, line))| {
            let message = format!("no test names the mark `{name}`: say which search meets it");
            finding(&RULE, path, line, message)
        })
        .collect()
}

fn check_unmet(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = vec![];
    for (file, _) in rust_files(workspace).filter(|(file, _)| file.path.contains("/tests/")) {
        let mut is_in_list = false;
        for (index, text) in file.text.lines().enumerate() {
            is_in_list |= text.contains(LIST);
            if is_in_list {
                findings.extend(text.split('"').skip(1).step_by(2).map(|name| {
                    let message = format!("no test meets `{name}`: let one, or take the mark out");
                    finding(&UNMET, &file.path, index + 1, message)
                }));
            }
            is_in_list &= !text.trim_end().ends_with(LIST_END);
        }
    }
    findings
}

/// The literals behind a call of `mark` on a line: a mark may be one of two.
fn names(line: &str) -> impl Iterator<Item = &str> {
    let behind = line.split_once(CALL).map_or("", |(_, behind)| behind);
    behind.split('"').skip(1).step_by(2)
}

#[cfg(test)]
mod tests {
    use super::super::findings_in;
    use super::*;

    #[test]
    fn a_mark_that_no_test_names_is_refused() {
        let source = "fn f() {\n    M::mark(\"tree.split\");\n    \
                      M::mark(if a { \"tree.one\" } else { \"tree.two\" });\n    // M::mark(\"tree.no_code\")\n}\n";
        let files = [
            ("crates/index/src/lib.rs", source),
            (
                "crates/prove/tests/it/marks.rs",
                "const A: [&str; 2] = [\"tree.split\", \"tree.one\"];\n",
            ),
        ];
        let expected = [("crates/index/src/lib.rs".to_string(), 3)];
        assert_eq!(findings_in(&RULE, &files), expected);
    }

    #[test]
    fn a_list_of_marks_that_no_test_meets_is_refused() {
        let path = "crates/prove/tests/it/marks.rs";
        let list = "const ALL: [&str; 1] = [\"tree.split\"];\n\
                    pub const UNMET: [&str; 2] = [\n    \"tree.one\",\n    \"tree.two\",\n];\n\
                    const NONE: &str = \"tree.merge\";\n";
        let expected = [(path.to_string(), 3), (path.to_string(), 4)];
        assert_eq!(findings_in(&UNMET, &[(path, list)]), expected);
        assert!(findings_in(&UNMET, &[("crates/prove/src/marks.rs", list)]).is_empty());
    }
}
