//! What a user of the library meets first: bounds, errors of iterations, counters, closing.

use std::time::{Duration, SystemTime};

use everleaf::{Error, Expiry, Options, Store, WriteBatch};

fn open(folder: &tempfile::TempDir) -> Store {
    let options = Options::new().create(true).max_size_bytes(1 << 28).sweep(false);
    options.open(folder.path().join("pool")).expect("the pool opens")
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

#[test]
fn counters_add_and_refuse_what_is_no_integer() {
    let folder = folder();
    let store = open(&folder);
    let map = store.default_map();
    assert_eq!(map.fetch_add("n", 5).expect("room"), 0);
    assert_eq!(map.fetch_add("n", -7).expect("room"), 5);
    assert_eq!(map.get("n").expect("get"), Some(b"-2".to_vec()));
    for text in ["", "1.5", "+1", "01", "-0", " 1", "9223372036854775808"] {
        let _ = map.put("text", text).expect("room");
        assert!(matches!(map.fetch_add("text", 1), Err(Error::NotAnInteger)), "{text}");
        assert_eq!(map.get("text").expect("get"), Some(text.into()));
    }
    let _ = map.put("high", i64::MAX.to_string()).expect("room");
    assert!(matches!(map.fetch_add("high", 1), Err(Error::Overflow)));
    assert_eq!(map.fetch_add("high", 0).expect("room"), i64::MAX);
}

#[test]
fn threads_that_count_together_lose_nothing() {
    let folder = folder();
    let store = open(&folder);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..500 {
                    let _ = store.default_map().fetch_add("n", 1).expect("room");
                }
            });
        }
    });
    assert_eq!(store.default_map().fetch_add("n", 0).expect("room"), 2000);
}

#[test]
fn pops_take_each_pair_once_from_either_end() {
    let folder = folder();
    let store = open(&folder);
    let map = store.default_map();
    for number in 0..2000u32 {
        let _ = map.put(number.to_be_bytes(), "").expect("room");
    }
    let popped = std::thread::scope(|scope| {
        let threads = [false, true, false, true].map(|last| {
            scope.spawn(move || {
                let pop = || if last { map.pop_last() } else { map.pop_first() };
                let keys = std::iter::from_fn(|| pop().expect("room").map(|(key, _)| key));
                keys.collect::<Vec<_>>()
            })
        });
        threads.map(|thread| thread.join().expect("no panic"))
    });
    assert!(map.is_empty());
    for (keys, last) in popped.iter().zip([false, true, false, true]) {
        assert!(keys.is_sorted_by(|a, b| if last { a > b } else { a < b }), "one end goes one way");
    }
    let mut all = popped.concat();
    all.sort();
    assert!(all.into_iter().eq((0..2000u32).map(|number| number.to_be_bytes().to_vec())));
}

#[test]
fn the_nearest_key_is_found_on_either_side() {
    let folder = folder();
    let store = open(&folder);
    let map = store.default_map();
    for number in (0..1000u32).step_by(10) {
        let _ = map.put(number.to_be_bytes(), "").expect("room");
    }
    let number = |pair: Option<(Vec<u8>, Vec<u8>)>| {
        pair.map(|(key, _)| u32::from_be_bytes(key.try_into().expect("four bytes")))
    };
    for key in 0..1005u32 {
        let floor = number(map.floor(key.to_be_bytes()).expect("get"));
        let ceiling = number(map.ceiling(key.to_be_bytes()).expect("get"));
        assert_eq!(floor, Some((key / 10 * 10).min(990)));
        assert_eq!(ceiling, Some(key.div_ceil(10) * 10).filter(|found| *found <= 990));
    }
    let empty = store.map("empty").expect("room");
    assert!(empty.floor("a").expect("get").is_none() && empty.ceiling("a").expect("get").is_none());
}

#[test]
fn a_scan_ends_at_its_limit_also_behind_a_page() {
    let folder = folder();
    let store = open(&folder);
    let map = store.default_map();
    for number in 0..1000u32 {
        let _ = map.put(number.to_be_bytes(), "").expect("room");
    }
    for limit in [0, 1, 255, 256, 257, 999, 1000, 2000] {
        let (mut up, mut down) = (vec![], vec![]);
        map.scan(..).limit(limit).for_each(|key, _| up.push(key.to_vec())).expect("scan");
        let back = map.scan(..).reverse().limit(limit);
        back.for_each(|key, _| down.push(key.to_vec())).expect("scan");
        let count = limit.min(1000) as u32;
        assert!(up.into_iter().eq((0..count).map(|number| number.to_be_bytes().to_vec())));
        let descending = (1000 - count..1000).rev().map(|number| number.to_be_bytes().to_vec());
        assert!(down.into_iter().eq(descending));
    }
}

