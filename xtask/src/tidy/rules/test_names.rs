//! Names of functions, of which those of tests are sentences, have at most 60 characters: a longer one is a paragraph.

use super::{Finding, Rule, Workspace, finding, rust_files};

pub const RULE: Rule = Rule { name: "test-name", may_be_debt: false, check };

const LENGTH_MAX: usize = 60;

fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, rust) in rust_files(workspace) {
        for (index, line) in rust.lines.iter().enumerate() {
            for rest in line.code.split("fn ").skip(1) {
                let is_name = |sign: &char| sign.is_alphanumeric() || *sign == '_';
                let length = rest.chars().take_while(is_name).count();
                if length > LENGTH_MAX {
                    let message =
                        format!("a name of {length} characters: say it in at most {LENGTH_MAX}");
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
    fn a_name_of_sixty_characters_is_allowed_and_one_more_is_not() {
        let name = |length: usize| format!("#[test]\nfn {}() {{}}\n", "a".repeat(length));
        assert!(lines_in(&RULE, "crates/store/tests/it/a.rs", &name(60)).is_empty());
        assert_eq!(lines_in(&RULE, "crates/store/tests/it/a.rs", &name(61)), [2]);
        let second = format!("fn f(of: fn ()) {{}} fn {}() {{}}\n", "a".repeat(61));
        assert_eq!(lines_in(&RULE, "crates/store/src/a.rs", &second), [1]);
    }
}
