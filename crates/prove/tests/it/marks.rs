//! The marks of rare branches (`M::mark("..")`), by which search is known to meet them. `cargo xtask tidy` refuses a
//! mark that no test names. A mark that is not met any more tells of a branch that is not searched any more: find out
//! why, and then change a list.

use std::collections::BTreeSet;

use everleaf_machine::simulated::Report;

use crate::common::{is_everyday, is_landing};

/// The everyday search of all structures meets these.
pub const EVERYDAY: [&str; 110] = [
    "blocks.log_cleared",
    "blocks.log_freed",
    "bwtree.full",
    "bztree.consolidate",
    "bztree.copy_inner",
    "bztree.mend",
    "bztree.merge",
    "bztree.merge_inner",
    "bztree.new_root",
    "bztree.no_descriptor",
    "bztree.root_goes",
    "bztree.split",
    "bztree.write_again",
    "cceh.double",
    "cceh.fill_in",
    "cceh.left_behind",
    "cceh.read_again",
    "cceh.replace",
    "cceh.split",
    "cceh.undo_split",
    "cceh.write_again",
    "cdds.end_taken_back",
    "cdds.leftover",
    "expiry.changed_meanwhile",
    "fast_fair.collect",
    "fast_fair.fill_in",
    "fast_fair.forced_flush",
    "fast_fair.grown",
    "fast_fair.mended",
    "fast_fair.merged",
    "fast_fair.replace",
    "fast_fair.run",
    "fast_fair.shrunk",
    "fast_fair.split",
    "fast_fair.unlinked_moved",
    "fptree.finished_split",
    "fptree.finished_unlink",
    "fptree.split",
    "fptree.unlink",
    "hashed.merge.done",
    "hashed.restore",
    "hashed.restore.busy",
    "hashed.restore.together",
    "hybrid.compact",
    "hybrid.read_again",
    "hybrid.replaced_by_one",
    "hybrid.replaced_by_two",
    "hybrid.split",
    "hybrid.taken_back",
    "hybrid.write_again",
    "inner.find_again",
    "inner.gave_place",
    "inner.insert_again",
    "inner.split",
    "late.finish",
    "maps.load_refused",
    "masstree.node_removed",
    "masstree.wait",
    "nbtree.install.new_root",
    "nbtree.merge.done",
    "nbtree.merge.joined_inner",
    "nbtree_published.blocks_settled",
    "nbtree_published.calloc_mended",
    "nbtree_published.follow",
    "nbtree_published.from_ring",
    "nbtree_published.inner_split",
    "nbtree_published.install_busy",
    "nbtree_published.leaf_allocated",
    "nbtree_published.replaced",
    "nbtree_published.shifted",
    "nbtree_published.sync",
    "nvalloc.replayed",
    "nvm_malloc.replayed",
    "pactree.finished_merge",
    "pactree.finished_split",
    "pactree.hop",
    "pactree.merge",
    "pactree.merge_taken_back",
    "pactree.read_again",
    "pactree.split",
    "pmdk.replayed",
    "pmwcas.help",
    "radix.drop_node",
    "radix.new_node",
    "rntree.searched_under_lock",
    "rntree.write_again",
    "skiplist.collect",
    "skiplist.fill",
    "skiplist.forced_flush",
    "skiplist.lock_again",
    "skiplist.look_again",
    "skiplist.settle_value",
    "skiplist.unlink",
    "skiplist.write_again",
    "sptree.cleared_masked",
    "sptree.collect",
    "sptree.dropped_dummy",
    "sptree.filter_built",
    "sptree.flush",
    "sptree.forced_flush",
    "sptree.merge",
    "sptree.read_again",
    "sptree.removals_first",
    "sptree.restore",
    "sptree.scan_again",
    "sptree.split",
    "sptree.write_again",
    "utree.place_again",
    "utree.write_again",
    "wbtree.sorted_again",
];

/// That of landings meets these, too: it has four times as many schedules.
pub const LANDING: [&str; 19] = [
    "bztree.frozen_while_inserting",
    "bztree.thaw",
    "bztree.write_to_frozen",
    "hashed.install.busy",
    "hashed.order.changed",
    "hashed.search.follow",
    "hashed.split.helped_switch",
    "hashed.split.lost_offer",
    "hashed.write.help_pending",
    "hashed.write.lost_claim",
    "journal.expiry_written_again",
    "nbtree.search.follow",
    "nbtree.split.helped_switch",
    "pactree.write_again",
    "pmwcas.help_in_the_way",
    "pmwcas.help_marker",
    "pmwcas.marker_taken_back",
    "rntree.overtaken",
    "utree.read_again",
];

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

/// Panics if the search of all structures, of which these were met, did not meet what it is known to meet.
pub fn assert_met_by_structures(met: &BTreeSet<&str>) {
    if is_everyday() {
        assert_all(met, &EVERYDAY);
    }
    if is_landing() {
        assert_all(met, &LANDING);
    }
}

fn assert_all(met: &BTreeSet<&str>, marks: &[&str]) {
    let missing: Vec<_> = marks.iter().filter(|mark| !met.contains(**mark)).collect();
    assert!(missing.is_empty(), "rare branches that are not met any more: {missing:?}");
}

#[test]
fn no_mark_is_in_two_lists() {
    let all: Vec<_> = EVERYDAY.iter().chain(&LANDING).collect();
    let distinct: BTreeSet<_> = all.iter().collect();
    assert_eq!(distinct.len(), all.len());
}
