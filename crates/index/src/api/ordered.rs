//! What every tree of 64-bit integers can do, whatever its design.
//!
//! [`OrderedIndex`] has the operations and can be used as `dyn OrderedIndex<M>`; [`Design`] adds
//! what is known without an instance: name, limits, promise, and how an instance is made or found
//! again. A design that is listed in a [`Registry`](crate::Registry) is known to the
//! [`Trees`](crate::Trees) that are opened with it. It implements [`Operations`](crate::build::Operations),
//! and the checks that all designs share are made for it.
//!
//! # How a tree keeps its nodes
//! A node in the pool is a record ([`Session::allocate_record`]) of 256, 512, 1024, 2048 or 4096
//! bytes: such a record is 64-byte aligned, and its contents are those of its last life. A node
//! that no other thread has seen goes back by `free_record`; one that was reachable by
//! `retire_record`, after its unlinking is durable, and is reused when no pinned session can hold
//! it. Everything starts at the tree's [`RootObject`](crate::RootObject), whose place the pool's directory
//! keeps beside the design's number. Nothing says which records are in use but this: recovery (and
//! the audit of a check) has every tree mark its root object and all nodes it can reach, each once, and
//! what is not marked is free. So allocated is reachable, and no crash can leak.

use std::ops::RangeInclusive;

use everleaf_alloc::{AllocError, Recovery, Session};
use everleaf_machine::{Hardware, Machine};
use everleaf_pool::RootIndex;

use crate::api::change::{Change, Exchange, Intent, Outcome};
use crate::api::check_report::CheckReport;
use crate::api::error::IndexError;
use crate::nbtree::TreeShape;

/// Which calls can keep which others from finishing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Nobody: a thread that stops for ever stops nobody else.
    LockFree,
    /// Writers can stop writers; readers finish always.
    LockFreeReads,
    /// A thread that stops for ever may stop others.
    Blocking,
    /// One thread at a time: calls of several threads are serialised by one lock.
    Serial,
}

/// Which of the things a reader sees survive a crash in the domain `Adr`. (In the others a store
/// that can be seen is durable.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// Everything a reader has seen survives: durably linearizable.
    Committed,
    /// A reader may see what a write in progress has stored and a crash takes back. Every call that
    /// returned still survives.
    Uncommitted,
    /// A write is in DRAM for a while after its call returned, in every domain. A crash, or an end without
    /// closing the pool, takes it back: then each key is as it was at some moment since the last
    /// [`OrderedIndex::persist_deferred`] began that has returned.
    Deferred,
    /// Nothing survives, whatever a call said: all of the tree is in DRAM. A pool that has one is refused when
    /// it is opened again.
    Volatile,
}

/// Whether a write looks at what is there before it stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// It does: an insert adds only what is absent, an update replaces only what is there, and both
    /// say what they found.
    Conditional,
    /// It does not. Insert, update and upsert all set the value, remove leaves the key absent, and
    /// each says that it changed the tree and found nothing, whatever was there. Only
    /// compare-and-exchange looks.
    Blind,
}

/// In which order a design can give its pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scans {
    /// Ascending and descending.
    BothWays,
    /// Ascending only: [`OrderedIndex::scan_back`] is refused.
    Upwards,
    /// In none: a hash index. Both scans are refused with [`IndexError::Unsupported`]; all else works.
    Never,
}

/// What is known about a design without an instance of it.
#[derive(Clone, Debug)]
pub struct DesignInfo {
    /// Its name in lower case: `fast-fair`.
    pub name: &'static str,
    /// Its number in the pool's directory. A part of the format.
    pub kind: u16,
    /// The keys it can hold.
    pub keys: RangeInclusive<u64>,
    /// The values it can hold.
    pub values: RangeInclusive<u64>,
    /// Which calls can keep which others from finishing.
    pub progress: Progress,
    /// What readers see.
    pub reads: Reads,
    /// Whether writes look before they store.
    pub writes: Writes,
    /// Which scans there are.
    pub scans: Scans,
}

/// A map from `u64` to `u64` in a pool: ordered, unless [`DesignInfo::scans`] says that it is a hash index.
///
/// *Thread safety*: shared by reference; each thread brings its own session of the same heap.
/// *Durable*: a call that returned survives what the pool's domain promises, unless [`DesignInfo::reads`] says
/// less. *Errors* of all
/// calls: [`IndexError::KeyOutOfRange`], [`IndexError::ValueOutOfRange`] outside of the limits of
/// [`DesignInfo`]; [`IndexError::ReadOnly`]; no space, and then nothing was changed;
/// [`IndexError::Removed`].
pub trait OrderedIndex<M: Machine>: Send + Sync {
    /// Name, limits and promise.
    fn info(&self) -> DesignInfo;

    /// The value of `key`.
    ///
    /// # Errors
    /// As all calls.
    fn get(&self, session: &mut Session<M>, key: u64) -> Result<Option<u64>, IndexError>;

