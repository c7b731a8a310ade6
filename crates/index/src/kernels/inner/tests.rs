//! The inner tree alone: growing in any order, loading, removing and replacing leaves.

use std::sync::Arc;

use everleaf_alloc::Heap;
use everleaf_machine::Hardware;
use everleaf_pool::{Domain, Pool};

use super::*;
use crate::geometry::{Production, Tiny};

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
    let tree: InnerTree<G, Hardware> = InnerTree::load(&mut session, &[(0, 1)]).expect("memory");
    let mut expected = vec![(0, 1)];
    for low in lows {
        tree.insert_separator(&mut session, low, low + 1).expect("memory");
        expected.push((low, low + 1));
        let at = tree.find_le(low);
        assert!(tree.revalidate(at.token));
        assert_eq!((at.leaf, tree.find_le(low - 1).leaf < low + 1), (low + 1, true));
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
    let expected: Vec<(u64, u64)> = (0..777).map(|low| (low * 3, low + 1)).collect();
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
    let all: Vec<(u64, u64)> = (0..6).map(|low| (low * 10, low + 1)).collect();
    let tree: InnerTree<Production, Hardware> =
        InnerTree::load(&mut session, &all).expect("memory");
    let before = tree.find_le(25);
    assert_eq!(tree.left_neighbour(20, 3), Some(2));
    assert_eq!(tree.left_neighbour(0, 1), None);
    assert!(!tree.remove_separator(20, 3, 1), "not its left neighbour");
    assert!(tree.remove_separator(20, 3, 2));
    assert!(!tree.revalidate(before.token));
    assert_eq!(tree.find_le(25).leaf, 2);
    assert!(!tree.remove_separator(0, 1, 1), "the first leaf has none on its left");
    tree.replace_leaf(10, 2, 77);
    assert_eq!(tree.find_le(25).leaf, 77);
    assert_sound(&tree);
}

#[test]
fn what_is_left_over_behind_the_last_child_is_not_looked_at() {
    let heap = heap();
    let mut session = heap.session().expect("a session");
    let all: Vec<(u64, u64)> = (0..6).map(|low| (low * 10, low + 1)).collect();
    let tree: InnerTree<Production, Hardware> =
        InnerTree::load(&mut session, &all).expect("memory");
    assert!(tree.remove_separator(50, 6, 5));
    assert!(tree.remove_separator(40, 5, 4));
    // The fence 50 is still in its place, behind a greater one now.
    tree.insert_separator(&mut session, 60, 7).expect("memory");
    assert_eq!([39, 45, 55, 59, 60, 99].map(|key| tree.find_le(key).leaf), [4, 4, 4, 4, 7, 7]);
    assert_sound(&tree);
}
