//! Named programs on trees of numbers: each is built around one thing that can go wrong.
//!
//! Leaves have 2 or 3 slots, so that a handful of operations freeze, split, compact and merge.

use everleaf_machine::simulated::Plan;

use crate::tree::bytes_program::{AnyWords, BytesProgram};
use crate::tree::living::AnyTree;
use crate::tree::operation::Operation;
use crate::tree::subject::{Nodes, Subject};
use crate::tree::u64_program::U64Program;
use Operation::{Clear, Exchange, Get, GetMany, Insert, Remove, Scan, ScanBack, Update, Upsert};

const CLASS: u64 = 1 << 61;
const LAST: u64 = u64::MAX;
const ALL: usize = usize::MAX;

/// A tree and a plan under a name.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// What it is about.
    pub name: &'static str,
    /// Slots of a leaf: 2 or 3. A tree whose leaves are larger only sees less of it.
    pub slots: usize,
    /// What was done to the tree before.
    pub history: Vec<Operation>,
    /// What the threads do.
    pub plan: Plan<Operation>,
}

impl Scenario {
    /// The program for it on a tree of numbers whose leaves should have [`slots`](Self::slots)
    /// slots.
    pub fn numbers<S: Subject>(&self) -> (U64Program, Plan<Operation>) {
        self.numbers_on(const { &AnyTree::of::<S>() })
    }

    /// As [`Self::numbers`], for any tree.
    pub fn numbers_on(&self, tree: &'static AnyTree) -> (U64Program, Plan<Operation>) {
        let program = U64Program::on(tree, self.keys(), self.history.clone(), self.plan.len());
        let plan = self.plan.iter().map(|thread| thread.iter().map(|one| tree.fit(one)).collect());
        (program, plan.collect())
    }

    /// The same on a tree of byte strings: the keys become, in order, strings that share a prefix
    /// longer than a word and differ in length.
    pub fn words<G: Nodes>(&self) -> (BytesProgram, Plan<Operation>) {
        self.words_on(const { &AnyWords::of::<G>() })
    }

    /// As [`Self::words`], for any tree.
    pub fn words_on(&self, tree: &'static AnyWords) -> (BytesProgram, Plan<Operation>) {
        let keys = self.keys();
        let names: Vec<Vec<u8>> = (0..keys.len()).map(name).collect();
        let names: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
        let rank = |key: u64| keys.partition_point(|known| *known < key) as u64;
        let floor = |key: u64| (keys.partition_point(|known| *known <= key) as u64).max(1) - 1;
        let renamed = |operation: &Operation| match *operation {
            Get(key) => Get(rank(key)),
            Remove(key) => Remove(rank(key)),
            Insert(key, value) => Insert(rank(key), value),
            Update(key, value) => Update(rank(key), value),
            Upsert(key, value) => Upsert(rank(key), value),
            Exchange(key, expected, new) => Exchange(rank(key), expected, new),
            Scan(from, limit) => Scan(rank(from).min(keys.len() as u64 - 1), limit),
            ScanBack(from, limit) => ScanBack(floor(from), limit),
            // No scenario has one: its ends need not be keys.
            Operation::Range(_)
            | GetMany
            | Clear
            | Operation::Rejoin
            | Operation::Release
            | Operation::Reopen { .. } => operation.clone(),
            Operation::WriteMany(_) => operation.map(rank, |value| value),
        };
        let history = self.history.iter().map(renamed).collect();
        let plan: Plan<Operation> =
            self.plan.iter().map(|thread| thread.iter().map(renamed).collect()).collect();
        (BytesProgram::on(tree, &names, history, plan.len()), plan)
    }

    /// The keys that are used, ascending.
    fn keys(&self) -> Vec<u64> {
        let mut keys = vec![];
        let all = self.history.iter().chain(self.plan.iter().flatten());
        let all = all.flat_map(|one| match one {
            Operation::WriteMany(many) => many.as_slice(),
            one => std::slice::from_ref(one),
        });
        for operation in all {
            match *operation {
                Get(key)
                | Remove(key)
                | Insert(key, _)
                | Update(key, _)
                | Upsert(key, _)
                | Exchange(key, _, _) => keys.push(key),
                Scan(..)
                | ScanBack(..)
                | Operation::Range(_)
                | GetMany
                | Clear
                | Operation::Rejoin
                | Operation::Release
                | Operation::Reopen { .. }
                | Operation::WriteMany(_) => {}
            }
        }
        keys.sort_unstable();
        keys.dedup();
        keys
    }
}

