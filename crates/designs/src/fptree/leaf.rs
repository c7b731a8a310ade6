//! The leaf: its bytes, searching it, writing to it.

use everleaf_alloc::Session;
use everleaf_index::build::{Change, Effect};
use everleaf_index::{DesignInfo, Geometry, IndexError, Progress, Reads, Scans, Writes};
use everleaf_machine::{Atomic, FingerprintLine, Machine, Ordering};

use super::structure;
use crate::node::entry::{ENTRY_SIZE, Entry};
use crate::node::hybrid::Hybrid;
use crate::node::hybrid::leaf::{
    Applied, LeafDesign, LeafHeader, Pairs, TreeContext, read_by_version,
};
use crate::node::micro_log::Record;
use crate::node::version_lock::Retry;

/// Entries of a leaf.
const ENTRY_COUNT: usize = 64;

/// The leaf of FPTree.
#[derive(Clone, Copy, Debug, Default)]
pub struct FpLeaf;

/// See the module above.
#[repr(C, align(64))]
pub struct Leaf<M: Machine> {
    pub(super) header: LeafHeader<M>,
    bitmap: Atomic<u64, M>,
    unused: [Atomic<u64, M>; 4],
    fingerprints: FingerprintLine<M>,
    entries: [Entry<M>; ENTRY_COUNT],
}

const _: () = assert!(size_of::<Leaf<everleaf_machine::Hardware>>() == 1152);

/// One byte of a key's hash.
#[inline(always)]
fn fingerprint(key: u64) -> u8 {
    (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8
}

/// The slots of a bitmap, ascending.
#[inline(always)]
fn slots(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let slot = (bits != 0).then(|| bits.trailing_zeros() as usize);
        bits &= bits.wrapping_sub(1);
        slot
    })
}

impl<M: Machine> Leaf<M> {
    /// The named entries.
    #[inline(always)]
    pub(super) fn bitmap(&self) -> u64 {
        // Acquire: the entries it names; pairs with the release in `commit`.
        self.bitmap.load(Ordering::Acquire)
    }

    /// The slot of a key.
    #[inline(always)]
    fn find(&self, key: u64) -> Option<usize> {
        let named = self.bitmap();
        let candidates = named & self.fingerprints.matches(fingerprint(key));
        slots(candidates).find(|slot| self.entries[*slot].key() == key)
    }

    /// The value of a key.
    #[inline(always)]
    fn get(&self, _context: TreeContext<M>, key: u64) -> Option<u64> {
        self.find(key).map(|slot| self.entries[slot].value())
    }

    /// Appends up to `limit` pairs from `from` on, sorted.
    fn append(&self, _context: TreeContext<M>, from: u64, limit: usize, pairs: &mut Pairs) {
        let before = pairs.len();
        let all = slots(self.bitmap()).map(|slot| self.entries[slot].pair());
        pairs.extend(all.filter(|(key, _)| *key >= from));
        pairs[before..].sort_unstable();
        pairs.truncate(before.saturating_add(limit));
    }

    /// Makes another set of entries count, durably.
    #[inline(always)]
    pub(super) fn commit(&self, context: TreeContext<M>, bitmap: u64) {
        // Release: the entries it names; pairs with the acquire in `bitmap` and with recovery.
        self.bitmap.store(bitmap, Ordering::Release);
        if !M::mutant("fptree.no_bitmap_flush") {
            // Persist: the commit before the lock is opened, or a reader could see what a crash takes
            // back (H3).
            context.medium.persist(self.bitmap.as_ptr(), 8);
        }
    }

    /// The key in a slot. The caller holds the lock.
    pub(super) fn key(&self, slot: usize) -> u64 {
        self.entries[slot].key()
    }

    /// Makes a leaf that nobody has seen one with the same entries in the same slots, of which only
    /// those in `named` count.
    pub(super) fn copy_from(&self, other: &Leaf<M>, named: u64) {
        for slot in slots(named) {
            let (key, value) = other.entries[slot].pair();
            self.entries[slot].set(key, value);
            self.fingerprints.write_private(slot, fingerprint(key));
        }
        self.bitmap.write_private(named);
    }
}

