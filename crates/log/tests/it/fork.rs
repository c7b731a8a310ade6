//! A process that is forked from the one that has a log open has a copy of its handles, and drops them when it ends
//! orderly.
//!
//! What was lost: the log. Such a child unlocked the folder for its parent, too, so that a second process could open
//! the log beside it; it wrote the mark of an end into the log, and cut off the space behind, while the parent went on;
//! it removed the snapshot that its parent was writing; or it waited for ever, for a lock or a thread that it does not
//! have.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use everleaf_log::{
    Error, Log, LogOptions, RealDisk, Record, Recovered, Result, SnapshotWriter, SyncMode,
};

/// Seconds after which a child that hangs is ended.
const PATIENCE: u32 = 30;

const MODES: [SyncMode; 2] = [SyncMode::Sync, SyncMode::Interval(Duration::from_millis(5))];

/// Runs `act` in a forked child, and returns the code it ends with: 0, 101 if it panics, and 128
/// more than the signal that ends it.
fn in_child(act: impl FnOnce()) -> i32 {
    // SAFETY: the child runs `act` and ends. It has one thread, and what it uses of the standard
    // library and of the allocator works after a fork.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: a system call without memory.
        unsafe { libc::alarm(PATIENCE) };
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act));
        // SAFETY: ends the process at once; nothing of the parent's is run.
        unsafe { libc::_exit(if ended.is_ok() { 0 } else { 101 }) };
    }
    assert!(child > 0, "a process can be forked");
    let mut status = 0;
    // SAFETY: the status is ours, and the child is one of ours.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { 128 + libc::WTERMSIG(status) }
}

fn open(folder: &Path, mode: SyncMode) -> (Log, Recovered<RealDisk>) {
    Log::open(RealDisk::open(folder).unwrap(), &LogOptions::new([9; 16]).sync_mode(mode)).unwrap()
}

/// What was lost: ten seconds of every thread that waits for the log, which looked for a descriptor for its next
/// segment that others had, and then the log.
#[test]
fn a_log_keeps_a_descriptor_for_its_next_segment() {
    for mode in MODES {
        let folder = tempfile::tempdir().unwrap();
        let code = in_child(|| {
            let options = LogOptions::new([9; 16]).sync_mode(mode).segment_size_bytes(64 << 10);
            let (log, _) = Log::open(RealDisk::open(folder.path()).unwrap(), &options).unwrap();
            let put = |number: u64| {
                let lsn = log.append(&[Record::put(1, &number.to_be_bytes(), &[7; 3000])]).unwrap();
                log.wait(lsn).unwrap();
                log.sync().unwrap();
            };
            put(0);
            let limit = libc::rlimit { rlim_cur: 512, rlim_max: 512 };
            // SAFETY: a system call that reads this structure; the process is a child of the test.
            assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
            let others: Vec<_> =
                (0..).map_while(|_| std::fs::File::open("/dev/null").ok()).collect();
            assert!(!others.is_empty());
            (1..100).for_each(put);
            drop(others);
            log.close().unwrap();
        });
        assert_eq!(code, 0, "{mode:?}");
        let segments = files(folder.path()).into_keys().filter(|name| name.starts_with("log-"));
        assert!(segments.count() > 3);
    }
}

fn is_locked(folder: &Path) -> bool {
    matches!(RealDisk::open(folder), Err(Error::Locked(_)))
}

/// Everything in a folder.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(folder).unwrap().map(std::result::Result::unwrap);
    let file = |entry: std::fs::DirEntry| {
        (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap())
    };
    entries.map(file).collect()
}

fn append(log: &Log, key: &[u8]) {
    let lsn = log.append(&[Record::put(1, key, b"value")]).unwrap();
    log.wait_durable(lsn).unwrap();
}

/// The keys that a log has.
fn keys(recovered: &Recovered<RealDisk>) -> Vec<Vec<u8>> {
    let start = recovered.replay_start().unwrap();
    let mut keys = vec![];
    if let Some(snapshot) = &start.snapshot {
        for index in 0..snapshot.block_count() {
            keys.extend(snapshot.block(index).unwrap().pairs().map(|pair| pair.key.to_vec()));
        }
    }
    let note = |_, records: &[Record<'_>]| -> Result<()> {
        keys.extend(records.iter().map(|record| record.key.to_vec()));
        Ok(())
    };
    recovered.replay(start.from_lsn(), note).unwrap();
    keys
}

