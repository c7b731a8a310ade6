//! Numbers about a store, as C code gets them.

use everleaf::{Domain, Durability, MapStatistics, Rebuilt, Repaired, Statistics};

use crate::argument::{Out, el_buffer, set};
use crate::options::{EL_DOMAIN_ADR, EL_DOMAIN_EADR, EL_DOMAIN_PROCESS, EL_POWER, EL_PROCESS};

/// Stores numbers in a buffer: as much of them as it holds; and the size of all at `known`.
pub(crate) fn fill<T: Numbers>(numbers: T, buffer: el_buffer, known: Out<'_, usize>) {
    let bytes = numbers.to_bytes();
    buffer.write(0, &bytes[..bytes.len().min(buffer.capacity())]);
    set(known, bytes.len());
}

/// A struct of numbers of 64 bits, to which later versions add at the end.
pub(crate) trait Numbers {
    /// The fields, one after another, as they lie in memory.
    fn to_bytes(&self) -> Vec<u8>;
}

/// The bytes of a struct.
macro_rules! numbers {
    ($struct:ident: $($name:ident),* $(,)?) => {
        impl Numbers for $struct {
            fn to_bytes(&self) -> Vec<u8> {
                [$(self.$name),*].iter().flat_map(|number: &u64| number.to_ne_bytes()).collect()
            }
        }
    };
}

/// Numbers of 64 bits hold more than five hundred million years in milliseconds, and five hundred in nanoseconds.
fn number(long: u128) -> u64 {
    u64::try_from(long).unwrap_or(u64::MAX)
}

fn durability(durability: Durability) -> u64 {
    match durability {
        Durability::Process => EL_PROCESS,
        Durability::Power => EL_POWER,
        _ => 2,
    }
}

fn domain(domain: Domain) -> u64 {
    match domain {
        Domain::Adr => EL_DOMAIN_ADR,
        Domain::Eadr => EL_DOMAIN_EADR,
        Domain::Process => EL_DOMAIN_PROCESS,
    }
}

impl From<&Statistics> for el_statistics {
    fn from(from: &Statistics) -> Self {
        el_statistics {
            keys: from.keys,
            maps: from.maps,
            pool_size_bytes: from.pool_size_bytes,
            pool_used_bytes: from.pool_used_bytes,
            pool_max_bytes: from.pool_max_bytes,
            memory_bytes: from.memory_bytes,
            leaves: from.leaves,
            height: from.height,
            recovery_ns: number(from.recovery.as_nanos()),
            log_bytes: from.log_bytes,
            log_lag: from.log_lag,
            views: from.views,
            view_bytes: from.view_bytes,
            views_lost: from.views_lost,
            swept_keys: from.swept_keys,
            recovered_batches: from.recovered_batches,
            was_clean: from.was_clean.into(),
            log_owes_snapshot: from.log_owes_snapshot.into(),
            pool_returned_bytes: from.pool_returned_bytes,
            splits: from.splits,
            merges: from.merges,
            view_keys: from.view_keys,
            durability: durability(from.durability),
            domain: domain(from.domain),
        }
    }
}

impl From<&MapStatistics> for el_map_statistics {
    fn from(from: &MapStatistics) -> Self {
        el_map_statistics {
            keys: from.keys,
            expiring_keys: from.expiring_keys,
            expiring_mean_ms: number(from.expiring_mean.as_millis()),
            leaves: from.leaves,
            height: from.height,
            splits: from.splits,
            merges: from.merges,
        }
    }
}

impl From<&Rebuilt> for el_rebuilt {
    fn from(from: &Rebuilt) -> Self {
        el_rebuilt {
            snapshot_pairs: from.snapshot_pairs,
            replayed: from.replayed,
            skipped: from.skipped.len() as u64,
            damages: from.damages.len() as u64,
            kept: from.kept.is_some().into(),
        }
    }
}

impl From<&Repaired> for el_repaired {
    fn from(from: &Repaired) -> Self {
        el_repaired {
            kept: from.kept,
            doubtful: from.doubtful,
            maps: from.maps.len() as u64,
            lost: from.lost.len() as u64,
            dropped: from.dropped.len() as u64,
            is_complete: from.is_complete.into(),
        }
    }
}

/// Numbers about a store, as of one moment. Later versions add fields at the end.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct el_statistics {
    /// Keys of all maps.
    pub keys: u64,
    /// Maps, the default one included.
    pub maps: u64,
    /// Bytes of the pool file.
    pub pool_size_bytes: u64,
    /// Bytes of the pool in use.
    pub pool_used_bytes: u64,
    /// Bytes to which the pool may grow.
    pub pool_max_bytes: u64,
    /// Bytes of DRAM in the trees.
    pub memory_bytes: u64,
    /// Leaves of all trees.
    pub leaves: u64,
    /// Levels of the highest tree.
    pub height: u64,
    /// How long opening took, in nanoseconds.
    pub recovery_ns: u64,
    /// Bytes of keys and values in the log since the last snapshot.
    pub log_bytes: u64,
    /// Commits in the log that are not on the disk yet.
    pub log_lag: u64,
    /// Views that are open.
    pub views: u64,
    /// Bytes of DRAM in old values for them.
    pub view_bytes: u64,
    /// Views that were given up.
    pub views_lost: u64,
    /// Expired keys that were removed in the background.
    pub swept_keys: u64,
    /// Batches that opening has brought to an end.
    pub recovered_batches: u64,
    /// 1 if the previous process closed the pool.
    pub was_clean: u64,
    /// 1 if a crash of the machine would still take back what was written since the opening, because the
    /// process before died and the snapshot that makes the log whole is not written yet.
    pub log_owes_snapshot: u64,
    /// Bytes of the pool file that are free and have no disk space.
    pub pool_returned_bytes: u64,
    /// Leaves replaced since the store was opened.
    pub splits: u64,
    /// Pairs of leaves merged since the store was opened.
    pub merges: u64,
    /// Keys of which an old value is kept for views.
    pub view_keys: u64,
    /// What survives: `EL_PROCESS`, `EL_POWER`, or 2 if a crash of the machine loses the writes of an interval.
    pub durability: u64,
    /// The persistence domain in force: `EL_DOMAIN_ADR`, `EL_DOMAIN_EADR` or `EL_DOMAIN_PROCESS`.
    pub domain: u64,
}

