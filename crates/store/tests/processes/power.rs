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
    map.iter().map(Result::unwrap).map(with_expiry).collect()
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
            0 => drop(store.default_map().put(key, &value).expect("room")),
            1 => drop(store.default_map().remove(key).expect("room")),
            2 => drop(
                store
                    .default_map()
                    .put_with_expiry(key, &value, Expiry::from_unix_ms(LATER + u64::from(round)))
                    .expect("room"),
            ),
            3 => drop(
                store.default_map().update_with(key, |_| Action::Put(value.clone())).expect("room"),
            ),
            4 => drop(store.default_map().insert(key, &value).expect("room")),
            5 => {
                let mut batch = WriteBatch::new();
                batch
                    .put(store.default_map(), key, b"batch")
                    .remove(&second, key)
                    .put(&second, b"b", &value);
                store.write(&batch).expect("room");
            }
            _ => {
                store.default_map().expire(key, Expiry::from_unix_ms(LATER)).expect("room");
                let _ = second.put(key, &value).expect("room");
            }
        }
    }
    let cleared = store.map("cleared").expect("room");
    cleared.put(b"before", b"x").expect("room");
    cleared.clear().expect("room");
    cleared.put(b"after", [round as u8]).expect("room");
    store.map("dropped").expect("room").put(b"k", b"x").expect("room");
    assert!(store.drop_map("dropped").expect("writable"));
    if round % 2 == 1 {
        store.map("dropped").expect("room").put(b"again", b"x").expect("room");
    }
    store.default_map().put_with_expiry(b"past", b"x", Expiry::from_unix_ms(1)).expect("room");
}

#[test]
fn a_lost_pool_is_rebuilt_from_the_log_alone_and_from_snapshots() {
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
    store.default_map().put(b"before", b"1").expect("room");
    assert!(matches!(store.snapshot(), Err(Error::Unsupported(_))));
    drop(store);
    assert!(!log.exists());
    let store = open(folder.path(), Durability::Power);
    store.default_map().put(b"with", b"1").expect("room");
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
    assert_eq!(
        contents(store.default_map()).len(),
        2,
        "what was there before the log is in its first snapshot"
    );
    drop(store);
    let store = open(folder.path(), Durability::Process);
    assert_eq!(contents(store.default_map()).len(), 2);
    store.default_map().put(b"without", b"1").expect("room");
    drop(store);
    assert!(!log.exists(), "a log that does not have everything must not be used again");
    let store = open(folder.path(), Durability::Power);
    drop(store);
    lose_pool(folder.path());
    assert_eq!(contents(open(folder.path(), Durability::Power).default_map()).len(), 3);
}

#[test]
fn a_compacted_pool_keeps_its_log_and_no_other_takes_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let store = open(folder.path(), Durability::Power);
    change_everything(&store, 1);
    store.close().expect("closed");
    Store::compact(&path, |_| {}).expect("room");
    // Opened as it was opened last: with its log.
    let store = Options::new().open(&path).expect("it opens");
    assert_eq!(store.statistics().durability.name(), "power");
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
        let error = options(durability).open(&path).expect_err("that log is not its own");
        assert!(matches!(error, Error::Corrupt(_)), "{error}");
    }
}

/// Copies a file, or the files of a folder.
fn copy(from: &Path, to: &Path) {
    if from.is_file() {
        std::fs::copy(from, to).expect("room");
        return;
    }
    std::fs::create_dir_all(to).expect("room");
    for entry in std::fs::read_dir(from).expect("the folder is there") {
        let entry = entry.expect("the folder is readable");
        copy(&entry.path(), &to.join(entry.file_name()));
    }
}

