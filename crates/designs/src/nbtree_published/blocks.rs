//! The tree's leaves in the blocks of another allocator (`crate::allocators`), as the paper measures
//! them: what Calloc does with its bitmap, ring and log is done with destinations.
//!
//! ```text
//!   root object    | tag | head | 0 | 0 | allocator | its root | blocks | areas |
//!   area      | log: 4 x (old, new, new, -) 128 | ring: 16 places, 128 |      one for each of 8 threads
//! ```
//!
//! *Log*: a replacement writes down which leaf it replaces, then activates the new ones into the two
//! words beside it; when it is done, it clears all three. *Ring*: a leaf that was replaced is named by
//! a place of the ring until nobody can hold it; then it is freed from there. The first leaf's
//! destination is the tree's head.
//!
//! A replacement that needs the leaf in front to be replaced first gives its entry up: so a thread that waits for an
//! entry, or for the lock of that leaf, has none, and one that has an entry waits for the inner nodes only.
//!
//! After a crash all that log and ring name is freed, but for what is in the list. With one thread, or with locks,
//! little else is allocated: a leaf that found the ring full and waits in DRAM; one whose replacement gave its entry
//! up, and may have ended without a link, for want of space; one that the inner nodes still have, for want of memory.
//! Before its log ends, the last word of the area's first entry says so (*unnamed*), and recovery then looks at all
//! blocks of an exact allocator. Without locks, a log may end before its leaves are linked, as Calloc's does.

use std::collections::{BTreeSet, VecDeque};
use std::path::Path;

use everleaf_alloc::{AllocError, Recovery, Session};
use everleaf_index::{PoolBase, RootObject};
use everleaf_machine::{Atomic, LINE_SIZE, Machine, Ordering, SpinGuard, SpinLock};
use everleaf_pool::{Medium, PoolError};

use super::variant::AreaUse;
use crate::allocators::{AnyAllocator, Promise};

/// Words of the root object.
const ALLOCATOR: usize = 4;
const ROOT: usize = 5;
const BLOCKS: usize = 6;
const AREAS: usize = 7;

/// Areas there are; more sessions share them.
const THREADS: usize = AreaUse::ALL.areas;
/// Entries of a log: a session has one at most, and sessions that share an area wait for one.
const LOG_COUNT: usize = AreaUse::ALL.entries;
/// Words of an entry: the old leaf, the new ones.
const LOG_ENTRY: usize = 4;
/// The word of an area that says, if it is not 0, that a leaf may be allocated which neither list nor word names.
const UNNAMED: usize = 3;
/// Where an area's ring is, in words, and its places.
const RING: usize = LOG_COUNT * LOG_ENTRY;
const RING_COUNT: usize = AreaUse::ALL.places;
/// Words of an area.
const AREA_WORDS: usize = RING + RING_COUNT;
/// Bytes of the record with the areas, which begin at a line.
const AREAS_SIZE: usize = THREADS * AREA_WORDS * 8 + LINE_SIZE;

/// What is kept of a thread's ring.
#[derive(Default)]
struct Thread {
    /// Places that are filled, oldest first, and under which epoch.
    ring: VecDeque<(usize, u64)>,
    /// The place that is filled next.
    next: usize,
    /// Leaves that found the ring full.
    waiting: VecDeque<(u64, u64)>,
}

/// See the module.
pub(super) struct Blocks<M: Machine> {
    allocator: AnyAllocator<M>,
    base: PoolBase<M>,
    medium: Medium<M>,
    /// The record with the areas.
    areas: u64,
    area_use: AreaUse,
    threads: Box<[SpinLock<Thread, M>]>,
}

