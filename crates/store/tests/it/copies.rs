//! Backup, restore, compaction, upgrade: a whole store as a new file.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use everleaf::{Durability, Error, Expiry, Options, Store, Tree, WriteBatch};

const LATER: u64 = 4_000_000_000_000;

fn open(path: &Path) -> Store {
    Options::new().create(true).max_size_bytes(1 << 30).open(path).expect("the pool opens")
}

fn assert_sound(store: &Store) {
    assert_eq!(store.check().expect("the check runs").problems, Vec::<String>::new());
}

#[test]
fn a_backup_has_everything_of_one_moment_and_can_be_restored() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, copy) = (folder.path().join("pool"), folder.path().join("copy"));
    let store = open(&path);
    let other = store.map("other").expect("room");
    other.put_with_expiry(b"k", b"v", Expiry::from_unix_ms(LATER)).expect("room");
    other.put_with_expiry(b"past", b"v", Expiry::from_unix_ms(1)).expect("room");
    store.map("empty").expect("room");
    let done = AtomicBool::new(false);
    let key = |number: u64| number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
    for number in 0..20_000u64 {
        store.default_map().put(key(number), 0u64.to_le_bytes()).expect("room");
    }
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut batch = WriteBatch::new();
            for round in 1u64.. {
                if done.load(Ordering::Acquire) {
                    return;
                }
                batch.clear();
                for number in (0..20_000).step_by(500) {
                    batch.put(store.default_map(), key(number), round.to_le_bytes());
                }
                batch.put(store.default_map(), key(1 << 40 | round), b"new");
                store.write(&batch).expect("room");
            }
        });
        let mut told = 0;
        let copied = store.backup(&copy, |keys| told = keys).expect("room");
        done.store(true, Ordering::Release);
        assert_eq!(copied.maps, 3);
        assert!(copied.keys > 20_000 && told >= 1 << 14 && copied.size_bytes > 0);
    });
    assert!(matches!(store.backup(&copy, |_| {}), Err(Error::AlreadyExists(_))));
    drop(other);
    drop(store);
    std::fs::remove_file(&path).expect("it was there");
    Store::restore(&copy, &path, |_| {}).expect("room");
    let store = open(&path);
    assert_sound(&store);
    assert_eq!(store.map_names(), ["default", "empty", "other"]);
    let other = store.map("other").expect("there");
    assert_eq!(other.expiry(b"k").expect("get"), Some(Expiry::from_unix_ms(LATER)));
    assert_eq!(other.iter().count(), 1);
    let value = |number| store.default_map().get(key(number)).expect("get").expect("there");
    assert!((0..20_000).step_by(500).all(|number| value(number) == value(0)), "half a batch");
    let leftovers = std::fs::read_dir(folder.path()).expect("readable").count();
    assert_eq!(leftovers, 2, "the pool and the backup");
}

/// A map is dropped while the backup is being written, and another gets its name.
#[test]
fn a_backup_has_the_maps_of_its_moment_even_if_dropped() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, copy) = (folder.path().join("pool"), folder.path().join("copy"));
    let store = open(&path);
    for number in 0..20_000u32 {
        store.default_map().put(number.to_be_bytes(), b"").expect("room");
    }
    for name in ["gone", "replaced"] {
        store.map(name).expect("room").put(b"key", b"old").expect("room");
    }
    let mut done = false;
    let copied = store.backup(&copy, |_| {
        if !std::mem::replace(&mut done, true) {
            assert!(store.drop_map("gone").expect("writable"));
            assert!(store.drop_map("replaced").expect("writable"));
            store.map("replaced").expect("room").put(b"key", b"new").expect("room");
            store.map("made").expect("room").put(b"key", b"new").expect("room");
        }
    });
    assert!(done, "it was told nothing");
    assert_eq!(copied.expect("room").keys, 20_002);
    let copy = Options::new().read_only(true).open(&copy).expect("it opens");
    assert_eq!(copy.map_names(), ["default", "gone", "replaced"]);
    for name in ["gone", "replaced"] {
        let map = copy.existing_map(name).expect("of strings").expect("there");
        assert_eq!(map.get(b"key").expect("get").as_deref(), Some(&b"old"[..]), "{name}");
    }
}

