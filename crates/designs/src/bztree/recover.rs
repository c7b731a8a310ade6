//! A new tree, and recovery: what was under way is finished or taken back, word by word.
//!
//! There is no log and no list of changes. A crash leaves words that lead to descriptors, and each of them says
//! what the word was or is; frozen nodes, which become active; and reserved pairs, which nobody will write any
//! more. New nodes that no link leads to are free, because nobody marks them.

use everleaf_alloc::{AllocError, Recovery, Session};
use everleaf_index::build::Tally;
use everleaf_index::{IndexError, PoolBase, RootObject};
use everleaf_machine::{Atomic, Machine, Ordering};

use super::BzTree;
use super::layout::{
    DESCRIPTORS_WORD, LEAF, ROOT_WORD, SHAPE, SORTED_MASK, TAG, VARIANT_WORD, meta_at,
};
use super::state::{FREE, GONE, RESERVED, Status, VISIBLE};
use super::variant::{SLOT_COUNT_MAX, Variant};
use crate::node::pmwcas::Pmwcas;

/// The most levels that a tree can have: more are a cycle.
const LEVEL_COUNT_MAX: usize = 64;

/// What a walk does with words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Walk {
    /// Reads them, and marks nodes.
    Mark,
    /// Stores what they are after a crash.
    Mend,
}

/// What a walk has seen.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    pub keys: u64,
    pub leaves: u64,
}

/// A subtree: where it begins, how high it is at most, and the keys it is for.
#[derive(Clone, Copy, Debug)]
struct Subtree {
    node: u64,
    levels: usize,
    low: u64,
    high: Option<u64>,
}

fn corrupt(offset: u64, what: String) -> AllocError {
    AllocError::Corrupt { offset, what }
}

impl<V: Variant, M: Machine> BzTree<V, M> {
    fn assemble(session: &Session<M>, root_object: RootObject<M>, words: Pmwcas<M>) -> Self {
        const { assert!(V::SLOT_COUNT >= 2 && V::SLOT_COUNT <= SLOT_COUNT_MAX) };
        const { assert!(V::CHILD_COUNT >= 3) };
        let heap = session.heap().clone();
        let base = PoolBase::of(&heap);
        let root_place = root_object.word(ROOT_WORD).as_ptr().addr() - base.start().addr();
        BzTree {
            base,
            medium: heap.medium(),
            root_object,
            root_place: root_place as u64,
            is_writable: !heap.pool().is_read_only(),
            keys: Tally::new(0),
            words,
            has_left_frozen: Atomic::new(0),
            variant: std::marker::PhantomData,
            _heap: heap,
        }
    }

    pub(super) fn create_in(session: &mut Session<M>) -> Result<Self, IndexError> {
        let root_object = RootObject::create(session, TAG)?;
        let created = Self::create_words(session).and_then(|words| {
            let tree = Self::assemble(session, root_object, words);
            match session.allocate_record(Self::NODE_SIZE) {
                Ok(root) => Ok((tree, root)),
                Err(error) => {
                    tree.words.free(session);
                    Err(error)
                }
            }
        });
        let (tree, root) = match created {
            Ok(created) => created,
            Err(error) => {
                root_object.free(session);
                return Err(error.into());
            }
        };
        tree.write_node(root, true, &[]);
        // Persist: the root before the root object names it.
        tree.medium.persist(tree.word(root).as_ptr(), Self::NODE_SIZE);
        root_object.word(VARIANT_WORD).write_private(u64::from(V::KIND));
        root_object.word(ROOT_WORD).write_private(root);
        root_object.word(DESCRIPTORS_WORD).write_private(tree.words.offset());
        // Persist: the root object before the directory names the tree.
        tree.medium.persist(root_object.word(0).as_ptr(), 32);
        Ok(tree)
    }

    fn create_words(session: &mut Session<M>) -> Result<Pmwcas<M>, AllocError> {
        let offset = Pmwcas::create(session, V::DESCRIPTOR_COUNT, V::ENTRY_WORDS)?;
        Ok(Pmwcas::at(session, offset, V::DESCRIPTOR_COUNT, V::ENTRY_WORDS))
    }

    pub(super) fn open_in(
        session: &mut Session<M>,
        recovery: &Recovery<M>,
        root: u32,
    ) -> Result<Self, IndexError> {
        let root_object = RootObject::open(session.heap(), recovery, root, TAG)?;
        let found = root_object.word(VARIANT_WORD).read_private();
        if found != u64::from(V::KIND) {
            let what =
                format!("a tree is of variant {found}, and this is {} ({})", V::NAME, V::KIND);
            return Err(corrupt(0, what).into());
        }
        let offset = root_object.word(DESCRIPTORS_WORD).read_private();
        let words = Pmwcas::at(session, offset, V::DESCRIPTOR_COUNT, V::ENTRY_WORDS);
        words.mark(recovery)?;
        let tree = Self::assemble(session, root_object, words);
        // To the end before anything is changed: a damaged link may lead into another tree.
        let seen = tree.walk(recovery, Walk::Mark)?;
        if tree.is_writable {
            tree.walk(recovery, Walk::Mend)?;
            // Persist: what was mended before a descriptor has another life (W5).
            tree.medium.drain();
        }
        tree.keys.add(0, seen.keys as i64);
        Ok(tree)
    }

