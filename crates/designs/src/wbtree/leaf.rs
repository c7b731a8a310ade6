//! The leaf with bitmap and slot array.

use everleaf_index::build::{Change, Effect};
use everleaf_index::{DesignInfo, Progress, Reads, Scans, Writes};
use everleaf_machine::{Atomic, LINE_SIZE, Machine, Ordering};

use crate::node::entry::{ENTRY_SIZE, Entries, Entry};
use crate::node::hybrid::leaf::{
    Applied, LeafDesign, LeafHeader, Pairs, TreeContext, read_by_version,
};
use crate::node::slot_pair::SlotLine;
use crate::node::slots::{LINE_STEPS, SLOT_COUNT_MAX, Slots};
use crate::node::version_lock::Retry;

/// The bit of the bitmap that says that the slot array may be believed.
const VALID: u64 = 1 << 63;

/// The leaf of wB+Tree.
#[derive(Clone, Copy, Debug, Default)]
pub struct WbLeaf;

/// See the module above.
#[repr(C, align(64))]
pub struct Leaf<M: Machine> {
    header: LeafHeader<M>,
    /// Entries in use, and [`VALID`].
    bitmap: Atomic<u64, M>,
    unused: [Atomic<u64, M>; 4],
    slots: SlotLine<M>,
    entries: Entries<M>,
}

const _: () = assert!(size_of::<Leaf<everleaf_machine::Hardware>>() == 1152);

impl<M: Machine> Leaf<M> {
    #[inline(always)]
    fn bitmap(&self) -> u64 {
        // Acquire: slots and entries; pairs with the release in `set_bitmap`.
        self.bitmap.load(Ordering::Acquire)
    }

    #[inline(always)]
    #[track_caller]
    fn set_bitmap(&self, context: TreeContext<M>, bitmap: u64) {
        // Release: slots and entries before the word that names them; recovery's view too.
        self.bitmap.store(bitmap, Ordering::Release);
        if !M::mutant("wbtree.no_bitmap_flush") {
            // Persist: as its callers say.
            context.medium.persist(self.bitmap.as_ptr(), 8);
        }
    }

    #[inline(always)]
    fn entry(&self, slot: usize) -> &Entry<M> {
        self.entries.at(slot)
    }

    /// The sorted entries: the slot array, or, if it may not be believed, the bitmap's in order.
    #[inline(always)]
    fn sorted(&self) -> Slots<1> {
        let bitmap = self.bitmap();
        if bitmap & VALID != 0 { self.slots.read() } else { self.sort(bitmap) }
    }

    /// The value of a key.
    #[inline(always)]
    fn get(&self, _context: TreeContext<M>, key: u64) -> Option<u64> {
        if let Some(same) = self.entries.with_key(key) {
            // The bitmap says what counts, also while the slot array may not be believed.
            let named = self.bitmap() & !VALID;
            let live = if M::mutant("wbtree.trusts_entries") { same } else { same & named };
            return (live != 0).then(|| self.entry(live.trailing_zeros() as usize).value());
        }
        let found = self.sorted().find::<M, LINE_STEPS>(key, |slot| self.entry(slot).key());
        found.ok().map(|(_, slot)| self.entry(slot).value())
    }

    /// Appends up to `limit` pairs from `from` on.
    #[inline(always)]
    fn append(&self, _context: TreeContext<M>, from: u64, limit: usize, pairs: &mut Pairs) {
        let slots = self.sorted();
        let start = if from == 0 {
            0
        } else {
            slots.rank::<M, LINE_STEPS>(from, |slot| self.entry(slot).key())
        };
        let named = slots.as_slice()[start..].iter().take(limit);
        pairs.extend(named.map(|slot| self.entry(usize::from(*slot)).pair()));
    }

    #[cold]
    fn sort(&self, bitmap: u64) -> Slots<1> {
        let mut slots = Slots::<1>::default();
        for slot in (0..SLOT_COUNT_MAX).filter(|slot| bitmap >> slot & 1 == 1) {
            let place =
                slots.rank::<M, LINE_STEPS>(self.entry(slot).key(), |slot| self.entry(slot).key());
            slots.insert(place, slot);
        }
        slots
    }

    /// Steps 2 to 4 of a write: the slot array, and the entries it names, become these.
    #[inline(always)]
    fn replace_slots(&self, context: TreeContext<M>, slots: &Slots<1>, bitmap: u64) {
        if !M::mutant("wbtree.keep_valid") {
            // Persist: the array is not to be believed, before it changes, or recovery would take a
            // torn one for whole (W1).
            self.set_bitmap(context, self.bitmap() & !VALID);
        }
        self.slots.store(slots);
        if !M::mutant("wbtree.no_slot_flush") {
            // Persist: the array before it is to be believed again (W1).
            context.medium.persist(self.slots.as_ptr(), LINE_SIZE);
        }
        // Persist: the commit, before the lock is opened (H3).
        self.set_bitmap(context, bitmap | VALID);
    }
}

