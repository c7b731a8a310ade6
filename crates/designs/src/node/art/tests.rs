//! The tree alone: against a `BTreeSet`, and its nodes at the bounds of their kinds.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use everleaf_alloc::{Heap, SessionPool};
use everleaf_index::{Production, Tiny};
use everleaf_machine::Hardware;
use everleaf_pool::{Domain, Pool};

use super::*;

type Small = Tiny<2, 3>;

fn heap() -> Arc<Heap<Hardware>> {
    let pool = Pool::in_memory(1 << 20, 1 << 24, Domain::Process).expect("memory");
    Heap::create(pool).expect("room")
}

/// A tree, and the keys of its values by number.
struct Grown<G: Geometry> {
    heap: Arc<Heap<Hardware>>,
    session: RefCell<Session<Hardware>>,
    tree: Art<G, Hardware>,
    keys: RefCell<Vec<u64>>,
}

impl<G: Geometry> Grown<G> {
    fn new(keys: &[u64]) -> Self {
        let heap = heap();
        let mut session = heap.session().expect("a session");
        let pairs: Vec<_> = (0..).step_by(2).zip(keys).map(|(value, key)| (*key, value)).collect();
        let tree = Art::load(&mut session, &pairs).expect("memory");
        Grown { heap, session: RefCell::new(session), tree, keys: RefCell::new(keys.to_vec()) }
    }

    fn key_of(&self, value: u64) -> u64 {
        self.keys.borrow()[value as usize / 2]
    }

    fn insert(&self, key: u64) -> Option<u64> {
        let value = 2 * self.keys.borrow().len() as u64;
        self.keys.borrow_mut().push(key);
        let session = &mut *self.session.borrow_mut();
        let mut session = session.pinned();
        let replaced = self.tree.insert(&mut session, key, value, |value| self.key_of(value));
        replaced.expect("memory").map(|value| self.key_of(value))
    }

    fn remove(&self, key: u64) -> Option<u64> {
        let session = &mut *self.session.borrow_mut();
        let removed = self.tree.remove(&mut session.pinned(), key, |value| self.key_of(value));
        removed.map(|value| self.key_of(value))
    }

    fn find_le(&self, key: u64) -> Option<u64> {
        let session = &mut *self.session.borrow_mut();
        let _pinned = session.pinned();
        self.tree.find_le(key, |value| self.key_of(value)).map(|value| self.key_of(value))
    }

    fn all(&self) -> Vec<u64> {
        let mut keys = vec![];
        self.tree.for_each(&mut |value| keys.push(self.key_of(value)));
        keys
    }

    fn assert_sound(&self) {
        let mut problems = vec![];
        self.tree.check(|value| self.key_of(value), &mut problems);
        assert_eq!(problems, Vec::<String>::new());
    }

    /// Children that the top node has room for; 0 if a value, or nothing, is in its place.
    fn room(&self) -> usize {
        match self.tree.top() {
            Child::Node(node) => self.tree.node(node).room(),
            _ => 0,
        }
    }
}

impl<G: Geometry> Drop for Grown<G> {
    fn drop(&mut self) {
        let session = self.session.get_mut();
        self.tree.free(session);
        session.collect_all();
        let bytes = SessionPool::new(self.heap.clone(), 1).node_bytes();
        assert!(std::thread::panicking() || bytes == 0, "{bytes} bytes of nodes are left");
    }
}

/// A number that looks like chance, of these bits.
fn scattered(number: u64, bits: u32) -> u64 {
    (number + 1)
        .wrapping_mul(0x9E37_79B9_7F4A_7C15)
        .rotate_left(29)
        .wrapping_mul(0xD6E8_FEB8_6659_FD93)
        >> (64 - bits)
}

