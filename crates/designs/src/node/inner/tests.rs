//! The inner tree alone: growing in any order, loading, removing and replacing leaves.

use std::sync::Arc;

use everleaf_alloc::Heap;
use everleaf_index::{Production, Tiny};
use everleaf_machine::Hardware;
use everleaf_pool::{Domain, Pool};

use super::*;

/// The place of a leaf.
const fn at(number: u64) -> u64 {
    number * 64
}

fn heap() -> Arc<Heap<Hardware>> {
    let pool = Pool::in_memory(1 << 20, 1 << 24, Domain::Process).expect("memory");
    Heap::create(pool).expect("room")
}

fn leaves<G: Geometry>(tree: &InnerTree<G, Hardware>) -> Vec<(u64, u64)> {
    let mut leaves = vec![];
    tree.for_each_leaf(&mut |low, leaf| leaves.push((low, leaf)));
    leaves
}

fn assert_sound<G: Geometry>(tree: &InnerTree<G, Hardware>) {
    let mut problems = vec![];
    tree.check(&mut problems);
    assert_eq!(problems, Vec::<String>::new());
}

fn grow<G: Geometry>(lows: impl Iterator<Item = u64>) {
    let heap = heap();
    let mut session = heap.session().expect("a session");
    let tree: InnerTree<G, Hardware> =
        InnerTree::load(&mut session, &[(0, at(1))]).expect("memory");
    let mut expected = vec![(0, at(1))];
    for low in lows {
        tree.insert_separator(&mut session, low, at(low + 1)).expect("memory");
        expected.push((low, at(low + 1)));
        let found = tree.find_le(low);
        assert!(tree.revalidate(found.token));
        assert_eq!(found.leaf, at(low + 1));
        assert_ne!(tree.find_le(low - 1).leaf, at(low + 1));
    }
    expected.sort_unstable();
    assert_eq!(leaves(&tree), expected);
    assert_sound(&tree);
    for pair in expected.windows(2) {
        assert_eq!(tree.find_le(pair[1].0 - 1).leaf, pair[0].1);
    }
    tree.free(&mut session);
}

#[test]
fn separators_in_any_order_lead_to_their_leaves() {
    grow::<Tiny<2, 3>>((1..400).map(|low| low * 10));
    grow::<Tiny<2, 3>>((1..400).rev().map(|low| low * 10));
    grow::<Tiny<2, 4>>((1..=400).map(|low| low * 181 % 401 * 10));
    grow::<Production>((1..=20_000).map(|low| low * 7919 % 20_011 * 10));
}

#[test]
fn a_loaded_tree_leads_where_one_grown_by_hand_does() {
    let heap = heap();
    let mut session = heap.session().expect("a session");
    let expected: Vec<(u64, u64)> = (0..777).map(|low| (low * 3, at(low + 1))).collect();
    for count in [1, 2, 3, 777] {
        let tree: InnerTree<Tiny<2, 3>, Hardware> =
            InnerTree::load(&mut session, &expected[..count]).expect("memory");
        assert_eq!(leaves(&tree), expected[..count]);
        assert_sound(&tree);
    }
}

#[test]
fn removed_and_replaced_leaves_are_not_found_again() {
    let heap = heap();
    let mut session = heap.session().expect("a session");
    let all: Vec<(u64, u64)> = (0..6).map(|low| (low * 10, at(low + 1))).collect();
    let tree: InnerTree<Production, Hardware> =
        InnerTree::load(&mut session, &all).expect("memory");
    let before = tree.find_le(25);
    assert_eq!(tree.left_neighbour(20, at(3)), Some(at(2)));
    assert_eq!(tree.left_neighbour(0, at(1)), None);
    assert!(!tree.remove_separator(20, at(3), at(1)), "not its left neighbour");
    assert!(tree.remove_separator(20, at(3), at(2)));
    assert!(!tree.revalidate(before.token));
    assert_eq!(tree.find_le(25).leaf, at(2));
    assert!(!tree.remove_separator(0, at(1), at(1)), "the first leaf has none on its left");
    tree.replace_leaf(10, at(2), at(77));
    assert_eq!(tree.find_le(25).leaf, at(77));
    assert_sound(&tree);
}

#[test]
fn what_is_left_over_behind_the_last_child_is_not_looked_at() {
    let heap = heap();
    let mut session = heap.session().expect("a session");
    let all: Vec<(u64, u64)> = (0..6).map(|low| (low * 10, at(low + 1))).collect();
    let tree: InnerTree<Production, Hardware> =
        InnerTree::load(&mut session, &all).expect("memory");
    assert!(tree.remove_separator(50, at(6), at(5)));
    assert!(tree.remove_separator(40, at(5), at(4)));
    // The fence 50 is still in its place, behind a greater one now.
    tree.insert_separator(&mut session, 60, at(7)).expect("memory");
    assert_eq!(
        [39, 45, 55, 59, 60, 99].map(|key| tree.find_le(key).leaf),
        [4, 4, 4, 4, 7, 7].map(at)
    );
    assert_sound(&tree);
}

#[test]
fn leaves_of_pools_beyond_256_gib_are_found() {
    let heap = heap();
    let mut session = heap.session().expect("a session");
    let far = |number: u64| at(number) + (number << 40);
    let all: Vec<(u64, u64)> = (0..500).map(|low| (low * 10, far(low + 1))).collect();
    let root = write::build_levels::<Tiny<2, 3>, _>(&mut session, true, &all).expect("memory");
    let root = AtomicPointer::new(root);
    let tree: InnerTree<Tiny<2, 3>, Hardware> =
        InnerTree { root, is_wide: true, geometry: PhantomData };
    for low in 0..500 {
        tree.insert_separator(&mut session, low * 10 + 5, far(1000 + low)).expect("memory");
        assert_eq!(tree.find_le(low * 10 + 4).leaf, far(low + 1));
        assert_eq!(tree.find_le(low * 10 + 9).leaf, far(1000 + low));
    }
    tree.replace_leaf(10, far(2), far(7777));
    assert_eq!(tree.find_le(11).leaf, far(7777));
    assert_sound(&tree);
}

#[test]
fn a_node_of_every_fill_finds_every_key() {
    let heap = heap();
    let mut session = heap.session().expect("a session");
    for count in 1..=31 {
        let children: Vec<_> =
            (0..count).map(|index| (index * 10, node::Below::Leaf(at(index)))).collect();
        let made = Node::build(&mut session, 1, false, &children).expect("memory");
        // SAFETY: just made, and ours alone.
        let node: &Node<Hardware> = unsafe { &*made };
        for key in (0..=count * 10).chain([u64::MAX]) {
            assert_eq!(node.find(key) as u64, (key / 10).min(count - 1), "{key} of {count}");
        }
        // What is left over behind the last child is not looked at.
        node.truncate(1);
        assert_eq!(node.find(u64::MAX), 0);
        // SAFETY: made above, reachable from nowhere.
        unsafe { session.free_node(made.cast(), size_of::<Node<Hardware>>()) };
    }
}
