//! A whole store as a new file: backup, restore, compaction, upgrade.
//!
//! All of them write a new pool beside its place, in key order and without gaps, and give it its
//! name when it is complete and on the disk. The pool that is read is never changed. A copy of a pool
//! that nobody writes to must have as many keys as the pool says; one that is made beside writers
//! cannot be compared, since nobody counts the keys of one moment. Maps of integers have no writers while
//! a store has the pool.

mod integers;

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use everleaf_index::{
    BytesTree, CreateMode, FEATURE_HASHED_LEAVES, FEATURE_LOG_NOTE, FEATURE_RUNS_OF_LISTS,
    Hardware, IndexError, KNOWN_FEATURES, Machine, Pool, PoolOptions, Trees, U64Tree,
};

use crate::conversion::from_pool;
use crate::maintenance::new_file::{NewFile, remove_leftovers};
use crate::maintenance::origin;
use crate::map::Map;
use crate::map::range::Range;
use crate::opening::{refuse_log_beside, resolved};
use crate::wal;
use crate::{Error, Options, Result, Store, Tree, View};

/// What was copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Copied {
    /// Maps, the default one included.
    pub maps: u64,
    /// Pairs of all maps.
    pub keys: u64,
    /// Bytes of the new file.
    pub size_bytes: u64,
}

/// The entries of a range, counted.
struct Counted<'a> {
    range: Range,
    copied: &'a mut Copied,
    progress: &'a mut dyn FnMut(u64),
    /// Why it ended early.
    error: &'a mut Option<Error>,
}

impl Iterator for Counted<'_> {
    type Item = (Vec<u8>, Vec<u8>, u64);

    fn next(&mut self) -> Option<Self::Item> {
        let ((key, value), expiry_ms) = match self.range.next_entry()? {
            Ok(entry) => entry,
            Err(error) => {
                *self.error = Some(error);
                return None;
            }
        };
        self.copied.count(self.progress);
        Some((key, value, expiry_ms))
    }
}

impl Copied {
    /// Counts a pair, and tells it from time to time.
    fn count(&mut self, progress: &mut dyn FnMut(u64)) {
        self.keys += 1;
        if self.keys.is_multiple_of(1 << 14) {
            progress(self.keys);
        }
    }
}

/// A copy may take this part more than the pool's maximum while it is made: its leaves are filled to 14/16, those of
/// a full pool up to the end.
const MORE: u64 = 6;

/// A map that is copied.
enum Source {
    Bytes(Map),
    Integers(Arc<U64Tree>),
}

impl Store {
    /// Writes all maps, as they are at one moment, to a new pool at `path`, while the store goes on
    /// being read and written. `progress` is told the number of pairs from time to time.
    ///
    /// A map of integers that is dropped meanwhile may be left out.
    ///
    /// The backup is a pool like any other: open it read-only to look at it, or
    /// [restore](Self::restore) it. It exists as a whole, durably, or not at all. Its maximum is that of the store's
    /// pool, or, if that is full and the copy needs more, up to a sixth more (but 1 TiB at most).
    ///
    /// # Example
    /// ```
    /// # fn main() -> everleaf::Result<()> {
    /// # let folder = tempfile::tempdir().expect("a temporary folder");
    /// # let (path, copy) = (folder.path().join("p"), folder.path().join("p.backup"));
    /// use everleaf::{Options, Store};
    /// let store = Options::new().create(true).open(&path)?;
    /// store.default_map().put("oak", "Quercus")?;
    /// assert_eq!(store.backup(&copy, |_| {})?.keys, 1);
    /// store.close()?;
    /// std::fs::remove_file(&path).expect("the pool is lost");
    /// Store::restore(&copy, &path, |_| {})?;
    /// assert_eq!(Options::new().open(&path)?.default_map().len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// There is a file at `path`, or a log beside it; there is no room on its disk.
    pub fn backup(&self, path: impl AsRef<Path>, mut progress: impl FnMut(u64)) -> Result<Copied> {
        let (new, copied) = self.copy_to_free(path.as_ref(), &mut progress)?;
        new.place()?;
        Ok(copied)
    }

