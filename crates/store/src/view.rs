//! Views: the store as it was at one moment, for as long as somebody looks.
//!
//! Opening a view keeps all writers out for an instant and gives it a number. From then on a writer
//! saves what a key was before it changes it for the first time since the newest view; a view looks
//! among what was saved, and in the tree for what was not. So a view costs what is changed while it
//! is open, in DRAM, and writers a lookup and a copy per key; readers of the store pay nothing.
//!
//! Invariants:
//! - V1 a view is opened while nobody has a stripe: no change is half before it and half after;
//! - V2 a change of a key is visible only after what it replaces was saved for the newest view.
//!   Therefore who finds a key in the tree, and nothing saved *afterwards*, has what it was.

use std::collections::{BTreeMap, HashMap};
use std::ops::{Bound, Deref, RangeBounds};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use everleaf_index::{BytesTree, Hardware, IndexError, Machine, Session, Verify};

use crate::map::Map;
use crate::range::{Piece, Range, prefix_bounds};
use crate::store::Shared;
use crate::{Result, Store};

/// Parts of what is saved, by hash of the key: writers of different parts do not meet.
const PART_COUNT: usize = 16;

/// A value and when it expires (0: never).
type Value = (Vec<u8>, u64);

/// What a key was before its first change after the view of this number.
struct Old {
    version: u64,
    value: Option<Value>,
}

/// What was saved of one map.
struct SavedMap {
    /// Kept, so that its address is not given to another.
    _tree: Arc<BytesTree>,
    /// By key; of each, ascending by version.
    keys: BTreeMap<Vec<u8>, Vec<Old>>,
}

/// Maps by the address of their tree.
type Part = HashMap<usize, SavedMap>;

/// Who is looking.
#[derive(Default)]
struct Open {
    last: u64,
    versions: Vec<u64>,
}

/// The open views of a store and what is saved for them.
pub(crate) struct Views {
    /// The version of the newest view; 0 if none is open. Stored by one who has all stripes.
    newest: AtomicU64,
    open: Mutex<Open>,
    parts: Box<[Mutex<Part>]>,
}