impl<M: Machine> Blocks<M> {
    /// A new allocator for so many leaves, and what the root object says of it, not durable yet.
    ///
    /// # Errors
    /// No space.
    pub fn create(
        session: &mut Session<M>,
        root_object: RootObject<M>,
        number: u64,
        block_bytes: usize,
        blocks: usize,
        area_use: AreaUse,
    ) -> Result<Self, AllocError> {
        let shape = AnyAllocator::<M>::shape(number, block_bytes, blocks, THREADS);
        let shape = shape.expect("the caller has the number of an allocator");
        let areas = session.allocate_record(AREAS_SIZE)?;
        let allocator = match AnyAllocator::create(number, session, shape) {
            Ok(allocator) => allocator.expect("the caller has the number of an allocator"),
            Err(error) => {
                session.free_record(areas, AREAS_SIZE);
                return Err(error);
            }
        };
        let this = Self::of(session, allocator, areas, area_use);
        this.words().iter().for_each(|word| word.write_private(0));
        // Persist: cleared areas before the root object names them.
        this.medium.persist(this.words()[0].as_ptr(), THREADS * AREA_WORDS * 8);
        let words = [
            (ALLOCATOR, number),
            (ROOT, this.allocator.root()),
            (BLOCKS, blocks as u64),
            (AREAS, areas),
        ];
        words.into_iter().for_each(|(index, value)| root_object.word(index).write_private(value));
        // Persist: before the directory names the tree.
        this.medium.persist(root_object.word(ALLOCATOR).as_ptr(), 32);
        Ok(this)
    }

    /// The allocator that the root object names; `None` if it names none.
    ///
    /// # Errors
    /// Damage; a pool that is open for reading only, since what a crash has cut is ended here.
    pub fn open(
        session: &Session<M>,
        root_object: RootObject<M>,
        recovery: &Recovery<M>,
        block_bytes: usize,
        area_use: AreaUse,
    ) -> Result<Option<Self>, AllocError> {
        let [number, root, blocks, areas] =
            [ALLOCATOR, ROOT, BLOCKS, AREAS].map(|index| root_object.word(index).read_private());
        if number == 0 {
            return Ok(None);
        }
        let corrupt = || AllocError::Corrupt {
            offset: areas,
            what: "a tree's root object names an allocator that there is not".into(),
        };
        let pool = session.heap().pool();
        if blocks == 0 || blocks > pool.max_size() / block_bytes as u64 {
            return Err(corrupt());
        }
        let shape = AnyAllocator::<M>::shape(number, block_bytes, blocks as usize, THREADS);
        let shape = shape.ok_or_else(corrupt)?;
        if pool.is_read_only() {
            let path = pool.path().unwrap_or(Path::new("")).to_path_buf();
            let action = "open a tree whose leaves come from another allocator";
            return Err(AllocError::Pool(PoolError::ReadOnly { path, action }));
        }
        recovery.mark_record(areas, AREAS_SIZE)?;
        let allocator = AnyAllocator::open(number, session.heap(), recovery, root, shape)?;
        Ok(Some(Self::of(session, allocator.ok_or_else(corrupt)?, areas, area_use)))
    }

    fn of(session: &Session<M>, allocator: AnyAllocator<M>, areas: u64, area_use: AreaUse) -> Self {
        Blocks {
            allocator,
            base: PoolBase::of(session.heap()),
            medium: session.medium(),
            areas,
            area_use,
            threads: (0..THREADS).map(|_| SpinLock::new(Thread::default())).collect(),
        }
    }

    /// Whether a leaf can be at that offset.
    pub fn is_block(&self, recovery: &Recovery<M>, block: u64) -> bool {
        self.allocator.is_block(recovery, block)
    }

    /// Ends opening: frees what log and ring name and the list does not have.
    ///
    /// # Errors
    /// Damage.
    pub fn free_unlisted(
        &mut self,
        session: &mut Session<M>,
        recovery: &Recovery<M>,
        listed: &BTreeSet<u64>,
    ) -> Result<(), AllocError> {
        self.allocator.keep(listed);
        self.allocator.mark(recovery, listed)?;
        listed.iter().try_for_each(|block| self.check_named(recovery, *block))?;
        // Before something is freed: what that leaves behind is the allocator's own.
        let unnamed = self.unnamed(listed);
        let mut seen = BTreeSet::new();
        let mut freed = vec![];
        for (index, word) in self.words().iter().enumerate().filter(|(index, _)| is_name(*index)) {
            let block = word.read_private();
            if block == 0 {
                continue;
            }
            self.check_named(recovery, block)?;
            // What was not marked is free already, where that decides.
            let is_free = self.allocator.promise() == Promise::Marked;
            let is_listed = listed.contains(&block) && !M::mutant("nbtree_blocks.frees_listed");
            let is_second = !seen.insert(block) && !M::mutant("nbtree_blocks.frees_twice");
            if is_free || is_listed || is_second || M::mutant("nbtree_blocks.frees_nothing") {
                self.store(word, 0);
            } else {
                freed.push(index);
            }
        }
        if M::mutant("nbtree_blocks.erases_first") {
            self.erase_notes();
        }
        M::mark("nbtree_published.blocks_freed");
        freed.into_iter().for_each(|index| self.allocator.free_from(session, &self.words()[index]));
        for block in unnamed {
            let word = &self.words()[0];
            self.store(word, block);
            self.allocator.free_from(session, word);
        }
        // Last: a crash before is told again.
        self.erase_notes();
        Ok(())
    }

