//! The part of a call that is the same for all designs: the limits of keys and values, the pin, and the count of
//! keys.
//!
//! A design implements [`Operations`]; it is an [`OrderedIndex`] by that. The checks are made with its constant
//! [`DesignInfo`], so that the compiler removes those that cannot fail: a design that holds all keys pays nothing.

use everleaf_alloc::{Recovery, Session};
use everleaf_machine::Machine;

use crate::api::change::{Change, Intent, Outcome};
use crate::api::check_report::CheckReport;
use crate::api::error::IndexError;
use crate::api::ordered::{Design, DesignInfo, OrderedIndex, Scans};
use crate::nbtree::TreeShape;
use crate::once::once;

/// The direction of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Ascending.
    Up,
    /// Descending.
    Down,
}

/// What a design does in a call, after the checks that all designs share.
///
/// Keys and values are within the limits of [`Design::INFO`], nothing is written unless [`Self::is_writable`], and
/// the session is pinned unless [`Self::PINS_ITSELF`]. What is not said here is as in [`OrderedIndex`].
pub trait Operations: Design<<Self as Operations>::Machine> {
    /// The machine of the pool.
    type Machine: Machine;

    /// Whether calls pin the session where they have to: for a design that gives its pin up while it waits.
    const PINS_ITSELF: bool = false;

    /// Whether the pool may be written.
    fn is_writable(&self) -> bool;

    /// The value of `key`.
    ///
    /// # Errors
    /// What is stored is damaged.
    fn read(
        &self,
        session: &mut Session<Self::Machine>,
        key: u64,
    ) -> Result<Option<u64>, IndexError>;

    /// Performs one write. Its effect on the number of keys is passed to [`Self::count`].
    ///
    /// # Errors
    /// No space; then nothing was changed.
    fn write(
        &self,
        session: &mut Session<Self::Machine>,
        change: &Change,
    ) -> Result<Outcome, IndexError>;

    /// Adds to the number of keys. Nothing is done in a design that keeps none.
    #[inline(always)]
    fn count(&self, session: &Session<Self::Machine>, growth: i64) {
        let _ = (session, growth);
    }

    /// Appends up to `limit` pairs (at least one) from `from` on, which is not beyond the last key that the design
    /// can hold. Not called with a direction that [`DesignInfo::scans`] does not have.
    ///
    /// # Errors
    /// What is stored is damaged.
    fn read_pairs(
        &self,
        session: &mut Session<Self::Machine>,
        way: Way,
        from: u64,
        limit: usize,
        pairs: &mut Vec<(u64, u64)>,
    ) -> Result<(), IndexError> {
        let _ = (session, way, from, limit, pairs);
        Err(NO_ORDER)
    }

    /// As [`OrderedIndex::get_many`], with as many values as keys. The session is not pinned.
    ///
    /// # Errors
    /// As there.
    fn get_many(
        &self,
        session: &mut Session<Self::Machine>,
        keys: &[u64],
        values: &mut [Option<u64>],
    ) -> Result<(), IndexError> {
        get_each(self, session, keys, values)
    }

    /// As [`OrderedIndex::write_many`], with as many outcomes as changes. The session is not pinned.
    ///
    /// # Errors
    /// As there.
    fn write_many(
        &self,
        session: &mut Session<Self::Machine>,
        changes: &[Change],
        outcomes: &mut [Outcome],
    ) -> Result<(), IndexError> {
        change_each(self, session, changes, outcomes)
    }

    /// As [`OrderedIndex::persist_deferred`], in a pool that may be written. The session is not pinned.
    ///
    /// # Errors
    /// As there.
    fn persist_deferred(&self, session: &mut Session<Self::Machine>) -> Result<(), IndexError> {
        let _ = session;
        Ok(())
    }

    /// As [`OrderedIndex::table_bytes`].
    fn table_bytes(&self) -> u64 {
        0
    }

    /// As [`OrderedIndex::unrestored`].
    fn unrestored(&self) -> u64 {
        0
    }

