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
mod rule;
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
pub use rule::{Finding, Rule};

use super::workspace::Workspace;
use rule::{counted_with, finding, rust_files, sources_of};
#[cfg(test)]
use rule::{findings_in, lines_in};

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
