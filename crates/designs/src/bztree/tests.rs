//! What needs a look inside: nodes that are frozen, and pairs that were given up.

use everleaf_alloc::Session;
use everleaf_index::{Domain, OrderedIndex, Pool, SingleTreePool};
use everleaf_machine::Hardware;

use super::BzTree;
use super::layout::meta_at;
use super::merge::Two;
use super::split::Rebuild;
use super::state::{FREE, RESERVED};
use super::variant::{Small, Variant};
use crate::node::pmwcas::Entry;

type Tree<const SLOTS: usize> = BzTree<Small<SLOTS>, Hardware>;

fn new<const SLOTS: usize>() -> SingleTreePool<Tree<SLOTS>> {
    let pool = Pool::in_memory(1 << 18, 1 << 18, Domain::Process).expect("memory");
    SingleTreePool::create_with_chunks(pool, 14).expect("room")
}

/// How many nodes below this one are frozen.
fn frozen<V: Variant>(tree: &BzTree<V>, node: u64) -> usize {
    let below: usize = if tree.shape(node).0 {
        0
    } else {
        tree.children(0, node).iter().map(|(_, child)| frozen(tree, *child)).sum()
    };
    below + usize::from(tree.status(0, node).is_frozen())
}

/// Leaves so many nodes free.
fn leave<V: Variant>(session: &mut Session<Hardware>, taken: &mut Vec<u64>, count: usize) {
    session.collect_all();
    let size = BzTree::<V, Hardware>::NODE_SIZE;
    while let Ok(node) = session.allocate_record(size) {
        taken.push(node);
    }
    for node in taken.drain(taken.len() - count..) {
        session.free_record(node, size);
    }
}

/// However few nodes are free, and however many levels an insert comes to change before it finds no other one.
#[test]
fn an_insert_that_is_refused_leaves_nothing_frozen() {
    let (mut refused, mut most) = (0, 0);
    for count in 0..9 {
        let tree_pool = new::<3>();
        let (tree, mut session) =
            (tree_pool.tree(), tree_pool.heap().session().expect("a free session"));
        let (mut taken, mut keys) = (vec![], vec![]);
        for step in 0..300 {
            let key = step * 7919 % 10_007;
            // The first ones have as much room as they want.
            if step >= 40 {
                leave::<Small<3>>(&mut session, &mut taken, count);
            }
            match tree.insert(&mut session, key, step) {
                Ok(_) => keys.push((key, step)),
                Err(error) => {
                    assert!(error.lacks_space(), "{error}");
                    refused += 1;
                }
            }
            assert_eq!(frozen(tree, tree.root(0)), 0, "{count} free nodes, step {step}");
            most = most.max(tree.find_path(0, key).len());
        }
        leave::<Small<3>>(&mut session, &mut taken, 0);
        for (key, value) in &keys {
            assert_eq!(tree.update(&mut session, *key, 1).expect("no room needed"), Some(*value));
        }
        for (key, _) in &keys {
            assert_eq!(tree.remove(&mut session, *key).expect("no room needed"), Some(1));
        }
        for node in taken {
            session.free_record(node, Tree::<3>::NODE_SIZE);
        }
        drop(session);
        assert_eq!(tree_pool.check().expect("a check").problems, Vec::<String>::new());
    }
    assert!(refused > 100 && most > 4, "{refused} refused, {most} levels");
}

/// A thread that comes upon a leaf that others have frozen can do what needs no room with one node.
#[test]
fn an_update_in_a_frozen_leaf_takes_one_node() {
    let tree_pool = new::<3>();
    let (tree, mut session) =
        (tree_pool.tree(), tree_pool.heap().session().expect("a free session"));
    let mut taken = vec![];
    for key in 0..3 {
        tree.insert(&mut session, key, key).expect("room");
    }
    leave::<Small<3>>(&mut session, &mut taken, 1);
    tree.freeze(0, tree.root(0));
    assert_eq!(tree.update(&mut session, 1, 11).expect("a node"), Some(1));
    assert_eq!(frozen(tree, tree.root(0)), 0);
    leave::<Small<3>>(&mut session, &mut taken, 1);
    tree.freeze(0, tree.root(0));
    let error = tree.insert(&mut session, 3, 3).expect_err("three nodes are needed");
    assert!(error.lacks_space(), "{error}");
    assert_eq!(frozen(tree, tree.root(0)), 0);
    assert_eq!(tree.remove(&mut session, 1).expect("a descriptor"), Some(11));
    // Without any node nobody can go on there.
    leave::<Small<3>>(&mut session, &mut taken, 0);
    tree.freeze(0, tree.root(0));
    let error = tree.update(&mut session, 2, 12).expect_err("a node is needed");
    assert!(error.lacks_space(), "{error}");
}

