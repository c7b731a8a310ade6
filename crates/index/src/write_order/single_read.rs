//! Reads of one key, which show nothing of a batch that is under way.
//!
//! A reader looks at the stripe of its key, looks for the key, and looks at the stripe again before it shows what it
//! has found. A batch may take the stripe in between, since nobody waits for a reader where the gate is quiescent.
//! What it has written by then is not shown: the reader waits for its end, and reads again. Nor is what a batch has
//! written that was rolled back meanwhile, which was never there: where the stripe was let go behind a change since the
//! first look, a rollback of any batch counts, and where it was not, none does. So what is shown was there before the
//! batches that are under way, or it is of a batch that is over as a whole: nothing that is read next, in whatever way,
//! is older.
//!
//! Invariants:
//! - R1 the second look is behind all that is read of the entry and its record, and before anything is shown;
//! - R2 the caller is pinned from the first look on, so that no batch begins where the gate was down.

use std::cell::Cell;

use everleaf_alloc::Session;
use everleaf_machine::{Machine, Ordering};

use super::WriteOrder;

/// A read of one key, under way; see [`WriteOrder::read`].
pub struct SingleRead<'a, M: Machine> {
    order: &'a WriteOrder<M>,
    /// `None`: the gate was down.
    seen: Option<Seen>,
    /// What was read was not shown: it is to be read again, though the batch be over by now.
    was_disturbed: Cell<bool>,
}

/// What the first look has found.
#[derive(Clone, Copy)]
struct Seen {
    stripe: u32,
    /// How often keys of the stripe may have changed.
    change_count: u64,
    /// How many batches had been rolled back.
    rollback_count: u64,
}

impl<M: Machine> WriteOrder<M> {
    /// Runs `read` of `key` until what it finds is of no batch under way, with a session that is pinned. It asks
    /// [`SingleRead::may_be_shown`] when it has read the record, before it shows anything, and answers `None` if it
    /// may not, as if there were no key.
    ///
    /// *Blocking*: while a batch has the stripe of the key. It reads again where a batch of the stripe was rolled back
    /// meanwhile, or its stripe was changed and some batch rolled back.
    ///
    /// # Errors
    /// Those of `read`, unless what it read was of a batch under way: then it reads again.
    #[inline]
    pub fn read<R, E>(
        &self,
        session: &mut Session<M>,
        key: &[u8],
        mut read: impl FnMut(&mut Session<M>, &SingleRead<'_, M>) -> Result<Option<R>, E>,
    ) -> Result<Option<R>, E> {
        loop {
            let mut pinned = session.pinned();
            if let Some(single) = self.begin_read(key) {
                let found = read(&mut pinned, &single);
                if matches!(found, Ok(Some(_))) || single.may_be_shown() {
                    return found;
                }
            }
            drop(pinned);
            self.await_batch(key);
        }
    }

    /// The first look. `None`: a batch has the stripe. The caller is pinned.
    #[inline(always)]
    fn begin_read(&self, key: &[u8]) -> Option<SingleRead<'_, M>> {
        if self.is_free() {
            return Some(SingleRead { order: self, seen: None, was_disturbed: Cell::new(false) });
        }
        let stripe = self.stripe_of(key);
        let rollback_count = self.rollback_count();
        let change_count = self.stripes.changes_outside_batches(stripe)?;
        let seen = Some(Seen { stripe, change_count, rollback_count });
        Some(SingleRead { order: self, seen, was_disturbed: Cell::new(false) })
    }
}

impl<M: Machine> SingleRead<'_, M> {
    /// The second look: whether what was read by now may be shown (R1). Once it may not, it never may.
    #[inline(always)]
    pub fn may_be_shown(&self) -> bool {
        self.seen.is_none_or(|seen| {
            // Acquire: the stripe is looked at behind what was read, also what of it is read relaxed, as in
            // `Look::is_unchanged`. A reader that has read of a batch finds its stripe taken, or released, since it
            // was taken before; pairs with the exchanges of entries, and with that of an expiry.
            M::fence(Ordering::Acquire);
            let changes = self.order.stripes.changes_outside_batches(seen.stripe);
            let is_over = M::mutant("read.looks_once") || changes.is_some();
            // A batch that has released the stripe has counted its rollback before: the count is looked at second.
            let is_kept = changes == Some(seen.change_count)
                || self.order.rollback_count() == seen.rollback_count;
            let is_so = is_over && is_kept && !self.was_disturbed.get();
            self.was_disturbed.set(!is_so);
            is_so
        })
    }
}

#[cfg(test)]
mod tests {
    use everleaf_alloc::Heap;
    use everleaf_machine::Hardware;
    use everleaf_pool::{Domain, Pool};

    use super::*;

    #[test]
    fn what_a_batch_that_came_later_has_written_is_not_shown() {
        let pool = Pool::in_memory(1 << 20, 1 << 24, Domain::Process).expect("memory");
        let heap = Heap::<Hardware>::create(pool).expect("room");
        let order = WriteOrder::<Hardware>::new(64);
        let mut session = heap.session().expect("a session");
        order.raise(&heap);
        // A batch takes the stripe behind the first look, and ends, is rolled back, or neither before the second.
        for (ends, is_rolled_back, reads) in [(true, false, 1), (true, true, 2), (false, false, 2)]
        {
            let (mut count, mut held) = (0, None);
            let shown = order.read::<_, ()>(&mut session, b"key", |_, single| {
                count += 1;
                if count == 1 {
                    let stripes = order.lock_many([order.stripe_of(b"key")]);
                    if is_rolled_back {
                        order.note_rollback();
                    }
                    held = (!ends).then_some(stripes);
                }
                let may_be_shown = single.may_be_shown();
                // Or it would be waited for.
                held = None;
                Ok(may_be_shown.then_some(count))
            });
            assert_eq!(shown, Ok(Some(reads)), "{ends} {is_rolled_back}");
        }
        // Another key's batch is none of its business, though it be rolled back, nor is a write of the key alone.
        let other = (0..64).find(|number| *number != order.stripe_of(b"key")).expect("more");
        let mut count = 0;
        let shown = order.read::<_, ()>(&mut session, b"key", |_, single| {
            count += 1;
            drop(order.lock(b"key"));
            let _others = order.lock_many([other]);
            Ok(single.may_be_shown().then_some(count))
        });
        assert_eq!(shown, Ok(Some(1)));
        let mut count = 0;
        let shown = order.read::<_, ()>(&mut session, b"key", |_, single| {
            count += 1;
            let _others = order.lock_many([other]);
            order.note_rollback();
            Ok(single.may_be_shown().then_some(count))
        });
        assert_eq!(shown, Ok(Some(1)));
        // An error in what a batch had written that was rolled back is nobody's.
        let mut count = 0;
        let shown = order.read::<u32, u32>(&mut session, b"key", |_, _| {
            count += 1;
            if count == 1 {
                let _stripes = order.lock_many([order.stripe_of(b"key")]);
                order.note_rollback();
            }
            Err(count)
        });
        assert_eq!(shown, Err(2));
        order.lower();
    }
}
