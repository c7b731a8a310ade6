//! The leaf: its bytes, reading it, rewriting it, repairing it.

use std::marker::PhantomData;

use everleaf_alloc::Session;
use everleaf_index::build::{Change, Outcome};
use everleaf_index::{DesignInfo, Geometry, IndexError, Progress, Reads, Scans, Writes};
use everleaf_machine::{Atomic, LINE_SIZE, Machine, Ordering};

use super::variant::Variant;
use crate::node::entry::Entries;
use crate::node::hybrid::Hybrid;
use crate::node::hybrid::leaf::{Applied, LeafDesign, LeafHeader, Pairs, TreeContext};
use crate::node::slot_pair::{PAIR_SLOT_COUNT_MAX, PairSlots, SlotPair};
use crate::node::slots::LINE_STEPS;
use crate::node::version_lock::{Retry, Version};

/// Log entries of a leaf.
pub(super) const ENTRY_COUNT: usize = PAIR_SLOT_COUNT_MAX;

/// The leaf of RNTree, in variant `V`.
#[derive(Clone, Copy, Debug, Default)]
pub struct RnLeaf<V>(PhantomData<V>);

/// See the module above.
#[repr(C, align(64))]
pub struct Leaf<M: Machine> {
    pub(super) header: LeafHeader<M>,
    /// Rewrites so far (32 high bits) and entries handed out since the last (R3, R4). Volatile.
    pub(super) reserved: Atomic<u64, M>,
    /// Generation (32 high bits) and a counter whose parity is the current slot line (R5). Volatile.
    active: Atomic<u64, M>,
    /// Entries whose owners are done (R3). Changed under the lock. Volatile.
    completed: Atomic<u64, M>,
    unused: [Atomic<u64, M>; 2],
    pub(super) slots: SlotPair<M>,
    pub(super) entries: Entries<M>,
}

const _: () = {
    type Plain = everleaf_machine::Hardware;
    assert!(size_of::<Leaf<Plain>>() == 1216);
    assert!(std::mem::offset_of!(Leaf<Plain>, slots) == LINE_SIZE);
    assert!(std::mem::offset_of!(Leaf<Plain>, entries) == 3 * LINE_SIZE);
};

const REWRITES_SHIFT: u32 = 32;
const GENERATION_SHIFT: u32 = 32;
const LOW_MASK: u64 = (1 << 32) - 1;

/// What a reader validates.
#[derive(Clone, Copy)]
pub struct View {
    /// The version of the lock; the dual array does without.
    version: Option<Version>,
    /// The number of rewrites.
    pub(super) rewrites: u64,
    /// The word `active`.
    active: u64,
}

/// What a leaf says of a key.
pub(super) struct Seen {
    pub slots: PairSlots,
    /// The key's place and slot; the place that it would have.
    pub found: Result<(usize, usize), usize>,
    /// Its value.
    pub old: Option<u64>,
}

impl Seen {
    /// Searches an array; what comes out counts if the array and the leaf are valid.
    #[inline(always)]
    pub fn new<M: Machine>(leaf: &Leaf<M>, slots: PairSlots, key: u64) -> Self {
        let found = slots.find::<M, LINE_STEPS>(key, |slot| leaf.key(slot));
        let old = found.ok().map(|(_, slot)| leaf.entries.at(slot).value());
        Seen { slots, found, old }
    }
}

impl<M: Machine> Leaf<M> {
    /// Number of rewrites and entries handed out.
    #[inline(always)]
    pub(super) fn reserved(&self) -> (u64, usize) {
        // Acquire: the entries of the last rewrite; pairs with the release in `thaw`.
        let word = self.reserved.load(Ordering::Acquire);
        (word >> REWRITES_SHIFT, (word & LOW_MASK) as usize)
    }

    /// The word `active`, and the slot line it leads to.
    #[inline(always)]
    fn active(&self, context: TreeContext<M>) -> (u64, usize) {
        // Acquire: the slot line and the entries it names; pairs with the release in `switch`.
        let word = self.active.load(Ordering::Acquire);
        (word, self.line_of(context, word))
    }

