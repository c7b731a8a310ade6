//! Loads of maps of byte strings by several threads that fail.
//!
//! The partition that failed gave back its first fence at once. The partition below was still being built, and read
//! that fence when it came to its end: by then another partition could have had the place for a pair of its own.
//! And a partition that found no session free left its fence behind, which a check called leaked.

use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

use everleaf_index::{AllocError, CreateMode, Domain, IndexError, Pool, PoolOptions, Trees};

/// Between the first partition and the second: no key.
const FENCE: &[u8] = b"m/where the second partition begins";
const LAST_FENCE: &[u8] = b"p/where the third partition begins.";

fn times_in(path: &Path, text: &[u8]) -> usize {
    let bytes = std::fs::read(path).expect("the pool file");
    bytes.windows(text.len()).filter(|window| *window == text).count()
}

fn fail_in_the_second_piece(makes_hashed_leaves: bool) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let options = PoolOptions {
        create: CreateMode::IfMissing,
        initial_size_bytes: 4 << 20,
        max_size_bytes: 4 << 20,
        ..PoolOptions::default()
    };
    let trees: Trees =
        Trees::create(Pool::open(&path, &options).expect("a new pool")).expect("room");
    if makes_hashed_leaves {
        trees.make_hashed_leaves().expect("writable");
    }
    let lows = [FENCE.to_vec(), LAST_FENCE.to_vec()];
    let (reused, found) = (Barrier::new(2), AtomicUsize::new(0));
    let loaded =
        trees.load_partitions::<IndexError>("map", &lows, 2, |partition, sink| match partition {
            0 => {
                sink(b"a", b"1", 0)?;
                reused.wait();
                // Relaxed: read when all threads have ended.
                found.store(times_in(&path, FENCE), Ordering::Relaxed);
                Ok(())
            }
            1 => {
                sink(b"n", b"1", 0)?;
                Err(IndexError::NotSorted(77))
            }
            // By the thread that had the partition that failed.
            _ => {
                let pushed = (0..5000).try_for_each(|number| {
                    let key = format!("q/{number:0width$}", width = FENCE.len() - 2);
                    sink(key.as_bytes(), b"", 0)
                });
                reused.wait();
                pushed
            }
        });
    let error = loaded.err().expect("the second partition failed");
    assert!(matches!(error, IndexError::NotSorted(77)), "{error}");
    // Relaxed: the threads that wrote it have ended.
    assert_eq!(
        found.load(Ordering::Relaxed),
        1,
        "the fence is there while a partition may read it"
    );
    assert_eq!(trees.check().expect("a check").problems, Vec::<String>::new());
}

#[test]
fn a_fence_stays_until_no_piece_is_being_built() {
    fail_in_the_second_piece(false);
    fail_in_the_second_piece(true);
}

#[test]
fn pieces_that_find_no_session_leave_nothing_behind() {
    let pool = Pool::in_memory(1 << 20, 1 << 30, Domain::Process).expect("memory");
    let trees: Trees = Trees::create(pool).expect("room");
    let mut sessions = vec![];
    while let Ok(session) = trees.heap().session() {
        sessions.push(session);
    }
    // One for the fences, none for the partitions.
    sessions.pop();
    let lows = [FENCE.to_vec(), LAST_FENCE.to_vec()];
    let feed = |_, _: &mut everleaf_index::Sink<'_>| Ok(());
    let loaded = trees.load_partitions::<IndexError>("map", &lows, 1, feed);
    let error = loaded.err().expect("no session is free");
    assert!(matches!(error, IndexError::Alloc(AllocError::TooManySessions(_))), "{error}");
    drop(sessions);
    assert_eq!(trees.check().expect("a check").problems, Vec::<String>::new());
}
