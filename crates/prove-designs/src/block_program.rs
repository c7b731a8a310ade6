//! A program for the allocators of blocks that NBTree's paper compares: a row of words, each of which
//! names a block that holds a value.
//!
//! A block gets its place in one of two ways, as in a tree: the place is the destination of its
//! activation; or a word of the thread's log is, the place names it then, and the log is cleared. It
//! goes in the same two ways. What a log names after a crash is freed if no place names it.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::sync::Arc;

use everleaf_alloc::{AllocError, Audit, Heap, Session};
use everleaf_designs::allocators::{Allocator, Shape};
use everleaf_machine::simulated::history::{Call, Reply};
use everleaf_machine::simulated::{Memory, Plan, Program, Random};
use everleaf_machine::{Atomic, LINE_SIZE, Machine, Ordering, Simulated, SpinLock};
use everleaf_prove::case::step::{self, Step};
use everleaf_prove::case::{Case, PlannedCase};
use everleaf_prove::judge::leaks::all_is_free;
use everleaf_prove::machine::backing::{SIZE_MIN, new_pool, open_pool};
use everleaf_prove::machine::configure::Fixed;
use everleaf_prove::machine::dimensions::Dimension;
use everleaf_prove::machine::dimensions::{self, Drawn};

type M = Simulated;

/// Words of the row.
const PLACES: u64 = 5;
/// Threads that may come.
const THREADS: usize = 3;
/// Blocks of a chunk, and chunks: few, so that threads take what others have freed.
const CHUNK_BLOCKS: usize = 2;
const CHUNKS: usize = 3;
/// Bytes of a block.
const BLOCK: usize = LINE_SIZE;

/// One operation on the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Reads a place.
    Get(u64),
    /// Puts a value in an empty place, which is the destination.
    Insert(u64, u64),
    /// The same over the log.
    InsertLogged(u64, u64),
    /// Empties a place: what it names is freed from there.
    Remove(u64),
    /// The same over the log.
    RemoveLogged(u64),
    /// Reserves a block and gives it back.
    Cancel,
}

/// The row and what it holds at first.
#[derive(Debug)]
pub struct BlockProgram<A> {
    initial: Vec<(u64, u64)>,
    threads: usize,
    allocator: PhantomData<A>,
}

impl<A> Clone for BlockProgram<A> {
    fn clone(&self) -> Self {
        let BlockProgram { initial, threads, allocator } = self;
        BlockProgram { initial: initial.clone(), threads: *threads, allocator: *allocator }
    }
}

