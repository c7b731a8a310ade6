//! Every file begins with a `//!` header: what it is about.

use super::{Finding, Rule, Workspace, finding, rust_files};

pub const RULE: Rule = Rule { name: "header", may_be_debt: true, check };

fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, rust) in rust_files(workspace) {
        let has_header = rust.ast.attrs.iter().any(|attribute| {
            attribute.path().is_ident("doc") && matches!(attribute.style, syn::AttrStyle::Inner(_))
        });
        if !has_header {
            let message = "the file has no `//!` header: say what it is about in a few sentences";
            findings.push(finding(&RULE, &file.path, 1, message));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::lines_in;
    use super::*;

    #[test]
    fn a_file_without_a_header_is_refused() {
        assert_eq!(lines_in(&RULE, "crates/a/src/x.rs", "// No.\nfn f() {}\n"), [1]);
        assert_eq!(lines_in(&RULE, "crates/a/src/x.rs", "/// No.\nfn f() {}\n"), [1]);
        assert!(lines_in(&RULE, "crates/a/src/x.rs", "//! Yes.\nfn f() {}\n").is_empty());
    }
}
