//! What only a look inside of a tree tells.

use std::sync::Arc;

use everleaf_alloc::Session;
use everleaf_machine::{Hardware, Pair};
use everleaf_pool::{CreateMode, Domain, Pool, PoolOptions};

use super::HashedLeafTree;
use super::aim::Aim;
use super::layout::{LeafId, LeafShape};
use crate::Trees;
use crate::api::change::Intent;
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

/// As [`inside`], while somebody has the lock of the node above the leaf of key 0.
fn with_lock(
    numbers: &Numbers,
    session: &mut Session<Hardware>,
    act: impl FnOnce(&Tree, &mut Session<Hardware>),
) {
    inside(numbers, session, |tree, session| {
        let (path, _) = tree.inner.descend_path(0, false);
        let (parent, _) = path.step(path.len() - 1);
        assert!(parent.try_lock(), "nobody else is there");
        act(tree, session);
        parent.unlock();
    });
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
        let (leaf, _) = tree.descend(0, Aim::Find);
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

/// What was lost: the block of a leaf that was split while somebody had the lock of its parent was held until a thread
/// came to its keys again, also by a thread that had found the pool full.
#[test]
fn an_installation_that_found_a_lock_is_made_in_a_full_pool() {
    const KEYS: u64 = 254;
    let (trees, numbers) = numbers();
    let mut session = trees.heap().session().expect("a session");
    for key in 0..KEYS {
        numbers.insert(&mut session, key, key).expect("room");
    }
    trees.merge_thin(0, &mut |_| true);
    trees.merge_thin(0, &mut |_| panic!("nothing is owed"));
    with_lock(&numbers, &mut session, |tree, session| {
        tree.write(session, KEYS, Intent::Insert, 0).expect("room");
    });
    let leads_to_it = |session: &mut Session<Hardware>| {
        inside(&numbers, session, |tree, _| {
            let (_, child) = tree.inner.descend_path(0, false);
            tree.is_replaced(LeafId::of_child(child))
        })
    };
    assert!(leads_to_it(&mut session));
    trees.merge_thin(0, &mut |_| true);
    assert!(!leads_to_it(&mut session));
    trees.merge_thin(0, &mut |_| true);
    trees.merge_thin(0, &mut |_| panic!("nothing is owed"));
}

/// Of two leaves.
const KEYS: u64 = 255;

/// Makes a pool with two thin leaves that were not merged, and opens it at once.
fn with_two_thin_leaves(folder: &tempfile::TempDir) -> Trees {
    let pool = || {
        let (create, domain) = (CreateMode::IfMissing, Some(Domain::Process));
        let options = PoolOptions { create, domain, max_size_bytes: 1 << 30, ..Default::default() };
        Pool::open(&folder.path().join("pool"), &options).expect("the pool")
    };
    {
        let trees: Trees = Trees::create(pool()).expect("room");
        trees.make_hashed_leaves().expect("writable");
        let numbers = trees.u64_tree("numbers").expect("room");
        let mut session = trees.heap().session().expect("a session");
        for key in 0..KEYS {
            numbers.insert(&mut session, key, key).expect("room");
        }
        // They cannot be merged yet.
        with_lock(&numbers, &mut session, |tree, session| {
            for key in 5..KEYS - 5 {
                tree.write(session, key, Intent::Remove, 0).expect("no room needed");
            }
        });
    }
    Trees::open_at_once(pool(), 1).expect("the trees")
}

/// What was lost: a leaf that opening at once had left, and that was restored while somebody had the lock of its
/// parent, was passed by the thread that merges thin leaves, and never looked at again.
#[test]
fn thin_leaves_that_inner_nodes_do_not_lead_to_yet_are_merged() {
    let folder = tempfile::tempdir().expect("a folder");
    let trees = with_two_thin_leaves(&folder);
    let numbers = trees.find_u64_tree("numbers").expect("integers").expect("there");
    let mut session = trees.heap().session().expect("a session");
    with_lock(&numbers, &mut session, |tree, session| {
        for key in [0, KEYS - 1] {
            assert_eq!(tree.get_payload(session, key).expect("sound"), Some(key));
        }
    });
    // To ask the map would restore all, and lead to them.
    let leaves =
        |session: &mut Session<Hardware>| inside(&numbers, session, |tree, _| tree.leaves.sum());
    let before = leaves(&mut session);
    trees.merge_thin(0, &mut |_| true);
    assert_eq!(leaves(&mut session), before - 1);
    drop(session);
    assert_eq!(trees.check().expect("a check").problems, Vec::<String>::new());
}

/// It was taken for a leaf that has no neighbour to merge with, and never looked at again in a pool that stays full.
#[test]
fn a_merge_with_a_leaf_that_is_not_led_to_yet_is_noted() {
    let folder = tempfile::tempdir().expect("a folder");
    let trees = with_two_thin_leaves(&folder);
    let numbers = trees.find_u64_tree("numbers").expect("integers").expect("there");
    let mut session = trees.heap().session().expect("a session");
    with_lock(&numbers, &mut session, |tree, session| {
        assert_eq!(tree.get_payload(session, 0).expect("sound"), Some(0));
        let before = tree.missed().owed().expect("what was missed before nobody knows");
        assert!(!tree.clean_up(session, 0), "nobody can merge: the parent is locked");
        assert_eq!(tree.missed().owed(), Some(before + 1));
    });
}