#[test]
fn compaction_gives_space_back_and_changes_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let store = open(&path);
    for number in 0..20_000u32 {
        store.default_map().put(number.to_be_bytes(), [7; 300]).expect("room");
    }
    for number in (0..20_000u32).filter(|number| number % 10 != 0) {
        store.default_map().remove(number.to_be_bytes()).expect("room");
    }
    assert!(matches!(Store::compact(&path, |_| {}), Err(Error::Locked(_))));
    store.close().expect("closed");
    let size = |path: &Path| std::fs::metadata(path).expect("there").len();
    let before = size(&path);
    let copied = Store::compact(&path, |_| {}).expect("room");
    assert_eq!(copied.keys, 2000);
    assert!(size(&path) * 3 < before, "{} of {before} bytes", size(&path));
    let store = open(&path);
    assert_sound(&store);
    assert_eq!(store.default_map().len(), 2000);
    assert_eq!(store.default_map().get(10u32.to_be_bytes()).expect("get"), Some(vec![7; 300]));
}

#[test]
fn a_damaged_backup_is_not_restored() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, copy) = (folder.path().join("pool"), folder.path().join("copy"));
    let store = open(&path);
    for number in 0..500u32 {
        store.default_map().put(number.to_be_bytes(), b"recognizable contents").expect("room");
    }
    store.backup(&copy, |_| {}).expect("room");
    let mut bytes = std::fs::read(&copy).expect("readable");
    let wanted = b"recognizable contents";
    let at = bytes.windows(wanted.len()).position(|window| window == wanted).expect("there");
    bytes[at] ^= 1;
    std::fs::write(&copy, &bytes).expect("writable");
    let target = folder.path().join("target");
    let error = Store::restore(&copy, &target, |_| {}).expect_err("one bit is wrong");
    assert!(matches!(error, Error::Corrupt(_)), "{error}");
    assert!(!target.exists());
}

#[test]
fn an_upgrade_says_what_is_new_to_a_pool_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let store = open(&path);
    store.default_map().put_with_expiry(b"k", b"v", Expiry::from_unix_ms(LATER)).expect("room");
    store.close().expect("closed");
    let new = ["batches", "batches that change expiries alone", "runs of elements in lists"];
    assert_eq!(Store::upgrade(&path).expect("upgraded"), new);
    assert!(Store::upgrade(&path).expect("upgraded").is_empty());
    assert_eq!(open(&path).default_map().len(), 1);
}

#[test]
fn a_repair_keeps_what_can_be_proven_and_lists_the_rest() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, fixed) = (folder.path().join("pool"), folder.path().join("fixed"));
    let store = open(&path);
    let other = store.map("other").expect("room");
    store.map("empty").expect("room");
    for number in 0..3000u32 {
        store
            .default_map()
            .put(number.to_be_bytes(), format!("value of {number}").as_bytes())
            .expect("room");
    }
    other.put_with_expiry(b"k", b"v", Expiry::from_unix_ms(LATER)).expect("room");
    for number in 0..1000u32 {
        store.default_map().remove(number.to_be_bytes()).expect("room");
    }
    drop(other);
    store.close().expect("closed");
    let repaired = Store::repair(&path, &fixed).expect("room");
    assert_eq!((repaired.kept, repaired.doubtful, repaired.dropped.len()), (2001, 0, 0));
    assert_eq!(repaired.maps, ["default", "empty", "other"]);
    let whole = std::fs::read(&path).expect("readable");

    // One value, both headers, the name of a map, and a byte in every leaf's low fence.
    let mut bytes = whole.clone();
    let wanted = b"value of 2345";
    let at = bytes.windows(wanted.len()).position(|window| window == wanted).expect("there");
    bytes[at] ^= 1;
    bytes[100] ^= 1;
    bytes[4096 + 100] ^= 1;
    let at = bytes.windows(5).position(|window| window == b"other").expect("there");
    bytes[at] ^= 1;
    std::fs::write(&path, &bytes).expect("writable");
    assert!(Options::new().open(&path).is_err(), "the pool is too damaged to be opened");
    std::fs::remove_file(&fixed).expect("there");
    let repaired = Store::repair(&path, &fixed).expect("room");
    assert_eq!((repaired.kept, repaired.doubtful), (2000, 0), "{:?}", repaired.dropped);
    assert_eq!(repaired.dropped.len(), 1, "{:?}", repaired.dropped);
    assert_eq!(std::fs::read(&path).expect("readable"), bytes, "the original was touched");
    let store = open(&fixed);
    assert_sound(&store);
    assert_eq!(store.default_map().len(), 1999);
    assert_eq!(store.default_map().get(2345u32.to_be_bytes()).expect("get"), None);
    let value = store.default_map().get(2346u32.to_be_bytes()).expect("get");
    assert_eq!(value.as_deref(), Some(&b"value of 2346"[..]));
    let lost = store.map_names().into_iter().find(|name| name.starts_with("lost-"));
    let lost = store.map(&lost.expect("its name was lost")).expect("there");
    assert_eq!(lost.expiry(b"k").expect("get"), Some(Expiry::from_unix_ms(LATER)));
    drop(store);

    // Whatever bit is wrong, a repair ends, and every pair it keeps is one that was there.
    for seed in 0..40u64 {
        let mut bytes = whole.clone();
        for flip in 0..30u64 {
            let dice = (seed << 8 | flip).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let at = dice as usize % bytes.len();
            bytes[at] ^= 1 << (dice >> 61);
        }
        std::fs::write(&path, &bytes).expect("writable");
        std::fs::remove_file(&fixed).expect("there");
        let repaired = Store::repair(&path, &fixed).expect("room");
        let store = open(&fixed);
        for (key, value) in store.default_map().iter().map(Result::unwrap) {
            let number = u32::from_be_bytes(key.try_into().expect("four bytes"));
            assert_eq!(value, format!("value of {number}").as_bytes());
        }
        assert!(
            store.default_map().len() >= 1900,
            "seed {seed}: {} kept: {:?}",
            store.default_map().len(),
            repaired.dropped
        );
    }
}

