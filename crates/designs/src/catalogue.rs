//! The designs there are: one line each.
//!
//! What is listed here can be created by name, is recognised when a pool is opened with the
//! [`registry`], and is measured and proven with the others.

use everleaf_index::hashed_leaf::layout::HalfLeaves;
use everleaf_index::{
    Design, DesignInfo, HashedLeafTree, Production, Registered, Registry, U64Kind, U64Tree,
};
use everleaf_machine::Machine;

use crate::blink::BLinkTree;
use crate::bwtree::BwTree;
use crate::bztree::BzTree;
use crate::bztree::variant::Standard as BzStandard;
use crate::cceh::Cceh;
use crate::cceh::variant as cceh;
use crate::cdds::CddsTree;
use crate::f3tree::F3Tree;
use crate::f3tree::variant::{
    Blind, Entries6, Entries30, Entries62, Nodes100, Nodes500, Nodes1000, NodesUnlimited,
    Objects100, Objects500, Objects1000, Unlimited,
};
use crate::fast_fair::FastFair;
use crate::fast_fair::variant as fast_fair;
use crate::fast_fair::variant::{
    Binary, Fenced, LeafLocks, Logging, Nodes256, Nodes1024, Nodes2048, Nodes4096, Standard,
};
use crate::fptree::FpTree;
use crate::masstree::Masstree;
use crate::nbtree_published::{NbTreeCoupled, NbTreePublished, NbTreeW, NbTreeWr};
use crate::nvtree::{NvTree, NvTreeBlind};
use crate::pactree::PacTree;
use crate::pactree::variant::Standard as PacStandard;
use crate::rntree::{RnTree, RnTreeDirect, RnTreeDual, RnTreeRtm, RnTreeWide};
use crate::skiplist::PSkiplist;
use crate::skiplist::variant as skip;
use crate::sptree::{
    SpTree, SpTreeArt, SpTreeBuffered, SpTreeBufferedUnfiltered, SpTreeCheckpointed, SpTreePlain,
    SpTreePlainUnfiltered, SpTreeUnfiltered, SpTreeUnfilteredUnlogged, SpTreeUnlogged,
};
use crate::utree::UTree;
use crate::wbtree::{WbTree, WbTreeSo};
use crate::wort::Wort;

/// Something to be done with a design that is known by name only.
pub trait DesignVisitor<M: Machine> {
    /// What comes out.
    type Output;
    /// Does it with the design `T`.
    fn visit<T: Design<M>>(self) -> Self::Output;
}

macro_rules! designs {
    ($own:ty, $($design:ty,)*) => {
        /// Name, limits and promise of all designs.
        pub fn designs() -> Vec<DesignInfo> {
            type M = everleaf_machine::Hardware;
            vec![<$own as Design<M>>::INFO, $(<$design as Design<M>>::INFO),*]
        }

        /// What goes wrong when several threads use a tree of the design of that name, in a sentence;
        /// `None` if nothing does, or there is no such design.
        pub fn caveat(name: &str) -> Option<&'static str> {
            type M = everleaf_machine::Hardware;
            $(if <$design as Design<M>>::INFO.name == name {
                return <$design as Design<M>>::CAVEAT;
            })*
            None
        }

        /// Calls the visitor with the design of that name; `None` if there is none.
        pub fn visit<M: Machine, V: DesignVisitor<M>>(name: &str, visitor: V) -> Option<V::Output> {
            if <$own as Design<M>>::INFO.name == name {
                return Some(visitor.visit::<$own>());
            }
            $(if <$design as Design<M>>::INFO.name == name {
                return Some(visitor.visit::<$design>());
            })*
            None
        }

        /// All designs but the flagship, which needs no entry.
        struct Published<M: Machine>(std::marker::PhantomData<M>);

        impl<M: Machine> Published<M> {
            const ALL: &'static [Registered<M>] = &[$(Registered::of::<$design>()),*];
        }
    };
}

