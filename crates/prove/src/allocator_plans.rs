//! What the threads of a program for the allocator do, by chance: a few operations each, fewer of two places,
//! or a long walk over many places first.

use everleaf_machine::simulated::{Plan, Random};

use crate::allocator_program::{
    AllocatorProgram, LONG_PLACES, LONG_SIZES, LONG_VALUES, Operation, PLACES,
};
use crate::backing::SIZE_MIN;

/// A random row and plan: 2 or 3 threads with 1 to 4 operations each.
pub fn random(seed: u64) -> (AllocatorProgram, Plan<Operation>) {
    random_of(seed, false)
}

/// The same; a tiny one has fewer operations, of two places, by sessions that have a past.
pub(crate) fn random_of(seed: u64, is_tiny: bool) -> (AllocatorProgram, Plan<Operation>) {
    let mut random = Random::new(seed ^ 0x7368_656C);
    let random = &mut random;
    let initial = (0..PLACES).filter(|_| random.one_in(2)).collect::<Vec<_>>();
    let initial = initial.into_iter().map(|key| (key, 10 * (key + 1) + random.below(6))).collect();
    let threads = 2 + random.below(2);
    let length = 1 + random.below(if is_tiny { 2 } else { 4 });
    let focus = random.below(PLACES - 1);
    let mut operation = |thread: u64, index: u64| {
        let key = if is_tiny { focus + random.below(2) } else { random.below(PLACES) };
        match random.below(21) {
            20 => Operation::Return,
            0..8 => Operation::Put(key, 1000 * (thread + 1) + 10 * index + random.below(6)),
            8..12 => Operation::Remove(key),
            12..14 => Operation::Get(key),
            14..16 => Operation::Turn,
            16..18 => Operation::Peek,
            18 => Operation::Release,
            _ => Operation::Rejoin,
        }
    };
    let plan = (0..threads)
        .map(|thread| (0..length).map(|index| operation(thread, index)).collect())
        .collect();
    let past = if is_tiny { seed % 8 } else { 0 };
    let warm_up = (0..past).map(|index| operation(5, index)).collect();
    let threads = threads as usize;
    let pool_bytes = SIZE_MIN as usize * if seed.is_multiple_of(4) { 2 } else { 1 };
    let is_sparse = random.one_in(3);
    let program =
        AllocatorProgram { initial, threads, pool_bytes, warm_up, is_sparse, ..Default::default() };
    (program, plan)
}

/// A long walk of one thread over many places, of all sizes, and what a few do then.
pub(crate) fn long(seed: u64) -> (AllocatorProgram, Plan<Operation>) {
    let random = &mut Random::new(seed ^ 0x616C_6C6F);
    let mut value = LONG_VALUES;
    // A part of the sizes only, so that chunks fill and become empty.
    let all = LONG_SIZES.len() as u64;
    let (base, sizes) = (random.below(all), 1 + random.below(all));
    let mut walk_of = |length: u64, random: &mut Random| -> Vec<Operation> {
        let (low, removals) = (random.below(LONG_PLACES - 3), 4 + random.below(8));
        let width = 3 + random.below(LONG_PLACES - low - 2);
        let mut operation = || {
            value += all;
            let key = low + random.below(width);
            match random.below(21) {
                20 => Operation::Return,
                0 => Operation::Release,
                1 => Operation::Rejoin,
                2 => Operation::Turn,
                3 => Operation::Get(key),
                kind if kind < removals => Operation::Remove(key),
                _ => {
                    let size = (base + random.below(sizes)) % all;
                    Operation::Put(key, value - value % all + size)
                }
            }
        };
        (0..length).map(|_| operation()).collect()
    };
    let mut walk = vec![Operation::Turn];
    for _ in 0..1 + random.below(4) {
        let length = 20 + random.below(100);
        walk.extend(walk_of(length, random));
    }
    let length = random.below(60);
    let warm_up = walk_of(length, random);
    let threads = 1 + random.below(3) as usize;
    let plan = (0..threads).map(|_| walk_of(3, random)).collect();
    let pool_bytes = SIZE_MIN as usize * (2 + random.below(7) as usize);
    let is_sparse = random.one_in(3);
    let program = AllocatorProgram {
        threads,
        pool_bytes,
        walk,
        warm_up,
        is_sparse,
        ..AllocatorProgram::default()
    };
    (program, plan)
}
