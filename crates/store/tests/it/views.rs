//! Views: one state of all keys, whatever is written meanwhile. Iterators that are moved.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use everleaf::random::mix;
use everleaf::{Error, Map, Options, Store, WriteBatch};

fn open(folder: &Path) -> Store {
    let options = Options::new().create(true).max_size_bytes(1 << 30);
    options.open(folder.join("pool")).expect("the pool opens")
}

type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

#[test]
fn a_view_shows_what_was_there_through_every_kind_of_change() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    let (other, cleared) = (store.map("other").expect("room"), store.map("cleared").expect("room"));
    let gone = store.map("gone").expect("room");
    let mut model = Contents::new();
    for number in 0..2000u64 {
        let key = (mix(number) % 3000).to_be_bytes().to_vec();
        store.default_map().put(&key, number.to_le_bytes()).expect("room");
        model.insert(key, number.to_le_bytes().to_vec());
    }
    for map in [&other, &cleared, &gone] {
        map.put(b"k", b"then").expect("room");
    }
    let view = store.view().expect("a view");
    for number in 0..6000u64 {
        let key = (mix(number ^ 77) % 3000).to_be_bytes();
        match number % 5 {
            0 => drop(store.default_map().remove(key).expect("room")),
            1 => drop(store.default_map().compare_exchange(key, None, Some(b"new")).expect("room")),
            2 => drop(store.default_map().insert(key, b"inserted").expect("room")),
            3 => {
                let mut batch = WriteBatch::new();
                batch
                    .put(store.default_map(), key, b"batch")
                    .remove(store.default_map(), (number / 2).to_be_bytes());
                store.write(&batch).expect("room");
            }
            _ => drop(store.default_map().put(key, b"put").expect("room")),
        }
    }
    cleared.clear().expect("room");
    cleared.put(b"k", b"now").expect("room");
    store.drop_map("gone").expect("writable");
    other.put_with_expiry(b"k", b"past", everleaf::Expiry::from_unix_ms(1)).expect("room");
    let born = store.map("born").expect("room");
    born.put(b"k", b"now").expect("room");

    assert_eq!(view.default_map().iter().map(Result::unwrap).collect::<Contents>(), model);
    let mut backward: Vec<_> = view.default_map().iter().rev().map(Result::unwrap).collect();
    backward.reverse();
    assert_eq!(backward, model.clone().into_iter().collect::<Vec<_>>());
    for number in 0..3000u64 {
        let key = number.to_be_bytes();
        assert_eq!(view.default_map().get(key).expect("get").as_ref(), model.get(&key[..]));
    }
    let then = Some(b"then".to_vec());
    for map in [&other, &cleared, &gone] {
        assert_eq!(view.map(map).get(b"k").expect("get"), then);
        assert_eq!(view.map(map).iter().count(), 1);
    }
    assert_eq!(view.map(&born).get(b"k").expect("get"), None);
    assert_eq!(store.statistics().views, 1);
    assert!(store.statistics().view_keys > 1000);
    drop(view);
    assert_eq!((store.statistics().views, store.statistics().view_keys), (0, 0));
    let problems = store.check().expect("the check runs").problems;
    assert_eq!(problems, Vec::<String>::new());
}

#[test]
fn several_views_each_show_their_own_moment() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    let mut views = vec![];
    for number in 0..6u8 {
        store.default_map().put(b"k", [number]).expect("room");
        if number % 2 == 1 {
            store.default_map().put(b"odd", [number]).expect("room");
        }
        views.push(store.view().expect("a view"));
    }
    store.default_map().remove(b"k").expect("room");
    // The oldest and one in between go first.
    views.remove(3);
    views.remove(0);
    for (view, number) in views.iter().zip([1u8, 2, 4, 5]) {
        assert_eq!(view.default_map().get(b"k").expect("get"), Some(vec![number]));
        let odd = if number % 2 == 1 { number } else { number - 1 };
        assert_eq!(view.default_map().get(b"odd").expect("get"), Some(vec![odd]));
        assert_eq!(view.default_map().iter().count(), 2);
    }
}

