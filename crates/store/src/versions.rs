//! What keys were before they changed, for the views that are open.
//!
//! Views are numbered in the order in which they are opened. Of each key that changed there is a
//! *chain* of old values, ascending by version. A value of version `v` behind one of version `u` is
//! what the views numbered from `u + 1` to `v` see; views above the last version see the tree.
//!
//! ```text
//!   open views        3        7             12
//!   chain of "oak"    |--a--|  |-----b----------|   then the tree
//!                     3                        12
//! ```
//!
//! A writer saves a value at most once between two openings, and only if a view is open. When a view
//! closes, each value of its version either goes, or becomes that of the next older view that is open
//! and needs it. So a chain is never longer than there are views, and what is held is at most one old
//! value per key and view. A value is looked at once for each view that closes while it is the last to
//! need it.
//!
//! Invariants:
//! - O1 every version in a chain is that of an open view, or of one that is being closed;
//! - O2 a value is in the list of its version in its part: closing a view looks at nothing else;
//! - O3 one view is closed at a time: nobody else changes the versions of values that are there;
//! - O4 the version that writers save for is read behind the lock of a part. So when a view has closed
//!   and a part was locked since, nothing of that version comes to this part any more.

mod page;
mod saving;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use everleaf_index::{BytesTree, Hardware, Machine};

use crate::conversion::copy_of;
use crate::ranked::{Rank, RankedGuard, RankedMutex};

/// Parts of what is saved, by hash of the key: writers of different parts do not meet.
const PART_COUNT: usize = 16;
/// Values that closing a view looks at before it lets writers go on.
const SLICE_COUNT: usize = 256;
/// What a value costs beside its bytes: the nodes of map and list, and the headers of the allocator.
const VALUE_OVERHEAD: usize = 160;

/// A value and when it expires (0: never).
pub(crate) type Value = (Vec<u8>, u64);

/// What a key was.
#[derive(Clone, Debug)]
pub(crate) enum BeforeImage {
    Absent,
    Value(Value),
    /// Nobody can tell: its record was damaged. The error of a thread that reads it.
    Damaged(Arc<str>),
}

/// What a key was, as the views up to this version see it.
struct Old {
    version: u64,
    was: BeforeImage,
    /// Of one that was absent: that its map had been emptied, and not everything could be saved. For the views up to
    /// that version nobody can tell whether it was there.
    emptied: Option<Arc<Unsaved>>,
}

impl Old {
    /// As a view of this version reads it now: a value whose time has come is absent. An error if there is no memory
    /// for its copy.
    fn live(&self, version: u64) -> crate::Result<BeforeImage> {
        Ok(match (&self.was, &self.emptied) {
            (BeforeImage::Absent, Some(unsaved)) if version <= unsaved.version => {
                BeforeImage::Damaged(unsaved.text.clone())
            }
            (BeforeImage::Value(value), _) if !is_live(value) => BeforeImage::Absent,
            (BeforeImage::Value((bytes, expiry_ms)), _) => {
                BeforeImage::Value((copy_of(bytes)?, *expiry_ms))
            }
            (other, _) => other.clone(),
        })
    }
}

/// What was saved of one map.
struct SavedMap {
    /// Kept, so that its address is not given to another.
    _tree: Arc<BytesTree>,
    chains: BTreeMap<Arc<[u8]>, Vec<Old>>,
}

/// A map, by the address of its tree, and a key of it.
type MapKey = (usize, Arc<[u8]>);

/// A part of what is saved.
#[derive(Default)]
struct Part {
    /// Maps by the address of their tree.
    maps: HashMap<usize, SavedMap>,
    /// The values of each version, by map and key (O2).
    of_version: HashMap<u64, Vec<MapKey>>,
}

/// Views that can be read.
#[derive(Default)]
struct Open {
    last: u64,
    /// By version; the flag says whether the view was given up.
    views: BTreeMap<u64, Arc<AtomicBool>>,
}

/// Old values by map, key and version.
pub(crate) struct Versions {
    /// The version of the newest open view; 0 if none is. Raised by a thread that has all stripes.
    newest: AtomicU64,
    /// Held while a view is closed (O3).
    closing: RankedMutex<()>,
    open: RankedMutex<Open>,
    parts: Box<[RankedMutex<Part>]>,
    /// Bytes that are held, keys and overhead included.
    bytes: AtomicU64,
    /// When more bytes are held, the oldest views are given up; 0: never.
    limit_bytes: u64,
    /// Views that were given up.
    lost: AtomicU64,
    new_maps: NewMaps,
    /// Whether there is anything in `unsaved`. Changed by a thread that has the lock of that.
    has_unsaved: AtomicBool,
    /// Maps that were emptied while a record of theirs was damaged, in that order. Something is added by a thread
    /// that has all stripes.
    unsaved: RankedMutex<Vec<Arc<Unsaved>>>,
}

