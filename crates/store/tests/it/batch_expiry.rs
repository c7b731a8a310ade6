//! Batches that change when keys expire, and leave their values.
//!
//! What was lost: a batch had no other way to change an expiry than to put the value again, so that `EXPIRE` between
//! `MULTI` and `EXEC` copied it three times, and was refused for a value of 512 MiB or in a pool with no room for a
//! second one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use everleaf::{Durability, Error, Expiry, Options, Store, WriteBatch, Written};

/// In milliseconds; it does not come while a test runs.
const LATER: u64 = 1 << 45;
/// A time for which a record has no word: its record is written again.
const NO_WORD: u64 = 1 << 50;

fn at(unix_ms: u64) -> Expiry {
    Expiry::from_unix_ms(unix_ms)
}

fn options() -> Options {
    Options::new().create(true).max_size_bytes(1 << 26).sweep(false)
}

fn expiry(store: &Store, key: &str) -> Option<Expiry> {
    store.default_map().expiry(key).expect("readable")
}

/// The pool has room for one such value.
#[test]
fn a_batch_changes_an_expiry_where_no_second_value_fits() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = options().max_size_bytes(8 << 20).open(folder.path().join("pool"));
    let store = store.expect("it opens");
    let (map, long) = (store.default_map(), vec![7; 6 << 20]);
    map.put("long", &long).expect("room");
    let mut batch = WriteBatch::new();
    batch.put_with_expiry(map, "long", &long, at(LATER));
    assert!(matches!(store.write(&batch), Err(Error::PoolFull(_))), "there is no room for two");
    batch.clear();
    batch.expire(map, "long", at(LATER)).put(map, "other", "value");
    assert!(store.write(&batch).expect("it needs none").is_done());
    assert_eq!(expiry(&store, "long"), Some(at(LATER)));
    batch.clear();
    batch.expire(map, "long", Expiry::Never).remove(map, "other");
    assert!(store.write(&batch).expect("it needs none").is_done());
    assert_eq!(expiry(&store, "long"), Some(Expiry::Never));
    assert_eq!(map.get("long").expect("readable"), Some(long));
    assert!(store.check().expect("the check runs").is_clean());
}

#[test]
fn changes_of_one_key_go_together_in_their_order() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, durability) in [("a", Durability::Process), ("b", Durability::Power)] {
        let open = || options().durability(durability).open(folder.path().join(name));
        let store = open().expect("it opens");
        let map = store.default_map();
        for key in ["short", "put", "removed", "put back", "twice", "far", "far back"] {
            map.put(key, "old").expect("room");
        }
        map.put_with_expiry("far back", "old", at(NO_WORD)).expect("room");
        map.put("long", [8; 5000]).expect("room");
        let mut batch = WriteBatch::new();
        batch
            .expire(map, "short", at(LATER))
            .put(map, "put", "new")
            .expire(map, "put", at(LATER + 1))
            .remove(map, "removed")
            .expire(map, "removed", at(LATER))
            .expire(map, "put back", at(LATER))
            .put(map, "put back", "new")
            .expire(map, "twice", at(LATER))
            .expire(map, "twice", at(LATER + 2))
            .expire(map, "absent", at(LATER))
            .expire(map, "far", at(NO_WORD + 1))
            .expire(map, "far back", at(LATER + 3))
            .expire(map, "long", at(LATER + 4));
        let watches = ["long", "absent"].map(|key| map.watch(key).expect("room"));
        assert_eq!(store.write(&batch).expect("room"), Written::All);
        assert_eq!(watches.map(|watch| watch.is_broken()), [true, false]);
        let check = |store: &Store| {
            for (key, value, expiry) in [
                ("short", "old", at(LATER)),
                ("put", "new", at(LATER + 1)),
                ("put back", "new", Expiry::Never),
                ("twice", "old", at(LATER + 2)),
                ("far", "old", at(NO_WORD + 1)),
                ("far back", "old", at(LATER + 3)),
            ] {
                let own = |value: &[u8], expiry| (value.to_vec(), expiry);
                let found = store.default_map().get_with_expiry(key, own).expect("readable");
                assert_eq!(found, Some((value.as_bytes().to_vec(), expiry)), "{key}");
            }
            assert_eq!(expiry(store, "long"), Some(at(LATER + 4)));
            assert_eq!([expiry(store, "removed"), expiry(store, "absent")], [None, None]);
            assert_eq!(store.default_map().len(), 7);
        };
        check(&store);
        drop(batch);
        store.close().expect("closed");
        let store = open().expect("it opens");
        check(&store);
        if durability == Durability::Power {
            store.close().expect("closed");
            std::fs::remove_file(folder.path().join(name)).expect("it is there");
            check(&open().expect("the log has all"));
        }
    }
}