#[test]
fn what_a_dead_process_had_before_the_log_gets_into_it() {
    let (folder, copied) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = open(folder.path(), Durability::Power);
    store.default_map().put(b"before", b"1").expect("room");
    let emptied = store.map("emptied").expect("room");
    emptied.put(b"old", b"1").expect("room");
    copy(&folder.path().join("pool.log"), &copied.path().join("pool.log"));
    // As if the process had died between the change of the pool and the sync of the log.
    store.map("new").expect("room").put(b"k", b"1").expect("room");
    emptied.clear().expect("room");
    store.default_map().put(b"behind", b"1").expect("room");
    copy(&folder.path().join("pool"), &copied.path().join("pool"));
    drop((store, emptied));

    let store = open(copied.path(), Durability::Power);
    assert_eq!(store.rebuilt(), None);
    for name in ["new", "emptied"] {
        let map = store.existing_map(name).expect("of strings").expect("there");
        map.put(b"acknowledged", b"1").expect("room");
    }
    let expected = all(&store);
    assert_eq!(expected["new"].len(), 2);
    assert_eq!(expected["emptied"].len(), 1);
    drop(store);
    lose_pool(copied.path());
    assert_eq!(all(&open(copied.path(), Durability::Power)), expected);
}

#[test]
fn a_map_that_many_make_has_its_number_before_the_first_write() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path(), Durability::Interval(Duration::from_millis(20)));
    for round in 0..40 {
        let name = format!("map {round}");
        let barrier = std::sync::Barrier::new(3);
        std::thread::scope(|scope| {
            for writer in 0..3u8 {
                let (store, name, barrier) = (&store, &name, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    // The key is the name of a map: it must not be taken for one in the log.
                    let map = store.map(name).expect("room");
                    map.put(b"default", b"four").expect("room");
                    map.put([writer], b"x").expect("room");
                });
            }
        });
        if round % 3 == 1 {
            assert!(store.drop_map(&name).expect("writable"));
        }
    }
    let expected = all(&store);
    assert_eq!(expected.values().map(Contents::len).sum::<usize>(), 27 * 4);
    drop(store);
    lose_pool(folder.path());
    assert_eq!(all(&open(folder.path(), Durability::Power)), expected);
}

#[test]
fn many_threads_write_while_a_map_is_emptied() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path(), Durability::Interval(Duration::from_millis(20)));
    let barrier = std::sync::Barrier::new(150);
    std::thread::scope(|scope| {
        for writer in 0..150u32 {
            let (store, barrier) = (&store, &barrier);
            scope.spawn(move || {
                barrier.wait();
                for n in 0..4u32 {
                    if writer % 50 == 0 {
                        store.default_map().clear().expect("room");
                    }
                    store.default_map().put((writer * 4 + n).to_be_bytes(), b"x").expect("room");
                }
            });
        }
    });
    let expected = all(&store);
    drop(store);
    lose_pool(folder.path());
    assert_eq!(all(&open(folder.path(), Durability::Power)), expected);
}

#[test]
fn a_failed_log_keeps_maps_from_being_emptied_dropped_and_made() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path(), Durability::Interval(Duration::from_millis(20)));
    store.map("other").expect("room").put(b"k", b"1").expect("room");
    store.default_map().put(b"k", b"1").expect("room");
    // The log cannot make its next segment.
    std::fs::remove_dir_all(folder.path().join("pool.log")).expect("it was there");
    let value = vec![7; 1 << 20];
    let error = (0..1000)
        .find_map(|_| store.default_map().put(b"large", &value).err())
        .expect("no segment");
    assert!(!matches!(error, Error::PoolFull(_)), "{error}");
    let before = all(&store);
    assert!(store.default_map().clear().is_err());
    assert!(store.drop_map("other").is_err());
    assert!(store.map("made").is_err());
    assert_eq!(all(&store), before);
    assert!(store.close().is_err());
    assert_eq!(all(&open(folder.path(), Durability::Power)), before);
}

fn newest_snapshot(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder.join("pool.log")).expect("there");
    let names = entries.map(|entry| entry.expect("readable").file_name().into_string());
    let number = |name: String| u64::from_str_radix(name.strip_prefix("snapshot-")?, 16).ok();
    names.filter_map(|name| number(name.expect("ascii"))).max().unwrap_or(0)
}

#[test]
fn short_lives_add_up_to_a_snapshot_with_large_values_in_pieces() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut snapshots = vec![];
    for n in 0..12u8 {
        let options = options(Durability::Power).snapshot_after_bytes(400_000);
        let store = options.open(folder.path().join("pool")).expect("it opens");
        store.default_map().put([n], vec![n; 100_000]).expect("room");
        store.close().expect("closed");
        snapshots.push(newest_snapshot(folder.path()));
    }
    assert_eq!(snapshots, [1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3], "one per four values");
    lose_pool(folder.path());
    let store = open(folder.path(), Durability::Power);
    assert_eq!(store.default_map().len(), 12);
    assert_eq!(store.rebuilt().map(|rebuilt| rebuilt.snapshot_pairs), Some(8));
    assert_eq!(store.snapshot().expect("room"), 12);
}

