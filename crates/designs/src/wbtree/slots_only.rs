//! The leaf with a slot word only: seven entries, two persists a write.

use everleaf_index::build::{Change, Effect};
use everleaf_index::{DesignInfo, Progress, Reads, Scans, Writes};
use everleaf_machine::{Atomic, Machine, Ordering};

use crate::node::entry::{ENTRY_SIZE, Entry};
use crate::node::hybrid::leaf::{
    Applied, LeafDesign, LeafHeader, Pairs, TreeContext, read_by_version,
};
use crate::node::slots::{BYTE_WORD_COUNT, BYTE_WORD_STEPS, Slots};
use crate::node::version_lock::Retry;

/// The leaf of wB+Tree-SO.
#[derive(Clone, Copy, Debug, Default)]
pub struct SoLeaf;

/// See the module above.
#[repr(C, align(64))]
pub struct Leaf<M: Machine> {
    header: LeafHeader<M>,
    /// The slot array as a word of bytes.
    slots: Atomic<u64, M>,
    unused: [Atomic<u64, M>; 4],
    entries: [Entry<M>; BYTE_WORD_COUNT],
}

const _: () = assert!(size_of::<Leaf<everleaf_machine::Hardware>>() == 192);

impl<M: Machine> Leaf<M> {
    #[inline(always)]
    fn slots(&self) -> Slots<1> {
        // Acquire: the entries it names; pairs with the release in `commit`.
        Slots::from_byte_word(self.slots.load(Ordering::Acquire))
    }

    /// Makes another slot array count, durably.
    #[inline(always)]
    fn commit(&self, context: TreeContext<M>, slots: Slots<1>) {
        // Release: the entries it names; pairs with the acquire in `slots` and with recovery.
        self.slots.store(slots.to_byte_word(), Ordering::Release);
        if !M::mutant("wbtree.no_word_flush") {
            // Persist: the commit before the lock is opened (H3).
            context.medium.persist(self.slots.as_ptr(), 8);
        }
    }

    /// The value of a key.
    #[inline(always)]
    fn get(&self, _context: TreeContext<M>, key: u64) -> Option<u64> {
        let found = self.slots().find::<M, BYTE_WORD_STEPS>(key, |slot| self.entry(slot).key());
        found.ok().map(|(_, slot)| self.entry(slot).value())
    }

    /// Appends up to `limit` pairs from `from` on.
    #[inline(always)]
    fn append(&self, _context: TreeContext<M>, from: u64, limit: usize, pairs: &mut Pairs) {
        let slots = self.slots();
        let all = slots.as_slice().iter().map(|slot| self.entry(usize::from(*slot)).pair());
        pairs.extend(all.skip_while(|(key, _)| *key < from).take(limit));
    }

    #[inline(always)]
    fn entry(&self, slot: usize) -> &Entry<M> {
        // A slot is at most 6 but in a damaged word, which recovery refuses.
        &self.entries[slot.min(BYTE_WORD_COUNT - 1)]
    }
}

impl<M: Machine> LeafDesign<M> for SoLeaf {
    const INFO: DesignInfo = DesignInfo {
        name: "wbtree-so",
        kind: 0x24,
        keys: 0..=u64::MAX,
        values: 0..=u64::MAX,
        progress: Progress::Blocking,
        reads: Reads::Committed,
        writes: Writes::Conditional,
        scans: Scans::BothWays,
    };
    const TAG: u64 = u64::from_le_bytes(*b"EVLWBSO1");
    const CAPACITY: usize = BYTE_WORD_COUNT;
    const NEEDS_IMAGES: bool = true;

    read_by_version!();

    fn key_count(_context: TreeContext<M>, leaf: &Leaf<M>) -> usize {
        leaf.slots().count()
    }

    fn initialize(_context: TreeContext<M>, leaf: &Leaf<M>) {
        leaf.slots.write_private(0);
        for word in &leaf.unused {
            word.write_private(0);
        }
    }

    fn fill(_context: TreeContext<M>, leaf: &Leaf<M>, pairs: &[(u64, u64)]) {
        for (entry, (key, value)) in leaf.entries.iter().zip(pairs) {
            entry.set(*key, *value);
        }
        // Release: as in `commit`; the caller makes the whole leaf durable.
        leaf.slots.store(Slots::identity(pairs.len()).to_byte_word(), Ordering::Release);
    }

    #[inline(always)]
    fn apply(context: TreeContext<M>, leaf: &Leaf<M>, change: &Change) -> Applied {
        let mut slots = leaf.slots();
        let found = slots.find::<M, BYTE_WORD_STEPS>(change.key, |slot| leaf.entry(slot).key());
        let old = found.ok().map(|(_, slot)| leaf.entry(slot).value());
        let (outcome, effect) = change.decide(old);
        match (effect, found) {
            (Effect::None, _) | (Effect::Delete, Err(_)) => return Applied::Done(outcome),
            (Effect::Delete, Ok((place, _))) => slots.remove(place),
            (Effect::Put, _) => {
                let Some(slot) = slots.free_slot(context.capacity) else { return Applied::Full };
                leaf.entries[slot].set(change.key, change.value);
                if !M::mutant("wbtree.no_entry_flush") {
                    // Persist: the entry before the slot word names it (W2).
                    context.medium.persist(leaf.entries[slot].as_ptr(), ENTRY_SIZE);
                }
                match found {
                    Ok((place, _)) => slots.replace(place, slot),
                    Err(place) => slots.insert(place, slot),
                }
            }
        }
        leaf.commit(context, slots);
        Applied::Done(outcome)
    }

    fn repair(context: TreeContext<M>, leaf: &Leaf<M>) -> Result<(), String> {
        let slots = leaf.slots();
        let whole = slots.to_byte_word() == leaf.slots.read_private();
        if whole && slots.is_valid(context.capacity) {
            Ok(())
        } else {
            Err("a slot word names an entry twice, or one that is not there".into())
        }
    }

    fn check(context: TreeContext<M>, leaf: &Leaf<M>, problems: &mut Vec<String>) {
        if !leaf.slots().is_valid(context.capacity) {
            problems.push(format!("slots {:?} are not valid", leaf.slots()));
        }
    }
}
