//! The FAST node: records sorted by shifting, of which every 8-byte store leaves a state that readers
//! and recovery understand.
//!
//! ```text
//!   byte 0        8         16       24      32     40       48                       size
//!   | leftmost | sibling | state | lock | low | flushed | key 0 | word 0 | key 1 | ...   |
//!                                                               (without low fence: from 32)
//!   state  63          32 31       30   24 23    16 15      0
//!         | switch       | deleted | 0    | level  | count   |
//!   lock   63          32 31              3 2        1        0
//!         | generation   | readers         | mending | unread | held |
//! ```
//!
//! Record `i` is *valid* iff its word differs from the word before it (`leftmost` for the first) and
//! is not zero; the first zero word ends the array. So a record is taken out by copying its left
//! neighbour's word over its own, and put in by the store of its own word: one 8-byte store each,
//! and every state between is "one word twice", which everybody skips.
//!
//! *Words* are unique within a node. In an inner node they are the offsets of children, each the
//! node of the keys from its record's key on (`leftmost`: of the keys below the first); in a leaf
//! they are `value << 8 | nonce` with a nonce of 1..=255 that tells equal values apart.
//!
//! *Switch*: even while records are put in (shifted right), odd while they are taken out (shifted
//! left). A reader goes the other way than the records, so that it can meet one twice but not miss
//! it, and reads again if the switch has changed.
//!
//! *Flushed* is for trees that gather writes of a leaf elsewhere: the number of the last one that the leaf
//! has. Other trees leave 0 there.
//!
//! *Count* is what a holder of the lock and a reader from the right start with; it is right while
//! the node is *read* (see below), for it is never flushed.
//!
//! *Lock and generation*: the word belongs to one opening of the pool. A lock of another generation
//! is open, and the node *unread*: a crash may have cut anything short in it. Its next holder reads
//! it and mends it (`mend.rs`); until then readers believe nothing but the valid records below the
//! sibling's low fence.
//!
//! Source: D. Hwang, W.-H. Kim, Y. Won, B. Nam, "Endurable Transient Inconsistency in
//! Byte-Addressable Persistent B+-Tree", FAST 2018, sections 3 and 4. Departures: the immutable low
//! fence, nonces, the generation, the count beside the switch; index 0 of a leaf.

mod mend;
mod read;
mod shift;
mod switch;

use std::marker::PhantomData;

use everleaf_alloc::AllocError;
use everleaf_index::PoolBase;
use everleaf_machine::{Atomic, LINE_SIZE, Machine, Ordering};
use everleaf_pool::Medium;

pub(crate) use read::Seen;

/// Size and options of a node.
pub trait NodeShape: Copy + Default + Send + Sync + 'static {
    /// Bytes of a node: 256 to 4096, a power of two.
    const NODE_SIZE: usize = 512;
    /// Records that are used at most; fewer than fit makes rare paths common.
    const ENTRY_LIMIT: usize = usize::MAX;
    /// Whether a node carries its own low fence. Without, the first key of the right sibling is
    /// compared with, as published, and keys can be lost.
    const LOW_FENCE: bool = true;
    /// Whether nodes are searched by halving instead of in order; readers then wait for writers.
    const BINARY: bool = false;
    /// Whether every store of a shift is followed by a fence, as on machines that reorder stores.
    const FENCED: bool = false;
}

/// Bytes in front of the records.
pub(crate) const fn header_size<S: NodeShape>() -> usize {
    if S::LOW_FENCE { 48 } else { 32 }
}

/// Records that fit a node.
pub(crate) const fn slots<S: NodeShape>() -> usize {
    (S::NODE_SIZE - header_size::<S>()) / 16
}

/// Records that a node may hold: the last place is for the zero that ends them.
pub(crate) const fn capacity<S: NodeShape>() -> usize {
    if S::ENTRY_LIMIT < slots::<S>() - 1 { S::ENTRY_LIMIT } else { slots::<S>() - 1 }
}

/// The `leftmost` word of a leaf: differs from every word a record can have.
pub(crate) const LEAF_LEFT: u64 = 1 << 8;
/// Bits of a leaf's word that are not the value's.
pub(crate) const NONCE_BITS: u32 = 8;
/// Bit of the sibling word: the node still has records that the sibling has too.
pub(crate) const UNCUT: u64 = 1;
/// Bit of the sibling word: the node is no part of its level any more, and what it had is in the node that
/// the word leads to.
pub(crate) const MOVED: u64 = 2;

