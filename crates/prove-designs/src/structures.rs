//! Everything that can be proven, by name: the structures of the product and the published designs.

use everleaf_designs::allocators::{Calloc, Everleaf, Naive, NvAllocLike, NvmMallocLike, PmdkLike};
use everleaf_designs::bztree::variant as bz;
use everleaf_designs::cceh::variant as cceh;
use everleaf_designs::f3tree::variant as f3;
use everleaf_designs::fast_fair::variant::Small;
use everleaf_designs::nbtree_published::variant::{
    LockedOnCalloc, LockedOnEverleaf, LockedOnNvAlloc, LockedOnNvmMalloc, LockedOnPmdk, Variant,
};
use everleaf_designs::pactree::variant as pac;
use everleaf_designs::skiplist::variant as skip;
use everleaf_designs::{
    BwTree, BzTree, Cceh, CddsTree, F3Tree, FastFair, FpTree, Masstree, NbPublished, NbTreeCoupled,
    NbTreePublished, NbTreeW, NbTreeWr, NvTree, NvTreeBlind, PSkiplist, PacTree, RnTree,
    RnTreeDirect, RnTreeDual, RnTreeRtm, RnTreeWide, SpTree, SpTreeArt, SpTreeBuffered,
    SpTreeBufferedUnfiltered, SpTreeCheckpointed, SpTreePlain, SpTreeUnfiltered, SpTreeUnlogged,
    UTree, WbTree, WbTreeSo, Wort,
};
use everleaf_index::{Design, Tiny};
use everleaf_machine::Simulated as M;
use everleaf_prove::case::structure::{Structure, find_in, one};
use everleaf_prove::programs::published;
use everleaf_prove::programs::trees::Trees;
use everleaf_prove::structures::{self, Wide, any, at_once};
use everleaf_prove::tree::living::AnyTree;

use crate::{art_program, block_program, f3_program};

/// Trees of a design in several sizes of leaves: small ones, where rare paths are common, and some whose
/// slot arrays have more words, and whose entries more lines, than one. Every size is compiled anew.
macro_rules! sizes {
    ($tree:ident: $($slots:literal)* $(; $($wide:literal)*)?) => {
        &Trees {
            sizes: &[$(($slots, any::<$tree<Tiny<$slots, 3>, M>>())),*],
            wide: &[$($(($wide, any::<$tree<Wide<$wide>, M>>())),*)?],
            alone: false,
        }
    };
}

/// Trees of FAST & FAIR and its kin with nodes of so many records.
macro_rules! records {
    ($locks:literal: $($slots:literal)*) => { records!($locks, 0: $($slots)*) };
    ($locks:literal, $techniques:literal: $($slots:literal)*) => {
        &Trees {
            sizes: &[$(($slots, any::<FastFair<Small<$slots, $locks, $techniques>, M>>())),*],
            wide: &[],
            alone: false,
        }
    };
}

/// F3-trees with objects of so many entries, in the key-based form, or with leaves of so many keys.
macro_rules! objects {
    ($looks:literal, $run:literal: $($entries:literal)*) => {
        &Trees {
            sizes: &[$(($entries, any::<F3Tree<f3::Small<$entries, 3, $looks, $run>, M>>())),*],
            wide: &[],
            alone: false,
        }
    };
}

/// Radix trees whose nodes branch on so many bits: one or two, where nodes come and go often.
macro_rules! bits {
    ($tree:ident: $($bits:literal)*) => {
        &Trees {
            sizes: &[$((1 << $bits, any::<$tree<$bits, M>>())),*],
            wide: &[(16, any::<$tree<4, M>>())],
            alone: false,
        }
    };
}

/// PACTrees with so many pairs a node, and a search layer that is so many changes behind.
macro_rules! pairs {
    ($($pairs:literal $lag:literal),*) => {
        &Trees {
            sizes: &[$(($pairs, any::<PacTree<pac::Small<$pairs, $lag>, 1, M>>())),*],
            wide: &[(64, any::<PacTree<pac::Standard, 4, M>>())],
            alone: false,
        }
    };
}

/// Its nodes have one size of pairs; what differs is how many levels there are.
static SKIP_LISTS: &Trees = &Trees {
    sizes: &[
        (1, any::<PSkiplist<skip::Small<1>, M>>()),
        (2, any::<PSkiplist<skip::Small<2>, M>>()),
        (3, any::<PSkiplist<skip::Small<3>, M>>()),
    ],
    wide: &[(12, any::<PSkiplist<skip::Standard, M>>())],
    alone: false,
};

/// The same with these techniques: 1 for buffering, plus 2 for out-of-place writing, 4 for caching, 8 for no log.
macro_rules! levels {
    ($techniques:literal: $($levels:literal)*) => {
        &Trees {
            sizes: &[$(($levels, any::<PSkiplist<skip::Small<$levels, $techniques>, M>>())),*],
            wide: &[],
            alone: false,
        }
    };
}

