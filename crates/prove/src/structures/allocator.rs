//! A program for the allocator: a row of words in the pool, each of which refers to a record or a block that holds a
//! value. The smallest thing that uses all of the allocator: records of all sizes, blocks, volatile
//! nodes, retirement, sessions that come and go, recovery.

mod late;
mod opened;
mod plans;
mod programs;
mod walks;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use everleaf_alloc::{
    AllocError, Audit, BLOCK_SIZE, Heap, Recovery, Session, SessionPool, block_size,
};
use everleaf_machine::simulated::history::{Call, Reply};
use everleaf_machine::simulated::{Memory, Program};
use everleaf_machine::{Atomic, AtomicPointer, Machine, Ordering, Simulated};
use everleaf_pool::PagesLeft;

use self::late::Late;
pub use self::plans::random;
pub use self::programs::Programs;
pub(crate) use self::programs::{COPIED, RETURNED, UNMARKED};
use crate::judge::leaks::all_is_free;
use crate::machine::backing::{
    SIZE_MIN, new_pool_up_to, open_pool, open_returning_pool, open_sparse_pool,
};

type M = Simulated;

/// Words of the row: those with even numbers hold records, the others blocks.
pub const PLACES: u64 = 6;
/// Sizes of records in bytes; chunks have 4096, so the last two own chunks.
const SIZES: [usize; 6] = [16, 48, 200, 900, 2104, 4200];
/// Sizes in long programs, whose chunks have 16 KiB: around the ends of classes, and of chunks.
pub(crate) const LONG_SIZES: [usize; 27] = [
    8, 16, 24, 32, 64, 120, 128, 136, 160, 168, 192, 256, 320, 512, 648, 1024, 2048, 4096, 8104,
    8192, 12_304, 16_320, 16_328, 16_384, 20_000, 32_704, 32_768,
];
/// Values of long programs begin here.
pub(crate) const LONG_VALUES: u64 = 1 << 32;
/// Words of the row in long programs.
pub(crate) const LONG_PLACES: u64 = 24;
/// The same where a session comes to have more free blocks, or records of a class, than it keeps.
pub(crate) const MANY_PLACES: u64 = 120;
/// Binary logarithm of the size of their chunks.
const LONG_CHUNKS: u32 = 14;
/// The same in some of the others, of which a store needs the space of half a chunk; in others it needs that of two.
const WIDE_CHUNKS: u32 = 13;
/// The size of a record that covers a multiple of the size of a block, wherever in a chunk it lies.
const UNFLUSHED_SIZE: usize = 1200;
/// What a volatile node holds, plus the number of its maker.
const NODE: u64 = 0x0DE0;
const NODE_SIZE: usize = 64;
/// Spare sessions where all threads share them: two threads are inside of an operation, and a third may look at one
/// that is idle.
const SPARE: usize = 3;

/// One operation on the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Reads a place.
    Get(u64),
    /// Puts a value in a place.
    Put(u64, u64),
    /// Empties a place.
    Remove(u64),
    /// Replaces the volatile node and retires the old one.
    Turn,
    /// Reads the volatile node.
    Peek,
    /// Ends the thread's session and begins another.
    Rejoin,
    /// Gives chunks that are free back, so that they can serve for something else.
    Release,
    /// Returns the space of free chunks to the file system, where that can be done, but for about so many.
    Return(u64),
    /// Leaves the pool as it is, and opens it again. In walks only.
    Reopen,
}

/// The file that a pool lies in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum File {
    /// It keeps its space.
    #[default]
    Plain,
    /// It can return space, and has all of it when it is opened.
    Returning,
    /// The same, but no free page has space then.
    Sparse,
}

/// The row and what it holds at first.
#[derive(Clone, Debug, Default)]
pub struct AllocatorProgram {
    /// Places and values.
    pub initial: Vec<(u64, u64)>,
    /// How many threads come.
    pub threads: usize,
    /// The largest size of the pool in bytes.
    pub pool_bytes: usize,
    /// What was done before the pool was opened, in a long program.
    pub walk: Vec<Operation>,
    /// What is done to the opened pool before the threads come, by their sessions in turn.
    pub warm_up: Vec<Operation>,
    /// Whether the pool lies in a file that can return its space, and what it has when it is opened.
    pub file: File,
    /// Whether a store needs the space of half a chunk, and not of two, where
    /// the program is not long: all of a long one are.
    pub has_wide_chunks: bool,
    /// Whether a long program has very many places.
    pub has_many: bool,
    /// Whether a walk frees at once what it can, and is looked through behind each step.
    pub is_watched: bool,
    /// Pages that the disk has for what had none when the pool was opened, if that is bounded.
    pub pages: Option<u64>,
    /// Sessions that all threads share, if they do.
    pub shared: usize,
    /// Whether records are marked after the pool is open, when somebody comes to a place.
    pub is_late: bool,
    /// Operations that found no space.
    pub refused: Rc<Cell<u64>>,
}