/// The opened row.
pub struct Opened<A> {
    heap: Arc<Heap<M>>,
    allocator: A,
    /// Borrowed by its own thread only.
    sessions: Vec<RefCell<Option<Session<M>>>>,
    /// One for each place: held by the thread that reads or changes it.
    locks: Vec<SpinLock<(), M>>,
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn shape<A: Allocator<M>>() -> Shape {
    let chunk_bytes = A::LINES.of_chunk * LINE_SIZE + CHUNK_BLOCKS * BLOCK;
    Shape { block_bytes: BLOCK, chunk_bytes, chunks: CHUNKS, threads: THREADS }
}

/// Word `index` of those in front of the heap's chunks, each on a line of its own.
fn word(heap: &Heap<M>, index: u64) -> &Atomic<u64, M> {
    heap.pool().word(heap.pool().data_start() + 128 + 64 * index)
}

fn place(heap: &Heap<M>, key: u64) -> &Atomic<u64, M> {
    word(heap, 1 + key)
}

fn log(heap: &Heap<M>, thread: usize) -> &Atomic<u64, M> {
    word(heap, 1 + PLACES + thread as u64)
}

/// Blocks that places and logs name.
fn named(heap: &Heap<M>) -> BTreeSet<u64> {
    let words = (1..=PLACES + THREADS as u64).map(|index| word(heap, index).read_private());
    words.filter(|block| *block != 0).collect()
}

/// Fills a reserved block, durably: its key, its value, and what follows from that.
fn fill(heap: &Heap<M>, block: u64, key: u64, value: u64) {
    let words = (0..BLOCK as u64 / 8 - 1).map(|index| value + index);
    let bytes: Vec<u8> = [key].into_iter().chain(words).flat_map(u64::to_le_bytes).collect();
    let address = heap.base().wrapping_add(block as usize);
    // SAFETY: reserved for us just now, large enough, and not published.
    unsafe { M::write_bytes(address, &bytes) };
    // Persist: the block before anything names it.
    heap.medium().persist(address, bytes.len());
}

/// Key and value of a block, all of which must be whole.
fn read(heap: &Heap<M>, block: u64) -> (u64, u64) {
    let at = |index: u64| heap.pool().word(block + 8 * index).read_private();
    let (key, value) = (at(0), at(1));
    for index in 1..BLOCK as u64 / 8 {
        assert_eq!(at(index), value + index - 1, "the block of place {key} is not whole");
    }
    (key, value)
}

/// Stores to a place or a log what an allocator does not know of, durably.
fn store(heap: &Heap<M>, word: &Atomic<u64, M>, block: u64) {
    // Release: the block is filled; pairs with the loads under the place's lock.
    word.store(block, Ordering::Release);
    // Persist: before the next word is changed.
    heap.medium().persist(word.as_ptr(), 8);
}

impl<A: Allocator<M>> Opened<A> {
    fn insert(
        &self,
        session: &mut Session<M>,
        key: u64,
        value: u64,
        log: Option<&Atomic<u64, M>>,
    ) -> Result<bool, AllocError> {
        let _held = self.locks[key as usize].lock();
        let place = place(&self.heap, key);
        // Acquire: pairs with the allocator's release.
        if place.load(Ordering::Acquire) != 0 {
            return Ok(false);
        }
        let block = self.allocator.reserve(session)?;
        fill(&self.heap, block, key, value);
        self.allocator.activate(session, block, log.unwrap_or(place));
        if let Some(log) = log {
            store(&self.heap, place, block);
            store(&self.heap, log, 0);
        }
        Ok(true)
    }

    fn remove(&self, session: &mut Session<M>, key: u64, log: Option<&Atomic<u64, M>>) -> bool {
        let _held = self.locks[key as usize].lock();
        let place = place(&self.heap, key);
        // Acquire: pairs with the allocator's release.
        let block = place.load(Ordering::Acquire);
        if block == 0 {
            return false;
        }
        if let Some(log) = log {
            store(&self.heap, log, block);
            store(&self.heap, place, 0);
        }
        self.allocator.free_from(session, log.unwrap_or(place));
        true
    }

    fn get(&self, key: u64) -> Option<u64> {
        let _held = self.locks[key as usize].lock();
        // Acquire: pairs with the allocator's release.
        let block = place(&self.heap, key).load(Ordering::Acquire);
        (block != 0).then(|| read(&self.heap, block).1)
    }

    fn run(
        &self,
        session: &mut Session<M>,
        thread: usize,
        operation: Operation,
    ) -> Result<Option<Reply>, AllocError> {
        let log = Some(log(&self.heap, thread));
        Ok(Some(match operation {
            Operation::Get(key) => Reply::Previous(self.get(key)),
            Operation::Insert(key, value) => Reply::Done(self.insert(session, key, value, None)?),
            Operation::InsertLogged(key, value) => {
                Reply::Done(self.insert(session, key, value, log)?)
            }
            Operation::Remove(key) => Reply::Done(self.remove(session, key, None)),
            Operation::RemoveLogged(key) => Reply::Done(self.remove(session, key, log)),
            Operation::Cancel => {
                let block = self.allocator.reserve(session)?;
                self.allocator.cancel(session, block);
                return Ok(None);
            }
        }))
    }

    /// Frees what a log names and no place does, and clears the logs.
    fn free_unnamed(&self, session: &mut Session<M>) {
        for thread in 0..THREADS {
            let log = log(&self.heap, thread);
            let block = log.read_private();
            if block == 0 {
                continue;
            }
            let (key, _) = read(&self.heap, block);
            if place(&self.heap, key).read_private() == block {
                M::mark("blocks.log_cleared");
                store(&self.heap, log, 0);
            } else {
                M::mark("blocks.log_freed");
                self.allocator.free_from(session, log);
            }
        }
    }
}

impl<A: Allocator<M>> Program for BlockProgram<A> {
    type Operation = Operation;
    type Instance = Opened<A>;