#[test]
fn a_child_that_drops_a_disk_leaves_its_lock() {
    let folder = tempfile::tempdir().unwrap();
    let mut disk = Some(RealDisk::open(folder.path()).unwrap());
    for _ in 0..3 {
        assert_eq!(in_child(|| drop(disk.take())), 0);
        assert!(is_locked(folder.path()), "it is the parent's");
    }
    drop(disk);
    assert!(!is_locked(folder.path()), "and goes with that");
}

#[test]
fn a_child_that_drops_a_log_leaves_it_to_its_parent() {
    for mode in MODES {
        let folder = tempfile::tempdir().unwrap();
        let mut log = Some(open(folder.path(), mode).0);
        append(log.as_ref().unwrap(), b"before");
        let before = files(folder.path());
        for closes in [false, true, false] {
            let code = in_child(|| match closes {
                true => assert!(matches!(log.take().unwrap().close(), Err(Error::Failed(_)))),
                false => drop(log.take()),
            });
            assert_eq!(code, 0, "{mode:?}, {closes}");
            assert!(is_locked(folder.path()), "{mode:?}: it is the parent's");
            assert!(files(folder.path()) == before, "{mode:?}: the log has not ended");
        }
        // Nor is a place of its parent that it has to drop one at which the log breaks off.
        let kept = log.take().unwrap();
        let mut place = Some(kept.place());
        assert_eq!(in_child(|| drop(place.take())), 0, "{mode:?}");
        place.unwrap().fill(&[Record::put(1, b"placed", b"value")]).unwrap();
        append(&kept, b"after");
        kept.close().unwrap();
        let (log, recovered) = open(folder.path(), mode);
        assert_eq!(keys(&recovered), [&b"before"[..], b"placed", b"after"], "{mode:?}");
        append(&log, b"later");
    }
}

#[test]
fn a_child_that_drops_a_snapshot_leaves_it_to_its_parent() {
    for mode in MODES {
        let folder = tempfile::tempdir().unwrap();
        let (log, _) = open(folder.path(), mode);
        append(&log, b"before");
        let mut snapshot = Some(SnapshotWriter::begin(&log).unwrap());
        snapshot.as_mut().unwrap().add(&Record::put(1, b"before", b"value")).unwrap();
        let before = files(folder.path());
        assert!(before.keys().any(|name| name.contains("unfinished")), "{:?}", before.keys());
        for _ in 0..3 {
            assert_eq!(in_child(|| drop(snapshot.take())), 0, "{mode:?}");
            assert!(files(folder.path()) == before, "{mode:?}: it is the parent's");
        }
        append(&log, b"after");
        assert_eq!(snapshot.take().unwrap().finish().unwrap().pair_count, 1);
        log.close().unwrap();
        assert_eq!(keys(&open(folder.path(), mode).1), [&b"before"[..], b"after"], "{mode:?}");
    }
}

/// With threads that hold locks at the moment of the fork.
#[test]
fn a_child_waits_for_no_thread_that_it_does_not_have() {
    for mode in MODES {
        let folder = tempfile::tempdir().unwrap();
        let (log, _) = open(folder.path(), mode);
        let is_over = AtomicBool::new(false);
        let mut count = 0_u32;
        std::thread::scope(|scope| {
            for thread in 0..3_u32 {
                let (log, is_over) = (&log, &is_over);
                scope.spawn(move || {
                    // Relaxed: it is only to end some time.
                    while !is_over.load(Ordering::Relaxed) {
                        append(log, &thread.to_le_bytes());
                    }
                });
            }
            for _ in 0..12 {
                let Ok(snapshot) = SnapshotWriter::begin(&log) else { break };
                let (mut snapshot, mut place) = (Some(snapshot), Some(log.place()));
                let code = in_child(|| {
                    drop((place.take(), snapshot.take()));
                    // SAFETY: the child ends without using the original.
                    drop(unsafe { std::ptr::read(&raw const log) });
                });
                place.take().unwrap().give_up();
                if code != 0 || snapshot.take().unwrap().finish().is_err() {
                    break;
                }
                count += 1;
            }
            // Relaxed: it is only to end some time.
            is_over.store(true, Ordering::Relaxed);
        });
        assert_eq!(count, 12, "{mode:?}: the next child did not end as it should");
        log.close().unwrap();
        drop(open(folder.path(), mode));
    }
}
