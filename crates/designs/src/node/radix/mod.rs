//! A radix tree in the pool, over records whose first word is their key: what WORT is, and the search
//! layer of PACTree.
//!
//! ```text
//!   root, in a root object      | 2^B links |                           B bits of the key choose a link
//!   node, 8 + 2^B * 8 bytes | header | 2^B links |
//!
//!   header   | bits of all keys below, from the top | 1 | 0 .. 0 |
//!   link     | offset, a multiple of 16      | dirty 1 | leaf 0 |   0: empty
//! ```
//!
//! A node has in its header *all* bits of the keys below it that are above the bits that it branches on,
//! and a one behind them that says how many there are. So a header never changes, whatever is put above
//! the node or taken away there, and a change of the tree is one store of one link:
//!
//! - a record is added to an empty link;
//! - or in front of what is there: a new node, with that and the record below it;
//! - a record is removed: from a node with more than two links in use by an empty link; of two, by the
//!   other one in the place of their node.
//!
//! One writer at a time; readers take no lock. A link is stored *dirty*, made durable, and stored clean.
//! A thread that reads a dirty one makes it durable before going on, so nobody acts on what a crash takes
//! back. The clean store is not waited for: after a crash links may be dirty that are durable, until
//! [`RadixTree::mark`] cleans them.
//!
//! *Source*: Se Kwon Lee, K. Hyun Lim, Hyunsub Song, Beomseok Nam, Sam H. Noh, "WORT: Write Optimal Radix
//! Tree for Persistent Memory Storage Systems", FAST 2017. *Departures*: there a header has the depth of
//! its node and up to six bytes of the prefix. A longer one is compared with a leaf below; when a node
//! gets a new parent its header is shortened by a second store, and a crash in between is found out by
//! the depth. Nodes are never taken away there.
//!
//! Invariants:
//! - R1 what a link refers to is durable before the link is stored;
//! - R2 a node never changes but for its links, and has the same header for life;
//! - R3 a node has at least two links in use, in every crash image: one store takes both the record and
//!   the node that it leaves with one link;
//! - R4 a node that left the tree keeps its links: a reader that is in it finds all that stayed, and
//!   what was removed while it was reading;
//! - R5 a clean link is durable;
//! - R6 a change is seen by all when its call returns: it does not wait in a store buffer.

mod mark;
mod read;
mod write;

use everleaf_alloc::Session;
use everleaf_index::{PoolBase, ROOT_OBJECT_WORDS, RootObject};
use everleaf_machine::{Atomic, Machine, Ordering, SpinLock};
use everleaf_pool::Medium;

/// A link or a value with this bit is not known to be durable.
const DIRTY: u64 = 2;
/// A link with this bit refers to a record.
const LEAF: u64 = 1;

/// The links of a node.
type Links<M> = [Atomic<u64, M>];

/// What a link says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Link {
    /// Nothing is there.
    Empty,
    /// A record.
    Leaf(u64),
    /// A node.
    Node(u64),
}

impl Link {
    #[inline(always)]
    fn of(word: u64) -> Self {
        let offset = word & !(DIRTY | LEAF);
        match (offset, word & LEAF) {
            (0, _) => Link::Empty,
            (_, 0) => Link::Node(offset),
            _ => Link::Leaf(offset),
        }
    }

    fn word(self) -> u64 {
        match self {
            Link::Empty => 0,
            Link::Leaf(offset) => offset | LEAF,
            Link::Node(offset) => offset,
        }
    }
}

/// The bits that all keys below a node share, and how many they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header(pub(super) u64);

impl Header {
    /// Of a node for `key` that branches behind the first `at` bits, `at < 64`.
    pub(super) fn new(key: u64, at: u32) -> Self {
        Header(key & !(u64::MAX >> at) | 1 << (63 - at))
    }

    /// The bits before those that the node branches on.
    #[inline(always)]
    pub(super) fn at(self) -> u32 {
        63 - (self.0 | 1 << 63).trailing_zeros()
    }

    /// How the keys below the node compare with `key`; equal if it may be one of them.
    #[inline(always)]
    pub(super) fn compare(self, key: u64) -> std::cmp::Ordering {
        let rest = u64::MAX >> self.at();
        (self.0 | rest).cmp(&(key | rest))
    }

    /// Whether `key` may be below the node.
    #[inline(always)]
    pub(super) fn covers(self, key: u64) -> bool {
        self.compare(key).is_eq()
    }
}

/// A tree whose nodes branch on `BITS` bits, on machine `M`.
pub struct RadixTree<const BITS: u32, M: Machine> {
    root_object: RootObject<M>,
    root_word: usize,
    base: PoolBase<M>,
    medium: Medium<M>,
    is_writable: bool,
    /// Held by the thread that changes the tree.
    pub lock: SpinLock<(), M>,
}