    /// As [`OrderedIndex::restore_next`]. The session is not pinned.
    ///
    /// # Errors
    /// As there.
    fn restore_next(
        &self,
        session: &mut Session<Self::Machine>,
        from: u64,
        leaves: usize,
        damaged: &mut Vec<IndexError>,
    ) -> Result<Option<u64>, IndexError> {
        let _ = (session, from, leaves, damaged);
        Ok(None)
    }

    /// As [`OrderedIndex::len`]. The session is not pinned.
    ///
    /// # Errors
    /// What is stored is damaged.
    fn len(&self, session: &mut Session<Self::Machine>) -> Result<u64, IndexError>;

    /// As [`OrderedIndex::shape`]. The session is not pinned.
    ///
    /// # Errors
    /// What is stored is damaged.
    fn shape(&self, session: &mut Session<Self::Machine>) -> Result<TreeShape, IndexError>;

    /// As [`OrderedIndex::check`].
    ///
    /// # Errors
    /// As there.
    fn check(
        &self,
        session: &mut Session<Self::Machine>,
        used: &Recovery<Self::Machine>,
        report: &mut CheckReport,
    ) -> Result<(), IndexError>;

    /// As [`OrderedIndex::free_all`].
    fn free_all(&self, session: &mut Session<Self::Machine>);
}

/// What a hash index says when it is asked for pairs in order.
const NO_ORDER: IndexError = IndexError::Unsupported("order of its keys, and so no scans");
/// The same of a design that scans ascending only.
const NO_WAY_BACK: IndexError = IndexError::Unsupported("way of scanning backwards");

/// Gets one key after the other: compiled once for all designs that do it so.
fn get_each<M: Machine>(
    tree: &dyn OrderedIndex<M>,
    session: &mut Session<M>,
    keys: &[u64],
    values: &mut [Option<u64>],
) -> Result<(), IndexError> {
    for (key, value) in keys.iter().zip(values) {
        *value = tree.get(session, *key)?;
    }
    Ok(())
}

/// As [`get_each`], makes one change after the other.
fn change_each<M: Machine>(
    tree: &dyn OrderedIndex<M>,
    session: &mut Session<M>,
    changes: &[Change],
    outcomes: &mut [Outcome],
) -> Result<(), IndexError> {
    for (change, outcome) in changes.iter().zip(outcomes) {
        *outcome = tree.change(session, change.key, change.intent, change.value)?;
    }
    Ok(())
}

/// Reads in a session that is pinned.
#[inline(always)]
fn read_pinned<T: Operations>(
    tree: &T,
    session: &mut Session<T::Machine>,
    key: u64,
) -> Result<Option<u64>, IndexError> {
    if T::PINS_ITSELF { tree.read(session, key) } else { tree.read(&mut session.pinned(), key) }
}

/// Performs a write in a session that is pinned, and counts.
#[inline(always)]
fn write_pinned<T: Operations>(
    tree: &T,
    session: &mut Session<T::Machine>,
    change: &Change,
) -> Result<Outcome, IndexError> {
    match T::PINS_ITSELF {
        true => write_counted(tree, session, change),
        false => write_counted(tree, &mut session.pinned(), change),
    }
}

/// Performs a write and counts.
#[inline(always)]
fn write_counted<T: Operations>(
    tree: &T,
    session: &mut Session<T::Machine>,
    change: &Change,
) -> Result<Outcome, IndexError> {
    let outcome = tree.write(session, change)?;
    match outcome.growth(change.intent) {
        0 => {}
        growth => tree.count(session, growth),
    }
    Ok(outcome)
}

/// A scan from a key that the design can hold, in a direction that it has.
#[inline(always)]
fn scan_within<T: Operations>(
    tree: &T,
    session: &mut Session<T::Machine>,
    way: Way,
    from: u64,
    limit: usize,
    pairs: &mut Vec<(u64, u64)>,
) -> Result<(), IndexError> {
    let last = *<T as Design<T::Machine>>::INFO.keys.end();
    if limit == 0 || (way == Way::Up && from > last) {
        return Ok(());
    }
    let from = from.min(last);
    if T::PINS_ITSELF {
        tree.read_pairs(session, way, from, limit, pairs)
    } else {
        tree.read_pairs(&mut session.pinned(), way, from, limit, pairs)
    }
}

