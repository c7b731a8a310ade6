//! The allocators of NBTree's paper against a map: a row of words, each of which names a block that
//! holds its word's number and a value; in one thread, in two that share the row, and after the pool
//! was closed and opened.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex};

use everleaf_alloc::Audit;
use everleaf_designs::allocators::{
    Allocator, Calloc, Everleaf, Naive, NvAllocLike, NvmMallocLike, PmdkLike, Shape,
};
use everleaf_index::{CreateMode, Domain, Hardware, Heap, Pool, PoolOptions, Session};
use everleaf_machine::{Atomic, Ordering};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Words of the row.
const WORDS: u64 = 400;
/// Where the row's place and the allocator's root are kept, from the start of the data on.
const ROW: u64 = 128;
const ROOT: u64 = 192;

fn shape<A: Allocator<Hardware>>() -> Shape {
    // Enough for all words and what the naive one loses; a chunk of Calloc is larger than that.
    let chunks = ((8 << 20) / A::CHUNK_BYTES).max(1);
    Shape { block_bytes: 1024, chunk_bytes: A::CHUNK_BYTES, chunks, threads: 2 }
}

/// An allocator and its row.
struct Row<A> {
    allocator: A,
    row: u64,
    heap: Arc<Heap<Hardware>>,
    /// One for each word: its value.
    model: Vec<Mutex<Option<u64>>>,
}

impl<A: Allocator<Hardware>> Row<A> {
    fn create(pool: Pool<Hardware>) -> Self {
        let heap = Heap::create(pool).expect("room");
        let mut session = heap.session().expect("a free session");
        let row = session.allocate_record(8 * WORDS as usize).expect("room");
        let allocator = A::create(&mut session, shape::<A>()).expect("room");
        let start = heap.pool().data_start();
        for (at, value) in [(ROW, row), (ROOT, allocator.root())] {
            heap.pool().word(start + at).write_private(value);
        }
        let this =
            Row { allocator, row, heap, model: (0..WORDS).map(|_| Mutex::new(None)).collect() };
        (0..WORDS).for_each(|index| this.word(index).write_private(0));
        this
    }

    /// The same after the pool was closed.
    fn open(path: &Path, model: Vec<Mutex<Option<u64>>>) -> Self {
        let options = PoolOptions { create: CreateMode::Never, ..PoolOptions::default() };
        let pool = Pool::open(path, &options).expect("the pool opens");
        let (heap, recovery) = Heap::open(pool).expect("the heap opens");
        let start = heap.pool().data_start();
        let [row, root] = [ROW, ROOT].map(|at| heap.pool().word(start + at).read_private());
        recovery.mark_record(row, 8 * WORDS as usize).expect("the row");
        let allocator = A::open(&heap, &recovery, root, shape::<A>()).expect("its own space");
        let mut this = Row { allocator, row, heap, model };
        let used = this.used();
        this.allocator.keep(&used);
        this.allocator.mark(&recovery, &used).expect("its own blocks");
        recovery.finish(&this.heap);
        this.check();
        this
    }

    fn word(&self, index: u64) -> &Atomic<u64, Hardware> {
        self.heap.pool().word(self.row + 8 * index)
    }

    fn used(&self) -> BTreeSet<u64> {
        let named = (0..WORDS).map(|index| self.word(index).read_private());
        named.filter(|block| *block != 0).collect()
    }

    /// The number and the value that a block holds.
    fn contents(&self, block: u64) -> (u64, u64) {
        let at = |offset| self.heap.pool().word(block + offset).read_private();
        (at(0), at(1016))
    }

