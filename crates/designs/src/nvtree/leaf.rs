//! The leaf: its bytes, searching it, appending to it.

use everleaf_alloc::Session;
use everleaf_index::build::{Change, Effect, Intent, Outcome};
use everleaf_index::{DesignInfo, Geometry, IndexError, Progress, Reads, Scans, Writes};
use everleaf_machine::{Atomic, Machine, Ordering};

use crate::node::entry::{ENTRY_SIZE, Entry};
use crate::node::hybrid::Hybrid;
use crate::node::hybrid::leaf::{Applied, LeafDesign, LeafHeader, Pairs, TreeContext};
use crate::node::version_lock::Retry;

/// Entries of a leaf.
const ENTRY_COUNT: usize = 64;

/// The leaf of NVTree, with conditional writes or without.
#[derive(Clone, Copy, Debug, Default)]
pub struct NvLeaf<const BLIND: bool>;

/// See the module above.
#[repr(C, align(64))]
pub struct Leaf<M: Machine> {
    pub(super) header: LeafHeader<M>,
    /// Which entries record a removal. Persistent, stored before the counter.
    removals: Atomic<u64, M>,
    /// Entries. Persistent.
    count: Atomic<u64, M>,
    /// Generation (32 high bits) and the entries that readers may see. Volatile.
    visible: Atomic<u64, M>,
    unused: [Atomic<u64, M>; 2],
    entries: [Entry<M>; ENTRY_COUNT],
}

const _: () = assert!(size_of::<Leaf<everleaf_machine::Hardware>>() == 1088);

const GENERATION_SHIFT: u32 = 32;
const LOW_MASK: u64 = (1 << 32) - 1;

fn visible_word<M: Machine>(context: TreeContext<M>, count: usize) -> u64 {
    u64::from(context.generation) << GENERATION_SHIFT | count as u64
}

impl<M: Machine> Leaf<M> {
    /// Entries, under the lock or at rest.
    #[inline(always)]
    fn count(&self) -> usize {
        // Acquire: the entries; pairs with the release in `append`.
        (self.count.load(Ordering::Acquire) as usize).min(ENTRY_COUNT)
    }

    #[inline(always)]
    fn removals(&self) -> u64 {
        // Relaxed: as of the count that was loaded before; bits of later entries are not used.
        self.removals.load(Ordering::Relaxed)
    }

    /// The last entry of `key` among the first `count`: its value, if it is not a removal.
    #[inline(always)]
    fn find(&self, key: u64, count: usize) -> Option<u64> {
        let last = (0..count).rev().find(|index| self.entries[*index].key() == key)?;
        (self.removals() >> last & 1 == 0).then(|| self.entries[last].value())
    }

    /// Appends all live pairs among the first `count` entries, ascending, that are not below `from`.
    fn live(&self, count: usize, from: u64, pairs: &mut Pairs) {
        let removals = self.removals();
        let mut latest: Vec<(u64, usize)> = (0..count)
            .map(|index| (self.entries[index].key(), index))
            .filter(|(key, _)| *key >= from)
            .collect();
        latest.sort_unstable();
        for (place, (key, index)) in latest.iter().enumerate() {
            let is_last = latest.get(place + 1).is_none_or(|(next, _)| next != key);
            if is_last && removals >> index & 1 == 0 {
                pairs.push((*key, self.entries[*index].value()));
            }
        }
    }

    /// Appends an entry; false if there is no room.
    #[inline(always)]
    fn append(&self, context: TreeContext<M>, key: u64, value: u64, is_removal: bool) -> bool {
        let count = self.count();
        if count >= context.capacity {
            return false;
        }
        self.entries[count].set(key, value);
        if !M::mutant("nvtree.no_entry_flush") {
            // Persist: the entry before it is counted (N1).
            context.medium.persist(self.entries[count].as_ptr(), ENTRY_SIZE);
        }
        // An entry that a crash left uncounted may have left its bit.
        let removals = self.removals() & !(1 << count) | u64::from(is_removal) << count;
        // Relaxed: published by the counter, on the same line.
        self.removals.store(removals, Ordering::Relaxed);
        // Release: entry and removals before the counter; recovery's view.
        self.count.store(count as u64 + 1, Ordering::Release);
        if M::mutant("nvtree.read_uncommitted") {
            self.show(context, count + 1);
        }
        if !M::mutant("nvtree.no_count_flush") {
            // Persist: the counter before readers see the entry (N2).
            context.medium.persist(self.count.as_ptr(), 8);
        }
        self.show(context, count + 1);
        true
    }

    /// Lets readers see the first `count` entries.
    #[inline(always)]
    fn show(&self, context: TreeContext<M>, count: usize) {
        // AcqRel: the entries before the way to them; pairs with the acquire in `view`. An exchange,
        // because the write takes effect here: it must not wait in a store buffer when the call has
        // returned.
        self.visible.swap(visible_word(context, count), Ordering::AcqRel);
    }
}

