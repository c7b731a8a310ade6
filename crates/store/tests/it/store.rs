//! The public interface, method by method: what each promises, at its limits and when it must fail.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use everleaf::{
    Action, DEFAULT_MAP, Domain, Error, Exchange, KEY_SIZE_MAX, Map, Options, Store, VALUE_SIZE_MAX,
};

struct PoolFolder {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl PoolFolder {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("store.pool");
        PoolFolder { _folder: folder, path }
    }

    fn open(&self) -> Store {
        Options::new().create(true).max_size_bytes(1 << 30).open(&self.path).expect("it opens")
    }

    fn open_small(&self, megabytes: u64) -> Store {
        let options = Options::new().create(true).max_size_bytes(megabytes << 20);
        options.open(&self.path).expect("it opens")
    }
}

fn assert_sound(store: &Store) {
    let problems = store.check().expect("a check can be made").problems;
    assert_eq!(problems.into_iter().take(4).collect::<Vec<_>>(), Vec::<String>::new());
}

fn keys(pairs: impl Iterator<Item = everleaf::Result<(Vec<u8>, Vec<u8>)>>) -> Vec<Vec<u8>> {
    pairs.map(|pair| pair.expect("readable").0).collect()
}

/// A map of `a` to `z`.
fn letters(store: &Store) -> Map {
    let map = store.map("letters").expect("room");
    for letter in b'a'..=b'z' {
        map.put([letter], [letter, letter]).expect("room");
    }
    map
}

#[test]
fn writes_say_what_they_found() {
    let place = PoolFolder::new();
    let store = place.open();
    assert!(!store.default_map().put(b"k", b"1").expect("room"));
    assert!(store.default_map().put(b"k", b"2").expect("room"));
    assert_eq!(store.default_map().replace(b"k", b"3").expect("room"), Some(b"2".to_vec()));
    assert_eq!(store.default_map().replace(b"n", b"3").expect("room"), None);
    assert!(!store.default_map().insert(b"k", b"4").expect("room"));
    assert!(store.default_map().insert(b"m", b"4").expect("room"));
    assert!(store.default_map().update(b"m", b"5").expect("room"));
    assert!(!store.default_map().update(b"absent", b"5").expect("room"));
    assert_eq!(store.default_map().get(b"m").expect("get"), Some(b"5".to_vec()));
    assert_eq!(store.default_map().get_with(b"m", <[u8]>::len).expect("get"), Some(1));
    assert!(store.default_map().contains(b"m").expect("get"));
    assert!(!store.default_map().contains(b"absent").expect("get"));
    assert!(store.default_map().remove(b"m").expect("room"));
    assert!(!store.default_map().remove(b"m").expect("room"));
    assert_eq!(store.default_map().take(b"n").expect("room"), Some(b"3".to_vec()));
    assert_eq!(store.default_map().take(b"n").expect("room"), None);
    assert_eq!(store.default_map().len(), 1);
    store.default_map().clear().expect("room");
    assert!(store.default_map().is_empty());
    assert_eq!(store.default_map().first().expect("get"), None);
    assert_sound(&store);
}

#[test]
fn conditional_writes_compare_both_presence_and_value() {
    let place = PoolFolder::new();
    let store = place.open();
    let exchange =
        |expected, new| store.default_map().compare_exchange(b"k", expected, new).expect("room");
    assert_eq!(exchange(Some(b"x"), Some(b"y")), Exchange::Mismatch(None));
    assert_eq!(exchange(None, None), Exchange::Done);
    assert_eq!(exchange(None, Some(b"1")), Exchange::Done);
    assert_eq!(exchange(None, Some(b"2")), Exchange::Mismatch(Some(b"1".to_vec())));
    assert_eq!(exchange(Some(b"1"), Some(b"2")), Exchange::Done);
    assert_eq!(exchange(Some(b"1"), None), Exchange::Mismatch(Some(b"2".to_vec())));
    assert_eq!(exchange(Some(b"2"), None), Exchange::Done);
    assert_eq!(store.default_map().get(b"k").expect("get"), None);

    let before =
        store.default_map().update_with(b"n", |_| Action::Put(b"1".to_vec())).expect("room");
    assert_eq!(before, None);
    let before = store.default_map().update_with(b"n", |_| Action::Keep).expect("room");
    assert_eq!(before, Some(b"1".to_vec()));
    let before = store.default_map().update_with(b"n", |_| Action::Remove).expect("room");
    assert_eq!(before, Some(b"1".to_vec()));
    assert_eq!(store.default_map().update_with(b"n", |_| Action::Remove).expect("room"), None);
    assert_sound(&store);
}

