//! What only a look inside of a tree tells.

use std::sync::Arc;

use everleaf_alloc::Session;
use everleaf_machine::{Hardware, Pair};
use everleaf_pool::{Domain, Pool};

use super::HashedLeafTree;
use super::layout::LeafShape;
use crate::Trees;
use crate::geometry::Production;
use crate::kind::{Kind, U64Kind};
use crate::nbtree::state::{State, TOMB, holds};
use crate::pool_trees::nodes::Nodes;
use crate::u64_tree::U64Tree;

const HEADER_POSITIONS: usize = <Production as LeafShape>::HEADER_POSITIONS;

type Tree = HashedLeafTree<U64Kind, Production, Hardware>;
type Numbers = U64Tree<Production, Hardware>;

/// Trees whose leaves are hashed, and one of them.
fn numbers() -> (Trees, Arc<Numbers>) {
    let pool = Pool::in_memory(1 << 20, 1 << 30, Domain::Process).expect("memory");
    let trees: Trees = Trees::create(pool).expect("room");
    trees.make_hashed_leaves().expect("writable");
    let numbers = trees.u64_tree("numbers").expect("room");
    (trees, numbers)
}

/// Looks into the tree, pinned.
fn inside<R>(
    numbers: &Numbers,
    session: &mut Session<Hardware>,
    look: impl FnOnce(&Tree, &mut Session<Hardware>) -> R,
) -> R {
    let seen = numbers.cell().with(session, |nodes, session| match nodes {
        Nodes::HashedLeaf(tree) => look(tree, session),
        Nodes::NbTree(_) => panic!("its leaves are hashed"),
    });
    seen.expect("it is there")
}

fn state_of(entry: Pair) -> State {
    <U64Kind as Kind<Hardware>>::state(entry)
}

/// What was lost: what removed keys had left became keys again, if a bit of their state flipped and their leaf was
/// replaced then.
#[test]
fn a_state_that_is_none_is_not_frozen_into_one_that_holds() {
    let (trees, numbers) = numbers();
    let mut session = trees.heap().session().expect("a session");
    for key in 0..100 {
        numbers.insert(&mut session, key, key).expect("room");
    }
    for key in 0..50 {
        numbers.remove(&mut session, key).expect("no room needed");
    }
    let held = inside(&numbers, &mut session, |tree, _| {
        let (leaf, _) = tree.descend(0, false);
        let positions = || HEADER_POSITIONS..Production::POSITIONS;
        for position in positions() {
            let entry = tree.entry(leaf, position).load();
            if state_of(entry) == TOMB {
                let damaged = Pair { first: entry.first ^ 1 << 63, ..entry };
                tree.entry(leaf, position).store(damaged);
            }
        }
        tree.freeze(leaf);
        let holds = |position: &usize| holds(state_of(tree.entry(leaf, *position).load()));
        positions().filter(holds).count()
    });
    assert_eq!(held, 50);
}