/// A word of the same value with the next nonce.
pub(crate) fn next_nonce(word: u64) -> u64 {
    let nonce = word & ((1 << NONCE_BITS) - 1);
    word - nonce + nonce % 255 + 1
}

const SWITCH_ONE: u64 = 1 << 32;
const DELETED: u64 = 1 << 31;
const LEVEL_SHIFT: u32 = 16;
const COUNT_MASK: u64 = 0xFFFF;
/// What a reader compares: everything but the count.
const VERSION_MASK: u64 = !COUNT_MASK;

const HELD: u64 = 1;
const UNREAD: u64 = 2;
const MENDING: u64 = 4;
const READER: u64 = 8;
const GENERATION_MASK: u64 = !0 << 32;
const READERS_MASK: u64 = 0xFFFF_FFFF & !(READER - 1);

/// What a new node starts with.
pub(crate) struct Header {
    pub level: u64,
    pub low: u64,
    pub leftmost: u64,
    pub sibling: u64,
    /// Of a leaf, the number of the last buffered write in it.
    pub flushed: u64,
    /// Whether the maker holds the node's lock.
    pub held: bool,
}

/// What all nodes of an open tree have in common.
pub(crate) struct Nodes<S, M: Machine> {
    pub base: PoolBase<M>,
    pub medium: Medium<M>,
    /// A number that no other opening of the pool had, in the upper half.
    generation: u64,
    shape: PhantomData<S>,
}

/// A node in the pool. Made by [`Nodes::at`]; used only while the session is pinned, or nobody else
/// is active.
pub(crate) struct Node<S, M: Machine> {
    start: *mut u8,
    shape: PhantomData<(S, M)>,
}

impl<S, M: Machine> Clone for Node<S, M> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<S, M: Machine> Copy for Node<S, M> {}
impl<S, M: Machine> PartialEq for Node<S, M> {
    fn eq(&self, other: &Self) -> bool {
        self.start == other.start
    }
}
impl<S, M: Machine> Clone for Nodes<S, M> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<S, M: Machine> Copy for Nodes<S, M> {}
// SAFETY: `base` is the pool's mapping, which the tree's heap keeps; the rest are numbers.
unsafe impl<S, M: Machine> Send for Nodes<S, M> {}
// SAFETY: as for `Send`.
unsafe impl<S, M: Machine> Sync for Nodes<S, M> {}

impl<S: NodeShape, M: Machine> Nodes<S, M> {
    /// The nodes of an opening of the pool that nobody else had.
    pub fn new(base: PoolBase<M>, medium: Medium<M>, generation: u32) -> Self {
        Nodes { base, medium, generation: u64::from(generation) << 32, shape: PhantomData }
    }

    /// Whether nodes can be locked: not if the pool is open for reading only.
    #[inline(always)]
    pub fn can_lock(&self) -> bool {
        self.generation != GENERATION_MASK
    }

    /// The node at an offset that was found in the pool.
    #[inline(always)]
    pub fn at(&self, offset: u64) -> Result<Node<S, M>, AllocError> {
        let possible = offset != 0
            && offset.is_multiple_of(LINE_SIZE as u64)
            && self.base.holds(offset, S::NODE_SIZE);
        if possible { Ok(self.node(offset)) } else { Err(no_node(offset)) }
    }

    /// The node at an offset that is one for certain.
    #[inline(always)]
    pub fn node(&self, offset: u64) -> Node<S, M> {
        Node { start: self.base.start().wrapping_add(offset as usize), shape: PhantomData }
    }

    /// Where a node is in the pool.
    #[inline(always)]
    pub fn offset(&self, node: Node<S, M>) -> u64 {
        (node.start.addr() - self.base.start().addr()) as u64
    }

    /// The lowest key that belongs to a node or to one on its right.
    #[inline(always)]
    pub fn low(&self, node: Node<S, M>) -> u64 {
        if S::LOW_FENCE {
            // A fence never changes while the node can be reached.
            node.low_word().read_private()
        } else {
            // Acquire: as all reads of records. As published: what the first record is now.
            node.key(0).load(Ordering::Acquire)
        }
    }

    /// The right sibling as the node's word says, unless there is none.
    #[inline(always)]
    pub fn follow(&self, sibling: u64) -> Result<Option<Node<S, M>>, AllocError> {
        let offset = sibling & !(UNCUT | MOVED);
        if offset == 0 { Ok(None) } else { self.at(offset).map(Some) }
    }

