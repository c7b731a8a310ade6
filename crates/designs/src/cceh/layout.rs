//! Where things are in the pool: the root object, the directory, the segment.
//!
//! ```text
//!   root object    word 0       1              2..32
//!            | the tag    | directory    | zero; from 3 on the logs of a variant with buffers |
//!                           63  depth  48 47  offset  0
//!
//!   tag            "EVLCCEH2" in a variant with buffers, whose words of logs have sums, else "EVLCCEH1"
//!
//!   directory, 8 << depth bytes but 256 at least: by the first bits of a hash
//!            | segment | segment | ...                                  |
//!
//!   segment, 16 KiB
//!   line 0   | lock 8 | low 8 | depth 8 | flushed 8 | unused 32         |
//!   line 1.. | key 8  value 8 | key  value | key  value | key  value    |
//! ```
//!
//! A pair whose key is 0 is none. A segment of depth `d` has the hashes whose first `d` bits are those of
//! `low`; a pair with another hash was left behind by a split, and is none either. `flushed` is the number
//! of the last buffered write that is among the pairs.

use std::marker::PhantomData;

use everleaf_machine::{Atomic, LINE_SIZE, Machine, Ordering};

use super::variant::Variant;
use crate::node::version_lock::VersionLock;

/// First word of a root object. Programs whose logs had no sums had the same for all.
pub(super) const fn tag<V: Variant>() -> u64 {
    u64::from_le_bytes(if V::BUFFERED { *b"EVLCCEH2" } else { *b"EVLCCEH1" })
}

/// The root object's word that names the directory.
pub(super) const DIRECTORY_WORD: usize = 1;
/// The root object's word that names the first log.
pub(super) const LOG_WORD: usize = 3;
/// The key of a place without a pair.
pub(super) const NO_KEY: u64 = 0;
/// Pairs that a line has room for.
const LINE_PAIRS: usize = 4;

/// The hash of a key. No two keys have the same, so splits come to an end.
#[inline(always)]
pub(super) fn hash_of(key: u64) -> u64 {
    // The finalizer of MurmurHash3: all bits depend on all, and it can be undone.
    let mut hash = key;
    hash = (hash ^ hash >> 33).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    hash = (hash ^ hash >> 33).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    hash ^ hash >> 33
}

/// Key and value. Written under the lock of their segment.
#[repr(C)]
pub(super) struct Pair<M: Machine> {
    key: Atomic<u64, M>,
    value: Atomic<u64, M>,
}

/// The pairs of a line.
#[repr(C, align(64))]
pub(super) struct Line<M: Machine>([Pair<M>; LINE_PAIRS]);

/// Line 0 of a segment.
#[repr(C, align(64))]
pub(super) struct Head<M: Machine> {
    pub lock: VersionLock<M>,
    low: Atomic<u64, M>,
    depth: Atomic<u64, M>,
    flushed: Atomic<u64, M>,
}

const _: () = assert!(size_of::<Line<everleaf_machine::Hardware>>() == LINE_SIZE);
const _: () = assert!(size_of::<Head<everleaf_machine::Hardware>>() == LINE_SIZE);

impl<M: Machine> Pair<M> {
    /// The key, good if the version is found unchanged afterwards.
    #[inline(always)]
    pub fn key(&self) -> u64 {
        // Relaxed: validated with the lock.
        self.key.load(Ordering::Relaxed)
    }

    /// The value, good if the version is found unchanged afterwards.
    #[inline(always)]
    pub fn value(&self) -> u64 {
        // Relaxed: validated with the lock.
        self.value.load(Ordering::Relaxed)
    }

    /// Stores a value; not durable yet. The caller holds the lock.
    pub fn set_value(&self, value: u64) {
        // Relaxed: readers validate the version.
        self.value.store(value, Ordering::Relaxed);
    }

    /// Stores a key; not durable yet. The caller holds the lock.
    pub fn set_key(&self, key: u64) {
        // Release: the value before the key, on the medium too, since both are on one line (C1);
        // recovery's view.
        self.key.store(key, Ordering::Release);
    }

    /// The first byte.
    pub fn as_ptr(&self) -> *const u8 {
        self.key.as_ptr()
    }
}

/// A segment has no place for a key in the lines where it would be looked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct NoPlace;

/// A segment of the pool. A copy is used only while its owner is pinned.
pub(super) struct Segment<'t, V: Variant, M: Machine> {
    /// Where it is.
    pub offset: u64,
    pub head: &'t Head<M>,
    variant: PhantomData<V>,
}

impl<V: Variant, M: Machine> Clone for Segment<'_, V, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V: Variant, M: Machine> Copy for Segment<'_, V, M> {}

impl<'t, V: Variant, M: Machine> Segment<'t, V, M> {
    /// Bytes of a segment.
    pub const SIZE: usize = LINE_SIZE * (1 + V::LINES);

    /// The segment at `offset` of a pool.
    ///
    /// # Safety
    /// `head` is line 0 of a record of the pool of [`Self::SIZE`] bytes, and the pool is open for `'t`.
    pub unsafe fn new(offset: u64, head: &'t Head<M>) -> Self {
        const { assert!(0 < V::PAIRS && V::PAIRS <= LINE_PAIRS) };
        const { assert!(0 < V::PROBES && V::PROBES <= V::LINES) };
        Segment { offset, head, variant: PhantomData }
    }

    /// The smallest hash it has. It never changes.
    #[inline(always)]
    pub fn low(self) -> u64 {
        // Relaxed: written before anybody could find the segment.
        self.head.low.load(Ordering::Relaxed)
    }

    /// How many bits its hashes share.
    #[inline(always)]
    pub fn depth(self) -> u32 {
        // Relaxed: validated with the lock.
        self.head.depth.load(Ordering::Relaxed) as u32
    }

