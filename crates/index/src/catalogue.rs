//! The designs there are: one line each.
//!
//! What is listed here can be created by name, is recognised when a pool is opened, and is measured
//! and proven with the others.

use std::sync::Arc;

use everleaf_alloc::{Recovery, Session};
use everleaf_machine::Machine;

use crate::blink::BLinkTree;
use crate::cdds::CddsTree;
use crate::error::IndexError;
use crate::fast_fair::FastFair;
use crate::fast_fair::variant::{
    Binary, Fenced, LeafLocks, Logging, Nodes256, Nodes1024, Nodes2048, Nodes4096, Standard,
};
use crate::fptree::FpTree;
use crate::geometry::Production;
use crate::nbtree_published::{NbTreeCoupled, NbTreePublished, NbTreeW, NbTreeWr};
use crate::nvtree::{NvTree, NvTreeBlind};
use crate::ordered::{Design, DesignInfo, OrderedIndex};
use crate::rntree::{RnTree, RnTreeDirect, RnTreeDual, RnTreeRtm, RnTreeWide};
use crate::u64_tree::U64Tree;
use crate::wbtree::{WbTree, WbTreeSo};

/// Something to be done with a design that is known by name only.
pub trait DesignVisitor<M: Machine> {
    /// What comes out.
    type Output;
    /// Does it with the design `T`.
    fn visit<T: Design<M>>(self) -> Self::Output;
}

macro_rules! designs {
    ($($design:ty,)*) => {
        /// Name, limits and promise of all designs.
        pub fn designs() -> Vec<DesignInfo> {
            type M = everleaf_machine::Hardware;
            vec![$(<$design as Design<M>>::INFO),*]
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
            $(if <$design as Design<M>>::INFO.name == name {
                return Some(visitor.visit::<$design>());
            })*
            None
        }

        /// Calls the visitor with the design of that number; `None` if there is none.
        pub(crate) fn visit_kind<M: Machine, V: DesignVisitor<M>>(
            kind: u16,
            visitor: V,
        ) -> Option<V::Output> {
            $(if <$design as Design<M>>::INFO.kind == kind {
                return Some(visitor.visit::<$design>());
            })*
            None
        }
    };
}

// One line per design: the tree in the configuration that `everleaf create --index` makes.
designs! {
    U64Tree<Production, M>,
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
}

/// The names of all designs.
pub fn names() -> Vec<&'static str> {
    designs().iter().map(|info| info.name).collect()
}

/// A tree of any design, with what the pool's directory keeps of it.
pub(crate) struct Made<M: Machine> {
    pub tree: Arc<dyn OrderedIndex<M>>,
    pub root: u32,
}

/// Makes a tree.
pub(crate) struct Create<'s, M: Machine>(pub &'s mut Session<M>);

impl<M: Machine> DesignVisitor<M> for Create<'_, M> {
    type Output = Result<Made<M>, IndexError>;
    fn visit<T: Design<M>>(self) -> Self::Output {
        let tree = T::create(self.0)?;
        let root = tree.root_value();
        Ok(Made { tree: Arc::new(tree), root })
    }
}

/// Finds a tree again, and marks what it uses.
pub(crate) struct Recover<'s, M: Machine> {
    pub session: &'s mut Session<M>,
    pub recovery: &'s Recovery<M>,
    pub root: u32,
    pub threads: usize,
}

impl<M: Machine> DesignVisitor<M> for Recover<'_, M> {
    type Output = Result<Arc<dyn OrderedIndex<M>>, IndexError>;
    fn visit<T: Design<M>>(self) -> Self::Output {
        let tree = T::recover(self.session, self.recovery, self.root, self.threads)?;
        if T::MARKS_LATER {
            tree.mark(self.session, self.recovery)?;
        }
        Ok(Arc::new(tree))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_published_protocol_needs_a_caveat() {
        let with = names().into_iter().filter(|name| caveat(name).is_some());
        assert_eq!(with.collect::<Vec<_>>(), ["nbtree-published", "nbtree-coupled"]);
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
}
