//! Views where they meet what else is rare: ranges that outlive them, batches that are rolled back, maps that come
//! again.

use std::collections::BTreeMap;

use everleaf::random::mix;
use everleaf::{Error, Map, Options, Store, WriteBatch};

type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

fn open(folder: &std::path::Path, max_size_bytes: u64) -> Store {
    let options = Options::new().create(true).max_size_bytes(max_size_bytes).sweep(false);
    options.open(folder.join("pool")).expect("the pool opens")
}

fn all(range: everleaf::Range) -> Contents {
    range.map(|pair| pair.expect("readable")).collect()
}

/// What no view needs any more is not held.
fn holds_nothing(store: &Store) {
    let statistics = store.statistics();
    let held = (statistics.views, statistics.view_keys, statistics.view_bytes);
    assert_eq!(held, (0, 0, 0));
}

/// A range of a view that is closed goes on, while other views are opened and closed around it and each key changes
/// between any two of its steps.
#[test]
fn a_range_shows_its_moment_when_its_view_is_closed() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path(), 1 << 28);
    let map = store.default_map();
    let key = |number: u64| format!("{:04}", mix(number) % 5000);
    let mut ranges: Vec<(everleaf::Range, Contents, Contents)> = vec![];
    for round in 0..400u64 {
        let value = format!("{round:040}");
        for number in 0..40 {
            match number % 4 {
                3 => drop(map.remove(key(round * 31 + number)).expect("no room is needed")),
                _ => drop(map.put(key(round * 31 + number), &value).expect("room")),
            }
        }
        let now = all(map.iter());
        let view = store.view().expect("a view");
        ranges.push((view.default_map().iter(), Contents::new(), now));
        drop(view);
        // Each makes some steps, and the one of any place in the row ends when it has shown all.
        let at = mix(round) as usize % ranges.len();
        for (range, shown, _) in &mut ranges {
            shown.extend(range.by_ref().take(17).map(|pair| pair.expect("readable")));
        }
        if ranges.len() > 6 {
            let (range, mut shown, then) = ranges.swap_remove(at);
            shown.extend(all(range));
            assert!(shown == then, "round {round}: {} keys, not {}", shown.len(), then.len());
        }
    }
    drop(ranges);
    holds_nothing(&store);
}

/// Fills the store, and makes room piece by piece until a batch is rolled back: records take their space before the
/// first change, and most leaves only when they are split.
fn roll_back_one(store: &Store, make: impl Fn(&mut WriteBatch)) {
    let pieces = store.map("pieces").expect("room");
    let map = store.default_map();
    let spread = |number: u64| number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
    let count =
        (0..).take_while(|number: &u32| pieces.put(number.to_be_bytes(), [7; 60_000]).is_ok());
    let count = count.count() as u32;
    while map.put(spread(map.len()), b"").is_ok() {}
    let first = map.len();
    let mut batch = WriteBatch::new();
    make(&mut batch);
    for number in first..first + 30_000 {
        batch.put(map, spread(number), b"");
    }
    let before = store.rollback_count();
    for number in 0..count {
        assert!(pieces.remove(number.to_be_bytes()).expect("a removal needs no space"));
        let written = store.write(&batch);
        assert!(matches!(written, Err(Error::PoolFull(_))), "{written:?} without a rollback");
        if store.rollback_count() > before {
            return;
        }
    }
    panic!("none was rolled back");
}

/// Views from before a batch that is rolled back, and from behind it, show that there was none; nothing that was saved
/// for it stays.
#[test]
fn a_batch_that_is_rolled_back_is_in_no_view() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path(), 8 << 20);
    let map = store.default_map();
    let name = |number: u32| format!("key {number}");
    for number in 0..50 {
        map.put(name(number), "old").expect("room");
    }
    let named = |map: &Map| all(map.prefix("key "));
    let before = named(map);
    let older = store.view().expect("a view");
    map.put(name(0), "newer").expect("room");
    let view = store.view().expect("a view");
    let now = named(map);
    roll_back_one(&store, |batch| {
        for number in 0..100 {
            batch.put(map, name(number), "never");
        }
        batch.expire(map, name(3), std::time::Duration::from_secs(9000)).remove(map, name(7));
    });
    let later = store.view().expect("a view");
    assert_eq!(named(map), now);
    assert_eq!(all(older.default_map().prefix("key ")), before);
    for view in [&view, &later] {
        assert_eq!(all(view.default_map().prefix("key ")), now);
        assert_eq!(view.default_map().get(name(70)).expect("readable"), None);
    }
    assert_eq!(map.expiry(name(3)).expect("readable"), Some(everleaf::Expiry::Never));
    drop(older);
    assert_eq!(all(view.default_map().prefix("key ")), now);
    drop((view, later));
    holds_nothing(&store);
    assert_eq!(store.check().expect("the check runs").problems, Vec::<String>::new());
}

/// A map is dropped and one of its name is made, again and again, under views of each.
#[test]
fn maps_of_one_name_are_told_apart_by_views() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path(), 1 << 28);
    let mut kept = vec![];
    for round in 0..12u32 {
        let map = store.map("again").expect("room");
        for number in 0..=round {
            map.put(number.to_be_bytes(), round.to_be_bytes()).expect("room");
        }
        kept.push((store.view().expect("a view"), map.clone(), all(map.iter())));
        assert!(store.drop_map("again").expect("writable"));
        if round % 3 == 2 {
            drop(kept.swap_remove(round as usize % kept.len()));
        }
        for (view, map, then) in &kept {
            assert_eq!(&all(view.map(map).iter()), then, "round {round}");
        }
    }
    drop(kept);
    holds_nothing(&store);
}
