//! Rare branches that the search of the designs comes to seldom or never: for each a program that is known to
//! meet it, most of them within a few milliseconds. What is wrong in these programs is found here, too.

use crate::common::rare::{Meets, all_meet};
use crate::marks::assert_all_met;
use everleaf_machine::simulated::{Config, CrashConfig, Report};
use everleaf_prove::machine::configure::exhaustive;
use everleaf_prove_designs::structures::{STRUCTURES, find};

/// In orders with one preemption.
const BY_ONE: &[Meets] = &[
    ("bw-tree", "small/update, remove", &["bwtree.consolidated_in_vain", "bwtree.write_again"]),
    ("bw-tree", "small/merge, fill", &["bwtree.help"]),
    // Each of two threads makes the first page of a chunk.
    ("bw-tree", "small/split, split elsewhere", &["bwtree.chunk_lost"]),
    ("cceh-b", "tight/41/split, split", &["cceh.write_through"]),
    ("f3-tree", "tight/12/insert, split", &["f3.direct"]),
    ("fast-fair-b", "tight/12/insert, split", &["fast_fair.write_through"]),
    ("masstree", "small/merge, fill", &["masstree.inner_again", "masstree.writer_moves"]),
    ("masstree", "small/split, split elsewhere", &["masstree.parent_again"]),
    ("nbtree-on-everleaf", "small/splits alone", &["nbtree_published.block_freed"]),
    ("nbtree-published", "directed/two removals of one key", &["nbtree_published.removed_already"]),
    (
        "nbtree-published",
        "directed/an insert that has its slot when the leaf is replaced",
        &["nbtree_published.commit_failed"],
    ),
    (
        "nbtree-published",
        "directed/an update of what was synchronised",
        &[
            "nbtree_published.ring_full",
            "nbtree_published.sync.writes",
            "nbtree_published.sync_on_read",
            "nbtree_published.sync_on_write",
        ],
    ),
    (
        "p-skiplist",
        "small/split, remove",
        &["skiplist.help_persist", "skiplist.link_again", "skiplist.seek_again"],
    ),
    ("p-skiplist-b", "tight/12/merge, fill", &["skiplist.write_through"]),
    ("utree", "small/remove, scan", &["utree.scan_again"]),
    ("wort", "small/remove, scan", &["radix.help_persist"]),
    ("wort", "crowd/2/near/refusing/52f6377", &["wort.help_persist"]),
];

/// In orders with two.
const BY_TWO: &[Meets] = &[
    ("bw-tree", "small/merge, fill", &["bwtree.split_in_vain"]),
    ("masstree", "small/split, read", &["masstree.border_again", "masstree.reader_moves"]),
    ("p-skiplist", "small/emptied, insert", &["skiplist.linker_retires"]),
];

/// In orders by chance.
const BY_CHANCE: &[Meets] = &[
    ("blocks-naive", "random/153441260327444", &["blocks.full"]),
    (
        "bztree",
        "scenario/twin inserts",
        &["bztree.duplicate", "bztree.given_up", "bztree.impatient"],
    ),
    ("bztree", "crowd/2/far/tight/e549adb8", &["bztree.no_room"]),
    ("bztree", "contrary/9/alike/tight/39eb70d5", &["bztree.no_room_to_help"]),
    ("bztree", "contrary/3/near/tight/4f010733", &["bztree.keeps_nodes"]),
    (
        "cceh-b",
        "made/9/near/2/usual/25da/e068.9f5f/9274.c2f2.6e4e/3a35bfa6",
        &["cceh.forced_flush"],
    ),
    ("cceh-bo", "crowd/9/near/usual/ab46d10f", &["cceh.collect"]),
    ("pactree", "contrary/2/far/refusing/2fecacb7", &["pactree.log_full"]),
    // At the end all keys are removed.
    ("sptree-buffered", "cached/7/far/tight/91146f4a", &["sptree.removed_in_place"]),
    ("sptree-checkpointed", "cached/7/far/tight/91146f4a", &["sptree.removed_in_place"]),
];

#[test]
fn one_preemption_meets_rare_branches() {
    all_meet(STRUCTURES, BY_ONE, Some(1));
}

#[test]
fn two_preemptions_meet_rare_branches() {
    all_meet(STRUCTURES, BY_TWO, Some(2));
}

#[test]
fn orders_by_chance_meet_rare_branches() {
    all_meet(STRUCTURES, BY_CHANCE, None);
}

/// A leaf is replaced, and there is no memory for the inner node that its parent needs.
#[test]
fn refused_memory_meets_a_rare_branch() {
    let case = find("nbtree-w").expect("in the list").case("refused/splits alone");
    let case = case.expect("its own program");
    let crash = CrashConfig { enabled: false, ..CrashConfig::default() };
    let mut total = Report::default();
    for number in 0..13 {
        let config = Config { crash, fail_allocation: Some(number), ..Config::default() };
        let (report, failure) = case.explore(&exhaustive(&config, 1), 100);
        assert!(failure.is_none(), "allocation {number}: {failure:?}");
        total.add(&report);
    }
    assert_all_met(&total, &["nbtree_published.install_failed"]);
}
