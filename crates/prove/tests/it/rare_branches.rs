//! Rare branches that the search of all structures comes to seldom or never: for each a program that is known to
//! meet it, most of them within a few milliseconds. What is wrong in these programs is found here, too.

#![allow(clippy::print_stdout, reason = "what was explored is the result")]

use std::collections::BTreeSet;
use std::time::Instant;

use crate::common::tell;
use crate::marks::assert_all_met;
use everleaf_index::{HashedLeafTree, Tiny, U64Kind};
use everleaf_machine::Simulated;
use everleaf_machine::simulated::{Config, CrashConfig, Report};
use everleaf_prove::case::explore;
use everleaf_prove::configure::exhaustive;
use everleaf_prove::operation::Operation;
use everleaf_prove::structure::find;
use everleaf_prove::{Of, exhaustion};

/// A structure, one of its programs, and rare branches that the orders of its threads meet.
type Meets = (&'static str, &'static str, &'static [&'static str]);

/// In orders with one preemption.
const BY_ONE: &[Meets] = &[
    ("bw-tree", "small/update, remove", &["bwtree.consolidated_in_vain", "bwtree.write_again"]),
    ("bw-tree", "small/merge, fill", &["bwtree.help"]),
    // Each of two threads makes the first page of a chunk.
    ("bw-tree", "small/split, split elsewhere", &["bwtree.chunk_lost"]),
    ("cceh-b", "tight/41/split, split", &["cceh.write_through"]),
    ("f3-tree", "tight/12/insert, split", &["f3.direct"]),
    ("fast-fair-b", "tight/12/insert, split", &["fast_fair.write_through"]),
    (
        "hashed-leaf",
        "small/merge, fill",
        &["hashed.merge.aborted", "hashed.merge.given_up", "hashed.merge.helped"],
    ),
    ("masstree", "small/merge, fill", &["masstree.inner_again", "masstree.writer_moves"]),
    ("masstree", "small/split, split elsewhere", &["masstree.parent_again"]),
    ("nbtree", "small/split, split elsewhere", &["nbtree.install.busy_parent"]),
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
    (
        "cceh-b",
        "made/9/near/2/usual/25da/e068.9f5f/9274.c2f2.6e4e/3a35bfa6",
        &["cceh.forced_flush"],
    ),
    ("cceh-bo", "crowd/9/near/usual/ab46d10f", &["cceh.collect"]),
    (
        "hashed-leaf-bytes",
        "scenario/helped, then removed, then inserted again",
        &["hashed.observe"],
    ),
    (
        "hashed-leaf-bytes",
        "made/3/alike/3/usual/2007/-/ce08.c3d6.2433/4dc8588e",
        &["hashed.split.freeze_pending"],
    ),
    ("hashed-leaf-bytes", "made/22/far/4/growing/265b/-/5f94/df0435e9", &["hashed.split.no_room"]),
    ("hashed-leaf-bytes", "near_full/53", &["hashed.split.no_space_to_help"]),
    (
        "hashed-leaf-bytes-at-once",
        "scenario/a tree that is emptied under its users",
        &["hashed.restore.late", "hashed.restore.never"],
    ),
    ("nbtree", "scenario/a merge, a split and another merge", &["nbtree.merge.aborted"]),
    ("nbtree", "made/4/near/2/usual/231/56bc/fc95.2b0a/1ac98134", &["nbtree.many.replaced"]),
    (
        "nbtree-bytes",
        "made/2/alike/4/usual/2e6b/dcbf/f51f.4167.de07/20b92974",
        &["nbtree.split.freeze_pending"],
    ),
    ("nbtree-bytes", "near_full/76", &["nbtree.split.no_room"]),
    ("pactree", "contrary/2/far/refusing/2fecacb7", &["pactree.log_full"]),
];

/// Schedules of a program, at most.
const SCHEDULES: u64 = 2000;
/// The same where chance decides.
const SCHEDULES_BY_CHANCE: u64 = 400;

/// Runs programs without crashes, and panics if one of them fails or does not meet its marks.
fn all_meet(all: &[Meets], of: impl Fn(Config) -> Config, schedules: u64) {
    let crash = CrashConfig { enabled: false, ..CrashConfig::default() };
    let config = of(Config { crash, ..Config::default() });
    let mut unmet = vec![];
    for (structure, program, marks) in all {
        let (name, started) = (format!("{structure}, {program}"), Instant::now());
        let case = find(structure).expect("in the list").case(program);
        let (report, failure) = case.expect("its own program").explore(&config, schedules);
        assert!(failure.is_none(), "{name}: {failure:?}");
        tell(&name, started, &report);
        let met: BTreeSet<&str> = report.marks.iter().map(|(mark, _)| *mark).collect();
        let missing = marks.iter().filter(|mark| !met.contains(**mark));
        unmet.extend(missing.map(|mark| format!("{name}: {mark}")));
    }
    assert!(unmet.is_empty(), "rare branches that are not met any more: {unmet:#?}");
}

#[test]
fn one_preemption_meets_rare_branches() {
    all_meet(BY_ONE, |config| exhaustive(&config, 1), SCHEDULES);
}

#[test]
fn two_preemptions_meet_rare_branches() {
    all_meet(BY_TWO, |config| exhaustive(&config, 2), SCHEDULES);
}

#[test]
fn orders_by_chance_meet_rare_branches() {
    all_meet(BY_CHANCE, |config| config, SCHEDULES_BY_CHANCE);
}

/// In a full pool, where a call holds on to the space of leaves that it has replaced.
#[test]
fn writes_of_many_go_one_by_one_in_a_full_pool() {
    type Tree = Of<HashedLeafTree<U64Kind, Tiny<2, 3>, Simulated>>;
    let (program, _) = exhaustion::near_full::<Tree>(0, false);
    let write = |key: u64| match key % 2 {
        0 => Operation::Upsert(key, key + 1),
        _ => Operation::Insert(key, key + 2),
    };
    let many = Operation::WriteMany(program.universe.iter().map(|key| write(*key)).collect());
    let plan = vec![vec![many], vec![Operation::Remove(40)]];
    let crash = CrashConfig { enabled: false, ..CrashConfig::default() };
    let config = Config { crash, ..Config::default() };
    let (report, failure) = explore(program, plan, &config, 20);
    assert!(failure.is_none(), "{failure:?}");
    assert_all_met(&report, &["hashed.many.one_by_one"]);
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
