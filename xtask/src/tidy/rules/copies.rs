//! What is written once: a constant by which a copy of a function is known stands in the file that has it.

use super::{Finding, Rule, Workspace, finding};

pub const RULE: Rule = Rule { name: "copies", may_be_debt: false, check };

/// A constant, where it may stand once, and what is used elsewhere.
const ONCE: [(u64, &[&str], &str); 1] = [(
    0xbf58_476d_1ce4_e5b9,
    &["crates/machine/src/random.rs", "crates/capi/fuzz/random.c", "xtask/src/servers/client.rs"],
    "everleaf_machine::random",
)];

fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &workspace.files {
        if file.path == "xtask/src/tidy/rules/copies.rs" {
            continue;
        }
        for (constant, places, instead) in ONCE {
            let written = [format!("{constant:x}"), constant.to_string()];
            let lines = file.text.lines().enumerate().filter(|(_, line)| {
                let line = line.replace('_', "").to_ascii_lowercase();
                written.iter().any(|constant| line.contains(constant))
            });
            let allowed = usize::from(places.contains(&file.path.as_str()));
            for (index, _) in lines.skip(allowed) {
                let message = format!("a copy of SplitMix64: use `{instead}`");
                findings.push(finding(&RULE, &file.path, index + 1, message));
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
        let text = "//! A.\nconst A: u64 = 0xBF58_476D_1CE4_E5B9;\nconst B: u64 = 0xbf58476d1ce4e5b9;\n\
                    const C: u64 = 13_787_848_793_156_543_929;\n";
        assert_eq!(lines_in(&RULE, "crates/store/src/a.rs", text), [2, 3, 4]);
        // The file that has the function has it once.
        assert_eq!(lines_in(&RULE, "crates/machine/src/random.rs", text), [3, 4]);
    }
}
