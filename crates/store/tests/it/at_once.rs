//! Several keys at one moment, beside single writes and beside batches; and their removal as one change.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use everleaf::{Durability, Expiry, Map, Options, Store, WriteBatch};

/// A store without a log, where writers keep no order unless they must, and one with a log, where they always do.
fn stores() -> [(tempfile::TempDir, Store); 2] {
    [Durability::Process, Durability::Interval(Duration::from_millis(5))].map(|durability| {
        let folder = tempfile::tempdir().expect("a folder");
        let options = Options::new().create(true).max_size_bytes(1 << 28).durability(durability);
        let store = options.open(folder.path().join("pool")).expect("the pool opens");
        (folder, store)
    })
}

/// What keys have at one moment; 0 for those that are absent.
fn read(map: &Map, keys: &[&str]) -> Vec<u64> {
    let names: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
    let mut found = vec![];
    map.get_many_at_once(&names, &mut |index, value: Option<(&[u8], Expiry)>| {
        assert_eq!(index, found.len());
        let number =
            |(value, _): (&[u8], Expiry)| u64::from_be_bytes(value.try_into().expect("8 bytes"));
        found.push(value.map_or(0, number));
        ControlFlow::Continue(())
    })
    .expect("readable");
    found
}

/// Also where they are looked up some at a time; until `see` has enough.
#[test]
fn get_many_shows_each_key_at_its_place() {
    for (_folder, store) in stores() {
        let map = store.default_map();
        let key = |number: usize| format!("key {number:03}");
        (0..100).step_by(2).for_each(|number| {
            map.put(key(number), key(number)).expect("room");
        });
        for count in [0, 1, 2, 31, 32, 33, 64, 65, 100] {
            let names: Vec<String> = (0..count).map(|place| key((place * 7) % 100)).collect();
            let names: Vec<&[u8]> = names.iter().map(String::as_bytes).collect();
            for wanted in [count, count / 2, 1].map(|wanted: usize| wanted.max(1).min(count)) {
                let mut found = vec![];
                let see = |index: usize, value: Option<&[u8]>| {
                    assert_eq!(index, found.len());
                    found.push(value.map(<[u8]>::to_vec));
                    let is_enough = found.len() == wanted;
                    if is_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                };
                map.get_many_until(&names, see).expect("readable");
                let single = names.iter().take(wanted).map(|name| map.get(name).expect("readable"));
                assert_eq!(found, single.collect::<Vec<_>>(), "{wanted} of {count}");
            }
        }
    }
}

/// Each of them is what it was at some moment, and what a thread saw it sees again.
#[test]
fn get_many_beside_writers_never_goes_back() {
    for (_folder, store) in stores() {
        let map = store.default_map();
        let names: Vec<Vec<u8>> = (0..40u8).map(|number| vec![number]).collect();
        let writer = {
            let (map, names) = (map.clone(), names.clone());
            std::thread::spawn(move || {
                for round in 1..=2000_u64 {
                    map.put(&names[round as usize % names.len()], round.to_be_bytes())
                        .expect("room");
                }
            })
        };
        let names: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
        let mut last = vec![0; names.len()];
        while !writer.is_finished() {
            map.get_many(&names, |index, value| {
                let number =
                    value.map_or(0, |value| u64::from_be_bytes(value.try_into().expect("8 bytes")));
                assert!(number >= last[index], "{number} behind {}", last[index]);
                last[index] = number;
            })
            .expect("readable");
        }
        writer.join().expect("no panic");
    }
}

fn remove(map: &Map, keys: &[&str]) -> usize {
    let names: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
    map.remove_many_at_once(&names).expect("room")
}

/// Reads as long as `write` writes.
fn beside(write: impl FnOnce() + Send, mut read: impl FnMut()) {
    let writing = Arc::new(());
    let watch = Arc::downgrade(&writing);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            write();
            drop(writing);
        });
        while watch.strong_count() > 0 {
            read();
        }
    });
}

/// One key is written after the other, and only then the first one again: so much do they differ at one moment.
#[test]
fn single_writes_are_seen_in_their_order() {
    for (_folder, store) in stores() {
        let map = store.default_map();
        let write = || {
            for number in 1..10_000_u64 {
                map.put("a", number.to_be_bytes()).expect("room");
                map.put("b", number.to_be_bytes()).expect("room");
                // Of these one is there at any moment, from the first on.
                let (put, removed) = if number % 2 == 0 { ("c", "d") } else { ("d", "c") };
                map.put(put, number.to_be_bytes()).expect("room");
                map.remove(removed).expect("room");
            }
        };
        beside(write, || {
            let found = read(map, &["b", "a"]);
            assert!(found[1] == found[0] || found[1] == found[0] + 1, "{found:?}");
            let found = read(map, &["a", "d", "c"]);
            assert!(found[0] < 2 || found[1..] != [0, 0], "{found:?}");
        });
    }
}