#[test]
fn views_are_opened_between_batches_and_writers_go_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    let done = AtomicBool::new(false);
    let key = |number: u64| mix(number).to_be_bytes();
    let keys = 50;
    std::thread::scope(|scope| {
        for writer in 0..2u64 {
            let (store, done) = (&store, &done);
            scope.spawn(move || {
                let mut batch = WriteBatch::new();
                for round in 1u64.. {
                    if done.load(Ordering::Acquire) {
                        return;
                    }
                    batch.clear();
                    for number in 0..keys {
                        batch.put(
                            store.default_map(),
                            key(writer << 32 | number),
                            round.to_le_bytes(),
                        );
                    }
                    store.write(&batch).expect("room");
                    // A key that is written alone, always after the batch of its number.
                    store
                        .default_map()
                        .put(key(writer << 32 | 999), round.to_le_bytes())
                        .expect("room");
                }
            });
        }
        for _ in 0..300 {
            let view = store.view().expect("a view");
            let read = |number| {
                let value = view.default_map().get(key(number)).expect("get");
                value.map_or(0, |value| u64::from_le_bytes(value.try_into().expect("8 bytes")))
            };
            for writer in 0..2u64 {
                let first = read(writer << 32);
                let all = (0..keys).map(|number| read(writer << 32 | number));
                assert!(all.clone().all(|round| round == first), "{:?}", all.collect::<Vec<_>>());
                let alone = read(writer << 32 | 999);
                assert!(alone == first || alone + 1 == first, "{alone} with batch {first}");
            }
            let count = view.default_map().iter().count() as u64;
            assert!([0, keys, keys + 1, 2 * keys, 2 * keys + 1, 2 * keys + 2].contains(&count));
        }
        done.store(true, Ordering::Release);
    });
    assert_eq!(store.statistics().views, 0);
}

/// Old values were kept as long as any view was open, and copied again for each: with two views open
/// at any moment, 0.8 MB of data grew to 3.8 GB in 40 s, and reads of a view went through all copies.
#[test]
fn overlapping_views_keep_only_what_one_of_them_needs() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    let (keys, value) = (500u32, [7u8; 200]);
    let write_all = |round: u8| {
        let mut value = value;
        value[0] = round;
        for key in 0..keys {
            store.default_map().put(key.to_be_bytes(), value).expect("room");
        }
    };
    write_all(0);
    // Each with its overhead, for two views.
    let most = u64::from(keys) * (value.len() as u64 + 4 + 256) * 2;
    let mut older = store.view().expect("a view");
    for round in 1..=100u8 {
        let newer = store.view().expect("a view");
        write_all(round);
        let kept = store.statistics().view_bytes;
        assert!(kept <= most, "round {round}: {kept} bytes are kept, {most} would do");
        for (view, expected) in [(&older, round.saturating_sub(2)), (&newer, round - 1)] {
            let seen = view.default_map().get(7u32.to_be_bytes()).expect("get").expect("there")[0];
            assert_eq!(seen, expected, "round {round}");
            assert!(
                view.default_map()
                    .iter()
                    .map(Result::unwrap)
                    .all(|(_, value)| value[0] == expected),
                "round {round}"
            );
        }
        older = newer;
    }
    drop(older);
    assert_eq!((store.statistics().view_bytes, store.statistics().view_keys), (0, 0));
}

