//! Instant resumption: opening a pool reads line 0 of each leaf and the records of the logs; a buffer is
//! rebuilt from its records when its leaf is first touched, for a read or for a write.

use everleaf_index::{Geometry, IndexError};
use everleaf_machine::Machine;

use everleaf_alloc::{AllocError, Session};

use super::LeafAndMiddle;
use super::Tree;
use super::layout::{HEAD_WORD, HIGH_MAX};
use super::state::LOCK_GENERATION;
use super::variant::Variant;

impl<V: Variant, G: Geometry, M: Machine> Tree<V, G, M> {
    /// Rebuilds the buffer of a leaf, locked by the caller.
    ///
    /// # Errors
    /// The log is damaged: a record has no predecessor, or is not what was written. Recovery has found them
    /// whole, but a medium may lose them afterwards. The leaf needs its buffer still, and the thread that comes next
    /// has the same error; other leaves are served.
    #[cold]
    pub(super) fn restore(&self, place: LeafAndMiddle<'_, M>) -> Result<(), AllocError> {
        M::mark("sptree.restore");
        let restored = self.read_records(place);
        if restored.is_err() {
            // Nobody has seen it: its leaf needs to be restored still.
            self.buffer(place).empty();
        }
        restored
    }

    fn read_records(&self, place: LeafAndMiddle<'_, M>) -> Result<(), AllocError> {
        let (middle, buffer) = (place.middle, self.buffer(place));
        let mut link = middle.head();
        let mut added = 0;
        for sequence in (middle.flushed() + 1..=middle.sequence()).rev() {
            let missing = || AllocError::Corrupt {
                offset: link,
                what: format!("record {sequence} of a leaf's buffer was expected here"),
            };
            let record = self.logs.read_found(link, sequence).ok_or_else(missing)?;
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

    /// For a reader that has to start again: if it was because the buffer of the leaf is not there yet, makes it,
    /// unless somebody else is at work on the leaf.
    #[cold]
    pub(super) fn restore_for_reader(&self, place: LeafAndMiddle<'_, M>) -> Result<(), AllocError> {
        if !V::BUFFERED || !place.middle.needs_restore() {
            return Ok(());
        }
        if !place.middle.lock.try_lock(LOCK_GENERATION) {
            return Ok(());
        }
        let needs_it = place.middle.needs_restore();
        let restored = if needs_it { self.restore(place) } else { Ok(()) };
        place.middle.lock.unlock();
        restored
    }

    /// Leaves whose buffers opening has left to be restored when they are touched, and those that it has left
    /// altogether, as far as it knows of them: it is 0 when there are none, and not before.
    pub fn unrestored(&self) -> u64 {
        self.unrestored.sum() + self.unknown_leaves()
    }

    /// Bytes of the log.
    pub fn log_bytes(&self) -> u64 {
        self.logs.bytes()
    }

    /// Restores the buffers of the next `leaves` leaves, from that of the key `from` on, as a write that changes
    /// nothing would; gives the key to go on with, if there are more leaves. For a thread in the background
    /// that begins with 0 when the tree is open: others may be at work, and [`Self::unrestored`] is how far it
    /// has come. A leaf of which the log has something damaged is passed: what is wrong is added to `damaged`, and the
    /// thread that touches the leaf is told the same.
    ///
    /// # Errors
    /// No memory for what a leaf needs: nothing is wrong with it, and the caller may try again from the same key.
    pub fn restore_next(
        &self,
        session: &mut Session<M>,
        mut from: u64,
        leaves: usize,
        damaged: &mut Vec<IndexError>,
    ) -> Result<Option<u64>, IndexError> {
        if !V::BUFFERED {
            return Ok(None);
        }
        for _ in 0..leaves {
            if from == HIGH_MAX || self.unrestored.sum() == 0 && !self.is_lazy() {
                return Ok(None);
            }
            // Pinned for one leaf: what others give up meanwhile can be used again soon.
            let mut session = session.pinned();
            match self.lock_leaf(&mut session, from) {
                Ok(place) => {
                    let low = place.middle.low();
                    from = place.middle.high();
                    place.middle.lock.unlock_unchanged();
                    self.note_known(low, from);
                }
                Err(error) if error.leaves_nothing() => return Err(error),
                Err(error) => {
                    damaged.push(error);
                    from = self.behind(&mut session, from);
                }
            }
        }
        Ok(Some(from))
    }

    /// A key behind the leaf for `key`, which is damaged.
    fn behind(&self, session: &mut Session<M>, key: u64) -> u64 {
        let high = match self.seek(session, key) {
            // Not locked: at worst the leaf has been split since, and its right part is looked at next.
            Ok(place) => {
                let (low, high) = (place.middle.low(), place.middle.high());
                // It is known, whatever its records are.
                self.note_known(low, high);
                high
            }
            // What is between it and the next one that the checkpoint knows is found from there, or not at all.
            Err(_) => self.next_in_checkpoint(key),
        };
        high.max(key.saturating_add(1))
    }

    /// Rebuilds all buffers that are not there yet, and makes all leaves known before. Others may be at work.
    ///
    /// # Errors
    /// That of the first leaf whose records are damaged; the others are restored. That of the first leaf that cannot be
    /// made known.
    pub(super) fn restore_all(&self, session: &mut Session<M>) -> Result<(), IndexError> {
        self.know_all(session)?;
        let mut all = Ok(());
        if !V::BUFFERED || self.unrestored.sum() == 0 {
            return all;
        }
        let mut offset = self.root_object.word(HEAD_WORD).read_private();
        while offset != 0 {
            let place = self.place(offset);
            let mut attempt = 0;
            // The session is pinned: a leaf that leaves the list meanwhile still leads on.
            while place.middle.needs_restore() {
                if place.middle.lock.try_lock(LOCK_GENERATION) {
                    let needs_it = place.middle.needs_restore();
                    let restored = if needs_it { self.restore(place) } else { Ok(()) };
                    place.middle.lock.unlock();
                    if let Err(error) = restored {
                        all = all.and(Err(error.into()));
                        break;
                    }
                } else if place.middle.lock.is_dead(LOCK_GENERATION) {
                    break;
                } else {
                    M::spin(attempt);
                    attempt += 1;
                }
            }
            offset = place.middle.next();
        }
        all
    }
}
