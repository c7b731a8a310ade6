//! Writes while the gate is up, since something needs order among writers (`docs/store.md` lists what): the steps that
//! each of them takes, in this order.
//!
//! | step | of one key | of a batch |
//! |---|---|---|
//! | the stripes of the keys are taken, with the session that is there; the gate is raised before if readers must wait | [`Shared::in_order`] | [`Shared::batch_in_order`], [`Shared::alone_in_order`] |
//! | a log that has failed, or a pool without its file, refuses the write | [`KeyWrite::begin`] | [`InOrder::check`] |
//! | open views save what the keys are | [`KeyWrite::begin`] | [`InOrder::save`] |
//! | a place in the log is taken, before the change can be seen (W4 in `wal.rs`) | [`KeyWrite::begin`] | [`StoreLog::place`] |
//! | the change | the caller | the journal |
//! | the watches of the keys are marked | [`KeyWrite::finish`] | [`InOrder::mark`] |
//! | the place is filled, or given up | [`KeyWrite::finish`] | `StoreLog::note_batch` |
//! | stripes, gate and session go back, and only then the disk is waited for | [`KeyWrite::finish`] | [`InOrder::end`] |

use std::sync::Arc;

use everleaf_index::write_order::{StripeGuard, StripesGuard};
use everleaf_index::{BytesTree, Hardware, IndexError, Session, SessionGuard};
use everleaf_log::Lsn;

use crate::Result;
use crate::shared::Shared;
use crate::wal::{LogEffect, LogReservation, StoreLog};

/// What a write answers, and what it did.
pub(crate) type Attempt<'v, R> = std::result::Result<(R, LogEffect<'v>), IndexError>;

/// The gate, raised for a batch.
pub(crate) struct Raised<'a>(&'a Shared);

impl Drop for Raised<'_> {
    fn drop(&mut self) {
        self.0.order.lower_after_batch();
    }
}

/// The stripe of a key, as a write has it: readers pass.
pub(crate) type OneStripe<'a> = StripeGuard<'a, Hardware>;

/// Stripes as a batch has them: readers wait. They go before the gate.
pub(crate) type BatchStripes<'a> = (StripesGuard<'a, Hardware>, Raised<'a>);

/// A thread that has the stripes of what it writes, and the session behind them.
pub(crate) struct InOrder<'a, H> {
    // In the order in which they go.
    held: H,
    pub session: SessionGuard<'a, Hardware>,
    shared: &'a Shared,
}

impl Shared {
    /// Takes the stripe of a key for a write.
    pub fn in_order<'a>(
        &'a self,
        session: SessionGuard<'a, Hardware>,
        key: &[u8],
    ) -> InOrder<'a, OneStripe<'a>> {
        InOrder { held: self.order.lock(key), session, shared: self }
    }

    /// Raises the gate and takes stripes as a batch does. The session is the only one that the thread has
    /// for it.
    ///
    /// # Errors
    /// As [`Self::raise`].
    pub fn batch_in_order<'a>(
        &'a self,
        session: SessionGuard<'a, Hardware>,
        stripes: impl IntoIterator<Item = u32>,
    ) -> Result<InOrder<'a, BatchStripes<'a>>> {
        self.raised_in_order(session, |shared| shared.order.lock_many(stripes))
    }

    /// As [`Self::batch_in_order`], with all stripes: nobody else writes then.
    ///
    /// # Errors
    /// As [`Self::raise`].
    pub fn alone_in_order<'a>(
        &'a self,
        session: SessionGuard<'a, Hardware>,
    ) -> Result<InOrder<'a, BatchStripes<'a>>> {
        self.raised_in_order(session, |shared| shared.order.lock_all())
    }

    fn raised_in_order<'a>(
        &'a self,
        session: SessionGuard<'a, Hardware>,
        lock: impl FnOnce(&'a Self) -> StripesGuard<'a, Hardware>,
    ) -> Result<InOrder<'a, BatchStripes<'a>>> {
        self.raise(1)?;
        let raised = Raised(self);
        Ok(InOrder { held: (lock(self), raised), session, shared: self })
    }
}

