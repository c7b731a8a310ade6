//! The table of pending keys: in DRAM, exact, ordered, with the newest entry of each key that the
//! global tree does not have yet.

use std::collections::BTreeMap;

use everleaf_machine::{Atomic, Machine, Ordering, SpinGuard, SpinLock};

use super::layout::Stamp;

/// The newest entry of a key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    /// Its stamp.
    pub stamp: Stamp,
    /// Its value; of a removal whatever was there.
    pub value: u64,
    /// Where it is in the pool.
    pub entry: u64,
}

impl Pending {
    /// What a reader finds: nothing if the entry is a removal.
    pub fn current(&self) -> Option<u64> {
        (!self.stamp.is_removal()).then_some(self.value)
    }
}

/// The pending keys of a shard.
pub(super) type Keys = BTreeMap<u64, Pending>;

/// A part of the table, on lines of its own. The holder of its lock decides what becomes of its keys.
#[repr(align(128))]
pub(super) struct Shard<M: Machine> {
    keys: SpinLock<Keys, M>,
    count: Atomic<u64, M>,
    /// Held by the thread that evaluates the shard: taken before the lock, and never while a front's is held.
    claim: SpinLock<(), M>,
    /// Entries of the shard's keys with smaller numbers are durable in the global tree, or a newer one of
    /// their key is. It only grows.
    horizon: Atomic<u64, M>,
}

/// The right to evaluate a shard.
pub(super) type Claim<'s, M> = SpinGuard<'s, (), M>;

/// A locked shard. What is changed is counted when the guard goes.
pub(super) struct ShardGuard<'s, M: Machine> {
    count: &'s Atomic<u64, M>,
    keys: SpinGuard<'s, Keys, M>,
}

impl<M: Machine> ShardGuard<'_, M> {
    /// The keys.
    pub fn keys(&mut self) -> &mut Keys {
        &mut self.keys
    }
}

impl<M: Machine> Drop for ShardGuard<'_, M> {
    fn drop(&mut self) {
        let count = self.keys.len() as u64;
        // Relaxed: only the holder of the lock stores the count.
        if self.count.load(Ordering::Relaxed) != count {
            // AcqRel: pairs with the acquire in `is_empty`. A swap and not a store, so
            // that a call that returned is seen by a thread that asks afterwards.
            self.count.swap(count, Ordering::AcqRel);
        }
    }
}

impl<M: Machine> Shard<M> {
    fn new(horizon: u64) -> Self {
        Shard {
            keys: SpinLock::new(Keys::new()),
            count: Atomic::new(0),
            claim: SpinLock::new(()),
            horizon: Atomic::new(horizon),
        }
    }

    /// Waits until no other thread evaluates the shard.
    pub fn claim(&self) -> Claim<'_, M> {
        self.claim.lock()
    }

    /// Unless another thread evaluates the shard.
    pub fn try_claim(&self) -> Option<Claim<'_, M>> {
        self.claim.try_lock()
    }

    /// What all numbers that are still due are at least.
    pub fn horizon(&self) -> u64 {
        // Acquire: what the global tree got below it; pairs with the release in `set_horizon`.
        self.horizon.load(Ordering::Acquire)
    }

    /// Says that all below `horizon` is done. The caller has the claim.
    pub fn set_horizon(&self, horizon: u64) {
        // Release: what was applied is durable before; pairs with the acquire in `horizon`.
        self.horizon.store(horizon, Ordering::Release);
    }

    /// Locks the shard.
    pub fn lock(&self) -> ShardGuard<'_, M> {
        ShardGuard { count: &self.count, keys: self.keys.lock() }
    }

    /// Whether nothing is pending, without the lock.
    pub fn is_empty(&self) -> bool {
        // Acquire: what the global tree got before its key left the table is seen; pairs with the
        // release in `ShardGuard::drop`.
        self.count.load(Ordering::Acquire) == 0
    }
}

/// All shards.
pub(super) struct Table<M: Machine> {
    shards: Vec<Shard<M>>,
    /// Keys that differ in so many low bits only are in one shard.
    shift: u32,
}

/// Some pending keys in ascending order, each with its value or nothing if it was removed.
pub(super) struct Page {
    /// The keys.
    pub keys: Vec<(u64, Option<u64>)>,
    /// The last key, in the direction of the scan, up to which the page is complete.
    pub bound: u64,
}

impl<M: Machine> Table<M> {
    /// An empty table, when all below `drained` is in the global tree.
    pub fn new(shards: usize, shift: u32, drained: u64) -> Self {
        Table { shards: (0..shards).map(|_| Shard::new(drained)).collect(), shift }
    }

    /// The shard of a key.
    pub fn shard(&self, key: u64) -> &Shard<M> {
        &self.shards[self.shard_index(key)]
    }

    /// By bits of a product, to which the upper bits of the key are brought by folding.
    fn shard_index(&self, key: u64) -> usize {
        let prefix = key >> self.shift;
        let hash = (prefix ^ prefix >> 32).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        hash as usize % self.shards.len()
    }

    /// All shards.
    pub fn shards(&self) -> &[Shard<M>] {
        &self.shards
    }

    /// What is pending from `from` on, ascending: as far as no shard has more than `limit` keys.
    pub fn page_up(&self, from: u64, limit: usize) -> Page {
        let mut page = Page { keys: vec![], bound: u64::MAX };
        for shard in self.shards.iter().filter(|shard| !shard.is_empty()) {
            let mut guard = shard.lock();
            let cut = take(guard.keys().range(from..), limit, &mut page.keys);
            page.bound = cut.map_or(page.bound, |last| page.bound.min(last));
        }
        page.keys.retain(|(key, _)| *key <= page.bound);
        page.keys.sort_unstable_by_key(|(key, _)| *key);
        page
    }

    /// As [`Self::page_up`], descending.
    pub fn page_down(&self, from: u64, limit: usize) -> Page {
        let mut page = Page { keys: vec![], bound: 0 };
        for shard in self.shards.iter().filter(|shard| !shard.is_empty()) {
            let mut guard = shard.lock();
            let cut = take(guard.keys().range(..=from).rev(), limit, &mut page.keys);
            page.bound = cut.map_or(page.bound, |last| page.bound.max(last));
        }
        page.keys.retain(|(key, _)| *key >= page.bound);
        page.keys.sort_unstable_by_key(|(key, _)| std::cmp::Reverse(*key));
        page
    }
}

/// Takes up to `limit` keys. Returns the last one taken if there are more.
fn take<'k>(
    mut from: impl Iterator<Item = (&'k u64, &'k Pending)>,
    limit: usize,
    keys: &mut Vec<(u64, Option<u64>)>,
) -> Option<u64> {
    let start = keys.len();
    keys.extend(from.by_ref().take(limit).map(|(key, pending)| (*key, pending.current())));
    let last = keys[start..].last().map(|(key, _)| *key);
    from.next().and(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use everleaf_machine::Hardware;

    /// All keys that differ only in their upper bits were in one part of the table: its threads waited for
    /// one lock.
    #[test]
    fn keys_that_differ_in_few_bits_are_spread() {
        let table: Table<Hardware> = Table::new(32, 0, 0);
        for shift in [0, 16, 32, 40, 54] {
            let mut counts = [0; 32];
            (0..1000_u64).for_each(|index| counts[table.shard_index(index << shift)] += 1);
            let (least, most) = (counts.iter().min(), counts.iter().max());
            assert!(least > Some(&10) && most < Some(&60), "<< {shift}: {counts:?}");
        }
    }
}
