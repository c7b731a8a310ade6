//! The allocators that NBTree's paper measures its tree with, behind one trait, [`Allocator`]: ours,
//! one that records nothing, and three after published ones.
//!
//! ```text
//!   reserve --> block --(filled, durable)--> activate(destination) --> allocated --> free_from(destination)
//!      ^            \--> cancel                                                            |
//!      '---------------------------------- free lists, in DRAM <---------------------------'
//! ```
//!
//! A *destination* is a word of the pool that names the block: 0, or where the block is. Activation
//! stores the block there and records it as allocated, both or neither whenever the power fails;
//! freeing stores 0 there and records it as free, in the same way. Between the two the block may be
//! named by other words too, and the destination may be cleared by its user, which has then named the
//! block elsewhere, durably: that is how a tree uses a word of a log.
//!
//! | allocator | records in the pool | an activation beside the destination: lines, persists |
//! |---|---|---|
//! | [`Everleaf`] | nothing: what is reachable is allocated | 0, 0 |
//! | [`Naive`] | nothing, and nothing is ever free again | 0, 0 |
//! | [`Calloc`] | a bitmap for each chunk, a ring and a log for each thread | 2, 2; 1, 2 in the ring |
//! | [`PmdkLike`] | a bitmap for each chunk, a redo log for each thread | 2, 2 |
//! | [`NvmMallocLike`] | a header for each page: its bitmap and what is being done | 1, 2 |
//! | [`NvAllocLike`] | a bitmap over several lines for each slab, a log for each thread | 2, 2 |
//!
//! Invariants, in every crash image after [`Allocator::open`]:
//! - A1 a block that a destination names is not free;
//! - A2 no block is free twice, nor free and allocated;
//! - A3 under [`Promise::Exact`] a block that no destination named when it was freed or not yet
//!   activated is free: nothing leaks.
//!
//! *Sources*: Zhang and others, "Revisiting PM-Based B+-Tree With Persistent CPU Cache", IEEE TPDS
//! 2024, section VI-E; each file names its own. *Departure* of all: the blocks of a space have one
//! size, as a tree's leaves have, so that the metadata can be cleared once, when the space is made.

mod allocator;
mod any;
mod calloc;
mod everleaf;
mod lists;
mod naive;
mod nvalloc;
mod nvm_malloc;
mod pmdk;
mod space;

pub use allocator::{Allocator, Promise};
pub use any::{AnyAllocator, names, number_of};
pub use calloc::Calloc;
pub use everleaf::Everleaf;
pub use naive::Naive;
pub use nvalloc::NvAllocLike;
pub use nvm_malloc::NvmMallocLike;
pub use pmdk::PmdkLike;
pub use space::{Lines, Shape};