/// Insert or update: three persists.
#[inline(always)]
fn put<M: Machine>(
    context: TreeContext<M>,
    leaf: &Leaf<M>,
    change: &Change,
    replaced: Option<usize>,
) -> bool {
    let named = leaf.bitmap();
    let slot = (!named).trailing_zeros() as usize;
    if slot >= context.capacity {
        return false;
    }
    leaf.entries[slot].set(change.key, change.value);
    if !M::mutant("fptree.no_entry_flush") {
        // Persist: the entry before the bitmap names it (F1).
        context.medium.persist(leaf.entries[slot].as_ptr(), ENTRY_SIZE);
    }
    // Relaxed: published by the bitmap.
    leaf.fingerprints.store(slot, fingerprint(change.key), Ordering::Relaxed);
    if !M::mutant("fptree.no_fingerprint_flush") {
        // Persist: the fingerprint before the bitmap names its entry, or a search would miss it (F1).
        context.medium.persist(leaf.fingerprints.as_ptr().wrapping_add(slot), 1);
    }
    let gone = replaced.map_or(0, |old| 1 << old);
    leaf.commit(context, (named | 1 << slot) & !gone);
    true
}

impl<M: Machine> LeafDesign<M> for FpLeaf {
    const INFO: DesignInfo = DesignInfo {
        name: "fptree",
        kind: 0x22,
        keys: 0..=u64::MAX,
        values: 0..=u64::MAX,
        progress: Progress::Blocking,
        reads: Reads::Committed,
        writes: Writes::Conditional,
        scans: Scans::BothWays,
    };
    const TAG: u64 = u64::from_le_bytes(*b"EVLFPTR1");
    const CAPACITY: usize = ENTRY_COUNT;
    const NEEDS_IMAGES: bool = false;
    /// Header and fingerprints, which say where the entry is.
    const LINES_AHEAD: usize = 2;

    read_by_version!();

    fn key_count(_context: TreeContext<M>, leaf: &Leaf<M>) -> usize {
        leaf.bitmap().count_ones() as usize
    }

    fn initialize(_context: TreeContext<M>, leaf: &Leaf<M>) {
        leaf.bitmap.write_private(0);
        for word in &leaf.unused {
            word.write_private(0);
        }
    }

    fn fill(_context: TreeContext<M>, leaf: &Leaf<M>, pairs: &[(u64, u64)]) {
        debug_assert!(pairs.is_empty(), "a split copies entries in their slots");
        leaf.bitmap.write_private(0);
    }

    #[inline(always)]
    fn apply(context: TreeContext<M>, leaf: &Leaf<M>, change: &Change) -> Applied {
        let found = leaf.find(change.key);
        let old = found.map(|slot| leaf.entries[slot].value());
        let (outcome, effect) = change.decide(old);
        match (effect, found) {
            (Effect::Put, _) if !put(context, leaf, change, found) => return Applied::Full,
            (Effect::Delete, Some(slot)) => leaf.commit(context, leaf.bitmap() & !(1 << slot)),
            _ => {}
        }
        Applied::Done(outcome)
    }

    fn make_room<G: Geometry>(
        tree: &Hybrid<Self, G, M>,
        session: &mut Session<M>,
        leaf: u64,
    ) -> Result<(), IndexError> {
        structure::split(tree, session, leaf)
    }

    #[inline(always)]
    fn drop_empty<G: Geometry>(
        tree: &Hybrid<Self, G, M>,
        session: &mut Session<M>,
        leaf: u64,
    ) -> bool {
        tree.leaf(leaf).bitmap() == 0 && structure::unlink(tree, session, leaf)
    }

    fn redo<G: Geometry>(tree: &Hybrid<Self, G, M>, record: Record) -> Result<(), String> {
        structure::finish(tree, record);
        Ok(())
    }

    fn repair(context: TreeContext<M>, leaf: &Leaf<M>) -> Result<(), String> {
        let used = 64 - leaf.bitmap().leading_zeros() as usize;
        if used > context.capacity {
            return Err(format!("the bitmap names slot {} of {}", used - 1, context.capacity));
        }
        Ok(())
    }

    fn check(_context: TreeContext<M>, leaf: &Leaf<M>, problems: &mut Vec<String>) {
        for slot in slots(leaf.bitmap()) {
            let key = leaf.entries[slot].key();
            if leaf.fingerprints.read_private(slot) != fingerprint(key) {
                problems.push(format!("the fingerprint of key {key} is that of another (F1)"));
            }
        }
    }
}