#[test]
fn counters_lose_no_increment() {
    let place = PoolFolder::new();
    let store = place.open();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..2000 {
                    store
                        .default_map()
                        .update_with(b"n", |value| {
                            let count = value.map_or(0, |value| {
                                u64::from_le_bytes(value.try_into().expect("eight bytes"))
                            });
                            Action::Put((count + 1).to_le_bytes().to_vec())
                        })
                        .expect("room");
                }
            });
        }
    });
    assert_eq!(store.default_map().get(b"n").expect("get"), Some(8000u64.to_le_bytes().to_vec()));
    assert_sound(&store);
}

#[test]
fn keys_and_values_have_limits_and_reach_them() {
    let place = PoolFolder::new();
    let store = place.open();
    let long = vec![7; KEY_SIZE_MAX];
    let longer = vec![7; KEY_SIZE_MAX + 1];
    store.default_map().put(&long, b"long").expect("room");
    store.default_map().put(b"", b"empty key").expect("room");
    store.default_map().put(b"empty value", b"").expect("room");
    assert!(
        matches!(store.default_map().put(&longer, b""), Err(Error::KeyTooLarge(size)) if size == longer.len())
    );
    assert!(matches!(store.default_map().remove(&longer), Err(Error::KeyTooLarge(_))));
    assert!(matches!(
        store.default_map().update_with(&longer, |_| Action::Keep),
        Err(Error::KeyTooLarge(_))
    ));
    assert_eq!(
        store.default_map().get(&longer).expect("a key that cannot be there is absent"),
        None
    );
    let huge = vec![0; VALUE_SIZE_MAX + 1];
    assert!(matches!(store.default_map().put(b"k", &huge), Err(Error::ValueTooLarge(_))));
    assert_eq!(store.default_map().get(b"").expect("get"), Some(b"empty key".to_vec()));
    assert_eq!(store.default_map().get(b"empty value").expect("get"), Some(vec![]));
    assert_eq!(store.default_map().get(&long).expect("get"), Some(b"long".to_vec()));
    assert_eq!(keys(store.default_map().iter()), [&b""[..], &long, b"empty value"]);
    // Every size around the edges of the size classes, and the first ones that own chunks.
    for size in (0..300).chain([4096, 65_000, 65_536, 70_000, 262_000, 262_144, 1 << 20]) {
        let value: Vec<u8> = (0..size).map(|byte| byte as u8).collect();
        store.default_map().put(b"sized", &value).expect("room");
        assert_eq!(store.default_map().get(b"sized").expect("get"), Some(value), "size {size}");
    }
    drop(huge);
    assert_sound(&store);
    drop(store);
    assert_eq!(place.open().default_map().get(&long).expect("get"), Some(b"long".to_vec()));
}

#[test]
fn long_keys_with_long_shared_prefixes_are_told_apart() {
    let place = PoolFolder::new();
    let store = place.open();
    let mut model = BTreeMap::new();
    for number in 0..400u32 {
        let mut key = vec![0xFF; 3000 + (number % 7) as usize];
        key.extend(number.wrapping_mul(0x9E37_79B9).to_be_bytes());
        store.default_map().put(&key, number.to_le_bytes()).expect("room");
        model.insert(key, number.to_le_bytes().to_vec());
    }
    for (key, value) in &model {
        assert_eq!(store.default_map().get(key).expect("get").as_ref(), Some(value));
    }
    assert_eq!(store.default_map().iter().map(Result::unwrap).collect::<BTreeMap<_, _>>(), model);
    let half: Vec<_> = model.keys().step_by(2).cloned().collect();
    for key in &half {
        assert!(store.default_map().remove(key).expect("room"));
        model.remove(key);
    }
    assert_sound(&store);
    drop(store);
    assert_eq!(
        place.open().default_map().iter().map(Result::unwrap).collect::<BTreeMap<_, _>>(),
        model
    );
}

