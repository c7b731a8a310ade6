//! The log: everything acknowledged is there when the pool is lost, whole, and with its times.
//!
//! Losing the pool stands for a crash of the machine, after which the pool is not looked at. What a
//! disk does to the log itself is the business of the log's own tests.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use everleaf::{Action, Durability, Error, Expiry, Map, Options, Store, WriteBatch};

const CHILD: &str = "EVERLEAF_POWER_CHILD";
const LATER: u64 = 4_000_000_000_000;

fn options(durability: Durability) -> Options {
    Options::new().create(true).max_size_bytes(1 << 30).durability(durability)
}

fn open(folder: &Path, durability: Durability) -> Store {
    options(durability).open(folder.join("pool")).expect("the pool opens")
}

fn lose_pool(folder: &Path) {
    std::fs::remove_file(folder.join("pool")).expect("the pool was there");
}

type Contents = BTreeMap<Vec<u8>, (Vec<u8>, Expiry)>;

fn contents(map: &Map) -> Contents {
    let with_expiry = |(key, value): (Vec<u8>, Vec<u8>)| {
        let expiry = map.expiry(&key).expect("get").expect("there");
        (key, (value, expiry))
    };
    map.iter().map(with_expiry).collect()
}

fn all(store: &Store) -> BTreeMap<String, Contents> {
    let map = |name: &String| store.existing_map(name).expect("of strings").expect("there");
    store.map_names().into_iter().map(|name| (name.clone(), contents(&map(&name)))).collect()
}

/// Changes of every kind, different for each `round`.
fn change_everything(store: &Store, round: u32) {
    let key = |number: u32| number.wrapping_mul(0x9E37_79B9).to_be_bytes();
    let second = store.map("second").expect("room");
    for number in 0..400u32 {
        let (key, value) = (key(number), format!("{round}:{number}").into_bytes());
        match (number + round) % 7 {
            0 => drop(store.put(&key, &value).expect("room")),
            1 => drop(store.remove(&key).expect("room")),
            2 => drop(store.put_with_expiry(&key, &value, LATER + u64::from(round)).expect("room")),
            3 => drop(store.update_with(&key, |_| Action::Put(value.clone())).expect("room")),
            4 => drop(store.insert(&key, &value).expect("room")),
            5 => {
                let mut batch = WriteBatch::new();
                batch.put(store, &key, b"batch").remove(&second, &key).put(&second, b"b", &value);
                store.write(&batch).expect("room");
            }
            _ => {
                store.expire_at(&key, LATER).expect("room");
                let _ = second.put(&key, &value).expect("room");
            }
        }
    }
    let cleared = store.map("cleared").expect("room");
    cleared.put(b"before", b"x").expect("room");
    cleared.clear().expect("room");
    cleared.put(b"after", &[round as u8]).expect("room");
    store.map("dropped").expect("room").put(b"k", b"x").expect("room");
    assert!(store.drop_map("dropped").expect("writable"));
    if round % 2 == 1 {
        store.map("dropped").expect("room").put(b"again", b"x").expect("room");
    }
    store.put_with_expiry(b"past", b"x", 1).expect("room");
}

#[test]
fn a_lost_pool_is_made_again_from_the_log_alone_and_from_snapshots() {
    for durability in [Durability::Power, Durability::Interval(Duration::from_millis(20))] {
        let folder = tempfile::tempdir().expect("a folder");
        for round in 0..6 {
            let store = open(folder.path(), durability);
            let rebuilt = store.rebuilt().cloned();
            assert_eq!(rebuilt.is_some(), round > 0);
            change_everything(&store, round);
            if round % 3 == 1 {
                assert!(store.snapshot().expect("room") > 100);
                change_everything(&store, round + 100);
            }
            let expected = all(&store);
            store.close().expect("closed");
            lose_pool(folder.path());
            let store = open(folder.path(), durability);
            assert_eq!(all(&store), expected, "round {round}");
            assert_eq!(store.map("cleared").expect("there").get(b"before").expect("get"), None);
            let problems = store.check().expect("the check runs").problems;
            assert_eq!(problems, Vec::<String>::new());
            drop(store);
            lose_pool(folder.path());
        }
    }
}

#[test]
fn a_pool_gets_a_log_and_loses_it_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("pool.log");
    let store = open(folder.path(), Durability::Process);
    store.put(b"before", b"1").expect("room");
    assert!(matches!(store.snapshot(), Err(Error::Unsupported(_))));
    drop(store);
    assert!(!log.exists());
    let store = open(folder.path(), Durability::Power);
    store.put(b"with", b"1").expect("room");
    assert_eq!(store.map_names(), ["default"]);
    assert_eq!(store.check().expect("the check runs").keys, 2);
    drop(store);
    lose_pool(folder.path());
    // Without the log being asked for, the pool is not made anew as if there were nothing.
    assert!(matches!(
        options(Durability::Process).open(folder.path().join("pool")),
        Err(Error::MachineCrashed(_) | Error::NotFound(_))
    ));
    let store = open(folder.path(), Durability::Power);
    assert_eq!(contents(&store).len(), 2, "what was there before the log is in its first snapshot");
    drop(store);
    let store = open(folder.path(), Durability::Process);
    assert_eq!(contents(&store).len(), 2);
    store.put(b"without", b"1").expect("room");
    drop(store);
    assert!(!log.exists(), "a log that does not have everything must not be used again");
    let store = open(folder.path(), Durability::Power);
    drop(store);
    lose_pool(folder.path());
    assert_eq!(contents(&open(folder.path(), Durability::Power)).len(), 3);
}