/// Views that are opened and closed in any order, over maps that are emptied and dropped: each shows
/// its moment to the end, from both ends, and what is kept is what the model says some view needs.
#[test]
fn views_closed_in_any_order_show_their_moment() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    let keys = 40u64;
    let mut views: Vec<(everleaf::MapView, everleaf::View, Contents)> = vec![];
    let mut model = Contents::new();
    let mut map = store.map("side").expect("room");
    for step in 0..6000u64 {
        let dice = mix(step ^ 0x5eed);
        let key = (dice >> 20) % keys;
        match dice % 32 {
            0..2 if views.len() < 6 => {
                let view = store.view().expect("a view");
                views.push((view.map(&map), view, model.clone()));
            }
            2..4 if !views.is_empty() => {
                drop(views.remove((dice >> 8) as usize % views.len()));
            }
            4 => {
                model.clear();
                if dice & 0x100 == 0 {
                    map.clear().expect("room");
                } else {
                    assert!(store.drop_map("side").expect("writable"));
                    map = store.map("side").expect("room");
                }
            }
            5..8 => {
                let mut batch = WriteBatch::new();
                for key in key..key + 3 {
                    batch.put(&map, key.to_be_bytes(), step.to_be_bytes());
                    model.insert(key.to_be_bytes().into(), step.to_be_bytes().into());
                }
                assert!(store.write(&batch).expect("room").is_done());
            }
            8..12 => {
                map.remove(key.to_be_bytes()).expect("room");
                model.remove(&key.to_be_bytes()[..]);
            }
            _ => {
                map.put(key.to_be_bytes(), step.to_be_bytes()).expect("room");
                model.insert(key.to_be_bytes().into(), step.to_be_bytes().into());
            }
        }
        if step % 8 == 0 {
            for (view, _, then) in &views {
                assert!(
                    view.iter().rev().map(Result::unwrap).eq(then.clone().into_iter().rev()),
                    "step {step}"
                );
                assert_eq!(
                    view.iter().map(Result::unwrap).collect::<Contents>(),
                    *then,
                    "step {step}"
                );
                let key = key.to_be_bytes();
                assert_eq!(view.get(key).expect("get").as_ref(), then.get(&key[..]));
            }
        }
    }
    drop(views);
    assert_eq!((store.statistics().view_bytes, store.statistics().view_keys), (0, 0));
}

/// A range over a view took every old value of the rest of the map at once, however few it was asked
/// for: here all keys that the tree had were removed, in an order that no part of them knows.
#[test]
fn a_range_over_a_view_reads_removed_keys_piece_by_piece() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    let count = 20_000u64;
    let pairs: Contents = (0..count)
        .map(|number| (mix(number).to_be_bytes().to_vec(), number.to_be_bytes().to_vec()))
        .collect();
    for (key, value) in &pairs {
        store.default_map().put(key, value).expect("room");
    }
    let view = store.view().expect("a view");
    for (number, key) in pairs.keys().enumerate() {
        match number % 7 {
            0 => {}
            1 => assert!(store.default_map().put(key, b"new").expect("room")),
            _ => assert!(store.default_map().remove(key).expect("room")),
        }
        store.default_map().put([key, &b"new"[..]].concat(), b"").expect("room");
    }
    assert!(view.default_map().iter().map(Result::unwrap).eq(pairs.clone()));
    assert!(
        view.default_map().iter().rev().map(Result::unwrap).eq(pairs.clone().into_iter().rev())
    );
    let (mut both, mut expected) =
        (view.default_map().iter().map(Result::unwrap), pairs.into_iter());
    while let Some(first) = expected.next() {
        assert_eq!(both.next(), Some(first));
        assert_eq!(both.next_back(), expected.next_back());
    }
    assert_eq!(both.next(), None);
}