/// Keys that go and come, drawn by `key`, each step beside a set.
fn agree<G: Geometry>(steps: u64, key: impl Fn(u64) -> u64) {
    let (tree, mut model) = (Grown::<G>::new(&[]), BTreeSet::new());
    for step in 0..steps {
        let (one, other) = (key(scattered(3 * step, 40)), key(scattered(3 * step + 1, 40)));
        // Long runs of more insertions, and of more removals.
        let grows = scattered(3 * step + 2, 3) < if step / 512 % 2 == 0 { 6 } else { 2 };
        if grows {
            assert_eq!(tree.insert(one), model.replace(one), "step {step}: insert {one:#x}");
        } else {
            assert_eq!(tree.remove(one), model.take(&one), "step {step}: remove {one:#x}");
        }
        let expected = model.range(..=other).next_back().copied();
        assert_eq!(tree.find_le(other), expected, "step {step}: find {other:#x}");
        assert_eq!(tree.find_le(u64::MAX), model.last().copied(), "step {step}");
        if step % 64 == 0 {
            assert_eq!(tree.all(), model.iter().copied().collect::<Vec<_>>(), "step {step}");
            tree.assert_sound();
        }
    }
}

#[test]
fn a_tree_agrees_with_a_set() {
    // Dense; sparse; in the last byte and in the first; in all bytes a few.
    agree::<Production>(6000, |number| number % 700);
    agree::<Production>(6000, |number| scattered(number % 900, 64));
    agree::<Production>(6000, |number| (number % 300).swap_bytes() | number >> 9 & 3);
    agree::<Production>(6000, |number| (number | number << 24) & 0x0301_0003_0100_0307);
    agree::<Production>(4000, |number| u64::MAX - number % 50);
}

#[test]
fn a_tree_of_small_nodes_agrees_with_a_set() {
    agree::<Small>(6000, |number| number % 40);
    agree::<Small>(6000, |number| number % 1000);
    agree::<Small>(6000, |number| scattered(number % 300, 64));
    agree::<Small>(4000, |number| u64::MAX - number % 300);
}

#[test]
fn a_loaded_tree_is_that_which_grows() {
    for count in [0, 1, 2, 3, 5, 17, 49, 300, 2000] {
        for spread in [1, 3, 257, 1 << 40] {
            let keys: Vec<u64> = (0..count).map(|number| number * spread).collect();
            let (loaded, grown) = (Grown::<Production>::new(&keys), Grown::<Production>::new(&[]));
            for key in keys.iter().rev() {
                grown.insert(*key);
            }
            loaded.assert_sound();
            grown.assert_sound();
            assert_eq!((loaded.all(), grown.all()), (keys.clone(), keys.clone()));
            assert_eq!((loaded.room(), loaded.tree.height()), (grown.room(), grown.tree.height()));
            for key in &keys {
                assert_eq!(loaded.find_le(*key), Some(*key));
            }
        }
    }
}

/// Fills one node with the digits of an order, one by one, and empties it in that order; `room` says how wide it is.
fn fill_and_empty<G: Geometry>(
    digits: &[u64],
    growing: impl Fn(usize) -> usize,
    shrinking: impl Fn(usize) -> usize,
) {
    let (tree, mut model) = (Grown::<G>::new(&[]), BTreeSet::new());
    let look = |model: &BTreeSet<u64>| {
        tree.assert_sound();
        for digit in 0..digits.len() as u64 {
            let expected = model.range(..=digit).next_back().copied();
            assert_eq!(tree.find_le(digit), expected, "{digit} of {model:?}");
        }
    };
    for digit in digits {
        assert_eq!(tree.insert(*digit), None);
        model.insert(*digit);
        assert_eq!(tree.room(), growing(model.len()), "{} digits", model.len());
        look(&model);
    }
    assert!(digits.iter().all(|digit| tree.insert(*digit) == Some(*digit)), "they are there");
    for digit in digits {
        assert_eq!(tree.remove(*digit), Some(*digit));
        model.remove(digit);
        assert_eq!(tree.room(), shrinking(model.len()), "{} digits", model.len());
        look(&model);
        assert_eq!(tree.remove(*digit), None);
    }
}

