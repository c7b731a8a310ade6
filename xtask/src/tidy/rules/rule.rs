//! What a rule is, and what several of them ask.

use crate::tidy::source::{RustSource, SourceFile};
use crate::tidy::workspace::Workspace;

/// Something that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The rule's name.
    pub rule: &'static str,
    /// The file, from the root of the workspace.
    pub path: String,
    /// The line, from 1; 0 if the whole file is meant.
    pub line: usize,
    /// What is wrong and what to do.
    pub message: String,
    /// What it counts for in the ratchet.
    pub amount: usize,
}

/// A rule: its name and its check.
pub struct Rule {
    /// The name, as printed and as in the ratchet.
    pub name: &'static str,
    /// Whether the ratchet may hold known debt of this rule.
    pub may_be_debt: bool,
    /// Finds everything that breaks the rule.
    pub check: fn(&Workspace) -> Vec<Finding>,
}

/// A finding that counts once.
pub fn finding(rule: &Rule, path: &str, line: usize, message: impl Into<String>) -> Finding {
    Finding { rule: rule.name, path: path.to_string(), line, message: message.into(), amount: 1 }
}

/// What the ratchet counts a file with, where a rule counts by crate: the folder of its crate.
pub fn counted_with(path: &str) -> String {
    let depth = if path.starts_with("crates/") || path.starts_with("bindings/") { 2 } else { 1 };
    path.split('/').take(depth).collect::<Vec<_>>().join("/")
}

/// The Rust files of a workspace.
pub fn rust_files(workspace: &Workspace) -> impl Iterator<Item = (&SourceFile, &RustSource)> {
    workspace.files.iter().filter_map(|file| file.rust.as_ref().map(|rust| (file, rust)))
}

/// The Rust files in `crates/<name>/src` of the named crates.
pub fn sources_of<'a>(
    workspace: &'a Workspace,
    crates: &'a [&str],
) -> impl Iterator<Item = (&'a SourceFile, &'a RustSource)> {
    rust_files(workspace)
        .filter(|(file, _)| file.crate_of_source().is_some_and(|name| crates.contains(&name)))
}

/// What a rule says about one file: for the rules' own tests.
#[cfg(test)]
pub fn findings_in(rule: &Rule, files: &[(&str, &str)]) -> Vec<(String, usize)> {
    let texts = files.iter().map(|(path, text)| (path.to_string(), text.to_string())).collect();
    let workspace = Workspace::from_texts(texts).expect("a fixture parses");
    (rule.check)(&workspace).into_iter().map(|finding| (finding.path, finding.line)).collect()
}

/// The lines that a rule refuses in one file.
#[cfg(test)]
pub fn lines_in(rule: &Rule, path: &str, text: &str) -> Vec<usize> {
    findings_in(rule, &[(path, text)]).into_iter().map(|(_, line)| line).collect()
}