/// Maps that were made with their pairs while a view was open: views up to this version see none of
/// them. The lock is the last of all: nothing is waited for behind it.
#[derive(Default)]
struct NewMaps {
    count: AtomicUsize,
    list: Mutex<Vec<(Arc<BytesTree>, u64)>>,
}

/// A map of which not everything could be saved before it was emptied: what is not in the books of the
/// views up to this version may have been there.
struct Unsaved {
    /// Kept, so that its address is not given to another.
    tree: Arc<BytesTree>,
    version: u64,
    /// The error of a thread that reads it.
    text: Arc<str>,
}

/// What views cost now.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Held {
    /// Views that can be read.
    pub views: u64,
    /// Keys of which something is kept.
    pub keys: u64,
    pub bytes: u64,
    /// Views given up since the store was opened.
    pub lost: u64,
}

fn address(tree: &Arc<BytesTree>) -> usize {
    Arc::as_ptr(tree) as usize
}

/// Whether a value of this expiry is still there.
fn is_live((_, expiry_ms): &Value) -> bool {
    *expiry_ms == 0 || *expiry_ms > Hardware::wall_clock_ms()
}

/// What a key was at this version, if it changed since.
fn at_version(chain: &[Old], version: u64) -> Option<&Old> {
    chain.get(chain.partition_point(|old| old.version < version))
}

fn size_of(key: &[u8], was: &BeforeImage) -> u64 {
    let size = match was {
        BeforeImage::Absent => 0,
        BeforeImage::Value((bytes, _)) => bytes.len(),
        BeforeImage::Damaged(text) => text.len(),
    };
    (key.len() + size + VALUE_OVERHEAD) as u64
}

impl Part {
    /// Closes a view for some values of its version. Returns the bytes that went, and whether more of
    /// that version are left. `before`: the next older view that is open, 0 if there is none.
    fn release(&mut self, version: u64, before: u64, takes_needed: bool) -> (u64, bool) {
        let Some(list) = self.of_version.get_mut(&version) else { return (0, false) };
        let rest = list.len().saturating_sub(SLICE_COUNT);
        let slice = list.split_off(rest);
        if rest == 0 {
            self.of_version.remove(&version);
        }
        let mut freed = 0;
        for (map, key) in slice {
            let Some(saved) = self.maps.get_mut(&map) else { continue };
            let Some(chain) = saved.chains.get_mut(&key) else { continue };
            let at = chain.partition_point(|old| old.version < version);
            let is_needed = before > at.checked_sub(1).map_or(0, |at| chain[at].version);
            if is_needed && !takes_needed {
                chain[at].version = before;
                self.of_version.entry(before).or_default().push((map, key));
                continue;
            }
            freed += size_of(&key, &chain.remove(at).was);
            if chain.is_empty() {
                saved.chains.remove(&key);
                if saved.chains.is_empty() {
                    self.maps.remove(&map);
                }
            }
        }
        (freed, rest > 0)
    }
}

impl Versions {
    /// Gives up the oldest views when more than `limit_bytes` are held; 0 for never.
    pub fn new(limit_bytes: u64) -> Self {
        let part = || RankedMutex::new(Rank::ViewPart, Part::default());
        Versions {
            newest: AtomicU64::new(0),
            closing: RankedMutex::new(Rank::ViewClosing, ()),
            open: RankedMutex::new(Rank::ViewList, Open::default()),
            parts: (0..PART_COUNT).map(|_| part()).collect(),
            bytes: AtomicU64::new(0),
            limit_bytes,
            lost: AtomicU64::new(0),
            new_maps: NewMaps::default(),
            has_unsaved: AtomicBool::new(false),
            unsaved: RankedMutex::new(Rank::ViewPart, vec![]),
        }
    }

    /// Notes that a map is made with its pairs, before anybody can find it. The caller has all stripes,
    /// or no view is open.
    pub fn note_birth(&self, tree: &Arc<BytesTree>) {
        let newest = self.saves_for();
        if newest != 0 {
            let mut list = self.new_maps.list.lock().unwrap_or_else(PoisonError::into_inner);
            list.push((tree.clone(), newest));
            // Relaxed: a thread that looks for this map has found it, behind the lock of the names.
            self.new_maps.count.store(list.len(), Ordering::Relaxed);
        }
    }

