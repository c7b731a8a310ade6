//! Random trees and plans.

use everleaf_machine::simulated::{Plan, Random};

use crate::tree::bytes_program::{AnyWords, BytesProgram};
use crate::tree::living::AnyTree;
use crate::tree::operation::Operation;
use crate::tree::subject::{Nodes, Subject};
use crate::tree::u64_program::U64Program;

const CLASS: u64 = 1 << 61;

/// Small keys whose fingerprints are all the same.
fn colliding(count: usize) -> Vec<u64> {
    let fingerprint = |key: u64| (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56).max(1);
    (1..).filter(|key| fingerprint(*key) == fingerprint(1)).take(count).collect()
}

/// The keys a program may use: few, so that threads meet.
fn universe(random: &mut Random) -> Vec<u64> {
    match random.below(6) {
        0 => colliding(5),
        1 => vec![0, 1, CLASS - 1, CLASS, CLASS + 1],
        2 => vec![0, 7 * CLASS, u64::MAX - 1, u64::MAX],
        3 => (1..=3).collect(),
        4 => (1..=9).collect(),
        _ => (1..=5).collect(),
    }
}

/// What happened to the tree before: nothing, little, a full leaf, several leaves, tombstones.
fn history(random: &mut Random, universe: &[u64], slots: usize) -> Vec<Operation> {
    let mut history = vec![];
    let mut value = 100;
    let mut insert = |history: &mut Vec<Operation>, key| {
        value += 1;
        history.push(Operation::Upsert(key, value));
    };
    let count = match random.below(4) {
        0 => return history,
        1 => 1,
        2 => slots.min(universe.len()),
        _ => universe.len(),
    };
    let mut keys = universe.to_vec();
    random.shuffle(&mut keys);
    keys[..count].iter().for_each(|key| insert(&mut history, *key));
    if random.one_in(2) {
        let removed = random.below(count as u64 + 1) as usize;
        random.shuffle(&mut keys[..count]);
        history.extend(keys[..removed].iter().map(|key| Operation::Remove(*key)));
    }
    if random.one_in(3) {
        insert(&mut history, keys[0]);
    }
    history
}

/// A random operation. Values are distinct but for some that recur on purpose.
fn operation(random: &mut Random, universe: &[u64], thread: u64, index: u64) -> Operation {
    let key = universe[random.below(universe.len() as u64) as usize];
    let own = 1000 * (thread + 1) + index;
    let common = [101, 102, 103, 7][random.below(4) as usize];
    let value = if random.one_in(5) { common } else { own };
    match random.below(22) {
        0..6 => Operation::Insert(key, value),
        6..8 => Operation::Update(key, value),
        8..11 => Operation::Upsert(key, value),
        11..16 => Operation::Remove(key),
        16..18 => Operation::Exchange(key, common, own),
        18..20 => Operation::Get(key),
        20 => match random.below(3) {
            0 => Operation::GetMany,
            1 => Operation::Scan(key, 1 + random.below(9) as usize),
            _ => Operation::Scan(0, usize::MAX),
        },
        _ => match random.below(2) {
            0 => Operation::ScanBack(key, 1 + random.below(9) as usize),
            _ => Operation::ScanBack(u64::MAX, usize::MAX),
        },
    }
}

/// 2 or 3 threads with 1 to 4 operations each.
fn plan(random: &mut Random, universe: &[u64]) -> Plan<Operation> {
    let threads = 2 + random.below(2);
    let length = 1 + random.below(4);
    let mut thread =
        |thread| (0..length).map(|index| operation(random, universe, thread, index)).collect();
    (0..threads).map(&mut thread).collect()
}

/// A random tree of numbers with `slots` slots in a leaf, and a plan.
pub fn random<S: Subject>(seed: u64, slots: usize) -> (U64Program, Plan<Operation>) {
    random_on(const { &AnyTree::of::<S>() }, seed, slots)
}

/// As [`random`], for any tree.
pub fn random_on(tree: &'static AnyTree, seed: u64, slots: usize) -> (U64Program, Plan<Operation>) {
    let random = &mut Random::new(seed ^ 0x6E75_6D62);
    let universe = universe(random);
    let history = history(random, &universe, slots);
    let plan = plan(random, &universe);
    let mut program = U64Program::on(tree, universe, history, plan.len());
    program.space.blocks_at_hand = random.below(3) as usize;
    let plan = plan.iter().map(|thread| thread.iter().map(|one| tree.fit(one)).collect());
    let plan = plan.collect();
    (program, plan)
}

/// Sets of keys that share prefixes, contain each other, differ behind 8 bytes, or are empty.
const WORDS: [&[&[u8]]; 5] = [
    &[b"a", b"b", b"c"],
    &[b"", b"a", b"a\0", b"aa", b"ab", b"b"],
    &[b"prefix--prefix--1", b"prefix--prefix--10", b"prefix--prefix--2", b"prefix--q", b"q"],
    &[b"12345678", b"123456780", b"123456781", b"12345679", b"1234567", b"123456789abcdefghi"],
    &[b"\xFF", b"\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", b"\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\0", b"\0"],
];

/// A random tree of byte strings and a plan.
pub fn random_words<G: Nodes>(seed: u64, slots: usize) -> (BytesProgram, Plan<Operation>) {
    random_words_on(const { &AnyWords::of::<G>() }, seed, slots)
}

/// As [`random_words`], for any tree.
pub fn random_words_on(
    tree: &'static AnyWords,
    seed: u64,
    slots: usize,
) -> (BytesProgram, Plan<Operation>) {
    let random = &mut Random::new(seed ^ 0x776F_7264);
    let words = WORDS[random.below(WORDS.len() as u64) as usize];
    let universe: Vec<u64> = (0..words.len() as u64).collect();
    let history = history(random, &universe, slots);
    let plan = plan(random, &universe);
    let mut program = BytesProgram::on(tree, words, history, plan.len());
    program.space.blocks_at_hand = random.below(3) as usize;
    (program, plan)
}
