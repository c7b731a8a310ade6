//! Batches: all or nothing, for readers, with conditions, without space, and when the process dies.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use everleaf::{Error, Map, Options, Store, WriteBatch, Written};

const CHILD: &str = "EVERLEAF_BATCH_CHILD";
const WRITERS: u64 = 2;
const KEYS: u64 = 12;

fn open(folder: &Path) -> Store {
    let options = Options::new().create(true).max_size_bytes(1 << 30);
    options.open(folder.join("pool")).expect("the pool opens")
}

fn get(map: &Map, key: &[u8]) -> Option<String> {
    map.get(key).expect("get").map(|value| String::from_utf8(value).expect("text"))
}

#[test]
fn a_batch_changes_maps_and_the_last_change_of_a_key_counts() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    let other = store.map("other").expect("room");
    store.default_map().put(b"gone", b"x").expect("room");
    other.put(b"gone", b"x").expect("room");
    let mut batch = WriteBatch::new();
    batch
        .put(store.default_map(), b"a", b"1")
        .put(&other, b"a", b"2")
        .remove(store.default_map(), b"gone");
    batch.put(store.default_map(), b"twice", b"old").put(store.default_map(), b"twice", b"new");
    batch
        .put(store.default_map(), b"back", b"x")
        .remove(store.default_map(), b"back")
        .remove(store.default_map(), b"never");
    batch.remove(&other, b"gone").put(&other, b"gone", b"y");
    assert_eq!(batch.len(), 10);
    assert_eq!(store.write(&batch).expect("room"), Written::All);
    assert_eq!(get(store.default_map(), b"a").as_deref(), Some("1"));
    assert_eq!(get(&other, b"a").as_deref(), Some("2"));
    assert_eq!(get(store.default_map(), b"twice").as_deref(), Some("new"));
    assert_eq!(get(&other, b"gone").as_deref(), Some("y"));
    for key in [&b"gone"[..], b"back", b"never"] {
        assert_eq!(get(store.default_map(), key), None);
    }
    assert_eq!((store.default_map().len(), other.len()), (2, 2));
    assert_eq!(store.map_names(), ["default", "other"], "the journal is nobody's business");
    let report = store.check().expect("the check runs");
    assert!(report.is_clean(), "{:?}", report.problems);
    assert_eq!(report.keys, 4);
}

#[test]
fn a_condition_that_does_not_hold_leaves_everything_as_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    store.default_map().put(b"a", b"1").expect("room");
    let cases = [
        ("a", Some("1"), Written::All),
        ("a", Some("2"), Written::Refused(1)),
        ("a", None, Written::Refused(1)),
        ("absent", None, Written::All),
        ("absent", Some(""), Written::Refused(1)),
    ];
    for (key, value, expected) in cases {
        store.default_map().remove(b"seen").expect("room");
        let mut batch = WriteBatch::new();
        batch
            .put(store.default_map(), b"seen", b"yes")
            .expect(store.default_map(), b"never", None)
            .expect(store.default_map(), key.as_bytes(), value.map(str::as_bytes));
        assert_eq!(store.write(&batch).expect("room"), expected, "{key:?} {value:?}");
        assert_eq!(store.default_map().contains(b"seen").expect("get"), expected.is_done());
    }
}

#[test]
fn what_cannot_be_written_is_refused_as_a_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    let (second, gone) = (tempfile::tempdir().expect("a folder"), store.map("gone").expect("room"));
    let foreign = open(second.path());
    store.drop_map("gone").expect("writable");
    let long = vec![0; everleaf::KEY_SIZE_MAX + 1];
    let mut batch = WriteBatch::new();
    batch.put(store.default_map(), b"a", b"1").put(store.default_map(), &long, b"");
    assert!(matches!(store.write(&batch), Err(Error::KeyTooLarge(_))));
    batch.clear();
    batch.put(store.default_map(), b"a", b"1").remove(store.default_map(), &long);
    assert!(matches!(store.write(&batch), Err(Error::KeyTooLarge(_))));
    batch.clear();
    batch.put(store.default_map(), b"a", b"1").put(&gone, b"a", b"1");
    assert!(matches!(store.write(&batch), Err(Error::MapDropped)));
    batch.clear();
    batch.put(store.default_map(), b"a", b"1").put(foreign.default_map(), b"a", b"1");
    assert!(matches!(store.write(&batch), Err(Error::OtherStore(_))));
    assert!(store.default_map().is_empty(), "nothing of a refused batch may be there");
    assert!(matches!(store.map("\u{1}batches"), Err(Error::BadName(_))));
    assert!(store.check().expect("the check runs").is_clean(), "what was prepared leaks");
}