    /// Does something with a word at random, nobody else being at it.
    fn operate(&self, session: &mut Session<Hardware>, random: &mut StdRng) {
        let index = random.random_range(0..WORDS);
        let mut held = self.model[index as usize].lock().expect("no panic");
        let word = self.word(index);
        // Acquire: what the block holds; pairs with the allocator's release.
        let block = word.load(Ordering::Acquire);
        let found = (block != 0).then(|| self.contents(block));
        assert_eq!(found, held.map(|value| (index, value)));
        if block != 0 {
            self.allocator.free_from(session, word);
            // Relaxed: nobody else is at it.
            assert_eq!(word.load(Ordering::Relaxed), 0);
            *held = None;
            return;
        }
        let block = self.allocator.reserve(session).expect("room");
        if random.random_range(0..8) == 0 {
            return self.allocator.cancel(session, block);
        }
        let value = random.random();
        self.heap.pool().word(block).write_private(index);
        self.heap.pool().word(block + 1016).write_private(value);
        self.allocator.activate(session, block, word);
        *held = Some(value);
    }

    /// Everything is as the model says, and nothing is lost but what may be. Nobody has a session.
    fn check(&self) {
        let used = self.used();
        for index in 0..WORDS {
            let block = self.word(index).read_private();
            let held = *self.model[index as usize].lock().expect("no panic");
            let found = (block != 0).then(|| self.contents(block));
            assert_eq!(found, held.map(|value| (index, value)));
        }
        let mut problems = self.allocator.check(&used);
        let audit = Audit::new(&self.heap).expect("an audit");
        audit.used().mark_record(self.row, 8 * WORDS as usize).expect("the row");
        self.allocator.mark(audit.used(), &used).expect("its own");
        problems.extend(audit.finish(&self.heap));
        assert_eq!(problems, Vec::<String>::new(), "{}", A::NAME);
    }
}

fn agrees<A: Allocator<Hardware>>() {
    for domain in [Domain::Process, Domain::Adr] {
        let row = Row::<A>::create(Pool::in_memory(1 << 20, 1 << 26, domain).expect("memory"));
        let mut session = row.heap.session().expect("a free session");
        let mut random = StdRng::seed_from_u64(1);
        (0..6000).for_each(|_| row.operate(&mut session, &mut random));
        drop(session);
        row.check();
    }
}

fn is_shared<A: Allocator<Hardware>>() {
    let pool = Pool::in_memory(1 << 20, 1 << 26, Domain::Process).expect("memory");
    let row = Row::<A>::create(pool);
    // More threads than it has logs and lists for.
    std::thread::scope(|scope| {
        for seed in 0..3 {
            let row = &row;
            scope.spawn(move || {
                let mut session = row.heap.session().expect("a free session");
                let mut random = StdRng::seed_from_u64(seed);
                (0..3000).for_each(|_| row.operate(&mut session, &mut random));
            });
        }
    });
    row.check();
}

fn is_reopened<A: Allocator<Hardware>>() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pool");
    let new = PoolOptions { create: CreateMode::IfMissing, ..PoolOptions::default() };
    let mut row = Row::<A>::create(Pool::open(&path, &new).expect("a pool"));
    let mut random = StdRng::seed_from_u64(1);
    for _ in 0..4 {
        let mut session = row.heap.session().expect("a free session");
        (0..1000).for_each(|_| row.operate(&mut session, &mut random));
        drop(session);
        let Row { allocator, heap, model, .. } = row;
        drop((allocator, heap));
        row = Row::open(&path, model);
    }
}

