//! Reads, and writes of the designs that lock a leaf for the whole of a write.

use everleaf_alloc::Session;
use everleaf_index::build::{Change, Outcome};
use everleaf_index::{Geometry, IndexError};
use everleaf_machine::Machine;

use super::Hybrid;
use super::leaf::{Applied, LeafDesign, Target};
use crate::node::version_lock::Retry;

/// How many descents of writes there are for each that lets its leaf into the larger caches.
const KEPT_ONE_IN: u32 = 8;

impl<D: LeafDesign<M>, G: Geometry, M: Machine> Hybrid<D, G, M> {
    /// Descends to the leaf for `key` and asks for its lines.
    #[inline(always)]
    pub fn descend(&self, key: u64) -> Target<'_, D, M> {
        let found = self.inner.find_le(key);
        let leaf = self.leaf(found.leaf);
        D::prefetch(leaf);
        Target { leaf, found }
    }

    /// [`Self::descend`] for a write. One leaf in so many is let into the larger caches, so that those
    /// which are met again and again get there.
    #[inline(always)]
    pub fn descend_to_write(&self, session: &mut Session<M>, key: u64) -> Target<'_, D, M> {
        let found = self.inner.find_le(key);
        let leaf = self.leaf(found.leaf);
        if session.turn().is_multiple_of(KEPT_ONE_IN) {
            D::prefetch(leaf);
        } else {
            D::prefetch_once(leaf);
        }
        Target { leaf, found }
    }

    /// The value of `key`.
    ///
    /// *Linearizes at* the last load before the view is found current.
    #[inline(always)]
    pub fn read(&self, key: u64) -> Option<u64> {
        let mut attempt = 0;
        loop {
            let target = self.descend(key);
            match self.try_read(&target, key) {
                Ok((value, _)) => return value,
                Err(retry) => retry.pause::<M>(&mut attempt),
            }
            M::mark("hybrid.read_again");
        }
    }

    /// The value of `key` in the leaf that a descent found, and the view it was read in, unless the
    /// leaf changed meanwhile or is not the right one.
    #[inline(always)]
    pub fn try_read(
        &self,
        target: &Target<'_, D, M>,
        key: u64,
    ) -> Result<(Option<u64>, D::View), Retry> {
        self.try_view(target, |view| D::search(self.context, target.leaf, view, key))
    }

    /// What `look` finds in the leaf that a descent found, and the view it was seen in, unless the
    /// leaf changed meanwhile or is not the right one.
    #[inline(always)]
    pub fn try_view<T>(
        &self,
        target: &Target<'_, D, M>,
        look: impl FnOnce(D::View) -> Result<T, Retry>,
    ) -> Result<(T, D::View), Retry> {
        let view = D::view(self.context, target.leaf)?;
        // The leaf may have been split between the descent and the view: then its version says
        // nothing about the keys that have left it.
        if !M::mutant("hybrid.no_token") && !self.inner.revalidate(target.found.token) {
            return Err(Retry::Now);
        }
        let seen = look(view)?;
        let is_current = D::is_current(self.context, target.leaf, view);
        if is_current { Ok((seen, view)) } else { Err(Retry::Now) }
    }

    /// One write with the leaf locked from beginning to end.
    ///
    /// *Linearizes at* the opening of the lock. *Durable* before.
    #[inline(always)]
    pub fn write_locked(
        &self,
        session: &mut Session<M>,
        change: &Change,
    ) -> Result<Outcome, IndexError> {
        let mut attempt = 0;
        loop {
            let target = self.descend_to_write(session, change.key);
            let lock = &D::header(target.leaf).lock;
            // A leaf that is locked may be about to be split: back to the root.
            if !lock.try_lock(self.context.generation) {
                M::mark("hybrid.write_again");
                if !lock.is_dead(self.context.generation) {
                    M::spin(attempt);
                    attempt += 1;
                }
                continue;
            }
            if !M::mutant("hybrid.no_revalidation") && !self.inner.revalidate(target.found.token) {
                lock.unlock_unchanged();
                continue;
            }
            match D::apply(self.context, target.leaf, change) {
                Applied::Done(outcome) => {
                    if !outcome.changed {
                        lock.unlock_unchanged();
                    } else if !D::drop_empty(self, session, target.found.leaf) {
                        lock.unlock();
                    }
                    return Ok(outcome);
                }
                Applied::Full => {
                    let room = D::make_room(self, session, target.found.leaf);
                    if !lock.is_dead(self.context.generation) {
                        lock.unlock();
                    }
                    room?;
                }
            }
        }
    }
}
