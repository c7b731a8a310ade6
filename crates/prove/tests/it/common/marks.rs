//! Marks that a search is known to meet, held against those that it met.

use std::collections::BTreeSet;

use everleaf_machine::simulated::Report;

use super::{is_everyday, is_landing};

/// Panics if one of these was not met by the everyday search. Another one, at landings or by time, looks elsewhere.
pub fn assert_met(report: &Report, marks: &[&str]) {
    if is_everyday() {
        assert_all_met(report, marks);
    }
}

/// Panics if one of these was not met by programs that are the same in every search.
pub fn assert_all_met(report: &Report, marks: &[&str]) {
    assert_all(&report.marks.iter().map(|(mark, _)| *mark).collect(), marks);
}

/// Panics if a search of all structures, of which these were met, did not meet what it is known to meet everyday, or at
/// landings.
pub fn assert_met_by_structures(met: &BTreeSet<&str>, everyday: &[&str], landing: &[&str]) {
    if is_everyday() {
        assert_all(met, everyday);
    }
    if is_landing() {
        assert_all(met, landing);
    }
}

/// Panics if a mark is in two of these lists.
pub fn assert_distinct(everyday: &[&str], landing: &[&str]) {
    let all: Vec<_> = everyday.iter().chain(landing).collect();
    let distinct: BTreeSet<_> = all.iter().collect();
    assert_eq!(distinct.len(), all.len());
}

fn assert_all(met: &BTreeSet<&str>, marks: &[&str]) {
    let missing: Vec<_> = marks.iter().filter(|mark| !met.contains(**mark)).collect();
    assert!(missing.is_empty(), "rare branches that are not met any more: {missing:?}");
}
