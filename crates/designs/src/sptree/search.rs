//! From a key to its leaf, and lookups.

use everleaf_alloc::Session;
use everleaf_index::{Domain, Geometry, IndexError};
use everleaf_machine::Machine;

use super::variant::Variant;
use super::{LeafAndMiddle, Tree};
use crate::node::version_lock::{Retry, Version};

/// Where to look for a key that is not in the leaf a search came to.
pub(super) enum Elsewhere {
    /// In the right neighbour: the leaf was split meanwhile.
    Right(u64),
    /// From the top: the leaf was merged away meanwhile.
    Top,
}

impl<V: Variant, G: Geometry, M: Machine> Tree<V, G, M> {
    /// The leaf for a key, as the inner tree knows it; its first lines are asked for.
    ///
    /// # Errors
    /// As [`Self::leaf_for`].
    #[inline(always)]
    pub(super) fn seek(
        &self,
        session: &mut Session<M>,
        key: u64,
    ) -> Result<LeafAndMiddle<'_, M>, IndexError> {
        let place = self.place(self.leaf_for(session, key)?);
        self.prefetch(place);
        Ok(place)
    }

    /// The place to go on, behind a leaf that is not the one for the key.
    ///
    /// # Errors
    /// As [`Self::leaf_for`].
    #[inline(always)]
    pub(super) fn seek_elsewhere(
        &self,
        session: &mut Session<M>,
        elsewhere: Elsewhere,
        key: u64,
    ) -> Result<LeafAndMiddle<'_, M>, IndexError> {
        self.move_right(elsewhere).map_or_else(|| self.seek(session, key), Ok)
    }

    /// Asks for what a search or a write reads and writes first. Where the pool is slower than memory, the
    /// leaf is not asked for before the filter was: most often it is not needed then.
    #[inline(always)]
    pub(super) fn prefetch(&self, place: LeafAndMiddle<'_, M>) {
        place.middle.prefetch(V::FILTER);
        if V::BUFFERED {
            self.buffer(place).prefetch();
        }
        if V::FILTER && self.medium.domain() != Domain::Process {
            return;
        }
        M::prefetch(place.leaf.as_ptr());
        M::prefetch(place.leaf.as_ptr().wrapping_add(64));
    }

    /// Whether a leaf is the one for the key, as far as a view of it says.
    #[inline(always)]
    pub(super) fn check_range(
        &self,
        place: LeafAndMiddle<'_, M>,
        key: u64,
    ) -> Result<(), Elsewhere> {
        if key >= place.middle.high() && !M::mutant("sptree.no_range_check") {
            let next = place.middle.next();
            return Err(if next == 0 { Elsewhere::Top } else { Elsewhere::Right(next) });
        }
        if key < place.middle.low() { Err(Elsewhere::Top) } else { Ok(()) }
    }

    /// The place to go on, unless it is from the top. The right neighbour may be one that is not known yet.
    #[inline(always)]
    pub(super) fn move_right(&self, elsewhere: Elsewhere) -> Option<LeafAndMiddle<'_, M>> {
        M::mark("sptree.move_right");
        let Elsewhere::Right(next) = elsewhere else { return None };
        if self.is_lazy() {
            return None;
        }
        let place = self.place(next);
        self.prefetch(place);
        Some(place)
    }

    /// The value of `key`.
    ///
    /// *Linearizes at* the last load before the version is found unchanged.
    ///
    /// # Errors
    /// What the log has of the leaf is damaged, or the leaf, if it was not known yet.
    #[inline(always)]
    pub(super) fn read(
        &self,
        session: &mut Session<M>,
        key: u64,
    ) -> Result<Option<u64>, IndexError> {
        let mut attempt = 0;
        let mut place = self.seek(session, key)?;
        loop {
            match self.try_read(place, key) {
                Ok(Ok(value)) => return Ok(value),
                Ok(Err(elsewhere)) => {
                    place = self.seek_elsewhere(session, elsewhere, key)?;
                }
                Err(retry) => {
                    M::mark("sptree.read_again");
                    self.restore_for_reader(place)?;
                    retry.pause::<M>(&mut attempt);
                    place = self.seek(session, key)?;
                }
            }
        }
    }

    #[inline(always)]
    fn try_read(
        &self,
        place: LeafAndMiddle<'_, M>,
        key: u64,
    ) -> Result<Result<Option<u64>, Elsewhere>, Retry> {
        let version = place.middle.view()?;
        let found = match self.check_range(place, key) {
            Ok(()) => Ok(self.look_up(place, version, key)?),
            Err(elsewhere) => Err(elsewhere),
        };
        if place.middle.is_current(version) { Ok(found) } else { Err(Retry::Now) }
    }

    /// The value of a key of the leaf's range, good if the version is found unchanged afterwards.
    #[inline(always)]
    fn look_up(
        &self,
        place: LeafAndMiddle<'_, M>,
        version: Version,
        key: u64,
    ) -> Result<Option<u64>, Retry> {
        if V::BUFFERED && place.middle.needs_restore() && !M::mutant("sptree.reads_before_restore")
        {
            return Err(Retry::Now);
        }
        if V::FILTER {
            match place.middle.filter() {
                Some(filter) if !filter.may_have(key) => return Ok(None),
                Some(_) => {}
                None => self.touch(place, version),
            }
        }
        if V::BUFFERED
            && let Some((_, value)) = self.buffer(place).find(key)
        {
            return Ok(value);
        }
        Ok(place.leaf.find(key).map(|slot| place.leaf.value(slot)))
    }

    /// Builds the filter of a leaf that nobody has touched since the pool was opened, if nobody else is
    /// at work on it.
    #[cold]
    fn touch(&self, place: LeafAndMiddle<'_, M>, version: Version) {
        if place.middle.lock.upgrade(version) {
            self.build_filter(place);
            place.middle.lock.unlock_unchanged();
        }
    }

    /// Builds the filter of a leaf, locked by the caller.
    pub(super) fn build_filter(&self, place: LeafAndMiddle<'_, M>) {
        M::mark("sptree.filter_built");
        let slots = super::layout::slots(place.leaf.bitmap());
        let keys = slots.map(|slot| place.leaf.pair(slot).0);
        if V::BUFFERED {
            let buffered = self.buffer(place).iter().map(|entry| entry.0);
            place.middle.build_filter(keys.chain(buffered));
        } else {
            place.middle.build_filter(keys);
        }
    }
}
