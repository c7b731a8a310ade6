//! What needs a look inside: nodes that are frozen, and pairs that were given up.

use everleaf_alloc::Session;
use everleaf_index::build::{Change, Intent};
use everleaf_index::{Domain, OrderedIndex, Pool, SingleTreePool};
use everleaf_machine::Hardware;

use super::BzTree;
use super::layout::meta_at;
use super::merge::Two;
use super::split::{Edit, Rebuild};
use super::state::{FREE, RESERVED};
use super::variant::{Small, Variant};
use super::write::Stop;
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
    // Without any node nobody can go on there: it looks again and again, for long.
    leave::<Small<3>>(&mut session, &mut taken, 0);
    tree.freeze(0, tree.root(0));
    let change = Change { key: 2, value: 12, intent: Intent::Update };
    let stop = tree.write(&mut session.pinned(), &change).expect_err("a node is needed");
    assert!(matches!(stop, Stop::Frozen(_)), "{stop:?}");
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

/// Another thread replaces the leaf by one before the node above is frozen for a second one. Nobody else has a node for
/// a copy of what is above: in a full pool updates below it were refused.
#[test]
fn a_split_that_comes_too_late_leaves_nothing_frozen() {
    let tree_pool = new::<3>();
    let (tree, mut session) =
        (tree_pool.tree(), tree_pool.heap().session().expect("a free session"));
    for key in 0..5 {
        tree.insert(&mut session, key, key).expect("room");
    }
    let mut session = session.pinned();
    let path = tree.find_path(0, 0);
    let (holder, leaf) = (path[0], path[1].node);
    tree.freeze(0, leaf);
    let mut others = Rebuild::default();
    tree.thaw(&mut session, &mut others, 0, leaf);
    tree.end(&mut session, others, false);
    let mut rebuild = tree.begin(&mut session, 3).expect("room");
    rebuild.replaces(leaf);
    let parts = tree.build_parts(&mut session, &mut rebuild, (true, 1), &[(0, 0), (1, 1)]);
    let edit = Edit { at: holder.index, count: 1, by: parts.expect("room") };
    assert!(matches!(tree.edit(&mut session, &mut rebuild, &path[..1], edit), Ok(false)));
    assert_eq!(frozen(tree, tree.root(0)), 1);
    tree.thaw_holders(&mut session, &mut rebuild, 0);
    tree.end(&mut session, rebuild, false);
    assert_eq!(frozen(tree, tree.root(0)), 0);
}

/// A tree of two leaves with a pair each, which fit into one, in a pool with room for two nodes, which are taken.
fn two_leaves(
    tree: &Tree<3>,
    session: &mut Session<Hardware>,
    taken: &mut Vec<u64>,
) -> (Two, Rebuild) {
    for key in 0..4 {
        tree.insert(session, key, key).expect("room");
    }
    tree.remove(session, 1).expect("a descriptor");
    tree.remove(session, 3).expect("a descriptor");
    let holder = tree.root(0);
    assert_eq!(tree.children(0, holder).len(), 2);
    leave::<Small<3>>(session, taken, 2);
    let two = Two { holder, at: 0, thin: 0, other: 1, is_leaf: true };
    (two, tree.begin(session, 2).expect("two nodes"))
}

/// Three nodes are frozen, and two are there for copies: what gave up for want of a descriptor left one frozen.
#[test]
fn a_merge_with_two_nodes_waits_for_a_descriptor() {
    let tree_pool = new::<3>();
    let (tree, mut session) =
        (tree_pool.tree(), tree_pool.heap().session().expect("a free session"));
    let mut taken = vec![];
    let (two, mut rebuild) = two_leaves(tree, &mut session, &mut taken);
    let mut session = session.pinned();
    // What was used behind the own pin is free when that ends.
    let status = tree.status(0, two.holder).0;
    let mut same = [Entry { address: two.holder, old: status, new: status }];
    while tree.exchange(&mut session, &mut same).is_ok() {}
    let merged = tree.merge_with(&mut session, &mut rebuild, 0, two);
    assert!(matches!(merged, Ok(true)), "{merged:?}");
    tree.end(&mut session, rebuild, true);
    assert_eq!(tree.pairs(0, tree.root(0)), [(0, 0), (2, 2)]);
    assert_eq!(frozen(tree, tree.root(0)), 0);
}

/// The first copy takes the node above with it, and what these were in is room for the second one.
#[test]
fn what_a_copy_has_replaced_is_room_for_the_next() {
    let tree_pool = new::<3>();
    let (tree, mut session) =
        (tree_pool.tree(), tree_pool.heap().session().expect("a free session"));
    let mut taken = vec![];
    let (two, mut rebuild) = two_leaves(tree, &mut session, &mut taken);
    let mut session = session.pinned();
    let children = tree.children(0, two.holder);
    let ((_, left), (bound, right)) = (children[0], children[1]);
    for node in [two.holder, left, right] {
        assert!(tree.freeze(0, node));
    }
    tree.thaw(&mut session, &mut rebuild, bound, right);
    tree.thaw(&mut session, &mut rebuild, bound - 1, left);
    tree.end(&mut session, rebuild, false);
    assert_eq!(frozen(tree, tree.root(0)), 0);
}

/// The thread that has frozen a leaf may be without its processor for long. An update was refused after 200 looks.
#[test]
fn an_update_waits_for_a_thread_that_has_frozen_its_leaf() {
    let tree_pool = new::<3>();
    let (tree, heap) = (tree_pool.tree(), tree_pool.heap());
    let mut session = heap.session().expect("a free session");
    let mut taken = vec![];
    tree.insert(&mut session, 1, 1).expect("room");
    leave::<Small<3>>(&mut session, &mut taken, 1);
    let mut rebuild = tree.begin(&mut session, 1).expect("a node");
    let leaf = tree.root(0);
    tree.freeze(0, leaf);
    let start = heap.retire_epoch();
    std::thread::scope(|scope| {
        let update = scope.spawn(|| {
            let mut session = heap.session().expect("a free session");
            tree.update(&mut session, 1, 11)
        });
        // Three with each sixteenth look: more than 200 of them, which was the bound, and far fewer than there are.
        while heap.retire_epoch() < start + 300 && !update.is_finished() {
            std::thread::yield_now();
        }
        let mut pinned = session.pinned();
        tree.thaw(&mut pinned, &mut rebuild, 1, leaf);
        tree.end(&mut pinned, rebuild, false);
        drop(pinned);
        let updated = update.join().expect("no panic");
        assert_eq!(updated.expect("another has room for it"), Some(1));
    });
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
