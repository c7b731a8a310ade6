//! Threads on a pool that is full nearly all the time: each owns some keys, and knows what they are.
//!
//! Puts may be refused; nothing else may be, and nothing that was acknowledged may be lost.

use std::collections::HashMap;

use everleaf::{Action, Durability, Error, Map, Options, Store, WriteBatch};

const THREADS: u64 = 4;
const ROUNDS: u64 = 2;
const OPERATIONS: usize = 3_000;
const KEYS_PER_THREAD: u64 = 1500;

/// A generator of numbers, so that a seed tells all.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        everleaf::random::next(&mut self.0) % end
    }
}

fn key(number: u64) -> Vec<u8> {
    format!("{:03}/{number}", number % 50).into_bytes()
}

/// Whether a write was done; a refusal for want of space is none.
fn done<T>(result: Result<T, Error>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(Error::PoolFull(_)) => None,
        Err(error) => panic!("{error}"),
    }
}

/// What a thread knows about its keys.
type Known = HashMap<u64, Option<Vec<u8>>>;

fn operate(store: &Store, map: &Map, random: &mut Random, thread: u64, known: &mut Known) {
    let number = random.below(KEYS_PER_THREAD) * THREADS + thread;
    match random.below(20) {
        0..9 => {
            let value = vec![thread as u8; random.below(400) as usize];
            if done(map.put(key(number), &value)).is_some() {
                known.insert(number, Some(value));
            }
        }
        9..16 => {
            map.remove(key(number)).expect("a removal needs no space");
            known.insert(number, None);
        }
        16 | 17 => {
            if let Some(value) = known.get(&number) {
                assert_eq!(&map.get(key(number)).expect("get"), value, "key {number}");
            }
        }
        18 => {
            let toggle = |value: Option<&[u8]>| match value {
                Some(_) => Action::Remove,
                None => Action::Put(vec![9; 30]),
            };
            if let Some(before) = done(map.update_with(key(number), toggle)) {
                known.insert(number, before.is_none().then(|| vec![9; 30]));
            }
        }
        _ if random.below(20) == 0 => {
            let name = format!("short-lived {thread}");
            if let Some(other) = done(store.map(&name)) {
                for number in 0..100u32 {
                    done(other.put(number.to_be_bytes(), [1; 100]));
                }
                assert!(store.drop_map(&name).expect("writable"));
            }
        }
        _ if random.below(20) == 0 => {
            let keys: Vec<_> =
                map.iter().take(1000).map(Result::unwrap).map(|(key, _)| key).collect();
            assert!(keys.is_sorted_by(|a, b| a < b));
            let keys: Vec<_> =
                map.iter().rev().take(1000).map(Result::unwrap).map(|(key, _)| key).collect();
            assert!(keys.is_sorted_by(|a, b| a > b));
        }
        _ => {}
    }
}

#[test]
fn threads_on_a_full_pool_lose_nothing_and_can_always_remove() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("p");
    for round in 1..=ROUNDS {
        println!("seed {round}");
        let options = Options::new().create(true).max_size_bytes(2 << 20);
        let store = options.open(&path).expect("it opens");
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let store = &store;
                scope.spawn(move || {
                    let map =
                        store.map(["even", "odd"][thread as usize % 2]).expect("there is room");
                    let mut random = Random(round << 32 | thread << 16 | 1);
                    let mut known = Known::new();
                    for _ in 0..OPERATIONS {
                        operate(store, &map, &mut random, thread, &mut known);
                    }
                    for (number, value) in &known {
                        let found = map.get(key(*number)).expect("get");
                        assert_eq!(&found, value, "key {number} in the end");
                    }
                });
            }
        });
        let problems = store.check().expect("a check").problems;
        assert_eq!(problems.into_iter().take(4).collect::<Vec<_>>(), Vec::<String>::new());
    }
}

