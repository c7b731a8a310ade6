//! More small programs, for searches that end by time: what meets in inner nodes, in both leaves of a merge,
//! behind a scan and in calls of many keys.
//!
//! They are longer than those of `scenarios.rs`, of which tests run every order.

use crate::programs::scenarios::{Scenario, scenario};
use crate::tree::operation::Operation;
use Operation::{Clear, Get, GetMany, Insert, Remove, Scan, ScanBack, Update, Upsert, WriteMany};

const LAST: u64 = u64::MAX;
const ALL: usize = usize::MAX;

/// All of them.
pub fn meetings() -> Vec<Scenario> {
    let mut all = of_leaves();
    all.push(of_wide_leaf());
    all.extend(of_merges());
    all.extend(of_inner_nodes());
    all
}

/// Leaves that split, and what comes over several keys.
fn of_leaves() -> Vec<Scenario> {
    let full = [Insert(1, 10), Insert(2, 20)];
    let many = WriteMany(vec![Insert(3, 30), Remove(1), Upsert(2, 21)]);
    vec![
        scenario(
            "split, scan",
            2,
            full.clone(),
            [&[Insert(3, 30)], &[ScanBack(LAST, ALL), Scan(0, ALL)]],
        ),
        // What stays has other slots in the new leaves.
        scenario(
            "split, get of many",
            3,
            [Insert(0, 1), Insert(1, 10), Insert(2, 20), Remove(0)],
            [&[Insert(3, 30)], &[GetMany]],
        ),
        scenario("many writes, update", 2, full.clone(), [&[many], &[Update(1, 11)]]),
        scenario("emptied, insert", 2, full, [&[Clear], &[Insert(3, 30)]]),
    ]
}

/// Scans from the middle of a wide leaf, whose order is kept in another way once there are more keys.
fn of_wide_leaf() -> Scenario {
    let history = std::array::from_fn::<_, 15, _>(|key| Insert(10 * key as u64, key as u64));
    let some = [Scan(70, 3), ScanBack(70, 3)];
    let add = |key: u64| [Insert(key, key), Scan(LAST, 1), some[0].clone()];
    let scans = [&[Scan(0, ALL)], &some[..], &add(75), &add(LAST), &add(5)].concat();
    scenario("scans of a wide leaf", 22, history, [&scans[..]])
}

/// Those for nodes as wide as they may be: with the last keys of a row put and taken away in turn, a node right above
/// the leaves becomes full, while its last leaf is thin.
pub fn of_wide_nodes() -> Vec<Scenario> {
    const FIRST: u64 = 56;
    let history = std::array::from_fn::<_, { FIRST as usize }, _>(|key| Insert(key as u64, 1));
    let round = |first: u64| {
        let put = (first..first + 3).map(|key| Insert(key, key));
        put.chain([Remove(first + 2), Remove(first + 1)])
    };
    let stack: Vec<Operation> = (FIRST..FIRST + 40).flat_map(round).collect();
    vec![scenario("a stack", 6, history, [&stack[..]])]
}

/// Leaves that are merged, in the middle and at the ends.
fn of_merges() -> Vec<Scenario> {
    let thin = [Insert(1, 10), Insert(2, 20), Insert(3, 30), Insert(4, 40), Remove(2), Remove(3)];
    vec![
        scenario(
            "merge, scan",
            3,
            thin.clone(),
            [&[Remove(1)], &[ScanBack(LAST, ALL), Scan(0, ALL)]],
        ),
        // A leaf that lost its last key goes to the left, where the scan has been.
        scenario(
            "scan, merge to the left",
            3,
            thin.clone(),
            [&[Scan(0, ALL), ScanBack(LAST, ALL)], &[Remove(4)]],
        ),
        // What comes to the right leaf of a merge ends it, and then finds it offered in the left one.
        scenario("merge, both leaves", 3, thin, [&[Remove(1)], &[Update(4, 41), Insert(0, 1)]]),
        // Two leaves that are thin when somebody looks are full when they are frozen.
        scenario(
            "merge, fill",
            2,
            [Insert(10, 1), Insert(30, 3), Insert(20, 2), Insert(25, 4)],
            [&[Remove(20)], &[Insert(22, 5), Insert(12, 6)]],
        ),
        scenario(
            "merge, merge",
            2,
            [Insert(10, 1), Insert(20, 2), Insert(30, 3), Insert(40, 4), Insert(50, 5)],
            [&[Remove(20), Remove(10)], &[Remove(40), Remove(30)]],
        ),
    ]
}

/// Inner nodes that are joined or split while leaves below them are replaced.
fn of_inner_nodes() -> Vec<Scenario> {
    // A node that has one leaf left when another key goes.
    let lonely = [
        Insert(10, 1),
        Insert(20, 2),
        Insert(30, 3),
        Insert(40, 4),
        Insert(50, 5),
        Insert(60, 6),
        Insert(70, 7),
        Insert(80, 8),
        Remove(10),
        Remove(20),
        Remove(30),
    ];
    let grown =
        [Insert(10, 1), Insert(20, 2), Insert(30, 3), Insert(40, 4), Insert(50, 5), Insert(60, 6)];
    vec![
        scenario("join, split", 2, lonely.clone(), [&[Remove(40)], &[Insert(55, 9)]]),
        scenario("join, read", 2, lonely, [&[Remove(40)], &[Get(60), Get(50)]]),
        scenario("split, split elsewhere", 2, grown.clone(), [&[Insert(15, 7)], &[Insert(55, 8)]]),
        scenario("split above, read", 2, grown, [&[Insert(15, 7)], &[Get(10), Get(60)]]),
    ]
}