/// Insert or update; false if there is no room.
#[inline(always)]
fn put<M: Machine>(
    context: TreeContext<M>,
    leaf: &Leaf<M>,
    mut slots: Slots<1>,
    change: &Change,
    found: Result<(usize, usize), usize>,
) -> bool {
    let bitmap = leaf.bitmap();
    let slot = (!bitmap).trailing_zeros() as usize;
    if slot >= context.capacity {
        return false;
    }
    leaf.entry(slot).set(change.key, change.value);
    if !M::mutant("wbtree.no_entry_flush") {
        // Persist: the entry before the bitmap names it (W2).
        context.medium.persist(leaf.entry(slot).as_ptr(), ENTRY_SIZE);
    }
    let gone = match found {
        Ok((place, old)) => {
            slots.replace(place, slot);
            1 << old
        }
        Err(place) => {
            slots.insert(place, slot);
            0
        }
    };
    leaf.replace_slots(context, &slots, (bitmap | 1 << slot) & !gone);
    true
}

impl<M: Machine> LeafDesign<M> for WbLeaf {
    const INFO: DesignInfo = DesignInfo {
        name: "wbtree",
        kind: 0x23,
        keys: 0..=u64::MAX,
        values: 0..=u64::MAX,
        progress: Progress::Blocking,
        reads: Reads::Committed,
        writes: Writes::Conditional,
        scans: Scans::BothWays,
    };
    const TAG: u64 = u64::from_le_bytes(*b"EVLWBTR1");
    const CAPACITY: usize = SLOT_COUNT_MAX;
    const NEEDS_IMAGES: bool = true;

    read_by_version!();

    fn key_count(_context: TreeContext<M>, leaf: &Leaf<M>) -> usize {
        (leaf.bitmap() & !VALID).count_ones() as usize
    }

    fn initialize(_context: TreeContext<M>, leaf: &Leaf<M>) {
        leaf.bitmap.write_private(0);
        for word in &leaf.unused {
            word.write_private(0);
        }
    }

    fn fill(_context: TreeContext<M>, leaf: &Leaf<M>, pairs: &[(u64, u64)]) {
        for (entry, (key, value)) in leaf.entries.iter().zip(pairs) {
            entry.set(*key, *value);
        }
        leaf.slots.store(&Slots::identity(pairs.len()));
        // Release: as in `set_bitmap`; the caller makes the whole leaf durable.
        leaf.bitmap.store(((1 << pairs.len()) - 1) | VALID, Ordering::Release);
    }

    #[inline(always)]
    fn apply(context: TreeContext<M>, leaf: &Leaf<M>, change: &Change) -> Applied {
        let mut slots = leaf.sorted();
        let found = slots.find::<M, LINE_STEPS>(change.key, |slot| leaf.entry(slot).key());
        let old = found.ok().map(|(_, slot)| leaf.entry(slot).value());
        let (outcome, effect) = change.decide(old);
        match (effect, found) {
            (Effect::Put, _) if !put(context, leaf, slots, change, found) => return Applied::Full,
            (Effect::Delete, Ok((place, slot))) => {
                slots.remove(place);
                leaf.replace_slots(context, &slots, leaf.bitmap() & !(1 << slot));
            }
            _ => {}
        }
        Applied::Done(outcome)
    }

    fn repair(context: TreeContext<M>, leaf: &Leaf<M>) -> Result<(), String> {
        let bitmap = leaf.bitmap();
        if (bitmap & !VALID) >> context.capacity != 0 {
            return Err(format!("the bitmap {bitmap:#x} names slots that are not there"));
        }
        if bitmap & VALID != 0 {
            let slots = leaf.slots.read();
            let agrees = slots.is_valid(SLOT_COUNT_MAX) && slots.used() == bitmap & !VALID;
            return if agrees { Ok(()) } else { Err("bitmap and slot array differ (W1)".into()) };
        }
        if context.is_writable {
            M::mark("wbtree.sorted_again");
            leaf.slots.store(&leaf.sort(bitmap));
            if !M::mutant("wbtree.no_sorted_flush") {
                // Persist: the array before it is to be believed (W1).
                context.medium.persist(leaf.slots.as_ptr(), LINE_SIZE);
            }
            // Persist: so that a write need not look (W3).
            leaf.set_bitmap(context, bitmap | VALID);
        }
        Ok(())
    }

    fn check(context: TreeContext<M>, leaf: &Leaf<M>, problems: &mut Vec<String>) {
        let (bitmap, slots) = (leaf.bitmap(), leaf.slots.read());
        if bitmap & VALID == 0 && !context.is_writable {
            // What a crash left; readers sort for themselves (W3).
            return;
        }
        if bitmap != slots.used() | VALID || !slots.is_valid(SLOT_COUNT_MAX) {
            problems.push(format!(
                "bitmap {bitmap:#x} and slots {:?} differ (W1, W3)",
                slots.as_slice()
            ));
        }
    }
}