/// What a write does that does not look.
#[inline(always)]
fn decide_blindly(intent: Intent) -> (Outcome, Effect) {
    let effect = if intent.removes() { Effect::Delete } else { Effect::Put };
    (Outcome { changed: true, old: None }, effect)
}

impl<const BLIND: bool, M: Machine> LeafDesign<M> for NvLeaf<BLIND> {
    const INFO: DesignInfo = DesignInfo {
        name: if BLIND { "nvtree-blind" } else { "nvtree" },
        kind: if BLIND { 0x26 } else { 0x25 },
        keys: 0..=u64::MAX,
        values: 0..=u64::MAX,
        progress: Progress::Blocking,
        reads: Reads::Committed,
        writes: if BLIND { Writes::Blind } else { Writes::Conditional },
        scans: Scans::BothWays,
    };
    const TAG: u64 = u64::from_le_bytes(if BLIND { *b"EVLNVTB1" } else { *b"EVLNVTR1" });
    const CAPACITY: usize = ENTRY_COUNT;
    const NEEDS_IMAGES: bool = false;
    type Leaf = Leaf<M>;
    /// The entries that a reader may see. They never change, so there is nothing to validate.
    type View = usize;

    #[inline(always)]
    fn header(leaf: &Leaf<M>) -> &LeafHeader<M> {
        &leaf.header
    }

    #[inline(always)]
    fn view(context: TreeContext<M>, leaf: &Leaf<M>) -> Result<usize, Retry> {
        // Acquire: the entries; pairs with the exchange in `show`.
        let word = leaf.visible.load(Ordering::Acquire);
        if word >> GENERATION_SHIFT == u64::from(context.generation) {
            return Ok(((word & LOW_MASK) as usize).min(ENTRY_COUNT));
        }
        // A pool that is open read-only: nobody writes.
        Ok(leaf.count())
    }

    #[inline(always)]
    fn is_current(_context: TreeContext<M>, _leaf: &Leaf<M>, _view: usize) -> bool {
        true
    }

    #[inline(always)]
    fn search(
        _context: TreeContext<M>,
        leaf: &Leaf<M>,
        view: usize,
        key: u64,
    ) -> Result<Option<u64>, Retry> {
        Ok(leaf.find(key, view))
    }

    fn collect(
        _context: TreeContext<M>,
        leaf: &Leaf<M>,
        view: usize,
        from: u64,
        limit: usize,
        pairs: &mut Pairs,
    ) -> Result<(), Retry> {
        let before = pairs.len();
        leaf.live(view, from, pairs);
        pairs.truncate(before.saturating_add(limit));
        Ok(())
    }

    fn pairs(_context: TreeContext<M>, leaf: &Leaf<M>) -> Pairs {
        let mut pairs = vec![];
        leaf.live(leaf.count(), 0, &mut pairs);
        pairs
    }

    fn initialize(_context: TreeContext<M>, leaf: &Leaf<M>) {
        for word in [&leaf.removals, &leaf.count, &leaf.visible].into_iter().chain(&leaf.unused) {
            word.write_private(0);
        }
    }

    fn fill(context: TreeContext<M>, leaf: &Leaf<M>, pairs: &[(u64, u64)]) {
        for (entry, (key, value)) in leaf.entries.iter().zip(pairs) {
            entry.set(*key, *value);
        }
        leaf.count.write_private(pairs.len() as u64);
        leaf.visible.write_private(visible_word(context, pairs.len()));
    }

    #[inline(always)]
    fn apply(context: TreeContext<M>, leaf: &Leaf<M>, change: &Change) -> Applied {
        // A compare-and-exchange cannot do without looking.
        let compares = matches!(change.intent, Intent::Exchange(_) | Intent::RemoveExact(_));
        let (outcome, effect) = if BLIND && !compares {
            decide_blindly(change.intent)
        } else {
            change.decide(leaf.find(change.key, leaf.count()))
        };
        let has_room = match effect {
            Effect::None => true,
            Effect::Put => leaf.append(context, change.key, change.value, false),
            Effect::Delete => leaf.append(context, change.key, 0, true),
        };
        if has_room { Applied::Done(outcome) } else { Applied::Full }
    }

    fn make_room<G: Geometry>(
        tree: &Hybrid<Self, G, M>,
        session: &mut Session<M>,
        leaf: u64,
    ) -> Result<(), IndexError> {
        tree.replace(session, leaf)
    }

    fn repair(context: TreeContext<M>, leaf: &Leaf<M>) -> Result<(), String> {
        let count = leaf.count.read_private();
        if count > context.capacity as u64 {
            return Err(format!("the counter {count} is greater than {}", context.capacity));
        }
        if context.is_writable {
            leaf.visible.write_private(visible_word(context, count as usize));
        }
        Ok(())
    }

    fn check(context: TreeContext<M>, leaf: &Leaf<M>, problems: &mut Vec<String>) {
        let seen = leaf.visible.read_private();
        if context.is_writable && seen != visible_word(context, leaf.count()) {
            problems.push(format!("{} entries, but {seen:#x} visible (N2)", leaf.count()));
        }
    }
}
