//! Batches that change expiries, and do not come to their end: rolled back beside a snapshot, or cut off from their
//! log.
//!
//! What was not tried: rollbacks were tested with puts alone, though a short value's record is written again for a new
//! expiry, which others can see before it is rolled back.

use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use everleaf_index::{AllocError, BatchOp, NotMade};
use everleaf_log::simulated::{Faults, SimulatedDisk};
use everleaf_log::{Record, SnapshotWriter};

use super::super::super::NAMES;
use super::world::{contents, folder, options};
use crate::{DEFAULT_MAP, Error, Expiry, Map, Store, WriteBatch};

/// A time that does not come, in milliseconds.
const LATER: u64 = 1 << 45;

fn expiry_of(map: &Map, key: &str) -> u64 {
    map.expiry(key).expect("readable").expect("it is there").as_unix_ms()
}

fn fill(map: &Map) {
    map.put("first", "old").expect("room");
    map.put("short", "value").expect("room");
    map.put_with_expiry("timed", "value", Expiry::from_unix_ms(LATER)).expect("room");
}

/// A batch of a put and two expiries is rolled back while a snapshot has read all three; then the power fails. The
/// put's value, and the expiries, as they are read then, and whether there is a snapshot. `is_damaged`: the record that
/// the put would have replaced.
fn rolled_back_beside_a_snapshot(
    mutant: Option<&'static str>,
    is_damaged: bool,
) -> (Vec<u8>, [u64; 2], bool) {
    let faults = Faults { mutants: mutant.into_iter().collect(), ..Faults::default() };
    let (folder, disk) = (folder(), SimulatedDisk::new(faults, 1));
    let path = folder.path().join("pool");
    let store = options(&disk).open(&path).expect("it opens");
    let (map, log) = (store.default_map(), store.shared().log.as_ref().expect("it has a log"));
    fill(map);
    if is_damaged {
        // The pool is mapped: it is changed under the open store.
        let pool = std::fs::read(&path).expect("it is there");
        let at = pool.windows(8).position(|bytes| bytes == b"firstold").expect("it is there") + 7;
        let file = std::fs::File::options().write(true).open(&path).expect("it is there");
        file.write_all_at(&[pool[at] ^ 1], at as u64).expect("room");
        assert!(matches!(map.replace("first", "new"), Err(Error::Corrupt(_))), "it is looked at");
    }
    let mut snapshot = SnapshotWriter::begin(&log.log).expect("the disk works");
    let operations = [
        BatchOp::put(map.tree(), b"first", b"new", 0),
        BatchOp::expire(map.tree(), b"short", LATER + 1),
        BatchOp::expire(map.tree(), b"timed", LATER + 2),
    ];
    let number = map.number();
    let records = log.records([number; 3].into_iter(), &operations).expect("it is numbered");
    let mut session = store.shared().session().expect("a session");
    let not_made = NotMade { error: AllocError::OutOfMemory.into(), rolled_back: 3 };
    let place = Some(log.place());
    let told = log.note_batch(place, Err(not_made), &records, &operations, &mut session);
    assert!(told.is_err());
    drop(session);
    let mut add = |record: &Record<'_>| snapshot.add(record).expect("room");
    add(&Record::put(NAMES, DEFAULT_MAP.as_bytes(), &number.to_le_bytes()));
    add(&Record::put(number, b"first", b"new"));
    for (key, expiry) in [(b"short", LATER + 1), (b"timed", LATER + 2)] {
        add(&Record { expiry: Some(expiry), ..Record::put(number, key, b"value") });
    }
    let finished = snapshot.finish();
    assert!(matches!(finished, Ok(_) | Err(everleaf_log::Error::Busy(_))), "{finished:?}");
    assert!(log.log.failed().is_none(), "that is no reason to end the log");
    let left = disk.crashed(7);
    left.set_faults(Faults::default());
    let left = options(&left).open(folder.path().join("left")).expect("it opens");
    let map = left.default_map();
    let first = map.get("first").expect("readable").expect("it is there");
    (first, ["short", "timed"].map(|key| expiry_of(map, key)), finished.is_ok())
}