/// Their leaves are made known when they are touched.
static AT_ONCE: &Trees = &Trees {
    sizes: &[
        (2, at_once::<SpTreeCheckpointed<Tiny<2, 3>, M>>()),
        (3, at_once::<SpTreeCheckpointed<Tiny<3, 3>, M>>()),
        (7, at_once::<SpTreeCheckpointed<Tiny<7, 3>, M>>()),
    ],
    wide: &[],
    alone: false,
};

/// Small leaves, the second kind with so few descriptors that threads have to wait for some.
static BZ_TREES: &Trees = &Trees {
    sizes: &[
        (2, any::<BzTree<bz::Small<2>, M>>()),
        (3, any::<BzTree<bz::Small<3, 4>, M>>()),
        (9, any::<BzTree<bz::Small<9>, M>>()),
    ],
    wide: &[],
    alone: false,
};

/// In DRAM; with nodes of so many slots and keys.
static MASSTREES: &Trees = &Trees {
    sizes: &[
        (2, any::<Masstree<2, M>>()),
        (3, any::<Masstree<3, M>>()),
        (7, any::<Masstree<7, M>>()),
    ],
    wide: &[(15, any::<Masstree<15, M>>())],
    alone: false,
};

/// In DRAM; with so many pairs a page, and records on one.
static BW_TREES: &Trees = &Trees {
    sizes: &[
        (2, any::<BwTree<2, 1, M>>()),
        (3, any::<BwTree<3, 2, M>>()),
        (7, any::<BwTree<7, 3, M>>()),
    ],
    wide: &[(62, any::<BwTree<128, 8, M>>())],
    alone: false,
};

/// Trees whose protocol promises something to one thread at a time only.
const fn alone<T2: Design<M>, T3: Design<M>>() -> [(usize, AnyTree); 2] {
    assert!(T2::CAVEAT.is_some(), "what is proven with one thread is said to need it");
    [(2, any::<T2>()), (3, any::<T3>())]
}

/// Hash indexes with these techniques and segments of so many lines, pairs a line, and lines that are looked
/// at.
macro_rules! segments {
    ($techniques:literal, $($slots:literal: $lines:literal $pairs:literal $probes:literal),*) => {
        &Trees {
            sizes: &[$((
                $slots,
                any::<Cceh<cceh::Small<$lines, $pairs, $probes, $techniques>, M>>(),
            )),*],
            wide: &[(62, any::<Cceh<cceh::Small<15, 4, 4, $techniques>, M>>())],
            alone: false,
        }
    };
}

/// Its nodes in the pool have one size; what differs is how many are below one in DRAM.
static U_TREES: &Trees = &Trees {
    sizes: &[(2, any::<UTree<Tiny<2, 3>, M>>()), (4, any::<UTree<Tiny<2, 5>, M>>())],
    wide: &[(5, any::<UTree<Wide<5>, M>>())],
    alone: false,
};

/// NBTree with locks on another allocator, in variant `V`.
const fn on_blocks<V: Variant>() -> [(usize, AnyTree); 2] {
    let tree = any::<NbPublished<V, Tiny<2, 3>, M>>();
    [(2, tree), (3, tree)]
}

static ON_EVERLEAF: &[(usize, AnyTree)] = &on_blocks::<LockedOnEverleaf>();
static ON_CALLOC: &[(usize, AnyTree)] = &on_blocks::<LockedOnCalloc>();
static ON_PMDK: &[(usize, AnyTree)] = &on_blocks::<LockedOnPmdk>();
static ON_NVM_MALLOC: &[(usize, AnyTree)] = &on_blocks::<LockedOnNvmMalloc>();
static ON_NVALLOC: &[(usize, AnyTree)] = &on_blocks::<LockedOnNvAlloc>();

static PUBLISHED: &[(usize, AnyTree)] =
    &alone::<NbTreePublished<Tiny<2, 3>, M>, NbTreePublished<Tiny<3, 3>, M>>();
static COUPLED: &[(usize, AnyTree)] =
    &alone::<NbTreeCoupled<Tiny<2, 3>, M>, NbTreeCoupled<Tiny<3, 3>, M>>();

/// A structure of the product.
const fn product(name: &str) -> Structure {
    let mut index = 0;
    while index < structures::STRUCTURES.len() {
        let found = structures::STRUCTURES[index];
        if is_same(found.name.as_bytes(), name.as_bytes()) {
            return found;
        }
        index += 1;
    }
    panic!("the product has no structure of this name")
}