    /// Performs one write: `value` is what is stored, if something is. Returns whether the tree
    /// changed, and the value that was there. All other writes are this one.
    ///
    /// # Errors
    /// As all calls.
    fn change(
        &self,
        session: &mut Session<M>,
        key: u64,
        intent: Intent,
        value: u64,
    ) -> Result<Outcome, IndexError>;

    /// Adds `key` unless it is there. Returns the value that was there, if any: then nothing was
    /// changed.
    ///
    /// # Errors
    /// As all calls.
    #[inline]
    fn insert(
        &self,
        session: &mut Session<M>,
        key: u64,
        value: u64,
    ) -> Result<Option<u64>, IndexError> {
        Ok(self.change(session, key, Intent::Insert, value)?.old)
    }

    /// Replaces the value of `key` if it is there. Returns the old value.
    ///
    /// # Errors
    /// As all calls.
    #[inline]
    fn update(
        &self,
        session: &mut Session<M>,
        key: u64,
        value: u64,
    ) -> Result<Option<u64>, IndexError> {
        Ok(self.change(session, key, Intent::Update, value)?.old)
    }

    /// Sets the value of `key`. Returns the old value.
    ///
    /// # Errors
    /// As all calls.
    #[inline]
    fn upsert(
        &self,
        session: &mut Session<M>,
        key: u64,
        value: u64,
    ) -> Result<Option<u64>, IndexError> {
        Ok(self.change(session, key, Intent::Upsert, value)?.old)
    }

    /// Removes `key`. Returns its value.
    ///
    /// # Errors
    /// As all calls.
    #[inline]
    fn remove(&self, session: &mut Session<M>, key: u64) -> Result<Option<u64>, IndexError> {
        Ok(self.change(session, key, Intent::Remove, 0)?.old)
    }

    /// Replaces the value of `key` by `new` if it is `expected`.
    ///
    /// # Errors
    /// As all calls.
    #[inline]
    fn compare_exchange(
        &self,
        session: &mut Session<M>,
        key: u64,
        expected: u64,
        new: u64,
    ) -> Result<Exchange, IndexError> {
        Ok(self.change(session, key, Intent::Exchange(expected), new)?.exchange())
    }

    /// Up to `limit` pairs from `from` (inclusive) on, ascending, appended to `pairs`. Each pair was
    /// there at some moment of the call; a key that was there all the time is not missed.
    ///
    /// # Errors
    /// [`IndexError::Unsupported`] from a hash index ([`Scans::Never`]); as all calls.
    fn scan(
        &self,
        session: &mut Session<M>,
        from: u64,
        limit: usize,
        pairs: &mut Vec<(u64, u64)>,
    ) -> Result<(), IndexError>;

    /// As [`Self::scan`], descending. Only where [`DesignInfo::scans`] says so.
    ///
    /// # Errors
    /// [`IndexError::Unsupported`]; as all calls.
    fn scan_back(
        &self,
        session: &mut Session<M>,
        from: u64,
        limit: usize,
        pairs: &mut Vec<(u64, u64)>,
    ) -> Result<(), IndexError>;

    /// The values of many keys: `values[i]` for `keys[i]`. As separate gets in every other respect.
    ///
    /// # Errors
    /// As all calls.
    ///
    /// # Panics
    /// If `values` is shorter than `keys`.
    fn get_many(
        &self,
        session: &mut Session<M>,
        keys: &[u64],
        values: &mut [Option<u64>],
    ) -> Result<(), IndexError>;

    /// Performs many writes, in order: `outcomes[i]` is that of `changes[i]`. As separate changes in every
    /// other respect: a crash, or another thread, may come between two of them.
    ///
    /// # Errors
    /// As all calls. Then all writes before the one that failed were made and have their outcomes, and
    /// none behind it was.
    ///
    /// # Panics
    /// If `outcomes` is shorter than `changes`.
    fn write_many(
        &self,
        session: &mut Session<M>,
        changes: &[Change],
        outcomes: &mut [Outcome],
    ) -> Result<(), IndexError>;

    /// Makes all that was written before the call durable, in a tree that defers that ([`Reads::Deferred`]). In
    /// all others it is so already, and nothing is done. Closing a pool calls it.
    ///
    /// # Errors
    /// As all calls. Then some of it may not be durable.
    fn persist_deferred(&self, session: &mut Session<M>) -> Result<(), IndexError> {
        let _ = session;
        Ok(())
    }

    /// Bytes of DRAM that the tree takes besides the nodes that sessions allocate. O(1).
    fn table_bytes(&self) -> u64 {
        0
    }

    /// Leaves whose parts in DRAM opening has left to be made when they are first touched, or by
    /// [`Self::restore_next`]. O(1).
    fn unrestored(&self) -> u64 {
        0
    }