    /// Walks all nodes while nobody else is active.
    pub(super) fn walk(&self, used: &Recovery<M>, walk: Walk) -> Result<Seen, AllocError> {
        let mut seen = Seen::default();
        let node = self.resolve(self.root_place, walk, |root| root)?;
        let levels = LEVEL_COUNT_MAX;
        self.walk_node(used, walk, Subtree { node, levels, low: 0, high: None }, &mut seen)?;
        Ok(seen)
    }

    /// The value that a word has after a crash: first what its descriptor says, then what `mend` makes of it.
    fn resolve(
        &self,
        place: u64,
        walk: Walk,
        mend: impl Fn(u64) -> u64,
    ) -> Result<u64, AllocError> {
        let word = self.word(place).read_private();
        let value = mend(self.words.resolved(place, word)?);
        if walk == Walk::Mend && value != word {
            M::mark("bztree.mend");
            // Relaxed: nobody else is active.
            self.word(place).store(value, Ordering::Relaxed);
            // Persist: by the drain at the end of recovery.
            self.medium.flush(self.word(place).as_ptr(), 8);
        }
        Ok(value)
    }

    fn walk_node(
        &self,
        used: &Recovery<M>,
        walk: Walk,
        part: Subtree,
        seen: &mut Seen,
    ) -> Result<(), AllocError> {
        let node = part.node;
        if walk == Walk::Mark {
            let room = used.record_room(node).unwrap_or(0);
            if room < Self::NODE_SIZE || part.levels == 0 {
                let what = format!("no node of a tree can be here: {room} bytes");
                return Err(corrupt(node, what));
            }
            used.mark_record(node, Self::NODE_SIZE)?;
        }
        let shape = self.word(node + SHAPE).read_private();
        let (is_leaf, sorted) = (shape & LEAF != 0, (shape & SORTED_MASK) as usize);
        let most = if is_leaf { V::SLOT_COUNT } else { V::CHILD_COUNT };
        let status = self.resolve(node, walk, |status| Status(status).active().0)?;
        let count = Status(status).count();
        if count > most || sorted > count || !is_leaf && (sorted != count || count == 0) {
            let what = format!("a node of {count} pairs, {sorted} of them sorted, cannot be one");
            return Err(corrupt(node, what));
        }
        if is_leaf {
            seen.leaves += 1;
            return self.walk_leaf(walk, part, (sorted, count), seen);
        }
        for index in 0..count {
            let child = self.resolve(Self::child_at(node, index), walk, |child| child)?;
            let bound = |index| self.private_key(node, false, index);
            let low = if index == 0 { part.low } else { bound(index) };
            let high = if index + 1 < count { Some(bound(index + 1)) } else { part.high };
            if low < part.low || high.is_some_and(|high| high <= low) {
                return Err(corrupt(node, format!("child {index} is for no keys from {low} on")));
            }
            let levels = part.levels - 1;
            self.walk_node(used, walk, Subtree { node: child, levels, low, high }, seen)?;
        }
        Ok(())
    }

    fn private_key(&self, node: u64, is_leaf: bool, slot: usize) -> u64 {
        self.word(node + Self::pairs_of(is_leaf) + 16 * slot as u64).read_private()
    }

    fn walk_leaf(
        &self,
        walk: Walk,
        part: Subtree,
        (sorted, count): (usize, usize),
        seen: &mut Seen,
    ) -> Result<(), AllocError> {
        let leaf = part.node;
        let mut keys = Vec::with_capacity(count);
        for slot in 0..V::SLOT_COUNT {
            let keeps = M::mutant("bztree.keeps_reserved");
            let mend = |meta| if meta == RESERVED && !keeps { GONE } else { meta };
            let meta = self.resolve(leaf + meta_at(slot), walk, mend)?;
            if meta > GONE || (meta == FREE) != (slot >= count) {
                let what = format!("pair {slot} of {count} has metadata {meta:#x}");
                return Err(corrupt(leaf, what));
            }
            if slot < sorted || meta == VISIBLE {
                let key = self.private_key(leaf, true, slot);
                let is_out = key < part.low || part.high.is_some_and(|high| key >= high);
                let is_unsorted = keys.last().is_some_and(|last| slot < sorted && key <= *last);
                if is_out || is_unsorted {
                    return Err(corrupt(leaf, format!("key {key} is at the wrong place")));
                }
                keys.push(key);
            }
            if meta == VISIBLE {
                seen.keys += 1;
                self.resolve(Self::value_at(leaf, slot), walk, |value| value)?;
            } else if slot < sorted {
                // Its key is in its place all the same; the sorted ones are judged with it.
                self.resolve(Self::value_at(leaf, slot), walk, |value| value)?;
            }
        }
        Ok(())
    }

    /// Gives everything back; nobody can reach the tree any more.
    pub(super) fn free_everything(&self, session: &mut Session<M>) {
        self.free_from(session, self.root(0));
        self.words.free(session);
        self.root_object.free(session);
    }

    fn free_from(&self, session: &mut Session<M>, node: u64) {
        if !self.shape(node).0 {
            for (_, child) in self.children(0, node) {
                self.free_from(session, child);
            }
        }
        session.free_record(node, Self::NODE_SIZE);
    }
}