#[test]
fn a_map_is_loaded_as_a_whole_or_not_at_all() {
    for durability in [everleaf::Durability::Process, everleaf::Durability::Power] {
        let folder = folder();
        let path = folder.path().join("pool");
        let options = Options::new().create(true).max_size_bytes(1 << 28).durability(durability);
        let store = options.open(&path).expect("the pool opens");
        let view = store.view().expect("a view");
        let pairs = || (0..5000u32).map(|number| (number.to_be_bytes(), [7; 300]));
        let map = store.load_map("new", pairs()).expect("room");
        assert_eq!(map.len(), 5000);
        assert_eq!(view.map(&map).iter().count(), 0, "it was made since");
        assert_eq!(view.map(&map).get(7u32.to_be_bytes()).expect("get"), None);
        assert!(matches!(store.load_map("new", pairs()), Err(Error::BadName(_))));
        let unsorted = [("b", ""), ("c", ""), ("c", "")];
        assert!(matches!(store.load_map("bad", unsorted), Err(Error::NotSorted(2))));
        assert!(store.existing_map("bad").expect("a name").is_none());
        drop(view);
        let view = store.view().expect("a view");
        assert_eq!(view.map(&map).iter().count(), 5000);
        drop((view, map));
        store.close().expect("nothing is held");
        let store = Options::new().open(&path).expect("the pool opens");
        let map = store.existing_map("new").expect("a name").expect("it is there");
        let found = map.iter().map(Result::unwrap).map(|(key, _)| key);
        assert!(found.eq((0..5000u32).map(|number| number.to_be_bytes().to_vec())));
        assert_eq!(store.check().expect("checked").problems, Vec::<String>::new());
    }
}

#[test]
fn closing_says_what_is_still_held() {
    let folder = folder();
    let store = open(&folder);
    let map = store.map("held").expect("room");
    let (view, watch) = (store.view().expect("a view"), map.watch("k").expect("a watch"));
    match store.close() {
        Err(Error::StillOpen { handles: 3, views: 1, watches: 1 }) => {}
        other => panic!("{other:?}"),
    }
    let text = Error::StillOpen { handles: 3, views: 1, watches: 1 }.to_string();
    assert!(text.contains("3 handles") && text.contains("views: 1, watches: 1"), "{text}");
    assert!(map.is_empty(), "what is held can be used");
    drop((view, watch, map));
    let store = open(&folder);
    assert!(store.statistics().was_clean, "the last of them closed it");
    store.close().expect("nothing is held");
}

#[test]
fn statistics_are_of_all_maps_and_of_each() {
    let folder = folder();
    let store = open(&folder);
    let other = store.map("other").expect("room");
    for number in 0..1000u32 {
        let _ = other.put(number.to_be_bytes(), "").expect("room");
    }
    let _ = store.default_map().put("k", "v").expect("room");
    let statistics = store.statistics();
    assert_eq!((statistics.keys, statistics.maps), (1001, 2));
    assert_eq!(statistics.by_map[everleaf::DEFAULT_MAP].keys, 1);
    assert_eq!(statistics.by_map["other"], other.statistics().expect("it is there"));
    assert_eq!(statistics.leaves, statistics.by_map.values().map(|map| map.leaves).sum::<u64>());
    assert!(store.drop_map("other").expect("writable"));
    assert!(matches!(other.statistics(), Err(Error::MapDropped)));
    assert_eq!(store.statistics().keys, 1);
}

#[test]
fn times_are_kept_in_whole_milliseconds_and_never_too_short() {
    let time = SystemTime::UNIX_EPOCH + Duration::from_nanos(1_000_000_000_001);
    assert_eq!(Expiry::At(time).as_unix_ms(), 1_000_001);
    assert_eq!(Expiry::At(SystemTime::UNIX_EPOCH).as_unix_ms(), 1, "0 is for never");
    let before = SystemTime::UNIX_EPOCH - Duration::from_secs(5);
    assert_eq!(Expiry::At(before).as_unix_ms(), 1);
    assert_eq!(Expiry::after(Duration::MAX), Expiry::Never);
    for expiry_ms in [0, 1, 4_000_000_000_000, u64::MAX] {
        assert_eq!(Expiry::from_unix_ms(expiry_ms).as_unix_ms(), expiry_ms);
    }
}