/// Gets a value inside of a get, and so on, until one is refused.
fn nested(store: &Store) -> Error {
    match store.default_map().get_with(b"k", |_| nested(store)) {
        Ok(inner) => inner.expect("the key is there"),
        Err(error) => error,
    }
}

/// Both were `Unsupported`, as if the machine could not do it, while the one is over when others have
/// ended, and the other is a mistake of the program.
#[test]
fn a_write_from_within_and_too_many_operations_are_told_apart() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    store.default_map().put(b"k", b"v").expect("room");
    let mut batch = WriteBatch::new();
    batch.put(store.default_map(), b"b", b"1");
    let written = store.default_map().get_with(b"k", |_| store.write(&batch));
    let error = written.expect("get").expect("there").expect_err("it would wait for the get");
    assert!(matches!(error, Error::Nested(_)), "{error:?}");
    let error = nested(&store);
    assert!(matches!(error, Error::TooManySessions(_)), "{error:?}");
    assert!(store.write(&batch).expect("all have ended").is_done());
}

#[test]
fn readers_never_see_half_a_batch() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    let rounds = 3000u64;
    let writing = Arc::new(());
    let watch = Arc::downgrade(&writing);
    let key = |number: u64| number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
    let read = |number| {
        let value = store.default_map().get(key(number)).expect("get");
        value.map_or(0, |value| u64::from_le_bytes(value.try_into().expect("eight bytes")))
    };
    std::thread::scope(|scope| {
        let (store, key, watch) = (&store, &key, &watch);
        scope.spawn(move || {
            let mut batch = WriteBatch::new();
            for round in 1..=rounds {
                batch.clear();
                (0..8).for_each(|number| {
                    batch.put(store.default_map(), key(number), round.to_le_bytes());
                });
                store.write(&batch).expect("room");
            }
            drop(writing);
        });
        scope.spawn(move || {
            // Writes of other keys, to keep the stripes and the leaves busy.
            for number in 100.. {
                if watch.strong_count() == 0 {
                    break;
                }
                store.default_map().put(key(100 + number % 500), b"other").expect("room");
            }
        });
        let mut last = 0;
        while watch.strong_count() > 0 {
            // A thread that has seen a change of a batch sees the rest of it.
            for number in 0..8 {
                let seen = read(number);
                assert!(seen >= last, "batch {seen} after batch {last}");
                last = seen;
            }
        }
    });
    assert!((0..8).all(|number| read(number) == rounds));
}

#[test]
fn counters_moved_by_conditional_batches_keep_their_sum() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    let parse = |value: Option<Vec<u8>>| -> i64 {
        String::from_utf8(value.expect("there")).expect("text").parse().expect("a number")
    };
    for account in 0..4u8 {
        store.default_map().put([account], b"100").expect("room");
    }
    std::thread::scope(|scope| {
        for thread in 0..3u32 {
            let (store, parse) = (&store, &parse);
            scope.spawn(move || {
                let mut done = 0;
                let mut batch = WriteBatch::new();
                while done < 200 {
                    let account = |number: u32| (number % 4) as u8;
                    let (from, to) = (account(thread + done), account(thread + 2 * done + 1));
                    if from == to {
                        done += 1;
                        continue;
                    }
                    let (a, b) = (
                        store.default_map().get([from]).expect("get"),
                        store.default_map().get([to]).expect("get"),
                    );
                    batch.clear();
                    batch.expect(store.default_map(), [from], a.as_deref()).expect(
                        store.default_map(),
                        [to],
                        b.as_deref(),
                    );
                    batch.put(store.default_map(), [from], (parse(a) - 1).to_string().as_bytes());
                    batch.put(store.default_map(), [to], (parse(b) + 1).to_string().as_bytes());
                    done += u32::from(store.write(&batch).expect("room").is_done());
                }
            });
        }
    });
    let sum: i64 =
        (0..4u8).map(|account| parse(store.default_map().get([account]).expect("get"))).sum();
    assert_eq!(sum, 400);
}

