//! Instant resumption: opening a pool reads line 0 of each leaf and the records of the logs; a buffer is
//! rebuilt from its records when its leaf is first touched, for a read or for a write.

use everleaf_index::Geometry;
use everleaf_machine::Machine;

use everleaf_alloc::{AllocError, Session};

use super::Place;
use super::Tree;
use super::layout::{HEAD_WORD, HIGH_MAX};
use super::state::LOCK_GENERATION;
use super::variant::Variant;
use crate::node::version_lock::{Retry, Version};

impl<V: Variant, G: Geometry, M: Machine> Tree<V, G, M> {
    /// Rebuilds the buffer of a leaf, locked by the caller, whose records recovery has found to be whole.
    #[cold]
    pub(super) fn restore(&self, place: Place<'_, M>) {
        self.try_restore(place).expect("recovery has found all records of the leaf (S9)");
    }

    /// Rebuilds the buffer of a leaf, locked by the caller.
    ///
    /// # Errors
    /// The log is damaged: a record has no predecessor.
    pub(super) fn try_restore(&self, place: Place<'_, M>) -> Result<(), AllocError> {
        M::mark("sptree.restore");
        let (middle, buffer) = (place.middle, self.buffer(place));
        let mut link = middle.head();
        let mut added = 0;
        for sequence in (middle.flushed() + 1..=middle.sequence()).rev() {
            let missing = || AllocError::Corrupt {
                offset: link,
                what: format!("record {sequence} of a leaf's buffer was expected here"),
            };
            let record = self.logs.read(link, sequence).ok_or_else(missing)?;
            let is_ours = record.key >= middle.low()
                && (record.key < middle.high() || M::mutant("sptree.no_range_skip"));
            // The newest record of a key is met first.
            if is_ours && buffer.find(record.key).is_none() {
                if buffer.len() == Self::BUFFER_CAPACITY {
                    return Err(missing());
                }
                buffer.put(None, (record.key, record.value));
                let was_there = place.leaf.find(record.key).is_some();
                added += i64::from(record.value.is_some()) - i64::from(was_there);
            }
            link = record.link;
        }
        self.keys.add(usize::MAX, added);
        self.unrestored.add(usize::MAX, -1);
        middle.set_restored();
        Ok(())
    }

    /// For a reader that came to a leaf whose buffer is not there yet: it has to start again.
    #[cold]
    pub(super) fn restore_for_reader(&self, place: Place<'_, M>, version: Version) -> Retry {
        if place.middle.lock.upgrade(version) {
            // A writer that found nothing to change has left the version as it was.
            if place.middle.needs_restore() {
                self.restore(place);
            }
            place.middle.lock.unlock();
        }
        Retry::Now
    }

    /// Leaves whose buffers opening has left to be restored when they are touched.
    pub fn unrestored(&self) -> u64 {
        self.unrestored.sum()
    }

    /// Bytes of the log.
    pub fn log_bytes(&self) -> u64 {
        self.logs.bytes()
    }

    /// Restores the buffers of the next `leaves` leaves, from that of the key `from` on, as a write that changes
    /// nothing would; gives the key to go on with, if there are more leaves. For a thread in the background
    /// that begins with 0 when the tree is open: others may be at work, and [`Self::unrestored`] is how far it
    /// has come.
    pub fn restore_next(
        &self,
        session: &mut Session<M>,
        mut from: u64,
        leaves: usize,
    ) -> Option<u64> {
        if !V::BUFFERED {
            return None;
        }
        for _ in 0..leaves {
            if self.unrestored.sum() == 0 || from == HIGH_MAX {
                return None;
            }
            // Pinned for one leaf: what others give up meanwhile can be used again soon.
            let _pinned = session.pinned();
            let place = self.lock_leaf(from);
            from = place.middle.high();
            place.middle.lock.unlock_unchanged();
        }
        Some(from)
    }

    /// Makes all buffers again that are not there yet. Others may be at work.
    pub(super) fn restore_all(&self) {
        if !V::BUFFERED || self.unrestored.sum() == 0 {
            return;
        }
        let mut offset = self.root_object.word(HEAD_WORD).read_private();
        while offset != 0 {
            let place = self.place(offset);
            let mut attempt = 0;
            // The session is pinned: a leaf that leaves the list meanwhile still leads on.
            while place.middle.needs_restore() {
                if place.middle.lock.try_lock(LOCK_GENERATION) {
                    if place.middle.needs_restore() {
                        self.restore(place);
                    }
                    place.middle.lock.unlock();
                } else if place.middle.lock.is_dead(LOCK_GENERATION) {
                    break;
                } else {
                    M::spin(attempt);
                    attempt += 1;
                }
            }
            offset = place.middle.next();
        }
    }
}