#[test]
fn batches_are_seen_as_a_whole_at_one_moment() {
    // More keys than are looked at without memory of their own, too.
    let names: Vec<String> = (0..50).map(|number| format!("key {number}")).collect();
    for (_folder, store) in stores() {
        let map = store.default_map();
        for count in [4, 50] {
            let keys: Vec<&str> = names[..count].iter().map(String::as_str).collect();
            // What those before have left.
            let _ = remove(map, &keys);
            let write = || {
                let mut batch = WriteBatch::new();
                for number in 1..1000_u64 {
                    batch.clear();
                    for key in &keys {
                        batch.put(map, key, number.to_be_bytes());
                    }
                    assert!(store.write(&batch).expect("room").is_done());
                    if number % 2 == 0 {
                        assert_eq!(remove(map, &keys), count);
                    }
                }
            };
            beside(write, || {
                let found = read(map, &keys);
                assert!(found.iter().all(|it| *it == found[0]), "{found:?}");
            });
        }
    }
}

/// Keys that expire together are there together.
#[test]
fn keys_that_expire_at_one_time_go_at_one_time() {
    for (_folder, store) in stores() {
        let map = store.default_map();
        let keys: Vec<String> = (0..100).map(|number| format!("key {number}")).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        for _ in 0..20 {
            let expiry = Expiry::after(Duration::from_millis(4));
            let mut batch = WriteBatch::new();
            for key in &keys {
                batch.put_with_expiry(map, key, 1_u64.to_be_bytes(), expiry);
            }
            assert!(store.write(&batch).expect("room").is_done());
            loop {
                let found = read(map, &keys);
                assert!(found.iter().all(|it| *it == found[0]), "{found:?}");
                if found[0] == 0 {
                    break;
                }
            }
        }
    }
}

/// While one shows what it has read, others read and write all of it.
#[test]
fn nobody_waits_for_a_thread_that_shows_several_keys() {
    for (_folder, store) in stores() {
        let map = store.default_map();
        for key in ["a", "b"] {
            map.put(key, 1_u64.to_be_bytes()).expect("room");
        }
        let (mut seen, names) = (vec![], [&b"a"[..], b"b", b"none", b"never asked"]);
        let mut see = |index: usize, value: Option<(&[u8], Expiry)>| {
            if index == 0 {
                let (send, ended) = channel();
                let map = map.clone();
                std::thread::spawn(move || {
                    assert_eq!(map.get("b").expect("readable"), Some(1_u64.to_be_bytes().to_vec()));
                    map.put("b", 2_u64.to_be_bytes()).expect("room");
                    map.remove("a").expect("room");
                    let _ = send.send(());
                });
                ended.recv_timeout(Duration::from_secs(30)).expect("it waits for nobody");
            }
            seen.push(value.map(|(value, _)| value[7]));
            if index == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        map.get_many_at_once(&names, &mut see).expect("readable");
        assert_eq!(seen, [Some(1), Some(1), None], "what they were, as far as it was wanted");
    }
}

/// An expiry changes where it is: what is shown is what it was at the moment of all.
#[test]
fn an_expiry_is_shown_as_it_was_at_the_moment() {
    for (_folder, store) in stores() {
        let map = store.default_map();
        let now_ms = Expiry::after(Duration::ZERO).as_unix_ms();
        let hours = |count: u64| Expiry::from_unix_ms(now_ms + 3_600_000 * count);
        let (first, second) = (hours(1), hours(2));
        let mut batch = WriteBatch::new();
        for key in ["a", "b"] {
            batch.put_with_expiry(map, key, 1_u64.to_be_bytes(), first);
        }
        assert!(store.write(&batch).expect("room").is_done());
        let (mut seen, names) = (vec![], [&b"a"[..], b"b"]);
        let mut see = |index: usize, value: Option<(&[u8], Expiry)>| {
            if index == 0 {
                let write = || {
                    let mut batch = WriteBatch::new();
                    batch.expire(map, "b", second);
                    assert!(store.write(&batch).expect("room").is_done());
                };
                let later = std::thread::scope(|scope| scope.spawn(write).join());
                later.expect("it waits for nobody");
            }
            seen.push(value.map(|(_, expiry)| expiry));
            ControlFlow::Continue(())
        };
        map.get_many_at_once(&names, &mut see).expect("readable");
        assert_eq!(seen, [Some(first); 2]);
        let now = map.get_many_at_once(&names, &mut |index, value: Option<(&[u8], Expiry)>| {
            let expected = if index == 0 { first } else { second };
            assert_eq!(value.map(|(_, expiry)| expiry), Some(expected));
            ControlFlow::Continue(())
        });
        now.expect("readable");
    }
}

#[test]
fn a_removal_counts_what_was_there() {
    for (_folder, store) in stores() {
        let map = store.default_map();
        for key in ["a", "b", "c"] {
            map.put(key, 7_u64.to_be_bytes()).expect("room");
        }
        map.put_with_expiry("past", "value", Expiry::from_unix_ms(1)).expect("room");
        assert_eq!(map.len(), 4);
        let (view, watches) = (store.view().expect("a view"), ["a", "none", "past"]);
        let watches = watches.map(|key| map.watch(key).expect("a watch"));
        assert_eq!(remove(map, &["a", "none", "b", "past", "a"]), 2);
        // `past` had expired when it was watched: nobody sees a difference.
        assert_eq!(watches.map(|watch| watch.is_broken()), [true, false, false]);
        assert_eq!(read(map, &["a", "b", "c", "c"]), [0, 0, 7, 7]);
        assert_eq!(remove(map, &["a", "b"]), 0);
        assert_eq!(remove(map, &[]), 0);
        assert_eq!(read(map, &[]), []);
        assert_eq!(map.len(), 1, "what has expired was removed, too");
        assert!(view.default_map().get("b").expect("readable").is_some());
    }
}