/// The byte string that stands for the key of this rank.
fn name(rank: usize) -> Vec<u8> {
    let mut bytes = format!("a prefix of more than eight bytes/{:02}", rank / 2).into_bytes();
    if rank % 2 == 1 {
        bytes.push(0);
    }
    bytes
}

pub(crate) fn scenario<const H: usize, const T: usize>(
    name: &'static str,
    slots: usize,
    history: [Operation; H],
    plan: [&[Operation]; T],
) -> Scenario {
    let plan = plan.iter().map(|operations| operations.to_vec()).collect();
    Scenario { name, slots, history: history.to_vec(), plan }
}

/// Fifteen situations in which published protocols fail.
pub fn published_bugs() -> Vec<Scenario> {
    let mut all = published_bugs_of_leaves();
    all.extend(published_bugs_of_structure());
    all
}

/// All scenarios that are not small.
pub fn named() -> Vec<Scenario> {
    let mut all = published_bugs();
    all.extend(others());
    all
}

/// Those about one leaf.
#[expect(clippy::too_many_lines, reason = "a list of scenarios")]
fn published_bugs_of_leaves() -> Vec<Scenario> {
    vec![
        scenario(
            "twin inserts",
            3,
            [],
            [&[Insert(1, 11)], &[Insert(1, 12)], &[Get(1), Get(1), Remove(1), Get(1)]],
        ),
        scenario(
            "helped, then removed, then inserted again",
            3,
            [],
            [&[Insert(1, 11)], &[Insert(1, 12), Remove(1)], &[Insert(1, 13), Get(1)]],
        ),
        scenario(
            "an insert linearized by the freezer",
            2,
            [Insert(5, 50)],
            [&[Insert(1, 11)], &[Insert(2, 21), Insert(3, 31)], &[Get(1), Get(1)]],
        ),
        scenario(
            "an insert that the freezer shuts out",
            2,
            [Insert(5, 50)],
            [&[Insert(1, 11), Get(1)], &[Insert(2, 21)], &[Insert(3, 31), Remove(1)]],
        ),
        scenario(
            "an update between the freezing of two slots",
            2,
            [Insert(1, 10), Insert(2, 20)],
            [&[Update(2, 21), Update(1, 11)], &[Insert(3, 30)], &[Insert(4, 40), Get(2), Get(1)]],
        ),
        scenario(
            "operations that wake up two generations later",
            2,
            [Insert(1, 10), Insert(2, 20)],
            [
                &[Update(1, 11)],
                &[Remove(2), Insert(3, 30), Insert(2, 21), Remove(1), Insert(1, 12)],
                &[Get(1), Insert(2, 22)],
            ],
        ),
        scenario(
            "a storm of removals and insertions of one key",
            2,
            [Insert(1, 10)],
            [
                &[Remove(1), Insert(1, 11), Remove(1)],
                &[Insert(1, 21), Remove(1), Insert(1, 22)],
                &[Remove(1), Insert(1, 31), Remove(1)],
            ],
        ),
        scenario(
            "a value that comes back",
            2,
            [Insert(1, 11), Insert(2, 20)],
            [
                &[Update(1, 13), Update(1, 11), Exchange(1, 11, 14)],
                &[Exchange(1, 11, 12), Get(1)],
                &[Insert(3, 30), Get(1), Exchange(1, 13, 15)],
            ],
        ),
        scenario(
            "readers that hold on to what they saw",
            2,
            [Insert(1, 10), Insert(2, 20)],
            [&[Get(5), Get(1)], &[Insert(5, 50), Update(1, 11)], &[Insert(3, 30), Get(5), Get(1)]],
        ),
        scenario(
            "a leaf of nothing but tombstones",
            3,
            [Insert(1, 10), Remove(1), Insert(1, 11), Remove(1), Insert(1, 12), Remove(1)],
            [&[Insert(1, 21), Remove(1)], &[Insert(2, 22)], &[Insert(1, 31), Get(2)]],
        ),
    ]
}

