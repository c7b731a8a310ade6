//! Comments and pages say which thread, call or program does a thing: "whoever" leaves the reader to guess.

use super::words::has;
use super::{Finding, Rule, Workspace, finding};

pub const RULE: Rule = Rule { name: "whoever", may_be_debt: false, check };

const WORDS: [&str; 3] = ["whoever", "thread who", "threads who"];

/// Files that quote what is not written any more, and those that name the rule.
const EXEMPT: [&str; 6] = [
    "CHANGELOG.md",
    "docs/reading.md",
    "docs/style.md",
    "xtask/ratchet.txt",
    "xtask/src/tidy/rules/mod.rs",
    "xtask/src/tidy/rules/whoever.rs",
];

fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    let files = workspace.files.iter().filter(|file| !EXEMPT.contains(&file.path.as_str()));
    for file in files {
        for (index, line) in file.text.lines().enumerate() {
            let line = line.to_ascii_lowercase();
            if WORDS.iter().any(|word| has(&line, word)) {
                let message = "say which thread, call, client or program it is";
                findings.push(finding(&RULE, &file.path, index + 1, message));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::findings_in;
    use super::*;

    #[test]
    fn threads_are_named_in_comments_and_pages() {
        let text = "//! A lock: whoever has it writes.\n//! The thread who\n//! The thread that has it.\n\
                    // Whoever.\nfn whoever_waits() {}\n";
        let found = findings_in(&RULE, &[("crates/store/src/a.rs", text)]);
        let file = "crates/store/src/a.rs".to_string();
        assert_eq!(found, [1, 2, 4].map(|line| (file.clone(), line)));
        let page = "Whoever waits.\nA user who waits, and `a_test_of_whoever_waits`.\n";
        let found = findings_in(&RULE, &[("docs/a.md", page)]);
        assert_eq!(found, [("docs/a.md".to_string(), 1)]);
    }
}