// One line per design: the tree in the configuration that `everleaf-lab create --index` makes.
// The first is the flagship, which `everleaf_index` knows by itself.
designs! {
    U64Tree<Production, M>,
    HashedLeafTree<U64Kind, Production, M>,
    HashedLeafTree<U64Kind, HalfLeaves, M>,
    FastFair<Standard, M>,
    FastFair<Nodes256, M>,
    FastFair<Nodes1024, M>,
    FastFair<Nodes2048, M>,
    FastFair<Nodes4096, M>,
    FastFair<LeafLocks, M>,
    FastFair<Logging, M>,
    FastFair<Binary, M>,
    FastFair<Fenced, M>,
    BLinkTree<M>,
    RnTree<Production, M>,
    RnTreeDual<Production, M>,
    RnTreeWide<Production, M>,
    RnTreeDirect<Production, M>,
    RnTreeRtm<Production, M>,
    FpTree<Production, M>,
    WbTree<Production, M>,
    WbTreeSo<Production, M>,
    NvTree<Production, M>,
    NvTreeBlind<Production, M>,
    NbTreePublished<Production, M>,
    NbTreeW<Production, M>,
    NbTreeWr<Production, M>,
    NbTreeCoupled<Production, M>,
    CddsTree<Production, M>,
    SpTree<Production, M>,
    SpTreeUnfiltered<Production, M>,
    F3Tree<Objects500, M>,
    F3Tree<Objects100, M>,
    F3Tree<Objects1000, M>,
    F3Tree<Unlimited, M>,
    F3Tree<Blind, M>,
    F3Tree<Entries6, M>,
    F3Tree<Entries30, M>,
    F3Tree<Entries62, M>,
    F3Tree<Nodes500, M>,
    F3Tree<Nodes100, M>,
    F3Tree<Nodes1000, M>,
    F3Tree<NodesUnlimited, M>,
    SpTreeBuffered<Production, M>,
    SpTreeCheckpointed<Production, M>,
    SpTreePlain<Production, M>,
    SpTreeBufferedUnfiltered<Production, M>,
    SpTreePlainUnfiltered<Production, M>,
    Wort<4, M>,
    UTree<Production, M>,
    PacTree<PacStandard, 4, M>,
    PSkiplist<skip::Standard, M>,
    BzTree<BzStandard, M>,
    Masstree<15, M>,
    BwTree<128, 8, M>,
    Cceh<cceh::Standard, M>,
    Cceh<cceh::Buffered, M>,
    Cceh<cceh::OutOfPlace, M>,
    Cceh<cceh::Whole, M>,
    Cceh<cceh::Cached, M>,
    Cceh<cceh::BufferedCached, M>,
    FastFair<fast_fair::Cached, M>,
    FastFair<fast_fair::Buffered, M>,
    FastFair<fast_fair::BufferedCached, M>,
    FastFair<fast_fair::OutOfPlace, M>,
    FastFair<fast_fair::Whole, M>,
    FastFair<fast_fair::BufferedUnlogged, M>,
    FastFair<fast_fair::BufferedCachedUnlogged, M>,
    FastFair<fast_fair::OutOfPlaceUnlogged, M>,
    FastFair<fast_fair::WholeUnlogged, M>,
    Cceh<cceh::BufferedUnlogged, M>,
    Cceh<cceh::BufferedCachedUnlogged, M>,
    Cceh<cceh::OutOfPlaceUnlogged, M>,
    Cceh<cceh::WholeUnlogged, M>,
    SpTreeUnlogged<Production, M>,
    SpTreeUnfilteredUnlogged<Production, M>,
    PSkiplist<skip::Cached, M>,
    PSkiplist<skip::Buffered, M>,
    PSkiplist<skip::BufferedCached, M>,
    PSkiplist<skip::OutOfPlace, M>,
    PSkiplist<skip::Whole, M>,
    PSkiplist<skip::BufferedUnlogged, M>,
    PSkiplist<skip::BufferedCachedUnlogged, M>,
    PSkiplist<skip::OutOfPlaceUnlogged, M>,
    PSkiplist<skip::WholeUnlogged, M>,
    SpTreeArt<Production, M>,
}

/// The names of all designs.
pub fn names() -> Vec<&'static str> {
    designs().iter().map(|info| info.name).collect()
}

/// What opens pools with trees of these designs in them, and creates such trees by name.
///
/// # Example
/// ```
/// use everleaf_index::{Domain, Pool, Trees};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let pool = Pool::in_memory(1 << 20, 1 << 30, Domain::Process)?;
/// let trees: Trees = Trees::create_with(pool, everleaf_designs::registry())?;
/// let tree = trees.create_index("numbers", "fast-fair")?;
/// let mut session = trees.heap().session()?;
/// assert_eq!(tree.insert(&mut session, 7, 70)?, None);
/// # Ok(())
/// # }
/// ```
pub fn registry<M: Machine>() -> Registry<M> {
    Registry::new(Published::<M>::ALL)
}