    /// Writes a node that nobody can reach, and makes it durable.
    pub fn build(
        &self,
        node: Node<S, M>,
        header: &Header,
        entries: impl Iterator<Item = (u64, u64)>,
    ) {
        let Header { level, low, leftmost, sibling, flushed, held } = *header;
        let mut count = 0;
        for (key, word) in entries {
            node.key(count).write_private(key);
            node.value(count).write_private(word);
            count += 1;
        }
        for slot in count..slots::<S>() {
            node.key(slot).write_private(0);
            node.value(slot).write_private(0);
        }
        node.leftmost().write_private(leftmost);
        node.sibling().write_private(sibling);
        node.state_word().write_private(level << LEVEL_SHIFT | count as u64);
        node.lock_word().write_private(self.generation | if held { HELD } else { 0 });
        if S::LOW_FENCE {
            node.low_word().write_private(low);
            node.flushed_word().write_private(flushed);
        }
        if M::mutant("fast_fair.root_before_node") && level > 0 {
            return;
        }
        // Persist: the node before anything refers to it, or a crash would leave a reference to
        // whatever was there before (F3).
        self.medium.persist(node.start, S::NODE_SIZE);
    }
}

#[cold]
fn no_node(offset: u64) -> AllocError {
    AllocError::Corrupt { offset, what: "a tree refers to a place where no node can be".into() }
}

impl<S: NodeShape, M: Machine> Node<S, M> {
    #[inline(always)]
    fn word<'n>(self, byte: usize) -> &'n Atomic<u64, M> {
        debug_assert!(byte < S::NODE_SIZE);
        // SAFETY: inside the node, which lies in the pool and is not reclaimed while the value is
        // used; aligned; an atomic word is valid whatever its bits are.
        unsafe { &*self.start.wrapping_add(byte).cast::<Atomic<u64, M>>() }
    }

    /// Of an inner node the child of the keys below the first; of a leaf [`LEAF_LEFT`].
    #[inline(always)]
    pub fn leftmost<'n>(self) -> &'n Atomic<u64, M> {
        self.word(0)
    }

    /// The next node of the level, and [`UNCUT`].
    #[inline(always)]
    pub fn sibling<'n>(self) -> &'n Atomic<u64, M> {
        self.word(8)
    }

    #[inline(always)]
    fn state_word<'n>(self) -> &'n Atomic<u64, M> {
        self.word(16)
    }

    #[inline(always)]
    fn lock_word<'n>(self) -> &'n Atomic<u64, M> {
        self.word(24)
    }

    #[inline(always)]
    fn low_word<'n>(self) -> &'n Atomic<u64, M> {
        self.word(32)
    }

    /// Of a leaf with a low fence, the number of the last buffered write in it.
    #[inline(always)]
    pub fn flushed_word<'n>(self) -> &'n Atomic<u64, M> {
        self.word(40)
    }

    #[inline(always)]
    pub fn key<'n>(self, slot: usize) -> &'n Atomic<u64, M> {
        self.word(header_size::<S>() + 16 * slot)
    }

    #[inline(always)]
    pub fn value<'n>(self, slot: usize) -> &'n Atomic<u64, M> {
        self.word(header_size::<S>() + 16 * slot + 8)
    }

    /// The word that a record must differ from to be valid.
    #[inline(always)]
    pub fn left_of<'n>(self, slot: usize) -> &'n Atomic<u64, M> {
        if slot == 0 { self.leftmost() } else { self.value(slot - 1) }
    }

    /// Whether the record starts a cache line.
    #[inline(always)]
    fn starts_line(slot: usize) -> bool {
        (header_size::<S>() + 16 * slot).is_multiple_of(LINE_SIZE)
    }

    /// Levels above the leaves. Never changes.
    #[inline(always)]
    pub fn level(self) -> u64 {
        // Relaxed: these bits are written before the node can be reached.
        self.state_word().load(Ordering::Relaxed) >> LEVEL_SHIFT & 0xFF
    }

    /// Asks for all lines that a search may need.
    #[inline(always)]
    pub fn prefetch(self) {
        let lines = (S::NODE_SIZE / LINE_SIZE).min(8);
        for line in 0..lines {
            M::prefetch(self.start.wrapping_add(line * LINE_SIZE));
        }
    }
}

/// What only the holder of a node's lock may do; reads need no order, for nobody else writes.
impl<S: NodeShape, M: Machine> Node<S, M> {
    /// Records of the node.
    #[inline(always)]
    pub fn count(self) -> usize {
        (self.state_word().read_private() & COUNT_MASK) as usize
    }

