//! Reading and writing while nobody else writes.
//!
//! A batch is made from what was read, and depends on it by conditions; if others are faster, all of
//! it has to be tried again, and what was not there to be read (a range, the number of keys) cannot be
//! a condition. So there is another way: take all stripes, read, and write the batch before anybody
//! else goes on.

use everleaf_index::{Hardware, Record, Session, lock_rank};

use crate::map::Map;
use crate::map::key_range::{KeyRange, owned_bounds};
use crate::map::scan::Scan;
use crate::shared::{BATCH_MERGES, MergesDue, Shared, lacks_space, thread_number};
use crate::{Error, Expiry, Result, Store, WriteBatch, Written};

/// How often some hundreds of leaves are looked at, and merged, while all writers wait.
const MERGE_TURNS: usize = 32;

/// The default map of a store while nobody else writes; see [`Store::write_alone`].
pub struct Alone<'a> {
    map: &'a Map,
    session: &'a mut Session<Hardware>,
}

impl std::fmt::Debug for Alone<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Alone").finish_non_exhaustive()
    }
}

impl Alone<'_> {
    /// Runs `see` on the value of a key and when it expires.
    ///
    /// # Errors
    /// As [`Map::get`].
    pub fn get_with_expiry<R>(
        &mut self,
        key: impl AsRef<[u8]>,
        see: impl FnOnce(&[u8], Expiry) -> R,
    ) -> Result<Option<R>> {
        let key = key.as_ref();
        let see = |record: Record<'_>| see(record.value, Expiry::from_unix_ms(record.expiry_ms));
        let verify = self.map.shared().verify;
        Ok(self.map.tree().get_verified(self.session, key, verify, see)?)
    }

    /// As [`Self::get_with_expiry`], for the server: also of a key whose time has come. It is not removed before the
    /// batch is done, so that a caller that judges all reads by one time finds the same each time.
    ///
    /// # Errors
    /// As [`Map::get`].
    #[doc(hidden)]
    pub fn get_stored_with_expiry<R>(
        &mut self,
        key: impl AsRef<[u8]>,
        see: impl FnOnce(&[u8], Expiry) -> R,
    ) -> Result<Option<R>> {
        let (key, verify) = (key.as_ref(), self.map.shared().verify);
        let see = |record: Record<'_>| see(record.value, Expiry::from_unix_ms(record.expiry_ms));
        Ok(self.map.tree().get_stored(self.session, key, verify, see)?)
    }

    /// For the server: as [`Map::purge`].
    ///
    /// # Errors
    /// As [`Map::purge`].
    #[doc(hidden)]
    pub fn purge(&mut self, key: impl AsRef<[u8]>) -> Result<bool> {
        let tree = self.map.tree();
        Ok(tree.may_expire() && tree.purge(self.session, key.as_ref())?)
    }

    /// Visits pairs in place; as [`Map::scan`].
    pub fn scan(&mut self, range: impl KeyRange) -> Scan<'_> {
        Scan::alone(self.map, self.session, owned_bounds(range))
    }

    /// Number of keys, as [`Map::len`].
    pub fn len(&mut self) -> u64 {
        self.map.len_in(self.session).unwrap_or(0)
    }

    /// Another map of the same store, in the same way.
    ///
    /// # Errors
    /// [`Error::OtherStore`] if the map belongs to another store.
    pub fn on<'b>(&'b mut self, map: &'b Map) -> Result<Alone<'b>> {
        if !std::ptr::eq(
            std::sync::Arc::as_ptr(map.shared()),
            std::sync::Arc::as_ptr(self.map.shared()),
        ) {
            let text = "the map belongs to another store: read it through that";
            return Err(Error::OtherStore(text.to_string()));
        }
        Ok(Alone { map, session: &mut *self.session })
    }

    /// Whether there are no keys.
    pub fn is_empty(&mut self) -> bool {
        self.len() == 0
    }
}