/// What has expired stays absent, though its record is there; but for a batch that has seen it before.
#[test]
fn an_expired_key_comes_back_only_to_a_batch_that_has_seen_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = options().durability(Durability::Power).open(folder.path().join("pool"));
    let store = store.expect("it opens");
    let (map, mut batch) = (store.default_map(), WriteBatch::new());
    let soon = Expiry::after(Duration::from_millis(1));
    map.put_with_expiry("gone", [1; 5000], soon).expect("room");
    map.put_with_expiry("seen", [2; 5000], soon).expect("room");
    while map.get("seen").expect("readable").is_some() {
        std::thread::yield_now();
    }
    batch.expire(map, "gone", at(LATER)).expire_seen(map, "seen", soon, at(LATER));
    assert_eq!(store.write(&batch).expect("room"), Written::All);
    assert_eq!((expiry(&store, "gone"), expiry(&store, "seen")), (None, Some(at(LATER))));
    assert_eq!(store.write(&batch).expect("room"), Written::Refused(0), "another expiry by now");
    batch.clear();
    batch.put(map, "with it", "1").expire_seen(map, "absent", Expiry::Never, at(LATER));
    assert_eq!(store.write(&batch).expect("room"), Written::Refused(0));
    assert_eq!(expiry(&store, "with it"), None);
    drop(batch);
    store.close().expect("closed");
    std::fs::remove_file(folder.path().join("pool")).expect("it is there");
    let store = options().durability(Durability::Power).open(folder.path().join("pool"));
    let store = store.expect("the log has all");
    assert_eq!((expiry(&store, "gone"), expiry(&store, "seen")), (None, Some(at(LATER))));
}

/// A view keeps the expiry that its keys had.
#[test]
fn a_view_keeps_an_expiry_that_a_batch_changes() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = options().open(folder.path().join("pool")).expect("it opens");
    let (map, mut batch) = (store.default_map(), WriteBatch::new());
    map.put("key", [9; 50_000]).expect("room");
    let view = store.view().expect("a view");
    batch.expire(map, "key", at(1));
    assert!(store.write(&batch).expect("room").is_done());
    assert_eq!(map.get("key").expect("readable"), None);
    assert_eq!(view.default_map().get("key").expect("readable"), Some(vec![9; 50_000]));
}

/// Only a pool in which there was such a batch asks for a program that knows them.
#[test]
fn only_a_pool_with_such_a_batch_is_refused_by_older_programs() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let store = options().open(&path).expect("it opens");
    let (map, mut batch) = (store.default_map(), WriteBatch::new());
    let features = || {
        let header = std::fs::read(&path).expect("readable");
        u64::from_le_bytes(header[16..24].try_into().expect("eight bytes"))
    };
    batch.put(map, "key", "value").expire(map, "key", at(LATER)).expire(map, "absent", at(LATER));
    assert!(store.write(&batch).expect("room").is_done());
    assert_eq!(features() & 16, 0, "all of it was done by a put");
    batch.clear();
    batch.expire(map, "key", at(LATER + 1));
    assert!(store.write(&batch).expect("room").is_done());
    assert_eq!(features() & 16, 0, "one change needs no journal");
    assert_eq!(expiry(&store, "key"), Some(at(LATER + 1)));
    batch.expire(map, "key", at(LATER + 2)).put(map, "other", "value");
    assert!(store.write(&batch).expect("room").is_done());
    assert_eq!(features() & 16, 16);
}

/// What a key of the model has: a value and when it expires. What has expired stays, as its record does.
type Model = BTreeMap<u8, (Vec<u8>, u64)>;

/// Some random batches, each beside a model of what it is to do.
struct Modelled {
    model: Model,
    random: u64,
}

impl Modelled {
    fn below(&mut self, bound: u64) -> u64 {
        everleaf::random::next(&mut self.random) % bound
    }

    /// Times that have come, that do not come, that have no word in a record, and none.
    fn time(&mut self) -> u64 {
        [0, 1 + self.below(3), LATER + self.below(3), NO_WORD + self.below(3)]
            [self.below(4) as usize]
    }

    fn value(&mut self) -> Vec<u8> {
        let length = [0, 10, 3000, 4096, 9000][self.below(5) as usize];
        vec![self.below(256) as u8; length]
    }