impl Default for Views {
    fn default() -> Self {
        Views {
            newest: AtomicU64::new(0),
            open: Mutex::default(),
            parts: (0..PART_COUNT).map(|_| Mutex::default()).collect(),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing below panics between two changes that belong together.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn address(tree: &Arc<BytesTree>) -> usize {
    Arc::as_ptr(tree) as usize
}

/// Whether a value of this expiry is still there.
fn is_live((_, expiry_ms): &Value) -> bool {
    *expiry_ms == 0 || *expiry_ms > Hardware::wall_clock_ms()
}

/// What a key was at this version, if it changed since.
fn at_version(olds: &[Old], version: u64) -> Option<&Old> {
    olds.iter().find(|old| old.version >= version)
}

impl Views {
    fn part(&self, hash: u64) -> MutexGuard<'_, Part> {
        lock(&self.parts[(hash >> 20) as usize % PART_COUNT])
    }

    /// Saves a key before it is changed (V2). The caller has its stripe.
    pub fn save(
        &self,
        tree: &Arc<BytesTree>,
        session: &mut Session<Hardware>,
        key: &[u8],
        hash_of: impl Fn(&[u8]) -> u64,
    ) -> Result<()> {
        // Relaxed: stored by one who had all stripes, so ordered by ours.
        let newest = self.newest.load(Ordering::Relaxed);
        if newest == 0 {
            return Ok(());
        }
        let mut part = self.part(hash_of(key));
        let saved = part
            .entry(address(tree))
            .or_insert_with(|| SavedMap { _tree: tree.clone(), keys: BTreeMap::new() });
        let known = saved.keys.get(key).and_then(|olds| olds.last());
        if known.is_some_and(|old| old.version >= newest) {
            return Ok(());
        }
        let see = |record: everleaf_index::Record<'_>| (record.value.to_vec(), record.expiry_ms);
        let value = tree.get_verified(session, key, Verify::Sum, see)?;
        saved.keys.entry(key.to_vec()).or_default().push(Old { version: newest, value });
        Ok(())
    }

    /// Saves all keys of a map before it is emptied. The caller has all stripes.
    pub fn save_all(
        &self,
        tree: &Arc<BytesTree>,
        session: &mut Session<Hardware>,
        hash_of: impl Fn(&[u8]) -> u64,
    ) -> Result<()> {
        // Relaxed: as in `save`.
        if self.newest.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        let mut keys = vec![];
        tree.scan(session, Bound::Unbounded, Bound::Unbounded, false, |key, _| {
            keys.push(key.to_vec());
            true
        })?;
        keys.iter().try_for_each(|key| self.save(tree, session, key, &hash_of))
    }

    /// What a key was, if it was saved since the view of this version: absent or a value.
    fn find(
        &self,
        tree: &Arc<BytesTree>,
        key: &[u8],
        hash: u64,
        version: u64,
    ) -> Option<Option<Value>> {
        let part = self.part(hash);
        let olds = part.get(&address(tree))?.keys.get(key)?;
        Some(at_version(olds, version)?.value.clone().filter(is_live))
    }

    /// Puts what was saved between two bounds over what was found in the tree afterwards.
    fn lay_over(
        &self,
        tree: &Arc<BytesTree>,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        version: u64,
        pairs: &mut BTreeMap<Vec<u8>, Value>,
    ) {
        for part in &self.parts {
            let part = lock(part);
            let Some(saved) = part.get(&address(tree)) else { continue };
            for (key, olds) in saved.keys.range::<[u8], _>(bounds) {
                let Some(old) = at_version(olds, version) else { continue };
                match &old.value {
                    Some(value) if is_live(value) => {
                        pairs.insert(key.clone(), value.clone());
                    }
                    _ => drop(pairs.remove(key)),
                }
            }
        }
    }

    /// Views that are open, and keys saved for them.
    pub fn count(&self) -> (u64, u64) {
        let views = lock(&self.open).versions.len() as u64;
        let keys = |part: &Mutex<Part>| {
            lock(part).values().map(|saved| saved.keys.len() as u64).sum::<u64>()
        };
        (views, self.parts.iter().map(keys).sum())
    }
}

/// What a view holds on to.
struct Inner {
    /// A handle of the default map, which keeps the store open.
    map: Map,
    version: u64,
}

impl Inner {
    fn views(&self) -> &Views {
        &self.map.shared().views
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.map.shared().check_process().is_err() {
            // Inherited by a fork: threads that are not here may hold the locks.
            return;
        }
        let views = self.views();
        let mut open = lock(&views.open);
        open.versions.retain(|version| *version != self.version);
        if open.versions.is_empty() {
            // Relaxed: a writer that sees it late saves for nobody.
            views.newest.store(0, Ordering::Relaxed);
            views.parts.iter().for_each(|part| lock(part).clear());
        }
        drop(open);
        self.map.shared().order.lower();
    }
}

/// The store as it was when the view was opened; see [`Store::view`].
///
/// Cheap to clone and to hold; what it costs grows with what is changed meanwhile (a copy of each
/// such key and its old value in DRAM) and is given back when the last view of the store goes. It
/// derefs to its [`MapView`] of the default map. *Thread safety*: as a [`Map`].
#[derive(Clone)]
pub struct View {
    default: MapView,
}

impl Deref for View {
    type Target = MapView;
    fn deref(&self) -> &MapView {
        &self.default
    }
}

impl View {
    /// A map as it was. One that was made since is empty.
    pub fn map(&self, map: &Map) -> MapView {
        MapView { map: map.clone(), inner: self.default.inner.clone() }
    }
}

/// A map as it was when a [`View`] was opened. A key that expires is absent from then on, here too.
#[derive(Clone)]
pub struct MapView {
    map: Map,
    inner: Arc<Inner>,
}

impl MapView {
    /// The value that `key` had.
    ///
    /// # Errors
    /// As [`Map::get`].
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let (tree, shared) = (self.map.tree_arc(), self.map.shared());
        shared.check_process()?;
        let hash = shared.order.hash_of(key);
        let find = || self.inner.views().find(tree, key, hash, self.inner.version);
        if let Some(old) = find() {
            return Ok(old.map(|(value, _)| value));
        }
        let own = |record: everleaf_index::Record<'_>| record.value.to_vec();
        let found = tree.get_verified(&mut *shared.session()?, key, shared.verify, own);
        if let Some(old) = find() {
            return Ok(old.map(|(value, _)| value));
        }
        match found {
            // What it held when it was dropped was saved.
            Err(IndexError::Removed) => Ok(None),
            found => Ok(found?),
        }
    }

    /// Whether `key` was there.
    ///
    /// # Errors
    /// As [`Map::get`].
    pub fn contains(&self, key: &[u8]) -> Result<bool> {
        Ok(self.get(key)?.is_some())
    }

    /// The pairs whose keys lie in `range`, in key order, all as they were at one moment; see
    /// [`Map::range`] for the rest.
    pub fn range<'k>(&self, range: impl RangeBounds<&'k [u8]>) -> Range {
        let owned = |bound: Bound<&&[u8]>| bound.map(|key| key.to_vec());
        Range::of_view(self.clone(), owned(range.start_bound()), owned(range.end_bound()))
    }