/// Opens an allocator whose records are not what anybody wrote, in many ways: each is refused, or does
/// not matter. Gives how many were refused.
///
/// The offsets in these records were believed: opening such a pool ended in a panic, or, in a build
/// without overflow checks, with a store to another place of the pool. `kinds` are what the first word of a
/// record may say that it is; none, if it says a block.
fn damage_does_no_harm<A: Allocator<Hardware>>(kinds: Range<u64>) -> usize {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pool");
    let new = PoolOptions { create: CreateMode::IfMissing, ..PoolOptions::default() };
    let heap = Heap::create(Pool::open(&path, &new).expect("a pool")).expect("room");
    let mut session = heap.session().expect("a free session");
    // The file is written for each damage.
    let chunk_bytes = A::CHUNK_BYTES.min(1 << 20);
    let shape = Shape { block_bytes: 1024, chunk_bytes, chunks: 2, threads: 2 };
    let allocator = A::create(&mut session, shape).expect("room");
    let block = allocator.reserve(&mut session).expect("room");
    let word = heap.pool().word(heap.pool().data_start() + ROW);
    word.write_private(0);
    allocator.activate(&mut session, block, word);
    let (root, named) = (allocator.root(), heap.pool().data_start() + ROW);
    drop((session, allocator, heap));
    let whole = std::fs::read(&path).expect("readable");
    let of_threads = 2 * A::LINES.of_thread * 8;
    let mut random = StdRng::seed_from_u64(1);
    let mut refused = 0;
    for _ in 0..150 {
        let mut damaged = whole.clone();
        // All of a record, and mostly of a kind that there is. Half of them are of threads, if those have any:
        // a chunk may have many times as many lines.
        let of_chunk = if of_threads > 0 && random.random() { 0 } else { A::LINES.of_chunk * 8 };
        let words = of_threads + of_chunk;
        let records = words / 4;
        let record = random.random_range(0..records) * 32;
        for index in 0..5 {
            let known = [1, 2, 3, block, block + 8, block + 1024, named, named + 4, root, 0];
            let value = match random.random_range(0..12) {
                chosen @ 0..10 => known[chosen],
                10 => random.random(),
                _ => u64::MAX,
            };
            let is_kind = index == 0 && !kinds.is_empty();
            let value = if is_kind { random.random_range(kinds.clone()) } else { value };
            let at = root as usize + record + 8 * index;
            damaged[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        std::fs::write(&path, damaged).expect("room");
        let pool = Pool::open(&path, &PoolOptions::default()).expect("the pool itself is whole");
        let (heap, recovery) = Heap::open(pool).expect("the heap is whole");
        if let Err(error) = A::open(&heap, &recovery, root, shape) {
            assert!(error.to_string().contains("allocator"), "{error}");
            refused += 1;
        }
    }
    refused
}

/// All allocators in turn.
macro_rules! all {
    ($test:ident) => {
        $test::<Everleaf<Hardware>>();
        $test::<Calloc<Hardware>>();
        $test::<Naive<Hardware>>();
        $test::<PmdkLike<Hardware>>();
        $test::<NvmMallocLike<Hardware>>();
        $test::<NvAllocLike<Hardware>>();
    };
}

#[test]
fn they_agree_with_a_map() {
    all!(agrees);
}

#[test]
fn threads_share_them() {
    all!(is_shared);
}

#[test]
fn they_survive_being_closed_and_opened() {
    all!(is_reopened);
}

#[test]
fn records_that_nobody_wrote_are_refused() {
    for refused in [
        damage_does_no_harm::<Calloc<Hardware>>(0..0),
        damage_does_no_harm::<PmdkLike<Hardware>>(1..4),
        damage_does_no_harm::<NvmMallocLike<Hardware>>(1..4),
        damage_does_no_harm::<NvAllocLike<Hardware>>(1..4),
    ] {
        assert!(refused > 40, "{refused} of 150");
    }
}

/// What is freed twice would be given to two.
#[test]
#[should_panic(expected = "there is no block at 0")]
fn a_block_is_not_freed_twice() {
    let pool = Pool::in_memory(1 << 20, 1 << 26, Domain::Process).expect("memory");
    let row = Row::<PmdkLike<Hardware>>::create(pool);
    let mut session = row.heap.session().expect("a free session");
    let block = row.allocator.reserve(&mut session).expect("room");
    row.allocator.activate(&mut session, block, row.word(0));
    row.allocator.free_from(&mut session, row.word(0));
    row.allocator.free_from(&mut session, row.word(0));
}
