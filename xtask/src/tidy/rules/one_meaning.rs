//! Type names of which several crates had one, each with another meaning, have one meaning now: the crates that may
//! define such a type are listed here, and what it means is in `docs/glossary.md`.

use super::{Finding, Rule, Workspace, finding, rust_files};

pub const RULE: Rule = Rule { name: "one-meaning", may_be_debt: false, check };

/// Names, and the folders that may have a type of that name.
const OWNERS: [(&str, &[&str]); 4] = [
    ("Opened", &["crates/prove/src/", "crates/prove-designs/src/"]),
    (
        "Operation",
        &["crates/machine/", "crates/models/", "crates/prove/src/", "crates/prove-designs/src/"],
    ),
    ("Outcome", &["crates/index/"]),
    ("Place", &["crates/log/"]),
];

fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, rust) in rust_files(workspace) {
        for (index, line) in rust.lines.iter().enumerate() {
            let Some(name) = defined(&line.code) else { continue };
            let is_taken = |(known, folders): &&(&str, &[&str])| {
                name == *known && !folders.iter().any(|folder| file.path.starts_with(folder))
            };
            if OWNERS.iter().any(|owner| is_taken(&owner)) {
                let message = format!("`{name}` means one thing (docs/glossary.md): name this one");
                findings.push(finding(&RULE, &file.path, index + 1, message));
            }
        }
    }
    findings
}

/// The name of the type that begins on a line of code. Types of an `impl` block are indented: they have the names of
/// their trait.
fn defined(code: &str) -> Option<&str> {
    let item = code.trim_start();
    let item = item.strip_prefix("pub").map_or(item, |rest| {
        let rest = rest.trim_start();
        rest.strip_prefix('(').and_then(|rest| rest.split_once(')')).map_or(rest, |(_, rest)| rest)
    });
    let (keyword, rest) = item.trim_start().split_once(' ')?;
    let is_item = matches!(keyword, "struct" | "enum" | "trait" | "union")
        || keyword == "type" && !code.starts_with(' ');
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    is_item.then_some(&rest[..end])
}

#[cfg(test)]
mod tests {
    use super::super::lines_in;
    use super::*;

    #[test]
    fn a_name_with_a_meaning_is_given_to_nothing_else() {
        let text = "//! A.\nstruct Place;\npub(super) enum Place<'a> {}\npub type Place = u8;\nstruct Places;\n\
                    impl A for B {\n    type Operation = u8;\n}\nmod c {\n    pub struct Outcome {}\n}\n\
                    // struct Place;\nfn f(place: Place) {}\n";
        assert_eq!(lines_in(&RULE, "crates/store/src/a.rs", text), [2, 3, 4, 10]);
        assert_eq!(lines_in(&RULE, "crates/log/src/a.rs", text), [10]);
        assert_eq!(lines_in(&RULE, "crates/index/src/a.rs", text), [2, 3, 4]);
    }
}