impl<T: Operations> OrderedIndex<T::Machine> for T {
    fn info(&self) -> DesignInfo {
        T::INFO
    }

    #[inline]
    fn get(&self, session: &mut Session<T::Machine>, key: u64) -> Result<Option<u64>, IndexError> {
        T::INFO.check_key(key)?;
        match T::Machine::SIMULATED {
            true => once(|| read_pinned(self, session, key)),
            false => read_pinned(self, session, key),
        }
    }

    #[inline]
    fn change(
        &self,
        session: &mut Session<T::Machine>,
        key: u64,
        intent: Intent,
        value: u64,
    ) -> Result<Outcome, IndexError> {
        if !self.is_writable() {
            return Err(IndexError::ReadOnly);
        }
        T::INFO.check_key(key)?;
        if !intent.removes() {
            T::INFO.check_value(value)?;
        }
        let change = Change { key, intent, value };
        match T::Machine::SIMULATED {
            true => once(|| write_pinned(self, session, &change)),
            false => write_pinned(self, session, &change),
        }
    }

    #[inline]
    fn scan(
        &self,
        session: &mut Session<T::Machine>,
        from: u64,
        limit: usize,
        pairs: &mut Vec<(u64, u64)>,
    ) -> Result<(), IndexError> {
        match T::INFO.scans {
            Scans::Never => Err(NO_ORDER),
            Scans::Upwards | Scans::BothWays if T::Machine::SIMULATED => {
                once(|| scan_within(self, session, Way::Up, from, limit, pairs))
            }
            Scans::Upwards | Scans::BothWays => {
                scan_within(self, session, Way::Up, from, limit, pairs)
            }
        }
    }

    fn scan_back(
        &self,
        session: &mut Session<T::Machine>,
        from: u64,
        limit: usize,
        pairs: &mut Vec<(u64, u64)>,
    ) -> Result<(), IndexError> {
        match T::INFO.scans {
            Scans::Never => Err(NO_ORDER),
            Scans::Upwards => Err(NO_WAY_BACK),
            Scans::BothWays => scan_within(self, session, Way::Down, from, limit, pairs),
        }
    }

    fn get_many(
        &self,
        session: &mut Session<T::Machine>,
        keys: &[u64],
        values: &mut [Option<u64>],
    ) -> Result<(), IndexError> {
        Operations::get_many(self, session, keys, &mut values[..keys.len()])
    }

    fn write_many(
        &self,
        session: &mut Session<T::Machine>,
        changes: &[Change],
        outcomes: &mut [Outcome],
    ) -> Result<(), IndexError> {
        if !self.is_writable() {
            return Err(IndexError::ReadOnly);
        }
        Operations::write_many(self, session, changes, &mut outcomes[..changes.len()])
    }

    fn persist_deferred(&self, session: &mut Session<T::Machine>) -> Result<(), IndexError> {
        if self.is_writable() { Operations::persist_deferred(self, session) } else { Ok(()) }
    }

    fn table_bytes(&self) -> u64 {
        Operations::table_bytes(self)
    }

    fn unrestored(&self) -> u64 {
        Operations::unrestored(self)
    }

    fn restore_next(
        &self,
        session: &mut Session<T::Machine>,
        from: u64,
        leaves: usize,
        damaged: &mut Vec<IndexError>,
    ) -> Result<Option<u64>, IndexError> {
        Operations::restore_next(self, session, from, leaves, damaged)
    }

    fn len(&self, session: &mut Session<T::Machine>) -> Result<u64, IndexError> {
        Operations::len(self, session)
    }

    fn shape(&self, session: &mut Session<T::Machine>) -> Result<TreeShape, IndexError> {
        Operations::shape(self, session)
    }

    fn check(
        &self,
        session: &mut Session<T::Machine>,
        used: &Recovery<T::Machine>,
        report: &mut CheckReport,
    ) -> Result<(), IndexError> {
        Operations::check(self, session, used, report)
    }

    fn free_all(&self, session: &mut Session<T::Machine>) {
        Operations::free_all(self, session);
    }
}
