//! Writes of byte strings in two halves, for those that must be able to go back.
//!
//! First the records are made, which needs space and may fail. Then they are put in the tree, and
//! what they replace is kept: it is retired when all is well, or put back.

use everleaf_alloc::{AllocError, Session};
use everleaf_machine::Machine;

use crate::api::change::{Intent, Outcome};
use crate::api::error::IndexError;
use crate::bytes::change::{Change, What};
use crate::bytes::entry::{BytesKey, BytesKind, record_offset};
use crate::bytes::found::{record_of, record_size_of};
use crate::bytes::record::{self, Verify};
use crate::bytes::tree::BytesTree;
use crate::geometry::Geometry;
use crate::nbtree::write::Write;

/// A change that is ready to be made.
pub(crate) struct StagedWrite<'a, G: Geometry, M: Machine> {
    pub tree: &'a BytesTree<G, M>,
    pub write: Write<'a, BytesKind, M>,
}

/// An expiry that is ready to be changed in place.
pub(crate) struct StagedExpiry<'a, G: Geometry, M: Machine> {
    tree: &'a BytesTree<G, M>,
    key: &'a [u8],
    expiry_ms: u64,
}

/// A change of an expiry that is ready to be made.
pub(crate) enum StagedChange<'a, G: Geometry, M: Machine> {
    /// The record has a place for it.
    InPlace(StagedExpiry<'a, G, M>),
    /// The record is written again.
    Write(StagedWrite<'a, G, M>),
}

impl<G: Geometry, M: Machine> StagedExpiry<'_, G, M> {
    /// Changes the expiry. Needs no space.
    ///
    /// *Durable* when it returns.
    ///
    /// # Errors
    /// [`IndexError::Removed`]; the record has been damaged since this was staged.
    pub fn make(&self, session: &mut Session<M>) -> Result<(), IndexError> {
        self.tree.cell().with(session, |tree, session| {
            let payload = tree.get_payload(session, BytesKey::new(self.key))?;
            let is_made = payload.is_none_or(|payload| {
                let (heap, offset) = (session.heap(), record_offset(payload));
                if M::mutant("journal.expiry_unflushed") {
                    // SAFETY: as for `change_expiry`: pinned, and the caller has the stripe of the key.
                    return unsafe { record::store_expiry(heap, offset, self.expiry_ms) }.is_some();
                }
                // SAFETY: pinned since before the payload was read. The thread that staged this has the stripe of the
                // key as a batch has it, so nobody else changes the key or decides by its expiry.
                unsafe { record::change_expiry(heap, offset, self.expiry_ms) }
            });
            // Its header is another one than when this was staged.
            is_made.then_some(()).ok_or_else(|| {
                let offset = payload.map_or(0, record_offset);
                let what = "a record has no place for its expiry any more".to_string();
                AllocError::Corrupt { offset, what }.into()
            })
        })?
    }
}

