//! Views: the store as it was at one moment, for as long as somebody looks.
//!
//! Opening a view keeps all writers out for an instant and gives it a number. From then on a writer
//! saves what a key was before it changes it for the first time since the newest view; a view looks
//! among what was saved ([`Versions`]), and in the tree for what was not. So a view costs what is
//! changed while it is open, in DRAM, and writers a lookup and a copy per key; readers of the store
//! pay nothing.
//!
//! Invariants:
//! - V1 a view is opened while nobody has a stripe: no change is half before it and half after;
//! - V2 a change of a key is visible only after what it replaces was saved for the newest view.
//!   Therefore a thread that finds a key in the tree, and nothing saved *afterwards*, has what it was;
//! - V3 a view is marked as given up before anything of it goes, and before a change is made that is not
//!   saved for it. So a thread that has read, and finds it unmarked *afterwards*, has read what it was.

mod many;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use everleaf_index::{IndexError, Verify};

use crate::conversion::copy_of;
use crate::map::Map;
use crate::map::key_range::{KeyRange, owned_bounds, prefix_bounds};
use crate::map::pages::{Bounds, Page, PageLimit, last_key};
use crate::map::range::Range;
use crate::shared::Shared;
use crate::versions::{BeforeImage, Value, Versions};
use crate::{Error, Result, Store};

/// What a view holds on to.
struct Inner {
    shared: Arc<Shared>,
    version: u64,
    /// Whether the view was given up because too much was kept.
    lost: Arc<AtomicBool>,
}

impl Inner {
    fn views(&self) -> &Versions {
        &self.shared.views
    }

    /// Refuses what was read if the view was given up before (V3).
    fn check(&self) -> Result<()> {
        // Acquire: pairs with the release of the thread that gives it up. If what was read is a change that was
        // not saved for this view, or if an old value was missing, the mark is seen (V3).
        if self.lost.load(Ordering::Acquire) {
            return Err(Error::ViewLost(self.views().limit_bytes()));
        }
        Ok(())
    }
}

impl Inner {
    /// The version whose values are looked for.
    fn seen(&self) -> u64 {
        self.version + u64::from(self.shared.mutant("store.view_shows_later"))
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let shared = &self.shared;
        if shared.check_process().is_err() {
            // Inherited by a fork: threads that are not here may hold the locks.
            return;
        }
        shared.views.close(self.version, shared.mutant("store.close_frees_needed"));
        shared.order.lower();
    }
}

/// What a get answers of a key that was this.
fn value_of(was: BeforeImage) -> Result<Option<Vec<u8>>> {
    match was {
        BeforeImage::Absent => Ok(None),
        BeforeImage::Value((value, _)) => Ok(Some(value)),
        BeforeImage::Damaged(text) => Err(Error::Corrupt(text.to_string())),
    }
}

/// The store as it was when the view was opened; see [`Store::view`].
///
/// Cheap to clone and to hold; what it costs grows with what is changed meanwhile (a copy of each
/// such key and its old value in DRAM) and is given back when no open view needs it. *Thread safety*: as a [`Map`].
#[derive(Clone)]
pub struct View {
    default: MapView,
}

impl View {
    /// The default map as it was.
    pub fn default_map(&self) -> &MapView {
        &self.default
    }

    /// A map of the store as it was. One that was made since is empty. A map of another store cannot be read:
    /// each call says so.
    pub fn map(&self, map: &Map) -> MapView {
        MapView { map: map.clone(), inner: self.default.inner.clone() }
    }
}

/// A map as it was when a [`View`] was opened. A key that expires is absent from then on, here too.
#[derive(Clone)]
pub struct MapView {
    /// Goes first: the map may be the last handle, which closes the store.
    inner: Arc<Inner>,
    map: Map,
}

impl MapView {
    /// Refuses a map of another store, of which the view knows nothing.
    fn check_store(&self) -> Result<()> {
        if Arc::ptr_eq(&self.inner.shared, self.map.shared()) {
            return Ok(());
        }
        let text = "the map belongs to another store than the view: open a view of that store";
        Err(Error::OtherStore(text.to_string()))
    }

