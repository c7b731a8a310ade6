//! What is written once: a constant by which a copy of a function is known stands in the file that has it.

use super::{Finding, Rule, Workspace, finding};

pub const RULE: Rule = Rule { name: "copies", may_be_debt: false, check };

/// A constant without `_`, in small letters; where it may stand; what is used elsewhere.
const ONCE: [(&str, &[&str], &str); 1] = [(
    "bf58476d1ce4e5b9",
    &["crates/machine/src/random.rs", "crates/capi/fuzz/random.c", "xtask/src/servers/client.rs"],
    "everleaf_machine::random",
)];

fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &workspace.files {
        let is_this = file.path == "xtask/src/tidy/rules/copies.rs";
        for (constant, places, instead) in ONCE {
            if is_this || places.contains(&file.path.as_str()) {
                continue;
            }
            for (index, line) in file.text.lines().enumerate() {
                if line.replace('_', "").to_ascii_lowercase().contains(constant) {
                    let message = format!("a copy of SplitMix64: use `{instead}`");
                    findings.push(finding(&RULE, &file.path, index + 1, message));
                }
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::lines_in;
    use super::*;

    #[test]
    fn a_copy_is_refused_however_the_constant_is_written() {
        let text =
            "//! A.\nconst A: u64 = 0xBF58_476D_1CE4_E5B9;\nconst B: u64 = 0xbf58476d1ce4e5b9;\n";
        assert_eq!(lines_in(&RULE, "crates/store/src/a.rs", text), [2, 3]);
        assert!(lines_in(&RULE, "crates/machine/src/random.rs", text).is_empty());
    }
}
