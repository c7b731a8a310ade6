//! The tree with byte-string keys and values: records, expiry and decisions above the nodes of one of two trees
//! (`pool_trees/nodes.rs`).
//!
//! A write makes the record of key and value, durable, before the nodes refer to it; the nodes then exchange one word,
//! which is where the write linearizes and, flushed, becomes durable. What is replaced is retired afterwards. A record
//! that has expired counts as absent in every call. *Thread safety*: shared; each thread brings its own session, and is
//! pinned for the length of a call.

mod at_once;
mod many;
mod scan;

pub use at_once::SeeRecord;

use std::sync::Arc;

use everleaf_alloc::{AllocError, Heap, Session};
use everleaf_machine::{Hardware, Machine};
use everleaf_pool::{FEATURE_EXPIRY, RootIndex};

use crate::api::change::{Intent, Outcome};
use crate::api::error::IndexError;
use crate::bytes::change::{Answer, Change, What};
use crate::bytes::entry::{BytesKey, BytesKind, record_offset};
use crate::bytes::found::{had_expired, record_of, record_size_of};
use crate::bytes::record::{self, KEY_SIZE_MAX, Moment, Record, Verify};
use crate::geometry::{Geometry, Production};
use crate::nbtree::TreeShape;
use crate::nbtree::write::Write;
use crate::pool_trees::nodes::{BytesNodes, Near, NodesDesign};
use crate::pool_trees::pool_base::PoolBase;
use crate::pool_trees::tree_cell::{CellTree, TreeCell};

/// What an update function wants done with a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Leave it as it is.
    Keep,
    /// Give it this value. When it expires, if ever, stays as it is.
    Put(Vec<u8>),
    /// Give it this value, and let it expire at this time, in milliseconds since 1970-01-01 UTC; 0
    /// for never.
    PutExpiring(Vec<u8>, u64),
    /// Leave its value and let it expire at this time, in milliseconds since 1970-01-01 UTC; 0 for never. An absent
    /// key stays so.
    Expire(u64),
    /// Remove it.
    Remove,
}

/// An ordered map from byte strings (up to 64 KiB) to byte strings (up to 512 MiB).
///
/// Thread safety, blocking and durability as [`crate::U64Tree`]. A value is written to a record of
/// its own, once; an update swaps records.
///
/// *Expiry*: a key may have a time at which it expires, by the clock of the system, exact to the
/// millisecond. From then on it is absent to every operation; its space is freed, and the key no
/// more counted in [`Self::len`], when it is written next or [purged](Self::purge).
///
/// # Example
/// ```
/// use everleaf_index::{Change, Domain, Pool, Trees};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let pool = Pool::in_memory(1 << 20, 1 << 30, Domain::Process)?;
/// let trees: Trees = Trees::create(pool)?;
/// let tree = trees.bytes_tree("words")?;
/// let mut session = trees.heap().session()?;
/// let answer = tree.change(&mut session, &Change::upsert(b"leaf", b"green"))?;
/// assert!(answer.changed && !answer.was_there());
/// assert_eq!(tree.get_with(&mut session, b"leaf", <[u8]>::to_vec)?, Some(b"green".to_vec()));
/// # Ok(())
/// # }
/// ```
pub struct BytesTree<G: Geometry = Production, M: Machine = Hardware, const HEADS: bool = true> {
    cell: TreeCell<BytesNodes<G, M, HEADS>, M>,
}

impl<G: Geometry, M: Machine, const HEADS: bool> BytesTree<G, M, HEADS> {
    pub(crate) fn new(heap: Arc<Heap<M>>, root: RootIndex, tree: BytesNodes<G, M, HEADS>) -> Self {
        BytesTree { cell: TreeCell::new(heap, Some(root), tree) }
    }