    /// Whether the node has left the tree.
    #[inline(always)]
    pub fn is_deleted(self) -> bool {
        // Acquire: asked also by a thread that holds only the parent's lock; pairs with the store in
        // `delete`.
        self.state_word().load(Ordering::Acquire) & DELETED != 0
    }

    /// Tells readers and threads that wait for the lock that the node has left the tree.
    pub fn delete(self) {
        let state = self.state_word().read_private();
        // Release: after the node's records are in another one and that is linked; pairs with the
        // loads of the state in `read.rs`.
        self.state_word().store(state | DELETED, Ordering::Release);
    }

    fn set_count(self, count: usize) {
        let state = self.state_word().read_private();
        // Release: pairs with the loads of the state in `read.rs`.
        self.state_word().store(state & !COUNT_MASK | count as u64, Ordering::Release);
    }

    /// A record.
    #[inline(always)]
    pub fn entry(self, slot: usize) -> (u64, u64) {
        (self.key(slot).read_private(), self.value(slot).read_private())
    }

    /// How many keys are less than `key`.
    #[inline(always)]
    pub fn position(self, key: u64, count: usize) -> usize {
        (0..count).find(|slot| self.key(*slot).read_private() >= key).unwrap_or(count)
    }

    /// A word for `value` that no record of the node has.
    #[inline(always)]
    pub fn fresh_word(self, value: u64, key: u64, count: usize) -> u64 {
        // Keys of a node are close to each other, so their low bits tell them apart best.
        if M::mutant("fast_fair.equal_words") {
            return value << NONCE_BITS | 1;
        }
        let mut word = value << NONCE_BITS | (1 + key % 255);
        while (0..count).any(|slot| self.value(slot).read_private() == word) {
            word = next_nonce(word);
        }
        word
    }
}

impl<S: NodeShape, M: Machine> Nodes<S, M> {
    /// Takes a node's lock, waiting for it; mends the node if nobody has since the pool was opened.
    pub fn lock(&self, node: Node<S, M>) -> Result<(), AllocError> {
        let mut attempt = 0;
        loop {
            // Relaxed: the exchange below orders.
            let word = node.lock_word().load(Ordering::Relaxed);
            let ours = word & GENERATION_MASK == self.generation || M::mutant("fast_fair.old_lock");
            if ours && word & (HELD | READERS_MASK) != 0 {
                M::spin(attempt);
                attempt += 1;
                continue;
            }
            let unread = if ours && word & UNREAD == 0 { 0 } else { UNREAD };
            let held = self.generation | HELD | unread;
            // Acquire: what the last holder stored; pairs with the release in `unlock`. Relaxed on
            // failure: we look again.
            if node
                .lock_word()
                .compare_exchange(word, held, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
            {
                if unread != 0
                    && let Err(error) = self.mend(node)
                {
                    self.unlock(node);
                    return Err(error);
                }
                return Ok(());
            }
        }
    }

    /// Whether a holder of its lock has read the node since the pool was opened. Nobody else is
    /// active.
    pub fn is_read(&self, node: Node<S, M>) -> bool {
        let word = node.lock_word().read_private();
        word & GENERATION_MASK == self.generation && word & UNREAD == 0
    }

    /// Gives a node's lock back.
    #[inline(always)]
    pub fn unlock(&self, node: Node<S, M>) {
        let word = node.lock_word().read_private() & !(HELD | MENDING);
        // Release: what we stored is seen by the next holder; pairs with the acquire in `lock`. A
        // locked instruction, so that what we stored is visible to all when the write returns. A drain
        // is not enough: it orders stores only, and a read that comes next could come before them.
        node.lock_word().swap(word, Ordering::Release);
    }

    /// Keeps writers out of a node; false if it first has to be read by a holder of the lock.
    pub fn lock_shared(&self, node: Node<S, M>) -> bool {
        let mut attempt = 0;
        loop {
            // Relaxed: the exchange below orders.
            let word = node.lock_word().load(Ordering::Relaxed);
            if word & GENERATION_MASK != self.generation || word & UNREAD != 0 {
                return false;
            }
            // Acquire: what the last writer stored; pairs with `unlock`. Relaxed: we look again.
            if word & HELD == 0
                && node
                    .lock_word()
                    .compare_exchange(word, word + READER, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            {
                return true;
            }
            M::spin(attempt);
            attempt += 1;
        }
    }

    /// Ends what [`Self::lock_shared`] began.
    pub fn unlock_shared(&self, node: Node<S, M>) {
        // Release: our reads are over; pairs with the acquire in `lock`.
        node.lock_word().fetch_sub(READER, Ordering::Release);
    }
}
