//! What can be proven of the product, by name. The published designs join in `everleaf-prove-designs`.

pub mod allocator;
pub mod batches;
pub mod epochs;
pub mod expiries;
mod log;
pub mod maps;
pub mod pool;
mod store;

use std::marker::PhantomData;

use everleaf_index::geometry::LeafShape;
use everleaf_index::{Design, Geometry, HashedLeafTree, Production, Tiny, U64Kind};
use everleaf_machine::Simulated as M;

use crate::case::structure::{Structure, find_in, one};
use crate::programs::trees::{Strings, Trees};
use crate::tree::bytes_program::AnyWords;
use crate::tree::design::Of;
use crate::tree::living::AnyTree;
use crate::tree::nbtree::Nb;

/// A design in one size of leaves.
pub const fn any<T: Design<M>>() -> AnyTree {
    AnyTree::of::<Of<T>>()
}

/// A design whose trees are opened at once.
pub const fn at_once<T: Design<M>>() -> AnyTree {
    AnyTree::of::<Of<T, true>>()
}

/// Leaves of so many slots for NBTree, beside hashed leaves of the shape `L`. All trees that a pool may have are
/// compiled with its geometry: so what only NBTree has is beside what only hashed leaves have, or is compiled anyway.
#[derive(Clone, Copy, Debug, Default)]
pub struct Beside<const SLOTS: usize, const CHILDREN: usize, L>(PhantomData<L>);

impl<const SLOTS: usize, const CHILDREN: usize, L: LeafShape> Geometry
    for Beside<SLOTS, CHILDREN, L>
{
    const SLOT_COUNT: usize = SLOTS;
    const CHILD_COUNT: usize = CHILDREN;
    const PARENT_CHILD_COUNT: usize = CHILDREN;
    type Leaves = L;
}

/// Leaves of few slots below inner nodes that are as wide as they may be, for NBTree, beside [`Doubled`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Wide<const SLOTS: usize>;

impl<const SLOTS: usize> Geometry for Wide<SLOTS> {
    const SLOT_COUNT: usize = SLOTS;
    const CHILD_COUNT: usize = Production::CHILD_COUNT;
    const PARENT_CHILD_COUNT: usize = Production::PARENT_CHILD_COUNT;
    type Leaves = Doubled;
}

/// Hashed leaves of three chunks and a header, whose orders take more words than one, and samples.
#[derive(Clone, Copy, Debug, Default)]
pub struct Chunks;

impl Geometry for Chunks {
    const SLOT_COUNT: usize = 22;
    const CHILD_COUNT: usize = 3;
    const PARENT_CHILD_COUNT: usize = 3;
    type Leaves = Self;
}

impl LeafShape for Chunks {
    const BLOCK_CLASS: usize = 0;
    const POSITIONS: usize = 24;
    const HEADER_POSITIONS: usize = 2;
    const LINE: usize = 2;
    const GROUP: usize = 4;
    const CHUNK: usize = 8;
}

/// Hashed leaves of few positions in blocks of two units, as larger leaves have them, below inner nodes that are as
/// wide as they may be.
#[derive(Clone, Copy, Debug, Default)]
pub struct Doubled;

impl Geometry for Doubled {
    const SLOT_COUNT: usize = 6;
    const CHILD_COUNT: usize = Production::CHILD_COUNT;
    const PARENT_CHILD_COUNT: usize = Production::PARENT_CHILD_COUNT;
    type Leaves = Self;
}

impl LeafShape for Doubled {
    const BLOCK_CLASS: usize = 1;
    const POSITIONS: usize = 6;
    const HEADER_POSITIONS: usize = 0;
    const LINE: usize = 1;
    const GROUP: usize = 2;
    const CHUNK: usize = 2;
}

/// Nine slots, and hashed leaves of [`Chunks`].
type Nine = Beside<9, 3, Chunks>;
/// Seventeen slots, and hashed leaves that are compiled for others.
type Seventeen = Beside<17, 4, Tiny<3, 3>>;

/// The tree with hashed leaves, of integers.
type Hashed<G, M> = HashedLeafTree<U64Kind, G, M>;

static NB_TREES: &Trees = &Trees {
    sizes: &[
        (2, AnyTree::of::<Nb<Tiny<2, 3>>>()),
        (3, AnyTree::of::<Nb<Tiny<3, 3>>>()),
        (4, AnyTree::of::<Nb<Tiny<4, 3>>>()),
        (7, AnyTree::of::<Nb<Tiny<7, 3>>>()),
        (9, AnyTree::of::<Nb<Nine>>()),
        (17, AnyTree::of::<Nb<Seventeen>>()),
    ],
    wide: &[(5, AnyTree::of::<Nb<Wide<5>>>()), (62, AnyTree::of::<Nb<Production>>())],
    alone: false,
};

