//! B-link tree: nodes with fences and siblings, locked one at a time, by readers too.
//!
//! A search locks a node (shared), reads it, lets go, and goes on to the child or, if the key has
//! moved meanwhile, to the sibling; it never holds two locks. A write locks its leaf alone; a split
//! makes a right half, links it, and tells the parent afterwards. So nobody locks a path, which is
//! what the design is about: with the tree of [`fast_fair`](crate::fast_fair), which needs no lock to
//! read, it shows what readers' locks cost.
//!
//! *Source*: Philip L. Lehman, S. Bing Yao, "Efficient Locking for Concurrent Operations on B-Trees",
//! TODS 6(4), 1981; as the baseline of the FAST & FAIR paper, section 5.7.
//!
//! *Departures.* The published tree reads a node as one atomic disk block and needs no lock for it; a
//! node in memory does, as in that baseline. The baseline is not made to survive crashes, nor did its
//! authors say what it flushes. Ours has the nodes of FAST & FAIR and changes them in the same order,
//! so a crash costs nothing that was acknowledged: an insert or removal is whole or not there, and a
//! split that was cut short is finished by the next writer that meets it (*fast_fair* F1 to F5). That
//! is also what it flushes. Readers see only what is durable, since writers hold their locks until
//! then. As published, nodes are never merged: a tree that shrinks keeps its nodes.

use everleaf_machine::Hardware;

use crate::fast_fair::FastFair;
use crate::fast_fair::variant::BLink;

/// B-link tree.
pub type BLinkTree<M = Hardware> = FastFair<BLink, M>;
