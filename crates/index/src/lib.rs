//! Persistent ordered indexes.
//!
//! The flagship is [`NbTree`]: lock-free leaves whose entries live in the pool, everything else in
//! DRAM. See the table in `nbtree/mod.rs` for which function is which step of the paper and where
//! operations take effect and become durable. Beside it is [`HashedLeafTree`], which a pool may be made with. The
//! published designs are in the crate `everleaf_designs`: they implement [`Design`], and a program that knows some
//! passes them on in a [`Registry`].
//!
//! | folder or file | what it has |
//! |---|---|
//! | `api` | what every tree of integers can do, and what a design implements |
//! | `nbtree` | the flagship |
//! | `hashed_leaf` | the tree with hashed leaves |
//! | `kind`, `geometry` | what differs between integers and byte strings; node capacities |
//! | `once` | what hardware has in each place from which it is called, and the simulated machine in one |
//! | `bytes` | the tree of byte strings: records, expiry, decisions, above either of the two |
//! | `u64_tree` | the tree of integers, likewise |
//! | `pool_trees` | the trees of a pool: found, opened, restored, loaded, emptied, removed |
//! | `write_order` | the gate and the stripes: order among writers, where it is needed |
//! | `journal` | batches: all or nothing, whenever the process dies |
//! | `salvage` | what can be proven of a damaged pool |
//! | `build` | what designs of other crates are made of |
//!
//! A tree never calls the operating system and never names a concrete machine: the same code runs
//! on hardware and on a simulated machine.

mod api;
pub mod build;
mod bytes;
pub mod geometry;
pub mod hashed_leaf;
pub mod journal;
pub mod kind;
pub mod nbtree;
mod once;
mod pool_trees;
pub mod salvage;
mod u64_tree;
pub mod write_order;

pub use api::change::{Exchange, Intent, Outcome};
pub use api::check_report::CheckReport;
pub use api::error::IndexError;
pub use api::ordered::{Design, DesignInfo, OrderedIndex, Progress, Reads, Scans, Writes};
pub use bytes::change::{Answer, Change, What};
pub use bytes::entry::BytesKind;
pub use bytes::expiry_change::ExpiryChange;
pub use bytes::load::Sink;
pub use bytes::record::{KEY_SIZE_MAX, LONG_VALUE_SIZE, Record, VALUE_SIZE_MAX, Verify};
pub use bytes::tree::{BytesTree, Decision, SeeRecord};
pub use geometry::{Geometry, Production, Tiny};
pub use hashed_leaf::HashedLeafTree;
pub use journal::{BatchOp, Journal, NotMade, apply_one_after, apply_unlogged};
pub use kind::{Kind, U64Kind};
pub use nbtree::{NbTree, TreeShape};
pub use pool_trees::pool_base::PoolBase;
pub use pool_trees::registry::{Registered, Registry};
pub use pool_trees::root_object::{ROOT_OBJECT_SIZE, ROOT_OBJECT_WORDS, RootObject};
pub use pool_trees::single_tree_pool::SingleTreePool;
pub use pool_trees::trees::{BuiltTree, LoadGuard, RestorePlace, Trees};
pub use u64_tree::U64Tree;
pub use write_order::WriteOrder;

pub use everleaf_alloc::{AllocError, Heap, Session, SessionGuard, SessionPool};
pub use everleaf_machine::cpu::missing_feature as missing_cpu_feature;
#[doc(hidden)]
pub use everleaf_machine::random;
pub use everleaf_machine::{Hardware, Machine, OwnerProcess};
pub use everleaf_machine::{
    above_standard_streams, standard_input_was_closed, standard_output_was_closed,
};
pub use everleaf_machine::{lock_rank, ranked_mutex};
pub use everleaf_pool::{
    CreateMode, Domain, FileName, LogNote, Pool, PoolError, PoolOptions, human_size, log_note_of,
    uuid_of,
};
pub use everleaf_pool::{
    FEATURE_BATCHES, FEATURE_EXPIRY, FEATURE_EXPIRY_IN_BATCHES, FEATURE_EXPIRY_WORD,
    FEATURE_HASHED_LEAVES, FEATURE_LOG_NOTE, FEATURE_RUNS_OF_LISTS, KNOWN_FEATURES,
};
