//! Every mark of a rare branch is named in a test, which says what search is known to meet it.
//!
//! A mark that nobody looks at says nothing when its branch is not met any more.

use std::collections::BTreeMap;

use super::{Finding, Rule, Workspace, finding, rust_files};

pub const RULE: Rule = Rule { name: "mark", may_be_debt: true, check };

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
}
