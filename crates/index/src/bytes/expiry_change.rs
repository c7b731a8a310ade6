//! An expiry that is changed in place: the record of the key stays, and with it a long value.
//!
//! The tree itself knows nothing of it: its entry refers to the same record before and after. So an operation
//! that decides by the expiry what becomes of the key (a purge, an update that keeps the expiry, an insertion
//! where an expired record is) would not notice. Therefore no other thread may be doing that: the caller has
//! raised the gate and has the stripe of the key as a batch has it (`write_order`). Then nobody writes the
//! key meanwhile. But a reader that looked before the stripe was taken, or a scan, may be told the new expiry
//! before it is flushed: where lines must be flushed (`Adr`), no record has a place for it, and it is written again
//! instead. Batches change it in place there, too: they have it in their journal before.
//!
//! One store of eight bytes is all that changes, so a crash leaves the expiry before or the one behind.

use everleaf_alloc::Session;
use everleaf_machine::Machine;
use everleaf_pool::Domain;

use crate::api::change::Intent;
use crate::api::error::IndexError;
use crate::bytes::change::Answer;
use crate::bytes::entry::{BytesKey, record_offset};
use crate::bytes::found::record_of;
use crate::bytes::record::{self, Moment, Verify};
use crate::bytes::tree::BytesTree;
use crate::geometry::Geometry;

/// What became of an expiry that was to be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpiryChange {
    /// It was changed.
    Done,
    /// The key is absent, or has another expiry than was expected. Nothing was changed.
    Mismatch,
    /// The record has no place for this expiry, or lines must be flushed: it has to be written again. Nothing was
    /// changed.
    NoPlace,
}

impl<G: Geometry, M: Machine, const HEADS: bool> BytesTree<G, M, HEADS> {
    /// Whether [`Self::change_expiry`] ever changes a record: where what others can see is durable. Elsewhere a crash
    /// could take back what a reader was told before it was flushed.
    pub fn changes_expiries_in_place(&self) -> bool {
        self.cell().heap().medium().domain() != Domain::Adr || M::mutant("bytes.expiry_seen_early")
    }

    /// Changes the expiry of `key` from `expected_ms` to `expiry_ms` (milliseconds since 1970-01-01 UTC, 0
    /// for never) without writing its record again. Needs no space. The record is looked at as closely as
    /// `verify` says.
    ///
    /// The caller has raised the gate, has the stripe of the key by
    /// [`lock_many`](crate::WriteOrder::lock_many), and is not pinned.
    ///
    /// *Durable when* it returns.
    ///
    /// # Errors
    /// As [`Self::change`]; the record is damaged. Then nothing was changed.
    pub fn change_expiry(
        &self,
        session: &mut Session<M>,
        key: &[u8],
        expected_ms: u64,
        expiry_ms: u64,
        verify: Verify,
    ) -> Result<ExpiryChange, IndexError> {
        self.admit(key, None, expiry_ms)?;
        self.cell().try_with(session, |tree, session| {
            let Some(payload) = tree.get_payload(session, BytesKey::new(key))? else {
                return Ok(ExpiryChange::Mismatch);
            };
            let record = record_of(session.heap(), payload, key, verify)?;
            let is_other = record.expiry_ms != expected_ms;
            let is_other = is_other && !M::mutant("bytes.expiry_ignores_expected");
            let has_expired = record.has_expired::<M>() && !M::mutant("bytes.expiry_revives");
            if has_expired || is_other {
                return Ok(ExpiryChange::Mismatch);
            }
            if !self.changes_expiries_in_place() {
                return Ok(ExpiryChange::NoPlace);
            }
            // SAFETY: pinned since before the payload was read; the caller keeps others away.
            let changed =
                unsafe { record::change_expiry(session.heap(), record_offset(payload), expiry_ms) };
            Ok(if changed { ExpiryChange::Done } else { ExpiryChange::NoPlace })
        })
    }

    /// Lets `key` expire at this time (in milliseconds since 1970-01-01 UTC, 0 for never), whether it has
    /// expired meanwhile or not: for a tree that is being rebuilt from what was logged, and for a batch that is done
    /// again. Returns whether the key is there. Nobody else may use the tree.
    ///
    /// # Errors
    /// As [`Self::change`]; the record is damaged. Then nothing was changed.
    pub fn set_expiry(
        &self,
        session: &mut Session<M>,
        key: &[u8],
        expiry_ms: u64,
    ) -> Result<bool, IndexError> {
        self.admit(key, None, expiry_ms)?;
        self.cell().try_with(session, |tree, session| {
            let key = BytesKey::new(key);
            let Some(old) = tree.get_payload(session, key)? else { return Ok(false) };
            // A damaged header must not be taken at its word: there may be another key where it says that the expiry
            // is.
            record_of(session.heap(), old, key.bytes, Verify::Key)?;
            // SAFETY: pinned since before the payload was read; nobody else uses the tree.
            if unsafe { record::change_expiry(session.heap(), record_offset(old), expiry_ms) } {
                return Ok(true);
            }
            let found = record_of(session.heap(), old, key.bytes, Verify::Sum)?;
            self.admit(key.bytes, Some(found.value), expiry_ms)?;
            let offset = record::create_expiring(session, key.bytes, found.value, expiry_ms)?;
            let payload = key.payload(offset);
            let outcome = tree.write_rarely(session, key, Intent::Exchange(old), payload);
            let see = |answer: Answer, _: Option<&[u8]>| answer.changed;
            self.finish_write(tree, session, payload, outcome, &Moment::default(), see)
        })
    }
}