    /// Whether a map was made with its pairs after the view of this version was opened.
    pub fn is_born_after(&self, tree: &Arc<BytesTree>, version: u64) -> bool {
        // Acquire: pairs with the release in `forget`.
        if self.new_maps.count.load(Ordering::Acquire) == 0 {
            return false;
        }
        let list = self.new_maps.list.lock().unwrap_or_else(PoisonError::into_inner);
        list.iter().any(|(born, newest)| Arc::ptr_eq(born, tree) && version <= *newest)
    }

    /// Notes that a map is about to be emptied of which not everything could be saved. The caller has all
    /// stripes.
    pub fn note_unsaved(&self, tree: &Arc<BytesTree>, text: &str) {
        let version = self.saves_for();
        if version != 0 {
            let mut unsaved = self.unsaved.lock();
            unsaved.push(Arc::new(Unsaved { tree: tree.clone(), version, text: text.into() }));
            // Release: before the map is emptied; pairs with the acquire in `unsaved_of`. A thread that finds a key
            // gone sees it.
            self.has_unsaved.store(true, Ordering::Release);
        }
    }

    /// What is said to a view of this version of keys of this map that are in no book, if they may have
    /// been there.
    fn unsaved_of(&self, tree: &Arc<BytesTree>, version: u64) -> Option<Arc<Unsaved>> {
        // Acquire: pairs with the release in `note_unsaved`, and with that in `forget`.
        if !self.has_unsaved.load(Ordering::Acquire) {
            return None;
        }
        let unsaved = self.unsaved.lock();
        // The last: whatever open view is concerned by one before it is so by that one.
        let last = unsaved.iter().rev().find(|unsaved| Arc::ptr_eq(&unsaved.tree, tree))?;
        (last.version >= version).then(|| last.clone())
    }

