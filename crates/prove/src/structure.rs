//! Everything that can be proven, by name.

use everleaf_index::fast_fair::variant::Small;
use everleaf_index::{FastFair, FpTree, NvTree, RnTree, RnTreeDual, Tiny, WbTree, WbTreeSo};
use everleaf_machine::Simulated as M;
use everleaf_machine::simulated::Config;

use crate::case::Case;
use crate::design::Of;
use crate::nbtree::Nb;
use crate::subject::Subject;
use crate::{directory, epochs, shelf, trees};

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

type Dual<const SLOTS: usize> = Of<RnTreeDual<Tiny<SLOTS, 3>, M>>;
type Slots<const SLOTS: usize> = Of<WbTreeSo<Tiny<SLOTS, 3>, M>>;

/// All structures. A new tree joins with one line.
pub static STRUCTURES: &[Structure] = &[
    tree::<Nb<Tiny<2, 3>>, Nb<Tiny<3, 3>>, Nb<Tiny<4, 3>>>("nbtree", "NBTree with 64-bit integers"),
    Structure {
        name: "nbtree-bytes",
        about: "NBTree with byte strings",
        case: trees::words,
        step: trees::step_lock_free,
        small: trees::small,
    },
    tree::<Of<FastFair<Small<2>, M>>, Of<FastFair<Small<3>, M>>, Of<FastFair<Small<3>, M>>>(
        "fast-fair",
        "FAST & FAIR",
    ),
    tree::<Of<RnTree<Tiny<2, 3>, M>>, Of<RnTree<Tiny<3, 3>, M>>, Of<RnTree<Tiny<4, 3>, M>>>(
        "rntree", "RNTree",
    ),
    tree::<Dual<2>, Dual<3>, Dual<4>>("rntree-dual", "RNTree with two slot arrays"),
    tree::<Of<FpTree<Tiny<2, 3>, M>>, Of<FpTree<Tiny<3, 3>, M>>, Of<FpTree<Tiny<4, 3>, M>>>(
        "fptree", "FPTree",
    ),
    tree::<Of<WbTree<Tiny<2, 3>, M>>, Of<WbTree<Tiny<3, 3>, M>>, Of<WbTree<Tiny<4, 3>, M>>>(
        "wbtree", "wB+Tree",
    ),
    tree::<Slots<2>, Slots<3>, Slots<4>>("wbtree-so", "wB+Tree with slots only"),
    tree::<Of<NvTree<Tiny<2, 3>, M>>, Of<NvTree<Tiny<3, 3>, M>>, Of<NvTree<Tiny<4, 3>, M>>>(
        "nvtree", "NVTree",
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
