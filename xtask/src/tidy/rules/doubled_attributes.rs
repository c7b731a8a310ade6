//! No attribute stands twice on one item: the second belongs to an item that has lost it, as when a formatter sorts
//! re-exports that have attributes.

use super::{Finding, Rule, Workspace, finding, rust_files};

pub const RULE: Rule = Rule { name: "doubled-attribute", may_be_debt: false, check };

fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut found = Vec::new();
    for (file, _) in rust_files(workspace) {
        let lines: Vec<&str> = file.text.lines().map(str::trim).collect();
        for (index, pair) in lines.windows(2).enumerate() {
            if pair[0] == pair[1] && pair[0].starts_with("#[") && pair[0].ends_with(']') {
                let message = "the same attribute twice: which item has lost it?";
                found.push(finding(&RULE, &file.path, index + 2, message));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::lines_in;
    use super::*;

    #[test]
    fn an_attribute_that_stands_twice_is_found() {
        let lines = |text: &str| lines_in(&RULE, "crates/store/src/lib.rs", text);
        let twice = "#[doc(hidden)]\n#[doc(hidden)]\npub use a::b;\n";
        assert_eq!(lines(twice), [2]);
        assert_eq!(lines("#[doc(hidden)]\npub use a::b;\n#[doc(hidden)]\npub use a::c;\n"), [0; 0]);
    }
}
