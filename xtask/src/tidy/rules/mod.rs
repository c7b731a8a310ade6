//! The rules, one per file.

mod arrows;
mod as_above;
mod ascii;
mod circles;
mod citations;
mod copies;
mod dead_files;
mod dependencies;
mod doc_blocks;
mod doubled_attributes;
mod forbid_unsafe;
mod format_page;
mod header;
mod ignored_tests;
mod landing_tests;
mod length;
mod links;
mod marks;
mod mutants;
mod named_tests;
mod one_meaning;
mod orderings;
mod paths;
mod persists;
mod seam;
mod test_names;
mod tree_folders;
mod unfinished;
mod unrun_tests;
mod whoever;
mod width;
mod words;
mod workplace;

pub use arrows::RESEARCH;
pub use length::AIM as LENGTH_AIM;
pub use links::{links, resolve};

use super::source::{RustSource, SourceFile};
use super::workspace::Workspace;

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

/// Every rule.
pub const RULES: &[Rule] = &[
    arrows::RULE,
    as_above::RULE,
    ascii::RULE,
    circles::RULE,
    citations::RULE,
    copies::RULE,
    dead_files::RULE,
    dependencies::RULE,
    doc_blocks::RULE,
    doubled_attributes::RULE,
    forbid_unsafe::RULE,
    format_page::RULE,
    header::RULE,
    ignored_tests::RULE,
    landing_tests::RULE,
    length::LONG,
    length::TOO_LONG,
    links::RULE,
    marks::RULE,
    marks::UNMET,
    mutants::RULE,
    named_tests::RULE,
    one_meaning::RULE,
    orderings::RULE,
    paths::RULE,
    persists::RULE,
    seam::RULE,
    test_names::RULE,
    tree_folders::RULE,
    unfinished::RULE,
    unrun_tests::RULE,
    whoever::RULE,
    width::RULE,
    words::RULE,
    workplace::RULE,
];

/// How often a word that was replaced is still written.
pub fn count_of_replaced_words(workspace: &Workspace) -> usize {
    (words::RULE.check)(workspace).len()
}

/// A finding that counts once.
fn finding(rule: &Rule, path: &str, line: usize, message: impl Into<String>) -> Finding {
    Finding { rule: rule.name, path: path.to_string(), line, message: message.into(), amount: 1 }
}

/// What the ratchet counts a file with, where a rule counts by crate: the folder of its crate.
fn counted_with(path: &str) -> String {
    let depth = if path.starts_with("crates/") || path.starts_with("bindings/") { 2 } else { 1 };
    path.split('/').take(depth).collect::<Vec<_>>().join("/")
}

/// The Rust files of a workspace.
fn rust_files(workspace: &Workspace) -> impl Iterator<Item = (&SourceFile, &RustSource)> {
    workspace.files.iter().filter_map(|file| file.rust.as_ref().map(|rust| (file, rust)))
}

/// The Rust files in `crates/<name>/src` of the named crates.
fn sources_of<'a>(
    workspace: &'a Workspace,
    crates: &'a [&str],
) -> impl Iterator<Item = (&'a SourceFile, &'a RustSource)> {
    rust_files(workspace)
        .filter(|(file, _)| file.crate_of_source().is_some_and(|name| crates.contains(&name)))
}

/// What a rule says about one file: for the rules' own tests.
#[cfg(test)]
fn findings_in(rule: &Rule, files: &[(&str, &str)]) -> Vec<(String, usize)> {
    let texts = files.iter().map(|(path, text)| (path.to_string(), text.to_string())).collect();
    let workspace = Workspace::from_texts(texts).expect("a fixture parses");
    (rule.check)(&workspace).into_iter().map(|finding| (finding.path, finding.line)).collect()
}

/// The lines that a rule refuses in one file.
#[cfg(test)]
fn lines_in(rule: &Rule, path: &str, text: &str) -> Vec<usize> {
    findings_in(rule, &[(path, text)]).into_iter().map(|(_, line)| line).collect()
}
