//! One thread's handle on a heap: its pin, its free lists, what it has retired.
//!
//! A session is used by one thread at a time and shares nothing on its ordinary path. Batches move from and to the
//! depot.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use everleaf_machine::Machine;
use everleaf_pool::Medium;

use crate::bag::{Bag, Retired};
use crate::error::AllocError;
use crate::heap::Heap;
use crate::layout::{BLOCK_CLASS_COUNT, block_size};
use crate::node::NodeArena;
use crate::size_class::{CLASS_COUNT, class_size};

/// Bytes of the pool that fill a bag, however few items have them: three bags wait at most while nobody is pinned for
/// long.
const BAG_BYTES: usize = 1 << 20;
/// So many lookups in a row that found nothing let one expect the same of the next.
const ABSENT_RUN: u8 = 16;

/// One thread's handle on a [`Heap`].
pub struct Session<M: Machine> {
    heap: Arc<Heap<M>>,
    participant: usize,
    pins: u32,
    arena: NodeArena,
    pub(crate) blocks: [Vec<u32>; BLOCK_CLASS_COUNT],
    pub(crate) records: Vec<Vec<u64>>,
    pub(crate) open_bag: Vec<Retired>,
    /// Bytes of the pool in it.
    open_bytes: usize,
    pub(crate) sealed: VecDeque<Bag>,
    turns: u32,
    /// Lookups in a row that found nothing, at most [`ABSENT_RUN`].
    absent_run: u8,
    /// Calls of each class that were promised to succeed: so many blocks are at hand.
    pub(crate) promised: [usize; BLOCK_CLASS_COUNT],
}

/// A pinned session; see [`Session::pinned`].
pub struct Pinned<'s, M: Machine>(&'s mut Session<M>);

impl<M: Machine> Deref for Pinned<'_, M> {
    type Target = Session<M>;
    #[inline(always)]
    fn deref(&self) -> &Session<M> {
        self.0
    }
}

impl<M: Machine> DerefMut for Pinned<'_, M> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Session<M> {
        self.0
    }
}

impl<M: Machine> Drop for Pinned<'_, M> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.unpin();
    }
}

impl<M: Machine> Session<M> {
    /// A session keeps at most this many free blocks, or records of one class. On a simulated machine more
    /// than programs in which threads stop for ever have at hand: the depot's lock is an honest lock.
    pub(crate) const KEEP_MAX: usize = if M::SIMULATED { 40 } else { 256 };

    pub(crate) fn open(heap: Arc<Heap<M>>) -> Result<Self, AllocError> {
        let gate = heap.session_gate.lock();
        let joined = heap.epochs.join();
        drop(gate);
        let participant =
            joined.ok_or(AllocError::TooManySessions(crate::epoch::PARTICIPANT_COUNT_MAX))?;
        // What ended sessions left is used again.
        let arena = std::mem::take(&mut heap.depot.lock().arena);
        heap.epochs.note_node_bytes(participant, arena.live_bytes);
        Ok(Session {
            heap,
            participant,
            pins: 0,
            arena,
            blocks: Default::default(),
            records: vec![vec![]; CLASS_COUNT],
            open_bag: vec![],
            open_bytes: 0,
            sealed: VecDeque::new(),
            turns: 0,
            absent_run: 0,
            promised: [0; BLOCK_CLASS_COUNT],
        })
    }

    /// The heap the session works on.
    #[inline(always)]
    pub fn heap(&self) -> &Arc<Heap<M>> {
        &self.heap
    }

    /// The persistence verbs of the pool.
    #[inline(always)]
    pub fn medium(&self) -> Medium<M> {
        self.heap.medium()
    }

    /// A small number, different for each session that exists now: for striped counters.
    #[inline(always)]
    pub fn stripe(&self) -> usize {
        self.participant
    }

    /// How often this was asked for, modulo 2^32: for what is to be done now and then.
    #[inline(always)]
    pub fn turn(&mut self) -> u32 {
        self.turns = self.turns.wrapping_add(1);
        self.turns
    }

    /// Whether the session's last lookups found nothing, so that the next one is likely to find nothing, too. For what
    /// costs time only when it is wrong.
    #[inline(always)]
    pub fn expects_absent(&self) -> bool {
        self.absent_run == ABSENT_RUN
    }

    /// What a lookup came to; see [`Self::expects_absent`].
    #[inline(always)]
    pub fn note_lookup(&mut self, found: bool) {
        self.absent_run = if found { 0 } else { (self.absent_run + 1).min(ABSENT_RUN) };
    }

    /// Until the matching [`Self::unpin`], nothing this thread can reach is reclaimed. Nests.
    #[inline(always)]
    pub fn pin(&mut self) {
        if self.pins == 0 {
            self.heap.epochs.pin(self.participant);
        }
        self.pins += 1;
    }

    /// Ends a pin.
    #[inline(always)]
    pub fn unpin(&mut self) {
        debug_assert!(self.pins > 0, "unpin without pin");
        self.pins -= 1;
        if self.pins == 0 {
            self.heap.epochs.unpin(self.participant);
        }
    }

