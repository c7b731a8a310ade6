//! A test that is ignored says by one of a few reasons what runs it, and its name goes with the reason, by which
//! it is chosen: so no test is in no tier, and none that only hands may start is run at night.

use super::{Finding, Rule, Workspace, finding};
use crate::tidy::{BY_HAND_PREFIX, LONG_NAMES};

pub const RULE: Rule = Rule { name: "ignored-test", may_be_debt: false, check };

/// The crates of which `cargo xtask sim` runs all ignored tests, but those for hands.
const OF_SIM: [&str; 5] = ["machine", "models", "pool", "prove", "prove-designs"];

fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut found = Vec::new();
    for file in workspace.files.iter().filter(|file| file.rust.is_some()) {
        let lines: Vec<&str> = file.text.lines().map(str::trim).collect();
        for (index, line) in lines.iter().enumerate() {
            if !line.starts_with("#[ignore") {
                continue;
            }
            let name = lines.get(index + 1).and_then(|next| next.strip_prefix("fn "));
            if let Some(message) = objection(&file.path, line, name.unwrap_or_default()) {
                found.push(finding(&RULE, &file.path, index + 1, message));
            }
        }
    }
    found
}

/// What is wrong with the reason of a test of that name.
fn objection(path: &str, line: &str, name: &str) -> Option<String> {
    let reason = line.strip_prefix("#[ignore = \"").unwrap_or_default();
    if name.starts_with(BY_HAND_PREFIX) != reason.starts_with("by hand: ") {
        return Some(format!(
            "the name of a test with the reason \"by hand: ..\" begins with {BY_HAND_PREFIX}, and no other"
        ));
    }
    let is_known = ["by hand: ", "a part of ", "guards a landing\"", "a long run"]
        .iter()
        .any(|known| reason.starts_with(known));
    if !is_known {
        return Some(
            "ignored for no reason of CONTRIBUTING.md, so no tier runs it: \"guards a landing\", \
             \"a long run\", \"by hand: ..\", or \"a part of ..\" another test, which runs it"
                .to_string(),
        );
    }
    let is_of_sim = OF_SIM.iter().any(|folder| path.starts_with(&format!("crates/{folder}/")));
    let is_chosen = is_of_sim || LONG_NAMES.iter().any(|part| name.contains(part));
    (reason.starts_with("a long run") && !is_chosen).then(|| {
        let names = LONG_NAMES.join("` or `");
        format!("`cargo xtask long` chooses tests by name, and this one has no `{names}` in it")
    })
}

#[cfg(test)]
mod tests {
    use super::super::lines_in;
    use super::*;

    fn is_refused(path: &str, reason: &str, name: &str) -> bool {
        let text = format!("#[test]\n#[ignore{reason}]\nfn {name}() {{}}\n");
        let lines = lines_in(&RULE, path, &text);
        assert!(lines.is_empty() || lines == [2], "{lines:?}");
        !lines.is_empty()
    }

    #[test]
    fn every_ignored_test_is_in_a_tier() {
        let path = "crates/log/tests/it/a.rs";
        assert!(!is_refused(path, " = \"guards a landing\"", "landing_a"));
        assert!(!is_refused(path, " = \"a part of the other test\"", "child"));
        assert!(!is_refused(path, " = \"a long run: as many as N says\"", "very_many_crashes"));
        assert!(!is_refused(path, " = \"by hand: a measurement\"", "by_hand_speed"));
        assert!(is_refused(path, "", "very_many_crashes"));
        assert!(is_refused(path, " = \"minutes\"", "very_many_crashes"));
    }

    #[test]
    fn reason_and_name_go_together() {
        let (log, pool) = ("crates/log/tests/it/a.rs", "crates/pool/tests/it/a.rs");
        assert!(is_refused(log, " = \"a long run\"", "crashes"));
        assert!(!is_refused(pool, " = \"a long run\"", "crashes"), "all of `pool` is run");
        assert!(is_refused(pool, " = \"by hand: writes a file\"", "write"));
        assert!(is_refused(pool, " = \"a long run\"", "by_hand_write"));
    }
}