/// A process that dies directly behind the emptying of a map leaves what was removed in leaves that nobody has used
/// again. A repair kept it under a name of its own without a word of what it is.
#[test]
fn a_removal_right_before_a_kill_comes_back_under_no_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let store = open(&path("pool"));
    for number in 0..1000u32 {
        store.default_map().put(number.to_be_bytes(), b"flushed").expect("room");
    }
    store.default_map().clear().expect("writable");
    store.default_map().put(b"kept", b"value").expect("room");
    // As the file is if the process dies now.
    std::fs::copy(path("pool"), path("killed")).expect("room");
    let repaired = Store::repair(path("killed"), path("fixed")).expect("room");
    let fixed = open(&path("fixed"));
    assert_eq!(fixed.default_map().len(), 1, "{repaired:?}");
    let lost: Vec<&String> = repaired.maps.iter().filter(|it| it.starts_with("lost-")).collect();
    assert_eq!((lost.len(), repaired.lost.len()), (1, 1), "{repaired:?}");
    for (name, told) in lost.into_iter().zip(&repaired.lost) {
        assert!(told.contains(name) && told.contains("keys that were removed"), "{told}");
    }
}

#[test]
fn an_iteration_that_cannot_go_on_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Options::new().create(true).open(folder.path().join("pool")).expect("it opens");
    let map = store.map("dropped").expect("room");
    for number in 0..1000u32 {
        map.put(number.to_be_bytes(), b"").expect("room");
    }
    let mut range = map.iter();
    assert!(range.next().is_some());
    assert!(store.drop_map("dropped").expect("writable"));
    let rest = range.by_ref().collect::<Vec<_>>();
    assert!(rest.len() < 1000);
    assert!(matches!(rest.last(), Some(Err(Error::MapDropped))));
    assert!(range.next().is_none(), "an error is the last item");
    assert_eq!(store.default_map().iter().count(), 0);
}

/// A save replaced whatever its name led to: a link to the pool itself took the pool away from under the store, whose
/// later writes were acknowledged and lost; so were those of another store, and a pool with a log was put before that
/// log.
#[test]
fn a_save_replaces_nothing_but_the_last_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let backup = folder.path().join("pool.backup");
    let store = open(&path);
    store.default_map().put("a", "1").expect("room");
    let assert_refused = |why: &str| {
        let refused = store.save().expect_err(why).to_string();
        assert!(refused.contains(why) && refused.contains("pool.backup"), "{refused}");
    };
    // Itself, and a pool that somebody else writes to, by links.
    std::os::unix::fs::symlink(&path, &backup).expect("a link");
    assert_refused("open for writing");
    std::fs::remove_file(&backup).expect("the link goes");
    let other = open(&folder.path().join("other"));
    std::os::unix::fs::symlink("other", &backup).expect("a link");
    assert_refused("open for writing");
    other.close().expect("it closes");
    // One that nobody writes to is the last backup, for all that can be known.
    assert_eq!(store.save().expect("it is replaced"), 1);
    std::fs::remove_file(&backup).expect("the link goes");
    // Something else.
    std::fs::write(&backup, "mine").expect("room");
    assert_refused("not an Everleaf pool");
    assert_eq!(std::fs::read(&backup).expect("it is there"), b"mine");
    std::fs::remove_file(&backup).expect("it goes");
    std::os::unix::fs::symlink("/dev/null", &backup).expect("a link");
    assert_refused("not a regular file");
    std::fs::remove_file(&backup).expect("the link goes");
    // A pool with a log.
    let logged = Options::new().create(true).durability(Durability::Power).open(&backup);
    logged.expect("it opens").close().expect("it closes");
    assert!(store.save().is_err());
    std::fs::remove_file(&backup).expect("it goes");
    // The log of one beside a link, where older versions kept it: an opening by that name looks there.
    std::os::unix::fs::symlink("elsewhere", &backup).expect("a link");
    assert!(store.save().is_err() && !folder.path().join("elsewhere").exists());
    std::fs::remove_file(&backup).expect("the link goes");
    std::fs::remove_dir_all(folder.path().join("pool.backup.log")).expect("so does its log");
    for expected in [1, 2] {
        assert_eq!(store.save().expect("there is room"), expected);
        store.default_map().put("b", "2").expect("room");
    }
    store.close().expect("it closes");
    assert_eq!(open(&path).default_map().len(), 2);
    assert_eq!(open(&backup).default_map().len(), 2);
}

