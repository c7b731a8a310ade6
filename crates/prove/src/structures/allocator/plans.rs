//! What the threads of a program for the allocator do, by chance: a few operations each, fewer of two places,
//! or a long walk over many places first.

use everleaf_machine::simulated::{Plan, Random};

use crate::machine::backing::SIZE_MIN;
use crate::structures::allocator::{
    AllocatorProgram, File, LONG_PLACES, LONG_SIZES, LONG_VALUES, MANY_PLACES, Operation, PLACES,
};

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
            20 => Operation::Return((thread + index) % 4),
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
    let file = file_of(random);
    let has_wide_chunks = seed % 3 == 1;
    let program = AllocatorProgram {
        initial,
        threads,
        pool_bytes,
        warm_up,
        file,
        has_wide_chunks,
        ..Default::default()
    };
    (program, plan)
}

/// A tiny one whose threads share fewer sessions than they are.
pub(crate) fn shared(seed: u64) -> (AllocatorProgram, Plan<Operation>) {
    let (program, plan) = random_of(seed, true);
    let shared = 1 + seed as usize % (program.threads - 1);
    (AllocatorProgram { shared, ..program }, plan)
}

/// Some of the files can return space.
fn file_of(random: &mut Random) -> File {
    match random.below(8) {
        0 => File::Returning,
        1..4 => File::Sparse,
        _ => File::Plain,
    }
}

/// A full pool, of which some chunks that lie together were freed in the life before: their space is returned,
/// got again where blocks are wanted, and the power fails.
pub(crate) fn returned(file: File) -> (AllocatorProgram, Plan<Operation>) {
    let all = LONG_SIZES.len() as u64;
    let put = |key: u64, bytes| {
        let size = LONG_SIZES.iter().position(|size| *size == bytes).expect("in the list");
        Operation::Put(key, LONG_VALUES - LONG_VALUES % all + all * (key + 1) + size as u64)
    };
    // One of one chunk, and then of two, each of which is a unit, until nothing is left.
    let mut walk = vec![Operation::Turn, put(18, 16_320)];
    walk.extend([0, 2, 4, 6, 8, 10].map(|key| put(key, 20_000)));
    walk.extend([Operation::Remove(0), Operation::Remove(2)]);
    // Three times, so that they are free before it is opened again.
    walk.extend([Operation::Return(0); 3]);
    let plan = vec![vec![Operation::Return(0), put(1, 8), put(3, 8)]];
    let pool_bytes = 2 * SIZE_MIN as usize;
    let program = AllocatorProgram { threads: 1, pool_bytes, walk, file, ..Default::default() };
    (program, plan)
}

/// The same on a copy of the file, opened where nobody knows at first what is in use: what is free has no space, and is
/// taken before any is returned.
pub(crate) fn unmarked() -> (AllocatorProgram, Plan<Operation>) {
    let (program, mut plan) = returned(File::Sparse);
    plan[0].retain(|operation| !matches!(operation, Operation::Return(_)));
    plan.push(vec![Operation::Peek]);
    (AllocatorProgram { threads: plan.len(), ..program }, plan)
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
                20 => Operation::Return(value / all % 4),
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
    let file = file_of(random);
    let program = AllocatorProgram {
        threads,
        pool_bytes,
        walk,
        warm_up,
        file,
        ..AllocatorProgram::default()
    };
    (program, plan)
}