    /// A tree that no directory names: it is gone with the process, and its space is found free at
    /// the next open. For measuring encodings side by side.
    ///
    /// # Errors
    /// No space.
    pub fn temporary(session: &mut Session<M>) -> Result<Self, IndexError> {
        let id = session.heap().pool().next_id()?;
        let tree = BytesNodes::create(&NodesDesign::NbTree, session, id)?;
        Ok(BytesTree { cell: TreeCell::new(session.heap().clone(), None, tree) })
    }

    pub(crate) fn cell(&self) -> &TreeCell<BytesNodes<G, M, HEADS>, M> {
        &self.cell
    }

    /// The class of the blocks of its leaves in the allocator.
    pub(crate) fn block_class(&self, session: &mut Session<M>) -> Result<usize, IndexError> {
        self.cell.with(session, |tree, _| tree.block_class())
    }

    /// The id of the tree in the pool's directory; clearing gives it another.
    ///
    /// # Errors
    /// [`IndexError::Removed`].
    pub fn id(&self, session: &mut Session<M>) -> Result<u32, IndexError> {
        self.cell.with(session, |tree, _| tree.id())
    }

    /// Runs `see` on the value of `key`, in place, if it is there. Its check sum is not looked at:
    /// see [`Self::get_verified`].
    ///
    /// # Errors
    /// [`IndexError::Removed`]; as all operations. The record has another key, or a length that
    /// reaches out of the pool: it is damaged.
    #[inline]
    pub fn get_with<R>(
        &self,
        session: &mut Session<M>,
        key: &[u8],
        see: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, IndexError> {
        self.get_verified(session, key, Verify::Key, |record| see(record.value))
    }

    /// As [`Self::get_with`], with the time at which the key expires.
    ///
    /// # Errors
    /// As [`Self::get_with`].
    #[inline]
    pub fn get_record<R>(
        &self,
        session: &mut Session<M>,
        key: &[u8],
        see: impl FnOnce(Record<'_>) -> R,
    ) -> Result<Option<R>, IndexError> {
        self.get_verified(session, key, Verify::Key, see)
    }

    /// As [`Self::get_record`], of a record that is looked at as closely as `verify` says.
    ///
    /// # Errors
    /// As [`Self::get_with`]; the record is damaged.
    #[inline]
    pub fn get_verified<R>(
        &self,
        session: &mut Session<M>,
        key: &[u8],
        verify: Verify,
        see: impl FnOnce(Record<'_>) -> R,
    ) -> Result<Option<R>, IndexError> {
        let see = |record: Record<'_>| (!record.has_expired::<M>()).then(|| see(record));
        self.get_stored(session, key, verify, see).map(Option::flatten)
    }

    /// As [`Self::get_verified`], but also of what has expired and was not removed yet.
    ///
    /// # Errors
    /// As [`Self::get_verified`].
    #[inline]
    pub fn get_stored<R>(
        &self,
        session: &mut Session<M>,
        key: &[u8],
        verify: Verify,
        see: impl FnOnce(Record<'_>) -> R,
    ) -> Result<Option<R>, IndexError> {
        self.cell.with(session, |tree, session| {
            let Some(payload) = tree.get_payload(session, BytesKey::new(key))? else {
                return Ok(None);
            };
            Ok(Some(see(record_of(session.heap(), payload, key, verify)?)))
        })?
    }

    /// Makes a change of a key. The value that is there is not verified, so that a damaged one can be
    /// replaced: a caller that hands it on uses [`Self::decide`].
    ///
    /// # Errors
    /// The key or value is too large, or there is no space; then nothing was changed.
    pub fn change(
        &self,
        session: &mut Session<M>,
        change: &Change<'_>,
    ) -> Result<Answer, IndexError> {
        self.change_seeing(session, change, |answer, _| answer)
    }

    /// As [`Self::change`]; runs `see` on the answer and, in place, on the value that the key had. (Of
    /// [`What::Expire`], which leaves the value, on the answer alone.)
    ///
    /// # Errors
    /// As [`Self::change`].
    #[inline]
    pub fn change_seeing<R>(
        &self,
        session: &mut Session<M>,
        change: &Change<'_>,
        see: impl FnOnce(Answer, Option<&[u8]>) -> R,
    ) -> Result<R, IndexError> {
        let Change { key, what, expiry_ms } = *change;
        let (intent, value) = match what {
            What::Insert(value) => (Intent::Insert, Some(value)),
            What::Update(value) => (Intent::Update, Some(value)),
            What::Upsert(value) => (Intent::Upsert, Some(value)),
            What::Remove => (Intent::Remove, None),
            What::Expire => return Ok(see(self.expire(session, key, expiry_ms)?, None)),
        };
        self.admit(key, value, expiry_ms)?;
        self.cell.try_with(session, |tree, session| {
            let key = BytesKey::new(key);
            // The leaf comes while the record is made.
            let near = tree.approach(key);
            let payload = match value {
                Some(value) => {
                    key.payload(record::create_expiring(session, key.bytes, value, expiry_ms)?)
                }
                None => 0,
            };
            let (write, moment) = (Write { key, intent, payload }, Moment::default());
            if intent == Intent::Update && self.may_expire() {
                let outcome = update_unless_expired(tree, session, write, &moment);
                return self.finish_write(tree, session, payload, outcome, &moment, see);
            }
            self.perform_near(tree, session, near, write, &moment, see)
        })
    }

    /// Changes a key if its value is `expected` (`None`: absent), to `new` (`None`: removed), and
    /// runs `see(changed, the value found)`. When it expires, if ever, stays as it is.
    ///
    /// # Errors
    /// As [`Self::change`].
    pub fn exchange<R>(
        &self,
        session: &mut Session<M>,
        key: &[u8],
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
        see: impl FnOnce(bool, Option<&[u8]>) -> R,
    ) -> Result<R, IndexError> {
        let mut see = Some(see);
        let (mut result, mut no_memory) = (None, Ok(()));
        self.decide(session, key, |found| {
            result = None;
            if found != expected {
                let see = see.take().expect("a mismatch ends the loop");
                result = Some(see(false, found));
                return Decision::Keep;
            }
            let Some(new) = new else { return Decision::Remove };
            let mut copy = Vec::new();
            no_memory = copy.try_reserve_exact(new.len()).map_err(|_| AllocError::OutOfMemory);
            if no_memory.is_err() {
                return Decision::Keep;
            }
            copy.extend_from_slice(new);
            Decision::Put(copy)
        })?;
        no_memory?;
        Ok(match (result, see) {
            (Some(result), _) => result,
            (None, see) => see.expect("only a mismatch takes it")(true, expected),
        })
    }

    /// Removes a key if it has expired. Returns whether it did.
    ///
    /// # Errors
    /// As [`Self::change`].
    pub fn purge(&self, session: &mut Session<M>, key: &[u8]) -> Result<bool, IndexError> {
        self.admit(key, None, 0)?;
        self.cell.try_with(session, |tree, session| {
            let key = BytesKey::new(key);
            let Some(found) = tree.get_payload(session, key)? else { return Ok(false) };
            let moment = Moment::default();
            if !had_expired(session.heap(), found, &moment) {
                return Ok(false);
            }
            let unsure = M::mutant("bytes.purges_what_it_read");
            let intent = if unsure { Intent::Remove } else { Intent::RemoveExact(found) };
            let outcome = tree.write_rarely(session, key, intent, 0);
            let changed = matches!(outcome, Ok(Outcome { changed: true, .. }));
            self.finish_write(tree, session, 0, outcome, &moment, |_, _| changed)
        })
    }

    /// Gives the empty key of a tree that nobody uses yet its check sum, if its value is empty and an older
    /// program wrote it without.
    pub(crate) fn mend_empty(&self, session: &mut Session<M>) -> Result<(), IndexError> {
        self.cell.with(session, |tree, session| {
            if let Some(payload) = tree.get_payload(session, BytesKey::new(&[]))? {
                // SAFETY: the payload is that of an entry of the tree, which nobody else uses.
                unsafe { record::mend_empty(session.heap(), record_offset(payload)) };
            }
            Ok(())
        })?
    }

    /// Whether any key may expire: then an update has to look first.
    #[inline(always)]
    pub fn may_expire(&self) -> bool {
        self.cell.heap().pool().features() & FEATURE_EXPIRY != 0
    }

    /// Refuses what cannot be stored. Makes the pool one in which keys expire, if need be.
    #[inline(always)]
    pub(crate) fn admit(
        &self,
        key: &[u8],
        value: Option<&[u8]>,
        expiry_ms: u64,
    ) -> Result<(), IndexError> {
        if key.len() > KEY_SIZE_MAX {
            return Err(IndexError::KeyTooLarge(key.len()));
        }
        let limit = record::value_size_max(key.len(), expiry_ms);
        match value {
            Some(value) if value.len() > limit => {
                return Err(IndexError::ValueTooLarge(value.len()));
            }
            _ => {}
        }
        if self.cell.heap().pool().is_read_only() {
            return Err(IndexError::ReadOnly);
        }
        let features = record::features_of(value.map_or(0, <[u8]>::len), expiry_ms);
        if features != 0 {
            // Asked for at each write: the bits are in one word, and nearly always set.
            let pool = self.cell.heap().pool();
            if pool.features() & features != features {
                pool.enable_features(features)?;
            }
        }
        Ok(())
    }

    /// Performs a write whose payload, if any, refers to a record of ours, begun where [`BytesNodes::approach`] of
    /// the key came to under the same pin. What was found before was looked at at this moment. Decides what becomes of
    /// the new and the old record. To an insertion, a key that has expired is absent.
    #[inline(always)]
    pub(crate) fn perform_near<R>(
        &self,
        tree: &BytesNodes<G, M, HEADS>,
        session: &mut Session<M>,
        near: Near<G, M>,
        write: Write<'_, BytesKind<HEADS>, M>,
        moment: &Moment,
        see: impl FnOnce(Answer, Option<&[u8]>) -> R,
    ) -> Result<R, IndexError> {
        let mut outcome = tree.write_near(session, near, write.key, write.intent, write.payload);
        if write.intent == Intent::Insert && matches!(outcome, Ok(Outcome { changed: false, .. })) {
            outcome = insert_unless_kept(tree, session, &write, outcome, moment);
        }
        self.finish_write(tree, session, write.payload, outcome, moment, see)
    }

    /// After a write that stored `payload` (0: removed): frees what nobody will read any more,
    /// counts, and lets the caller see. Whether the old record was there is told as of the moment at which the write
    /// has looked at it, if it has: else an update of a key that expires meanwhile would be done and find nothing.
    #[inline(always)]
    pub(crate) fn finish_write<R>(
        &self,
        tree: &BytesNodes<G, M, HEADS>,
        session: &mut Session<M>,
        payload: u64,
        outcome: Result<Outcome, AllocError>,
        moment: &Moment,
        see: impl FnOnce(Answer, Option<&[u8]>) -> R,
    ) -> Result<R, IndexError> {
        let changed = matches!(outcome, Ok(Outcome { changed: true, .. }));
        let keeps = M::mutant("bytes.keeps_refused") && outcome.is_err();
        if !changed && payload != 0 && !keeps {
            // Never published: dead claims that mention it are never read.
            let size = record_size_of(session.heap(), payload);
            session.free_record(record_offset(payload), size);
        }
        let old = outcome?.old;
        match (changed, old) {
            (true, None) => tree.count(session, 1),
            (true, Some(_)) if payload == 0 && !M::mutant("bytes.counts_no_removal") => {
                tree.count(session, -1)
            }
            _ => {}
        }
        if let (true, Some(old)) = (changed, old) {
            // Before `see`, which may panic: our pin keeps the record until it has been seen.
            let size = record_size_of(session.heap(), old);
            if M::mutant("bytes.frees_old") {
                session.free_record(record_offset(old), size);
            } else {
                session.retire_record(record_offset(old), size);
            }
        }
        // SAFETY: as in `record_of`.
        let record = old
            .map(|old| unsafe { record::read(PoolBase::of(session.heap()), record_offset(old)) });
        let record = record.filter(|record| !record.had_expired::<M>(moment));
        let changed = changed && (payload != 0 || record.is_some());
        let value = record.map(|record| record.value);
        Ok(see(Answer { changed, old_size: value.map(<[u8]>::len) }, value))
    }

    /// Number of keys. O(1); exact when no writer is active. Restores first what [`crate::Trees::open_at_once`] has
    /// left.
    ///
    /// # Errors
    /// As [`Self::get_with`]; a leaf that was left is damaged.
    pub fn len(&self, session: &mut Session<M>) -> Result<u64, IndexError> {
        self.cell.whole(session, |tree, _| tree.counted())
    }

    /// How the tree is built.
    ///
    /// # Errors
    /// As [`Self::len`].
    pub fn shape(&self, session: &mut Session<M>) -> Result<TreeShape, IndexError> {
        self.cell.whole(session, |tree, session| tree.shape(session))
    }

    /// As [`Self::shape`], at once: keys of leaves that [`crate::Trees::open_at_once`] has left are not counted.
    ///
    /// # Errors
    /// As [`Self::get_with`].
    pub fn shape_so_far(&self, session: &mut Session<M>) -> Result<TreeShape, IndexError> {
        self.cell.with(session, |tree, session| tree.shape(session))
    }
}

/// Goes on with an insertion that found the key there: if that has expired, it is replaced.
#[cold]
#[inline(never)]
fn insert_unless_kept<const HEADS: bool, G: Geometry, M: Machine>(
    tree: &BytesNodes<G, M, HEADS>,
    session: &mut Session<M>,
    write: &Write<'_, BytesKind<HEADS>, M>,
    mut outcome: Result<Outcome, AllocError>,
    moment: &Moment,
) -> Result<Outcome, AllocError> {
    while let Ok(Outcome { changed: false, old }) = outcome {
        moment.renew();
        let had_expired = |old| had_expired(session.heap(), old, moment);
        let intent = match old {
            Some(old) if had_expired(old) && M::mutant("bytes.insert_upserts") => Intent::Upsert,
            Some(old) if had_expired(old) && !M::mutant("bytes.insert_keeps_expired") => {
                Intent::Exchange(old)
            }
            Some(_) => break,
            // What had expired went before we could replace it.
            None => Intent::Insert,
        };
        outcome = tree.write_rarely(session, write.key, intent, write.payload);
    }
    outcome
}

/// An update where keys may expire: nothing but a record that has not expired is replaced.
fn update_unless_expired<const HEADS: bool, G: Geometry, M: Machine>(
    tree: &BytesNodes<G, M, HEADS>,
    session: &mut Session<M>,
    write: Write<'_, BytesKind<HEADS>, M>,
    moment: &Moment,
) -> Result<Outcome, AllocError> {
    loop {
        let found = tree.get_payload(session, write.key)?;
        moment.renew();
        let live = found.filter(|found| !had_expired(session.heap(), *found, moment));
        let Some(old) = live else { return Ok(Outcome { changed: false, old: None }) };
        // Refused if the value changed meanwhile: then we look again.
        let revives = M::mutant("bytes.update_revives");
        let intent = if revives { Intent::Update } else { Intent::Exchange(old) };
        match tree.write_rarely(session, write.key, intent, write.payload)? {
            Outcome { changed: false, .. } => {}
            done => return Ok(done),
        }
    }
}
