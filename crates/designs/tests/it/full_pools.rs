//! Pools that are full: the log of SPTree's buffers takes no more of them than it needs.

#![expect(clippy::print_stdout, reason = "what was counted is the result")]

use std::path::Path;

use everleaf_designs::{SpTree, SpTreeBuffered, SpTreeCheckpointed, SpTreePlain};
use everleaf_index::{CreateMode, Design, Pool, PoolOptions, Production, SingleTreePool};

/// Threads would have as many: each could have a log of its own.
const SESSIONS: usize = 8;
/// So many that leaves with room are filled, too.
const REFUSED: u64 = 5000;

fn key(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 1
}

fn open<T: Design>(path: &Path, max_size: u64) -> SingleTreePool<T> {
    let create = CreateMode::IfMissing;
    let options = PoolOptions { create, max_size_bytes: max_size, ..PoolOptions::default() };
    SingleTreePool::open(Pool::open(path, &options).expect("the pool opens"), 1).expect("the tree")
}

/// Inserts keys until many were refused, then removes some, before and after the death of the process; how many keys
/// there were.
fn keys_of<T: Design>(max_size: u64) -> u64 {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pool");
    let single = open::<T>(&path, max_size);
    let mut sessions: Vec<_> =
        (0..SESSIONS).map(|_| single.heap().session().expect("a free session")).collect();
    let (mut there, mut refused) = (vec![], 0);
    for number in 0.. {
        let session = &mut sessions[number as usize % SESSIONS];
        match single.tree().insert(session, key(number), number) {
            Ok(_) => there.push(number),
            Err(error) => {
                assert!(error.is_full(), "{error}");
                refused += 1;
                if refused == REFUSED {
                    break;
                }
            }
        }
    }
    println!("{}: {} keys in {} MiB", T::INFO.name, there.len(), max_size >> 20);
    let (gone, stay) = there.split_at(2000);
    let (first, then) = gone.split_at(1000);
    for number in first {
        let removed =
            single.tree().remove(&mut sessions[0], key(*number)).expect("it needs no room");
        assert_eq!(removed, Some(*number));
    }
    drop(sessions);
    // A chunk of the log whose records found no room for long is not damaged.
    assert_eq!(single.check().expect("a check").problems, Vec::<String>::new());
    drop(single);
    let single = open::<T>(&path, max_size);
    let mut session = single.heap().session().expect("a free session");
    for number in then {
        let removed = single.tree().remove(&mut session, key(*number)).expect("it needs no room");
        assert_eq!(removed, Some(*number));
    }
    for number in stay {
        assert_eq!(single.tree().get(&mut session, key(*number)).expect("whole"), Some(*number));
    }
    drop(session);
    let report = single.check().expect("a check");
    assert_eq!((report.problems, report.keys), (vec![], stay.len() as u64));
    there.len() as u64
}

/// Logs grew up to sixteen chunks each, whatever the size of the pool, and were trimmed only when one grew: a pool was
/// full with two fifths of the keys, and stayed so.
#[test]
fn a_log_takes_little_of_a_small_pool() {
    for size in [4 << 20, 6 << 20] {
        let without = keys_of::<SpTree<Production>>(size);
        let with = [
            keys_of::<SpTreeBuffered<Production>>(size),
            keys_of::<SpTreeCheckpointed<Production>>(size),
            keys_of::<SpTreePlain<Production>>(size),
        ];
        assert!(with.iter().all(|count| count * 10 >= without * 9), "{with:?} of {without}");
    }
}