    /// Erases what areas say of leaves without a name.
    fn erase_notes(&self) {
        let notes = (0..THREADS).map(|thread| &self.area(thread)[UNNAMED]);
        notes.filter(|note| note.read_private() != 0).for_each(|note| self.store(note, 0));
    }

    /// What is allocated and neither in the list nor named, where a note says that there may be some.
    fn unnamed(&self, listed: &BTreeSet<u64>) -> Vec<u64> {
        let has_note = |thread| self.area(thread)[UNNAMED].read_private() != 0;
        if !(0..THREADS).any(has_note) {
            return vec![];
        }
        let named = self.named();
        let is_listed =
            |block: &u64| listed.contains(block) && !M::mutant("nbtree_blocks.sweeps_listed");
        let is_named =
            |block: &u64| named.contains(block) && !M::mutant("nbtree_blocks.sweeps_named");
        let is_unnamed = |block: &u64| !is_listed(block) && !is_named(block);
        self.allocator.held().into_iter().filter(is_unnamed).collect()
    }

    /// Says, durably, that a leaf may be allocated which nothing names: before the log that does ends.
    pub fn note_unnamed(&self, session: &Session<M>) {
        if M::mutant("nbtree_blocks.no_note") {
            return;
        }
        // Also where it is there: another session of the area may have stored it, and not made it durable yet.
        self.store(&self.area(self.thread(session))[UNNAMED], 1);
    }

    /// Refuses a block that cannot have been allocated: it would be in use and free.
    fn check_named(&self, recovery: &Recovery<M>, block: u64) -> Result<(), AllocError> {
        // Of what is allocated if it is named nothing is recorded, and a name may be left over.
        let is_marked = self.allocator.promise() == Promise::Marked;
        if is_marked || self.is_block(recovery, block) && self.allocator.holds(block) {
            return Ok(());
        }
        let what = "a leaf, or a log, is where its allocator has nothing".into();
        Err(AllocError::Corrupt { offset: block, what })
    }

    /// The words of all areas.
    fn words(&self) -> &[Atomic<u64, M>] {
        let start = self.areas.next_multiple_of(LINE_SIZE as u64) as usize;
        let start = self.base.start().wrapping_add(start).cast();
        // SAFETY: inside the record of the areas, aligned, in the pool, which stays open; made of
        // atomic words, valid whatever their bits.
        unsafe { std::slice::from_raw_parts(start, THREADS * AREA_WORDS) }
    }

    /// The words of a thread's area.
    fn area(&self, thread: usize) -> &[Atomic<u64, M>] {
        &self.words()[thread * AREA_WORDS..][..AREA_WORDS]
    }

    /// Makes a word of an area name a block, or nothing, durably.
    fn store(&self, word: &Atomic<u64, M>, block: u64) {
        // Relaxed: only the thread of the area, and recovery, read it.
        word.store(block, Ordering::Relaxed);
        // Persist: the name before what it guards is changed, or given up after that was.
        self.medium.persist(word.as_ptr(), 8);
    }

    fn thread(&self, session: &Session<M>) -> usize {
        session.stripe() % self.area_use.areas
    }

    /// A block for the first leaf, reserved.
    ///
    /// # Errors
    /// No space.
    pub fn reserve(&self, session: &mut Session<M>) -> Result<u64, AllocError> {
        self.allocator.reserve(session)
    }

    /// Makes it the first leaf, which the tree's head names.
    pub fn activate(&self, session: &mut Session<M>, block: u64, head: &Atomic<u64, M>) {
        self.allocator.activate(session, block, head);
    }

