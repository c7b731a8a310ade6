//! Programs with too little of something: space, memory, or a thread that goes on.

use everleaf_machine::simulated::{Plan, Random};

use crate::machine::backing::SIZE_MIN;
use crate::machine::space::Space;
use crate::tree::bytes_program::{AnyWords, BytesProgram};
use crate::tree::living::AnyTree;
use crate::tree::operation::Operation;
use crate::tree::subject::{Nodes, Subject};
use crate::tree::u64_program::U64Program;

/// More keys than leaves of two slots in the smallest pool can hold.
const KEYS: u64 = 80;

/// A tree that was filled until nothing more went in, and threads that insert and remove. With
/// `grows` the pool has become able to double since.
pub fn near_full<S: Subject>(seed: u64, grows: bool) -> (U64Program, Plan<Operation>) {
    near_full_on(const { &AnyTree::of::<S>() }, seed, grows)
}

/// As [`near_full`], for any tree.
pub fn near_full_on(
    tree: &'static AnyTree,
    seed: u64,
    grows: bool,
) -> (U64Program, Plan<Operation>) {
    let random = &mut Random::new(seed ^ 0x6372_6F77);
    let universe: Vec<u64> = (0..KEYS).collect();
    // What no longer fits is left out.
    let filled = KEYS;
    let mut history: Vec<Operation> =
        (0..filled).map(|key| Operation::Insert(key, 100 + key)).collect();
    for _ in 0..random.below(3) {
        history.push(Operation::Remove(random.below(filled)));
    }
    let plan = (0..2)
        .map(|thread: u64| {
            let operation = |index| {
                let near = random.below(filled);
                let value = 1000 * (thread + 1) + index;
                match random.below(6) {
                    0..4 => Operation::Insert(near, value),
                    4 => Operation::Remove(near),
                    _ => Operation::Upsert(near, value),
                }
            };
            (0..4).map(operation).collect()
        })
        .collect();
    let mut program = U64Program::on(tree, universe, history, 2);
    let pool_bytes = SIZE_MIN as usize * if grows { 2 } else { 1 };
    program.space = Space { pool_bytes, may_fill: true, ..Space::default() };
    let plan: Plan<Operation> = plan;
    let plan = plan.iter().map(|thread| thread.iter().map(|one| tree.fit(one)).collect());
    let plan = plan.collect();
    (program, plan)
}

/// As [`near_full`], for byte strings: records and fences need space too.
pub fn near_full_bytes<G: Nodes>(seed: u64, grows: bool) -> (BytesProgram, Plan<Operation>) {
    near_full_bytes_on(const { &AnyWords::of::<G>() }, seed, grows)
}

/// As [`near_full_bytes`], for any tree.
pub fn near_full_bytes_on(
    tree: &'static AnyWords,
    seed: u64,
    grows: bool,
) -> (BytesProgram, Plan<Operation>) {
    let random = &mut Random::new(seed ^ 0x776F_6372);
    let keys: Vec<Vec<u8>> = (0..60).map(|key: u64| key_of_length(key)).collect();
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let filled = 60;
    let mut history: Vec<Operation> =
        (0..filled).map(|key| Operation::Insert(key, 100 + key)).collect();
    for _ in 0..random.below(6) {
        history.push(Operation::Remove(random.below(filled)));
    }
    let plan = (0..2)
        .map(|thread: u64| {
            let operation = |index| {
                let key = random.below(filled);
                let value = 1000 * (thread + 1) + index;
                match random.below(6) {
                    0..3 => Operation::Insert(key, value),
                    3 => Operation::Remove(key),
                    _ => Operation::Upsert(key, value),
                }
            };
            (0..4).map(operation).collect()
        })
        .collect();
    let mut program = BytesProgram::on(tree, &keys, history, 2);
    let pool_bytes = SIZE_MIN as usize * if grows { 2 } else { 1 };
    program.space = Space { pool_bytes, may_fill: true, ..Space::default() };
    (program, plan)
}

/// Keys of very different lengths, up to a third of a chunk, so that their records fill it.
fn key_of_length(key: u64) -> Vec<u8> {
    let mut bytes = format!("{key:04}").into_bytes();
    bytes.resize(4 + 150 * (key as usize % 7), b'.');
    bytes
}