    /// A copy to be named `path`, which nothing has.
    fn copy_to_free(
        &self,
        path: &Path,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(NewFile, Copied)> {
        if path.exists() {
            // One that was killed behind its end has left a second name of what is there.
            remove_leftovers(path);
            return Err(Error::AlreadyExists(path.into()));
        }
        refuse_log_beside(path)?;
        self.copy_to(path, false, None, progress)
    }

    /// Makes the pool at `to`, which must not exist, from the backup (or any pool) at `from`, which
    /// nobody has open for writing. Made by root, it belongs to the owner of its folder, if nobody else may write
    /// there.
    ///
    /// # Errors
    /// As [`Self::open`] of `from` and [`Self::backup`]; [`Error::Corrupt`] if a check of the backup
    /// finds anything wrong.
    pub fn restore(
        from: impl AsRef<Path>,
        to: impl AsRef<Path>,
        mut progress: impl FnMut(u64),
    ) -> Result<Copied> {
        let backup = Options::new().read_only(true).open(from.as_ref())?;
        let problems = backup.check()?.problems;
        match problems.first() {
            Some(first) => Err(Error::Corrupt(format!(
                "the backup {} has {} problems, the first being: {first}; use an older one, or keep \
                 what can be read with `everleaf repair`",
                from.as_ref().display(),
                problems.len()
            ))),
            None => {
                let (new, copied) = backup.copy_to_free(to.as_ref(), &mut progress)?;
                new.place_for_owner()?;
                Ok(copied)
            }
        }
    }

    /// Writes the pool at `path` anew, as small as it can be, in its place: gives space back to the
    /// file system. Nobody else has it open. If it is cut short, the old pool is there. A pool that is full may get a
    /// larger maximum, as by [`Self::backup`].
    ///
    /// # Errors
    /// As [`Self::open`] and [`Self::backup`]. There must be room for both files.
    pub fn compact(path: impl AsRef<Path>, progress: impl FnMut(u64)) -> Result<Copied> {
        Options::new().compact(path, progress)
    }

    /// Lets the pool at `path` have everything that this version can do, after which older versions
    /// refuse it. Returns what was new to it; nothing if it was up to date. (What a pool does not
    /// use is otherwise noted when it is first used.)
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn upgrade(path: impl AsRef<Path>) -> Result<Vec<&'static str>> {
        Options::new().upgrade(path)
    }

