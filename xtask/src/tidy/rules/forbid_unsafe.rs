//! The upper layers forbid unsafe code, for good, in their crate roots.

use super::{Finding, Rule, Workspace, finding, rust_files};

pub const RULE: Rule = Rule { name: "forbid-unsafe", may_be_debt: false, check };

const CRATES: [&str; 8] = [
    "crates/log",
    "crates/store",
    "crates/server",
    "crates/cli",
    "crates/bench",
    "crates/lab",
    "crates/lab-cli",
    "xtask",
];

fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, rust) in rust_files(workspace) {
        let is_root = CRATES.iter().any(|name| {
            ["lib.rs", "main.rs"].iter().any(|root| file.path == format!("{name}/src/{root}"))
        });
        let forbids = rust.ast.attrs.iter().any(|attribute| {
            matches!(&attribute.meta, syn::Meta::List(list) if list.path.is_ident("forbid")
                && list.tokens.to_string().contains("unsafe_code"))
        });
        if is_root && !forbids {
            let message = "the crate root must say `#![forbid(unsafe_code)]`";
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
    fn a_crate_root_without_the_attribute_is_refused() {
        assert_eq!(lines_in(&RULE, "crates/server/src/lib.rs", "//! A server.\n"), [1]);
        assert_eq!(lines_in(&RULE, "xtask/src/main.rs", "#![deny(unsafe_code)]\n"), [1]);
        assert!(lines_in(&RULE, "xtask/src/main.rs", "#![forbid(unsafe_code)]\n").is_empty());
        assert!(lines_in(&RULE, "crates/pool/src/lib.rs", "//! A pool.\n").is_empty());
    }
}