/// What was lost: the memory of the machine. Views held whatever they came to need: 3.8 GB in 40 s, of 0.8 MB.
#[test]
fn views_over_the_limit_are_given_up_the_oldest_first() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = Options::new().create(true).max_size_bytes(1 << 30).view_memory_bytes(64 << 10);
    let store = options.open(folder.path().join("pool")).expect("the pool opens");
    for key in 0..100u8 {
        store.default_map().put([key], [0; 1000]).expect("room");
    }
    let oldest = store.view().expect("a view");
    for key in 0..40u8 {
        store.default_map().put([key], [1; 1000]).expect("room");
    }
    let newest = store.view().expect("a view");
    let mut begun = oldest.default_map().iter();
    assert!(begun.next().is_some());
    for key in 50..80u8 {
        store.default_map().put([key], [2; 1000]).expect("room");
    }
    let statistics = store.statistics();
    assert!(statistics.view_bytes <= 64 << 10, "{} bytes", statistics.view_bytes);
    assert_eq!((statistics.views, statistics.views_lost), (1, 1));
    for key in [0u8, 45, 99] {
        assert!(matches!(oldest.default_map().get([key]), Err(everleaf::Error::ViewLost(65536))));
    }
    let text = oldest.default_map().get([0]).expect_err("given up").to_string();
    assert!(text.contains("64 KiB") && text.contains("view_memory_bytes"), "{text}");
    let rest = begun.by_ref().collect::<Vec<_>>();
    assert!(rest.len() < 100, "it ends early");
    assert!(matches!(rest.last(), Some(Err(everleaf::Error::ViewLost(_)))));
    let values =
        newest.default_map().iter().map(Result::unwrap).map(|(key, value)| (key[0], value[0]));
    assert!(values.eq((0..100u8).map(|key| (key, u8::from(key < 40)))));
    // One that needs more than the limit alone is given up, too, and writes go on.
    for key in 0..100u8 {
        store.default_map().put([key], [3; 1000]).expect("room");
    }
    assert!(matches!(newest.default_map().get([0]), Err(everleaf::Error::ViewLost(_))));
    assert_eq!(store.statistics().view_bytes, 0);
    drop((oldest, newest, begun));
    let view = store.view().expect("a view");
    store.default_map().put([0], b"now").expect("room");
    assert_eq!(view.default_map().get([0]).expect("get").expect("there")[0], 3);
}

fn numbers(store: &Map) -> Vec<u32> {
    for number in 0..1000u32 {
        store.put((number * 2).to_be_bytes(), b"").expect("room");
    }
    (0..1000).map(|number| number * 2).collect()
}

#[test]
fn an_iterator_is_moved_to_any_key_of_its_range() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    let all = numbers(store.default_map());
    let view = store.view().expect("a view");
    let number = |pair: Option<everleaf::Result<(Vec<u8>, Vec<u8>)>>| {
        pair.map(Result::unwrap)
            .map(|(key, _)| u32::from_be_bytes(key.try_into().expect("four bytes")))
    };
    let (low, high) = (100u32.to_be_bytes(), 1800u32.to_be_bytes());
    for mut range in [
        store.default_map().range(&low[..]..&high[..]),
        view.default_map().range(&low[..]..&high[..]),
    ] {
        // What the front returned last, plus one: where it stands. The same for the back.
        let (mut front, mut back) = (100, 1800);
        for step in 0..4000u64 {
            let dice = mix(step);
            let target = (dice >> 8) as u32 % 2000;
            match dice % 16 {
                0 => {
                    range.seek(target.to_be_bytes());
                    front = target.max(100);
                }
                1 => {
                    range.seek_back(target.to_be_bytes());
                    back = (target + 1).min(1800);
                }
                2..9 => {
                    let expected = all.iter().copied().find(|n| (front..back).contains(n));
                    assert_eq!(
                        range.peek().expect("readable").map(|(key, _)| key.clone()),
                        expected.map(|n| n.to_be_bytes().to_vec())
                    );
                    assert_eq!(number(range.next()), expected, "step {step}");
                    front = expected.map_or(front, |n| n + 1);
                }
                _ => {
                    let expected = all.iter().rev().copied().find(|n| (front..back).contains(n));
                    assert_eq!(number(range.next_back()), expected, "step {step}");
                    back = expected.unwrap_or(back);
                }
            }
        }
    }
}

/// What was wrong: a view took a map of another store in silence, and showed what that has now.
#[test]
fn a_view_refuses_maps_of_other_stores() {
    let folders = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    let [store, other] = [open(folders[0].path()), open(folders[1].path())];
    let _ = other.default_map().put("key", "value").expect("room");
    let view = store.view().expect("a view");
    let foreign = view.map(other.default_map());
    let is_refused = |error: &Error| error.to_string().contains("another store");
    assert!(foreign.get("key").is_err_and(|error| is_refused(&error)));
    assert!(foreign.contains("key").is_err_and(|error| is_refused(&error)));
    assert!(foreign.get_many(&["key"], |_, _| ()).is_err_and(|error| is_refused(&error)));
    let first = foreign.iter().next().expect("it says so");
    assert!(first.is_err_and(|error| is_refused(&error)));
    assert_eq!(view.map(store.default_map()).get("key").expect("get"), None);
}