#[test]
fn ranges_have_every_kind_of_bound_and_both_ends() {
    let place = PoolFolder::new();
    let store = place.open();
    let map = letters(&store);
    let bounds = |from: Bound<&'static [u8]>, to: Bound<&'static [u8]>| {
        let forward = keys(map.range((from, to)));
        let mut backward = keys(map.range((from, to)).rev());
        backward.reverse();
        assert_eq!(forward, backward);
        forward.concat()
    };
    use Bound::{Excluded, Included, Unbounded};
    assert_eq!(bounds(Included(b"c"), Included(b"f")), b"cdef");
    assert_eq!(bounds(Excluded(b"c"), Excluded(b"f")), b"de");
    assert_eq!(bounds(Included(b"c"), Excluded(b"c")), b"");
    assert_eq!(bounds(Excluded(b"c"), Excluded(b"c")), b"");
    assert_eq!(bounds(Included(b"c"), Included(b"c")), b"c");
    assert_eq!(bounds(Included(b"f"), Included(b"c")), b"", "from after to");
    assert_eq!(bounds(Unbounded, Excluded(b"")), b"");
    assert_eq!(bounds(Unbounded, Included(b"")), b"");
    assert_eq!(bounds(Unbounded, Excluded(b"b")), b"a");
    assert_eq!(bounds(Excluded(b"y"), Unbounded), b"z");
    assert_eq!(bounds(Excluded(b"z"), Unbounded), b"");
    assert_eq!(bounds(Included(b"bb"), Excluded(b"cc")), b"c");
    assert_eq!(keys(map.prefix(b"q")), [b"q".to_vec()]);
    assert_eq!(keys(map.prefix(b"")).len(), 26);
    map.put([0xFF, 0xFF, 1], b"").expect("room");
    assert_eq!(keys(map.prefix([0xFF, 0xFF])), [vec![0xFF, 0xFF, 1]]);
    assert_eq!(map.first().expect("get").expect("there").0, b"a");
    assert_eq!(map.last().expect("get").expect("there").0, [0xFF, 0xFF, 1]);
}

#[test]
fn the_two_ends_of_an_iterator_meet_once() {
    let place = PoolFolder::new();
    let store = place.open();
    let count = 3000u32;
    for number in 0..count {
        store.default_map().put(number.to_be_bytes(), [1; 10]).expect("room");
    }
    for pattern in [0b1u32, 0b10, 0b1101, 0b0000_1111, 0b1111_1110] {
        let mut range = store.default_map().iter();
        let (mut low, mut high) = (0, count);
        for step in 0.. {
            let from_front = pattern >> (step % 8) & 1 == 1;
            let next = if from_front { range.next() } else { range.next_back() };
            let Some(pair) = next else { break };
            let (key, _) = pair.expect("readable");
            let number = u32::from_be_bytes(key.try_into().expect("four bytes"));
            if from_front {
                assert_eq!(number, low);
                low += 1;
            } else {
                high -= 1;
                assert_eq!(number, high);
            }
        }
        assert_eq!(low, high, "pattern {pattern:#b}");
        assert!(range.next().is_none() && range.next_back().is_none());
    }
}

#[test]
fn iterating_over_large_values_returns_each_once() {
    let place = PoolFolder::new();
    let store = place.open();
    for number in 0..20u8 {
        store.default_map().put([number], vec![number; 300 << 10]).expect("room");
    }
    // Each fetch holds one pair only, also the first, whose bound is included.
    let numbers =
        |pairs: Vec<(Vec<u8>, Vec<u8>)>| pairs.iter().map(|(key, _)| key[0]).collect::<Vec<_>>();
    assert_eq!(
        numbers(store.default_map().range(&[3][..]..).map(Result::unwrap).collect()),
        (3..20).collect::<Vec<_>>()
    );
    assert_eq!(
        numbers(store.default_map().range(..=&[8][..]).rev().map(Result::unwrap).collect()),
        (0..9).rev().collect::<Vec<_>>()
    );
}