#[test]
fn a_batch_without_space_leaves_nothing_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = Options::new().create(true).max_size_bytes(4 << 20);
    let store = options.open(folder.path().join("pool")).expect("the pool opens");
    let mut batch = WriteBatch::new();
    let (mut round, mut refused) = (0u64, 0);
    while refused < 40 {
        batch.clear();
        for number in 0..40u64 {
            let key = (round * 40 + number).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
            batch.put(store.default_map(), key, vec![7; 10 + (number as usize % 5) * 60]);
        }
        if round > 0 {
            // Something that must come back.
            batch.put(store.default_map(), b"last", round.to_le_bytes());
        }
        let before = (store.default_map().len(), store.default_map().get(b"last").expect("get"));
        match store.write(&batch) {
            Ok(_) => {
                assert_eq!(store.default_map().get(b"last").expect("get").is_some(), round > 0)
            }
            Err(Error::PoolFull(_)) => {
                refused += 1;
                assert_eq!(
                    (store.default_map().len(), store.default_map().get(b"last").expect("get")),
                    before
                );
            }
            Err(error) => panic!("{error}"),
        }
        round += 1;
    }
    let report = store.check().expect("the check runs");
    assert!(report.is_clean(), "{:?}", report.problems);
    assert_eq!(report.keys, store.default_map().len());
}

/// Fills the store, and makes room piece by piece until a batch of many small puts is rolled back: records take their
/// space before the first change, and most leaves only when they are split.
fn roll_back_one(store: &Store, make: impl Fn(&mut WriteBatch)) {
    let map = store.default_map();
    let spread = |number: u64| number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
    let pieces =
        (0..).take_while(|number: &u32| map.put(number.to_be_bytes(), [7; 60_000]).is_ok());
    let pieces = pieces.count() as u32;
    let count = (0..).take_while(|number| map.put(spread(*number), b"").is_ok()).count() as u64;
    let mut batch = WriteBatch::new();
    make(&mut batch);
    for number in count..count + 30_000 {
        batch.put(map, spread(number), b"");
    }
    let before = store.rollback_count();
    for number in 0..pieces {
        assert!(map.remove(number.to_be_bytes()).expect("a removal needs no space"));
        let written = store.write(&batch);
        assert!(matches!(written, Err(Error::PoolFull(_))), "{written:?} without a rollback");
        if store.rollback_count() > before {
            return;
        }
    }
    panic!("none was rolled back");
}

/// A thread that had read members of a batch that was rolled back, by a scan, depended on a header alone that was as
/// before, and wrote what never was to another key. And one that had read a key of it, and watched that, was told
/// nothing.
#[test]
fn a_rolled_back_batch_refuses_those_that_may_have_read_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = Options::new().create(true).max_size_bytes(8 << 20).sweep(false);
    let store = options.open(folder.path().join("pool")).expect("the pool opens");
    let map = store.default_map();
    map.put(b"header", b"old").expect("room");
    let (before, watch) = (store.rollback_count(), map.watch(b"header").expect("it is there"));
    let mut reader = WriteBatch::new();
    reader.expect(map, b"header", Some(b"old")).expect_no_rollback(before).remove(map, b"copy");
    assert_eq!(store.write(&reader).expect("no space is needed"), Written::All);
    let mut watcher = WriteBatch::new();
    watcher.expect_unwritten(&watch).remove(map, b"copy");
    assert_eq!(store.write(&watcher).expect("no space is needed"), Written::All);
    // It depends on what it changes itself, and is tried twice: its own rollback is no reason to refuse it.
    roll_back_one(&store, |batch| {
        batch.expect_unwritten(&watch).expect_no_rollback(before).put(map, b"header", b"new");
    });
    assert_eq!(get(map, b"header").as_deref(), Some("old"));
    assert_eq!(store.write(&reader).expect("no space is needed"), Written::Refused(1));
    assert_eq!(store.write(&watcher).expect("no space is needed"), Written::Refused(0));
    reader.clear();
    reader.expect_no_rollback(store.rollback_count()).remove(map, b"copy");
    assert_eq!(store.write(&reader).expect("no space is needed"), Written::All);
}

#[test]
fn child_process() {
    let Ok(folder) = std::env::var(CHILD) else { return };
    let folder = Path::new(&folder);
    let store = open(folder);
    let second = store.map("second").expect("room");
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (store, second) = (&store, &second);
            scope.spawn(move || {
                let report = folder.join(format!("report.{writer}"));
                let mut report = File::create(report).expect("the report is writable");
                let start = stamp(store.default_map(), writer, 0).unwrap_or(0);
                let mut batch = WriteBatch::new();
                for n in start + 1.. {
                    fill(&mut batch, store, second, writer, n);
                    store.write(&batch).expect("room");
                    // Another change of one of its keys: a batch that is done again would undo it.
                    store
                        .default_map()
                        .put(format!("extra:{writer}").into_bytes(), n.to_le_bytes())
                        .expect("room");
                    report.write_all(b".").expect("the report is writable");
                }
            });
        }
    });
}

