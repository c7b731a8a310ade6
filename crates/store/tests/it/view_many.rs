//! Many keys of a view in one call: as single gets of the same view, whatever is written meanwhile.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use everleaf::{Error, Expiry, MapView, Options, Store, WriteBatch};

fn open(folder: &Path) -> Store {
    let options = Options::new().create(true).max_size_bytes(1 << 30);
    options.open(folder.join("pool")).expect("the pool opens")
}

type Found = Vec<Option<Vec<u8>>>;

/// The answers, which come in the order of the keys.
fn many<K: AsRef<[u8]>>(view: &MapView, keys: &[K]) -> Result<Found, Error> {
    let mut found = vec![];
    view.get_many(keys, |index, value| found.push((index, value.map(<[u8]>::to_vec))))?;
    assert!(found.iter().map(|(index, _)| *index).eq(0..keys.len()), "each in its turn");
    Ok(found.into_iter().map(|(_, value)| value).collect())
}

fn singly<K: AsRef<[u8]>>(view: &MapView, keys: &[K]) -> Found {
    keys.iter().map(|key| view.get(key).expect("get")).collect()
}

/// Keys out of order, some twice, some never put.
fn some_keys() -> Vec<Vec<u8>> {
    let key = |number: u32| (number * 7919 % 2500).to_be_bytes().to_vec();
    (0..3000).map(key).chain([vec![], vec![0; 3000]]).collect()
}

/// Takes out what may have expired.
fn hide_expiring(found: &mut Found, keys: &[Vec<u8>]) {
    for (value, key) in found.iter_mut().zip(keys) {
        value.take_if(|_| key.len() == 4 && key[..] >= 2000u32.to_be_bytes()[..]);
    }
}

#[test]
fn answers_are_those_of_single_gets() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    let maps = ["default", "cleared", "gone"].map(|name| store.map(name).expect("room"));
    let value = |number: u32| match number % 100 {
        0 => vec![number as u8; 70_000],
        1 => vec![],
        _ => number.to_le_bytes().to_vec(),
    };
    let mut times = vec![];
    for map in &maps {
        for number in 0..2000u32 {
            map.put(number.to_be_bytes(), value(number)).expect("room");
        }
        times.push(SystemTime::now() + Duration::from_millis(300));
        let soon = Expiry::At(times[times.len() - 1]);
        for number in 2000..2040u32 {
            map.put_with_expiry(number.to_be_bytes(), b"soon", soon).expect("room");
        }
    }
    let keys = some_keys();
    let view = store.view().expect("a view");
    let views = maps.each_ref().map(|map| view.map(map));
    let (mut before, mut alone) = (many(&views[0], &keys).expect("get"), singly(&views[0], &keys));
    // On a slow machine some have expired in between.
    if SystemTime::now() + Duration::from_millis(2) < times[0] {
        assert!(before.contains(&Some(b"soon".to_vec())));
        assert_eq!(before, alone);
    }
    hide_expiring(&mut before, &keys);
    hide_expiring(&mut alone, &keys);
    assert_eq!(before, alone);
    assert!(before.iter().filter(|value| value.is_none()).count() > 400);
    assert!(before.iter().flatten().any(|value| value.len() == 70_000));
    for number in 0..2300u32 {
        let key = number.to_be_bytes();
        match number % 4 {
            0 => drop(maps[0].remove(key).expect("room")),
            1 => drop(maps[0].put(key, vec![1; 40_000 * usize::from(number % 128 == 1)])),
            2 => drop(maps[0].insert(key, b"new").expect("room")),
            _ => {}
        }
    }
    maps[1].clear().expect("room");
    maps[1].put(7u32.to_be_bytes(), b"now").expect("room");
    store.drop_map("gone").expect("writable");
    let is_there = |view: &MapView| view.get(2003u32.to_be_bytes()).expect("get").is_some();
    // Times are rounded up to milliseconds.
    let end = times[times.len() - 1] + Duration::from_millis(1);
    while let Ok(rest) = end.duration_since(SystemTime::now()) {
        std::thread::sleep(rest);
    }
    assert!(!views.iter().any(is_there), "shown after their time");
    for view in &views {
        // What has expired is absent, also if it was saved before.
        assert_eq!(many(view, &keys).expect("get"), before);
        assert_eq!(singly(view, &keys), before);
    }
    let born = store.load_map("born", [("k", "v")]).expect("room");
    let later = store.map("later").expect("room");
    later.put("k", "v").expect("room");
    for map in [&born, &later] {
        assert_eq!(many(&view.map(map), &["k", "a"]).expect("get"), [None, None]);
        let now = store.view().expect("a view").map(map);
        assert_eq!(many(&now, &["a", "k", "k"]).expect("get")[1..], vec![Some(b"v".to_vec()); 2]);
    }
    views[0].get_many::<&[u8]>(&[], |_, _| panic!("nothing was asked for")).expect("get");
    drop((view, views));
    assert_eq!(store.check().expect("the check runs").problems, Vec::<String>::new());
}

#[test]
fn the_function_may_use_the_store_and_may_panic() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    let keys: Vec<[u8; 1]> = (0..100u8).map(|key| [key]).collect();
    for key in &keys {
        store.default_map().put(key, b"then").expect("room");
    }
    let view = store.view().expect("a view").default_map().clone();
    let mut count = 0;
    view.get_many(&keys, |index, value| {
        assert_eq!(value, Some(&b"then"[..]));
        // Those to come, those that were, and this one.
        for other in [index, (index + 40) % 100] {
            store.default_map().put([other as u8], b"now").expect("room");
        }
        count += 1;
    })
    .expect("get");
    assert_eq!(count, 100);
    let panics = || view.get_many(&keys, |index, _| assert!(index < 50, "planned"));
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).expect_err("it panics");
    assert_eq!(many(&view, &keys).expect("get"), vec![Some(b"then".to_vec()); 100]);
    drop(view);
    drop(store.view().expect("nobody is pinned any more"));
    assert_eq!(store.check().expect("the check runs").problems, Vec::<String>::new());
}