    /// A new pool with the contents of this store, to be named `path`. If it is to be the `successor`
    /// of this pool, it has the same log. Its maps are in the same tree if no other is given.
    pub(crate) fn copy_to(
        &self,
        path: &Path,
        successor: bool,
        tree: Option<Tree>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(NewFile, Copied)> {
        self.shared().check_process()?;
        let file = NewFile::beside(path)?;
        let pool = self.shared().trees.heap().pool();
        let options = PoolOptions {
            create: CreateMode::New,
            max_size_bytes: pool.max_size().saturating_add(pool.max_size() / MORE),
            // The log knows the pool by it.
            uuid: Some(if successor { pool.uuid() } else { origin::new_number(pool.uuid()) }),
            ..PoolOptions::default()
        };
        let new = Pool::open(&file.path(), &options).map_err(|error| from_pool(error, path))?;
        // Of the others those are noted that the copy needs, when it needs them.
        new.enable_features(pool.features() & FEATURE_RUNS_OF_LISTS).map_err(IndexError::from)?;
        let trees = Trees::create(new)?;
        let is_hashed = self.shared().trees.makes_hashed_leaves();
        let kept = if is_hashed { Tree::HashedLeaf } else { Tree::NbTree };
        tree.unwrap_or(kept).choose_for(&trees)?;
        let (view, maps) = self.view_of_all()?;
        // Also of a pool that has lost its file: a copy is what helps then.
        match self.shared().check_process().and_then(|()| self.shared().sync()) {
            // Nothing can be made durable any more; the copy is what can be saved. A successor would go on with
            // a log that lacks what it has.
            Err(_) if !successor && self.shared().has_log_failed() => {}
            // The copy must not outlive what it was made from.
            synced => synced?,
        }
        // With a successor nobody else has the pool, and of one for reading nobody is a writer.
        let is_alone = successor || self.is_read_only();
        let mut copied = Copied::default();
        for (name, source) in &maps {
            let (started_ms, before) = (Hardware::wall_clock_ms(), copied.keys);
            let map = match source {
                Source::Bytes(map) => map,
                Source::Integers(tree) => {
                    self.copy_integers(&trees, name, tree, &mut copied, progress)?;
                    continue;
                }
            };
            copied.maps += 1;
            let mut error = None;
            let pairs = Counted {
                range: view.map(map).to_copy(),
                copied: &mut copied,
                progress: &mut *progress,
                error: &mut error,
            };
            trees.load_expiring(name, pairs)?;
            // A copy that ended early must not pass for one of everything.
            error.map_or(Ok(()), Err)?;
            if is_alone {
                self.compare_counts(name, copied.keys - before, started_ms)?;
            }
        }
        if successor {
            self.note_log_in(&trees, path)?;
        }
        let new = trees.heap().pool();
        new.set_max_size(pool.max_size()).map_err(IndexError::from)?;
        copied.size_bytes = new.size();
        trees.close()?;
        drop(trees);
        Ok((file, copied))
    }

    /// Notes in the pool that is to be the successor of this one at `path` what this one has of its log: in its own
    /// map, and in the header, which is all that counts after a crash of the machine.
    fn note_log_in(&self, new: &Trees, path: &Path) -> Result<()> {
        let from = &self.shared().trees;
        let place = wal::LogDirectory::of(&resolved(path), &Options::new());
        wal::copy_log_metadata(from, new, &place)?;
        match from.heap().pool().log_note().map_err(IndexError::from)? {
            Some(note) => new.heap().pool().note_log(note).map_err(|e| IndexError::from(e).into()),
            None => Ok(()),
        }
    }

    /// A view, and the maps there are at its moment.
    fn view_of_all(&self) -> Result<(View, Vec<(String, Source)>)> {
        let shared = self.shared();
        // Before nobody can make a map: this waits for operations, and one of them may be about to.
        shared.raise(0)?;
        let still = shared.making();
        let all = self.view().and_then(|view| {
            let maps = shared.map_names().into_iter().map(|name| {
                if let Ok(Some(tree)) = shared.trees.find_bytes_tree(&name) {
                    return Ok((name, Source::Bytes(self.default_map().another(tree))));
                }
                match shared.trees.find_u64_tree(&name) {
                    Ok(Some(tree)) => Ok((name, Source::Integers(tree))),
                    _ => Err(Error::Unsupported(format!(
                        "the map '{name}' is in a tree of another program's and cannot be copied"
                    ))),
                }
            });
            Ok((view, maps.collect::<Result<_>>()?))
        });
        drop(still);
        shared.order.lower();
        all
    }

    /// Compares how many keys of a map were copied since `started_ms` with what the pool says. Nobody
    /// writes meanwhile.
    fn compare_counts(&self, name: &str, copied: u64, started_ms: u64) -> Result<()> {
        let Some(tree) = self.shared().trees.find_bytes_tree(name)? else { return Ok(()) };
        let ended_ms = Hardware::wall_clock_ms();
        // The clock may have been set back.
        let times_ms = [started_ms.min(ended_ms), started_ms.max(ended_ms)];
        let [at_most, at_least] = self.counts(&tree, times_ms)?;
        if (at_least..=at_most).contains(&copied) {
            return Ok(());
        }
        Err(other_count(name, copied, if copied > at_most { at_most } else { at_least }))
    }

    /// How many keys of a map have not expired at each of these times, as the pool counts them.
    fn counts(&self, tree: &BytesTree, times_ms: [u64; 2]) -> Result<[u64; 2]> {
        let mut session = self.shared().trees.heap().session().map_err(IndexError::from)?;
        let mut counts = [tree.len(&mut session)?; 2];
        if tree.may_expire() {
            let (low, high) = (Bound::Unbounded, Bound::Unbounded);
            tree.scan_records(&mut session, low, high, false, |record| {
                for (count, time_ms) in counts.iter_mut().zip(times_ms) {
                    let is_over = record.expiry_ms != 0 && record.expiry_ms <= time_ms;
                    *count = count.saturating_sub(u64::from(is_over));
                }
                true
            })?;
        }
        Ok(counts)
    }
}

impl Options {
    /// [`Store::compact`], with the pool opened in this way: also if it has to be rebuilt from its
    /// log first, of which [`Self::rebuild_progress`] tells.
    ///
    /// # Errors
    /// As [`Store::compact`].
    pub fn compact(self, path: impl AsRef<Path>, mut progress: impl FnMut(u64)) -> Result<Copied> {
        let path = path.as_ref();
        let tree = self.tree;
        // Nobody removes what expires meanwhile.
        let store = self.untold().sweep(false).open(path)?;
        // Opened for writing, so that nobody else is; closed only when the new one has the name.
        let (new, copied) = store.copy_to(path, true, tree, &mut progress)?;
        if let (Some(tree), Some(log)) = (tree, &store.shared().log) {
            // Before: once the new pool is there, nothing may fail. An opening of the old one takes it back.
            log.note_tree(tree)?;
        }
        new.replace()?;
        drop(store);
        Ok(copied)
    }

