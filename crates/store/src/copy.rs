//! A whole store as a new file: backup, restore, compaction, upgrade.
//!
//! All of them write a new pool beside its place, in key order and without gaps, and give it its
//! name when it is complete and on the disk. The pool that is read is never changed.

use std::fs::File;
use std::path::{Path, PathBuf};

use everleaf_index::{CreateMode, KNOWN_FEATURES, Pool, PoolOptions, Trees};

use crate::power;
use crate::range::Range;
use crate::store::from_pool;
use crate::{Error, Options, Result, Store, View};

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
struct Counted<'a, F> {
    range: &'a mut Range,
    copied: &'a mut Copied,
    progress: &'a mut F,
}

impl<F: FnMut(u64)> Iterator for Counted<'_, F> {
    type Item = (Vec<u8>, Vec<u8>, u64);

    fn next(&mut self) -> Option<Self::Item> {
        let ((key, value), expiry_ms) = self.range.next_entry()?;
        self.copied.keys += 1;
        if self.copied.keys.is_multiple_of(1 << 14) {
            (self.progress)(self.copied.keys);
        }
        Some((key, value, expiry_ms))
    }
}

/// A file that is being written: removed again unless it gets its name.
struct Unfinished(PathBuf);

impl Drop for Unfinished {
    fn drop(&mut self) {
        // It has its name, or is of no use; that it is left behind harms nobody.
        let _ = std::fs::remove_file(&self.0);
    }
}

fn io(what: String) -> impl FnOnce(std::io::Error) -> Error {
    move |error| Error::Io(what, error)
}

/// `path` with something behind its name.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// Makes the name of a file durable.
pub(crate) fn sync_folder_of(path: &Path) -> Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let what = format!("cannot sync the folder {}", folder.display());
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(io(what))
}

impl Store {
    /// Writes all maps, as they are at one moment, to a new pool at `path`, while the store goes on
    /// being read and written. `progress` is told the number of pairs from time to time.
    ///
    /// The backup is a pool like any other: open it read-only to look at it, or
    /// [restore](Self::restore) it. It exists as a whole, durably, or not at all.
    ///
    /// # Example
    /// ```
    /// # fn main() -> everleaf::Result<()> {
    /// # let folder = tempfile::tempdir().expect("a temporary folder");
    /// # let (path, copy) = (folder.path().join("p"), folder.path().join("p.backup"));
    /// use everleaf::{Options, Store};
    /// let store = Options::new().create(true).open(&path)?;
    /// store.put(b"oak", b"Quercus")?;
    /// assert_eq!(store.backup(&copy, |_| {})?.keys, 1);
    /// store.close()?;
    /// std::fs::remove_file(&path).expect("the pool is lost");
    /// Store::restore(&copy, &path, |_| {})?;
    /// assert_eq!(Options::new().open(&path)?.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// There is a file at `path`; there is no room on its disk.
    pub fn backup(&self, path: impl AsRef<Path>, progress: impl FnMut(u64)) -> Result<Copied> {
        let path = path.as_ref();
        if path.exists() {
            return Err(Error::AlreadyExists(path.into()));
        }
        self.copy_to(path, false, progress)
    }

    /// Makes the pool at `to`, which must not exist, from the backup (or any pool) at `from`, which
    /// nobody has open for writing.
    ///
    /// # Errors
    /// As [`Self::open`] of `from` and [`Self::backup`]; [`Error::Corrupt`] if a check of the backup
    /// finds anything wrong.
    pub fn restore(
        from: impl AsRef<Path>,
        to: impl AsRef<Path>,
        progress: impl FnMut(u64),
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
            None => backup.backup(to, progress),
        }
    }

    /// Writes the pool at `path` anew, as small as it can be, in its place: gives space back to the
    /// file system. Nobody else has it open. If it is cut short, the old pool is there.
    ///
    /// # Errors
    /// As [`Self::open`] and [`Self::backup`]. There must be room for both files.
    pub fn compact(path: impl AsRef<Path>, progress: impl FnMut(u64)) -> Result<Copied> {
        let path = path.as_ref();
        let store = Options::new().open(path)?;
        // Opened for writing, so that nobody else is; closed only when the new one has the name.
        let copied = store.copy_to(path, true, progress)?;
        drop(store);
        Ok(copied)
    }

    /// Lets the pool at `path` have everything that this version can do, after which older versions
    /// refuse it. Returns what was new to it; nothing if it was up to date. (What a pool does not
    /// use is otherwise noted when it is first used.)
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn upgrade(path: impl AsRef<Path>) -> Result<Vec<&'static str>> {
        let store = Options::new().open(path)?;
        let pool = store.shared().trees.heap().pool();
        let missing = KNOWN_FEATURES & !pool.features();
        let names = [
            (everleaf_index::FEATURE_EXPIRY, "keys that expire"),
            (everleaf_index::FEATURE_BATCHES, "batches"),
        ];
        let new = names.into_iter().filter(|(bit, _)| missing & bit != 0).map(|(_, name)| name);
        let new = new.collect();
        pool.enable_features(KNOWN_FEATURES).map_err(everleaf_index::IndexError::from)?;
        store.close()?;
        Ok(new)
    }

    /// A new pool with the contents of this store under the name `path`, which may be taken. If it is
    /// to be the `successor` of this pool, it has the same log.
    pub(crate) fn copy_to(
        &self,
        path: &Path,
        successor: bool,
        mut progress: impl FnMut(u64),
    ) -> Result<Copied> {
        let unfinished = Unfinished(beside(path, ".unfinished"));
        let _ = std::fs::remove_file(&unfinished.0);
        let pool = self.shared().trees.heap().pool();
        let options = PoolOptions {
            create: CreateMode::New,
            max_size_bytes: pool.max_size(),
            ..PoolOptions::default()
        };
        let new =
            Pool::open(&unfinished.0, &options).map_err(|error| from_pool(error, &unfinished.0))?;
        let trees = Trees::create(new)?;
        let view = self.view()?;
        let mut copied = Copied::default();
        for name in self.map_names() {
            self.copy_map(&view, &name, &trees, &mut copied, &mut progress)?;
        }
        if successor {
            power::copy_own(&self.shared().trees, &trees)?;
        }
        copied.size_bytes = trees.heap().pool().size();
        trees.close()?;
        drop(trees);
        let what = format!("cannot give the new file its name {}", path.display());
        std::fs::rename(&unfinished.0, path).map_err(io(what))?;
        sync_folder_of(path)?;
        Ok(copied)
    }

    fn copy_map(
        &self,
        view: &View,
        name: &str,
        trees: &Trees,
        copied: &mut Copied,
        progress: &mut impl FnMut(u64),
    ) -> Result<()> {
        let map = match self.existing_map(name) {
            Ok(Some(map)) => map,
            // It was dropped since the names were listed.
            Ok(None) => return Ok(()),
            Err(_) => {
                return Err(Error::Unsupported(format!(
                    "the map '{name}' is not one of byte strings and cannot be copied"
                )));
            }
        };
        copied.maps += 1;
        let mut range = view.map(&map).iter();
        trees.load_expiring(name, Counted { range: &mut range, copied, progress })?;
        // A copy that ended early must not pass for one of everything.
        range.take_error().map_or(Ok(()), Err)
    }
}