    /// The session, pinned until the value goes: also when a panic takes it.
    #[inline(always)]
    pub fn pinned(&mut self) -> Pinned<'_, M> {
        self.pin();
        Pinned(self)
    }

    /// Whether the session is pinned.
    pub fn is_pinned(&self) -> bool {
        self.pins > 0
    }

    // ---- volatile nodes ----

    /// Memory for a node of `size` bytes, 64-byte aligned, uninitialised.
    ///
    /// # Errors
    /// [`AllocError::OutOfMemory`].
    pub fn allocate_node(&mut self, size: usize) -> Result<*mut u8, AllocError> {
        if !M::SIMULATED && !self.arena.has_room(size) {
            self.arena.take_from(&mut self.heap.depot.lock().arena, size);
        }
        let node = self.arena.allocate::<M>(size);
        self.note_node_bytes();
        node
    }

    fn note_node_bytes(&self) {
        self.heap.epochs.note_node_bytes(self.participant, self.arena.live_bytes);
    }

    /// Takes back a node that no other thread has seen.
    ///
    /// # Safety
    /// `node` came from [`Self::allocate_node`] with this size, of a session of the same heap, and
    /// no other thread can reach it.
    pub unsafe fn free_node(&mut self, node: *mut u8, size: usize) {
        // SAFETY: by the caller's promise.
        unsafe { self.arena.free::<M>(node, size) }
        self.note_node_bytes();
    }

    /// Takes back a node that was unlinked: reused when no thread can hold it.
    ///
    /// # Safety
    /// As [`Self::free_node`], but threads pinned now may still read it; nobody retires it again.
    pub unsafe fn retire_node(&mut self, node: *mut u8, size: usize) {
        self.retire(Retired::Node(node, size));
    }

    // ---- leaf blocks ----

    /// A free leaf block of 1 KiB. Its contents are those of its last life.
    ///
    /// # Errors
    /// The pool is full, or the disk is.
    pub fn allocate_block(&mut self) -> Result<u32, AllocError> {
        self.allocate_block_of(0)
    }

    /// A free leaf block of `class` ([`block_size`]). Its contents are those of its last life.
    ///
    /// # Errors
    /// The pool is full, or the disk is.
    pub fn allocate_block_of(&mut self, class: usize) -> Result<u32, AllocError> {
        self.keep_promise(class)?;
        if self.blocks[class].is_empty() {
            self.refill_blocks(class)?;
        }
        let block = self.blocks[class].pop().expect("the refill found at least one");
        M::lifetime(self.heap.block_address(block), block_size(class), true);
        Ok(block)
    }

    /// Takes back a block of 1 KiB that no other thread has seen.
    pub fn free_block(&mut self, block: u32) {
        self.free_block_of(0, block);
    }

    /// Takes back a block of `class` that no other thread has seen.
    pub fn free_block_of(&mut self, class: usize, block: u32) {
        M::lifetime(self.heap.block_address(block), block_size(class), false);
        let blocks = &mut self.blocks[class];
        blocks.push(block);
        if blocks.len() > Self::KEEP_MAX {
            let kept = self.promised[class].max(Self::KEEP_MAX / 2);
            // The oldest go: the newest are warm.
            let moved = blocks.drain(..blocks.len().saturating_sub(kept));
            self.heap.depot.lock().blocks[class].extend(moved);
        }
    }

    /// Takes back a block of 1 KiB that is unlinked, durably: reused when no thread can hold it.
    pub fn retire_block(&mut self, block: u32) {
        self.retire_block_of(0, block);
    }

    /// As [`Self::retire_block`] for a block of `class`.
    pub fn retire_block_of(&mut self, class: usize, block: u32) {
        self.retire(Retired::Block(block, class));
    }

    // ---- records ----

    /// Space for a record of `size` bytes (at least 1), as an offset that is a multiple of 16. Its
    /// contents are those of its last life.
    ///
    /// # Errors
    /// The pool is full, or the disk is.
    pub fn allocate_record(&mut self, size: usize) -> Result<u64, AllocError> {
        if M::SIMULATED {
            self.may_be_refused()?;
        }
        let Some(class) = self.heap.class_for(size) else {
            return self.allocate_large(size);
        };
        if self.records[class].is_empty() {
            self.refill_records(class)?;
        }
        let offset = self.records[class].pop().expect("the refill found at least one");
        M::lifetime(self.heap.base().wrapping_add(offset as usize), class_size(class), true);
        Ok(offset)
    }

    /// Takes back a record that no other thread has seen.
    ///
    /// A size that does not fit the place (read from a damaged record) leaves the record in use.
    pub fn free_record(&mut self, offset: u64, size: usize) {
        let heap = &self.heap;
        if !heap.is_place_of(offset, size) {
            return;
        }
        let Some(class) = heap.class_for(size) else {
            heap.free_large(offset, size);
            return;
        };
        M::lifetime(heap.base().wrapping_add(offset as usize), class_size(class), false);
        self.records[class].push(offset);
        if self.records[class].len() > Self::KEEP_MAX {
            let keep = self.records[class].len() - Self::KEEP_MAX / 2;
            let moved = self.records[class].drain(..keep);
            heap.depot.lock().records[class].extend(moved);
        }
    }

    /// Takes back a record that is unlinked, durably: reused when no thread can hold it.
    pub fn retire_record(&mut self, offset: u64, size: usize) {
        self.retire(Retired::Record(offset, size));
    }

    // ---- reclamation ----

    /// Items in a bag when it is sealed. On a simulated machine one, so that reuse is common, and in every other
    /// session some, so that time goes on while a bag is filled.
    #[inline(always)]
    pub(crate) fn bag_size(&self) -> usize {
        match (M::SIMULATED, self.participant % 2) {
            (false, _) => 128,
            (true, 0) => 1,
            (true, _) => 3,
        }
    }

    fn retire(&mut self, item: Retired) {
        let bag_size = self.bag_size();
        if M::mutant("session.fills_sealed_bag")
            && let Some(bag) = self.sealed.back_mut().filter(|bag| bag.items.len() < bag_size)
        {
            bag.items.push(item);
            return;
        }
        self.open_bytes += item.pool_bytes();
        self.open_bag.push(item);
        let is_full = self.open_bag.len() >= bag_size || self.open_bytes >= BAG_BYTES;
        if is_full || M::mutant("session.fills_sealed_bag") {
            self.seal();
            self.heap.epochs.try_advance();
            self.collect();
        }
    }

    /// Closes the open bag under the current epoch.
    fn seal(&mut self) {
        if self.open_bag.is_empty() {
            return;
        }
        let items = std::mem::take(&mut self.open_bag);
        self.open_bytes = 0;
        // The tag is read after every item in the bag was unlinked, so it is late enough for all.
        let older = u64::from(M::mutant("session.old_tag"));
        self.sealed.push_back(Bag { epoch: self.heap.epochs.retire_epoch() - older, items });
    }

    /// Reclaims the bags whose grace period is over.
    fn collect(&mut self) {
        self.collect_bags();
        if self.arena.has_surplus() {
            // Else a thread that only frees would hoard what others keep asking the system for.
            self.arena.give_surplus(&mut self.heap.depot.lock().arena);
        }
    }

    fn collect_bags(&mut self) {
        while let Some(bag) = self.sealed.front() {
            if !self.heap.epochs.is_expired(bag.epoch) {
                break;
            }
            let bag = self.sealed.pop_front().expect("the front was just seen");
            self.reclaim(bag);
        }
    }

    fn reclaim(&mut self, bag: Bag) {
        for item in bag.items {
            match item {
                // SAFETY: retired once with this size, and its grace period is over (E1).
                Retired::Node(node, size) => unsafe { self.free_node(node, size) },
                Retired::Block(block, class) => {
                    let class = if M::mutant("session.reclaims_smallest") { 0 } else { class };
                    self.free_block_of(class, block);
                }
                Retired::Record(offset, size) => self.free_record(offset, size),
            }
        }
    }

    /// Gives the session's free blocks and records to the depot, for other threads.
    pub fn give_back(&mut self) {
        self.promised = [0; BLOCK_CLASS_COUNT];
        let mut depot = self.heap.depot.lock();
        for (theirs, mine) in depot.blocks.iter_mut().zip(&mut self.blocks) {
            theirs.append(mine);
        }
        if M::mutant("session.gives_twice")
            && let Some(last) = depot.blocks[0].last().copied()
        {
            depot.blocks[0].push(last);
        }
        for (theirs, mine) in depot.records.iter_mut().zip(&mut self.records) {
            theirs.append(mine);
        }
    }

    /// Reclaims all that can be reclaimed now: for when space has run out, or at rest.
    pub fn collect_all(&mut self) {
        self.seal();
        for _ in 0..3 {
            self.heap.epochs.try_advance();
            self.collect();
        }
        let orphans = std::mem::take(&mut self.heap.depot.lock().orphans);
        for bag in orphans {
            if self.heap.epochs.is_expired(bag.epoch) || M::mutant("session.orphans_at_once") {
                self.reclaim(bag);
            } else if !M::mutant("session.orphans_lost") {
                self.heap.depot.lock().orphans.push(bag);
            }
        }
    }
}

impl<M: Machine> Drop for Session<M> {
    fn drop(&mut self) {
        if !self.heap.pool().is_of_this_process() {
            // Inherited by a fork: the pool is another's, and its locks may be held by threads that
            // are not here.
            return;
        }
        if self.pins > 0 && !M::mutant("session.ends_pinned") {
            self.pins = 1;
            self.unpin();
        }
        if !M::mutant("session.ends_unsealed") {
            self.seal();
        }
        self.collect();
        if !M::mutant("session.keeps_all") {
            self.give_back();
        }
        let heap = self.heap.clone();
        let mut depot = heap.depot.lock();
        if !M::mutant("session.no_orphans") {
            depot.orphans.extend(self.sealed.drain(..));
        }
        depot.arena.absorb(std::mem::take(&mut self.arena));
        heap.epochs.note_node_bytes(self.participant, 0);
        drop(depot);
        if !M::mutant("session.keeps_seat") {
            heap.epochs.leave(self.participant);
        }
    }
}