    /// The number of the last buffered write that is among its pairs. The caller holds the lock.
    pub fn flushed(self) -> u64 {
        // Relaxed: only holders of the lock look at it.
        self.head.flushed.load(Ordering::Relaxed)
    }

    /// Whether a hash is one of its own.
    #[inline(always)]
    pub fn covers(self, hash: u64) -> bool {
        (hash ^ self.low()).unbounded_shr(64 - self.depth()) == 0
    }

    /// Line `index` of pairs.
    #[inline(always)]
    pub fn line(self, index: usize) -> &'t [Pair<M>] {
        debug_assert!(index < V::LINES);
        let first = (&raw const *self.head).cast::<Line<M>>();
        // SAFETY: by the promise of `new` the record has `LINES` lines behind line 0, made of atomic
        // words; `index` is below that: a remainder, or a number of a loop over all.
        let line = unsafe { &*first.wrapping_add(1 + index % V::LINES) };
        &line.0[..V::PAIRS]
    }

    /// The line where the search for a hash begins. The directory uses the first bits, this the last.
    #[inline(always)]
    pub fn home(hash: u64) -> usize {
        (((hash & u64::from(u32::MAX)) * V::LINES as u64) >> 32) as usize
    }

    /// The places of a hash, in the order in which they are tried.
    #[inline(always)]
    pub fn places(self, hash: u64) -> impl Iterator<Item = &'t Pair<M>> {
        let home = Self::home(hash);
        (0..V::PROBES).flat_map(move |step| self.line((home + step) % V::LINES))
    }

    /// The place of a key.
    #[inline(always)]
    pub fn find(self, hash: u64, key: u64) -> Option<&'t Pair<M>> {
        self.places(hash).find(|pair| pair.key() == key)
    }

    /// The first place for a hash that it has not: an empty one, or one that a split left behind (C4). The
    /// caller holds the lock.
    pub fn vacancy(self, hash: u64) -> Option<&'t Pair<M>> {
        self.places(hash).find(|pair| {
            let key = pair.key();
            let is_left_behind = key != NO_KEY && !self.covers(hash_of(key));
            if is_left_behind {
                M::mark("cceh.left_behind");
            }
            key == NO_KEY || is_left_behind
        })
    }

    /// Its pairs, all that are its own.
    pub fn pairs(self) -> impl Iterator<Item = (u64, u64)> {
        let all = (0..V::LINES).flat_map(move |line| self.line(line));
        let own = move |key| key != NO_KEY && self.covers(hash_of(key));
        all.map(|pair| (pair.key(), pair.value())).filter(move |(key, _)| own(*key))
    }

    /// Makes a record that nobody else has seen a segment that the caller holds, with the pairs of `from`
    /// that are its own, or none. Not durable yet.
    pub fn build(self, generation: u32, (low, depth): (u64, u32), from: Option<Self>) {
        self.head.lock.reset_held(generation);
        self.head.flushed.write_private(from.map_or(0, Segment::flushed));
        self.head.low.write_private(low);
        self.head.depth.write_private(u64::from(depth));
        for index in 0..V::LINES {
            for (at, pair) in self.line(index).iter().enumerate() {
                let old = from.map(|from| &from.line(index)[at]);
                let own = old.filter(|old| old.key() != NO_KEY && self.covers(hash_of(old.key())));
                let (key, value) = own.map_or((NO_KEY, 0), |own| (own.key(), own.value()));
                pair.key.write_private(key);
                pair.value.write_private(value);
            }
        }
    }

    /// Puts a buffered write among the pairs, or takes the key out; not durable yet. Gives what was
    /// changed, if something was; an error if there is no place. The caller holds the lock.
    pub fn apply(self, key: u64, value: Option<u64>) -> Result<Option<&'t Pair<M>>, NoPlace> {
        let hash = hash_of(key);
        match (self.find(hash, key), value) {
            (found, None) => {
                found.into_iter().for_each(|pair| pair.set_key(NO_KEY));
                Ok(found)
            }
            (Some(pair), Some(value)) => {
                pair.set_value(value);
                Ok(Some(pair))
            }
            (None, Some(value)) => {
                let pair = self.vacancy(hash).ok_or(NoPlace)?;
                pair.set_value(value);
                pair.set_key(key);
                Ok(Some(pair))
            }
        }
    }

    /// Notes that all buffered writes up to this one are among the pairs; not durable yet. The caller
    /// holds the lock.
    pub fn set_flushed(self, sequence: u64) {
        // Release: behind the pairs; recovery's view.
        self.head.flushed.store(sequence, Ordering::Release);
    }

    /// Stores a depth; not durable yet. The caller holds the lock.
    pub fn set_depth(self, depth: u32) {
        // Release: after what the directory says; recovery's view.
        self.head.depth.store(u64::from(depth), Ordering::Release);
    }

    /// The first byte.
    pub fn as_ptr(self) -> *const u8 {
        self.head.lock.as_ptr()
    }

    /// Asks for the lines that a search for a hash reads first.
    #[inline(always)]
    pub fn prefetch(self, hash: u64) {
        M::prefetch(self.as_ptr());
        M::prefetch(self.line(Self::home(hash))[0].as_ptr());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everleaf_machine::Hardware;

    #[test]
    fn segments_fill_their_records() {
        use crate::cceh::variant::Standard;
        assert_eq!(Segment::<Standard, Hardware>::SIZE, 16 << 10);
        assert_eq!(Segment::<Standard, Hardware>::home(0), 0);
        assert_eq!(Segment::<Standard, Hardware>::home(u64::MAX), 254);
    }
}