// SAFETY: `base` is the pool's mapping, which the heap of the tree's owner keeps; all its words are
// atomic.
unsafe impl<const BITS: u32, M: Machine> Send for RadixTree<BITS, M> {}
// SAFETY: as for `Send`.
unsafe impl<const BITS: u32, M: Machine> Sync for RadixTree<BITS, M> {}

impl<const BITS: u32, M: Machine> RadixTree<BITS, M> {
    /// Links of a node.
    const FANOUT: usize = 1 << BITS;
    /// Bytes of a node.
    const NODE_SIZE: usize = 8 + Self::FANOUT * 8;
    const FITS: () = assert!(64 % BITS == 0 && Self::FANOUT < ROOT_OBJECT_WORDS);

    /// The tree whose root is in a root object, from word `root_word` on. New root objects have an empty one.
    ///
    /// # Panics
    /// If the root object has no room for it there.
    pub fn new(session: &Session<M>, root_object: RootObject<M>, root_word: usize) -> Self {
        let () = Self::FITS;
        assert!(root_word + Self::FANOUT <= ROOT_OBJECT_WORDS, "a root has so many links");
        RadixTree {
            root_object,
            root_word,
            base: PoolBase::of(session.heap()),
            medium: session.medium(),
            is_writable: !session.heap().pool().is_read_only(),
            lock: SpinLock::new(()),
        }
    }

    /// The bits of a key that a node branches on.
    #[inline(always)]
    fn chunk(key: u64, at: u32) -> usize {
        (key << at >> (64 - BITS)) as usize
    }

    #[inline(always)]
    fn word(&self, offset: u64) -> &Atomic<u64, M> {
        let start = self.base.start().wrapping_add(offset as usize).cast();
        // SAFETY: offsets come from links that the tree has stored or `mark` has checked, and from the
        // allocator: inside a record of the pool, aligned; a record that was reclaimed meanwhile is
        // still memory of the pool. An atomic word is valid whatever its bits are.
        unsafe { &*start }
    }

    /// The key of a record.
    #[inline(always)]
    pub fn key(&self, leaf: u64) -> u64 {
        // Relaxed: written before the link to it was stored, and never again.
        self.word(leaf).load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn root(&self) -> &Links<M> {
        // SAFETY: the words of the root object follow each other, and it has so many (checked in `new`).
        unsafe { std::slice::from_raw_parts(self.root_object.word(self.root_word), Self::FANOUT) }
    }

    #[inline(always)]
    fn header(&self, node: u64) -> Header {
        // Relaxed: written before the link to the node was stored, and never again (R2).
        Header(self.word(node).load(Ordering::Relaxed))
    }

    #[inline(always)]
    fn links(&self, node: u64) -> &Links<M> {
        // SAFETY: as in `word`: a node is a record of so many words behind its header.
        unsafe { std::slice::from_raw_parts(self.word(node + 8), Self::FANOUT) }
    }

    /// What a link says, durably.
    #[inline(always)]
    fn load(&self, link: &Atomic<u64, M>) -> Link {
        // Acquire: what it refers to; pairs with the release in `publish`.
        let word = link.load(Ordering::Acquire);
        if word & DIRTY != 0 && !M::mutant("radix.reads_dirty") {
            self.help_persist(link);
        }
        Link::of(word)
    }

    /// Makes a link durable that another thread is about to.
    #[cold]
    fn help_persist(&self, link: &Atomic<u64, M>) {
        M::mark("radix.help_persist");
        // Persist: the link before the reader acts on it (R5). It stays dirty: a thread that cleaned it here
        // could clean the next one of the same bits.
        self.medium.persist(link.as_ptr(), 8);
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering::{Equal, Greater, Less};

    use super::*;

    #[test]
    fn a_header_knows_its_bits_and_where_they_end() {
        for at in (0..64).step_by(4) {
            let header = Header::new(0x1234_5678_9ABC_DEF0, at);
            assert_eq!(header.at(), at);
            assert!(header.covers(0x1234_5678_9ABC_DEF0));
            let other = 0x1234_5678_9ABC_DEF0 ^ (1 << 63 >> at);
            assert!(header.covers(other), "the first bit behind is free");
            if at > 0 {
                assert!(!header.covers(0x1234_5678_9ABC_DEF0 ^ (1 << 63 >> (at - 1))));
            }
        }
        let header = Header::new(0x5000, 60);
        assert_eq!(
            [0x4FFF, 0x5000, 0x500F, 0x5010].map(|key| header.compare(key)),
            [Greater, Equal, Equal, Less]
        );
        assert_eq!(Header(0).at(), 0, "also what nobody wrote has an end");
    }

    #[test]
    fn links_keep_what_they_refer_to() {
        for link in [Link::Empty, Link::Leaf(64), Link::Node(128)] {
            assert_eq!(Link::of(link.word()), link);
            assert_eq!(Link::of(link.word() | DIRTY), link);
        }
    }
}
