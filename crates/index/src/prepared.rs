//! Writes of byte strings in two halves, for those that must be able to go back.
//!
//! First the records are made, which needs space and may fail. Then they are put in the tree, and
//! what they replace is kept: it is retired when all is well, or put back.

use everleaf_alloc::Session;
use everleaf_machine::Machine;

use crate::bytes_tree::{BytesTree, record_of};
use crate::change::{Intent, Outcome};
use crate::error::IndexError;
use crate::geometry::Geometry;
use crate::kind::{BytesKey, record_offset};
use crate::nbtree::write::Write;
use crate::record;

impl<G: Geometry, M: Machine, const HEADS: bool> BytesTree<G, M, HEADS> {
    /// Makes the record of a pair, durably; in no tree yet. Returns its payload.
    pub(crate) fn prepare(
        &self,
        session: &mut Session<M>,
        key: &[u8],
        value: &[u8],
        expiry_ms: u64,
    ) -> Result<u64, IndexError> {
        self.admit(key, Some(value), expiry_ms)?;
        // A tree that was removed is found out here, before anything is done.
        self.slot().with(session, |_, session| {
            let offset = record::create_expiring(session, key, value, expiry_ms)?;
            Ok(BytesKey::new(key).payload(offset))
        })?
    }

    /// Frees a record that was prepared and never put in a tree.
    pub(crate) fn free_prepared(&self, session: &mut Session<M>, payload: u64) {
        let size = record_of(session.heap(), payload).size();
        session.free_record(record_offset(payload), size);
    }

    /// Puts a prepared record in the tree. Returns the payload it replaced, which is still there.
    pub(crate) fn put_prepared(
        &self,
        session: &mut Session<M>,
        key: &[u8],
        payload: u64,
    ) -> Result<Option<u64>, IndexError> {
        self.step(session, key, Intent::Upsert, payload).map(|outcome| outcome.old)
    }

    /// Takes a key out of the tree. Returns its payload, which is still there.
    pub(crate) fn remove_keeping(
        &self,
        session: &mut Session<M>,
        key: &[u8],
    ) -> Result<Option<u64>, IndexError> {
        self.step(session, key, Intent::Remove, 0).map(|outcome| outcome.old)
    }

    /// Undoes [`Self::put_prepared`], when nobody else has changed the key. Needs no more space than
    /// a removal.
    pub(crate) fn take_back(
        &self,
        session: &mut Session<M>,
        key: &[u8],
        payload: u64,
        old: Option<u64>,
    ) -> Result<(), IndexError> {
        match old {
            Some(old) => self.step(session, key, Intent::Exchange(payload), old)?,
            None => self.step(session, key, Intent::RemoveExact(payload), 0)?,
        };
        self.retire_payload(session, payload);
        Ok(())
    }

    /// Retires the record of a payload that is in no tree any more.
    pub(crate) fn retire_payload(&self, session: &mut Session<M>, payload: u64) {
        let size = record_of(session.heap(), payload).size();
        session.retire_record(record_offset(payload), size);
    }

    fn step(
        &self,
        session: &mut Session<M>,
        key: &[u8],
        intent: Intent,
        payload: u64,
    ) -> Result<Outcome, IndexError> {
        self.slot().with(session, |tree, session| {
            let write = Write { key: BytesKey::new(key), intent, payload };
            let outcome = tree.write(session, &write)?;
            match (outcome.changed, outcome.old) {
                (true, None) => tree.count(session, 1),
                (true, Some(_)) if payload == 0 => tree.count(session, -1),
                _ => {}
            }
            Ok(outcome)
        })?
    }
}
