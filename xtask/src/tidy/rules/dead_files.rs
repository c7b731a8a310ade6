//! Every source file is part of its crate: the compiler does not notice a file nobody declares.

use std::collections::BTreeSet;

use syn::visit::Visit;

use super::{Finding, Rule, Workspace, finding, rust_files};

pub const RULE: Rule = Rule { name: "dead-file", may_be_debt: false, check };

fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, _) in rust_files(workspace) {
        let Some((folder, name)) = source_module(&file.path) else { continue };
        let parents: Vec<String> = if folder.ends_with("/src") {
            vec![format!("{folder}/lib.rs"), format!("{folder}/main.rs")]
        } else {
            vec![format!("{folder}.rs"), format!("{folder}/mod.rs")]
        };
        let is_declared = parents.iter().any(|path| {
            workspace
                .file(path)
                .and_then(|parent| parent.rust.as_ref())
                .is_some_and(|rust| declared(&rust.ast).contains(name))
        });
        if !is_declared {
            let message =
                format!("no `mod {name};` in {}: nobody compiles it", parents.join(" or "));
            findings.push(finding(&RULE, &file.path, 0, message));
        }
    }
    findings
}

/// The folder and name of the module a path holds, if some file must declare it.
fn source_module(path: &str) -> Option<(&str, &str)> {
    let at = path.find("/src/")? + "/src".len();
    let stem = path.strip_suffix(".rs")?.strip_suffix("/mod").unwrap_or(path.strip_suffix(".rs")?);
    let (folder, name) = stem.rsplit_once('/')?;
    let is_root = folder.len() == at && matches!(name, "lib" | "main");
    let is_binary = path[at..].starts_with("/bin/");
    (folder.len() >= at && !is_root && !is_binary).then_some((folder, name))
}

/// The names of all modules a file declares, also by `#[path = "name.rs"]`.
fn declared(ast: &syn::File) -> BTreeSet<String> {
    let mut modules = Modules::default();
    modules.visit_file(ast);
    modules.names
}

#[derive(Default)]
struct Modules {
    names: BTreeSet<String>,
}

impl<'ast> Visit<'ast> for Modules {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if item.content.is_none() {
            self.names.insert(item.ident.to_string());
        }
        for attribute in item.attrs.iter().filter(|attribute| attribute.path().is_ident("path")) {
            if let syn::Meta::NameValue(pair) = &attribute.meta
                && let syn::Expr::Lit(literal) = &pair.value
                && let syn::Lit::Str(path) = &literal.lit
            {
                self.names.insert(path.value().trim_end_matches(".rs").to_string());
            }
        }
        syn::visit::visit_item_mod(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::super::findings_in;
    use super::*;

    #[test]
    fn a_file_that_nobody_declares_is_refused() {
        let files = [
            ("crates/a/src/lib.rs", "mod b;\n#[cfg(unix)]\nmod c;\n"),
            ("crates/a/src/b.rs", "mod d;\n"),
            ("crates/a/src/b/d.rs", ""),
            ("crates/a/src/b/e.rs", ""),
            ("crates/a/src/c/mod.rs", ""),
            ("crates/a/src/f.rs", ""),
            ("crates/a/src/bin/g.rs", ""),
            ("crates/a/tests/h.rs", ""),
        ];
        let paths: Vec<String> =
            findings_in(&RULE, &files).into_iter().map(|(path, _)| path).collect();
        assert_eq!(paths, ["crates/a/src/b/e.rs", "crates/a/src/f.rs"]);
    }
}