    /// All pairs, as [`Self::range`].
    pub fn iter(&self) -> Range {
        self.range(..)
    }

    /// The pairs whose keys start with `prefix`, as [`Self::range`].
    pub fn prefix(&self, prefix: &[u8]) -> Range {
        let (from, to) = prefix_bounds(prefix);
        Range::of_view(self.clone(), from, to)
    }

    /// The next pairs of a range, from one of its ends. The bounds are not crossed.
    pub(crate) fn piece(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        reverse: bool,
        limit: usize,
    ) -> Result<Piece> {
        let mut piece = match self.map.piece(from, to, reverse, limit) {
            Err(crate::Error::BadName(_)) => Piece::default(),
            piece => piece?,
        };
        let last = piece.pairs.back().map(|((key, _), _)| key.clone()).filter(|_| piece.next);
        let bounds = match &last {
            Some(last) if reverse => (Bound::Included(last.as_slice()), to),
            Some(last) => (from, Bound::Included(last.as_slice())),
            None => (from, to),
        };
        let apart = |((key, value), expiry_ms)| (key, (value, expiry_ms));
        let mut pairs: BTreeMap<Vec<u8>, Value> = piece.pairs.drain(..).map(apart).collect();
        let tree = self.map.tree_arc();
        self.inner.views().lay_over(tree, bounds, self.inner.version, &mut pairs);
        let together = |(key, (value, expiry_ms))| ((key, value), expiry_ms);
        piece.pairs = match reverse {
            true => pairs.into_iter().rev().map(together).collect(),
            false => pairs.into_iter().map(together).collect(),
        };
        piece.reached = last;
        Ok(piece)
    }
}

impl Store {
    /// Opens a view: all maps of the store as they are now, whatever is written meanwhile. Batches
    /// are in it as a whole or not at all, and so is whatever a thread has seen before.
    ///
    /// *Cost*: writers are kept out for an instant, some dozen microseconds; the first view after a
    /// pause waits until the operations that are running at that moment have ended, so do not open
    /// one from within a function that the store calls. Until the last view goes, a write saves what
    /// it replaces, once per key.
    ///
    /// # Example
    /// ```
    /// # fn main() -> everleaf::Result<()> {
    /// # let folder = tempfile::tempdir().expect("a temporary folder");
    /// # let store = everleaf::Options::new().create(true).open(folder.path().join("p"))?;
    /// store.put(b"oak", b"Quercus")?;
    /// let view = store.view()?;
    /// store.put(b"oak", b"changed")?;
    /// store.put(b"ash", b"new")?;
    /// assert_eq!(view.get(b"oak")?, Some(b"Quercus".to_vec()));
    /// assert_eq!(view.iter().count(), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The store was inherited by a fork.
    pub fn view(&self) -> Result<View> {
        let map = Map::clone(self);
        map.shared().check_process()?;
        let version = map.shared().open_view();
        let inner = Arc::new(Inner { map: map.clone(), version });
        Ok(View { default: MapView { map, inner } })
    }
}

impl Shared {
    /// Raises the gate for a new view and numbers it.
    fn open_view(&self) -> u64 {
        self.order.raise(self.trees.heap());
        let mut open = lock(&self.views.open);
        // No writer is between saving and changing (V1).
        let _all = self.order.lock_all();
        open.last += 1;
        let version = open.last;
        open.versions.push(version);
        // Relaxed: read by those who take a stripe after us.
        self.views.newest.store(version, Ordering::Relaxed);
        version
    }
}
