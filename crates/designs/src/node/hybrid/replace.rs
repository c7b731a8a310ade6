//! Making room by putting one or two new leaves in the place of a full one, which stays as it was.
//!
//! 1. The new leaves are filled and made durable. They are locked, and so is the old one.
//! 2. The inner tree learns of the right one: a thread that looks for its keys waits. Up to here
//!    everything can be undone and fail.
//! 3. The inner tree leads to the left one instead of the old one; the link of the left neighbour, or
//!    the root object, follows, durably: the commit.
//! 4. The old leaf dies, the new ones are opened.
//!
//! Leaves are locked from right to left, so that nobody waits in a circle.

use everleaf_alloc::Session;
use everleaf_index::{Geometry, IndexError};
use everleaf_machine::{Machine, Ordering};

use super::Hybrid;
use super::leaf::LeafDesign;

impl<D: LeafDesign<M>, G: Geometry, M: Machine> Hybrid<D, G, M> {
    /// Replaces a full leaf, locked by the caller: by two if more than half of it is live, else by
    /// one. Then its lock has been opened for ever, unless there was an error.
    pub fn replace(&self, session: &mut Session<M>, offset: u64) -> Result<(), IndexError> {
        let header = D::header(self.leaf(offset));
        let pairs = D::pairs(self.context, self.leaf(offset));
        let splits = pairs.len() > self.context.capacity / 2 && pairs.len() > 1;
        let keep = if splits { pairs.len() / 2 } else { pairs.len() };
        M::mark(if splits { "hybrid.replaced_by_two" } else { "hybrid.replaced_by_one" });
        let mut right = 0;
        if splits {
            right = self.built(session, pairs[keep].0, header.next(), &pairs[keep..])?;
        }
        let next = if splits { right } else { header.next() };
        let made = self.built(session, header.low(), next, &pairs[..keep]).and_then(|left| {
            if splits && let Err(error) = self.inner.insert_separator(session, pairs[keep].0, right)
            {
                self.discard_leaf(session, left);
                return Err(error.into());
            }
            Ok(left)
        });
        let left = match made {
            Ok(left) => left,
            Err(error) => {
                if splits {
                    self.discard_leaf(session, right);
                }
                return Err(error);
            }
        };
        self.link_in_place(offset, left);
        header.lock.unlock_dead();
        D::header(self.leaf(left)).lock.unlock();
        if splits {
            D::header(self.leaf(right)).lock.unlock();
        }
        self.note_split(session, 1 + i64::from(splits));
        self.retire_leaf(session, offset);
        Ok(())
    }

    /// Puts `new` in the place of `old` in inner tree and list, durably.
    fn link_in_place(&self, old: u64, new: u64) {
        let low = D::header(self.leaf(old)).low();
        if low == 0 {
            // The first leaf: only the holder of its lock changes the root object.
            self.inner.replace_leaf(low, old, new);
            // Release: the leaf is complete; pairs with the acquire in `first_leaf`.
            self.head().store(new, Ordering::Release);
            if !M::mutant("hybrid.no_head_flush") {
                // Persist: the link before anybody writes to the new leaf.
                self.context.medium.persist(self.head().as_ptr(), 8);
            }
            return;
        }
        let before = self.lock_left_neighbour(low, old);
        self.inner.replace_leaf(low, old, new);
        let header = D::header(self.leaf(before));
        header.set_next(new);
        if !M::mutant("hybrid.no_link_flush") {
            // Persist: the link before anybody writes to the new leaf.
            self.context.medium.persist(header.next.as_ptr(), 8);
        }
        header.lock.unlock();
    }

    /// Locks the leaf whose right neighbour is `leaf`, which the caller holds.
    fn lock_left_neighbour(&self, low: u64, leaf: u64) -> u64 {
        let mut attempt = 0;
        loop {
            let before = self.inner.find_le(low - 1).leaf;
            let header = D::header(self.leaf(before));
            if header.lock.try_lock(self.context.generation) {
                if header.next() == leaf {
                    return before;
                }
                header.lock.unlock_unchanged();
            } else if !header.lock.is_dead(self.context.generation) {
                M::spin(attempt);
                attempt += 1;
            }
        }
    }
}