    /// The value that `key` had.
    ///
    /// # Errors
    /// As [`Map::get`], and [`Error::ViewLost`].
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.find(key.as_ref(), copy_of, |saved| saved)
    }

    /// What is seen of a value in the tree, or of one that was saved.
    fn find<R>(
        &self,
        key: &[u8],
        see: impl FnOnce(&[u8]) -> Result<R>,
        of_saved: impl FnOnce(Vec<u8>) -> R,
    ) -> Result<Option<R>> {
        self.check_store()?;
        let (tree, shared) = (self.map.tree_arc(), self.map.shared());
        shared.check_process()?;
        let hash = shared.order.hash_of(key);
        self.inner.check()?;
        if self.inner.views().is_born_after(tree, self.inner.version) {
            return Ok(None);
        }
        let find = || self.inner.views().find(tree, key, hash, self.inner.seen());
        if let Some(was) = find()? {
            return Ok(value_of(was)?.map(of_saved));
        }
        shared.reached("store.view_looked");
        let see = |record: everleaf_index::Record<'_>| see(record.value);
        let found = tree.get_verified(&mut *shared.session()?, key, shared.verify, see);
        if let Some(was) = find()? {
            return Ok(value_of(was)?.map(of_saved));
        }
        self.inner.check()?;
        match found {
            // What it held when it was dropped was saved.
            Err(IndexError::Removed) => Ok(None),
            found => found?.transpose(),
        }
    }

    /// Whether `key` was there.
    ///
    /// # Errors
    /// As [`Map::get`].
    pub fn contains(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.find(key.as_ref(), |_| Ok(()), drop)?.is_some())
    }

    /// The pairs whose keys lie in `range`, in key order, all as they were at one moment; see
    /// [`Map::range`] for the rest.
    pub fn range(&self, range: impl KeyRange) -> Range {
        Range::of_view(self.clone(), owned_bounds(range))
    }

    /// All pairs, as [`Self::range`].
    pub fn iter(&self) -> Range {
        self.range(..)
    }

    /// The pairs whose keys start with `prefix`, as [`Self::range`].
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Range {
        Range::of_view(self.clone(), prefix_bounds(prefix.as_ref()))
    }

    pub(crate) fn shared(&self) -> &Shared {
        self.map.shared()
    }

    /// All pairs, each with its check sum verified, whatever the store was told about scans: what is copied gets
    /// a new sum, which would tell of nothing.
    pub(crate) fn to_copy(&self) -> Range {
        match self.shared().mutant("store.copies_unverified") {
            true => self.iter(),
            false => self.iter().verified(),
        }
    }

    /// The next pairs of a range, from one of its ends. The bounds are not crossed.
    pub(crate) fn page(
        &self,
        bounds: Bounds<'_>,
        reverse: bool,
        limit: PageLimit,
        verify: Verify,
    ) -> Result<Page> {
        self.check_store()?;
        let is_later = self.inner.views().is_born_after(self.map.tree_arc(), self.inner.version);
        if is_later {
            self.inner.check()?;
            return Ok(Page::default());
        }
        let mut page = match self.map.page(bounds, reverse, limit, verify) {
            Err(Error::MapDropped) => Page::default(),
            page => page?,
        };
        self.shared().reached("store.view_looked");
        let last = page.reached.take().filter(|_| page.has_more);
        let bounds = match &last {
            Some(last) if reverse => (Bound::Included(last.as_slice()), bounds.1),
            Some(last) => (bounds.0, Bound::Included(last.as_slice())),
            None => bounds,
        };
        let apart = |((key, value), expiry_ms)| (key, (value, expiry_ms));
        let mut pairs: BTreeMap<Vec<u8>, Value> = page.pairs.drain(..).map(apart).collect();
        let tree = self.map.tree_arc();
        let views = self.inner.views();
        let cut = views.lay_over(tree, bounds, reverse, self.inner.seen(), &mut pairs);
        self.inner.check()?;
        let cut = cut?;
        let together = |(key, (value, expiry_ms))| ((key, value), expiry_ms);
        page.pairs = match reverse {
            true => pairs.into_iter().rev().map(together).collect(),
            false => pairs.into_iter().map(together).collect(),
        };
        page.has_more |= cut.is_some();
        page.reached = cut.or(last).or_else(|| last_key(&page.pairs));
        Ok(page)
    }
}

impl std::fmt::Debug for View {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("View").field("version", &self.default.inner.version).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for MapView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MapView").field("version", &self.inner.version).finish_non_exhaustive()
    }
}

impl Store {
    /// Opens a view: all maps of the store as they are now, whatever is written meanwhile. Batches
    /// are in it as a whole or not at all, and so is whatever a thread has seen before.
    ///
    /// *Cost*: writers are kept out for an instant, some dozen microseconds; the first view after a
    /// pause waits until the operations that are running at that moment have ended; from within a
    /// function that the store calls it is then refused. While views are open, a write saves what it
    /// replaces, once per key and opening. A value is kept for as long as an open view needs it:
    /// `view_bytes` in [`Store::statistics`] says how much that is, and
    /// [`Options::view_memory_bytes`](crate::Options::view_memory_bytes) limits it.
    ///
    /// # Example
    /// ```
    /// # fn main() -> everleaf::Result<()> {
    /// # let folder = tempfile::tempdir().expect("a temporary folder");
    /// # let store = everleaf::Options::new().create(true).open(folder.path().join("p"))?;
    /// let trees = store.map("trees")?;
    /// trees.put("oak", "Quercus")?;
    /// let view = store.view()?;
    /// trees.put("oak", "changed")?;
    /// trees.put("ash", "new")?;
    /// let then = view.map(&trees);
    /// assert_eq!(then.get("oak")?, Some(b"Quercus".to_vec()));
    /// assert_eq!(then.iter().count(), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// It would have to wait for an operation that the calling thread is inside of; the store was
    /// inherited by a fork.
    pub fn view(&self) -> Result<View> {
        let map = self.default_map().clone();
        map.shared().check_process()?;
        let (version, lost) = map.shared().open_view()?;
        let inner = Arc::new(Inner { shared: map.shared().clone(), version, lost });
        Ok(View { default: MapView { map, inner } })
    }
}

impl Shared {
    /// Raises the gate for a new view and numbers it.
    fn open_view(&self) -> Result<(u64, Arc<AtomicBool>)> {
        self.raise(0)?;
        // No writer is between saving and changing (V1).
        let opens_beside = self.mutant("store.view_opens_beside_writes");
        let _all = (!opens_beside).then(|| self.order.lock_all());
        Ok(self.views.open())
    }
}
