//! Numbers about a store.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use everleaf_index::{BytesTree, Hardware, Session};

use crate::map::Map;
use crate::shared::Shared;
use crate::{Domain, Durability, Result, Store};

/// Numbers about a store, as of one moment. Counts are exact when no writer is active.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Keys of all maps; those that have expired and were not removed yet are counted. Those of
    /// [`Self::unrestored_leaves`] are not.
    pub keys: u64,
    /// Numbers about each map, by name.
    pub by_map: BTreeMap<String, MapStatistics>,
    /// Maps, the default one included.
    pub maps: u64,
    /// Bytes of the pool file.
    pub pool_size_bytes: u64,
    /// Bytes of the pool in chunks that are in use.
    pub pool_used_bytes: u64,
    /// Bytes of the pool file that are free and have no disk space: it was returned, or they had none when
    /// the store was opened (some file systems count what was allocated and never written).
    pub pool_returned_bytes: u64,
    /// Bytes to which the pool may grow.
    pub pool_max_bytes: u64,
    /// Bytes of DRAM in leaf metadata (of hashed leaves those that are restored, and what leads to them) and inner
    /// nodes.
    pub memory_bytes: u64,
    /// Leaves of all maps.
    pub leaves: u64,
    /// Levels of the highest tree, leaves included.
    pub height: u64,
    /// Leaves replaced since the store was opened.
    pub splits: u64,
    /// Pairs of leaves merged since the store was opened.
    pub merges: u64,
    /// How long opening took, recovery included.
    pub recovery: Duration,
    /// Leaves that [opening at once](crate::Options::open_at_once) has left, and that nobody has read yet.
    pub unrestored_leaves: u64,
    /// What survives. Of a store that is open for reading, what survives
    /// of what is written by programs that open it for writing without saying otherwise.
    pub durability: Durability,
    /// Bytes of keys and values in the log since the last snapshot; 0 without a log. Of a store that is open
    /// for reading, as of its closing; 0 if it was not closed, since nobody has counted them then.
    pub log_bytes: u64,
    /// Groups (a write or a batch each) that have a place in the log and are not on the disk yet.
    pub log_lag: u64,
    /// Whether the log lacks what the process before had not brought to it when it died: until the snapshot is
    /// there that makes it whole, a crash of the machine takes back all that was written since then, the
    /// interval before it included. The snapshot is written in the background, and [`Store::sync`] waits for
    /// it; of a store that is open for reading only, the next opening for writing begins with it.
    pub log_owes_snapshot: bool,
    /// Views that are open.
    pub views: u64,
    /// Keys of which an old value is kept for these views.
    pub view_keys: u64,
    /// Bytes of DRAM that these old values take.
    pub view_bytes: u64,
    /// Views that were given up since the store was opened, to keep to
    /// [`Options::view_memory_bytes`](crate::Options::view_memory_bytes).
    pub views_lost: u64,
    /// Keys that had expired and were removed in the background since the store was opened.
    pub swept_keys: u64,
    /// Batches that were cut short by the end of the previous process and finished when the store
    /// was opened.
    pub recovered_batches: u64,
    /// Whether the previous process closed the pool.
    pub was_clean: bool,
    /// The persistence domain in force.
    pub domain: Domain,
}

/// Numbers about a map, as of one moment. Counts are exact when no writer is active.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MapStatistics {
    /// Keys; those that have expired and were not removed yet are counted. Those of leaves that
    /// [opening at once](crate::Options::open_at_once) has left are not.
    pub keys: u64,
    /// Keys that expire some time, as of the last round of the [sweep](crate::Options::sweep), which is
    /// a second ago or as long as a round takes; 0 before the first.
    pub expiring_keys: u64,
    /// How long those keys had to live then, on average.
    pub expiring_mean: Duration,
    /// Leaves of the tree.
    pub leaves: u64,
    /// Levels of the tree, leaves included.
    pub height: u64,
    /// Leaves replaced since the store was opened.
    pub splits: u64,
    /// Pairs of leaves merged since the store was opened.
    pub merges: u64,
}