    /// Makes what opening has left of the next `leaves` leaves, from that of the key `from` on; gives the key to go
    /// on with, if there are more. For a thread in the background, which begins with 0 when the tree is open: others
    /// may be at work, and [`Self::unrestored`] says how far it has come. A leaf that is damaged is passed: what is
    /// wrong with it is added to `damaged`, it stays unrestored, and an operation that touches it is told the same.
    ///
    /// # Errors
    /// As all calls.
    fn restore_next(
        &self,
        session: &mut Session<M>,
        from: u64,
        leaves: usize,
        damaged: &mut Vec<IndexError>,
    ) -> Result<Option<u64>, IndexError> {
        let _ = (session, from, leaves, damaged);
        Ok(None)
    }

    /// Number of keys; exact when no writer is active. Some designs have to count. What opening at once has left is
    /// restored for it: the first call is O(leaves) then, and *blocking*, whatever [`DesignInfo::progress`] says: it
    /// waits for threads that are about to count the keys of a leaf.
    ///
    /// # Errors
    /// As all calls.
    fn len(&self, session: &mut Session<M>) -> Result<u64, IndexError>;

    /// How the tree is built. Restores and waits as [`Self::len`].
    ///
    /// # Errors
    /// As all calls.
    fn shape(&self, session: &mut Session<M>) -> Result<TreeShape, IndexError>;

    /// Walks the whole tree, adds what it finds to `report`, and marks in `used` what the tree uses.
    /// Nobody else is active.
    ///
    /// # Errors
    /// The check itself could not be made.
    fn check(
        &self,
        session: &mut Session<M>,
        used: &Recovery<M>,
        report: &mut CheckReport,
    ) -> Result<(), IndexError>;

    /// Gives everything the tree uses in the pool back. Nobody uses the tree any more, and the pool's
    /// directory does not name it, durably.
    fn free_all(&self, session: &mut Session<M>);
}

/// An [`OrderedIndex`] that can be made and found again.
pub trait Design<M: Machine = Hardware>: OrderedIndex<M> + Sized + 'static {
    /// Name, limits and promise.
    const INFO: DesignInfo;

    /// What goes wrong when several threads use a tree, or when the machine stops, in a sentence; nothing where
    /// every call is atomic and durable.
    const CAVEAT: Option<&'static str> = None;

    /// A new, empty tree. It survives a crash once the pool's directory has its root value.
    ///
    /// # Errors
    /// No space; then nothing is left behind.
    fn create(session: &mut Session<M>) -> Result<Self, IndexError>;

    /// The tree of this root value, after a crash or a clean end, on up to `threads` threads. Marks
    /// what the tree uses, unless [`Self::MARKS_LATER`].
    ///
    /// # Errors
    /// Damage that makes the tree unreadable.
    fn recover(
        session: &mut Session<M>,
        recovery: &Recovery<M>,
        root: u32,
        threads: usize,
    ) -> Result<Self, IndexError>;

    /// As [`Self::recover`] and soon done: it may leave leaves to be restored when they are first touched, or by
    /// [`OrderedIndex::restore_next`].
    ///
    /// # Errors
    /// As there; damage within a leaf that was left is an error of whatever touches it.
    fn recover_at_once(
        session: &mut Session<M>,
        recovery: &Recovery<M>,
        root: u32,
        threads: usize,
    ) -> Result<Self, IndexError> {
        Self::recover(session, recovery, root, threads)
    }

    /// What the pool's directory keeps of the tree.
    fn root_value(&self) -> u32;

    /// Tells a tree that nobody else has seen where the pool's directory has it.
    fn attach(&mut self, place: RootIndex) {
        let _ = place;
    }

    /// Whether [`Self::recover`] touches so little that [`Self::mark`] has to be called afterwards.
    const MARKS_LATER: bool = false;

    /// Whether all that this tree uses was marked when it was recovered: one that could have been opened at once, and
    /// was not.
    fn has_marked(&self) -> bool {
        !Self::MARKS_LATER
    }

    /// Marks what the tree uses. Nobody else is active.
    ///
    /// # Errors
    /// Damage.
    fn mark(&self, session: &mut Session<M>, used: &Recovery<M>) -> Result<(), AllocError> {
        let _ = (session, used);
        Ok(())
    }
}

impl DesignInfo {
    /// Refuses a key that the design cannot hold.
    ///
    /// # Errors
    /// [`IndexError::KeyOutOfRange`].
    #[inline(always)]
    pub fn check_key(&self, key: u64) -> Result<(), IndexError> {
        if self.keys.contains(&key) { Ok(()) } else { Err(IndexError::KeyOutOfRange(key)) }
    }

    /// Refuses a value that the design cannot hold.
    ///
    /// # Errors
    /// [`IndexError::ValueOutOfRange`].
    #[inline(always)]
    pub fn check_value(&self, value: u64) -> Result<(), IndexError> {
        if self.values.contains(&value) { Ok(()) } else { Err(IndexError::ValueOutOfRange(value)) }
    }
}