fn key(writer: u64, number: u64) -> Vec<u8> {
    format!("{number:04}:{writer}").into_bytes()
}

fn fill(batch: &mut WriteBatch, store: &Store, second: &Map, writer: u64, n: u64) {
    batch.clear();
    for number in 0..KEYS {
        let mut value = n.to_le_bytes().to_vec();
        value.resize(8 + (n as usize * 37 + number as usize) % 200, b'v');
        batch.put(
            if number % 2 == 0 { store.default_map() } else { second },
            key(writer, number),
            &value,
        );
    }
    // A key that comes with every odd batch and goes with every even one.
    match n % 2 {
        0 => batch.remove(store.default_map(), format!("odd:{writer}").into_bytes()),
        _ => batch.put(store.default_map(), format!("odd:{writer}").into_bytes(), b""),
    };
    batch.put(store.default_map(), format!("extra:{writer}").into_bytes(), (n - 1).to_le_bytes());
}

/// The number of the batch that wrote a key.
fn stamp(map: &Map, writer: u64, number: u64) -> Option<u64> {
    let value = map.get(key(writer, number)).expect("get")?;
    Some(u64::from_le_bytes(value[..8].try_into().expect("eight bytes")))
}

#[test]
fn a_killed_process_leaves_whole_batches() {
    let rounds: u64 =
        std::env::var("EVERLEAF_KILL_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(20);
    let folder = tempfile::tempdir().expect("a folder");
    let (mut finished, mut last, mut patience) = (0, vec![0; WRITERS as usize], 1);
    for round in 0..rounds {
        let before: u64 = last.iter().sum();
        let mut child = Command::new(std::env::current_exe().expect("the test has a path"))
            .args(["--exact", "batches::child_process", "--test-threads=1"])
            .env(CHILD, folder.path())
            .stdout(Stdio::null())
            .spawn()
            .expect("the child starts");
        // Not to synchronise: the moment of the kill is to be any. On a busy machine they live longer.
        std::thread::sleep(Duration::from_micros(15_000 + round * 7919 % 60_000) * patience);
        child.kill().expect("the child can be killed");
        child.wait().expect("the child can be awaited");
        if !folder.path().join("pool").exists() {
            patience *= 2;
            continue;
        }
        let store = open(folder.path());
        finished += store.statistics().recovered_batches;
        let second = store.map("second").expect("room");
        for writer in 0..WRITERS {
            let report = std::fs::metadata(folder.path().join(format!("report.{writer}")));
            let reported = last[writer as usize] + report.map_or(0, |report| report.len());
            let n = stamp(store.default_map(), writer, 0).unwrap_or(0);
            assert!((reported..=reported + 1).contains(&n), "{n}, but {reported} were reported");
            for number in 1..KEYS {
                let map: &Map = if number % 2 == 0 { store.default_map() } else { &second };
                assert_eq!(stamp(map, writer, number).unwrap_or(0), n, "half a batch");
            }
            let odd =
                store.default_map().contains(format!("odd:{writer}").into_bytes()).expect("get");
            assert_eq!(odd, n % 2 == 1, "half a batch");
            let extra =
                store.default_map().get(format!("extra:{writer}").into_bytes()).expect("get");
            let extra = extra.map_or(0, |value| u64::from_le_bytes(value.try_into().expect("8")));
            // The change after the batch was made, unless the process died between the two.
            assert!(extra == n || (extra + 1 == n && n > reported), "{extra} after batch {n}");
            store
                .default_map()
                .put(format!("extra:{writer}").into_bytes(), n.to_le_bytes())
                .expect("room");
            last[writer as usize] = n;
            let _ = std::fs::remove_file(folder.path().join(format!("report.{writer}")));
        }
        let report = store.check().expect("the check runs");
        assert!(report.is_clean(), "round {round}: {:?}", report.problems);
        drop(second);
        store.close().expect("the pool closes");
        if last.iter().sum::<u64>() < before + WRITERS {
            patience *= 2;
        }
    }
    println!("{rounds} kills, batches {last:?}, {finished} brought to their end");
    assert!(last.iter().sum::<u64>() > rounds, "the children hardly wrote: {last:?}");
}