#[test]
fn scans_visit_in_place_and_stop_when_told() {
    let place = PoolFolder::new();
    let store = place.open();
    for number in 0..2000u32 {
        store.default_map().put(number.to_be_bytes(), b"v").expect("room");
    }
    let visit = |reverse, limit: usize| {
        let mut seen = vec![];
        let visitor = |key: &[u8], _: &[u8]| {
            seen.push(u32::from_be_bytes(key.try_into().expect("four bytes")));
            if seen.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        let scan = store.default_map().scan(100u32.to_be_bytes()..1900u32.to_be_bytes());
        let scan = if reverse { scan.reverse() } else { scan };
        scan.visit(visitor).expect("scan");
        seen
    };
    assert_eq!(visit(false, usize::MAX), (100..1900).collect::<Vec<_>>());
    assert_eq!(visit(true, usize::MAX), (100..1900).rev().collect::<Vec<_>>());
    assert_eq!(visit(false, 256), (100..356).collect::<Vec<_>>());
    assert_eq!(visit(true, 1), [1899]);
}

#[test]
fn get_many_answers_in_order() {
    let place = PoolFolder::new();
    let store = place.open();
    letters(&store);
    let map = store.existing_map("letters").expect("of strings").expect("there");
    let wanted: Vec<Vec<u8>> = (0..100u8).map(|n| vec![b'a' + n % 30]).collect();
    let wanted: Vec<&[u8]> = wanted.iter().map(Vec::as_slice).collect();
    let mut found = vec![];
    map.get_many(&wanted, |index, value| found.push((index, value.map(<[u8]>::to_vec))))
        .expect("get");
    let expected = wanted.iter().enumerate();
    let expected = expected.map(|(i, key)| (i, (key[0] <= b'z').then(|| vec![key[0], key[0]])));
    assert_eq!(found, expected.collect::<Vec<_>>());
    map.get_many::<&[u8]>(&[], |_, _| panic!("nothing was asked for")).expect("get");
}

#[test]
fn named_maps_are_separate_and_can_be_dropped() {
    let place = PoolFolder::new();
    let store = place.open();
    let map = letters(&store);
    store.default_map().put(b"a", b"default").expect("room");
    assert_eq!(store.map_names(), [DEFAULT_MAP, "letters"]);
    assert_eq!(map.get(b"a").expect("get"), Some(b"aa".to_vec()));
    assert!(store.existing_map("absent").expect("no other kind").is_none());
    for name in ["", &"n".repeat(41)] {
        assert!(matches!(store.map(name), Err(Error::BadName(_))), "{name:?}");
    }
    assert!(store.map(&"n".repeat(40)).is_ok());
    assert!(store.drop_map("letters").expect("writable"));
    assert!(!store.drop_map("letters").expect("writable"));
    assert!(matches!(map.get(b"a"), Err(Error::MapDropped)), "the handle says so");
    assert!(matches!(map.put(b"a", b""), Err(Error::MapDropped)));
    assert_eq!(map.len(), 0);
    let only = map.iter().next().expect("an error");
    assert!(matches!(only, Err(Error::MapDropped)));
    assert_eq!(letters(&store).len(), 26, "the name can be used again");
    assert!(store.drop_map(DEFAULT_MAP).expect("writable"));
    assert!(store.default_map().is_empty());
    assert_sound(&store);
    drop((store, map));
    let store = place.open();
    assert_eq!(store.map_names(), [DEFAULT_MAP, "letters", &"n".repeat(40)]);
    assert_eq!(store.map("letters").expect("there").len(), 26);
    assert_sound(&store);
}

#[test]
fn space_of_a_map_dropped_under_a_reader_is_used_again() {
    let place = PoolFolder::new();
    let store = place.open_small(8);
    let value = vec![1; 1000];
    for round in 0..10u32 {
        let map = store.map("short-lived").expect("room");
        for number in 0..3000u32 {
            map.put(number.to_be_bytes(), &value).expect("room, each time again");
        }
        // The reader is inside an operation while the map goes.
        map.get_with(7u32.to_be_bytes(), |value| {
            if round % 2 == 0 {
                assert!(store.drop_map("short-lived").expect("writable"));
            } else {
                map.clear().expect("room");
            }
            assert_eq!(value, [1; 1000]);
        })
        .expect("get");
    }
    assert_sound(&store);
}

#[test]
fn a_store_is_reopened_as_it_was_left() {
    let place = PoolFolder::new();
    let store = place.open();
    assert!(store.statistics().was_clean);
    letters(&store);
    store.default_map().put(b"k", b"v").expect("room");
    store.close().expect("closed");
    let store = place.open();
    assert!(store.statistics().was_clean);
    let map = store.map("letters").expect("there");
    // The store is closed by the thread that holds it last.
    assert!(matches!(store.close(), Err(Error::StillOpen { handles: 1, .. })));
    assert_eq!(map.len(), 26);
    map.put(b"0", b"").expect("still open");
    assert!(matches!(Options::new().open(&place.path), Err(Error::Locked(_))));
    drop(map);
    let store = place.open();
    assert!(store.statistics().was_clean);
    assert_eq!(store.map("letters").expect("there").len(), 27);
}

#[test]
fn opening_creates_only_when_told() {
    let place = PoolFolder::new();
    assert!(matches!(Options::new().open(&place.path), Err(Error::NotFound(_))));
    let store = Options::new().create_new(true).open(&place.path).expect("new");
    assert!(matches!(Options::new().open(&place.path), Err(Error::Locked(_))));
    drop(store);
    let again = Options::new().create_new(true).open(&place.path);
    assert!(matches!(again, Err(Error::AlreadyExists(_))));
    let folder = place.path.parent().expect("a folder");
    assert!(matches!(Options::new().open(folder), Err(Error::NotAPool(_))));
    std::fs::write(folder.join("text"), "no pool").expect("writable");
    assert!(matches!(
        Options::new().create(true).open(folder.join("text")),
        Err(Error::NotAPool(_))
    ));
    std::fs::write(folder.join("empty"), "").expect("writable");
    assert!(matches!(Options::new().open(folder.join("empty")), Err(Error::NotAPool(_))));
}

#[test]
fn readers_change_nothing_and_share() {
    let place = PoolFolder::new();
    let store = place.open();
    for number in 0..5000u32 {
        store.default_map().put(number.to_be_bytes(), [9; 100]).expect("room");
    }
    let gone = store.map("gone").expect("room");
    for number in 0..5000u32 {
        gone.put(number.to_be_bytes(), [9; 100]).expect("room");
    }
    assert!(store.drop_map("gone").expect("writable"));
    drop((store, gone));
    let bytes = std::fs::read(&place.path).expect("the file");

    let read = || Options::new().read_only(true).open(&place.path).expect("readers share");
    let (first, second) = (read(), read());
    assert!(first.is_read_only());
    assert!(matches!(Options::new().open(&place.path), Err(Error::Locked(_))));
    assert_eq!(first.default_map().iter().count(), 5000);
    assert_eq!(second.default_map().iter().rev().count(), 5000);
    let refused: [Option<Error>; 9] = [
        first.default_map().put(b"k", b"").err(),
        first.default_map().insert(b"k", b"").err(),
        first.default_map().update(b"k", b"").err(),
        first.default_map().remove(0u32.to_be_bytes()).err(),
        first.default_map().compare_exchange(b"k", None, Some(b"")).err(),
        first.default_map().update_with(b"k", |_| Action::Put(vec![])).err(),
        first.default_map().clear().err(),
        first.map("new").err(),
        first.drop_map(DEFAULT_MAP).err(),
    ];
    for (index, error) in refused.into_iter().enumerate() {
        assert!(matches!(error, Some(Error::ReadOnly)), "call {index}: {error:?}");
    }
    assert_sound(&first);
    first.close().expect("nothing to mark");
    drop(second);
    assert!(bytes == std::fs::read(&place.path).expect("the file"), "a reader changed the file");
}

#[test]
fn a_full_pool_can_be_read_emptied_and_filled_again() {
    let place = PoolFolder::new();
    let store = place.open_small(4);
    let value = |number: u32| vec![number as u8; (number % 400) as usize];
    let mut counts = vec![];
    for round in 0..3 {
        let full = loop {
            let number = store.default_map().len() as u32;
            match store
                .default_map()
                .put(number.wrapping_mul(0x9E37_79B9).to_be_bytes(), value(number))
            {
                Ok(replaced) => assert!(!replaced),
                Err(error) => break error,
            }
        };
        assert!(matches!(full, Error::PoolFull(_)), "{full}");
        let count = store.default_map().len() as u32;
        counts.push(count);
        assert!(store.default_map().update(b"absent", b"").is_ok_and(|found| !found) || round < 3);
        for number in 0..count {
            let key = number.wrapping_mul(0x9E37_79B9).to_be_bytes();
            assert_eq!(store.default_map().get(key).expect("get"), Some(value(number)));
        }
        assert_sound(&store);
        for number in 0..count {
            let key = number.wrapping_mul(0x9E37_79B9).to_be_bytes();
            assert!(
                store.default_map().remove(key).expect("removals need no space"),
                "round {round}"
            );
        }
        assert!(store.default_map().is_empty());
    }
    assert!(counts[2] * 10 > counts[0] * 8, "pairs that fit: {counts:?}");
    store.default_map().clear().expect("room");
    assert_sound(&store);
    drop(store);
    assert_sound(&place.open_small(4));
}

#[test]
fn a_full_pool_is_emptied_by_clearing_it() {
    let place = PoolFolder::new();
    let store = place.open_small(4);
    for round in 0..3u32 {
        let mut number = 0u32;
        while store.default_map().put(number.to_be_bytes(), [1; 60]).is_ok() {
            number += 1;
        }
        assert!(number > 10_000, "round {round}: {number} pairs fit");
        store.default_map().clear().expect("one free leaf is enough");
    }
    assert_sound(&store);
}

#[test]
fn a_panic_in_a_visitor_harms_nobody() {
    let place = PoolFolder::new();
    let store = place.open_small(4);
    store.default_map().put(b"k", b"v").expect("room");
    let panics = [
        catch_unwind(AssertUnwindSafe(|| {
            store.default_map().get_with(b"k", |_| panic!("on purpose")).err()
        })),
        catch_unwind(AssertUnwindSafe(|| {
            store.default_map().update_with(b"k", |_| panic!("on purpose")).err()
        })),
        catch_unwind(AssertUnwindSafe(|| {
            store.default_map().scan(..).for_each(|_, _| panic!("on purpose")).err()
        })),
    ];
    assert!(panics.iter().all(Result::is_err));
    // Were a pin left behind, nothing would be reused any more, and these would not fit.
    for number in 0..200_000u32 {
        store
            .default_map()
            .put(b"k", number.to_le_bytes().repeat(25))
            .expect("the space of old values");
    }
    assert_sound(&store);
}

#[test]
fn more_threads_than_sessions_take_turns() {
    let place = PoolFolder::new();
    let store = place.open();
    std::thread::scope(|scope| {
        for thread in 0..200u32 {
            let store = &store;
            scope.spawn(move || {
                for number in 0..50u32 {
                    let key = [thread.to_be_bytes(), number.to_be_bytes()].concat();
                    store.default_map().put(&key, b"v").expect("room");
                    assert!(store.default_map().contains(&key).expect("get"));
                }
            });
        }
    });
    assert_eq!(store.default_map().len(), 10_000);
    assert_sound(&store);
}

#[test]
fn every_domain_gives_the_same_answers() {
    for domain in [Domain::Process, Domain::Eadr, Domain::Adr] {
        let place = PoolFolder::new();
        let store = Options::new().create(true).domain(domain).open(&place.path).expect("it opens");
        for number in 0..3000u32 {
            store
                .default_map()
                .put((number % 1000).to_be_bytes(), number.to_le_bytes())
                .expect("room");
        }
        assert_eq!(store.default_map().len(), 1000);
        assert_eq!(store.statistics().domain, domain);
        assert_sound(&store);
    }
}

#[test]
fn statistics_say_what_is_there() {
    let place = PoolFolder::new();
    let store = place.open();
    letters(&store);
    for number in 0..10_000u32 {
        store.default_map().put(number.to_be_bytes(), [1; 100]).expect("room");
    }
    let statistics = store.statistics();
    assert_eq!((statistics.keys, statistics.maps), (10_026, 2));
    assert!(statistics.leaves > 100 && statistics.height >= 2 && statistics.splits > 100);
    assert!(statistics.pool_used_bytes > 1_000_000);
    assert!(statistics.pool_used_bytes <= statistics.pool_size_bytes);
    assert!(statistics.pool_size_bytes <= statistics.pool_max_bytes);
    assert!(statistics.memory_bytes > 10_000);
}
