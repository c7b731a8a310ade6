//! The version word of a node: its lock, what its holder is about, and how often that was.
//!
//! ```text
//!   63          36 35         8  7      6      5    4       3         2         1      0
//!  | splits      | inserts     |free|reused?|border|root|deleted|splitting|inserting|locked|
//!                                    `- REMOVED: a slot was given up since the last insert
//! ```
//!
//! | bit | set by | a reader | a writer |
//! |---|---|---|---|
//! | `LOCKED` | the thread that locks | goes on | waits |
//! | `INSERTING` | the holder, before what was read may become wrong | waits, reads again | - |
//! | `SPLITTING` | the holder, before keys leave the node | waits, looks for where the key is now | looks too |
//! | `DELETED` | the thread that takes the node out | begins at the root | begins at the root |
//! | `ROOT` | the thread that makes the root | asks for the root again if it is not set | - |
//! | `REMOVED` | a removal | - | an insert counts up before it uses a slot again |
//!
//! The holder's first store after a mark comes behind it, and the counters come behind all of them: a
//! thread that reads the same word before and after has read keys that were there at one instant.
//! Updates of values change no version.

use everleaf_machine::{Atomic, Machine, Ordering};

const LOCKED: u64 = 1;
const INSERTING: u64 = 1 << 1;
const SPLITTING: u64 = 1 << 2;
const DELETED: u64 = 1 << 3;
const ROOT: u64 = 1 << 4;
const BORDER: u64 = 1 << 5;
const REMOVED: u64 = 1 << 6;
const INSERT: u64 = 1 << 8;
const INSERTS: u64 = (SPLIT - 1) & !(INSERT - 1);
const SPLIT: u64 = 1 << 36;
const SPLITS: u64 = !(SPLIT - 1);
const DIRTY: u64 = INSERTING | SPLITTING;

/// A word that was read while nobody was inserting or splitting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Version(u64);

impl Version {
    /// Whether the node had left the tree.
    #[inline(always)]
    pub fn is_deleted(self) -> bool {
        self.0 & DELETED != 0
    }

    /// Whether the node was the root.
    #[inline(always)]
    pub fn is_root(self) -> bool {
        self.0 & ROOT != 0
    }

    /// Whether keys have left the node between this version and a later one.
    #[inline(always)]
    pub fn is_split_since(self, later: Version) -> bool {
        (self.0 ^ later.0) & (SPLITS | DELETED) != 0
    }
}

/// See the module.
#[repr(transparent)]
pub(super) struct VersionWord<M: Machine>(Atomic<u64, M>);

impl<M: Machine> VersionWord<M> {
    /// The word of a new node, which its maker holds.
    pub fn new_locked(is_border: bool, is_root: bool) -> Self {
        let kind = if is_border { BORDER } else { 0 } | if is_root { ROOT } else { 0 };
        VersionWord(Atomic::new(kind | LOCKED))
    }

    /// Whether it is that of a border node. Never changes.
    #[inline(always)]
    pub fn is_border(&self) -> bool {
        // Relaxed: the bit is that of the node's maker, whose link to it was read with acquire.
        self.0.load(Ordering::Relaxed) & BORDER != 0
    }

    /// The version, once nobody inserts or splits.
    #[inline(always)]
    #[track_caller]
    pub fn stable(&self) -> Version {
        let mut attempt = 0;
        loop {
            // Acquire: what the last holder stored is seen; pairs with the exchange in `unlock`.
            let word = self.0.load(Ordering::Acquire);
            if word & DIRTY == 0 {
                return Version(word);
            }
            M::mark("masstree.wait");
            M::spin(attempt);
            attempt += 1;
        }
    }

    /// Whether all that was read since `version` was there at one instant.
    #[inline(always)]
    #[track_caller]
    pub fn validate(&self, version: Version) -> bool {
        if M::mutant("masstree.no_validation") {
            return true;
        }
        // Acquire: the reads before stay before the load; pairs with the release fence in `mark`: a
        // thread that read what a holder stored sees its mark at least.
        M::fence(Ordering::Acquire);
        // Relaxed: ordered by the fence.
        let word = self.0.load(Ordering::Relaxed);
        // A lock alone changes nothing, nor does a slot that was given up and not used again.
        (word ^ version.0) & !(LOCKED | REMOVED) == 0
    }

