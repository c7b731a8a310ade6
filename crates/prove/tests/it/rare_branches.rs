//! Rare branches that the search of all structures comes to seldom or never: for each a program that is known to
//! meet it, most of them within a few milliseconds. What is wrong in these programs is found here, too.

use crate::common::rare::{Meets, all_meet};
use crate::marks::assert_all_met;
use everleaf_index::{HashedLeafTree, Tiny, U64Kind};
use everleaf_machine::Simulated;
use everleaf_machine::simulated::{Config, CrashConfig};
use everleaf_prove::Of;
use everleaf_prove::case::explore;
use everleaf_prove::programs::exhaustion;
use everleaf_prove::structures::STRUCTURES;
use everleaf_prove::tree::operation::Operation;

/// In orders with one preemption.
const BY_ONE: &[Meets] = &[
    (
        "hashed-leaf",
        "small/merge, fill",
        &["hashed.merge.aborted", "hashed.merge.given_up", "hashed.merge.helped"],
    ),
    ("nbtree", "small/split, split elsewhere", &["nbtree.install.busy_parent"]),
];

/// In orders by chance.
const BY_CHANCE: &[Meets] = &[
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
    ("hashed-leaf-bytes", "near_full/337", &["hashed.split.no_room"]),
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
    ("nbtree-bytes", "near_full/189", &["nbtree.split.no_room"]),
];

#[test]
fn one_preemption_meets_rare_branches() {
    all_meet(STRUCTURES, BY_ONE, Some(1));
}

#[test]
fn orders_by_chance_meet_rare_branches() {
    all_meet(STRUCTURES, BY_CHANCE, None);
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
