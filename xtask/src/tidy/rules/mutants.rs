//! Every planted bug is hunted: its name stands in the prover's list, or in a test.
//!
//! A safeguard whose removal no test looks for is a safeguard nobody knows to be needed.

use std::collections::BTreeMap;

use super::{Finding, Rule, Workspace, finding, rust_files};

pub const RULE: Rule = Rule { name: "mutant", may_be_debt: true, check };

const CALL: &str = "mutant(\"";

fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut planted: BTreeMap<&str, (&str, usize)> = BTreeMap::new();
    for (file, rust) in rust_files(workspace) {
        if file.crate_of_source().is_none_or(|name| name == "machine" || name == "prove") {
            continue;
        }
        for (index, line) in rust.lines.iter().enumerate() {
            if rust.is_test_line(index + 1) {
                continue;
            }
            // Names are literals without escapes, so the text of the line is enough.
            let text = file.text.lines().nth(index).unwrap_or_default();
            if line.code.contains(CALL) {
                planted.extend(names(text).map(|name| (name, (file.path.as_str(), index + 1))));
            }
        }
    }
    let is_hunted = |name: &str| {
        let literal = format!("\"{name}\"");
        rust_files(workspace).any(|(file, _)| {
            let is_test = file.path.starts_with("crates/") && file.path.contains("/tests/");
            (is_test || file.path.starts_with("crates/prove/")) && file.text.contains(&literal)
        })
    };
    planted
        .into_iter()
        .filter(|(name, _)| !is_hunted(name))
        .map(|(name, (path, line))| {
            let message =
                format!("no test hunts the planted bug `{name}`: add it to the prover's list");
            finding(&RULE, path, line, message)
        })
        .collect()
}

/// The literals in calls of `mutant` on a line.
fn names(line: &str) -> impl Iterator<Item = &str> {
    line.split(CALL).skip(1).filter_map(|rest| rest.split_once('"')).map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::super::findings_in;
    use super::*;

    #[test]
    fn a_planted_bug_that_nobody_hunts_is_refused() {
        let source = "fn f() {\n    if M::mutant(\"tree.no_flush\") {}\n    \
                      if !M::mutant(\"tree.no_drain\") {}\n    // M::mutant(\"tree.no_code\")\n}\n";
        let files = [
            ("crates/index/src/lib.rs", source),
            ("crates/index/tests/prove.rs", "const A: [&str; 1] = [\"tree.no_drain\"];\n"),
            ("crates/machine/src/lib.rs", "fn f() { mutant(\"ours\"); }\n"),
        ];
        let expected = [("crates/index/src/lib.rs".to_string(), 2)];
        assert_eq!(findings_in(&RULE, &files), expected);
    }
}
