//! Repair: everything in a damaged pool that can be proven, in a new pool.

use std::collections::HashMap;
use std::fs::TryLockError;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::Path;

use everleaf_index::salvage::{Salvage, SalvagedPair};
use everleaf_index::{Record, Verify, What, journal};

use crate::maintenance::new_file::{NewFile, remove_leftovers};
use crate::maintenance::regular_file::{next_data, open_regular};
use crate::maintenance::unreadable::Readable;
use crate::map::Map;
use crate::map::reserved::is_reserved;
use crate::opening::refuse_log_beside;
use crate::{DEFAULT_MAP, Error, Expiry, Options, Result, Store, Tree, WriteBatch, Written};

/// The limit of the new pool: so many times the size of the damaged one, because leaves may be fuller there; and never
/// less than this.
const GROWTH: u64 = 2;
const SIZE_MAX_LEAST: u64 = 64 << 30;

/// The limit of the new pool for a damaged one of so many bytes. Nothing of that need be right, so that its own limit
/// is not to be had; what it holds fits.
fn size_max_of(damaged: u64) -> u64 {
    damaged.saturating_mul(GROWTH).max(SIZE_MAX_LEAST)
}

/// What a repair kept and what it had to drop.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Repaired {
    /// Pairs that were kept.
    pub kept: u64,
    /// Of these, pairs from places whose state is not certain: they may be old states of their keys.
    pub doubtful: u64,
    /// Names of maps that were kept; one whose name was lost is called `lost-` and a number, or two if there
    /// is a map of that name.
    pub maps: Vec<String>,
    /// Of each map whose name was lost a sentence that says what it may be: keys that were removed, too, if their map
    /// was emptied or dropped shortly before the process died.
    pub lost: Vec<String>,
    /// Whether the pool was closed cleanly and said what it held, so that what is missing is told in
    /// [`Self::dropped`]. If not, pairs may be missing that nothing tells of.
    pub is_complete: bool,
    /// What should have been a pair and could not be proven, and what else was damaged: a sentence
    /// each.
    pub dropped: Vec<String>,
}

/// The new pool while it is filled.
struct Target<'s> {
    store: &'s Store,
    /// Names by id, as far as the old directory has them.
    names: HashMap<u32, String>,
    maps: HashMap<u32, Map>,
    /// Batches that were being written.
    batches: Vec<Vec<u8>>,
    repaired: Repaired,
}

impl Store {
    /// Reads the damaged pool at `from`, which stays as it is, and writes all that can be proven of
    /// it to a new pool at `to`: every pair whose check sum is right and to which an entry of a leaf
    /// refers that fits it. Batches that were cut short are brought to their end.
    ///
    /// Nobody has the pool open. A pool that only was not closed needs no repair: open it.
    ///
    /// # Errors
    /// `from` cannot be read, another process has it, `to` exists or has a log beside it, or there
    /// is no room.
    pub fn repair(from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<Repaired> {
        Self::repair_with(from, to, |_, _| Ok(()))
    }

    /// As [`Self::repair`]; before the new pool has its name, `finish` may mend in it what the caller keeps there, and
    /// add to what is told. Nobody else can have opened the pool by then. It keeps no handle of a map.
    ///
    /// # Errors
    /// As [`Self::repair`], and what `finish` fails with: then there is no new pool.
    pub fn repair_with(
        from: impl AsRef<Path>,
        to: impl AsRef<Path>,
        finish: impl FnOnce(&Store, &mut Repaired) -> Result<()>,
    ) -> Result<Repaired> {
        let from = from.as_ref();
        let cannot = |error| Error::Io(format!("cannot read {}", from.display()), error);
        let file = open_regular(from).map_err(|error| match error.kind() {
            ErrorKind::NotFound => Error::NotFound(from.into()),
            _ => cannot(error),
        })?;
        file.try_lock_shared().map_err(|error| match error {
            TryLockError::WouldBlock => {
                Error::Locked(format!("another process has {} open: end it first", from.display()))
            }
            TryLockError::Error(error) => cannot(error),
        })?;
        let size = file.metadata().map_err(cannot)?.len();
        let readable = Readable::new(|bytes: &mut [u8], offset| file.read_exact_at(bytes, offset));
        let read = |offset: u64, bytes: &mut [u8]| readable.read(offset, bytes);
        // A pool may be nearly all hole: what is no data is not read.
        let next_data = |offset: u64| next_data(&file, size, offset);
        let salvage = Salvage::new(size, &read, &next_data);
        let to = to.as_ref();
        if to.exists() {
            // One that was killed behind its end has left a second name of what is there.
            remove_leftovers(to);
            return Err(Error::AlreadyExists(to.into()));
        }
        refuse_log_beside(to)?;
        let new = NewFile::beside(to)?;
        let options =
            Options::new().create_new(true).sweep(false).max_size_bytes(size_max_of(size));
        // As it was, whatever new pools have.
        let tree = if salvage.has_hashed_leaves() { Tree::HashedLeaf } else { Tree::NbTree };
        let options = options.tree(tree);
        let store = options.open(new.path())?;
        let mut repaired = Repaired::default();
        let mut names = HashMap::new();
        for root in salvage.roots() {
            if root.has_bytes {
                names.insert(root.id, root.name);
            } else {
                let name = root.name;
                repaired.dropped.push(format!("the map '{name}' of integers was not looked at"));
            }
        }
        for name in salvage.damaged_roots() {
            repaired.dropped.push(format!(
                "the entry of the map '{name}' in the directory is damaged: its keys, if it had any, are in one of the \
                 maps whose names are lost"
            ));
        }
        let mut target =
            Target { store: &store, names, maps: HashMap::new(), batches: vec![], repaired };
        target.make_maps()?;
        target.fill(&salvage)?;
        target.compare_counts();
        target.repaired.is_complete = salvage.is_sealed();
        target.repaired.dropped.extend(salvage.missing());
        target.repaired.dropped.extend(readable.told());
        target.finish_batches()?;
        // Last: a batch may have keys of such a map, and of one that it alone has.
        target.tell_of_lost();
        let mut repaired = target.repaired;
        repaired.maps = store.map_names();
        target.maps.clear();
        finish(&store, &mut repaired)?;
        store.close()?;
        new.place_for_owner()?;
        Ok(repaired)
    }
}

impl Target<'_> {
    /// All maps there were, also those that are empty.
    fn make_maps(&mut self) -> Result<()> {
        let mut known: Vec<u32> = self.names.keys().copied().collect();
        known.retain(|id| !self.is_own(*id));
        known.into_iter().try_for_each(|id| self.map(id).map(drop))
    }