#[test]
fn expiries_that_a_snapshot_read_of_a_rollback_are_not_there() {
    let before = (b"old".to_vec(), [0, LATER], true);
    assert_eq!(rolled_back_beside_a_snapshot(None, false), before);
    let found = rolled_back_beside_a_snapshot(Some("store.rolls_back_values_only"), false);
    assert_eq!(found, (b"old".to_vec(), [LATER + 1, LATER + 2], true), "the bug is not found");
}

/// What was lost: damage, and the truth. Of a key whose record was damaged before the batch nothing was logged, because
/// there was nothing to log: a snapshot that had read what the batch put there had it under a right sum, and a pool
/// that was made from that served a value that had been refused.
#[test]
fn a_snapshot_fails_beside_a_rollback_over_a_damaged_record() {
    let before = (b"old".to_vec(), [0, LATER], false);
    assert_eq!(rolled_back_beside_a_snapshot(None, true), before);
    let kept = rolled_back_beside_a_snapshot(Some("snapshot.keeps_rolled_back"), true);
    assert_eq!(kept, (b"new".to_vec(), [LATER + 1, LATER + 2], true), "the bug is not found");
}

/// What is left if the machine crashes now, or the process is killed now: both are one of the two states.
fn is_whole(store: &Store, before: bool, after: bool, when: &str) {
    let map = store.default_map();
    let first = map.get("first").expect("readable").expect("it is there");
    let found = (
        &first[..],
        ["short", "timed", "long"].map(|key| expiry_of(map, key)),
        map.contains("gone").expect("readable"),
    );
    let old = (&b"old"[..], [0, LATER, LATER], true);
    let new = (&b"new"[..], [LATER + 1, 0, LATER + 3], false);
    assert!(before && found == old || after && found == new, "{when}: {found:?}");
}

/// The log's disk refuses everything from one of its operations on, each in turn, while a batch with expiries is
/// written: such as are written again, and such as change in place.
#[test]
fn a_batch_with_expiries_is_whole_wherever_the_disk_fails() {
    let (mut done, mut failed) = (0, 0);
    for healthy in 0..usize::MAX {
        let (folder, disk) = (folder(), SimulatedDisk::new(Faults::default(), 1));
        let path = folder.path().join("pool");
        let store = options(&disk).open(&path).expect("it opens");
        let map = store.default_map();
        fill(map);
        map.put_with_expiry("long", [7; 5000], Expiry::from_unix_ms(LATER)).expect("room");
        map.put("gone", "value").expect("room");
        let mut batch = WriteBatch::new();
        // So that there is a journal.
        batch.put(map, "other", "1").put(map, "another", "2");
        assert!(store.write(&batch).expect("room").is_done());
        batch.clear();
        let at = Expiry::from_unix_ms;
        batch.put(map, "first", "new").expire(map, "short", at(LATER + 1));
        batch.expire(map, "timed", Expiry::Never).expire(map, "long", at(LATER + 3));
        batch.remove(map, "gone");
        let count = Arc::new(AtomicUsize::new(0));
        let counted = count.clone();
        disk.set_hook(move |disk| {
            // Relaxed: one thread.
            if counted.fetch_add(1, Ordering::Relaxed) >= healthy {
                disk.set_faults(Faults { error_one_in: 1, ..Faults::default() });
            }
        });
        let written = store.write(&batch);
        disk.clear_hook();
        let is_done = written.is_ok();
        assert!(is_done || matches!(written, Err(Error::LogFailed(_))), "{written:?}");
        let when = format!("{healthy} operations, {written:?}");
        for seed in 0..4 {
            let left = disk.crashed(seed);
            left.set_faults(Faults::default());
            let lost = folder.path().join(format!("crashed {seed}"));
            let left = options(&left).open(lost).expect("it opens");
            is_whole(&left, !is_done, true, &when);
        }
        let left = disk.copied(1);
        left.set_faults(Faults::default());
        let killed = folder.path().join("killed");
        std::fs::copy(&path, &killed).expect("room");
        let left = options(&left).open(&killed).expect("it opens");
        is_whole(&left, !is_done, true, &when);
        assert!(left.check().expect("the check runs").is_clean(), "{when}");
        // As the pool is, so is what is read beside it.
        assert_eq!(contents(&left), contents(&store), "{when}");
        if is_done {
            done += 1;
            break;
        }
        failed += 1;
    }
    assert!(done == 1 && failed > 0, "{failed} failures");
}
