//! How many keys of each map expire, as the sweep has seen them.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use everleaf_index::BytesTree;

/// Keys that expire, by map, as the last round of the sweep has seen them. Nothing is waited for behind
/// its lock.
#[derive(Default)]
pub(crate) struct Expiring(Mutex<Vec<(Weak<BytesTree>, Seen)>>);

impl Expiring {
    /// How many keys of a map expire, and how long they had to live, on average.
    pub fn of(&self, tree: &Arc<BytesTree>) -> (u64, Duration) {
        let list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = list.iter().find(|(known, _)| std::ptr::eq(known.as_ptr(), Arc::as_ptr(tree)));
        let (keys, rest_ms) = known.map_or((0, 0), |(_, seen)| (seen.keys, seen.rest_ms));
        (keys, Duration::from_millis((rest_ms / u128::from(keys.max(1))) as u64))
    }

    /// What a round has seen of one map; maps that are gone go.
    pub fn note(&self, tree: &Arc<BytesTree>, seen: Seen) {
        let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        list.retain(|(known, _)| {
            known.strong_count() > 0 && !std::ptr::eq(known.as_ptr(), Arc::as_ptr(tree))
        });
        list.push((Arc::downgrade(tree), seen));
    }
}

/// What a round of the sweep counts in one map.
#[derive(Default)]
pub(crate) struct Seen {
    pub keys: u64,
    pub rest_ms: u128,
}