impl<G: Geometry, M: Machine> BytesTree<G, M> {
    /// Prepares the change of the expiry of a key; `None` if it is absent. One that has expired is there as long as its
    /// record is. Makes a record only if the one that is there has no place for the expiry.
    pub(crate) fn prepare_expiry<'a>(
        &'a self,
        session: &mut Session<M>,
        key: &'a [u8],
        expiry_ms: u64,
    ) -> Result<Option<StagedChange<'a, G, M>>, IndexError> {
        self.admit(key, None, expiry_ms)?;
        self.cell().try_with(session, |tree, session| {
            let bytes_key = BytesKey::new(key);
            let Some(payload) = tree.get_payload(session, bytes_key)? else { return Ok(None) };
            record_of(session.heap(), payload, key, Verify::Key)?;
            // SAFETY: pinned since before the payload was read, and its record is one of this key.
            if unsafe { record::has_place_for(session.heap(), record_offset(payload), expiry_ms) } {
                return Ok(Some(StagedChange::InPlace(StagedExpiry {
                    tree: self,
                    key,
                    expiry_ms,
                })));
            }
            let found = record_of(session.heap(), payload, key, Verify::Sum)?;
            self.admit(key, Some(found.value), expiry_ms)?;
            let offset = record::create_expiring(session, key, found.value, expiry_ms)?;
            let payload = bytes_key.payload(offset);
            let write = Write { key: bytes_key, intent: Intent::Upsert, payload };
            Ok(Some(StagedChange::Write(StagedWrite { tree: self, write })))
        })
    }

    /// Makes the record of a change that stores a value, durably; in no tree yet. A removal needs none, and no
    /// space. (A change of the expiry alone: [`Self::prepare_expiry`].)
    pub(crate) fn prepare<'a>(
        &'a self,
        session: &mut Session<M>,
        change: &Change<'a>,
    ) -> Result<StagedWrite<'a, G, M>, IndexError> {
        self.prepare_hashed(session, change, BytesKey::new(change.key))
    }

    /// The same of a change whose key is hashed.
    #[inline]
    pub(crate) fn prepare_hashed<'a>(
        &'a self,
        session: &mut Session<M>,
        change: &Change<'a>,
        key: BytesKey<'a>,
    ) -> Result<StagedWrite<'a, G, M>, IndexError> {
        let Change { expiry_ms, what, .. } = *change;
        debug_assert_ne!(what, What::Expire, "it would be made as a removal");
        let value = change.value();
        self.admit(key.bytes, value, expiry_ms)?;
        // A tree that was removed is found out here, before anything is done.
        self.cell().try_with(session, |_, session| {
            let (intent, payload) = match value {
                Some(value) => {
                    let offset = record::create_expiring(session, key.bytes, value, expiry_ms)?;
                    (Intent::Upsert, key.payload(offset))
                }
                None => (Intent::Remove, 0),
            };
            Ok(StagedWrite { tree: self, write: Write { key, intent, payload } })
        })
    }

    /// Makes changes that were prepared for this tree, in order, and calls `done` for each with the
    /// payload it replaced or took out, which is still there.
    ///
    /// # Errors
    /// As any write: then `done` was called for all changes before the one that could not be made.
    pub(crate) fn make(
        &self,
        session: &mut Session<M>,
        changes: &[StagedWrite<'_, G, M>],
        mut done: impl FnMut(Option<u64>),
    ) -> Result<(), IndexError> {
        self.cell().try_with(session, |tree, session| {
            let mut added = 0;
            let result = tree.write_many(
                session,
                changes,
                |change| &change.write,
                |change, Outcome { changed, old }| {
                    added += match (change.write.intent.removes(), old) {
                        (false, None) => 1,
                        (true, Some(_)) if changed => -1,
                        _ => 0,
                    };
                    done(old);
                },
            );
            tree.count(session, added);
            Ok(result?)
        })
    }

    /// Undoes a change that was prepared and made, when nobody else has changed the key: it had this
    /// payload before. Needs no more space than a removal.
    pub(crate) fn roll_back(
        &self,
        session: &mut Session<M>,
        change: &StagedWrite<'_, G, M>,
        old: Option<u64>,
    ) -> Result<(), IndexError> {
        let Write { key, payload, .. } = change.write;
        self.cell().with(session, |tree, session| {
            let (intent, restored) = match old {
                Some(old) => (Intent::Exchange(payload), old),
                None => (Intent::RemoveExact(payload), 0),
            };
            let outcome = tree.write_rarely(session, key, intent, restored)?;
            if outcome.changed && old.is_none() {
                tree.count(session, -1);
            }
            Ok::<_, IndexError>(())
        })??;
        self.retire_payload(session, payload);
        Ok(())
    }

    /// Retires the record of a payload that is in no tree any more.
    pub(crate) fn retire_payload(&self, session: &mut Session<M>, payload: u64) {
        let size = record_size_of(session.heap(), payload);
        session.retire_record(record_offset(payload), size);
    }
}

/// Frees a record that nobody else can reach: it was never put in a tree, or nobody but its owner
/// looked for it there.
pub(crate) fn free_payload<M: Machine>(session: &mut Session<M>, payload: u64) {
    let size = record_size_of(session.heap(), payload);
    session.free_record(record_offset(payload), size);
}
