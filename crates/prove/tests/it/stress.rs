//! Real threads on the real machine, a fixed number of operations: what the simulated machine does not have,
//! caches, store buffers and a compiler that reorders, may not break anything either.

use std::collections::BTreeMap;
use std::thread;

use everleaf_index::{Domain, Exchange, Pool, Tiny, Trees, U64Tree};
use everleaf_machine::Hardware;
use everleaf_machine::simulated::Random;

type Geometry = Tiny<4, 3>;
type Forest = Trees<Geometry, Hardware>;

const THREADS: u64 = 4;
/// Of each thread: one to two seconds.
const OPERATIONS: u64 = 400_000;

fn forest() -> Forest {
    let pool = Pool::in_memory(1 << 20, 1 << 30, Domain::Adr).expect("memory for a pool");
    Trees::create(pool).expect("room for a heap")
}

/// Runs `work` on every thread, all at once.
fn on_threads(work: impl Fn(u64) + Sync) {
    thread::scope(|scope| {
        let work = &work;
        for thread in 0..THREADS {
            scope.spawn(move || work(thread));
        }
    });
}

/// One operation on a key that nobody else writes, against what is known of it.
fn own_key(
    tree: &U64Tree<Geometry>,
    session: &mut everleaf_index::Session<Hardware>,
    known: &mut BTreeMap<u64, u64>,
    key: u64,
    random: &mut Random,
) {
    let value = random.next();
    let present = known.get(&key).copied();
    let seen = match random.below(5) {
        0 => tree.get(session, key),
        1 => {
            known.entry(key).or_insert(value);
            tree.insert(session, key, value)
        }
        2 => {
            known.insert(key, value);
            tree.upsert(session, key, value)
        }
        3 => {
            known.entry(key).and_modify(|known| *known = value);
            tree.update(session, key, value)
        }
        _ => {
            known.remove(&key);
            tree.remove(session, key)
        }
    };
    assert_eq!(seen.expect("there is room"), present, "key {key}");
}

#[test]
fn every_thread_finds_its_own_keys_as_it_left_them() {
    let forest = forest();
    let tree = forest.u64_tree("numbers").expect("room for a tree");
    on_threads(|thread| {
        let mut session = forest.heap().session().expect("a session");
        let (mut known, mut random) = (BTreeMap::new(), Random::new(thread));
        for count in 1..=OPERATIONS {
            // Neighbours belong to different threads, so that leaves are shared.
            let key = random.below(64) * THREADS + thread;
            own_key(&tree, &mut session, &mut known, key, &mut random);
            if count % 256 == 0 {
                let mut pairs = vec![];
                tree.scan(&mut session, 0, usize::MAX, &mut pairs).expect("a tree");
                assert!(pairs.is_sorted_by(|a, b| a.0 < b.0), "{pairs:?}");
                let own = pairs.into_iter().filter(|(key, _)| key % THREADS == thread);
                assert!(own.eq(known.iter().map(|(key, value)| (*key, *value))));
            }
        }
    });
    let report = forest.check().expect("a check");
    assert!(report.is_clean(), "{:?}", report.problems);
}

#[test]
fn no_increment_of_a_hot_key_is_lost() {
    const HOT: u64 = 3;
    let forest = forest();
    let tree = forest.u64_tree("counters").expect("room for a tree");
    let mut session = forest.heap().session().expect("a session");
    for key in 0..HOT {
        tree.insert(&mut session, 2 * key, 0).expect("room");
    }
    drop(session);
    on_threads(|thread| {
        let mut session = forest.heap().session().expect("a session");
        let mut random = Random::new(thread ^ 7);
        for _ in 0..OPERATIONS {
            let key = 2 * random.below(HOT);
            let mut seen = tree.get(&mut session, key).expect("a tree").expect("never removed");
            let exchange = |session: &mut _, old| tree.compare_exchange(session, key, old, old + 1);
            while let Exchange::Mismatch(other) = exchange(&mut session, seen).expect("room") {
                assert!(other > seen, "a counter went back");
                seen = other;
            }
            // Keys that come and go between them make the leaf split, merge and be replaced.
            let between = 2 * random.below(HOT) + 1;
            if random.one_in(2) {
                tree.upsert(&mut session, between, thread).expect("room");
            } else {
                tree.remove(&mut session, between).expect("room");
            }
        }
    });
    let mut session = forest.heap().session().expect("a session");
    let counters = (0..HOT).map(|key| tree.get(&mut session, 2 * key));
    let sum: u64 = counters.map(|value| value.expect("a tree").expect("never removed")).sum();
    assert_eq!(sum, THREADS * OPERATIONS);
    drop(session);
    let report = forest.check().expect("a check");
    assert!(report.is_clean(), "{:?}", report.problems);
}