#[test]
fn what_a_user_holds_can_be_printed() {
    let folder = folder();
    let store = open(&folder);
    let (map, view) = (store.default_map(), store.view().expect("a view"));
    let batch = everleaf::WriteBatch::new();
    let text =
        format!("{store:?} {map:?} {view:?} {batch:?} {:?} {:?}", map.iter(), map.scan(.."z"));
    for name in ["Store", "Map", "View", "WriteBatch", "Range", "Scan"] {
        assert!(text.contains(name), "{text}");
    }
}

/// What was lost: of two loads of one name at once both succeeded, each with pairs of the other between its own; and
/// one that failed dropped what the other had loaded. Here the other load is made from its beginning to its end while
/// the first one is asked for its pairs: with a log the first one has the name by then, and without one the thread that
/// is ready first.
#[test]
fn of_two_loads_of_one_name_one_is_refused() {
    use everleaf::Durability::{Power, Process};
    for (durability, winner) in [(Power, 0_u8), (Process, 1)] {
        for at in [0, 50, 99_u32] {
            let folder = folder();
            let options = Options::new().create(true).max_size_bytes(1 << 28).sweep(false);
            let store = options.durability(durability).open(folder.path().join("pool"));
            let store = store.expect("the pool opens");
            let pairs = |number: u8| {
                (0..100_u32).map(move |key| ((2 * key + u32::from(number)).to_be_bytes(), [number]))
            };
            let mut other = None;
            let asked = pairs(0).enumerate().inspect(|(position, _)| {
                if *position as u32 == at {
                    let load = || store.load_map("name", pairs(1));
                    let ended = std::thread::scope(|scope| scope.spawn(load).join());
                    other = Some(ended.expect("no panic"));
                }
            });
            let first = store.load_map("name", asked.map(|(_, pair)| pair));
            let mut loaded = [first, other.expect("it was asked for")];
            loaded.rotate_left(usize::from(winner));
            assert!(loaded[0].is_ok(), "{durability:?}, {at}: {loaded:?}");
            assert!(
                matches!(loaded[1], Err(Error::BadName(_))),
                "{durability:?}, {at}: {loaded:?}"
            );
            let map = store.existing_map("name").expect("a name").expect("it was loaded");
            assert_eq!(map.len(), 100);
            assert!(map.iter().all(|pair| pair.expect("readable").1 == [winner]));
        }
    }
}

/// A load that fails drops what it has made, and not what somebody else has put in its place.
#[test]
fn a_load_that_fails_drops_only_its_own_map() {
    let folder = folder();
    let options = Options::new().create(true).max_size_bytes(1 << 28).sweep(false);
    let options = options.durability(everleaf::Durability::Power);
    let store = options.open(folder.path().join("pool")).expect("the pool opens");
    let pairs = (0..3u8).map(|number| {
        if number == 2 {
            assert!(store.drop_map("name").expect("there"));
            let _ = store.map("name").expect("room").put("key", "value").expect("room");
        }
        ([number], "")
    });
    // Not sorted.
    let failed = store.load_map("name", pairs.chain([([0], "")]));
    assert!(failed.is_err(), "{failed:?}");
    let map = store.existing_map("name").expect("a name").expect("somebody made it");
    assert_eq!(map.get("key").expect("get"), Some(b"value".to_vec()));
}

#[test]
fn a_batch_for_which_there_is_no_memory_stays_as_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder);
    let mut batch = WriteBatch::new();
    batch.put(store.default_map(), b"k", b"v");
    for (changes, bytes) in [(1, usize::MAX / 2), (usize::MAX / 2, 1)] {
        let refused = batch.try_reserve(changes, bytes);
        assert!(matches!(refused, Err(Error::OutOfMemory(_))), "{refused:?}");
    }
    batch.try_reserve(1, 2).expect("there is some");
    batch.put(store.default_map(), b"l", b"w");
    assert!(store.write(&batch).expect("room").is_done());
    assert_eq!(store.default_map().len(), 2);
}
