//! The leaf: its bytes, reading it, writing to it, repairing it.

use everleaf_alloc::Session;
use everleaf_index::build::{Change, Effect};
use everleaf_index::{DesignInfo, Geometry, IndexError, Progress, Reads, Scans, Writes};
use everleaf_machine::{Atomic, Machine, Ordering};

use super::array::{Array, ENTRY_COUNT, NEVER, Versioned, starts_line};
use crate::node::hybrid::Hybrid;
use crate::node::hybrid::leaf::{
    Applied, LeafDesign, LeafHeader, Pairs, TreeContext, read_by_version,
};
use crate::node::version_lock::Retry;

/// The leaf of the CDDS B-tree.
#[derive(Clone, Copy, Debug, Default)]
pub struct CddsLeaf;

/// See the module above.
#[repr(C, align(64))]
pub struct Leaf<M: Machine> {
    header: LeafHeader<M>,
    /// The leaf as it is counts at this version. Persistent.
    version: Atomic<u64, M>,
    /// Places in use, by live entries and by ended ones. Volatile.
    count: Atomic<u64, M>,
    unused: [Atomic<u64, M>; 3],
    entries: Array<M>,
}

const _: () = assert!(size_of::<Leaf<everleaf_machine::Hardware>>() == 1024);

impl<M: Machine> Leaf<M> {
    #[inline(always)]
    fn version(&self) -> u64 {
        // Acquire: the entries; pairs with the release in `commit`.
        self.version.load(Ordering::Acquire)
    }

    /// Places in use. A reader may get any number that the leaf has room for.
    #[inline(always)]
    fn count(&self, context: TreeContext<M>) -> usize {
        if !context.is_writable {
            // A pool that is open read-only: the number is what a crash left.
            return self.entries.used();
        }
        // Relaxed: changed under the lock; a reader validates.
        (self.count.load(Ordering::Relaxed) as usize).min(ENTRY_COUNT)
    }

    /// The value of a key.
    #[inline(always)]
    fn get(&self, context: TreeContext<M>, key: u64) -> Option<u64> {
        let found = self.entries.find(key, self.count(context), self.version());
        found.ok().map(|(_, value)| value)
    }

    /// Appends up to `limit` pairs from `from` on.
    fn append(&self, context: TreeContext<M>, from: u64, limit: usize, pairs: &mut Pairs) {
        let (count, version) = (self.count(context), self.version());
        let start = if from == 0 { 0 } else { self.entries.rank(from, count) };
        let before = pairs.len();
        for index in start..count {
            if pairs.len() - before >= limit {
                return;
            }
            let entry = self.entries.entry(index);
            // In a pool that is open read-only an entry may be there twice (C3).
            let twice = pairs[before..].last().is_some_and(|(last, _)| *last == entry.key);
            if entry.is_live(version) && !twice {
                pairs.push((entry.key, entry.value));
            }
        }
    }

    /// Makes the leaf count as it is, durably. The caller holds the lock.
    #[inline(always)]
    fn commit(&self, context: TreeContext<M>, version: u64) {
        // Release: the entries before the version from which on they count; recovery's view.
        self.version.store(version, Ordering::Release);
        if !M::mutant("cdds.no_version_flush") {
            // Persist: the commit before the lock is opened (H3).
            context.medium.persist(self.version.as_ptr(), 8);
        }
    }

    /// Insert or update; false if there is no room.
    fn put(
        &self,
        context: TreeContext<M>,
        change: &Change,
        found: Result<(usize, u64), usize>,
    ) -> bool {
        let (count, next) = (self.count(context), self.version() + 1);
        if count >= context.capacity {
            return false;
        }
        let place = match found {
            Ok((old, _)) => {
                self.entries.set_end(old, next);
                if !starts_line(old) {
                    // Persist: the end before the version from which on it counts. (Otherwise the
                    // new entry is on its line.)
                    self.entries.persist(context.medium, old);
                }
                old + 1
            }
            Err(place) => place,
        };
        let entry = Versioned { key: change.key, value: change.value, start: next, end: NEVER };
        self.entries.insert(context.medium, place, count, entry);
        // Relaxed: as in `count`.
        self.count.store(count as u64 + 1, Ordering::Relaxed);
        self.commit(context, next);
        true
    }

    /// Remove.
    fn end(&self, context: TreeContext<M>, place: usize) {
        let next = self.version() + 1;
        self.entries.set_end(place, next);
        if !M::mutant("cdds.no_end_flush") {
            // Persist: the end before the version from which on it counts.
            self.entries.persist(context.medium, place);
        }
        self.commit(context, next);
    }