    /// Whether a map is one of the store itself.
    fn is_own(&self, id: u32) -> bool {
        self.names.get(&id).is_some_and(|name| is_reserved(name))
    }

    /// A name for a map whose name was lost: one that no other has.
    fn lost_name(&self, id: u32) -> String {
        let is_taken = |name: &String| self.names.values().any(|known| known == name);
        let further = (2..).map(|number| format!("lost-{id}-{number}"));
        let mut names = std::iter::once(format!("lost-{id}")).chain(further);
        names.find(|name| !is_taken(name)).expect("names are finite, and numbers are not")
    }

    fn map(&mut self, id: u32) -> Result<Map> {
        if let Some(map) = self.maps.get(&id) {
            return Ok(map.clone());
        }
        let map = match self.names.get(&id) {
            Some(name) if name == DEFAULT_MAP => self.store.default_map().clone(),
            Some(name) => self.store.map(name)?,
            None => self.store.map(&self.lost_name(id))?,
        };
        self.maps.insert(id, map.clone());
        Ok(map)
    }

    fn fill(&mut self, salvage: &Salvage<'_>) -> Result<()> {
        let (mut doubtful, mut failed) = (vec![], None);
        let mut dropped = std::mem::take(&mut self.repaired.dropped);
        let mut found = |pair: SalvagedPair| match pair.is_certain {
            true if failed.is_none() => failed = self.take(&pair).err(),
            true => {}
            // After all that is certain.
            false => doubtful.push(pair),
        };
        salvage.pairs(&mut found, &mut |what| dropped.push(what));
        self.repaired.dropped = dropped;
        if let Some(error) = failed {
            return Err(error);
        }
        doubtful.iter().try_for_each(|pair| self.take(pair))
    }

    /// Keeps a pair. An uncertain one only if its key is not there.
    fn take(&mut self, pair: &SalvagedPair) -> Result<()> {
        if self.names.get(&pair.tree).is_some_and(|name| name == journal::NAME) {
            match pair.is_certain {
                true => self.batches.push(pair.value.clone()),
                false if pair.value.is_empty() => {}
                // Perhaps one that ended long ago, and whose keys were written since.
                false => self.repaired.dropped.push(
                    "a batch that may have been in progress was left out: it is not certain that it was"
                        .to_string(),
                ),
            }
            return Ok(());
        }
        if self.is_own(pair.tree) {
            return Ok(());
        }
        let map = self.map(pair.tree)?;
        if !pair.is_certain {
            // Also if it has expired: what is older, and perhaps has no time, does not take its place.
            let mut session = self.store.shared().session()?;
            let tree = map.tree();
            if tree.get_stored(&mut session, &pair.key, Verify::Key, |_| ())?.is_some() {
                return Ok(());
            }
            drop(session);
            self.repaired.doubtful += 1;
        }
        let is_known =
            map.put_with_expiry(&pair.key, &pair.value, Expiry::from_unix_ms(pair.expiry_ms))?;
        self.repaired.kept += u64::from(!is_known);
        Ok(())
    }