impl MapStatistics {
    fn of(shared: &Shared, tree: &Arc<BytesTree>, session: &mut Session<Hardware>) -> Result<Self> {
        let shape = tree.shape_so_far(session)?;
        let (expiring_keys, expiring_mean) = shared.expiring.of(tree);
        Ok(MapStatistics {
            keys: shape.keys,
            expiring_keys,
            expiring_mean,
            leaves: shape.leaves,
            height: shape.height,
            splits: shape.splits,
            merges: shape.merges,
        })
    }
}

impl Map {
    /// Numbers about the map. Costs about a microsecond, and waits for nobody. All are 0 if no session is free.
    ///
    /// # Errors
    /// The map was dropped; the store was inherited by a fork.
    pub fn statistics(&self) -> Result<MapStatistics> {
        let shared = self.shared();
        shared.check_process()?;
        let collect = |session: &mut _| MapStatistics::of(shared, self.tree_arc(), session);
        shared.glance(collect).unwrap_or(Ok(MapStatistics::default()))
    }
}

impl Store {
    /// Refuses the calling process if it was forked from the one that opened the store. Of such a one
    /// [`Self::statistics`], [`Self::map_names`] and [`Map::len`], which return no error, tell nothing: a caller that
    /// would take that for an empty store asks here first.
    ///
    /// # Errors
    /// [`Error::Forked`](crate::Error::Forked).
    pub fn check_process(&self) -> Result<()> {
        self.shared().check_process()
    }

    /// Numbers about the store. Costs some microseconds, and one per map; nothing when not asked for. Waits for no
    /// operation, so that any thread may ask at any time. What is counted per map is 0 if no session is free, and
    /// everything is in a process that was forked from the one that opened the store ([`Self::check_process`]).
    pub fn statistics(&self) -> Statistics {
        Statistics::collect(self.shared())
    }
}

impl Statistics {
    fn collect(shared: &Shared) -> Self {
        if shared.check_process().is_err() {
            // Inherited by a fork: threads that are not here may hold the locks.
            return Statistics::default();
        }
        let heap = shared.trees.heap();
        let pool = heap.pool();
        let look = |session: &mut _| (by_map(shared, session), shared.trees.table_bytes(session));
        let (by_map, table_bytes) = shared.glance(look).unwrap_or_default();
        let sum = |number: fn(&MapStatistics) -> u64| by_map.values().map(number).sum();
        let held = shared.views.held();
        let (log_bytes, log_lag) = shared.log_lag();
        // Before the size, which only grows: so it is never the larger one, whatever is written meanwhile.
        let pool_used_bytes = heap.used_bytes();
        Statistics {
            keys: sum(|map| map.keys),
            maps: shared.map_names().len() as u64,
            pool_size_bytes: pool.size(),
            pool_used_bytes,
            pool_returned_bytes: heap.returned_bytes(),
            pool_max_bytes: pool.max_size(),
            memory_bytes: shared.trees.sessions().node_bytes() + table_bytes,
            leaves: sum(|map| map.leaves),
            height: by_map.values().map(|map| map.height).max().unwrap_or(0),
            splits: sum(|map| map.splits),
            merges: sum(|map| map.merges),
            by_map,
            recovery: shared.recovery,
            unrestored_leaves: shared.trees.unrestored(),
            durability: shared.durability(),
            log_bytes,
            log_lag,
            log_owes_snapshot: shared.owes_snapshot(),
            views: held.views,
            view_keys: held.keys,
            view_bytes: held.bytes,
            views_lost: held.lost,
            // Relaxed: a statistic.
            swept_keys: shared.swept.load(Ordering::Relaxed),
            recovered_batches: shared.recovered_batches,
            was_clean: pool.was_clean(),
            domain: heap.medium().domain(),
        }
    }
}

/// Numbers about each map, by name.
fn by_map(shared: &Shared, session: &mut Session<Hardware>) -> BTreeMap<String, MapStatistics> {
    let mut by_map = BTreeMap::new();
    for name in shared.map_names() {
        // One of integers has no statistics, and one that is gone is none.
        if let Ok(Some(tree)) = shared.trees.find_bytes_tree(&name)
            && let Ok(statistics) = MapStatistics::of(shared, &tree, session)
        {
            by_map.insert(name, statistics);
        }
    }
    by_map
}
