//! Locks with a place in the order of locks, which debug builds check: for the store, and for its server, whose locks
//! come before those of the store.

pub use everleaf_index::lock_rank::Rank;
pub use everleaf_index::ranked_mutex::{RankedGuard, RankedMutex};