/// Numbers about a map, as of one moment. Later versions add fields at the end.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct el_map_statistics {
    /// Keys; those that have expired and were not removed yet are counted.
    pub keys: u64,
    /// Keys that expire some time, as of the last round of the sweep; 0 before the first.
    pub expiring_keys: u64,
    /// How long those had to live then, on average, in milliseconds.
    pub expiring_mean_ms: u64,
    /// Leaves of the tree.
    pub leaves: u64,
    /// Levels of the tree, leaves included.
    pub height: u64,
    /// Leaves replaced since the store was opened.
    pub splits: u64,
    /// Pairs of leaves merged since the store was opened.
    pub merges: u64,
}

/// What a pool was made from when it was opened, because it was missing or could not be used. Later versions add
/// fields at the end.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct el_rebuilt {
    /// Pairs from the snapshot.
    pub snapshot_pairs: u64,
    /// Writes and batches that were replayed from the log.
    pub replayed: u64,
    /// Newer snapshots that were passed over.
    pub skipped: u64,
    /// Damages of the log, if it was salvaged: what was logged behind the first of them is lost.
    pub damages: u64,
    /// 1 if the file that was replaced is kept beside the pool, as it may be another pool, or have what the log has
    /// not; 0 otherwise. Nothing removes it but a later one of the same pool, which takes its place: save what it has
    /// before the next opening.
    pub kept: u64,
}

/// What a repair kept and what it had to drop. Later versions add fields at the end.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct el_repaired {
    /// Pairs that were kept.
    pub kept: u64,
    /// Of these, pairs that may be old states of their keys.
    pub doubtful: u64,
    /// Maps that were kept.
    pub maps: u64,
    /// Of these, maps whose name was lost: they are called `lost-` and a number.
    pub lost: u64,
    /// Pairs that could not be proven, and what else was damaged.
    pub dropped: u64,
    /// 1 if the pool was closed cleanly, so that all that is missing was counted. If not, pairs may be missing that
    /// nothing tells of.
    pub is_complete: u64,
}

numbers! {
    el_statistics: keys, maps, pool_size_bytes, pool_used_bytes, pool_max_bytes, memory_bytes, leaves,
    height, recovery_ns, log_bytes, log_lag, views, view_bytes, views_lost, swept_keys, recovered_batches,
    was_clean, log_owes_snapshot, pool_returned_bytes, splits, merges, view_keys, durability, domain,
}
numbers! {
    el_map_statistics: keys, expiring_keys, expiring_mean_ms, leaves, height, splits, merges,
}
numbers! { el_rebuilt: snapshot_pairs, replayed, skipped, damages, kept }
numbers! { el_repaired: kept, doubtful, maps, lost, dropped, is_complete }

#[cfg(test)]
mod tests {
    use super::*;

    /// Fields that are numbered from 1, as they lie in memory.
    fn is_ascending(bytes: &[u8], size: usize) -> bool {
        let numbers =
            bytes.chunks_exact(8).map(|number| u64::from_ne_bytes(number.try_into().unwrap()));
        bytes.len() == size && numbers.eq(1..=size as u64 / 8)
    }

    #[test]
    fn the_bytes_are_those_of_the_structs() {
        let numbers = el_statistics {
            keys: 1,
            maps: 2,
            pool_size_bytes: 3,
            pool_used_bytes: 4,
            pool_max_bytes: 5,
            memory_bytes: 6,
            leaves: 7,
            height: 8,
            recovery_ns: 9,
            log_bytes: 10,
            log_lag: 11,
            views: 12,
            view_bytes: 13,
            views_lost: 14,
            swept_keys: 15,
            recovered_batches: 16,
            was_clean: 17,
            log_owes_snapshot: 18,
            pool_returned_bytes: 19,
            splits: 20,
            merges: 21,
            view_keys: 22,
            durability: 23,
            domain: 24,
        };
        assert!(is_ascending(&numbers.to_bytes(), size_of::<el_statistics>()));
        let numbers = el_map_statistics {
            keys: 1,
            expiring_keys: 2,
            expiring_mean_ms: 3,
            leaves: 4,
            height: 5,
            splits: 6,
            merges: 7,
        };
        assert!(is_ascending(&numbers.to_bytes(), size_of::<el_map_statistics>()));
        let numbers =
            el_rebuilt { snapshot_pairs: 1, replayed: 2, skipped: 3, damages: 4, kept: 5 };
        assert!(is_ascending(&numbers.to_bytes(), size_of::<el_rebuilt>()));
        let numbers =
            el_repaired { kept: 1, doubtful: 2, maps: 3, lost: 4, dropped: 5, is_complete: 6 };
        assert!(is_ascending(&numbers.to_bytes(), size_of::<el_repaired>()));
    }
}