/// What a thread has freed is kept for it, and a thread that makes a map does so in a session of its own: a thread that
/// had removed many keys was told that the pool is full.
#[test]
fn a_thread_with_freed_blocks_makes_a_map_in_a_full_pool() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let options = Options::new().create(true).max_size_bytes(4 << 20);
    let store = options.open(folder.path().join("p")).expect("it opens");
    let map = store.default_map();
    let key = |number: u64| format!("{number:08}").into_bytes();
    let count = (0..).take_while(|number| done(map.put(key(*number), b"value")).is_some()).count();
    assert!(count > 5000, "{count}");
    for number in 0..2000 {
        assert!(map.remove(key(number)).expect("no room needed"));
    }
    // Each takes one of the leaves that were joined.
    let made = (0..).take_while(|number| done(store.map(&format!("{number}"))).is_some()).count();
    assert!((10..300).contains(&made), "{made}");
    assert_eq!(store.check().expect("a check").problems, Vec::<String>::new());
}

/// The same of the first batch of a store, which makes the journal: it is told only of a pool that has no room.
#[test]
fn a_thread_with_freed_blocks_writes_a_batch_in_a_full_pool() {
    for durability in [Durability::Process, Durability::Power] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let options = Options::new().create(true).max_size_bytes(4 << 20).durability(durability);
        let store = options.open(folder.path().join("p")).expect("it opens");
        let map = store.default_map();
        let key = |number: u64| format!("{number:08}").into_bytes();
        while done(map.put(key(map.len()), [7; 1000])).is_some() {}
        let mut batch = WriteBatch::new();
        batch.put(map, b"one", b"1").put(map, b"two", b"2");
        assert_eq!(done(store.write(&batch)), None);
        // Several chunks, which the records of the journal need one of.
        for number in 0..1200 {
            assert!(map.remove(key(number)).expect("no room needed"));
        }
        assert!(store.write(&batch).expect("there is room").is_done());
        assert_eq!(store.check().expect("a check").problems, Vec::<String>::new());
    }
}

/// What was lost: a transaction that looks at the number of keys and then removes one was refused for lack of space, in
/// a full pool that had never had a batch, though one removal needs neither a journal nor room.
#[test]
fn who_writes_alone_can_remove_a_key_in_a_full_pool() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let options = Options::new().create(true).max_size_bytes(4 << 20);
    let store = options.open(folder.path().join("p")).expect("it opens");
    let map = store.default_map();
    let key = |number: u64| format!("{number:08}").into_bytes();
    for size in [1000, 500, 100, 10] {
        while done(map.put(key(map.len()), vec![7; size])).is_some() {}
    }
    // As short as the records of the journal.
    let _ = (0_u16..).find(|number| done(map.put(number.to_be_bytes(), b"")).is_none());
    let count = map.len();
    let alone = |numbers: std::ops::Range<u64>| {
        store.write_alone(|alone, batch| {
            assert!(!alone.is_empty());
            numbers.for_each(|number| _ = batch.remove(map, key(number)));
            Ok::<(), Error>(())
        })
    };
    assert!(alone(0..1).expect("one removal needs no room").is_done());
    assert!(alone(0..0).expect("nothing needs no room").is_done());
    assert_eq!((map.len(), map.get(key(0)).expect("readable")), (count - 1, None));
    // Several have to be written down first.
    assert!(matches!(alone(1..3), Err(Error::PoolFull(_))));
    assert_eq!(map.len(), count - 1);
    for number in 1..1200 {
        assert!(map.remove(key(number)).expect("no room needed"));
    }
    assert!(alone(1200..1203).expect("there is room").is_done());
    assert_eq!(store.check().expect("a check").problems, Vec::<String>::new());
}

/// Keys that have their places in the leaves before the pool is full.
const SHORT: u32 = 9000;