/// Whether two names are one.
const fn is_same(one: &[u8], other: &[u8]) -> bool {
    let mut index = 0;
    while index < one.len() && index < other.len() && one[index] == other[index] {
        index += 1;
    }
    index == one.len() && index == other.len()
}

/// All structures, those of the product in their places. A new design joins with one line.
pub static STRUCTURES: &[Structure] = &[
    product("nbtree"),
    product("nbtree-bytes"),
    one("fast-fair", "FAST & FAIR", records!(0: 2 3 4 9)),
    one("fast-fair-leaf-locks", "FAST & FAIR whose readers lock leaves", records!(1: 3 9)),
    one("fast-fair-b", "FAST & FAIR with buffers and a log", records!(1, 1: 2 3 9)),
    one("fast-fair-bc", "the same, inner nodes are in DRAM too", records!(1, 5: 3)),
    one("fast-fair-bo", "with buffers and a log, leaves are replaced", records!(1, 3: 2 3 9)),
    one("fast-fair-boc", "the same, inner nodes are in DRAM too", records!(1, 7: 2 3 9)),
    one("fast-fair-b-unlogged", "FAST & FAIR with buffers, no log", records!(1, 9: 2 3)),
    one("fast-fair-bo-unlogged", "leaves are replaced, no log", records!(1, 11: 3)),
    one("fast-fair-boc-unlogged", "with all three, no log", records!(1, 15: 3 9)),
    one("fast-fair-c", "FAST & FAIR, inner nodes are in DRAM too", records!(0, 4: 2 3 9)),
    one("blink", "B-link tree", records!(2: 3 9)),
    one("rntree", "RNTree", sizes!(RnTree: 2 3 9 17; 5)),
    one("rntree-dual", "RNTree with two slot arrays", sizes!(RnTreeDual: 3 9)),
    one("rntree-wide", "RNTree with stores of 64 bytes", sizes!(RnTreeWide: 3 9)),
    one("rntree-direct", "RNTree with direct stores", sizes!(RnTreeDirect: 9)),
    one("rntree-rtm", "RNTree with transactions", sizes!(RnTreeRtm: 9)),
    product("hashed-leaf"),
    product("hashed-leaf-at-once"),
    product("hashed-leaf-bytes"),
    product("hashed-leaf-bytes-at-once"),
    one("fptree", "FPTree", sizes!(FpTree: 2 3 7; 5)),
    one("wbtree", "wB+Tree", sizes!(WbTree: 2 3 9)),
    one("wbtree-so", "wB+Tree with slots only", sizes!(WbTreeSo: 3 7)),
    one("nvtree", "NVTree", sizes!(NvTree: 2 3 7)),
    one("nvtree-blind", "NVTree whose writes do not look", sizes!(NvTreeBlind: 3)),
    one("cdds", "CDDS B-tree", sizes!(CddsTree: 2 3 7)),
    one("sptree", "SPTree whose writes go to the leaves", sizes!(SpTree: 2 3 9; 5)),
    one("sptree-buffered", "SPTree with buffers and a log", sizes!(SpTreeBuffered: 2 3 7; 5)),
    one("sptree-unfiltered", "SPTree without filters", sizes!(SpTreeUnfiltered: 3)),
    one(
        "sptree-buffered-unfiltered",
        "the same with buffers and a log",
        sizes!(SpTreeBufferedUnfiltered: 3),
    ),
    one("sptree-checkpointed", "and with checkpoints", sizes!(SpTreeCheckpointed: 2 3 7)),
    one("sptree-checkpointed-at-once", "the same, leaves are made known when touched", AT_ONCE),
    one("sptree-plain", "SPTree with buffers and a plain log", sizes!(SpTreePlain: 2 3 7)),
    one("sptree-unlogged", "SPTree with buffers, no log", sizes!(SpTreeUnlogged: 2 3 7)),
    one("sptree-art", "SPTree below a radix tree", sizes!(SpTreeArt: 2 3)),
    one("art", "the radix tree alone, in DRAM", &art_program::Programs),
    one("f3-tree", "F3-tree", objects!(1, 0: 1 2 3)),
    one("f3-tree-blind", "F3-tree whose writes do not look", objects!(0, 0: 2)),
    one("f3-tree-nodes", "F3-tree, node-based", objects!(1, 2: 2 3)),
    one(
        "f3-tree-evaluators",
        "F3-tree with threads that evaluate",
        &f3_program::Programs::<f3::Small<1, 2>>::of(),
    ),
    one(
        "f3-tree-nodes-evaluators",
        "the same, node-based",
        &f3_program::Programs::<f3::Small<2, 2, 1, 2>>::of(),
    ),
    one("utree", "uTree", U_TREES),
    one("p-skiplist", "P-Skiplist", SKIP_LISTS),
    one("p-skiplist-b", "P-Skiplist with buffers and a log", levels!(1: 2 3)),
    one("p-skiplist-bc", "the same, tall nodes are found in DRAM", levels!(5: 2)),
    one("p-skiplist-bo", "with buffers and a log, new nodes are linked in runs", levels!(3: 2)),
    one("p-skiplist-boc", "the same, tall nodes are found in DRAM", levels!(7: 3)),
    one("p-skiplist-b-unlogged", "P-Skiplist with buffers, no log", levels!(9: 2)),
    one("p-skiplist-bo-unlogged", "new nodes are linked in runs, no log", levels!(11: 3)),
    one("p-skiplist-boc-unlogged", "with all three, no log", levels!(15: 2)),
    one("p-skiplist-c", "P-Skiplist, tall nodes are found in DRAM", levels!(4: 2 3)),
    one("bztree", "BzTree with PMwCAS", BZ_TREES),
    one("masstree", "Masstree in DRAM", MASSTREES),
    one("bw-tree", "Bw-tree in DRAM", BW_TREES),
    one("pactree", "PACTree", pairs!(2 0, 3 2, 4 1)),
    one("wort", "WORT", bits!(Wort: 1 2)),
    one("cceh", "CCEH, a hash index", segments!(0, 2: 1 2 1, 3: 1 3 1, 4: 2 2 2, 9: 4 3 2)),
    one("cceh-b", "CCEH with buffers and a log", segments!(1, 2: 1 2 1, 3: 1 3 1, 9: 4 3 2)),
    one("cceh-bc", "the same, the directory is in DRAM", segments!(5, 3: 1 3 1)),
    one(
        "cceh-bo",
        "with buffers and a log, segments are replaced",
        segments!(3, 2: 1 2 1, 3: 1 3 1, 9: 4 3 2),
    ),
    one("cceh-boc", "the same, the directory is in DRAM", segments!(7, 2: 1 2 1, 9: 4 3 2)),
    one("cceh-c", "CCEH, the directory is in DRAM", segments!(4, 2: 1 2 1, 9: 4 3 2)),
    one("cceh-b-unlogged", "CCEH with buffers, no log", segments!(9, 2: 1 2 1, 9: 4 3 2)),
    one("cceh-bo-unlogged", "segments are replaced, no log", segments!(11, 3: 1 3 1)),
    one("cceh-boc-unlogged", "with all three, no log", segments!(15, 2: 1 2 1, 9: 4 3 2)),
    product("batch"),
    product("expiry"),
    one(
        "nbtree-published",
        "NBTree as published, one thread at a time",
        &published::Alone(PUBLISHED),
    ),
    one("nbtree-w", "NBTree as published, writers lock leaves", sizes!(NbTreeW: 2 3 9; 5)),
    one("nbtree-wr", "the same, readers lock leaves too", sizes!(NbTreeWr: 3 9)),
    one(
        "nbtree-coupled",
        "the same with metadata in the pool, one thread at a time",
        &published::Alone(COUPLED),
    ),
    one("nbtree-on-everleaf", "the same, leaves by the trait", &published::OnBlocks(ON_EVERLEAF)),
    one("nbtree-on-calloc", "the same on Calloc", &published::OnBlocks(ON_CALLOC)),
    one("nbtree-on-pmdk", "the same after PMDK's", &published::OnBlocks(ON_PMDK)),
    one("nbtree-on-nvm-malloc", "the same after nvm_malloc", &published::OnBlocks(ON_NVM_MALLOC)),
    one("nbtree-on-nvalloc", "the same after NVAlloc", &published::OnBlocks(ON_NVALLOC)),
    product("alloc"),
    one(
        "blocks-everleaf",
        "blocks of the allocator by the trait",
        &block_program::Programs::<Everleaf<M>>::of(),
    ),
    one("blocks-calloc", "the allocator of NBTree", &block_program::Programs::<Calloc<M>>::of()),
    one("blocks-naive", "the naive allocator", &block_program::Programs::<Naive<M>>::of()),
    one("blocks-pmdk", "an allocator after PMDK's", &block_program::Programs::<PmdkLike<M>>::of()),
    one(
        "blocks-nvm-malloc",
        "one after nvm_malloc",
        &block_program::Programs::<NvmMallocLike<M>>::of(),
    ),
    one("blocks-nvalloc", "one after NVAlloc", &block_program::Programs::<NvAllocLike<M>>::of()),
    product("epoch"),
    product("maps"),
    product("log"),
    product("store"),
    product("pool"),
];

/// The structure of this name.
pub fn find(name: &str) -> Option<&'static Structure> {
    find_in(STRUCTURES, name)
}

/// The structures that the product does not have.
pub fn of_designs() -> impl Iterator<Item = &'static Structure> {
    STRUCTURES.iter().filter(|structure| structures::find(structure.name).is_none())
}