/// Those about several leaves, persistence and limits.
fn published_bugs_of_structure() -> Vec<Scenario> {
    vec![
        scenario(
            "blocks that are used again while their past is still in doubt",
            2,
            [Insert(1, 10), Insert(2, 20)],
            [
                &[Remove(2), Insert(3, 30), Remove(3), Insert(4, 40)],
                &[Insert(2, 21), Remove(1), Insert(1, 11)],
            ],
        ),
        scenario(
            "a merge, a split and another merge",
            3,
            [
                Insert(1, 10),
                Insert(2, 20),
                Insert(3, 30),
                Insert(4, 40),
                Insert(5, 50),
                Insert(6, 60),
                Insert(7, 70),
                Remove(2),
                Remove(4),
                Remove(6),
            ],
            [&[Remove(3), Remove(1)], &[Insert(4, 41), Insert(6, 61)], &[Remove(5), Get(7)]],
        ),
        scenario(
            "answers that depend on what is not durable yet",
            3,
            [Insert(1, 10), Insert(2, 20)],
            [
                &[Update(1, 11), Remove(2)],
                &[Get(1), Exchange(1, 10, 12), Insert(1, 13)],
                &[Insert(2, 21), Get(1)],
            ],
        ),
        scenario(
            "inner nodes that nobody can bring up to date",
            2,
            [Insert(1, 10), Insert(2, 20), Insert(3, 30), Insert(4, 40)],
            [
                &[Insert(5, 50), Insert(6, 60), Insert(7, 70)],
                &[Insert(8, 80), Insert(9, 90)],
                &[Scan(0, ALL), ScanBack(LAST, ALL)],
            ],
        ),
        scenario(
            "the ends of the key space and of its classes",
            2,
            [Insert(0, 0), Insert(LAST, LAST), Insert(CLASS - 1, 1), Insert(CLASS, LAST)],
            [
                &[Insert(CLASS + 1, 2), Remove(0), Insert(0, LAST)],
                &[Insert(LAST - 1, 0), Upsert(LAST, 1)],
                &[Scan(CLASS - 1, ALL), ScanBack(LAST, 3)],
            ],
        ),
    ]
}

/// More of what the tree does besides: merging, scanning, emptying.
pub fn others() -> Vec<Scenario> {
    let thin = [Insert(1, 10), Insert(2, 20), Insert(3, 30), Insert(4, 40), Remove(2), Remove(3)];
    vec![
        // In a hashed leaf of seven all three begin at its first position, and the third lies on another line.
        scenario(
            "a key behind one whose line is lost",
            7,
            [Insert(9, 90)],
            [&[Insert(13, 130)], &[Insert(17, 170), Get(17)]],
        ),
        scenario(
            "two merges that meet",
            3,
            thin.clone(),
            [&[Remove(1)], &[Remove(4)], &[Insert(2, 21), Get(4)]],
        ),
        scenario(
            "a merge while its right leaf splits",
            2,
            [Insert(1, 10), Insert(2, 20), Insert(3, 30), Insert(4, 40), Remove(2)],
            [&[Remove(1)], &[Insert(5, 50), Insert(6, 60)], &[Update(3, 31), Get(4)]],
        ),
        scenario(
            "a merge while its left leaf fills",
            3,
            thin.clone(),
            [&[Remove(4), Insert(4, 41)], &[Insert(2, 21), Insert(0, 1)], &[Upsert(1, 11)]],
        ),
        scenario(
            "a scan while leaves merge",
            3,
            thin,
            [&[Remove(1), Remove(4)], &[Scan(0, ALL), ScanBack(LAST, ALL)], &[Insert(3, 31)]],
        ),
        scenario(
            "a scan while leaves split",
            2,
            [Insert(2, 20), Insert(4, 40), Insert(6, 60)],
            [&[Insert(3, 30), Insert(5, 50)], &[Scan(0, ALL)], &[ScanBack(LAST, ALL), GetMany]],
        ),
        scenario(
            "a scan that passes a removal that is not durable yet",
            3,
            [Insert(1, 10), Insert(2, 20)],
            [&[Remove(1), Insert(1, 11), Remove(2)], &[Scan(0, ALL), ScanBack(LAST, ALL)]],
        ),
        scenario(
            "a cached order that others extend",
            3,
            [Insert(1, 10)],
            [
                &[Scan(0, ALL), Scan(0, ALL)],
                &[Insert(2, 20), Remove(1)],
                &[Scan(0, 1), Insert(1, 12)],
            ],
        ),
        scenario(
            "a tree that is emptied under its users",
            2,
            [Insert(1, 10), Insert(2, 20)],
            [&[Clear], &[Insert(3, 30), Get(1)], &[Update(1, 11), Remove(2)]],
        ),
        scenario(
            "a tree that is emptied and filled again",
            2,
            [Insert(1, 10), Insert(2, 20), Insert(3, 30), Insert(4, 40)],
            [&[Clear, Clear, Insert(3, 31), Insert(4, 41), Insert(5, 51), Insert(6, 61)]],
        ),
    ]
}