    /// [`Store::upgrade`], with the pool opened in this way.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn upgrade(self, path: impl AsRef<Path>) -> Result<Vec<&'static str>> {
        let store = self.untold().open(path)?;
        let pool = store.shared().trees.heap().pool();
        // Which leaves maps have is said when the pool is made, which log it has when it is opened with one.
        let wanted = KNOWN_FEATURES & !FEATURE_HASHED_LEAVES & !FEATURE_LOG_NOTE;
        let missing = wanted & !pool.features();
        let names = [
            (everleaf_index::FEATURE_EXPIRY, "keys that expire"),
            (everleaf_index::FEATURE_BATCHES, "batches"),
            (everleaf_index::FEATURE_EXPIRY_WORD, "expiries in words of their own"),
            (everleaf_index::FEATURE_EXPIRY_IN_BATCHES, "batches that change expiries alone"),
            (FEATURE_RUNS_OF_LISTS, "runs of elements in lists"),
        ];
        let new = names.into_iter().filter(|(bit, _)| missing & bit != 0).map(|(_, name)| name);
        let new = new.collect();
        pool.enable_features(wanted).map_err(IndexError::from)?;
        store.close()?;
        Ok(new)
    }
}

/// A copy has another number of keys than the map that it was made of.
fn other_count(name: &str, copied: u64, keys: u64) -> Error {
    Error::Corrupt(format!(
        "{copied} keys of the map '{name}' were read, and the pool says that it has {keys}: check it with \
         `everleaf check`, and keep what can be proven with `everleaf repair`"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_with_another_number_of_keys_than_the_pool_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let options = Options::new().create(true).sweep(false).max_size_bytes(1 << 26);
        let store = options.open(folder.path().join("pool")).expect("it opens");
        let now = Hardware::wall_clock_ms();
        for number in 0..10u8 {
            let _ = store.default_map().put([number], b"stays").expect("room");
        }
        let compare = |copied| store.compare_counts("default", copied, now);
        assert!(compare(10).is_ok());
        for wrong in [9, 11] {
            let error = compare(wrong).expect_err("that is another number").to_string();
            assert!(error.contains("says that it has 10"), "{error}");
        }
        for (key, expiry_ms) in [(b"past", 1), (b"soon", now), (b"late", 1 << 45)] {
            let _ = store
                .default_map()
                .put_with_expiry(key, b"goes", crate::Expiry::from_unix_ms(expiry_ms))
                .expect("room");
        }
        assert_eq!(
            store.default_map().len(),
            13,
            "what has expired is counted until it is removed"
        );
        assert!(compare(11).is_ok(), "one of three has not expired");
        assert!(compare(10).is_err() && compare(13).is_err());
        let since = now - 1;
        let counts = store.counts(store.default_map().tree(), [since, now]).expect("readable");
        assert_eq!(counts, [12, 11], "one expires in between");
        assert!(store.compare_counts("default", 12, since).is_ok());
    }
}
