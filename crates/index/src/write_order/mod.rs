//! Order among writers, where it is needed.
//!
//! The trees are lock-free, and a write of one key waits for no other. But a batch of many keys, a
//! view of the past and a log of all changes need to know which of two writes came first, and to
//! keep other threads away from a key for a moment. So there is a [`OrderingGate`]: while it is down, a write costs
//! one more load, and while it is raised, writes take the [stripe](Stripes) of their key.
//!
//! | operation | does |
//! |---|---|
//! | a write | pins, finds the gate down: writes without a lock |
//! | a write | finds it raised: unpins, takes its stripe, pins, writes |
//! | a read | finds it raised: waits while a batch has its stripe, reads, looks again ([`SingleRead`]) |
//! | a read of several keys at one moment | finds it raised: looks at all stripes, reads, and looks again ([`Look`]) |
//! | the same, disturbed again and again | raises the gate, takes all stripes to read, reads |
//! | a batch | raises the gate, takes the stripes of all its keys, writes ([`batch`](crate::Journal)) |
//! | a view | raises the gate, takes all stripes for an instant |
//!
//! *Why no get that begins later sees half a batch*: a batch changes its first key when it has all stripes. A thread
//! that has seen one of its changes therefore finds the stripes of all its keys taken until the last
//! of them is changed, and so does a thread that learns of the change from it. A get that began before looks at its
//! stripe once more before it shows anything. The exception is a scan, which looks at no stripe (`docs/store.md`).
//!
//! *No deadlock*: a session is entered before a stripe is taken, several stripes are taken in
//! ascending order, and no thread is pinned while it waits for a stripe or for pins.

mod gate;
mod look;
mod single_read;
mod stripes;

pub use gate::OrderingGate;
pub use look::Look;
pub use single_read::SingleRead;
pub use stripes::{StripeGuard, Stripes, StripesGuard};

use everleaf_alloc::Heap;
use everleaf_machine::{Atomic, Machine, Ordering};

use crate::bytes::record;

/// Stripes of an ordinary store.
const STRIPE_COUNT: usize = 1024;
/// Writes of one stripe that are told at once.
const TOLD_AT_ONCE: u32 = 16;
/// Writes after which a gate that is only kept raised is lowered: as many as pay for raising it again.
const KEEP_RAISED_WRITES: u64 = 1024;

/// The gate and the stripes of one open pool. Shared by reference between threads.
pub struct WriteOrder<M: Machine> {
    gate: OrderingGate<M>,
    stripes: Stripes<M>,
    /// Writes that had to take their stripe although no batch came.
    idle_writes: Atomic<u64, M>,
    /// Batches that were rolled back.
    rollbacks: Atomic<u64, M>,
}

impl<M: Machine> Default for WriteOrder<M> {
    fn default() -> Self {
        Self::new(STRIPE_COUNT)
    }
}

impl<M: Machine> WriteOrder<M> {
    /// With so many stripes; a power of two.
    pub fn new(stripe_count: usize) -> Self {
        WriteOrder {
            gate: OrderingGate::default(),
            stripes: Stripes::new(stripe_count),
            idle_writes: Atomic::new(0),
            rollbacks: Atomic::new(0),
        }
    }

    /// How many batches were rolled back.
    pub fn rollback_count(&self) -> u64 {
        // Acquire: a thread that reads this number reads nothing of those that it counts; pairs with the addition
        // below.
        self.rollbacks.load(Ordering::Acquire)
    }

    /// Counts a batch that was rolled back. The caller still has its stripes: a thread that has read of it, and
    /// then takes, or waits for, the stripe of one of its keys, finds it counted.
    pub fn note_rollback(&self) {
        // Release: behind what was put back; pairs with the load above.
        self.rollbacks.fetch_add(1, Ordering::Release);
    }

    /// Whether the caller, pinned since before this call, may go on without a stripe.
    #[inline(always)]
    pub fn is_free(&self) -> bool {
        !self.gate.is_raised()
    }

    /// Raises the gate; see [`OrderingGate::raise`]. To be lowered again.
    pub fn raise(&self, heap: &Heap<M>) {
        self.gate.raise(heap);
    }

    /// Raises the gate unless that means to wait for the caller itself; see [`OrderingGate::try_raise`].
    pub fn try_raise(&self, heap: &Heap<M>, is_pinned: impl FnOnce() -> bool) -> bool {
        self.gate.try_raise(heap, is_pinned)
    }

    /// Ends one raising.
    pub fn lower(&self) {
        self.gate.lower(false);
    }

    /// Ends the raising of a batch: the gate stays raised until many writes came and no batch.
    pub fn lower_after_batch(&self) {
        // Relaxed: a count that decides nothing but when to lower.
        self.idle_writes.store(0, Ordering::Relaxed);
        self.gate.lower(true);
    }

    /// Lowers a gate that nobody has raised and that is only kept raised.
    pub fn lower_if_idle(&self) {
        self.gate.lower_if_idle();
    }

    /// The hash that decides on the stripe of a key.
    #[inline]
    pub fn hash_of(&self, key: &[u8]) -> u64 {
        record::hash(key)
    }

    /// The stripe of keys with this hash.
    #[inline]
    pub fn stripe_of_hash(&self, hash: u64) -> u32 {
        self.stripes.number(hash)
    }

    /// The stripe of a key.
    #[inline]
    pub fn stripe_of(&self, key: &[u8]) -> u32 {
        self.stripes.number(record::hash(key))
    }

    /// Takes the stripe of a key for one write. The caller is not pinned.
    pub fn lock(&self, key: &[u8]) -> StripeGuard<'_, M> {
        let guard = self.stripes.lock(self.stripe_of(key));
        if guard.count_to(TOLD_AT_ONCE) && self.gate.is_only_kept() {
            let told = u64::from(TOLD_AT_ONCE);
            // Relaxed: as in `lower_after_batch`.
            if self.idle_writes.fetch_add(told, Ordering::Relaxed) + told >= KEEP_RAISED_WRITES {
                self.gate.lower_if_idle();
            }
        }
        guard
    }

    /// Takes the stripes of a batch. The caller has raised the gate and is not pinned.
    pub fn lock_many(&self, stripes: impl IntoIterator<Item = u32>) -> StripesGuard<'_, M> {
        self.stripes.lock_many(stripes)
    }

    /// Takes the stripes of keys that are read: nobody writes them until the guard goes, and single readers pass.
    /// The caller has raised the gate and is not pinned.
    pub fn lock_to_read<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k [u8]>,
    ) -> StripesGuard<'_, M> {
        self.stripes.lock_to_read(keys.into_iter().map(|key| self.stripe_of(key)))
    }

    /// Takes all stripes. The caller has raised the gate and is not pinned.
    pub fn lock_all(&self) -> StripesGuard<'_, M> {
        self.stripes.lock_all()
    }

    /// Waits until no batch has the stripe of `key`. The caller is not pinned.
    fn await_batch(&self, key: &[u8]) {
        let number = self.stripe_of(key);
        let mut attempt = 0;
        while self.stripes.is_in_batch(number) {
            M::spin(attempt);
            attempt += 1;
        }
    }
}