    fn pool_bytes(&self) -> usize {
        SIZE_MIN as usize
    }

    fn format(&self, memory: Memory) {
        let pool = new_pool(memory).expect("new memory becomes a pool");
        let heap = Heap::create_with_chunks(pool, 12).expect("room for a heap");
        let mut session = heap.session().expect("a free session");
        let allocator = A::create(&mut session, shape::<A>()).expect("room for the space");
        store(&heap, word(&heap, 0), allocator.root());
        for &(key, value) in &self.initial {
            let block = allocator.reserve(&mut session).expect("fewer keys than blocks");
            fill(&heap, block, key, value);
            allocator.activate(&mut session, block, place(&heap, key));
        }
    }

    fn open(&self, memory: Memory) -> Result<Opened<A>, String> {
        let (heap, recovery) = Heap::open(open_pool(memory).map_err(text)?).map_err(text)?;
        let root = word(&heap, 0).read_private();
        let mut allocator = A::open(&heap, &recovery, root, shape::<A>()).map_err(text)?;
        let used = named(&heap);
        allocator.keep(&used);
        allocator.mark(&recovery, &used).map_err(text)?;
        recovery.finish(&heap);
        let session = |_| Ok(RefCell::new(Some(heap.session()?)));
        let sessions: Result<Vec<_>, AllocError> = (0..self.threads).map(session).collect();
        let locks = (0..PLACES).map(|_| SpinLock::new(())).collect();
        let opened = Opened { sessions: sessions.map_err(text)?, allocator, locks, heap };
        let mut session = opened.sessions[0].borrow_mut();
        opened.free_unnamed(session.as_mut().expect("opened just now"));
        drop(session);
        Ok(opened)
    }

    fn contents(&self, opened: &Opened<A>) -> Result<Vec<(u64, u64)>, String> {
        opened.sessions.iter().for_each(|session| drop(session.borrow_mut().take()));
        let mut pairs = vec![];
        let mut places = 0;
        for key in 0..PLACES {
            let block = place(&opened.heap, key).read_private();
            if block == 0 {
                continue;
            }
            let (found, value) = read(&opened.heap, block);
            if found != key {
                return Err(format!("place {key} names the block of place {found}"));
            }
            pairs.push((key, value));
            places += 1;
        }
        let used = named(&opened.heap);
        if used.len() != places {
            return Err("a log names a block that nothing is done with".into());
        }
        let mut problems = opened.allocator.check(&used);
        let audit = Audit::new(&opened.heap).map_err(text)?;
        opened.allocator.mark(audit.used(), &used).map_err(text)?;
        problems.extend(audit.finish(&opened.heap));
        if problems.is_empty() { Ok(pairs) } else { Err(problems.join("; ")) }
    }

    fn give_back(&self, opened: Opened<A>) -> Result<bool, String> {
        let Opened { heap, allocator, sessions, .. } = opened;
        drop(sessions);
        let mut session = heap.session().map_err(text)?;
        for key in 0..PLACES {
            if place(&heap, key).read_private() != 0 {
                allocator.free_from(&mut session, place(&heap, key));
            }
        }
        allocator.free_all(&mut session);
        drop(session);
        all_is_free(&heap)?;
        Ok(true)
    }

    fn calls(&self, operation: &Operation, calls: &mut Vec<(u64, Call)>) {
        match *operation {
            Operation::Get(key) => calls.push((key, Call::Get)),
            Operation::Insert(key, value) | Operation::InsertLogged(key, value) => {
                calls.push((key, Call::Insert(value)));
            }
            Operation::Remove(key) | Operation::RemoveLogged(key) => {
                calls.push((key, Call::Remove));
            }
            Operation::Cancel => {}
        }
    }