/// The opened row.
pub struct Opened {
    heap: Arc<Heap<M>>,
    /// Borrowed by its own thread only.
    sessions: Vec<RefCell<Option<Session<M>>>>,
    /// Those that the threads share.
    pool: RefCell<Option<SessionPool<M>>>,
    node: AtomicPointer<Atomic<u64, M>, M>,
    /// What opening has left to be marked.
    late: Option<Late>,
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Whether a place holds records; the others hold blocks.
fn holds_record(key: u64) -> bool {
    key.is_multiple_of(2)
}

/// The class of the block that a place holds.
fn class_of_block(heap: &Heap<M>, key: u64) -> usize {
    let varies = heap.chunk_shift() == LONG_CHUNKS && key < LONG_PLACES;
    if varies { (key / 2) as usize % 3 } else { 0 }
}

/// The size of the record for a value.
fn size_of_record(value: u64) -> usize {
    if value >= LONG_VALUES {
        return LONG_SIZES[(value % LONG_SIZES.len() as u64) as usize];
    }
    SIZES[(value % SIZES.len() as u64) as usize]
}

fn place(heap: &Heap<M>, key: u64) -> &Atomic<u64, M> {
    let distance = if heap.chunk_shift() == LONG_CHUNKS { 8 } else { 64 };
    heap.pool().word(heap.pool().data_start() + 128 + distance * key)
}

/// Offset and number of words of what holds a value, in front of which nothing of it lies.
fn extent(key: u64, offset: u64, value: u64) -> (u64, usize) {
    if holds_record(key) { (offset, size_of_record(value) / 8) } else { (offset + 16, 4) }
}

/// Demands that what was allocated can be stored to, where a disk is full: all of its units have space.
fn demand_space(heap: &Heap<M>, key: u64, offset: u64, value: u64) {
    let size = match holds_record(key) {
        true => size_of_record(value),
        false => block_size(class_of_block(heap, key)),
    };
    let unit = heap.pool().hole_unit();
    let (offset, end) = (offset / unit * unit, (offset + size as u64).next_multiple_of(unit));
    for (from, to) in heap.pool().holes().expect("they are known") {
        assert!(to <= offset || end <= from, "{offset} .. {end} has no space from {from} to {to}");
    }
}

fn fill(heap: &Heap<M>, key: u64, offset: u64, value: u64) {
    let (start, words) = extent(key, offset, value);
    let bytes: Vec<u8> =
        (0..words as u64).flat_map(|index| (value + index).to_le_bytes()).collect();
    let address = heap.base().wrapping_add(start as usize);
    // SAFETY: allocated for us just now, large enough, and not published.
    unsafe { M::write_bytes(address, &bytes) };
    heap.medium().persist(address, bytes.len());
}

/// Uses a record that is nothing but zeros as far as can be seen, and something else in the pool, as one
/// may be whose owner need not flush all of it. It covers the state word of a block, if its chunk becomes
/// one of blocks.
fn leave_unflushed(session: &mut Session<M>) {
    let Ok(offset) = session.allocate_record(UNFLUSHED_SIZE) else { return };
    let heap = session.heap().clone();
    let address = heap.base().wrapping_add(offset as usize);
    // SAFETY: allocated for us just now, and large enough.
    unsafe { M::write_bytes(address, &[0xA5; UNFLUSHED_SIZE]) };
    heap.medium().persist(address, UNFLUSHED_SIZE);
    // SAFETY: allocated for us just now, and large enough.
    unsafe { M::write_bytes(address, &[0; UNFLUSHED_SIZE]) };
    session.free_record(offset, UNFLUSHED_SIZE);
}

/// The value of what lies at `offset`, all of which must be whole.
fn read(heap: &Heap<M>, key: u64, offset: u64) -> u64 {
    let start = if holds_record(key) { offset } else { offset + 16 };
    let address = heap.base().wrapping_add(start as usize);
    // SAFETY: inside the pool, and not reclaimed while the caller is pinned.
    unsafe { M::read_bytes(address, 8) };
    let value = heap.pool().word(start).read_private();
    let (_, words) = extent(key, offset, value);
    // SAFETY: inside the pool, and not reclaimed while the caller is pinned.
    unsafe { M::read_bytes(address, 8 * words) };
    for index in 0..words as u64 {
        let word = heap.pool().word(start + 8 * index).read_private();
        assert_eq!(word, value + index, "what place {key} refers to is not whole");
    }
    value
}

impl AllocatorProgram {
    fn chunk_shift(&self) -> u32 {
        match self.walk.is_empty() {
            true if self.has_wide_chunks => WIDE_CHUNKS,
            true => 12,
            false => LONG_CHUNKS,
        }
    }

