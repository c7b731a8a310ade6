//! A comment that says "as above", or "as below", names what it means: the function, the lock or the fact. What is
//! above changes.

use super::{Finding, Rule, Workspace, finding, rust_files};

pub const RULE: Rule = Rule { name: "as-above", may_be_debt: false, check };

const WORDS: [&str; 3] = ["as above", "as below", "see above"];

fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, rust) in rust_files(workspace) {
        for (index, line) in rust.lines.iter().enumerate() {
            let comment = line.comment.to_ascii_lowercase();
            if WORDS.iter().any(|words| comment.contains(words)) && !is_about(&file.path) {
                let message = "a comment without a partner: name the function or the fact";
                findings.push(finding(&RULE, &file.path, index + 1, message));
            }
        }
    }
    findings
}

/// Whether a file speaks of the words themselves.
fn is_about(path: &str) -> bool {
    path == "xtask/src/tidy/rules/as_above.rs"
}

#[cfg(test)]
mod tests {
    use super::super::lines_in;
    use super::*;

    #[test]
    fn comments_that_point_up_are_refused_and_names_are_not() {
        let text = "//! A.\n// Relaxed: as above.\nfn a() {}\n// As above, in small.\nfn b() {}\n\
                    // Relaxed: as in `a`.\nfn c() -> &'static str { \"as above\" }\n";
        assert_eq!(lines_in(&RULE, "crates/store/src/a.rs", text), [2, 4]);
        let text = "//! A.\n// Relaxed: see above.\nfn a() {}\n// SAFETY: as below.\nfn b() {}\n\
                    // Relaxed: see `a`.\nfn c() {}\n";
        assert_eq!(lines_in(&RULE, "crates/store/src/a.rs", text), [2, 4]);
    }
}