    /// Takes it back, of a tree that was not made.
    pub fn free_first(&self, session: &mut Session<M>, head: &Atomic<u64, M>) {
        self.allocator.free_from(session, head);
    }

    /// Blocks for the replacement of `old`, activated; and where that is logged. Waits for an entry of the log, which
    /// the caller has none of.
    ///
    /// # Errors
    /// No space; then nothing was taken.
    pub fn begin(
        &self,
        session: &mut Session<M>,
        old: u64,
        count: usize,
    ) -> Result<(Vec<u64>, u64), AllocError> {
        let thread = self.thread(session);
        let (mut held, place) = self.lock_with_entry(thread);
        self.free_expired(session, thread, &mut held);
        let mut blocks = vec![];
        for _ in 0..count {
            match self.allocator.reserve(session) {
                Ok(block) => blocks.push(block),
                Err(error) => {
                    blocks.into_iter().for_each(|block| self.allocator.cancel(session, block));
                    return Err(error);
                }
            }
        }
        let area = self.area(thread);
        let logs_old = !M::mutant("nbtree_blocks.no_old");
        self.store(&area[place], if logs_old { old } else { blocks[0] });
        for (block, word) in blocks.iter().zip(&area[place + 1..]) {
            self.allocator.activate(session, *block, word);
        }
        Ok((blocks, (thread * AREA_WORDS + place) as u64 + 1))
    }

    /// A thread's lock, and where in its area an entry of the log is free.
    fn lock_with_entry(&self, thread: usize) -> (SpinGuard<'_, Thread, M>, usize) {
        let area = self.area(thread);
        let places = || (0..self.area_use.entries).map(|entry| entry * LOG_ENTRY);
        let mut attempt = 0;
        loop {
            let held = self.threads[thread].lock();
            if let Some(place) = places().find(|place| area[*place].read_private() == 0) {
                return (held, place);
            }
            drop(held);
            // Sessions that share the area have all of them, and wait for none of our locks.
            // Relaxed: looked at again under the lock.
            while places().all(|place| area[place].load(Ordering::Relaxed) != 0) {
                M::spin(attempt);
                attempt += 1;
            }
        }
    }

    /// Clears an entry of a log: its leaves are in the list, or were given back.
    pub fn end(&self, place: u64) {
        let entry = &self.words()[place as usize - 1..][..LOG_ENTRY];
        // Other sessions take entries of the same area.
        let _held = self.threads[(place as usize - 1) / AREA_WORDS].lock();
        for word in entry[..UNNAMED].iter().rev() {
            // Release: in the pool in this order, being on one line. The old leaf last: an entry is free
            // when it names none. Others read it under the lock; pairs with recovery's reads.
            word.store(0, Ordering::Release);
        }
        if !M::mutant("nbtree_blocks.no_end_flush") {
            // Persist: before the leaves can be freed by others, which recovery would repeat.
            self.medium.persist(entry[0].as_ptr(), 8 * LOG_ENTRY);
        }
    }

    /// Frees a leaf that nobody else has seen, from the log that names it.
    pub fn give_back(&self, session: &mut Session<M>, block: u64) {
        let thread = self.thread(session);
        let _held = self.threads[thread].lock();
        let log = &self.area(thread)[..RING];
        let named = log.iter().find(|word| word.read_private() == block);
        self.allocator.free_from(session, named.expect("its replacement has not ended"));
    }

    /// Takes a leaf that the list and the inner nodes have lost: freed when nobody can hold it.
    pub fn retire(&self, session: &mut Session<M>, block: u64) {
        let thread = self.thread(session);
        let epoch = session.heap().retire_epoch();
        let mut held = self.threads[thread].lock();
        held.waiting.push_back((block, epoch));
        self.fill_ring(thread, &mut held);
        if !held.waiting.is_empty() && !M::mutant("nbtree_blocks.no_waiting_note") {
            self.note_unnamed(session);
        }
    }

    /// Puts what waits in the ring, as far as there is room.
    fn fill_ring(&self, thread: usize, held: &mut Thread) {
        while held.ring.len() < self.area_use.places
            && let Some((block, epoch)) = held.waiting.pop_front()
        {
            if !M::mutant("nbtree_blocks.no_ring") {
                self.store(&self.area(thread)[RING + held.next], block);
            }
            held.ring.push_back((held.next, epoch));
            held.next = (held.next + 1) % self.area_use.places;
        }
    }