    /// Says what maps may be that the directory does not name. Their leaves look like those of a map that was emptied
    /// or dropped, and whose leaves nobody has used again: of a pool that was not closed nothing tells them apart.
    fn tell_of_lost(&mut self) {
        let mut lost: Vec<u32> = self.maps.keys().copied().collect();
        lost.retain(|id| !self.names.contains_key(id));
        lost.sort_unstable();
        for id in lost {
            let (name, count) = (self.lost_name(id), self.maps[&id].len());
            self.repaired.lost.push(format!(
                "the map {name} has {count} keys of a map that the directory does not name: its entry there is \
                 damaged, or the map was emptied or dropped shortly before the process died (FLUSHALL, FLUSHDB), \
                 and these are keys that were removed"
            ));
        }
    }

    /// Compares what was kept with what the new pool says it has.
    fn compare_counts(&mut self) {
        let has: u64 = self.maps.values().map(|map| map.len()).sum();
        let kept = self.repaired.kept;
        if has != kept {
            let what = format!("{kept} keys were kept, and the new pool says that it has {has}");
            self.repaired.dropped.push(what);
        }
    }

    /// Says so if a batch was not finished. None should be refused: nobody else writes, so its conditions are as they
    /// were just read.
    fn note_batch(&mut self, written: Written) {
        if !written.is_done() {
            let what =
                "a batch that was being written could not be finished: it may be there in part";
            self.repaired.dropped.push(what.to_string());
        }
    }

