//! Watches: whether a key was written since it is watched.
//!
//! A condition on the value of a key cannot tell a write that changes nothing, or one that another
//! takes back. A watch can: it raises the gate, so that every write takes the stripe of its key, and
//! behind that stripe a write marks the watches of the key. A batch that depends on a watch looks at
//! it behind the same stripe. So a write came before the watch, or its mark is seen, or it comes after
//! the batch.
//!
//! While no key is watched, a write pays nothing: the gate is down. While one is, or the gate is
//! raised for another reason, it pays a load, and a lookup if there are watches.
//!
//! Invariant: a watch is added, and a mark is made, by a thread that has the stripe of the key (T1).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use everleaf_index::{Hardware, Machine};

use crate::Result;
use crate::map::Map;

/// Watches one key of a map; see [`Map::watch`]. Cheap to clone: clones are the same watch.
#[derive(Clone)]
pub struct Watch {
    inner: Arc<Inner>,
}

struct Inner {
    map: Map,
    key: Vec<u8>,
    hash: u64,
    write_count: Arc<AtomicU64>,
    /// As it was at the beginning.
    write_count_before: u64,
    /// When the key was to expire at the beginning; 0 for never, and if it was not there.
    expiry_ms: u64,
}

impl Watch {
    /// The map of the key.
    pub fn map(&self) -> &Map {
        &self.inner.map
    }

    /// The key.
    pub fn key(&self) -> &[u8] {
        &self.inner.key
    }

    /// Whether the key was written, or has expired, since the watch began. A write at the same time may
    /// be missed: what must not miss it is a [batch](crate::WriteBatch::expect_unwritten). In a process that was
    /// forked since it is broken: what its parent writes is not seen there.
    pub fn is_broken(&self) -> bool {
        self.inner.map.shared().check_process().is_err()
            || self.is_broken_but_for(0, |expiry_ms| {
                expiry_ms != 0 && expiry_ms <= Hardware::wall_clock_ms()
            })
    }

    /// The same, but for so many marks, by the clock of the caller.
    pub(crate) fn is_broken_but_for(&self, marks: u64, is_over: impl Fn(u64) -> bool) -> bool {
        let Inner { write_count, write_count_before, expiry_ms, .. } = &*self.inner;
        // Relaxed: a batch has the stripe of the key (T1), and others are promised no order.
        write_count.load(Ordering::Relaxed) != *write_count_before + marks || is_over(*expiry_ms)
    }
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("is_broken", &self.is_broken()).finish_non_exhaustive()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let shared = self.map.shared();
        if shared.check_process().is_err() {
            // Inherited by a fork: threads that are not here may hold the locks.
            return;
        }
        shared.watches.remove(self.map.tree_arc(), &self.key, self.hash);
        // A client that watches once soon watches again: the gate stays raised for a while.
        shared.order.lower_after_batch();
    }
}

impl Map {
    /// Watches a key: from now on [`Watch::is_broken`] tells of every write of it, and of its expiry. A write
    /// counts even if it stores the value that was there, or if the next one undoes it. So does a write of a
    /// batch that is rolled back for lack of space, since others may have read it. A write that has nothing to
    /// do, such as the removal of an absent key, does not count. If a map is emptied or dropped, a key of it that is
    /// damaged counts as one that was there.
    ///
    /// *Cost*: while a watch is held, writes take a lock and look the key up among what is watched.
    /// The first after a pause waits until the operations that are running at that moment have ended:
    /// from within a function that the store calls it is then refused.
    ///
    /// # Example
    /// ```
    /// # fn main() -> everleaf::Result<()> {
    /// # let folder = tempfile::tempdir().expect("a temporary folder");
    /// # let store = everleaf::Options::new().create(true).open(folder.path().join("p"))?;
    /// use everleaf::{WriteBatch, Written};
    /// let shop = store.map("shop")?;
    /// shop.put("stock", "5")?;
    /// let watch = shop.watch("stock")?;
    /// let mut batch = WriteBatch::new();
    /// batch.expect_unwritten(&watch).put(&shop, "sold", "1");
    /// shop.put("stock", "5")?;
    /// assert_eq!(store.write(&batch)?, Written::Refused(0));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Self::get`]; [`Error::Nested`](crate::Error::Nested) if it was called by such a function.
    pub fn watch(&self, key: impl AsRef<[u8]>) -> Result<Watch> {
        let key = key.as_ref();
        let shared = self.shared();
        shared.check_process()?;
        shared.raise(0)?;
        let raised = Raised(self);
        let mut session = shared.session()?;
        let stripe = shared.order.lock(key);
        let expiry_ms = self.tree().get_record(&mut session, key, |record| record.expiry_ms)?;
        let hash = shared.order.hash_of(key);
        let write_count = shared.watches.add(self.tree_arc(), key, hash);
        // Relaxed: we have the stripe (T1).
        let write_count_before = write_count.load(Ordering::Relaxed);
        drop((stripe, session));
        // Lowered again by the watch.
        std::mem::forget(raised);
        let (map, key, expiry_ms) = (self.clone(), key.to_vec(), expiry_ms.unwrap_or(0));
        let inner = Inner { map, key, hash, write_count, write_count_before, expiry_ms };
        Ok(Watch { inner: Arc::new(inner) })
    }
}

/// The gate, raised for a watch that is not made yet.
struct Raised<'a>(&'a Map);

impl Drop for Raised<'_> {
    fn drop(&mut self) {
        self.0.shared().order.lower();
    }
}