    /// Frees the leaves of the ring that nobody can hold any more.
    fn free_expired(&self, session: &mut Session<M>, thread: usize, held: &mut Thread) {
        let heap = session.heap().clone();
        if held.ring.len() >= self.area_use.places.div_ceil(4) {
            heap.advance_epoch();
        }
        while let Some((place, epoch)) = held.ring.front().copied()
            && (heap.is_expired(epoch) || M::mutant("nbtree_blocks.free_at_once"))
        {
            M::mark("nbtree_published.block_freed");
            self.allocator.free_from(session, &self.area(thread)[RING + place]);
            held.ring.pop_front();
        }
        self.fill_ring(thread, held);
    }

    /// Blocks that are named in areas, or wait to be.
    fn named(&self) -> BTreeSet<u64> {
        let waiting = |thread: &SpinLock<Thread, M>| -> Vec<u64> {
            thread.lock().waiting.iter().map(|(block, _)| *block).collect()
        };
        let words = self.words().iter().enumerate().filter(|(index, _)| is_name(*index));
        let words = words.map(|(_, word)| word.read_private());
        let all = words.chain(self.threads.iter().flat_map(waiting));
        all.filter(|block| *block != 0).collect()
    }

    /// Marks what is used, and holds it against `leaves`, the blocks that the tree uses. Nobody else is
    /// active.
    pub fn check(&self, used: &Recovery<M>, leaves: &BTreeSet<u64>, problems: &mut Vec<String>) {
        let all: BTreeSet<u64> = leaves | &self.named();
        let marked = used.mark_record(self.areas, AREAS_SIZE);
        if let Err(error) = marked.and_then(|()| self.allocator.mark(used, &all)) {
            problems.push(error.to_string());
        }
        problems.extend(self.allocator.check(&all));
    }

    /// Gives everything back. Nobody uses the tree, whose leaves these are, any more.
    pub fn free_all(&self, session: &mut Session<M>, leaves: impl Iterator<Item = u64>) {
        if self.allocator.promise() == Promise::Marked {
            let all: BTreeSet<u64> = leaves.chain(self.named()).collect();
            all.into_iter().for_each(|block| self.allocator.cancel(session, block));
        }
        self.allocator.free_all(session);
        session.free_record(self.areas, AREAS_SIZE);
    }
}

/// Whether a word of the areas, by its number, names a block.
fn is_name(index: usize) -> bool {
    index % AREA_WORDS != UNNAMED
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use everleaf_index::{Domain, Heap, Pool, Production};
    use everleaf_machine::Hardware;

    use super::*;
    use crate::nbtree_published::NbTreePublished;
    use crate::nbtree_published::calloc::Logged;

    type Tree = NbTreePublished<Production, Hardware>;

    fn begin(tree: &Tree, session: &mut Session<Hardware>) -> Result<Logged, AllocError> {
        tree.space.begin(session, 1, 2).map(|new| new.logged)
    }

    /// Nine sessions share eight areas. The ninth was refused while the first had all entries.
    #[test]
    fn a_session_waits_for_an_entry_of_its_log() {
        let pool = Pool::in_memory(1 << 20, 1 << 20, Domain::Process).expect("memory");
        let heap = Heap::create(pool).expect("room");
        let mut sessions: Vec<_> =
            (0..=THREADS).map(|_| heap.session().expect("a free session")).collect();
        let mut ninth = sessions.pop().expect("nine");
        let tree = Tree::create_on(&mut sessions[0], "pmdk-like", 20).expect("room");
        let mut taken = vec![];
        (0..LOG_COUNT).for_each(|_| taken.push(begin(&tree, &mut sessions[0]).expect("room")));
        let place = taken[2].place;
        thread::scope(|scope| {
            let waits = scope.spawn(|| begin(&tree, &mut ninth).map(|logged| logged.place));
            thread::sleep(Duration::from_millis(20));
            let has_waited = !waits.is_finished();
            tree.space.end(taken.swap_remove(2));
            let waited = waits.join().expect("no panic").expect("room");
            assert_eq!((has_waited, waited), (true, place));
        });
    }
}
