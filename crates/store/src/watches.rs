//! The table of the watches of a store ([`Watch`](crate::Watch)).
//!
//! Invariant: a watch is added, and a mark is made, by a thread that has the stripe of the key (T1).

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use everleaf_index::{BytesTree, Hardware, IndexError, Session};

use crate::ranked::{Rank, RankedGuard, RankedMutex};

/// Parts of the table, by hash of the key: writers of different parts do not meet.
const PART_COUNT: usize = 64;

/// A watched key of one map.
struct Watched {
    /// Kept, so that its address is not given to another.
    tree: Arc<BytesTree>,
    write_count: Arc<AtomicU64>,
    watch_count: usize,
}

type Part = HashMap<Vec<u8>, Vec<Watched>>;

/// The watches of a store.
pub(crate) struct Watches {
    /// How many there are.
    count: AtomicUsize,
    parts: Box<[RankedMutex<Part>]>,
}

impl Default for Watches {
    fn default() -> Self {
        let part = |_| RankedMutex::new(Rank::WatchPart, Part::default());
        let parts = (0..PART_COUNT).map(part).collect();
        Watches { count: AtomicUsize::new(0), parts }
    }
}

impl Watches {
    fn part(&self, hash: u64) -> RankedGuard<'_, Part> {
        self.parts[(hash >> 20) as usize % PART_COUNT].lock()
    }

    /// Adds a watch of a key (T1). Returns the count of its writes.
    pub fn add(&self, tree: &Arc<BytesTree>, key: &[u8], hash: u64) -> Arc<AtomicU64> {
        let mut part = self.part(hash);
        let list = part.entry(key.to_vec()).or_default();
        let known = list.iter().position(|watched| Arc::ptr_eq(&watched.tree, tree));
        let index = known.unwrap_or_else(|| {
            let write_count = Arc::default();
            list.push(Watched { tree: tree.clone(), write_count, watch_count: 0 });
            list.len() - 1
        });
        list[index].watch_count += 1;
        // Relaxed: a writer of this key takes the stripe after us (T1).
        self.count.fetch_add(1, Ordering::Relaxed);
        list[index].write_count.clone()
    }

    pub fn remove(&self, tree: &Arc<BytesTree>, key: &[u8], hash: u64) {
        let mut part = self.part(hash);
        let Some(list) = part.get_mut(key) else { return };
        if let Some(index) = list.iter().position(|watched| Arc::ptr_eq(&watched.tree, tree)) {
            list[index].watch_count -= 1;
            if list[index].watch_count == 0 {
                list.swap_remove(index);
            }
        }
        if list.is_empty() {
            part.remove(key);
        }
        // Relaxed: a writer that sees it late looks in vain.
        self.count.fetch_sub(1, Ordering::Relaxed);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        // Relaxed: a number of the moment.
        self.count.load(Ordering::Relaxed)
    }

    fn is_empty(&self) -> bool {
        // Relaxed: stored by a thread that had the stripe that the caller has (T1).
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Marks the watches of a key that was written (T1).
    #[inline]
    pub fn mark(&self, tree: &Arc<BytesTree>, key: &[u8], hash_of: impl FnOnce(&[u8]) -> u64) {
        if !self.is_empty() {
            self.mark_hashed(tree, key, hash_of(key));
        }
    }

    #[cold]
    fn mark_hashed(&self, tree: &Arc<BytesTree>, key: &[u8], hash: u64) {
        let part = self.part(hash);
        let list = part.get(key).map_or(&[][..], Vec::as_slice);
        for watched in list.iter().filter(|watched| Arc::ptr_eq(&watched.tree, tree)) {
            // Relaxed: read behind the stripe that the caller has (T1).
            watched.write_count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Marks the watches of the keys of a map that are there, or of which nobody can tell, before it is emptied. The
    /// caller has all stripes.
    pub fn mark_present(&self, tree: &Arc<BytesTree>, session: &mut Session<Hardware>) {
        if self.is_empty() {
            return;
        }
        for part in &self.parts {
            let part = part.lock();
            for (key, list) in part.iter() {
                let mut list = list.iter().filter(|watched| Arc::ptr_eq(&watched.tree, tree));
                let Some(watched) = list.next() else { continue };
                let found = tree.get_with(session, key, |_| ());
                // A damaged one is emptied like all others, and was one that somebody watched.
                if !matches!(found, Ok(None) | Err(IndexError::Removed)) {
                    // Relaxed: as in `mark`.
                    watched.write_count.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }
}