    #[inline(always)]
    fn line_of(&self, context: TreeContext<M>, active: u64) -> usize {
        if active >> GENERATION_SHIFT == u64::from(context.generation) {
            (active & 1) as usize
        } else {
            // Nobody has written to the leaf since the pool was opened.
            self.slots.current()
        }
    }

    /// The current slot line, under the lock or at rest.
    #[inline(always)]
    pub(super) fn current(&self, context: TreeContext<M>) -> usize {
        self.active(context).1
    }

    /// Leads readers to `line`. The caller holds the lock; if readers do not look at it, they see the
    /// line from now `on`.
    #[inline(always)]
    pub(super) fn switch(&self, context: TreeContext<M>, line: usize, on: bool) {
        // Relaxed: only the lock's holder writes it.
        let word = self.active.load(Ordering::Relaxed);
        let counter = (word & LOW_MASK).wrapping_add(1);
        let counter = if counter & 1 == line as u64 { counter } else { counter.wrapping_add(1) };
        let word = u64::from(context.generation) << GENERATION_SHIFT | counter & LOW_MASK;
        if on {
            // AcqRel: the slot line, which is durable, before the way to it; pairs with the acquire
            // in `active`. An exchange, because the write takes effect here and nowhere else: it
            // must not wait in a store buffer when the call has returned.
            self.active.swap(word, Ordering::AcqRel);
        } else {
            // Release: pairs with the acquire in `active`; readers wait until the lock is open.
            self.active.store(word, Ordering::Release);
        }
    }

    /// Entries whose owners are done. The caller holds the lock.
    #[inline(always)]
    pub(super) fn completed(&self) -> usize {
        // Relaxed: only the lock's holder writes it.
        self.completed.load(Ordering::Relaxed) as usize
    }

    /// Notes that the owner of one more entry is done. The caller holds the lock.
    #[inline(always)]
    pub(super) fn complete(&self) {
        // Relaxed: as in `completed`.
        self.completed.store(self.completed() as u64 + 1, Ordering::Relaxed);
    }

    /// The key in a slot; a slot of a torn array is cut to the leaf.
    #[inline(always)]
    pub(super) fn key(&self, slot: usize) -> u64 {
        self.entries.at(slot).key()
    }

    fn set_reserved(&self, rewrites: u64, count: usize, order: Ordering) {
        self.reserved.store(rewrites << REWRITES_SHIFT | count as u64, order);
    }
}

impl<V: Variant> RnLeaf<V> {
    /// Key and entry under a view.
    #[inline(always)]
    pub(super) fn locate<M: Machine>(
        context: TreeContext<M>,
        leaf: &Leaf<M>,
        view: View,
        key: u64,
    ) -> Result<Seen, Retry> {
        let slots = Self::snapshot(context, leaf, view)?;
        Ok(Seen::new(leaf, slots, key))
    }

    /// Whether the leaf, whose lock the caller holds, is as it was in a view.
    #[inline(always)]
    pub(super) fn is_as_in<M: Machine>(leaf: &Leaf<M>, view: View) -> bool {
        // Stores in place leave the word `active` as it is.
        const { assert!(!V::DUAL || V::LINE_STORE.is_none()) };
        match view.version {
            Some(version) => leaf.header.lock.is_held_from(version),
            // Relaxed: only the lock's holder writes it, and each change leaves another word.
            None => leaf.active.load(Ordering::Relaxed) == view.active,
        }
    }

    /// The slot array under a view.
    #[inline(always)]
    fn snapshot<M: Machine>(
        context: TreeContext<M>,
        leaf: &Leaf<M>,
        view: View,
    ) -> Result<PairSlots, Retry> {
        let slots = leaf.slots.read(leaf.line_of(context, view.active));
        Self::still_active(leaf, view)?;
        Ok(slots)
    }

    /// Whether the slot line of a view, which was read since, was current all the time, in the variant
    /// whose readers do without a version.
    #[inline(always)]
    fn still_active<M: Machine>(leaf: &Leaf<M>, view: View) -> Result<(), Retry> {
        if V::DUAL {
            // Acquire: the line was read before; pairs with the release in `publish`, which follows
            // the switch away from the line by the same holder or an earlier one.
            M::fence(Ordering::Acquire);
            // Relaxed: ordered by the fence. Unchanged, for after one switch the next writer fills
            // the very line that was read.
            if leaf.active.load(Ordering::Relaxed) != view.active {
                return Err(Retry::Now);
            }
        }
        Ok(())
    }
}