/// A record that is damaged now does not matter if what the key was is saved; one that was damaged then does.
#[test]
fn what_is_damaged_is_told_and_left_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let mark = |number: u8| [&b"precious value of number "[..], &[b'a' + number; 50]].concat();
    let store = open(folder.path());
    for number in 0..20u8 {
        store.default_map().put([number], mark(number)).expect("room");
    }
    store.close().expect("it closes");
    let mut pool = std::fs::read(&path).expect("there");
    for number in [3u8, 4, 19] {
        let at = pool.windows(75).position(|bytes| bytes == mark(number)).expect("there");
        pool[at + 70] ^= 1;
    }
    std::fs::write(&path, pool).expect("room");

    let store = Options::new().verify_reads(true).open(&path).expect("the pool opens");
    let view = store.view().expect("a view").default_map().clone();
    let keys: Vec<[u8; 1]> = (0..20u8).map(|key| [key]).collect();
    let told = || {
        let mut seen = vec![];
        let result = view.get_many(&keys, |index, value| {
            assert_eq!(value, Some(&mark(index as u8)[..]));
            seen.push(index);
        });
        assert!(matches!(result, Err(Error::Corrupt(_))), "{result:?}");
        seen
    };
    let sound: Vec<usize> = (0..19).filter(|number| ![3, 4].contains(number)).collect();
    assert_eq!(told(), sound);
    // Now the damage is in the books of the view, and the tree is sound.
    for number in [3u8, 19] {
        store.default_map().put([number], b"new").expect("room");
    }
    assert_eq!(told(), sound);
    let now = store.view().expect("a view").default_map().clone();
    assert!(matches!(many(&now, &keys), Err(Error::Corrupt(_))), "number 4 still is");
    store.default_map().remove([4]).expect("room");
    let now = store.view().expect("a view").default_map().clone();
    assert_eq!(many(&now, &keys).expect("sound"), singly(&now, &keys));
}

/// Tells the writers to end, also if what they are compared with fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Batches, single puts and removals go on: a view shows one moment, each time.
#[test]
fn writers_change_nothing_of_a_view() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    let (map, end) = (store.map("m").expect("room"), AtomicBool::new(false));
    let key = |number: u32| (number.wrapping_mul(0x9E37_79B9)).to_be_bytes();
    let together: Vec<[u8; 4]> = (0..150).map(key).collect();
    let alone: Vec<[u8; 4]> = (150..1500).map(key).collect();
    let all = [&together[..], &alone[..]].concat();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0u64.. {
                if end.load(Ordering::Relaxed) {
                    return;
                }
                let mut batch = WriteBatch::new();
                for key in &together {
                    batch.put(&map, key, round.to_le_bytes());
                }
                store.write(&batch).expect("room");
            }
        });
        scope.spawn(|| {
            for round in 0u64.. {
                for key in &alone {
                    if end.load(Ordering::Relaxed) {
                        return;
                    }
                    match round % 3 {
                        2 => drop(map.remove(key).expect("room")),
                        _ => drop(map.put(key, round.to_le_bytes()).expect("room")),
                    }
                }
            }
        });
        let _ends = Ends(&end);
        for _ in 0..150 {
            let view = store.view().expect("a view").map(&map);
            let first = many(&view, &all).expect("get");
            assert!(first[..150].iter().all(|value| *value == first[0]), "half a batch");
            // The other writer goes from key to key: there is one border, from newer to older.
            let rounds: Vec<_> = first[150..].to_vec();
            let borders = rounds.windows(2).filter(|pair| pair[0] != pair[1]).count();
            assert!(borders <= 1, "{borders} borders");
            for _ in 0..3 {
                assert_eq!(many(&view, &all).expect("get"), first);
            }
            assert_eq!(singly(&view, &all), first);
        }
    });
    assert_eq!(store.check().expect("the check runs").problems, Vec::<String>::new());
}

/// A view that is given up meanwhile says so, and what it has shown before is right.
#[test]
fn a_view_that_is_given_up_shows_nothing_later() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = Options::new().create(true).max_size_bytes(1 << 28).view_memory_bytes(32 << 10);
    let store = options.open(folder.path().join("pool")).expect("the pool opens");
    let keys: Vec<[u8; 1]> = (0..200u8).map(|key| [key]).collect();
    let mut lost = 0;
    for round in 0..100u8 {
        for key in &keys {
            store.default_map().put(key, [round; 300]).expect("room");
        }
        let view = store.view().expect("a view").default_map().clone();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for key in &keys {
                    store.default_map().put(key, [255; 300]).expect("room");
                }
            });
            loop {
                let is_over = writer.is_finished();
                let right = |_, value: Option<&[u8]>| assert_eq!(value, Some(&[round; 300][..]));
                match view.get_many(&keys, right) {
                    Ok(()) => assert!(!is_over, "so much cannot be kept"),
                    Err(Error::ViewLost(_)) => break lost += 1,
                    Err(error) => panic!("{error}"),
                }
            }
        });
    }
    assert_eq!(lost, 100);
}
