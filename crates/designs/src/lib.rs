//! The published designs of persistent trees, beside which the flagship of `everleaf_index` is
//! measured and proven. The store knows none of them.
//!
//! One folder per tree. One with nodes of its own has the flagship's file names, one that is a leaf below
//! shared nodes has fewer; what several trees are made of is in `node`. All hold 64-bit integers.
//! [`registry`] is what [`Trees::open_with`](everleaf_index::Trees::open_with)
//! needs to create them and to find them again; [`catalogue`] calls code with a design that is known
//! by its name only.
//!
//! A tree never calls the operating system and never names a concrete machine: the same code runs
//! on hardware and on a simulated machine.

pub mod allocators;
pub mod blink;
pub mod bwtree;
pub mod bztree;
pub mod catalogue;
pub mod cceh;
pub mod cdds;
pub mod f3tree;
pub mod fast_fair;
pub mod fptree;
pub mod masstree;
pub mod nbtree_published;
mod node;
pub mod nvtree;
pub mod pactree;
pub mod rntree;
pub mod skiplist;
pub mod sptree;
pub mod utree;
pub mod wbtree;
pub mod wort;

pub use blink::BLinkTree;
pub use bwtree::BwTree;
pub use bztree::BzTree;
pub use catalogue::registry;
pub use cceh::Cceh;
pub use cdds::CddsTree;
pub use f3tree::F3Tree;
pub use fast_fair::FastFair;
pub use fptree::FpTree;
pub use masstree::Masstree;
pub use nbtree_published::{NbPublished, NbTreeCoupled, NbTreePublished, NbTreeW, NbTreeWr};
pub use node::art::Art;
pub use nvtree::{NvTree, NvTreeBlind};
pub use pactree::PacTree;
pub use rntree::{RnTree, RnTreeDirect, RnTreeDual, RnTreeRtm, RnTreeWide};
pub use skiplist::PSkiplist;
pub use sptree::{
    SpTree, SpTreeArt, SpTreeBuffered, SpTreeBufferedUnfiltered, SpTreeCheckpointed, SpTreePlain,
    SpTreePlainUnfiltered, SpTreeUnfiltered, SpTreeUnfilteredUnlogged, SpTreeUnlogged,
};
pub use utree::UTree;
pub use wbtree::{WbTree, WbTreeSo};
pub use wort::Wort;