    /// What a store needs the space of: two chunks, or half of a wide one.
    fn unit(&self) -> u64 {
        let shift = self.chunk_shift();
        if shift == WIDE_CHUNKS { 1 << (shift - 1) } else { 2 << shift }
    }

    fn places(&self) -> u64 {
        match self.walk.is_empty() {
            true => PLACES,
            false if self.has_many => MANY_PLACES,
            false => LONG_PLACES,
        }
    }

    /// Opens the heap, of whose file these parts have no space, if it can return some.
    fn open_with(&self, memory: Memory, holes: &[(u64, u64)]) -> Result<Opened, String> {
        let pages = PagesLeft::default();
        let pool = match self.file {
            File::Plain => open_pool(memory),
            File::Returning => open_returning_pool(memory, self.unit(), holes, &pages),
            File::Sparse => open_sparse_pool(memory, self.unit(), &pages),
        };
        let (heap, recovery) = Heap::open(pool.map_err(text)?).map_err(text)?;
        // Nothing here writes the state word of a block: one that is not zero was never cleared.
        for block in (0..3).flat_map(|class| recovery.blocks_of(class)).flatten() {
            let word = heap.pool().word(u64::from(block) * BLOCK_SIZE as u64);
            if word.read_private() != 0 {
                return Err(format!("block {block} has the state of something else"));
            }
        }
        let late = if self.is_late {
            let mut owed = vec![false; self.places() as usize];
            for key in (0..self.places()).filter(|key| place(&heap, *key).read_private() != 0) {
                if holds_record(key) {
                    owed[key as usize] = true;
                    continue;
                }
                let block = (place(&heap, key).read_private() / BLOCK_SIZE as u64) as u32;
                recovery.mark_block(class_of_block(&heap, key), block).map_err(text)?;
            }
            let late = Late::new(recovery, &owed);
            late.marks().begin(&heap);
            Some(late)
        } else {
            self.mark_all(&heap, &recovery)?;
            if self.file == File::Sparse && self.threads == 2 {
                // As where nobody knows at first what is in use.
                recovery.finish_unmarked(&heap);
                let audit = Audit::new(&heap).map_err(text)?;
                self.mark_all(&heap, audit.used())?;
                audit.sweep(&heap);
            } else {
                recovery.finish(&heap);
            }
            None
        };
        pages.set(self.pages);
        let session = |_| Ok(RefCell::new(Some(heap.session()?)));
        let own = if self.shared > 0 { 0 } else { self.threads };
        let sessions: Result<Vec<_>, AllocError> = (0..own).map(session).collect();
        let pool = SessionPool::with_spare(heap.clone(), self.shared.max(1), SPARE);
        let pool = RefCell::new((self.shared > 0).then_some(pool));
        let node = AtomicPointer::new(std::ptr::null_mut());
        Ok(Opened { sessions: sessions.map_err(text)?, pool, node, heap, late })
    }

    /// Marks what the row holds as in use; returns places and values.
    fn mark_all(&self, heap: &Heap<M>, used: &Recovery<M>) -> Result<Vec<(u64, u64)>, String> {
        let mut pairs = vec![];
        for key in 0..self.places() {
            let offset = place(heap, key).read_private();
            if offset == 0 {
                continue;
            }
            let value = read(heap, key, offset);
            let marked = if holds_record(key) {
                used.mark_record(offset, size_of_record(value))
            } else {
                used.mark_block(class_of_block(heap, key), (offset / BLOCK_SIZE as u64) as u32)
            };
            marked.map_err(text)?;
            pairs.push((key, value));
        }
        Ok(pairs)
    }
}

impl Program for AllocatorProgram {
    type Operation = Operation;
    type Instance = Opened;

    fn pool_bytes(&self) -> usize {
        self.pool_bytes
    }

    fn format(&self, memory: Memory) {
        let size = if self.walk.is_empty() { SIZE_MIN } else { memory.size() as u64 };
        let pool = new_pool_up_to(memory, size).expect("new memory becomes a pool");
        let heap = Heap::create_with_chunks(pool, self.chunk_shift()).expect("room for a heap");
        if !self.walk.is_empty() {
            return self.do_walk(memory, heap);
        }
        let mut session = heap.session().expect("a free session");
        for &(key, value) in &self.initial {
            let Ok(offset) = Opened::allocate(&mut session, key, value) else { continue };
            fill(&heap, key, offset, value);
            // Release: publishes what lies there; pairs with the acquire in `get`.
            place(&heap, key).store(offset, Ordering::Release);
        }
    }

