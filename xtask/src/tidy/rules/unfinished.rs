//! Unfinished work does not land: no marker words in comments, no placeholder macros.

use super::{Finding, Rule, Workspace, finding, rust_files};
use crate::tidy::source::has_word;

pub const RULE: Rule = Rule { name: "unfinished", may_be_debt: false, check };

const WORDS: [&str; 3] = [concat!("FIX", "ME"), concat!("X", "XX"), concat!("TO", "DO")];
const MACROS: [&str; 3] = ["todo", "unimplemented", "dbg"];

fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, rust) in rust_files(workspace) {
        for (index, line) in rust.lines.iter().enumerate() {
            for word in WORDS.iter().filter(|word| has_word(&line.comment, word)) {
                let message = format!("{word} marks unfinished work: finish it before it lands");
                findings.push(finding(&RULE, &file.path, index + 1, message));
            }
            for name in MACROS.iter().filter(|name| calls_macro(&line.code, name)) {
                let message = format!("{name}! does not land: write what should happen");
                findings.push(finding(&RULE, &file.path, index + 1, message));
            }
        }
    }
    findings
}

fn calls_macro(code: &str, name: &str) -> bool {
    let call = format!("{name}!(");
    code.match_indices(&call)
        .any(|(at, _)| !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '"'))
}

#[cfg(test)]
mod tests {
    use super::super::lines_in;
    use super::*;

    #[test]
    fn markers_and_placeholders_are_refused() {
        let [marker, ..] = WORDS;
        let [todo, unimplemented, dbg] = MACROS;
        let text = format!(
            "// {marker}: later\nfn a() {{ {todo}!() }}\nfn b() {{ {unimplemented}!() }}\n\
             fn c() {{ {dbg}!(1); }}\n"
        );
        assert_eq!(lines_in(&RULE, "crates/a/src/x.rs", &text), [1, 2, 3, 4]);
        let fine = "// A todo list.\nfn not_a_dbg() { my_dbg!(1); }\n";
        assert!(lines_in(&RULE, "crates/a/src/x.rs", fine).is_empty());
    }
}
