//! What the variants of the persistent skip list cost, exactly: flushes, drains and lines of single operations, of a
//! full buffer, and of random inserts.

#![allow(clippy::print_stdout, reason = "what was counted is the result")]

use everleaf_designs::PSkiplist;
use everleaf_designs::skiplist::variant::{
    Buffered, Cached, OutOfPlace, OutOfPlaceUnlogged, Standard, Variant, Whole,
};
use everleaf_index::{OrderedIndex, SingleTreePool};
use everleaf_machine::Simulated;
use everleaf_machine::simulated::Random;
use everleaf_machine::simulated::counting::{Counting, CountingConfig, Tally};
use everleaf_prove::machine::backing::new_pool_up_to;

type List<V> = SingleTreePool<PSkiplist<V, Simulated>, Simulated>;

fn make<V: Variant>(counting: &Counting) -> List<V> {
    let size = counting.memory().size() as u64;
    let pool = new_pool_up_to(counting.memory(), size).expect("memory becomes a pool");
    SingleTreePool::create(pool).expect("room")
}

/// Flushes, drains and lines written of an operation.
fn cost(tally: Tally) -> (u64, u64, u64) {
    assert_eq!(tally.operations, 1);
    (tally.flushes, tally.drains, tally.pool_lines_written)
}

/// What an insert, an update, a removal and two lookups cost: (flushes, drains, lines written), and lines read.
fn single<V: Variant>() -> ([(u64, u64, u64); 3], [u64; 2]) {
    let counting = Counting::new(CountingConfig::default(), 1 << 20);
    let tree_pool = make::<V>(&counting);
    let (tree, mut session) = (tree_pool.tree(), tree_pool.heap().session().expect("a session"));
    let session = &mut session;
    for key in 1..=3 {
        tree.insert(session, key * 10, key).expect("room");
    }
    counting.operation("insert", || tree.insert(session, 15, 1).expect("room"));
    counting.operation("update", || tree.update(session, 20, 2).expect("there"));
    counting.operation("remove", || tree.remove(session, 15).expect("there"));
    counting.operation("refused", || tree.insert(session, 20, 2).expect("room"));
    counting.operation("hit", || assert_eq!(tree.get(session, 30).expect("get"), Some(3)));
    counting.operation("miss", || assert_eq!(tree.get(session, 31).expect("get"), None));
    assert_eq!(cost(counting.tally("refused")).0, 0, "{}", V::NAME);
    let read = ["hit", "miss"].map(|kind| {
        let tally = counting.tally(kind);
        assert_eq!((tally.flushes, tally.pool_lines_written), (0, 0), "{}: a get", V::NAME);
        tally.pool_lines_read
    });
    (["insert", "update", "remove"].map(|kind| cost(counting.tally(kind))), read)
}

#[test]
fn a_buffered_write_is_a_record_and_caching_saves_lines() {
    // A node of one level and the link before it; a value; a dead value and the link around it.
    let list = [(2, 2, 2), (1, 1, 1), (2, 2, 2)];
    let records = [(1, 1, 1); 3];
    // The head's links above the low levels are on two lines; the value of what is in a buffer is in DRAM.
    assert_eq!(single::<Standard>(), (list, [4, 4]));
    assert_eq!(single::<Cached>(), (list, [3, 3]));
    assert_eq!(single::<Buffered>(), (records, [3, 3]));
    assert_eq!(single::<Whole>(), (records, [0, 1]));
    assert_eq!(single::<OutOfPlaceUnlogged>(), ([(0, 0, 0); 3], [3, 3]));
}

/// Flushes and drains of each of some writes that brought a buffer to the list.
fn full_buffers<V: Variant>(write: impl Fn(u64) -> (u64, bool)) -> Vec<(u64, u64)> {
    let counting = Counting::new(CountingConfig::default(), 8 << 20);
    let tree_pool = make::<V>(&counting);
    let (tree, mut session) = (tree_pool.tree(), tree_pool.heap().session().expect("a session"));
    let session = &mut session;
    let (mut full, mut before) = (vec![], Tally::default());
    for number in 0..600 {
        let (key, removes) = write(number);
        counting.operation("all", || {
            if removes { tree.remove(session, key) } else { tree.upsert(session, key, number) }
                .expect("room")
        });
        let after = counting.tally("all");
        let (flushes, drains) = (after.flushes - before.flushes, after.drains - before.drains);
        if flushes > 1 {
            full.push((flushes, drains));
        }
        before = after;
    }
    full
}

/// A buffer is of 14 entries. When they are in the list, their partition says so, and the write that found it full is a
/// record of the log: two lines. Tall nodes among the new ones say it too, and nodes may lie on two lines.
#[test]
fn a_full_buffer_costs_its_nodes_one_by_one_or_together() {
    let mut random = Random::new(1);
    let keys: Vec<u64> = (0..600).map(|_| random.next()).collect();
    let inserts = |number: u64| (keys[number as usize], false);
    let alone = |drains: u64, costs: Vec<(u64, u64)>| {
        println!("{costs:?}");
        // The first write makes a chunk of the log. Some need one of the pool, for nodes of another height.
        let filled = costs.iter().skip(1).filter(|cost| cost.1 == drains);
        let usual: Vec<u64> = filled.map(|cost| cost.0).collect();
        assert!(usual.len() + 6 >= costs.len() && usual.len() > 20, "{costs:?}");
        (usual.iter().copied().min(), usual.iter().copied().max())
    };
    // A node and the link in front of it, each drained.
    assert_eq!(alone(30, full_buffers::<Buffered>(inserts)), (Some(30), Some(34)));
    // The lines of all nodes, drained, and the links in front of their runs, drained.
    assert_eq!(alone(4, full_buffers::<OutOfPlace>(inserts)), (Some(15), Some(30)));
    assert_eq!(alone(4, full_buffers::<Whole>(inserts)), (Some(15), Some(29)));
    // New values, and links around what is removed.
    let updates = |number: u64| (number % 15, false);
    let removals = |number: u64| (number % 30, number >= 30);
    for last in [full_buffers::<Buffered>(updates), full_buffers::<Buffered>(removals)] {
        assert_eq!(last.last(), Some(&(16, 16)), "each by itself");
    }
    for last in [full_buffers::<OutOfPlace>(updates), full_buffers::<OutOfPlace>(removals)] {
        assert_eq!(last.last(), Some(&(16, 3)), "together");
    }
}

/// Flushes and drains of uniformly random inserts.
fn random_inserts<V: Variant>() -> (f64, f64) {
    let counting = Counting::new(CountingConfig::default(), 32 << 20);
    let tree_pool = make::<V>(&counting);
    let mut session = tree_pool.heap().session().expect("a session");
    let mut random = Random::new(1);
    for _ in 0..10_000 {
        let key = random.next();
        counting.operation("insert", || {
            tree_pool.tree().insert(&mut session, key, 7).expect("room");
        });
    }
    let tally = counting.tally("insert");
    (tally.per_operation(tally.flushes), tally.per_operation(tally.drains))
}

#[test]
fn random_inserts_flush_fewer_lines_together() {
    let alone = random_inserts::<Buffered>();
    let [together, whole] = [random_inserts::<OutOfPlace>(), random_inserts::<Whole>()];
    println!("{alone:?}, {together:?}, {whole:?}");
    let near = |counted: (f64, f64), flushes: f64, drains: f64| {
        (counted.0 - flushes).abs() < 0.02 && (counted.1 - drains).abs() < 0.02
    };
    assert!(near(alone, 2.68, 2.59) && near(together, 2.09, 1.17) && near(whole, 2.09, 1.17));
}