/// Fills a pool with records of 1 KiB, and then gives all records to be had of a length as that of the log's notes to
/// short keys. Returns how many of these have got one, and how many keys there are.
fn fill(store: &Store) -> (u32, u32) {
    let map = store.default_map();
    store.defer_sync();
    for number in 0..SHORT {
        map.put(number.to_be_bytes(), b"").expect("room");
    }
    let put = |number: &u32| done(map.put(number.to_be_bytes(), [7; 1000])).is_none();
    let count = (SHORT..).find(put).expect("it has an end");
    let given = fill_up(store, 0);
    store.wait_deferred().expect("the disk works");
    (given, count)
}

/// Gives such records to further short keys, until there are none. Returns how many have one then.
fn fill_up(store: &Store, given: u32) -> u32 {
    let is_full =
        |number: &u32| done(store.default_map().put(number.to_be_bytes(), [7; 20])).is_none();
    (given..SHORT).find(is_full).expect("there are more keys than records")
}

/// What was lost: the use of the whole pool. Each opening with a log wrote its mode again, for which a full pool has no
/// record: it could only be read, so that nothing could be removed from it.
#[test]
fn a_full_pool_with_a_log_is_opened_again_in_every_mode() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("p");
    let options = || Options::new().max_size_bytes(4 << 20);
    let store = options().create(true).durability(Durability::Power).open(&path).expect("it opens");
    let (mut given, count) = fill(&store);
    store.close().expect("it closes");
    let interval = Durability::Interval(std::time::Duration::from_millis(70));
    let modes = [None, Some(Durability::Power), Some(interval), None, Some(Durability::Power)];
    for (round, mode) in modes.into_iter().enumerate() {
        let options = mode.map_or(options(), |mode| options().durability(mode));
        let store = options.open(&path).unwrap_or_else(|error| panic!("round {round}: {error}"));
        let map = store.default_map();
        assert!(map.remove((SHORT + round as u32).to_be_bytes()).expect("no room needed"));
        assert_eq!(map.len(), u64::from(count) - round as u64 - 1);
        given = fill_up(&store, given);
        store.close().expect("it closes");
    }
}

/// A map that a full pool has no number for is not made, and leaves nothing: its number was asked for at each opening,
/// and the names of such maps were used up.
#[test]
fn a_map_without_room_for_its_number_leaves_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("p");
    let options =
        || Options::new().create(true).max_size_bytes(4 << 20).durability(Durability::Power);
    let store = options().open(&path).expect("it opens");
    // Leaves that are free when all records are taken.
    let early: Vec<Map> =
        (0..20).map(|number| store.map(&format!("early {number}")).expect("room")).collect();
    let (given, count) = fill(&store);
    drop(early);
    for number in 0..20 {
        assert!(store.drop_map(&format!("early {number}")).expect("no room needed"));
    }
    // The records of their numbers, again.
    fill_up(&store, given);
    let (mut made, mut refused) = (vec!["default".to_string()], 0);
    for number in 0..50 {
        let name = format!("new {number:03}");
        // What is reclaimed meanwhile may be enough for one.
        match done(store.map(&name)) {
            Some(_) => made.push(name),
            None => {
                refused += 1;
                assert!(!store.drop_map(&name).expect("writable"), "{name} is left");
            }
        }
        assert_eq!(store.map_names(), made);
    }
    assert!(refused > 40, "{refused}");
    store.close().expect("it closes");
    let store = options().open(&path).expect("a full pool opens");
    let map = store.default_map();
    assert_eq!(store.map_names(), made);
    store.defer_sync();
    for number in 0..count {
        assert!(map.remove(number.to_be_bytes()).expect("no room needed"));
    }
    store.map("later").expect("room").put("key", "value").expect("room");
    store.wait_deferred().expect("the disk works");
    store.close().expect("it closes");
    std::fs::remove_file(&path).expect("it was there");
    // The whole log is replayed, which takes more room than what is left of it.
    let store = options().max_size_bytes(1 << 26).open(&path).expect("it is rebuilt");
    assert_eq!(store.map("later").expect("there").get("key").expect("get"), Some(b"value".into()));
}