    fn open(&self, memory: Memory) -> Result<Opened, String> {
        self.open_with(memory, &[])
    }

    fn contents(&self, opened: &Opened) -> Result<Vec<(u64, u64)>, String> {
        opened.sessions.iter().for_each(|session| drop(session.borrow_mut().take()));
        drop(opened.pool.borrow_mut().take());
        opened.touch_all()?;
        let audit = Audit::new(&opened.heap).map_err(text)?;
        let pairs = self.mark_all(&opened.heap, audit.used())?;
        let problems = audit.finish(&opened.heap);
        if problems.is_empty() { Ok(pairs) } else { Err(problems.join("; ")) }
    }

    fn give_back(&self, opened: Opened) -> Result<bool, String> {
        {
            let mut session = opened.heap.session().map_err(text)?;
            for key in 0..self.places() {
                opened.exchange(&mut session, key, 0);
            }
            // AcqRel: as in `turn`.
            let node = opened.node.swap(std::ptr::null_mut(), Ordering::AcqRel);
            if !node.is_null() {
                // SAFETY: of `allocate_node` with this size, taken out by us alone.
                unsafe { session.retire_node(node.cast(), NODE_SIZE) };
            }
        }
        let Opened { heap, sessions, .. } = opened;
        drop(sessions);
        all_is_free(&heap)?;
        Ok(true)
    }

    fn warm_up(&self, opened: &Opened) {
        for (number, operation) in self.warm_up.iter().enumerate() {
            self.run(opened, number % self.threads, operation, &mut vec![]);
        }
    }

    fn calls(&self, operation: &Operation, calls: &mut Vec<(u64, Call)>) {
        match *operation {
            Operation::Get(key) => calls.push((key, Call::Get)),
            Operation::Put(key, value) => calls.push((key, Call::Upsert(value))),
            Operation::Remove(key) => calls.push((key, Call::Remove)),
            Operation::Turn
            | Operation::Peek
            | Operation::Rejoin
            | Operation::Release
            | Operation::Return(_)
            | Operation::Reopen => {}
        }
    }

    fn run(&self, opened: &Opened, thread: usize, operation: &Operation, replies: &mut Vec<Reply>) {
        if let Some(pool) = opened.pool.borrow().as_ref() {
            return self.run_shared(opened, pool, thread, *operation, replies);
        }
        let mut slot = opened.sessions[thread].borrow_mut();
        if *operation == Operation::Rejoin {
            if thread == 0 {
                // As a panic leaves it.
                slot.as_mut().expect("each thread has a session").pin();
            }
            *slot = None;
            *slot = Some(opened.heap.session().expect("as many sessions as threads"));
            return;
        }
        let session = slot.as_mut().expect("each thread has a session");
        self.perform(opened, session, thread, *operation, replies);
    }
}

impl AllocatorProgram {
    /// Does one operation in a session of those that all threads share, some inside of another operation.
    fn run_shared(
        &self,
        opened: &Opened,
        pool: &SessionPool<M>,
        thread: usize,
        operation: Operation,
        replies: &mut Vec<Reply>,
    ) {
        let enter = || pool.enter(thread).expect("a thread with one gets a spare one, or waits");
        if operation == Operation::Rejoin {
            if thread == 0 {
                return pool.collect_idle();
            }
            for mut guard in pool.enter_all(Some(thread)).expect("it holds none") {
                if guard.opened().is_some() {
                    guard.collect_all();
                    guard.give_back();
                }
            }
            return;
        }
        let is_nested = matches!(operation, Operation::Turn | Operation::Remove(_));
        let mut outer = is_nested.then(enter);
        let _pinned = outer.as_mut().map(|guard| guard.pinned());
        self.perform(opened, &mut enter(), thread, operation, replies);
    }

    /// Does one operation in a session of the thread's.
    fn perform(
        &self,
        opened: &Opened,
        session: &mut Session<M>,
        thread: usize,
        operation: Operation,
        replies: &mut Vec<Reply>,
    ) {
        let mut pinned = session.pinned();
        match opened.run(&mut pinned, thread, operation) {
            Ok(reply) => replies.extend(reply),
            Err(error) if error.is_full() => {
                opened.demand_full(&mut pinned, operation);
                self.refused.set(self.refused.get() + 1);
                replies.push(Reply::Refused);
            }
            Err(error) => panic!("{operation:?}: {error}"),
        }
        let problem = Audit::overfull(&pinned);
        assert!(problem.is_none(), "{operation:?}: {problem:?}");
    }
}