#[test]
fn a_node_changes_its_kind_at_its_bounds() {
    let growing = |count| match count {
        0 | 1 => 0,
        2..=4 => 4,
        5..=16 => 16,
        17..=48 => 48,
        _ => 256,
    };
    let shrinking = |count| match count {
        0 | 1 => 0,
        2..=3 => 4,
        4..=12 => 16,
        13..=37 => 48,
        _ => 256,
    };
    let up: Vec<u64> = (0..256).collect();
    let down: Vec<u64> = (0..256).rev().collect();
    let mixed: Vec<u64> = (0..256).map(|number| number * 167 % 256).collect();
    for digits in [&up, &down, &mixed] {
        fill_and_empty::<Production>(digits, growing, shrinking);
    }
    let growing = |count| match count {
        0 | 1 => 0,
        2..=3 => 3,
        4..=5 => 5,
        6..=7 => 7,
        _ => 16,
    };
    let shrinking = |count| match count {
        0 | 1 => 0,
        2 => 3,
        3..=4 => 5,
        5..=6 => 7,
        _ => 16,
    };
    for digits in [&up[..16], &down[240..], &(0..16).map(|one| one * 7 % 16).collect::<Vec<_>>()] {
        fill_and_empty::<Small>(digits, growing, shrinking);
    }
}

#[test]
fn a_chain_is_left_out_and_a_node_put_between() {
    let tree = Grown::<Production>::new(&[]);
    for key in [0x0102_0304_0506_0708, 0x0102_0304_0506_0709] {
        tree.insert(key);
    }
    assert_eq!(tree.tree.height(), 1, "seven digits are those of both");
    assert_eq!(tree.find_le(0x0102_0304_0506_0707), None);
    assert_eq!(tree.find_le(0x0102_0304_0600_0000), Some(0x0102_0304_0506_0709));
    tree.insert(0x0102_0404_0506_0708);
    tree.insert(0x0102_0304_0406_0708);
    assert_eq!(tree.tree.height(), 3);
    assert_eq!(tree.find_le(0x0102_0304_0500_0000), Some(0x0102_0304_0406_0708));
    assert_eq!(tree.find_le(0x0102_0400_0000_0000), Some(0x0102_0304_0506_0709));
    // Each removal takes a node with it.
    for (key, height) in
        [(0x0102_0304_0406_0708, 2), (0x0102_0304_0506_0709, 1), (0x0102_0404_0506_0708, 0)]
    {
        assert_eq!(tree.remove(key), Some(key));
        assert_eq!(tree.tree.height(), height);
        tree.assert_sound();
    }
    assert_eq!(tree.find_le(u64::MAX), Some(0x0102_0304_0506_0708));
}

#[test]
fn threads_that_share_a_tree_find_what_stays() {
    let heap = heap();
    let mut session = heap.session().expect("a session");
    let key_of = |value: u64| value / 2;
    // Every fourth key stays; of the others each thread has its own.
    let stays: Vec<(u64, u64)> = (0..1000).map(|number| (number * 4, number * 8)).collect();
    let tree: Art<Small, Hardware> = Art::load(&mut session, &stays).expect("memory");
    std::thread::scope(|scope| {
        for thread in 1..=3 {
            let (heap, tree) = (&heap, &tree);
            scope.spawn(move || {
                let mut session = heap.session().expect("a session");
                for step in 0..20_000 {
                    let base = scattered(step * 3 + thread, 20) % 1000 * 4;
                    let mut session = session.pinned();
                    let mine = base + thread;
                    let found = tree.find_le(mine, key_of).map(key_of).expect("0 stays");
                    assert!((base..=mine).contains(&found), "{found} for {mine}");
                    if found == mine {
                        assert_eq!(tree.remove(&mut session, mine, key_of), Some(2 * mine));
                    } else {
                        let replaced = tree.insert(&mut session, mine, 2 * mine, key_of);
                        assert_eq!(replaced.expect("memory"), None);
                    }
                }
            });
        }
    });
    let mut problems = vec![];
    tree.check(key_of, &mut problems);
    assert_eq!(problems, Vec::<String>::new());
    let mut kept = vec![];
    tree.for_each(&mut |value| kept.extend((value % 8 == 0).then_some((value / 2, value))));
    assert_eq!(kept, stays);
    tree.free(&mut session);
}