impl<V: Variant, M: Machine> LeafDesign<M> for RnLeaf<V> {
    const INFO: DesignInfo = DesignInfo {
        name: V::NAME,
        kind: V::KIND,
        keys: 0..=u64::MAX,
        values: 0..=u64::MAX,
        progress: Progress::Blocking,
        reads: Reads::Committed,
        writes: Writes::Conditional,
        scans: Scans::BothWays,
    };
    const TAG: u64 = u64::from_le_bytes(if V::DUAL { *b"EVLRNDS1" } else { *b"EVLRNTR1" });
    const CAPACITY: usize = ENTRY_COUNT;
    const NEEDS_IMAGES: bool = true;
    type Leaf = Leaf<M>;
    type View = View;

    #[inline(always)]
    fn header(leaf: &Leaf<M>) -> &LeafHeader<M> {
        &leaf.header
    }

    #[inline(always)]
    fn view(context: TreeContext<M>, leaf: &Leaf<M>) -> Result<View, Retry> {
        let lock = &leaf.header.lock;
        let version = if V::DUAL { None } else { Some(lock.stable_or_wait(context.generation)?) };
        let (rewrites, _) = leaf.reserved();
        // Nobody rewrites in a pool that is open read-only: the number is what a crash left.
        if rewrites & 1 != 0 && context.is_writable {
            return Err(Retry::Wait);
        }
        let (active, _) = leaf.active(context);
        Ok(View { version, rewrites, active })
    }

    #[inline(always)]
    fn is_current(context: TreeContext<M>, leaf: &Leaf<M>, view: View) -> bool {
        // Stores in place leave the word `active` as it is.
        const { assert!(!V::DUAL || V::LINE_STORE.is_none()) };
        match view.version {
            Some(version) => leaf.header.lock.validate(context.generation, version),
            None => {
                // Acquire: the entries were read before; pairs with the release fence in `freeze`.
                M::fence(Ordering::Acquire);
                // Relaxed: ordered by the fence.
                leaf.reserved.load(Ordering::Relaxed) >> REWRITES_SHIFT == view.rewrites
            }
        }
    }

    #[inline(always)]
    fn search(
        context: TreeContext<M>,
        leaf: &Leaf<M>,
        view: View,
        key: u64,
    ) -> Result<Option<u64>, Retry> {
        let line = leaf.line_of(context, view.active);
        let Some(same) = leaf.entries.with_key(key) else {
            return Ok(Self::locate(context, leaf, view, key)?.old);
        };
        // Entries of an earlier life of the leaf are passed over. In a pool that is open read-only the
        // count is what a crash left.
        let count = if context.is_writable { leaf.reserved().1 } else { ENTRY_COUNT };
        let mut same = same & 1_u64.checked_shl(count as u32).map_or(u64::MAX, |bit| bit - 1);
        let mut value = None;
        // One of the entries with the key counts, at most: usually the last.
        while same != 0 {
            let slot = same.ilog2() as usize;
            if leaf.slots.names(line, slot) || M::mutant("rntree.trusts_entries") {
                value = Some(leaf.entries.at(slot).value());
                break;
            }
            same ^= 1 << slot;
        }
        Self::still_active(leaf, view)?;
        Ok(value)
    }

    #[inline(always)]
    fn collect(
        context: TreeContext<M>,
        leaf: &Leaf<M>,
        view: View,
        from: u64,
        limit: usize,
        pairs: &mut Pairs,
    ) -> Result<(), Retry> {
        let slots = Self::snapshot(context, leaf, view)?;
        let start =
            if from == 0 { 0 } else { slots.rank::<M, LINE_STEPS>(from, |slot| leaf.key(slot)) };
        let named = slots.as_slice()[start..].iter().take(limit);
        pairs.extend(named.map(|slot| leaf.entries.at(usize::from(*slot)).pair()));
        Ok(())
    }

    fn pairs(context: TreeContext<M>, leaf: &Leaf<M>) -> Pairs {
        let slots = leaf.slots.read(leaf.current(context));
        let pair = |slot: &u8| leaf.entries.at(usize::from(*slot)).pair();
        slots.as_slice().iter().map(pair).collect()
    }