impl<H> InOrder<'_, H> {
    /// Refuses the write if it could not be logged, or nobody would find it.
    pub fn check(&self) -> Result<()> {
        self.shared.name.check()?;
        let is_blind = |log: &&StoreLog| log.mutant("store.writes_after_failure");
        self.shared.log.as_ref().filter(|log| !is_blind(log)).map_or(Ok(()), StoreLog::check)
    }

    /// Lets open views save what a key is, before it is changed.
    pub fn save(
        &mut self,
        tree: &Arc<BytesTree>,
        key: &[u8],
        hash_of: impl Fn(&[u8]) -> u64,
    ) -> Result<()> {
        self.shared.views.save_key(tree, &mut self.session, key, hash_of)
    }

    /// Marks the watches of a key that was changed.
    pub fn mark(&self, tree: &Arc<BytesTree>, key: &[u8], hash_of: impl FnOnce(&[u8]) -> u64) {
        self.shared.watches.mark(tree, key, hash_of);
    }

    /// Lets others go on, and then waits until what was logged counts as done.
    pub fn end(self, lsn: Option<Lsn>) -> Result<()> {
        let InOrder { held, session, shared } = self;
        drop(held);
        drop(session);
        shared.wait(lsn)
    }
}

/// A write of one key in order, between its place in the log and the filling of it. If it is dropped in
/// between, the log ends: the change may have been seen.
#[must_use]
pub(crate) struct KeyWrite<'a, H> {
    // In the order in which they go.
    reservation: Option<LogReservation<'a>>,
    in_order: InOrder<'a, H>,
    tree: &'a Arc<BytesTree>,
    /// The number of the map in the log.
    map: u32,
    key: &'a [u8],
    /// Whether views and watches see a difference.
    is_seen: bool,
}

impl<'a, H> KeyWrite<'a, H> {
    /// Begins to change a key whose stripe the caller has. `map` is the number of its map in the log, read
    /// behind the stripe.
    pub fn begin(
        mut in_order: InOrder<'a, H>,
        tree: &'a Arc<BytesTree>,
        map: u32,
        key: &'a [u8],
    ) -> Result<Self> {
        in_order.check()?;
        let order = &in_order.shared.order;
        if !in_order.shared.mutant("store.write_saves_nothing") {
            in_order.save(tree, key, |key| order.hash_of(key))?;
        }
        Self::take_place(in_order, tree, map, key, true)
    }

    /// As [`Self::begin`], of a change that nobody can see but the log: to views, too, what has expired is
    /// absent.
    pub fn begin_unseen(
        in_order: InOrder<'a, H>,
        tree: &'a Arc<BytesTree>,
        map: u32,
        key: &'a [u8],
    ) -> Result<Self> {
        in_order.check()?;
        Self::take_place(in_order, tree, map, key, false)
    }

    fn take_place(
        in_order: InOrder<'a, H>,
        tree: &'a Arc<BytesTree>,
        map: u32,
        key: &'a [u8],
        is_seen: bool,
    ) -> Result<Self> {
        let reservation = match &in_order.shared.log {
            // Before anybody can see the change.
            Some(log) => Some(log.place_in(map)?),
            None => None,
        };
        Ok(KeyWrite { reservation, in_order, tree, map, key, is_seen })
    }

    /// The session to make the change with.
    pub fn session(&mut self) -> &mut Session<Hardware> {
        &mut self.in_order.session
    }

    /// Ends the write with what became of the change. Of an error, nothing was changed.
    pub fn finish<R>(mut self, made: Attempt<'_, R>) -> Result<R> {
        let (result, effect) = match made {
            Ok(made) => made,
            Err(error) => {
                if !self.in_order.shared.mutant("store.refusal_ends_log") {
                    self.reservation.into_iter().for_each(LogReservation::give_up);
                }
                return Err(error.into());
            }
        };
        let (shared, session) = (self.in_order.shared, &mut self.in_order.session);
        let marks = self.is_seen && !shared.mutant("store.write_marks_nothing");
        if marks && !effect.is_unchanged() {
            shared.watches.mark(self.tree, self.key, |key| shared.order.hash_of(key));
        }
        let lsn = match (&shared.log, self.reservation) {
            (Some(log), Some(reservation)) => {
                log.note(reservation, self.map, self.tree, session, self.key, effect)?
            }
            _ => None,
        };
        self.in_order.end(lsn)?;
        if let (None, Some(log)) = (lsn, &shared.log) {
            // Nobody waits for what changes nothing.
            log.relieve();
        }
        Ok(result)
    }
}