    /// Takes the lock, when it is to be had.
    #[track_caller]
    pub fn lock(&self) {
        let mut attempt = 0;
        while !self.try_lock() {
            M::spin(attempt);
            attempt += 1;
        }
    }

    /// Takes the lock if it is open.
    #[inline(always)]
    #[track_caller]
    pub fn try_lock(&self) -> bool {
        // Relaxed: the exchange looks again.
        let word = self.0.load(Ordering::Relaxed);
        // Acquire: what the last holder stored is seen; pairs with the exchange in `unlock`. Relaxed on
        // failure: nothing is concluded.
        word & LOCKED == 0
            && self
                .0
                .compare_exchange(word, word | LOCKED, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
    }

    /// The word of a node whose lock the caller holds.
    #[inline(always)]
    pub fn held(&self) -> Version {
        // Relaxed: only the holder, the caller, stores it.
        let word = self.0.load(Ordering::Relaxed);
        debug_assert!(word & LOCKED != 0, "not locked");
        Version(word)
    }

    fn mark(&self, bits: u64) {
        // Relaxed: only the holder stores it; ordered by the fence.
        self.0.store(self.held().0 | bits, Ordering::Relaxed);
        // Release: the mark before all the holder stores next; pairs with the fence in `validate`.
        M::fence(Ordering::Release);
    }

    /// Says that what was read of the node may become wrong. The caller holds the lock.
    pub fn begin_insert(&self) {
        self.mark(INSERTING);
    }

    /// Says that keys are about to leave the node. The caller holds the lock.
    pub fn begin_split(&self) {
        self.mark(SPLITTING);
    }

    /// Says that the node is about to leave the tree. The caller holds the lock.
    pub fn begin_delete(&self) {
        self.mark(SPLITTING | DELETED);
    }

    /// Whether a slot was given up since the last time that a slot was used again.
    #[inline(always)]
    pub fn has_removed(&self) -> bool {
        self.held().0 & REMOVED != 0
    }

    /// Opens the lock; the counters go up for what was announced. `has_removed`: a slot was given up.
    #[track_caller]
    pub fn unlock_after(&self, has_removed: bool) {
        let mut word = self.held().0;
        if word & INSERTING != 0 {
            // The counter wraps by itself: 2^28 inserts during one read would hide one.
            word = word & !INSERTS | word.wrapping_add(INSERT) & INSERTS;
            word &= !REMOVED;
        }
        if word & SPLITTING != 0 {
            word = word.wrapping_add(SPLIT);
        }
        if has_removed {
            word |= REMOVED;
        }
        let open = word & !(LOCKED | DIRTY);
        if M::mutant("masstree.plain_unlock") {
            // Release: the holder's stores before the new version; pairs with the acquire in `stable`. The planted bug
            // is only that it is no exchange.
            self.0.store(open, Ordering::Release);
        } else {
            // AcqRel: the holder's stores before the new version; pairs with the acquire in `stable` and
            // `try_lock`. An exchange, because readers do not mind locks: what was stored must not wait
            // in a store buffer when the write has returned (T5).
            self.0.swap(open, Ordering::AcqRel);
        }
    }

    /// The same where no slot was given up.
    #[inline(always)]
    #[track_caller]
    pub fn unlock(&self) {
        self.unlock_after(false);
    }

    /// Opens the lock of a node that is as it was.
    #[track_caller]
    pub fn unlock_unchanged(&self) {
        // Release: pairs with the acquire in `try_lock`, for the thread that holds it next.
        self.0.store(self.held().0 & !LOCKED, Ordering::Release);
    }

    /// Makes the node no root. The caller holds the lock, and has begun a split.
    pub fn end_root(&self) {
        // Relaxed: only the holder stores it; made known by its opening.
        self.0.store(self.held().0 & !ROOT, Ordering::Relaxed);
    }

    /// The word. Nobody else is active.
    pub fn held_or_open(&self) -> Version {
        Version(self.0.read_private())
    }

    /// Whether nobody holds the lock. Nobody else is active.
    pub fn is_open(&self) -> bool {
        self.0.read_private() & (LOCKED | DIRTY) == 0
    }
}
