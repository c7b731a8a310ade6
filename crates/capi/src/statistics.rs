//! Numbers about a store, as C code gets them.

use everleaf::Statistics;

/// The bytes of the struct, and what it is made of: all fields are numbers of 64 bits, and later versions add
/// fields at the end.
macro_rules! numbers {
    ($($name:ident),*; of which $($given:ident),* $(,)?) => {
        impl el_statistics {
            /// The fields, one after another, as they lie in memory.
            pub(crate) fn to_bytes(self) -> Vec<u8> {
                [$(self.$name),*].iter().flat_map(|number: &u64| number.to_ne_bytes()).collect()
            }
        }

        impl From<&Statistics> for el_statistics {
            fn from(from: &Statistics) -> Self {
                // Numbers of 64 bits hold more than five hundred years in nanoseconds.
                let recovery_ns = u64::try_from(from.recovery.as_nanos()).unwrap_or(u64::MAX);
                el_statistics { recovery_ns, $($given: u64::from(from.$given)),* }
            }
        }
    };
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
}

numbers! {
    keys, maps, pool_size_bytes, pool_used_bytes, pool_max_bytes, memory_bytes, leaves, height,
    recovery_ns, log_bytes, log_lag, views, view_bytes, views_lost, swept_keys, recovered_batches,
    was_clean, log_owes_snapshot;
    of which keys, maps, pool_size_bytes, pool_used_bytes, pool_max_bytes, memory_bytes, leaves, height,
    log_bytes, log_lag, views, view_bytes, views_lost, swept_keys, recovered_batches,
    was_clean, log_owes_snapshot,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_those_of_the_struct() {
        let numbers = el_statistics { keys: 3, log_owes_snapshot: 1, ..el_statistics::default() };
        let bytes = numbers.to_bytes();
        assert_eq!(bytes.len(), size_of::<el_statistics>());
        assert_eq!(bytes[..8], 3_u64.to_ne_bytes());
        assert_eq!(bytes[bytes.len() - 8..], 1_u64.to_ne_bytes());
    }
}