    /// Writes a batch. Returns whether it was done, and whether it was to be.
    fn write(&mut self, store: &Store) -> (bool, bool) {
        let (map, mut batch) = (store.default_map(), WriteBatch::new());
        let (mut next, mut holds) = (self.model.clone(), true);
        // Keys that are there for what follows, whether their time has come or not.
        let mut is_there = BTreeSet::new();
        for _ in 0..1 + self.below(9) {
            let key = self.below(12) as u8;
            let was_live = self.model.get(&key).is_some_and(|(_, time)| is_live(*time));
            match self.below(10) {
                0..3 => {
                    let (value, time) = (self.value(), self.time());
                    batch.put_with_expiry(map, [key], &value, at(time));
                    next.insert(key, (value, time));
                    is_there.insert(key);
                }
                3 | 4 => {
                    batch.remove(map, [key]);
                    next.remove(&key);
                }
                5 => {
                    let seen = self.model.get(&key).map_or(7, |(_, time)| *time);
                    let seen = if self.below(8) == 0 { seen + 1 } else { seen };
                    holds &= self.model.get(&key).is_some_and(|(_, time)| *time == seen);
                    let time = self.time();
                    batch.expire_seen(map, [key], at(seen), at(time));
                    is_there.insert(key);
                    next.entry(key).and_modify(|entry| entry.1 = time);
                }
                _ => {
                    let time = self.time();
                    batch.expire(map, [key], at(time));
                    if was_live || is_there.contains(&key) {
                        next.entry(key).and_modify(|entry| entry.1 = time);
                    }
                }
            }
        }
        let done = store.write(&batch).expect("room").is_done();
        if holds {
            self.model = next;
        }
        (done, holds)
    }

    fn compare(&self, store: &Store, when: &str) {
        for key in 0..12 {
            let own = |value: &[u8], expiry: Expiry| (value.to_vec(), expiry.as_unix_ms());
            let found = store.default_map().get_with_expiry([key], own).expect("readable");
            let expected = self.model.get(&key).filter(|(_, time)| is_live(*time));
            assert_eq!(found.as_ref(), expected, "{key} {when}");
        }
    }
}

fn is_live(time: u64) -> bool {
    time == 0 || time >= LATER
}

/// Random batches against a model: each by itself, behind every opening, and rebuilt from the log alone.
#[test]
fn random_batches_do_what_their_model_does() {
    let folder = tempfile::tempdir().expect("a folder");
    for seed in 0..6 {
        let path = folder.path().join(format!("pool {seed}"));
        let durability = if seed % 2 == 0 { Durability::Power } else { Durability::Process };
        let open = || options().durability(durability).open(&path).expect("it opens");
        let mut modelled = Modelled { model: Model::new(), random: seed };
        let mut store = open();
        for number in 0..120 {
            let (done, holds) = modelled.write(&store);
            assert_eq!(done, holds, "seed {seed}, batch {number}");
            modelled.compare(&store, &format!("behind batch {number} of seed {seed}"));
            if number % 40 == 39 {
                store.close().expect("closed");
                store = open();
                modelled.compare(&store, &format!("behind an opening, seed {seed}"));
            }
        }
        assert!(store.check().expect("the check runs").is_clean());
        if durability == Durability::Power {
            store.close().expect("closed");
            std::fs::remove_file(&path).expect("it is there");
            store = open();
            modelled.compare(&store, &format!("made from the log, seed {seed}"));
        }
        drop(store);
    }
}

/// What was lost: each key was asked by a look at the clock of its own, so that of keys that expire together, while a
/// batch is written that lets them live on, the first lived and the others did not.
#[test]
fn keys_that_expire_together_live_on_together() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = options().open(folder.path().join("pool")).expect("it opens");
    let map = store.default_map();
    let now_us = || SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_micros();
    for round in 0..30u32 {
        let keys: Vec<String> = (0..1500).map(|number| format!("{round} {number}")).collect();
        let due_ms = (now_us() / 1000) as u64 + 20;
        let mut batch = WriteBatch::new();
        for key in &keys {
            map.put_with_expiry(key, "value", at(due_ms)).expect("room");
            batch.expire(map, key, at(LATER));
        }
        // Now a little before it is due, now a little after.
        while now_us() + 300 < u128::from(due_ms) * 1000 + 20 * u128::from(round) {
            std::hint::spin_loop();
        }
        assert!(store.write(&batch).expect("no room is needed").is_done());
        let left = keys.iter().filter(|key| map.contains(key).expect("readable")).count();
        assert!(left == 0 || left == keys.len(), "{left} of {}", keys.len());
    }
}