#[test]
fn a_compacted_pool_keeps_its_log_and_another_pool_does_not_take_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let store = open(folder.path(), Durability::Power);
    change_everything(&store, 1);
    store.close().expect("closed");
    Store::compact(&path, |_| {}).expect("room");
    // Opened as it was opened last: with its log.
    let store = Options::new().open(&path).expect("it opens");
    assert_eq!(store.statistics().durability, "power");
    change_everything(&store, 2);
    let expected = all(&store);
    store.backup(folder.path().join("copy"), |_| {}).expect("room");
    store.close().expect("closed");
    lose_pool(folder.path());
    let store = open(folder.path(), Durability::Power);
    assert_eq!(all(&store), expected);
    store.close().expect("closed");
    std::fs::rename(folder.path().join("copy"), &path).expect("both are files");
    for durability in [Durability::Power, Durability::Process] {
        let error = options(durability).open(&path).err().expect("that log is not its own");
        assert!(matches!(error, Error::Corrupt(_)), "{error}");
    }
}

const WRITERS: u64 = 3;

#[test]
fn child_process() {
    let Ok(folder) = std::env::var(CHILD) else { return };
    let folder = Path::new(&folder);
    let store = open(folder, Durability::Power);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let store = &store;
            scope.spawn(move || {
                let report = folder.join(format!("report.{writer}"));
                let mut report = File::create(report).expect("the report is writable");
                let start = stamp(store, writer, 0).unwrap_or(0);
                let mut batch = WriteBatch::new();
                for n in start + 1.. {
                    if n % 2 == 0 {
                        batch.clear();
                        (0..4).for_each(|number| {
                            batch.put(store, &key(writer, number), &n.to_le_bytes());
                        });
                        store.write(&batch).expect("room");
                    } else {
                        for number in (0..4).rev() {
                            store.put(&key(writer, number), &n.to_le_bytes()).expect("room");
                        }
                    }
                    report.write_all(b".").expect("the report is writable");
                }
            });
        }
        scope.spawn(|| {
            loop {
                store.snapshot().expect("room");
            }
        });
    });
}

fn key(writer: u64, number: u64) -> Vec<u8> {
    format!("{number:04}:{writer}").into_bytes()
}

fn stamp(map: &Map, writer: u64, number: u64) -> Option<u64> {
    let value = map.get(&key(writer, number)).expect("get")?;
    Some(u64::from_le_bytes(value.try_into().expect("eight bytes")))
}

#[test]
fn what_a_killed_process_reported_is_in_its_log() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut last = vec![0; WRITERS as usize];
    for round in 0..8u64 {
        let mut child = Command::new(std::env::current_exe().expect("the test has a path"))
            .args(["--exact", "child_process", "--test-threads=1"])
            .env(CHILD, folder.path())
            .stdout(Stdio::null())
            .spawn()
            .expect("the child starts");
        std::thread::sleep(Duration::from_millis(80 + round * 37 % 150));
        child.kill().expect("the child can be killed");
        child.wait().expect("the child can be awaited");
        if !folder.path().join("pool.log/identity").exists() {
            // It never got so far as to acknowledge anything.
            let _ = std::fs::remove_file(folder.path().join("pool"));
            continue;
        }
        if round % 4 != 3 {
            lose_pool(folder.path());
        }
        let store = open(folder.path(), Durability::Power);
        for writer in 0..WRITERS {
            let report = std::fs::metadata(folder.path().join(format!("report.{writer}")));
            let reported = last[writer as usize] + report.map_or(0, |report| report.len());
            let stamps: Vec<u64> =
                (0..4).map(|number| stamp(&store, writer, number).unwrap_or(0)).collect();
            // Of an odd round, which was cut short, the last keys may be newer.
            let n = stamps[0];
            assert!((reported..=reported + 1).contains(&n), "{n}, but {reported} were reported");
            let next = stamps.iter().any(|stamp| *stamp == n + 1);
            assert!(stamps.is_sorted() && stamps[3] <= n + 1, "{stamps:?}");
            assert!(!next || n == reported && n.is_multiple_of(2), "half a batch: {stamps:?}");
            for number in 0..4 {
                store.put(&key(writer, number), &n.to_le_bytes()).expect("room");
            }
            last[writer as usize] = n;
            let _ = std::fs::remove_file(folder.path().join(format!("report.{writer}")));
        }
        store.close().expect("closed");
    }
    println!("rounds reported: {last:?}");
    assert!(last.iter().sum::<u64>() > 8, "the children hardly wrote: {last:?}");
}
