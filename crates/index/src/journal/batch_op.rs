//! One change of a batch, and why a batch was not made.

use everleaf_alloc::Session;
use everleaf_machine::{Hardware, Machine};

use crate::api::error::IndexError;
use crate::bytes::change::Change;
use crate::bytes::entry::BytesKey;
use crate::bytes::record;
use crate::bytes::staged_write::StagedWrite;
use crate::bytes::tree::BytesTree;
use crate::geometry::{Geometry, Production};

/// One change of a batch: a put, a removal, or a change of an expiry alone.
pub struct BatchOp<'a, G: Geometry = Production, M: Machine = Hardware> {
    pub(super) tree: &'a BytesTree<G, M>,
    /// An upsert, a removal or a change of the expiry: nothing else is written down (see the header of `journal.rs`).
    pub(super) change: Change<'a>,
    /// The hash of the key, if it is known.
    hash: Option<u64>,
}

impl<'a, G: Geometry, M: Machine> BatchOp<'a, G, M> {
    /// Gives a key of a tree this value, until `expiry_ms` (milliseconds since 1970-01-01 UTC; 0 for never).
    pub fn put(tree: &'a BytesTree<G, M>, key: &'a [u8], value: &'a [u8], expiry_ms: u64) -> Self {
        BatchOp { tree, change: Change::upsert(key, value).expiring(expiry_ms), hash: None }
    }

    /// Removes a key of a tree.
    pub fn remove(tree: &'a BytesTree<G, M>, key: &'a [u8]) -> Self {
        BatchOp { tree, change: Change::remove(key), hash: None }
    }

    /// Lets a key of a tree expire at this time (as [`Self::put`]) if its record is there, whether it has expired
    /// meanwhile or not: the code that makes the batch has looked.
    pub fn expire(tree: &'a BytesTree<G, M>, key: &'a [u8], expiry_ms: u64) -> Self {
        BatchOp { tree, change: Change::expire(key, expiry_ms), hash: None }
    }

    /// The same, of a key with this hash ([`WriteOrder::hash_of`](crate::WriteOrder::hash_of)), which need not be
    /// computed once more.
    #[must_use]
    pub fn hashed(self, hash: u64) -> Self {
        debug_assert_eq!(hash, record::hash(self.change.key));
        BatchOp { hash: Some(hash), ..self }
    }

    /// The key, hashed.
    #[inline]
    pub(super) fn key(&self) -> BytesKey<'a> {
        match self.hash {
            Some(hash) => BytesKey::of_hash(self.change.key, hash),
            None => BytesKey::new(self.change.key),
        }
    }

    /// Of which tree.
    pub fn tree(&self) -> &'a BytesTree<G, M> {
        self.tree
    }

    /// Comes to the leaf of the key, which opening at once may have left to be restored. A batch that does so for each
    /// of its changes before it begins meets no damaged leaf afterwards.
    ///
    /// # Errors
    /// The leaf is damaged.
    pub fn touch(&self, session: &mut Session<M>) -> Result<(), IndexError> {
        let found = self.tree.cell().try_with(session, |tree, session| {
            tree.get_payload(session, self.key())?;
            Ok(())
        });
        match found {
            // A tree that is gone has no leaves.
            Err(IndexError::Removed) => Ok(()),
            found => found,
        }
    }

    /// Makes it ready ([`BytesTree::prepare`]).
    #[inline]
    pub(super) fn prepare(
        &self,
        session: &mut Session<M>,
    ) -> Result<StagedWrite<'a, G, M>, IndexError> {
        self.tree.prepare_hashed(session, &self.change, self.key())
    }

    /// What is changed: an upsert, a removal or a change of the expiry.
    pub fn change(&self) -> Change<'a> {
        self.change
    }
}

/// Why a batch was not made.
#[derive(Debug)]
pub struct NotMade {
    /// What went wrong. If it is a lack of space or memory, nothing is changed.
    pub error: IndexError,
    /// How many of its puts, from the first, and behind them of its changes of expiries, at most, were made and taken
    /// back: others may have read them.
    pub rolled_back: usize,
}

impl From<IndexError> for NotMade {
    fn from(error: IndexError) -> NotMade {
        NotMade { error, rolled_back: 0 }
    }
}