/// The children of a node that was replaced are another's.
#[test]
fn a_merge_in_a_node_that_was_replaced_freezes_no_child() {
    let tree_pool = new::<3>();
    let (tree, mut session) =
        (tree_pool.tree(), tree_pool.heap().session().expect("a free session"));
    for key in 0..5 {
        tree.insert(&mut session, key, key).expect("room");
    }
    let mut session = session.pinned();
    let holder = tree.find_path(0, 0)[0].node;
    assert!(!tree.shape(holder).0, "an inner node");
    tree.freeze(0, holder);
    let mut rebuild = Rebuild::default();
    tree.thaw(&mut session, &mut rebuild, 0, holder);
    tree.end(&mut session, rebuild, false);
    assert_ne!(tree.root(0), holder);
    let two = Two { holder, at: 0, thin: 0, other: 1, is_leaf: true };
    assert!(matches!(tree.merge(&mut session, 0, two), Ok(false)));
    assert_eq!(frozen(tree, tree.root(0)), 0);
}

/// A scan that comes upon a pair before its removal, and upon a later one of its key, gives the later one.
#[test]
fn a_key_that_a_leaf_has_twice_is_given_once() {
    let tree_pool = new::<9>();
    let (tree, mut session) =
        (tree_pool.tree(), tree_pool.heap().session().expect("a free session"));
    let leaf = session.allocate_record(Tree::<9>::NODE_SIZE).expect("room");
    tree.write_node(leaf, true, &[(5, 50), (1, 10), (1, 11), (7, 70), (1, 12)]);
    assert_eq!(tree.pairs(0, leaf), [(1, 12), (5, 50), (7, 70)]);
    session.free_record(leaf, Tree::<9>::NODE_SIZE);
}

/// Places that were given up are neither counted as removed nor as pairs.
#[test]
fn a_leaf_with_places_that_were_given_up_is_merged() {
    let tree_pool = new::<9>();
    let (tree, mut session) =
        (tree_pool.tree(), tree_pool.heap().session().expect("a free session"));
    for key in 0..12 {
        tree.insert(&mut session, key, key).expect("room");
    }
    // What is left on the right fits into one leaf with what is left on the left.
    for key in 9..12 {
        tree.remove(&mut session, key).expect("a descriptor");
    }
    let leaves = OrderedIndex::shape(tree, &mut session).expect("a shape").leaves;
    assert_eq!(leaves, 2);
    // Slow inserts into the first leaf, whose places others take away.
    {
        let mut session = session.pinned();
        let leaf = tree.find_leaf(0, 0);
        for _ in 0..3 {
            let status = tree.status(0, leaf);
            let place = leaf + meta_at(status.count());
            let counted = Entry { address: leaf, old: status.0, new: status.reserved().0 };
            let reserve = Entry { address: place, old: FREE, new: RESERVED };
            assert!(matches!(tree.exchange(&mut session, &mut [counted, reserve]), Ok(true)));
            assert!(tree.give_up(leaf, status.count()));
        }
    }
    let high = tree.find_place(0, 0).high.expect("there are two leaves");
    for key in 0..high {
        tree.remove(&mut session, key).expect("a descriptor");
    }
    assert_eq!(OrderedIndex::shape(tree, &mut session).expect("a shape").leaves, 1);
    drop(session);
    assert_eq!(tree_pool.check().expect("a check").problems, Vec::<String>::new());
}