/// A walk that fills very many places and empties them again, so that a session comes to have more free blocks,
/// or records of one size, than it keeps, and what it gave away is used again, by itself or by others.
pub(crate) fn many(seed: u64) -> (AllocatorProgram, Plan<Operation>) {
    let random = &mut Random::new(seed ^ 0x6D61_6E79);
    let all = LONG_SIZES.len() as u64;
    // Sizes of which many fit a chunk.
    let size = random.below(13);
    let mut value = LONG_VALUES;
    let mut fill = |keys: &[u64], walk: &mut Vec<Operation>| {
        walk.extend(keys.iter().map(|key| {
            value += all;
            Operation::Put(*key, value - value % all + size)
        }));
    };
    // All, or only blocks, or only records.
    let (first, step) = [(0, 1), (1, 2), (0, 2)][random.below(3) as usize];
    let keys: Vec<u64> = (first..MANY_PLACES).step_by(step).collect();
    let mut walk = vec![Operation::Turn];
    for _ in 0..1 + random.below(3) {
        let from = random.below(keys.len() as u64 / 4) as usize;
        fill(&keys[from..], &mut walk);
        if random.one_in(3) {
            walk.push([Operation::Rejoin, Operation::Release][random.below(2) as usize]);
        }
        let gone = &keys[..keys.len() - random.below(keys.len() as u64 / 4) as usize];
        walk.extend(gone.iter().map(|key| Operation::Remove(*key)));
    }
    let mut warm_up = vec![];
    if random.one_in(2) {
        fill(&keys[..8], &mut warm_up);
    }
    let threads = 1 + random.below(2) as usize;
    let mut plan = vec![];
    for _ in 0..threads {
        let mut thread = vec![];
        let from = random.below(keys.len() as u64 - 3) as usize;
        fill(&keys[from..from + 3], &mut thread);
        plan.push(thread);
    }
    let pool_bytes = SIZE_MIN as usize * (4 + random.below(5) as usize);
    let program = AllocatorProgram {
        threads,
        pool_bytes,
        walk,
        warm_up,
        has_many: true,
        ..AllocatorProgram::default()
    };
    (program, plan)
}

/// Sizes of records that have a chunk of their own in long programs, of whose sizes they are the last.
const OF_ONE_CHUNK: [u64; 3] = [19, 20, 21];
const OF_SOME_CHUNKS: [u64; 8] = [19, 20, 21, 22, 23, 24, 25, 26];

/// A walk over few places whose records have chunks of their own, most of them, in a pool of few chunks: what is freed
/// lies next to what is free. Space is returned and taken again meanwhile, where the disk has some, and the pool opened
/// again.
pub(crate) fn chunks(seed: u64) -> (AllocatorProgram, Plan<Operation>) {
    let random = &mut Random::new(seed ^ 0x6368_756E);
    let all = LONG_SIZES.len() as u64;
    let mut value = LONG_VALUES;
    let sizes = [&OF_ONE_CHUNK[..], &OF_SOME_CHUNKS][random.below(2) as usize];
    // Blocks of all classes, and records that share a chunk, are in some.
    let (has_blocks, small) = (random.one_in(2), if random.one_in(3) { 3 } else { 0 });
    let (width, removals) = (2 + random.below(6), 6 + random.below(3));
    let mut walk_of = |length: u64, last: Operation, random: &mut Random| -> Vec<Operation> {
        let mut operation = || {
            value += all;
            let key = 2 * random.below(width);
            match random.below(14) {
                0 => Operation::Return(random.below(4)),
                1 => [Operation::Release, Operation::Rejoin, last, last][random.below(4) as usize],
                2 | 3 if has_blocks => Operation::Put(key + 1, value - value % all),
                4 if has_blocks => Operation::Remove(key + 1),
                kind if kind < removals => Operation::Remove(key),
                _ => {
                    let size = match random.below(8) < small {
                        true => random.below(OF_ONE_CHUNK[0]),
                        false => sizes[random.below(sizes.len() as u64) as usize],
                    };
                    Operation::Put(key, value - value % all + size)
                }
            }
        };
        (0..length).map(|_| operation()).collect()
    };
    let length = 20 + random.below(400);
    let mut walk = vec![Operation::Turn];
    walk.extend(walk_of(length, Operation::Reopen, random));
    let length = random.below(8);
    let warm_up = walk_of(length, Operation::Turn, random);
    let threads = if random.one_in(4) { 2 } else { 1 };
    let plan = (0..threads).map(|_| walk_of(3, Operation::Turn, random)).collect();
    let file = [File::Plain, File::Returning, File::Returning, File::Sparse];
    let program = AllocatorProgram {
        threads,
        pool_bytes: SIZE_MIN as usize / 2 * (3 + random.below(4) as usize),
        walk,
        warm_up,
        file: file[random.below(4) as usize],
        is_watched: true,
        pages: random.one_in(3).then(|| random.below(12)),
        ..AllocatorProgram::default()
    };
    (program, plan)
}
