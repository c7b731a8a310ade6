//! Parts that several trees are made of, each written once.
//!
//! | part | what it is | used by |
//! |---|---|---|
//! | `art` | an adaptive radix tree in DRAM with optimistic lock coupling | SPTree |
//! | `inner` | the DRAM inner tree with optimistic lock coupling | all trees whose leaves alone are persistent |
//! | `version_lock` | lock, version and boot generation in one word | the same, in DRAM and in the pool |
//! | `entry`, `slots`, `slot_pair` | entries and their sorted order | RNTree, wB+Tree |
//! | `fast_node` | sorted records shifted by 8-byte stores that readers tolerate | FAST & FAIR, B-link |
//! | `micro_log` | a line of the pool that says which structure change is under way | RNTree, FPTree, wB+Tree |
//! | `radix` | a radix tree in the pool, changed by one store of one link | WORT, PACTree |
//! | `pmwcas` | several words of the pool exchanged as one, durably | BzTree |
//! | `write_buffer`, `write_log`, `place_table` | writes that are in DRAM and a log before they are in their leaf | SPTree, CCEH, FAST & FAIR |
//! | `head_areas` | checkpoints of the heads of buffers, so that opening need not read the whole log | SPTree |
//! | `buffer_table` | the same where buffers are all that is in DRAM | CCEH, FAST & FAIR |
//! | `variant` | name and number of a configuration, and the macro that declares them | all that have several |
//! | `hybrid` | everything but the leaf of a tree whose leaves alone are persistent | CDDS, FPTree, NVTree, RNTree, wB+Tree |

pub mod art;
pub(crate) mod buffer_table;
pub(crate) mod entry;
pub(crate) mod fast_node;
pub(crate) mod head_areas;
pub(crate) mod hybrid;
pub(crate) mod inner;
pub(crate) mod micro_log;
pub(crate) mod place_table;
pub(crate) mod pmwcas;
pub(crate) mod radix;
pub(crate) mod slot_pair;
pub(crate) mod slots;
pub(crate) mod variant;
pub(crate) mod version_lock;
pub(crate) mod write_buffer;
pub(crate) mod write_log;
