//! Tests that guard a landing are ignored elsewhere, for this reason and by this name: so those that
//! `cargo xtask landing` chooses by name are all of them, and none is in no tier.

use super::{Finding, Rule, Workspace, finding};
use crate::tidy::LANDING_PREFIX;

pub const RULE: Rule = Rule { name: "landing-test", may_be_debt: false, check };

/// What such a test says.
const REASON: &str = "#[ignore = \"guards a landing\"]";

fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut found = Vec::new();
    for file in workspace.files.iter().filter(|file| file.rust.is_some()) {
        let lines: Vec<&str> = file.text.lines().map(str::trim).collect();
        let is_named = |line: &str| {
            line.strip_prefix("fn ").is_some_and(|name| name.starts_with(LANDING_PREFIX))
        };
        for (index, line) in lines.iter().enumerate() {
            let next = lines.get(index + 1).copied().unwrap_or_default();
            if *line == REASON && !is_named(next) {
                let message = format!(
                    "the name of a test that guards a landing begins with {LANDING_PREFIX}"
                );
                found.push(finding(&RULE, &file.path, index + 1, message));
            }
            if is_named(line) && (index == 0 || lines[index - 1] != REASON) {
                let message = format!("write {REASON} above it, or name it otherwise");
                found.push(finding(&RULE, &file.path, index + 1, message));
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
    fn name_and_reason_go_together() {
        let lines = |text: &str| lines_in(&RULE, "crates/pool/tests/it/a.rs", text);
        let reason = REASON;
        assert_eq!(lines(&format!("#[test]\n{reason}\nfn landing_a() {{}}\n")), [0; 0]);
        assert_eq!(lines(&format!("#[test]\n{reason}\nfn a() {{}}\n")), [2]);
        assert_eq!(lines("#[test]\nfn landing_a() {}\n"), [2]);
        assert_eq!(lines("#[test]\n#[ignore = \"minutes\"]\nfn a() {}\n"), [0; 0]);
    }
}