    /// Whether a crash left the entry at a place for nothing: it belongs to a version that never was,
    /// or is the same as the one before it (C3).
    fn is_leftover(&self, index: usize, version: u64) -> bool {
        let entry = self.entries.entry(index);
        let before = index.checked_sub(1).map(|before| self.entries.entry(before));
        let twice = before.is_some_and(|it| (it.key, it.start) == (entry.key, entry.start));
        twice || entry.start > version && !M::mutant("cdds.keep_later")
    }
}

impl<M: Machine> LeafDesign<M> for CddsLeaf {
    const INFO: DesignInfo = DesignInfo {
        name: "cdds",
        kind: 0x27,
        keys: 0..=u64::MAX,
        values: 0..=u64::MAX,
        progress: Progress::Blocking,
        reads: Reads::Committed,
        writes: Writes::Conditional,
        scans: Scans::BothWays,
    };
    const TAG: u64 = u64::from_le_bytes(*b"EVLCDDS1");
    const CAPACITY: usize = ENTRY_COUNT;
    const NEEDS_IMAGES: bool = false;

    read_by_version!();

    fn initialize(_context: TreeContext<M>, leaf: &Leaf<M>) {
        leaf.version.write_private(1);
        leaf.count.write_private(0);
        for word in &leaf.unused {
            word.write_private(0);
        }
        for index in 0..ENTRY_COUNT {
            let none = Versioned { key: 0, value: 0, start: NEVER, end: NEVER };
            leaf.entries.write_private(index, none);
        }
    }

    fn fill(_context: TreeContext<M>, leaf: &Leaf<M>, pairs: &[(u64, u64)]) {
        for (index, (key, value)) in pairs.iter().enumerate() {
            let entry = Versioned { key: *key, value: *value, start: 1, end: NEVER };
            leaf.entries.write_private(index, entry);
        }
        leaf.count.write_private(pairs.len() as u64);
    }

    #[inline(always)]
    fn apply(context: TreeContext<M>, leaf: &Leaf<M>, change: &Change) -> Applied {
        let found = leaf.entries.find(change.key, leaf.count(context), leaf.version());
        let (outcome, effect) = change.decide(found.ok().map(|(_, value)| value));
        match (effect, found) {
            (Effect::Put, _) if !leaf.put(context, change, found) => return Applied::Full,
            (Effect::Delete, Ok((place, _))) => leaf.end(context, place),
            _ => {}
        }
        Applied::Done(outcome)
    }

    fn make_room<G: Geometry>(
        tree: &Hybrid<Self, G, M>,
        session: &mut Session<M>,
        leaf: u64,
    ) -> Result<(), IndexError> {
        tree.replace(session, leaf)
    }

    fn repair(context: TreeContext<M>, leaf: &Leaf<M>) -> Result<(), String> {
        let mut count = leaf.entries.used();
        if count > context.capacity {
            return Err(format!("{count} entries are used of {}", context.capacity));
        }
        let keys = |index: usize| (leaf.entries.key(index - 1), leaf.entries.key(index));
        if let Some(index) = (1..count).find(|index| keys(*index).0 > keys(*index).1) {
            return Err(format!("the keys {:?} do not ascend (C1)", keys(index)));
        }
        if !context.is_writable {
            return Ok(());
        }
        let version = leaf.version();
        for index in (0..count).rev() {
            if leaf.is_leftover(index, version) {
                M::mark("cdds.leftover");
                leaf.entries.close(context.medium, index, count);
                count -= 1;
            }
        }
        for index in 0..count {
            let end = leaf.entries.entry(index).end;
            if end > version && end != NEVER && !M::mutant("cdds.keep_ends") {
                M::mark("cdds.end_rolled_back");
                leaf.entries.set_end(index, NEVER);
                if !M::mutant("cdds.no_repair_flush") {
                    // Persist: the entry lives before the version in which it was to end comes.
                    leaf.entries.persist(context.medium, index);
                }
            }
        }
        leaf.count.write_private(count as u64);
        Ok(())
    }

    fn check(context: TreeContext<M>, leaf: &Leaf<M>, problems: &mut Vec<String>) {
        if !context.is_writable {
            // What a crash left is no problem for readers.
            return;
        }
        let (count, version) = (leaf.count(context), leaf.version());
        if count != leaf.entries.used() || count > context.capacity {
            problems.push(format!("{} places are used, {count} are counted", leaf.entries.used()));
        }
        for index in 0..count {
            let entry = leaf.entries.entry(index);
            let later = entry.start > version || entry.end > version && entry.end != NEVER;
            if later || leaf.is_leftover(index, version) {
                problems.push(format!("{entry:?} is later than version {version}, or twice (C4)"));
            }
        }
    }
}
