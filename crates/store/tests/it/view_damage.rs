//! Views of what is damaged, and watches, while that is replaced, removed, emptied or dropped.

use std::os::unix::fs::FileExt;
use std::path::Path;

use everleaf::{Error, MapView, Options, Store, WriteBatch};

fn open(path: &Path) -> Store {
    let options = Options::new().create(true).max_size_bytes(1 << 26).sweep(false);
    options.open(path).expect("the pool opens")
}

/// A view says of a key that nobody can tell what it was: by a get of one and by one of many.
#[track_caller]
fn is_damaged(view: &MapView, key: &[u8]) {
    let found = view.get(key);
    assert!(matches!(found, Err(Error::Corrupt(_))), "{found:?}");
    let found = view.get_many(&[key], |_, value| panic!("it was shown {value:?}"));
    assert!(matches!(found, Err(Error::Corrupt(_))), "{found:?}");
    assert!(matches!(view.contains(key), Err(Error::Corrupt(_))));
}

/// What a key was, by a get of one and by one of many.
fn get(view: &MapView, key: &[u8]) -> Option<Vec<u8>> {
    let found = view.get(key).expect("it was saved, or is sound");
    let mut shown = None;
    view.get_many(&[key], |_, value| shown = value.map(<[u8]>::to_vec)).expect("readable");
    assert_eq!(shown, found);
    found
}

/// Changes one byte of each of these values in the file.
fn damage(path: &Path, values: &[&[u8]]) {
    let pool = std::fs::read(path).expect("there");
    let file = std::fs::File::options().write(true).open(path).expect("there");
    for value in values {
        let at = pool.windows(value.len()).position(|bytes| bytes == *value).expect("there");
        file.write_all_at(&[pool[at] ^ 1], at as u64).expect("room");
    }
}

/// While a view was open, a damaged key could be neither overwritten nor removed, and its map neither
/// emptied nor dropped: the old value could not be saved.
#[test]
fn what_is_damaged_can_be_replaced_while_a_view_is_open() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let store = open(&path);
    let (second, third) = (store.map("second").expect("room"), store.map("third").expect("room"));
    for map in [store.default_map(), &second, &third] {
        for key in [b"a", b"b", b"c", b"d", b"e"] {
            let _ = map.put(key, b"sound").expect("room");
        }
    }
    let values: [&[u8]; 4] = [b"precious 1", b"precious 2", b"precious 3", b"precious 4"];
    let _ = (
        store.default_map().put(b"b", values[0]).expect("room"),
        store.default_map().put(b"d", values[1]).expect("room"),
    );
    let _ = (second.put(b"c", values[2]).expect("room"), third.put(b"c", values[3]).expect("room"));
    drop((second, third));
    store.close().expect("it closes");
    damage(&path, &values);

    let store = open(&path);
    let (second, third) = (store.map("second").expect("there"), store.map("third").expect("there"));
    let view = store.view().expect("it opens");
    assert!(
        store.default_map().put(b"b", b"new").expect("a put does not look at what it replaces")
    );
    let mut batch = WriteBatch::new();
    batch.remove(store.default_map(), b"d");
    assert!(store.write(&batch).expect("nor does a removal").is_done());
    second.clear().expect("writable");
    assert!(store.drop_map("third").expect("writable"));
    assert_eq!(store.default_map().get(b"b").expect("sound").as_deref(), Some(&b"new"[..]));
    assert_eq!((store.default_map().get(b"d").expect("sound"), second.len()), (None, 0));

    is_damaged(view.default_map(), b"b");
    is_damaged(view.default_map(), b"d");
    for map in [view.map(&second), view.map(&third)] {
        is_damaged(&map, b"c");
        assert_eq!(map.get(b"a").expect("saved").as_deref(), Some(&b"sound"[..]));
        assert_eq!(map.get(b"e").expect("saved").as_deref(), Some(&b"sound"[..]));
    }
    // Whatever comes to its place: the test stopped before that, and what is said of it was lost.
    assert!(!second.put(b"c", b"new").expect("room"));
    is_damaged(&view.map(&second), b"c");
    assert_eq!(view.default_map().get(b"a").expect("sound").as_deref(), Some(&b"sound"[..]));
    assert_eq!(view.default_map().get(b"none").expect("it was not there"), None);
    for range in [view.default_map().iter(), view.map(&second).iter(), view.map(&third).iter()] {
        let found: Vec<_> = range.collect();
        assert!(found.len() <= 3, "nothing behind the damage");
        assert!(matches!(found.last(), Some(Err(Error::Corrupt(_)))));
    }
    // What comes later is sound.
    let later = store.view().expect("it opens");
    drop(view);
    assert!(second.put(b"c", b"newer").expect("room"));
    assert_eq!(get(&later.map(&second), b"c").unwrap(), b"new");
    assert_eq!(get(&later.map(&second), b"a"), None);
    assert_eq!(later.default_map().iter().count(), 4);
    drop(later);
    assert_eq!(store.statistics().view_bytes, 0);
}