impl Store {
    /// Lets `fill` read what there is and fill a batch, and does that batch, while nobody else writes:
    /// what `fill` has read is so until the batch is done. *Atomic* and *durable* as
    /// [`Self::write`]. If `fill` fails, nothing is done.
    ///
    /// *Cost*: all other writes wait meanwhile, and so do reads of single keys. `fill` must not use the
    /// store but by what it is given: it would wait for itself.
    ///
    /// # Example
    /// ```
    /// # fn main() -> everleaf::Result<()> {
    /// # let folder = tempfile::tempdir().expect("a temporary folder");
    /// # let store = everleaf::Options::new().create(true).open(folder.path().join("p"))?;
    /// let map = store.default_map();
    /// map.put("oak", "Quercus")?;
    /// store.write_alone(|alone, batch| {
    ///     let count = alone.len().to_string();
    ///     batch.put(map, "count", &count);
    ///     Ok::<(), everleaf::Error>(())
    /// })?;
    /// assert_eq!(map.get("count")?, Some(b"1".to_vec()));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Self::write`], and what `fill` fails with.
    pub fn write_alone<E: From<Error>>(
        &self,
        fill: impl FnOnce(&mut Alone<'_>, &mut WriteBatch) -> std::result::Result<(), E>,
    ) -> std::result::Result<Written, E> {
        let shared = self.shared();
        if self.is_read_only() {
            return Err(Error::ReadOnly.into());
        }
        // Before it is known whether the batch needs it: a thread that has stripes must not wait to make it.
        let (session, journal) = shared.enter_with_journal()?;
        let mut in_order = shared.alone_in_order(session)?;
        let mut batch = WriteBatch::new();
        let mut alone = Alone { map: self.default_map(), session: &mut in_order.session };
        // It may use other stores.
        lock_rank::apart(shared.address(), || fill(&mut alone, &mut batch))?;
        shared.admit_batch(&batch)?;
        let last = batch.last_changes();
        let journal = if last.may_need_journal() { Some(journal?) } else { None };
        let mut own = 0;
        let mut write = || {
            let written = shared.write_behind(&batch, &last, journal, &mut own, &mut in_order);
            if lacks_space(&written) {
                // What it has found is not enough for it, and may be for a merge.
                in_order.session.collect_all();
                in_order.session.give_back();
            }
            written
        };
        let mut written = write();
        if lacks_space(&written) {
            // All others wait for our stripes: what is not merged now is when it is tried again.
            shared.trees.reclaim_at_once();
            written = write();
        }
        if lacks_space(&written) {
            let (mut turns, mut due) = (0, MergesDue::new(BATCH_MERGES));
            shared.trees.merge_thin(thread_number(), &mut |merged| {
                if due.count(merged) {
                    written = write();
                }
                turns += 1;
                turns < MERGE_TURNS && lacks_space(&written)
            });
            if due.has_more() && lacks_space(&written) {
                written = write();
            }
        }
        let (written, lsn) = written?;
        in_order.end(lsn)?;
        Ok(written)
    }
}

impl Shared {
    /// Runs something that concerns all keys at once, and tells it whether order matters: then no
    /// other writer is active meanwhile. It uses the session that the caller has: writers that wait for
    /// our stripes may have all others.
    ///
    /// May be called by a thread that is in an operation: it waits for nobody's pin.
    pub fn alone_with<R>(
        &self,
        session: &mut Session<Hardware>,
        act: impl FnOnce(bool, &mut Session<Hardware>) -> Result<R>,
    ) -> Result<R> {
        let mut pinned = session.pinned();
        if self.order.is_free() {
            // The thread that raises the gate waits for our pin.
            return act(false, &mut pinned);
        }
        drop(pinned);
        let _stripes = self.order.lock_all();
        act(true, session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, Tree};

    const STEP: u64 = 1000;

    fn key(number: u64) -> [u8; 16] {
        u128::from(number).to_be_bytes()
    }

    /// Lets another thread put keys that need new leaves, in a full pool of thin leaves with two free blocks.
    fn with_two_free_blocks(tree: Tree, put: impl Fn(&Store, u64) -> Result<()> + Sync) {
        let folder = tempfile::tempdir().expect("a folder");
        let options = Options::new().create(true).max_size_bytes(4 << 20).tree(tree).sweep(false);
        let store = options.open(folder.path().join("p")).expect("it opens");
        let map = store.default_map();
        for number in 0..20_000 {
            let _ = map.put(key(number * STEP), "").expect("room");
        }
        store.shared().reclaim();
        let class = if tree == Tree::HashedLeaf { 2 } else { 0 };
        let mut hoarder = store.shared().trees.heap().session().expect("a session");
        let hoard: Vec<u32> =
            std::iter::from_fn(|| hoarder.allocate_block_of(class).ok()).collect();
        let leaves = store.statistics().leaves;
        // Some of each chunk of records stay, so that none of them serves for leaves.
        for number in (0..20_000).filter(|number| number % 100 != 0) {
            assert!(map.remove(key(number * STEP)).expect("no space is needed"));
        }
        assert_eq!(store.statistics().leaves, leaves, "there was no space to merge any");
        let (free, kept) = hoard.split_at(2);
        free.iter().for_each(|block| hoarder.free_block_of(class, *block));
        hoarder.give_back();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                (1..STEP).for_each(|number| put(&store, number).expect("merged leaves make room"));
            });
        });
        kept.iter().for_each(|block| hoarder.free_block_of(class, *block));
        drop(hoarder);
        assert_eq!(map.len(), 200 + STEP - 1);
        assert!(store.check().expect("a check").is_clean());
    }

    fn put_with_two_free_blocks(tree: Tree) {
        with_two_free_blocks(tree, |store, number| {
            store.default_map().put(key(number), "").map(|_| ())
        });
    }

    #[test]
    fn a_put_that_held_the_last_blocks_fits_once_leaves_are_merged() {
        put_with_two_free_blocks(Tree::NbTree);
        put_with_two_free_blocks(Tree::HashedLeaf);
    }
}
