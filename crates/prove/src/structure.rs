//! Everything that can be proven, by name.

use everleaf_designs::fast_fair::variant::Small;
use everleaf_designs::{
    CddsTree, FastFair, FpTree, NbTreeCoupled, NbTreePublished, NbTreeW, NbTreeWr, NvTree,
    NvTreeBlind, RnTree, RnTreeDirect, RnTreeDual, RnTreeRtm, RnTreeWide, SpTree, WbTree, WbTreeSo,
};
use everleaf_index::{Design, Tiny};
use everleaf_machine::Simulated as M;
use everleaf_machine::simulated::Config;

use crate::case::Case;
use crate::design::Of;
use crate::nbtree::Nb;
use crate::subject::Subject;
use crate::{batches, directory, epochs, published, shelf, trees};

/// One step of a search: a program, and what its configuration must have.
pub struct Step {
    /// The name of a program of the structure.
    pub program: String,
    /// What is special about its run; domain, memory and seed are chosen later.
    pub config: Config,
}

/// Something that can be proven.
pub struct Structure {
    /// Its name.
    pub name: &'static str,
    /// What it is, in half a line.
    pub about: &'static str,
    /// The case of a program's name; none if there is no such program.
    pub case: fn(&str) -> Option<Box<dyn Case>>,
    /// What a random search does at its step of this number.
    pub step: fn(u64) -> Step,
    /// The programs that are small enough for an exhaustive search.
    pub small: fn() -> Vec<String>,
}

/// A tree of numbers, given with 2, 3 and 4 slots in a leaf (or what is closest).
const fn tree<S2: Subject, S3: Subject, S4: Subject>(
    name: &'static str,
    about: &'static str,
) -> Structure {
    let step = if S2::LOCK_FREE { trees::step_lock_free } else { trees::step };
    Structure { name, about, case: trees::numbers::<S2, S3, S4>, step, small: trees::small }
}

/// A tree of the catalogue, given with small leaves. One size of leaf each: their own tests have
/// more, and every size is compiled anew.
const fn design<T: Design<M>>(name: &'static str, about: &'static str) -> Structure {
    tree::<Of<T>, Of<T>, Of<T>>(name, about)
}

/// A tree whose protocol promises something to one thread at a time only.
const fn alone<T2: Design<M>, T3: Design<M>>(name: &'static str, about: &'static str) -> Structure {
    assert!(T2::CAVEAT.is_some(), "what is proven with one thread is said to need it");
    let case = published::case::<T2, T3>;
    Structure { name, about, case, step: trees::step, small: trees::small }
}

/// All structures. A new tree joins with one line.
pub static STRUCTURES: &[Structure] = &[
    tree::<Nb<Tiny<2, 3>>, Nb<Tiny<3, 3>>, Nb<Tiny<4, 3>>>("nbtree", "NBTree with 64-bit integers"),
    Structure {
        name: "nbtree-bytes",
        about: "NBTree with byte strings",
        case: trees::words,
        // Its records come from the allocator, whose locks are honest locks.
        step: trees::step,
        small: trees::small,
    },
    design::<FastFair<Small<3>, M>>("fast-fair", "FAST & FAIR"),
    design::<FastFair<Small<3, 2>, M>>("blink", "B-link tree"),
    design::<RnTree<Tiny<3, 3>, M>>("rntree", "RNTree"),
    design::<RnTreeDual<Tiny<3, 3>, M>>("rntree-dual", "RNTree with two slot arrays"),
    design::<RnTreeWide<Tiny<9, 3>, M>>("rntree-wide", "RNTree with stores of 64 bytes"),
    design::<RnTreeDirect<Tiny<9, 3>, M>>("rntree-direct", "RNTree with direct stores"),
    design::<RnTreeRtm<Tiny<9, 3>, M>>("rntree-rtm", "RNTree with transactions"),
    design::<FpTree<Tiny<3, 3>, M>>("fptree", "FPTree"),
    design::<WbTree<Tiny<3, 3>, M>>("wbtree", "wB+Tree"),
    design::<WbTreeSo<Tiny<3, 3>, M>>("wbtree-so", "wB+Tree with slots only"),
    design::<NvTree<Tiny<3, 3>, M>>("nvtree", "NVTree"),
    design::<NvTreeBlind<Tiny<3, 3>, M>>("nvtree-blind", "NVTree whose writes do not look"),
    design::<CddsTree<Tiny<3, 3>, M>>("cdds", "CDDS B-tree"),
    design::<SpTree<Tiny<3, 3>, M>>("sptree", "SPTree whose writes go to the leaves"),
    Structure {
        name: "batch",
        about: "batches of byte strings: the gate, the stripes, the journal",
        case: batches::case,
        step: batches::step,
        small: batches::small,
    },
    alone::<NbTreePublished<Tiny<2, 3>, M>, NbTreePublished<Tiny<3, 3>, M>>(
        "nbtree-published",
        "NBTree as published, one thread at a time",
    ),
    design::<NbTreeW<Tiny<3, 3>, M>>("nbtree-w", "NBTree as published, writers lock leaves"),
    design::<NbTreeWr<Tiny<3, 3>, M>>("nbtree-wr", "the same, readers lock leaves too"),
    alone::<NbTreeCoupled<Tiny<2, 3>, M>, NbTreeCoupled<Tiny<3, 3>, M>>(
        "nbtree-coupled",
        "the same with metadata in the pool, one thread at a time",
    ),
    Structure {
        name: "alloc",
        about: "the allocator: records, blocks, volatile nodes, recovery of space",
        case: shelf::case,
        step: shelf::step,
        small: shelf::small,
    },
    Structure {
        name: "epoch",
        about: "epochs: nothing is reclaimed under a reader",
        case: epochs::case,
        step: epochs::step,
        small: epochs::small,
    },
    Structure {
        name: "pool",
        about: "the pool: roots, ids, growth, closing and opening",
        case: directory::case,
        step: directory::step,
        small: directory::small,
    },
];

/// The structure of this name.
pub fn find(name: &str) -> Option<&'static Structure> {
    STRUCTURES.iter().find(|structure| structure.name == name)
}
