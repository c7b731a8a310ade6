//! The states of a node: which thread brings it there, and what others do about it. And its words.
//!
//! ```text
//!        link on level 0            links above
//!   NEW ----------------> LINKED ----------------> LINKED_UP
//!                            |                         |
//!                            | dead value              | dead value
//!                            v                         v          marks, unlinked
//!                           DEAD --------------------> DEAD ----------------------> retired
//!                                 the linker is done
//! ```
//!
//! | state | where it is | others |
//! |---|---|---|
//! | LINKED, dirty | bit 1 of the link in front | make the link durable before they go on |
//! | value dirty | bit 63 of the value | readers make it durable, writers wait |
//! | value dead | all other bits of the value | find no key; a thread that wants to insert it helps with the marks |
//! | marked | bit 0 of each of its links | do not stand on it; writers unlink it |
//! | LINKED_UP, DEAD | bits 9 and 8 behind the key | the thread that sets the second one of the two retires it |
//!
//! A tall node, in variants with caching or buffers, is never DEAD: its dead value may be replaced. With buffers a node
//! is linked or not, and a tall one may have the dead value; all that changes changes under its partition's lock.

use everleaf_machine::{Atomic, Machine, Ordering};

use super::PSkiplist;
use super::layout::{
    DIRTY_VALUE, FLUSHED_SHIFT, HEIGHT_MASK, KEY, Link, STATE, VALUE, is_tall, link_at, number_at,
};
use super::variant::Variant;

impl<V: Variant, M: Machine> PSkiplist<V, M> {
    /// A word of a node, or of the head.
    #[inline(always)]
    fn word(&self, offset: u64) -> &Atomic<u64, M> {
        let start = self.base.start().wrapping_add(offset as usize).cast();
        // SAFETY: offsets come from the root object, from links that recovery has checked or the running list
        // has stored, and from the allocator: inside a record of the pool, aligned. One that was reclaimed
        // meanwhile is still memory of the pool; an atomic word is valid whatever its bits are.
        unsafe { &*start }
    }

    /// The link of a node on a level that it has.
    #[inline(always)]
    pub(super) fn link(&self, node: u64, level: usize) -> &Atomic<u64, M> {
        self.word(node + link_at(level))
    }

    /// The word of a node's value.
    #[inline(always)]
    pub(super) fn value(&self, node: u64) -> &Atomic<u64, M> {
        self.word(node + VALUE)
    }

    /// The word of a node's height and states.
    #[inline(always)]
    pub(super) fn state(&self, node: u64) -> &Atomic<u64, M> {
        self.word(node + STATE)
    }

    /// The key of a node that is not the head.
    #[inline(always)]
    pub(super) fn key(&self, node: u64) -> u64 {
        // Relaxed: written before any link led to the node, and never again.
        self.word(node + KEY).load(Ordering::Relaxed)
    }

    /// Stores the key of a node that nobody else has seen.
    pub(super) fn set_key(&self, node: u64, key: u64) {
        self.word(node + KEY).write_private(key);
    }

    /// The levels of a node.
    #[inline(always)]
    pub(super) fn height(&self, node: u64) -> usize {
        // Relaxed: as the key.
        (self.state(node).load(Ordering::Relaxed) & HEIGHT_MASK) as usize
    }

    /// Whether a node that is not the head begins a partition, and stays.
    #[inline(always)]
    pub(super) fn is_tall(&self, node: u64) -> bool {
        (V::BUFFERED || V::CACHED) && is_tall::<V>(self.height(node))
    }

    /// The word of the number of a tall node's partition.
    pub(super) fn number_word(&self, node: u64) -> &Atomic<u64, M> {
        self.word(node + number_at(self.height(node)))
    }

    /// The number of the last buffered write that the partition of a tall node, or of the head, has. The caller
    /// holds its lock.
    pub(super) fn flushed(&self, node: u64) -> u64 {
        // Relaxed: only holders of the lock look at it.
        self.state(node).load(Ordering::Relaxed) >> FLUSHED_SHIFT
    }

    /// The link of a node on a level that it has, durable or not.
    #[inline(always)]
    pub(super) fn load(&self, node: u64, level: usize) -> Link {
        // Acquire: the node it leads to; pairs with the release of the exchanges in `write.rs`.
        Link(self.link(node, level).load(Ordering::Acquire))
    }

    /// As [`Self::load`], to go on from: durable, if it has to be.
    #[inline(always)]
    pub(super) fn follow(&self, node: u64, level: usize) -> Link {
        let link = self.load(node, level);
        if level == 0 && link.is_dirty() && !M::mutant("skiplist.follows_dirty") {
            self.help_persist(node, link);
        }
        link
    }

    /// Makes the dirty link on level 0 of a node durable.
    #[cold]
    pub(super) fn help_persist(&self, node: u64, link: Link) {
        M::mark("skiplist.help_persist");
        // Persist: the link before anybody acts on what it leads to (K2).
        self.medium.persist(self.link(node, 0).as_ptr(), 8);
        if self.is_writable {
            self.clean(node, link);
        }
    }

    /// Says that a link on level 0 is durable, unless it has changed: then somebody else will.
    #[inline(always)]
    pub(super) fn clean(&self, node: u64, link: Link) {
        if link.is_dirty() {
            let (word, clean) = (self.link(node, 0), link.0 & !Link::DIRTY);
            // AcqRel: as any exchange of a link. Relaxed on failure: nothing is read.
            let _ = word.compare_exchange(link.0, clean, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// The word of a node's value, durably.
    #[inline(always)]
    pub(super) fn read_word(&self, node: u64) -> u64 {
        // Acquire: for the caller, which may act on the value; pairs with the release in `exchange`.
        let word = self.value(node).load(Ordering::Acquire);
        if word & DIRTY_VALUE != 0 && !M::mutant("skiplist.reads_dirty") {
            M::mark("skiplist.persist_value");
            // Persist: the value before the reader acts on it (K4).
            self.medium.persist(self.value(node).as_ptr(), 8);
        }
        word
    }
}