/// A map of `keys`, all with values of their own, of which these bytes are changed while it is closed.
fn damaged(path: &Path, keys: &[&[u8]], bytes: &[&[u8]]) -> Store {
    let store = open(path);
    for key in keys {
        let _ = store.default_map().put(key, [b"precious ", *key].concat()).expect("room");
    }
    store.close().expect("it closes");
    damage(path, bytes);
    open(path)
}

/// What was lost: the answer of a view. With two damaged values all between them were in no book when their map was
/// emptied, and a key of those that was put anew while the view was open had been absent then, as it said.
#[test]
fn sound_keys_between_damaged_ones_are_saved_for_views() {
    let folder = tempfile::tempdir().expect("a folder");
    let keys: [&[u8]; 5] = [b"a", b"b", b"c", b"d", b"e"];
    let store = damaged(&folder.path().join("pool"), &keys, &[b"precious b", b"precious d"]);
    let (map, view) = (store.default_map(), store.view().expect("it opens"));
    map.clear().expect("writable");
    for round in 0..2 {
        for key in [b"a", b"c", b"e"] {
            assert_eq!(get(view.default_map(), key), Some([&b"precious "[..], key].concat()));
        }
        is_damaged(view.default_map(), b"b");
        is_damaged(view.default_map(), b"d");
        assert!(matches!(view.default_map().iter().last(), Some(Err(Error::Corrupt(_)))));
        if round == 0 {
            for key in keys {
                assert!(!map.put(key, b"new").expect("room"), "it was emptied");
            }
        }
    }
}

/// What was lost, likewise: of a key that could not be saved, because its record is not its own any more, a view said
/// that it had been absent, as soon as it was put anew.
#[test]
fn what_could_not_be_saved_for_a_view_was_not_absent() {
    let folder = tempfile::tempdir().expect("a folder");
    // The key itself is directly before its value.
    let changed: [&[u8]; 2] = [b"bbprecious bb", b"ddprecious dd"];
    let keys: [&[u8]; 5] = [b"aa", b"bb", b"cc", b"dd", b"ee"];
    let store = damaged(&folder.path().join("pool"), &keys, &changed);
    let map = store.default_map();
    let before = store.view().expect("it opens");
    assert!(!map.put(b"absent", b"put while the view is open").expect("room"));
    map.clear().expect("writable");
    let behind = store.view().expect("it opens");
    let last = store.view().expect("it opens");
    for key in keys {
        assert!(!map.put(key, b"new").expect("room"), "it was emptied");
    }
    let newest = store.view().expect("it opens");
    let check = || {
        let before = before.default_map();
        for key in [b"aa", b"cc", b"ee"] {
            assert_eq!(get(before, key), Some([&b"precious "[..], key].concat()));
        }
        is_damaged(before, b"bb");
        is_damaged(before, b"dd");
        assert_eq!(get(before, b"absent"), None, "this is for sure");
        // A view that was opened behind it knows that the map was empty.
        keys.iter().for_each(|key| assert_eq!(get(behind.default_map(), key), None));
        assert_eq!(behind.default_map().iter().count(), 0);
        keys.iter().for_each(|key| assert_eq!(get(newest.default_map(), key).unwrap(), b"new"));
        assert_eq!(newest.default_map().iter().count(), 5);
    };
    check();
    // Now what it kept is that of the view before it.
    drop(last);
    check();
    map.clear().expect("writable");
    check();
    drop((before, behind));
    keys.iter().for_each(|key| assert_eq!(get(newest.default_map(), key).unwrap(), b"new"));
    drop(newest);
    assert_eq!(store.statistics().view_bytes, 0);
}

/// A map was neither emptied nor dropped while somebody watched a key of it that was damaged meanwhile: whether it was
/// there could not be told.
#[test]
fn a_map_is_emptied_though_a_watched_key_is_damaged() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let store = open(&path);
    let other = store.map("other").expect("room");
    let mut watches = vec![];
    for (map, value) in [(store.default_map(), "precious 1"), (&other, "precious 2")] {
        let _ = map.put(b"key", value).expect("room");
        watches.push(map.watch(b"key").expect("sound"));
        watches.push(map.watch(b"absent").expect("sound"));
    }
    // The pool is mapped: it is changed under the open store.
    damage(&path, &[b"keyprecious 1", b"keyprecious 2"]);
    for map in [store.default_map(), &other] {
        assert!(matches!(map.get(b"key"), Err(Error::Corrupt(_))), "{:?}", map.get(b"key"));
    }
    store.default_map().clear().expect("nobody has to know what goes");
    assert!(store.drop_map("other").expect("nor here"));
    assert_eq!(
        (store.default_map().len(), store.default_map().get(b"key").expect("gone")),
        (0, None)
    );
    let broken: Vec<bool> = watches.iter().map(everleaf::Watch::is_broken).collect();
    assert_eq!(broken, [true, false, true, false]);
}
