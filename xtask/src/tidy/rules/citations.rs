//! An assumption that a comment cites, as in "(P4)", is one that `docs/persistency.md` states. So the letter is that
//! page's alone: invariants of a module have another one, or a citation of theirs would be taken for one of an
//! assumption.

use super::{Finding, Rule, Workspace, finding, rust_files};

pub const RULE: Rule = Rule { name: "citation", may_be_debt: false, check };

const PAGE: &str = "docs/persistency.md";

fn check(workspace: &Workspace) -> Vec<Finding> {
    let page = workspace.file(PAGE).map_or("", |file| file.text.as_str());
    let mut findings = Vec::new();
    for (file, rust) in rust_files(workspace) {
        for (index, line) in rust.lines.iter().enumerate() {
            if let Some(name) = stated(&line.comment) {
                let message = format!(
                    "{name} is an assumption of {PAGE}: give invariants of a module another letter"
                );
                findings.push(finding(&RULE, &file.path, index + 1, message));
            }
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

/// What an item of a list states, as in `- P1 a page is ..`, if it has the name of an assumption.
fn stated(comment: &str) -> Option<&str> {
    let item = comment.trim_start_matches(['/', '!', ' ']).strip_prefix("- ")?;
    let name = item.split(' ').next().filter(|name| is_assumption(name))?;
    Some(name)
}

fn is_assumption(word: &str) -> bool {
    word.strip_prefix('P').is_some_and(|number| {
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// The assumptions in parentheses: `(P1)`, `(P3, P4)`.
fn cited(comment: &str) -> Vec<&str> {
    let groups = comment.split('(').skip(1).filter_map(|rest| rest.split_once(')'));
    groups
        .flat_map(|(group, _)| group.split([',', ' ', ';']))
        .filter(|word| is_assumption(word))
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

    #[test]
    fn invariants_of_a_module_have_another_letter() {
        let source =
            "//! - P3 a slot is filled once;\n//! - SP3 a line is whole;\n//! - Pages too.\n";
        let files = [("crates/a/src/x.rs", source), (PAGE, "| **P3** | a |\n")];
        assert_eq!(findings_in(&RULE, &files), [("crates/a/src/x.rs".to_string(), 1)]);
    }
}