#[cfg(test)]
mod tests {
    use everleaf_index::{BytesKind, Kind, Reads};
    use everleaf_machine::Hardware;

    use crate::node::variant::Named;
    use crate::{bztree, f3tree, nbtree_published, pactree, skiplist};

    use super::*;

    #[test]
    fn only_published_protocols_and_unlogged_buffers_need_a_caveat() {
        let with = |name: &&str| caveat(name).is_some() && !name.ends_with("-unlogged");
        let with = names().into_iter().filter(with);
        assert_eq!(with.collect::<Vec<_>>(), ["nbtree-published", "nbtree-coupled"]);
        let defers = |info: &DesignInfo| info.reads == Reads::Deferred;
        for info in designs() {
            assert_eq!(defers(&info), info.name.ends_with("-unlogged"), "{}", info.name);
            assert!(!defers(&info) || caveat(info.name).is_some(), "{}", info.name);
        }
    }

    #[test]
    fn no_two_designs_share_a_name_or_a_number() {
        let designs = designs();
        for (index, one) in designs.iter().enumerate() {
            for other in &designs[index + 1..] {
                assert_ne!(one.name, other.name);
                assert_ne!(one.kind, other.kind, "{} and {}", one.name, other.name);
            }
        }
    }

    /// Numbers of trees that only tests and experiments name by their type, not by name.
    fn unlisted() -> Vec<(u16, &'static str)> {
        fn of<V: Named>() -> (u16, &'static str) {
            (V::KIND, V::NAME)
        }
        let small_wort = <Wort<1> as Design<Hardware>>::INFO;
        vec![
            of::<fast_fair::Unfenced>(),
            of::<fast_fair::Small>(),
            of::<f3tree::variant::Small>(),
            of::<nbtree_published::variant::LockedOnPmdk>(),
            of::<nbtree_published::variant::LockedOnNvmMalloc>(),
            of::<nbtree_published::variant::LockedOnNvAlloc>(),
            of::<nbtree_published::variant::LockedOnEverleaf>(),
            of::<nbtree_published::variant::LockedOnCalloc>(),
            (small_wort.kind, small_wort.name),
            of::<pactree::variant::Small>(),
            of::<cceh::Small>(),
            of::<skiplist::variant::Small>(),
            of::<bztree::variant::Compact>(),
            of::<bztree::variant::Small>(),
        ]
    }

    /// What a store's trees are in the pool's directory, beside the flagship's integers.
    fn of_the_store() -> [(u16, &'static str); 4] {
        [
            (<BytesKind as Kind<Hardware>>::CODE, "bytes"),
            (<BytesKind<false> as Kind<Hardware>>::CODE, "bytes-without-heads"),
            (<BytesKind as Kind<Hardware>>::HASHED_CODE, "hashed-bytes"),
            (<U64Kind as Kind<Hardware>>::HASHED_CODE, "hashed-integers"),
        ]
    }

    /// The numbers on the page about the format: each is followed by the name that it belongs to.
    fn on_the_page() -> Vec<(u16, String)> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/format.md");
        let page = std::fs::read_to_string(path).expect("the page is there");
        let section =
            page.split("\n## Numbers of trees\n").nth(1).expect("the page has the section");
        let numbered = section.split("| 0x").skip(1).map(|row| {
            let number = u16::from_str_radix(&row[..2], 16).expect("two digits");
            (number, row.split('`').nth(1).expect("the name").to_string())
        });
        numbered.collect()
    }

    /// A tree with the number of another one would be opened as that one. A new one takes a number that the page
    /// does not have.
    #[test]
    fn the_page_has_the_number_of_each_tree_once() {
        let mut there: Vec<_> = designs().iter().map(|info| (info.kind, info.name)).collect();
        there.extend(unlisted());
        there.extend(of_the_store());
        there.sort_unstable();
        let mut page = on_the_page();
        page.sort_unstable();
        let page: Vec<_> = page.iter().map(|(number, name)| (*number, name.as_str())).collect();
        assert_eq!(page, there);
        for two in page.windows(2) {
            assert_ne!(two[0].0, two[1].0, "{} and {}", two[0].1, two[1].1);
        }
    }
}