    fn key_count(context: TreeContext<M>, leaf: &Leaf<M>) -> usize {
        leaf.slots.count(leaf.current(context))
    }

    fn initialize(context: TreeContext<M>, leaf: &Leaf<M>) {
        leaf.slots.initialize(&PairSlots::default());
        // Relaxed: private until the leaf is linked; odd, so nobody reserves before `thaw`.
        leaf.set_reserved(1, 0, Ordering::Relaxed);
        leaf.switch(context, 0, false);
        for word in &leaf.unused {
            word.write_private(0);
        }
    }

    fn fill(context: TreeContext<M>, leaf: &Leaf<M>, pairs: &[(u64, u64)]) {
        for (entry, (key, value)) in leaf.entries.iter().zip(pairs) {
            entry.set(*key, *value);
        }
        let line = leaf.slots.publish(leaf.current(context), &PairSlots::identity(pairs.len()));
        leaf.switch(context, line, false);
        // Relaxed: the caller holds the lock.
        leaf.completed.store(pairs.len() as u64, Ordering::Relaxed);
        let (rewrites, _) = leaf.reserved();
        // Relaxed: still odd, so nobody uses the count before `thaw`.
        leaf.set_reserved(rewrites, pairs.len(), Ordering::Relaxed);
    }

    fn apply(_context: TreeContext<M>, _leaf: &Leaf<M>, _change: &Change) -> Applied {
        unreachable!("this design writes in its own way")
    }

    fn freeze(_context: TreeContext<M>, leaf: &Leaf<M>) {
        let (rewrites, count) = leaf.reserved();
        // Relaxed: ordered by the fence.
        leaf.set_reserved(rewrites + 1, count, Ordering::Relaxed);
        // Release: the odd number before every store of the rewrite; pairs with the fence in
        // `is_current`.
        M::fence(Ordering::Release);
    }

    fn thaw(_context: TreeContext<M>, leaf: &Leaf<M>) {
        let (rewrites, count) = leaf.reserved();
        // Release: the rewritten leaf before the even number; pairs with the acquire in `reserved`.
        leaf.set_reserved((rewrites + 1) & LOW_MASK, count, Ordering::Release);
    }

    #[inline(always)]
    fn write<G: Geometry>(
        tree: &Hybrid<Self, G, M>,
        session: &mut Session<M>,
        change: &Change,
    ) -> Result<Outcome, IndexError> {
        tree.write_log(session, change)
    }

    fn repair(context: TreeContext<M>, leaf: &Leaf<M>) -> Result<(), String> {
        if !leaf.slots.is_valid() {
            return Err("the sequence numbers of the two slot lines do not follow".into());
        }
        let line = leaf.slots.current();
        let slots = leaf.slots.read(line);
        if !slots.is_valid(ENTRY_COUNT) {
            return Err("a slot array names an entry twice, or one that is not there".into());
        }
        if !context.is_writable {
            return Ok(());
        }
        let last = slots.as_slice().iter().max().map_or(0, |slot| usize::from(*slot));
        let empty = slots.count() == 0;
        let used = if empty || M::mutant("rntree.max_slot") { last } else { last + 1 };
        leaf.reserved.write_private(used as u64);
        leaf.completed.write_private(used as u64);
        leaf.active.write_private(u64::from(context.generation) << GENERATION_SHIFT | line as u64);
        Ok(())
    }

    fn check(context: TreeContext<M>, leaf: &Leaf<M>, problems: &mut Vec<String>) {
        // In a pool that is open read-only the counts are what a crash left.
        let reserved = if context.is_writable { leaf.reserved().1 } else { ENTRY_COUNT };
        if context.is_writable && (reserved != leaf.completed() || reserved > context.capacity) {
            let completed = leaf.completed();
            problems.push(format!("{reserved} entries reserved, {completed} completed (R3)"));
        }
        let line = leaf.current(context);
        let slots = leaf.slots.read(line);
        if !leaf.slots.is_valid() || line != leaf.slots.current() || !slots.is_valid(reserved) {
            problems.push(format!(
                "slot line {line} is not current, or not one: {:?}",
                slots.as_slice()
            ));
        }
    }
}
