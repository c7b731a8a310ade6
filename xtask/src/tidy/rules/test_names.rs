//! Names of functions, of which those of tests are sentences, have at most 60 characters: a longer one is a paragraph.

use super::{Finding, Rule, Workspace, finding, rust_files};

pub const RULE: Rule = Rule { name: "test-name", may_be_debt: false, check };

const LENGTH_MAX: usize = 60;

fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, rust) in rust_files(workspace) {
        for (index, line) in rust.lines.iter().enumerate() {
            findings.extend(too_long(&file.path, index, &line.code, "fn "));
        }
    }
    for file in workspace.files.iter().filter(|file| file.path.ends_with(".py")) {
        for (index, line) in file.text.lines().enumerate() {
            findings.extend(too_long(&file.path, index, line, "def "));
        }
    }
    findings
}

/// The names in a line that are too long, behind the word that makes functions.
fn too_long(path: &str, index: usize, code: &str, keyword: &str) -> Vec<Finding> {
    let is_name = |sign: &char| sign.is_alphanumeric() || *sign == '_';
    let lengths = code.split(keyword).skip(1).map(|rest| rest.chars().take_while(is_name).count());
    let found = lengths.filter(|length| *length > LENGTH_MAX).map(|length| {
        let message = format!("a name of {length} characters: say it in at most {LENGTH_MAX}");
        finding(&RULE, path, index + 1, message)
    });
    found.collect()
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

    #[test]
    fn names_of_functions_in_python_count_too() {
        let text = |length: usize| format!("class A:\n    def {}(self): ...\n", "a".repeat(length));
        assert!(lines_in(&RULE, "bindings/python/tests/test_a.py", &text(60)).is_empty());
        assert_eq!(lines_in(&RULE, "bindings/python/tests/test_a.py", &text(61)), [2]);
    }
}