static HASHED: &Trees = &Trees {
    sizes: &[
        (2, any::<Hashed<Tiny<2, 3>, M>>()),
        (3, any::<Hashed<Tiny<3, 3>, M>>()),
        (4, any::<Hashed<Tiny<4, 3>, M>>()),
        (7, any::<Hashed<Tiny<7, 3>, M>>()),
        (22, any::<Hashed<Chunks, M>>()),
    ],
    wide: &[(6, any::<Hashed<Doubled, M>>()), (254, any::<Hashed<Production, M>>())],
    alone: false,
};

/// The same trees, whose leaves are restored when they are touched.
static HASHED_AT_ONCE: &Trees = &Trees {
    sizes: &[
        (2, at_once::<Hashed<Tiny<2, 3>, M>>()),
        (3, at_once::<Hashed<Tiny<3, 3>, M>>()),
        (4, at_once::<Hashed<Tiny<4, 3>, M>>()),
        (7, at_once::<Hashed<Tiny<7, 3>, M>>()),
        (22, at_once::<Hashed<Chunks, M>>()),
    ],
    wide: &[(254, at_once::<Hashed<Production, M>>())],
    alone: false,
};

static NB_STRINGS: &Strings = &Strings {
    sizes: &[
        (2, AnyWords::of::<Tiny<2, 3>>()),
        (3, AnyWords::of::<Tiny<3, 3>>()),
        (4, AnyWords::of::<Tiny<4, 3>>()),
        (9, AnyWords::of::<Nine>()),
    ],
    wide: &[(5, AnyWords::of::<Wide<5>>())],
};

static HASHED_STRINGS: &Strings = &Strings {
    sizes: &[
        (2, AnyWords::hashed::<Tiny<2, 3>>()),
        (3, AnyWords::hashed::<Tiny<3, 3>>()),
        (4, AnyWords::hashed::<Tiny<4, 3>>()),
        (7, AnyWords::hashed::<Tiny<7, 3>>()),
        (22, AnyWords::hashed::<Nine>()),
    ],
    wide: &[(6, AnyWords::hashed::<Wide<5>>()), (254, AnyWords::hashed::<Production>())],
};

/// The same trees, whose leaves are restored, and what they refer to marked, when they are touched.
static STRINGS_AT_ONCE: &Strings = &Strings {
    sizes: &[
        (2, AnyWords::at_once::<Tiny<2, 3>>()),
        (3, AnyWords::at_once::<Tiny<3, 3>>()),
        (4, AnyWords::at_once::<Tiny<4, 3>>()),
        (7, AnyWords::at_once::<Tiny<7, 3>>()),
        (22, AnyWords::at_once::<Nine>()),
    ],
    wide: &[(6, AnyWords::at_once::<Wide<5>>()), (254, AnyWords::at_once::<Production>())],
};

/// The structures of the product.
pub static STRUCTURES: &[Structure] = &[
    one("nbtree", "NBTree with 64-bit integers", NB_TREES),
    one("nbtree-bytes", "NBTree with byte strings", NB_STRINGS),
    one("hashed-leaf", "B+-tree with hashed leaves", HASHED),
    one("hashed-leaf-at-once", "the same, opened at once and restored later", HASHED_AT_ONCE),
    one("hashed-leaf-bytes", "the same with byte strings", HASHED_STRINGS),
    one("hashed-leaf-bytes-at-once", "byte strings, restored and marked later", STRINGS_AT_ONCE),
    one("batch", "batches of byte strings: the gate, the stripes, the journal", &batches::Programs),
    one("expiry", "expiries of byte strings, changed in place", &expiries::Programs),
    one(
        "alloc",
        "the allocator: records, blocks, volatile nodes, recovery of space",
        &allocator::Programs,
    ),
    one("epoch", "epochs: nothing is reclaimed under a reader", &epochs::Programs),
    one(
        "maps",
        "the trees of a pool: made, loaded, emptied, removed, sealed",
        &maps::programs::Programs,
    ),
    one("log", "the log, snapshots and recovery on a disk", &log::Programs),
    one("store", "the store on a disk: maps, batches, views, watches, expiries", &store::Programs),
    one("pool", "the pool: roots, ids, growth, closing and opening", &pool::Programs),
];

/// The structure of the product of this name.
pub fn find(name: &str) -> Option<&'static Structure> {
    find_in(STRUCTURES, name)
}