/// What a folder of a log takes, in bytes.
fn log_size(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder.join("pool.log")).expect("there");
    let size = |entry: std::io::Result<std::fs::DirEntry>| entry.ok()?.metadata().ok();
    entries.filter_map(size).map(|file| file.len()).sum()
}

#[test]
fn small_writes_waited_for_one_by_one_add_up_to_a_snapshot() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = || options(Durability::Power).snapshot_after_bytes(64 << 10);
    // Lives of 50 writes, each of 100 bytes of keys and values, and of 200 KiB of files: a snapshot is due
    // when 256 KiB are exceeded.
    for _ in 0..3 {
        let store = options().open(folder.path().join("pool")).expect("it opens");
        for n in 0..50u8 {
            store.default_map().put([n], b"v").expect("room");
        }
        store.close().expect("closed");
    }
    assert_eq!(newest_snapshot(folder.path()), 2, "{} bytes", log_size(folder.path()));
}

#[test]
fn a_pool_with_a_map_of_integers_gets_no_log_without_it() {
    let folder = tempfile::tempdir().expect("a folder");
    open(folder.path(), Durability::Process).close().expect("closed");
    let pool = everleaf_index::Pool::open(&folder.path().join("pool"), &Default::default());
    let trees: everleaf_index::Trees =
        everleaf_index::Trees::open(pool.expect("it opens"), 1).expect("it opens");
    trees.u64_tree("numbers").expect("room");
    trees.close().expect("closed");
    drop(trees);
    let error = options(Durability::Power).open(folder.path().join("pool")).err();
    assert!(matches!(error, Some(Error::Unsupported(_))), "{error:?}");
    let store = options(Durability::Process).open(folder.path().join("pool")).expect("as before");
    assert_eq!(store.map_names(), ["default", "numbers"]);
}

/// A pool has 1000 names: here 999 maps and that of the log. The one that is made in its place must not
/// need more, such as a journal of batches.
#[test]
fn a_pool_with_as_many_maps_as_there_can_be_is_made_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path(), Durability::Interval(Duration::from_secs(60)));
    let names = (0..).map(|number| format!("map {number}"));
    let made = names.take_while(|name| store.map(name).is_ok()).count();
    assert_eq!(made, 998, "and the default one");
    for number in 0..5000u32 {
        store.default_map().put(number.to_be_bytes(), b"value").expect("room");
    }
    store.close().expect("closed");
    lose_pool(folder.path());
    let store = open(folder.path(), Durability::Power);
    assert_eq!((store.map_names().len(), store.default_map().len()), (999, 5000));
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
                let start = stamp(store.default_map(), writer, 0).unwrap_or(0);
                let mut batch = WriteBatch::new();
                for n in start + 1.. {
                    if n % 2 == 0 {
                        batch.clear();
                        (0..4).for_each(|number| {
                            batch.put(store.default_map(), key(writer, number), n.to_le_bytes());
                        });
                        store.write(&batch).expect("room");
                    } else {
                        for number in (0..4).rev() {
                            store
                                .default_map()
                                .put(key(writer, number), n.to_le_bytes())
                                .expect("room");
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
    let value = map.get(key(writer, number)).expect("get")?;
    Some(u64::from_le_bytes(value.try_into().expect("eight bytes")))
}

#[test]
fn what_a_killed_process_reported_is_in_its_log() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut last, mut patience) = (vec![0; WRITERS as usize], 1);
    for round in 0..8u64 {
        let before: u64 = last.iter().sum();
        let mut child = Command::new(std::env::current_exe().expect("the test has a path"))
            .args(["--exact", "power::child_process", "--test-threads=1"])
            .env(CHILD, folder.path())
            .stdout(Stdio::null())
            .spawn()
            .expect("the child starts");
        // Not to synchronise: the moment of the kill is to be any. On a busy machine they live longer.
        std::thread::sleep(Duration::from_millis(80 + round * 37 % 150) * patience);
        child.kill().expect("the child can be killed");
        child.wait().expect("the child can be awaited");
        if !folder.path().join("pool.log/identity").exists() {
            // It never got so far as to acknowledge anything.
            let _ = std::fs::remove_file(folder.path().join("pool"));
            patience *= 2;
            continue;
        }
        if round % 4 != 3 {
            lose_pool(folder.path());
        }
        let store = open(folder.path(), Durability::Power);
        for writer in 0..WRITERS {
            let report = std::fs::metadata(folder.path().join(format!("report.{writer}")));
            let reported = last[writer as usize] + report.map_or(0, |report| report.len());
            let stamps: Vec<u64> = (0..4)
                .map(|number| stamp(store.default_map(), writer, number).unwrap_or(0))
                .collect();
            // Of an odd round, which was cut short, the last keys may be newer.
            let n = stamps[0];
            assert!((reported..=reported + 1).contains(&n), "{n}, but {reported} were reported");
            let next = stamps.iter().any(|stamp| *stamp == n + 1);
            assert!(stamps.is_sorted() && stamps[3] <= n + 1, "{stamps:?}");
            assert!(!next || n == reported && n.is_multiple_of(2), "half a batch: {stamps:?}");
            for number in 0..4 {
                store.default_map().put(key(writer, number), n.to_le_bytes()).expect("room");
            }
            last[writer as usize] = n;
            let _ = std::fs::remove_file(folder.path().join(format!("report.{writer}")));
        }
        store.close().expect("closed");
        if last.iter().sum::<u64>() < before + WRITERS {
            patience *= 2;
        }
    }
    println!("rounds reported: {last:?}");
    assert!(last.iter().sum::<u64>() > 8, "the children hardly wrote: {last:?}");
}