/// Leaves of a map that was emptied stay until somebody needs their blocks. A repair took them for a lost map: the
/// flushed keys were there again, and a sound pool was told to have thousands of damages.
#[test]
fn a_repair_of_a_sound_pool_drops_and_revives_nothing() {
    for tree in [Tree::NbTree, Tree::HashedLeaf] {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, copy) = (folder.path().join("pool"), folder.path().join("copy"));
        let options = || Options::new().create(true).tree(tree).max_size_bytes(1 << 30);
        let store = options().open(&path).expect("the pool opens");
        for number in 0..20_000_u32 {
            store.default_map().put(number.to_be_bytes(), "flushed").expect("room");
        }
        let other = store.map("other").expect("room");
        other.put("k", "v").expect("room");
        store.map("dropped").expect("room").put("k", "v").expect("room");
        store.drop_map("dropped").expect("writable");
        store.default_map().clear().expect("writable");
        store.default_map().put("kept", "v").expect("room");
        drop(other);
        store.close().expect("it closes");
        let repaired = Store::repair(&path, &copy).expect("it is repaired");
        assert_eq!((repaired.kept, repaired.doubtful, repaired.dropped), (2, 0, vec![]));
        let copy = open(&copy);
        assert_eq!(copy.map_names(), ["default", "other"]);
        assert_eq!(copy.default_map().get("kept").expect("readable").as_deref(), Some(&b"v"[..]));
    }
}

/// What could not be had: a pool that was full of keys that came in their order was denser than its copy, which had the
/// same maximum, and neither a backup nor a compaction of it was possible.
#[test]
fn a_full_pool_is_copied() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, copy) = (folder.path().join("pool"), folder.path().join("copy"));
    let max = 8 << 20;
    let options = Options::new().create(true).sweep(false).max_size_bytes(max);
    let store = options.clone().open(&path).expect("the pool opens");
    let (map, mut count) = (store.default_map(), 0u64);
    while map.put(count.to_be_bytes(), "").is_ok() {
        count += 1;
    }
    assert!(matches!(map.put("more", ""), Err(Error::PoolFull(_))));
    assert_eq!(store.backup(&copy, |_| {}).expect("it has room").keys, count);
    // What helps a store whose file is gone.
    std::fs::remove_file(&path).expect("it is there");
    assert_eq!(store.save().expect("it has room"), count);
    store.close().expect_err("its file is gone");
    std::fs::rename(folder.path().join("pool.backup"), &path).expect("it is there");
    assert_eq!(options.compact(&path, |_| {}).expect("it has room").keys, count);
    for path in [&path, &copy] {
        let store = Options::new().open(path).expect("it opens");
        assert_sound(&store);
        assert_eq!(store.default_map().len(), count);
        let statistics = store.statistics();
        let found = statistics.pool_max_bytes;
        assert!((max..=max + max / 6).contains(&found), "{found} of {max}");
        store.close().expect("nobody has it");
    }
    // What is not full keeps its maximum.
    let (path, copy) = (folder.path().join("small"), folder.path().join("of small"));
    let store = Options::new().create(true).max_size_bytes(max).open(&path).expect("it opens");
    store.default_map().put("k", "v").expect("room");
    store.backup(&copy, |_| {}).expect("it has room");
    let store = Options::new().open(&copy).expect("it opens");
    assert_eq!(store.statistics().pool_max_bytes, max);
}