/// Programs small enough to run in every order with few preemptions.
pub fn small() -> Vec<Scenario> {
    let mut all = small_leaves();
    all.extend(small_structure());
    all
}

/// Small programs that stay in one leaf.
pub fn small_leaves() -> Vec<Scenario> {
    let one = [Insert(1, 10)];
    vec![
        scenario("insert, insert", 3, [], [&[Insert(1, 11)], &[Insert(1, 12)]]),
        scenario("insert, remove", 3, [], [&[Insert(1, 11)], &[Remove(1)]]),
        scenario("insert, read twice", 3, [], [&[Insert(1, 11)], &[Get(1), Get(1)]]),
        scenario("update, remove", 3, one.clone(), [&[Update(1, 11)], &[Remove(1)]]),
        scenario("remove, insert", 3, one.clone(), [&[Remove(1)], &[Insert(1, 12)]]),
        scenario(
            "exchange, exchange",
            3,
            one.clone(),
            [&[Exchange(1, 10, 11)], &[Exchange(1, 10, 12)]],
        ),
        // One key: what a scan makes durable of another may share its line.
        scenario("remove, scan", 3, one.clone(), [&[Remove(1)], &[Scan(0, ALL)]]),
        scenario("remove, scan down", 3, one, [&[Remove(1)], &[ScanBack(LAST, ALL)]]),
    ]
}

/// Small programs that replace leaves.
pub fn small_structure() -> Vec<Scenario> {
    let full = [Insert(1, 10), Insert(2, 20)];
    vec![
        scenario("insert, split", 2, [Insert(5, 50)], [&[Insert(1, 11)], &[Insert(2, 21)]]),
        scenario("split, update", 2, full.clone(), [&[Insert(3, 30)], &[Update(1, 11)]]),
        scenario("split, remove", 2, full.clone(), [&[Insert(3, 30)], &[Remove(2)]]),
        scenario("split, read", 2, full.clone(), [&[Insert(3, 30)], &[Get(1), Get(3)]]),
        scenario("split, split", 2, full.clone(), [&[Insert(3, 30)], &[Insert(4, 40)]]),
        scenario("split, insert of the same key", 2, full, [&[Insert(3, 30)], &[Insert(3, 31)]]),
        scenario(
            "merge, update",
            3,
            [Insert(1, 10), Insert(2, 20), Insert(3, 30), Insert(4, 40), Remove(2), Remove(3)],
            [&[Remove(1)], &[Update(4, 41)]],
        ),
        // One thread: what a crash leaves of the first is used again by the next.
        scenario(
            "splits alone",
            2,
            [Insert(1, 10), Insert(2, 20)],
            [&[Insert(3, 30), Insert(4, 40), Insert(5, 50), Insert(6, 60), Insert(7, 70)]],
        ),
        scenario(
            "merge and splits alone",
            3,
            [Insert(1, 10), Insert(2, 20), Insert(3, 30), Insert(4, 40), Remove(2), Remove(3)],
            [&[
                Remove(1),
                Insert(5, 50),
                Insert(6, 60),
                Insert(7, 70),
                Insert(8, 80),
                Insert(9, 90),
            ]],
        ),
    ]
}