    fn part(&self, hash: u64) -> RankedGuard<'_, Part> {
        self.parts[(hash >> 20) as usize % PART_COUNT].lock()
    }

    /// Numbers a new view; the flag will say whether it was given up. The caller has all stripes.
    pub fn open(&self) -> (u64, Arc<AtomicBool>) {
        let mut open = self.open.lock();
        open.last += 1;
        let (version, lost) = (open.last, Arc::new(AtomicBool::new(false)));
        open.views.insert(version, lost.clone());
        // Release: as in `leave`, which stores it, too.
        self.newest.store(version, Ordering::Release);
        (version, lost)
    }

    /// Closes a view: frees what only it needed. `takes_needed` is the planted bug that frees what an
    /// older view needs, too.
    pub fn close(&self, version: u64, takes_needed: bool) {
        let _alone = self.closing.lock();
        let mut open = self.open.lock();
        if open.views.remove(&version).is_some() {
            let before = self.leave(&open, version);
            drop(open);
            self.release(version, before, takes_needed);
        }
    }

    /// From now on writers save for the newest of the views that are left. Returns the one before
    /// `version`.
    fn leave(&self, open: &Open, version: u64) -> u64 {
        let newest = open.views.last_key_value().map_or(0, |(newest, _)| *newest);
        // Release: a writer that does not save any more for a view that was given up has seen that it
        // was, and so has a thread that sees its write; pairs with the acquire in `saves_for`.
        self.newest.store(newest, Ordering::Release);
        self.forget(open.views.first_key_value().map_or(u64::MAX, |(oldest, _)| *oldest));
        open.views.range(..version).next_back().map_or(0, |(before, _)| *before)
    }

    /// Lets go what is kept of maps for views before `oldest` alone. What is noted meanwhile for one that was just
    /// closed is looked at by nobody, and goes when the next is closed.
    fn forget(&self, oldest: u64) {
        // Relaxed: as in `note_birth`; a hint.
        if self.new_maps.count.load(Ordering::Relaxed) > 0 {
            let mut list = self.new_maps.list.lock().unwrap_or_else(PoisonError::into_inner);
            list.retain(|(_, newest)| *newest >= oldest);
            // Release: pairs with the acquire in `is_born_after`; a thread that misses a map for a view that was given
            // up sees the mark of that (V3).
            self.new_maps.count.store(list.len(), Ordering::Release);
        }
        // Relaxed: a hint; what is left is looked at by nobody.
        if self.has_unsaved.load(Ordering::Relaxed) {
            let mut unsaved = self.unsaved.lock();
            unsaved.retain(|unsaved| unsaved.version >= oldest);
            // Release: pairs with the acquire in `unsaved_of`, for the same reason.
            self.has_unsaved.store(!unsaved.is_empty(), Ordering::Release);
        }
    }

    fn release(&self, version: u64, before: u64, takes_needed: bool) {
        for part in &self.parts {
            loop {
                let (freed, has_more) = part.lock().release(version, before, takes_needed);
                // Relaxed: a statistic, and a reason to give up views.
                self.bytes.fetch_sub(freed, Ordering::Relaxed);
                if !has_more {
                    break;
                }
            }
        }
    }

    /// Bytes that may be held; 0: any number.
    pub fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    /// The version that a change of now has to be saved for; 0: none.
    pub fn saves_for(&self) -> u64 {
        // Acquire: pairs with the release in `leave`. A view that is being opened needs our stripe
        // before it is numbered, so that its number is seen by every write that comes after.
        self.newest.load(Ordering::Acquire)
    }

    /// Saves what a key is now, unless it was saved for the newest view. The caller has the stripe of
    /// the key.
    pub fn save<E>(
        &self,
        tree: &Arc<BytesTree>,
        key: &[u8],
        hash: u64,
        read: impl FnOnce() -> Result<BeforeImage, E>,
    ) -> Result<(), E> {
        // Of this map nothing is added meanwhile: that takes the stripe, too.
        let unsaved = self.unsaved_of(tree, 0);
        {
            let mut part = self.part(hash);
            let newest = self.saves_for();
            let part = &mut *part;
            let chains = part.maps.get(&address(tree)).map(|saved| &saved.chains);
            let known = chains.and_then(|chains| chains.get(key)).and_then(|chain| chain.last());
            if newest == 0 || known.is_some_and(|old| old.version >= newest) {
                return Ok(());
            }
            let was = read()?;
            let emptied = unsaved.filter(|_| matches!(was, BeforeImage::Absent));
            // Relaxed: as in `release`. Before the value is there to be freed.
            self.bytes.fetch_add(size_of(key, &was), Ordering::Relaxed);
            let saved = part
                .maps
                .entry(address(tree))
                .or_insert_with(|| SavedMap { _tree: tree.clone(), chains: BTreeMap::new() });
            let known = saved.chains.get_key_value(key).map(|(key, _)| key.clone());
            let key: Arc<[u8]> = known.unwrap_or_else(|| key.into());
            let chain = saved.chains.entry(key.clone()).or_default();
            chain.push(Old { version: newest, was, emptied });
            part.of_version.entry(newest).or_default().push((address(tree), key));
        }
        self.keep_to_limit();
        Ok(())
    }

    /// Gives up the oldest views while too much is held.
    fn keep_to_limit(&self) {
        // Relaxed: as in `release`.
        let is_over = || self.bytes.load(Ordering::Relaxed) > self.limit_bytes;
        if self.limit_bytes == 0 || !is_over() {
            return;
        }
        // A thread that is closing a view frees something, too; the next writer looks again.
        let Some(_alone) = self.closing.try_lock() else { return };
        while is_over() {
            let mut open = self.open.lock();
            let Some((version, lost)) = open.views.pop_first() else { return };
            // Release: before anything of it goes; pairs with the acquire in `view::Inner::check`.
            lost.store(true, Ordering::Release);
            let before = self.leave(&open, version);
            drop(open);
            // Relaxed: a statistic.
            self.lost.fetch_add(1, Ordering::Relaxed);
            self.release(version, before, false);
        }
    }

    /// What a key was, if it was saved since the view of this version.
    ///
    /// # Errors
    /// There is no memory for its copy.
    pub fn find(
        &self,
        tree: &Arc<BytesTree>,
        key: &[u8],
        hash: u64,
        version: u64,
    ) -> crate::Result<Option<BeforeImage>> {
        let found = {
            let part = self.part(hash);
            let saved = part.maps.get(&address(tree));
            let chain = saved.and_then(|saved| saved.chains.get(key));
            let old = chain.and_then(|chain| at_version(chain, version));
            old.map(|old| old.live(version)).transpose()?
        };
        let damaged = |unsaved: Arc<Unsaved>| BeforeImage::Damaged(unsaved.text.clone());
        Ok(found.or_else(|| self.unsaved_of(tree, version).map(damaged)))
    }

    /// What views cost now.
    pub fn held(&self) -> Held {
        let keys = |part: &RankedMutex<Part>| {
            part.lock().maps.values().map(|saved| saved.chains.len() as u64).sum::<u64>()
        };
        // The lock is let go before the parts are counted: writers and new views need it meanwhile.
        let views = self.open.lock().views.len() as u64;
        Held {
            views,
            keys: self.parts.iter().map(keys).sum(),
            // Relaxed: a statistic.
            bytes: self.bytes.load(Ordering::Relaxed),
            // Relaxed: a statistic.
            lost: self.lost.load(Ordering::Relaxed),
        }
    }
}
