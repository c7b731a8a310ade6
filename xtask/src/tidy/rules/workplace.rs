//! No personal or workplace path is in a file: what is here must make sense on any machine.

use super::{Finding, Rule, Workspace, finding};

pub const RULE: Rule = Rule { name: "workplace", may_be_debt: false, check };

/// Spelled in two halves, so that this file passes its own rule.
const WORDS: [&str; 4] =
    [concat!("/ro", "ot/"), concat!("/wo", "rk/"), concat!("/ho", "me/"), concat!("../sha", "red")];

fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &workspace.files {
        for (index, line) in file.text.lines().enumerate() {
            for word in WORDS.iter().filter(|word| line.contains(**word)) {
                let message =
                    format!("`{word}` means nothing on another machine: say it in general");
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
    fn paths_of_one_machine_are_refused() {
        for word in WORDS {
            assert_eq!(lines_in(&RULE, "docs/a.md", &format!("fine\nsee {word}x\n")), [2]);
        }
        assert!(lines_in(&RULE, "docs/a.md", "work in progress, root nodes\n").is_empty());
    }
}