#[test]
fn a_rebuilt_pool_is_as_large_and_durable_as_the_lost_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let interval = Durability::Interval(Duration::from_millis(70));
    let large = options(interval).max_size_bytes(1 << 31);
    let store = large.open(&path).expect("it opens");
    for number in 0..20_000u32 {
        store.default_map().put(number.to_be_bytes(), [7; 100]).expect("room");
    }
    assert_eq!(store.snapshot().expect("room"), 20_000);
    for number in 10_000..30_000u32 {
        store.default_map().put(number.to_be_bytes(), number.to_be_bytes()).expect("room");
    }
    for number in 0..1_000u32 {
        store.default_map().remove(number.to_be_bytes()).expect("writable");
    }
    let expected = all(&store);
    store.close().expect("closed");
    lose_pool(folder.path());
    let told = std::sync::Arc::new(std::sync::Mutex::new(vec![]));
    let tells = told.clone();
    let progress = move |count| tells.lock().expect("nobody panicked").push(count);
    let options = Options::new().rebuild_progress(progress).recovery_threads(3);
    let store = options.open(&path).expect("it opens");
    assert_eq!(all(&store), expected);
    assert_eq!(store.statistics().durability.name(), "interval");
    assert_eq!(store.statistics().pool_max_bytes, 1 << 31);
    let rebuilt = store.rebuilt().expect("it was lost");
    assert_eq!((rebuilt.snapshot_pairs, rebuilt.replayed), (20_000, 21_000));
    let told = told.lock().expect("nobody panicked").clone();
    assert!(told.len() > 3 && told.is_sorted(), "{told:?}");
    assert_eq!(told.last(), Some(&41_000));
    assert!(store.check().expect("a check").is_clean());
}

/// A thread that had asked a second store to defer waited for nothing of the first.
#[test]
fn a_thread_that_defers_for_two_stores_waits_for_both() {
    let folders = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    let [one, other] = folders.each_ref().map(|folder| open(folder.path(), Durability::Power));
    let lag = |store: &Store| store.statistics().log_lag;
    one.defer_sync();
    one.default_map().put(b"key", b"value").expect("room");
    other.defer_sync();
    other.default_map().put(b"key", b"value").expect("room");
    assert_eq!((lag(&one), lag(&other)), (1, 1), "they are deferred");
    one.wait_deferred().expect("the disk works");
    assert_eq!(lag(&one), 0);
    other.wait_deferred().expect("the disk works");
    assert_eq!(lag(&other), 0);
}
