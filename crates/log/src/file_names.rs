//! The numbers in the names of a log's files.

use crate::layout::{file_name, parse_name};

/// The numbers of the files of a kind, the newest first.
pub(crate) fn numbers(names: &[String], kind: &str) -> Vec<u64> {
    let mut numbers: Vec<u64> = names.iter().filter_map(|name| parse_name(kind, name)).collect();
    numbers.sort_unstable_by(|a, b| b.cmp(a));
    numbers
}

/// A name for a file of this kind that is put aside, which no earlier one has.
pub(crate) fn free_name(names: &[String], kind: &str, sequence: u64) -> String {
    let name = file_name(kind, sequence);
    let numbered = (2..).map(|number: u64| format!("{name}.{number}"));
    let mut candidates = std::iter::once(name.clone()).chain(numbered);
    candidates.find(|name| !names.contains(name)).expect("there are more names than files")
}
