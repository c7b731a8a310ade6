//! An assumption that a comment cites, as in "(P4)", is one that `docs/persistency.md` states.

use super::{Finding, Rule, Workspace, finding, rust_files};

pub const RULE: Rule = Rule { name: "citation", may_be_debt: false, check };

const PAGE: &str = "docs/persistency.md";

fn check(workspace: &Workspace) -> Vec<Finding> {
    let page = workspace.file(PAGE).map_or("", |file| file.text.as_str());
    let mut findings = Vec::new();
    for (file, rust) in rust_files(workspace) {
        for (index, line) in rust.lines.iter().enumerate() {
            for name in cited(&line.comment) {
                if !page.contains(&format!("**{name}**")) {
                    let message = format!("{PAGE} states no assumption {name}");
                    findings.push(finding(&RULE, &file.path, index + 1, message));
                }
            }
        }
    }
    findings
}

/// The assumptions in parentheses: `(P1)`, `(P3, P4)`.
fn cited(comment: &str) -> Vec<&str> {
    let groups = comment.split('(').skip(1).filter_map(|rest| rest.split_once(')'));
    groups
        .flat_map(|(group, _)| group.split([',', ' ', ';']))
        .filter(|word| {
            word.strip_prefix('P').is_some_and(|number| {
                !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::findings_in;
    use super::*;

    #[test]
    fn an_assumption_that_is_not_stated_is_refused() {
        let source = "// Lines go their own ways (P3).\n// So (see P4, P99) and P77.\n";
        let files = [("crates/a/src/x.rs", source), (PAGE, "| **P3** | a |\n| **P4** | b |\n")];
        assert_eq!(findings_in(&RULE, &files), [("crates/a/src/x.rs".to_string(), 2)]);
    }
}
