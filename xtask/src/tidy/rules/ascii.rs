//! Sources are ASCII, except documentation comments and tests; Markdown may be anything.
//!
//! An invisible or look-alike character in code changes its meaning unseen.

use super::{Finding, Rule, Workspace, finding, rust_files};

pub const RULE: Rule = Rule { name: "ascii", may_be_debt: false, check };

fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, rust) in rust_files(workspace) {
        for (index, line) in rust.lines.iter().enumerate() {
            let comment = if line.is_doc { "" } else { &line.comment };
            let stranger = line.code.chars().chain(comment.chars()).find(|c| !c.is_ascii());
            if let Some(character) = stranger
                && !rust.is_test_line(index + 1)
            {
                let code = u32::from(character);
                let message =
                    format!("U+{code:04X} is not ASCII: write `\\u{{{code:x}}}` or plain");
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
    fn strangers_in_code_and_comments_are_refused() {
        let text = "let a = \"\u{e9}\";\n// \u{2014}\n/// \u{2500}\n";
        let text = format!("fn f() {{\n{text}fn g() {{}}\n}}\n");
        assert_eq!(lines_in(&RULE, "crates/a/src/x.rs", &text), [2, 3]);
        assert!(lines_in(&RULE, "crates/a/tests/x.rs", &text).is_empty());
    }
}