    fn run(
        &self,
        opened: &Opened<A>,
        thread: usize,
        operation: &Operation,
        replies: &mut Vec<Reply>,
    ) {
        let mut slot = opened.sessions[thread].borrow_mut();
        let session = slot.as_mut().expect("each thread has a session");
        match opened.run(session, thread, *operation) {
            Ok(reply) => replies.extend(reply),
            Err(error) if error.is_full() => {
                M::mark("blocks.full");
                if *operation != Operation::Cancel {
                    replies.push(Reply::Refused);
                }
            }
            Err(error) => panic!("{operation:?}: {error}"),
        }
    }
}

/// A random row and plan: 2 or 3 threads with 1 to 4 operations each.
fn random<A>(seed: u64) -> (BlockProgram<A>, Plan<Operation>) {
    let random = &mut Random::new(seed ^ 0x626C_6F63);
    let initial: Vec<u64> = (0..PLACES).filter(|_| random.one_in(2)).collect();
    let initial = initial.into_iter().map(|key| (key, 10 * (key + 1))).collect();
    let threads = 2 + random.below(2);
    let length = 1 + random.below(4);
    let mut operation = |thread: u64, index: u64| {
        let (key, value) = (random.below(PLACES), 1000 * (thread + 1) + 10 * index);
        match random.below(20) {
            0..5 => Operation::Insert(key, value),
            5..9 => Operation::InsertLogged(key, value),
            9..13 => Operation::Remove(key),
            13..17 => Operation::RemoveLogged(key),
            17..19 => Operation::Get(key),
            _ => Operation::Cancel,
        }
    };
    let plan = (0..threads)
        .map(|thread| (0..length).map(|index| operation(thread, index)).collect())
        .collect();
    (BlockProgram { initial, threads: threads as usize, allocator: PhantomData }, plan)
}

use Operation::{Get, Insert, InsertLogged, Remove, RemoveLogged};

/// Programs small enough for every order; places 2 and 3 are filled.
const SMALL: [(&str, &[&[Operation]]); 8] = [
    ("insert, insert", &[&[Insert(0, 100)], &[Insert(1, 200)]]),
    ("insert, remove", &[&[Insert(0, 100)], &[Remove(2)]]),
    ("remove, remove", &[&[Remove(2)], &[Remove(3)]]),
    ("insert, remove it", &[&[Insert(0, 100)], &[Get(0), Remove(0)]]),
    ("over logs", &[&[InsertLogged(0, 100), RemoveLogged(0)], &[RemoveLogged(2)]]),
    ("over a log, and again", &[&[InsertLogged(0, 100), Insert(1, 200)], &[Get(0), Remove(0)]]),
    ("a full space", &[&[Remove(2)], &[Insert(0, 100), Insert(1, 200), Insert(4, 300)]]),
    ("a block's next life", &[&[Remove(2), Insert(2, 300)], &[RemoveLogged(3), Insert(3, 400)]]),
];

/// The case of a name: `random/NUMBER` or `small/NAME`.
fn case<A: Allocator<M> + 'static>(name: &str) -> Option<Box<dyn Case>> {
    if let Some(seed) = name.strip_prefix("random/") {
        return Some(PlannedCase::boxed(random::<A>(seed.parse().ok()?)));
    }
    let wanted = name.strip_prefix("small/")?;
    let (_, plan) = SMALL.iter().find(|(known, _)| *known == wanted)?;
    let plan: Plan<Operation> = plan.iter().map(|thread| thread.to_vec()).collect();
    let initial = vec![(2, 20), (3, 30)];
    let program = BlockProgram::<A> { initial, threads: plan.len(), allocator: PhantomData };
    Some(PlannedCase::boxed((program, plan)))
}

/// The programs of an allocator.
pub struct Programs<A>(PhantomData<fn() -> A>);

impl<A> Programs<A> {
    /// Those of `A`.
    pub const fn of() -> Self {
        Programs(PhantomData)
    }
}

impl<A: Allocator<M> + 'static> step::Programs for Programs<A> {
    fn case(&self, name: &str) -> Option<Box<dyn Case>> {
        case::<A>(name)
    }

    fn step(&self, number: u64, random: &mut Random, fixed: Fixed) -> Step {
        let Drawn { config, values } = dimensions::draw(random, fixed);
        let program = format!("random/{}", random.below(1 << 40) << 8 | number & 255);
        Step { program, config, values }
    }

    fn dimensions(&self) -> Vec<Dimension> {
        dimensions::machines()
    }

    fn small(&self) -> Vec<String> {
        SMALL.iter().map(|(name, _)| format!("small/{name}")).collect()
    }
}
