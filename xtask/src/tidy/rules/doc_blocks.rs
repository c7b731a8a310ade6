//! Examples run: no code block is marked `ignore`, for ignored examples rot.

use super::{Finding, Rule, Workspace, finding};

pub const RULE: Rule = Rule { name: "doc-ignore", may_be_debt: false, check };

fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &workspace.files {
        if !file.path.ends_with(".rs") && !file.path.ends_with(".md") {
            continue;
        }
        for (index, line) in file.text.lines().enumerate() {
            let line = line.trim_start().trim_start_matches(['/', '!']).trim_start();
            let Some(language) = line.strip_prefix("```") else { continue };
            if language.split([',', ' ']).any(|word| word == "ignore") {
                let message = "an ignored example rots: make it run, or mark it `no_run` or `text`";
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
    fn ignored_examples_are_refused() {
        let fence = "```";
        let text = format!(
            "/// {fence}rust,ignore\n/// {fence}\nfn f() {{}}\n/// {fence}no_run\n/// {fence}\nfn g() {{}}\n"
        );
        assert_eq!(lines_in(&RULE, "crates/a/src/x.rs", &text), [1]);
        assert_eq!(lines_in(&RULE, "docs/a.md", &format!("{fence}ignore\n{fence}\n")), [1]);
    }
}