    fn finish_batches(&mut self) -> Result<()> {
        for bytes in std::mem::take(&mut self.batches) {
            if bytes.is_empty() {
                continue;
            }
            let Some(changes) = journal::decode(&bytes) else {
                let what = "a batch that was being written is damaged: it may be there in part";
                self.repaired.dropped.push(what.to_string());
                continue;
            };
            let mut batch = WriteBatch::new();
            for (tree, change) in changes {
                let map = self.map(tree)?;
                let expiry = Expiry::from_unix_ms(change.expiry_ms);
                match (change.what, change.value()) {
                    (What::Expire, _) => {
                        let mut session = self.store.shared().session()?;
                        let seen = |record: Record<'_>| Expiry::from_unix_ms(record.expiry_ms);
                        let tree = map.tree();
                        let seen = tree.get_stored(&mut session, change.key, Verify::Key, seen)?;
                        // What is lost has no expiry.
                        let Some(seen) = seen else { continue };
                        batch.expire_seen(&map, change.key, seen, expiry)
                    }
                    (_, Some(value)) => batch.put_with_expiry(&map, change.key, value, expiry),
                    (_, None) => batch.remove(&map, change.key),
                };
            }
            self.note_batch(self.store.write(&batch)?);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use everleaf_index::salvage::SalvagedPair;
    use everleaf_index::{Change, journal};

    use super::{Repaired, Target, size_max_of};
    use crate::{Error, Options, Store, Tree, Written};

    /// A pool with hashed leaves came back as one of NBTree.
    #[test]
    fn a_repaired_pool_keeps_its_tree() {
        let folder = tempfile::tempdir().expect("a folder");
        for tree in [Tree::NbTree, Tree::HashedLeaf] {
            let paths =
                ["damaged", "fixed"].map(|name| folder.path().join(format!("{tree:?} {name}")));
            let options = Options::new().create(true).max_size_bytes(1 << 26).tree(tree);
            let store = options.open(&paths[0]).expect("it opens");
            store.default_map().put(b"key", b"value").expect("room");
            store.close().expect("closed");
            assert_eq!(Store::repair(&paths[0], &paths[1]).expect("readable").kept, 1);
            let store = Options::new().open(&paths[1]).expect("it opens");
            let is_hashed = store.shared().trees.makes_hashed_leaves();
            assert_eq!(is_hashed, tree == Tree::HashedLeaf, "{tree:?}");
            assert_eq!(store.default_map().get(b"key").expect("get"), Some(b"value".to_vec()));
        }
    }

    /// What was lost: the mending of the new pool opened it by its name, and if that failed, nobody was told what the
    /// repair had dropped, and it could not be run again.
    #[test]
    fn a_repaired_pool_is_finished_before_it_has_its_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let paths = ["damaged", "fixed"].map(|name| folder.path().join(name));
        let store = Options::new().create(true).max_size_bytes(1 << 26).open(&paths[0]);
        let store = store.expect("it opens");
        store.default_map().put(b"key", b"value").expect("room");
        store.close().expect("closed");
        let refused = Store::repair_with(&paths[0], &paths[1], |_, repaired| {
            assert_eq!(repaired.kept, 1);
            Err(Error::ReadOnly)
        });
        assert!(matches!(refused, Err(Error::ReadOnly)));
        assert!(!paths[1].exists(), "it can be repaired again");
        let repaired = Store::repair_with(&paths[0], &paths[1], |store, repaired| {
            assert!(!paths[1].exists(), "another could open it");
            repaired.dropped.push("told".into());
            store.default_map().put(b"mark", b"found").map(drop)
        });
        assert_eq!(repaired.expect("readable").dropped, ["told"]);
        let store = Options::new().open(&paths[1]).expect("it opens");
        assert_eq!(store.default_map().get(b"mark").expect("get"), Some(b"found".to_vec()));
    }

    /// What came back: a key whose certain record has expired got an older, uncertain one, and was counted twice.
    #[test]
    fn what_has_expired_is_not_replaced_by_what_is_uncertain() {
        let folder = tempfile::tempdir().expect("a folder");
        let options = Options::new().create(true).max_size_bytes(1 << 26).sweep(false);
        let store = options.open(folder.path().join("pool")).expect("it opens");
        let names = HashMap::from([(7, "map".to_string())]);
        let (maps, repaired) = (HashMap::new(), Repaired::default());
        let mut target = Target { store: &store, names, maps, batches: vec![], repaired };
        let pair = |value: &[u8], expiry_ms, is_certain| SalvagedPair {
            tree: 7,
            key: b"key".to_vec(),
            value: value.to_vec(),
            expiry_ms,
            is_certain,
        };
        target.take(&pair(b"new", 1, true)).expect("room");
        target.take(&pair(b"old", 0, false)).expect("room");
        target.compare_counts();
        assert_eq!((target.repaired.kept, target.repaired.doubtful), (1, 0));
        assert_eq!(target.repaired.dropped, Vec::<String>::new());
        let map = store.existing_map("map").expect("a name").expect("it was made");
        assert_eq!(map.get(b"key").expect("get"), None);
    }

    /// What was not told: a map that the directory lacks, and of which only the batch that was cut short has keys.
    #[test]
    fn a_lost_map_that_only_a_batch_has_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let pool = folder.path().join("pool");
        let options = Options::new().create(true).max_size_bytes(1 << 26).sweep(false);
        let store = options.open(&pool).expect("it opens");
        // One change: tree, sizes, no expiry, key and value; before it their number, and the sum of it all.
        let head: Vec<u8> = [1, 77, 3, 5, 0, 0].into_iter().flat_map(u32::to_le_bytes).collect();
        let body = [&head[..], b"key", b"value"].concat();
        let bytes = [&everleaf_log::checksum(&body).to_le_bytes()[..], &body].concat();
        assert_eq!(journal::decode(&bytes).map(|changes| changes.len()), Some(1));
        {
            let mut session = store.shared().session().expect("one is free");
            let journal = store.shared().trees.bytes_tree(journal::NAME).expect("room");
            let key = 0_u16.to_be_bytes();
            journal.change(&mut session, &Change::upsert(&key, &bytes)).expect("room");
        }
        store.close().expect("it closes");
        let repaired = Store::repair(&pool, folder.path().join("fixed")).expect("readable");
        assert_eq!(repaired.maps, ["default", "lost-77"]);
        assert_eq!(repaired.lost.len(), 1, "{:?}", repaired.lost);
        assert!(repaired.lost[0].contains("the map lost-77 has 1 keys"), "{:?}", repaired.lost);
    }

    /// The answer to the batch was not looked at: one that is refused would have been lost without a word.
    #[test]
    fn a_batch_that_is_refused_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let options = Options::new().create(true).max_size_bytes(1 << 26).sweep(false);
        let store = options.open(folder.path().join("pool")).expect("it opens");
        let (names, maps, repaired) = (HashMap::new(), HashMap::new(), Repaired::default());
        let mut target = Target { store: &store, names, maps, batches: vec![], repaired };
        target.note_batch(Written::All);
        assert!(target.repaired.dropped.is_empty());
        target.note_batch(Written::Refused(0));
        assert!(target.repaired.dropped[0].contains("could not be finished"));
    }

    /// What was wrong: the new pool had a limit of 64 GiB, and a larger one could not be repaired.
    #[test]
    fn what_a_pool_of_any_size_holds_fits() {
        for size in [0, 1 << 20, 64 << 30, 200 << 30, 1 << 40, u64::MAX] {
            let size_max = size_max_of(size);
            assert!(size_max >= 64 << 30 && size_max >= size.saturating_add(size / 2), "{size}");
        }
    }
}
