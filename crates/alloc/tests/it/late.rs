//! Marks that are made after a heap is open: nothing that may be in use is given out before, and everything else once.

use std::collections::BTreeSet;
use std::sync::Arc;

use everleaf_alloc::{Audit, Heap, LateMarks, Session};
use everleaf_machine::Hardware;
use everleaf_pool::{CreateMode, Domain, Pool, PoolOptions};

const SHIFT: u32 = 14;
/// One of a chunk of its own, and small ones.
const SIZES: [usize; 3] = [64, 1000, 40_000];

fn pool(path: &std::path::Path) -> Pool<Hardware> {
    let create = CreateMode::IfMissing;
    let domain = Some(Domain::Process);
    let options = PoolOptions { create, domain, max_size_bytes: 1 << 26, ..Default::default() };
    Pool::open(path, &options).expect("the pool")
}

fn take(session: &mut Session<Hardware>, count: usize) -> Vec<(u64, usize)> {
    let sizes = SIZES.iter().cycle().take(count);
    sizes.map(|size| (session.allocate_record(*size).expect("room"), *size)).collect()
}

/// A heap with records, of which the first half is in use; they are as a killed process leaves them.
fn used(path: &std::path::Path) -> Vec<(u64, usize)> {
    let heap = Heap::create_with_chunks(pool(path), SHIFT).expect("room");
    let mut session = heap.session().expect("a session");
    let mut records = take(&mut session, 300);
    // So that chunks are shared by those that stay and those that go.
    records.sort_by_key(|(offset, _)| (offset / 64 % 2, *offset));
    records.truncate(150);
    records
}

fn late(path: &std::path::Path, owed: u64) -> (Arc<Heap<Hardware>>, LateMarks<Hardware>) {
    let (heap, recovery) = Heap::open(pool(path)).expect("a heap");
    let late = LateMarks::new(recovery);
    late.owe(owed);
    late.begin(&heap);
    (heap, late)
}

/// Everything is in use or free, once.
fn assert_sound(heap: &Arc<Heap<Hardware>>, used: &[(u64, usize)]) {
    let mut session = heap.session().expect("a session");
    session.collect_all();
    let mut audit = Audit::new(heap).expect("its headers are sound");
    for (offset, size) in used {
        audit.used().mark_record(*offset, *size).expect("in use once");
    }
    audit.add_session(&session);
    assert_eq!(audit.finish(heap), Vec::<String>::new());
}

#[test]
fn nothing_without_a_mark_is_given_out_too_early() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let mut records = used(&path);
    let (heap, late) = late(&path, 2);
    let kept: BTreeSet<u64> = records.iter().map(|(offset, _)| *offset).collect();
    let mut session = heap.session().expect("a session");
    let fresh = take(&mut session, 300);
    assert!(fresh.iter().all(|(offset, _)| !kept.contains(offset)), "given out, and in use");
    let (first, rest) = records.split_at(70);
    for (offset, size) in first {
        late.recovery().mark_record(*offset, *size).expect("there once");
    }
    late.note_marked(1);
    assert!(!late.finish(&heap) && !late.is_finished());
    for (offset, size) in rest {
        late.recovery().mark_record(*offset, *size).expect("there once");
    }
    late.note_marked(1);
    assert!(late.finish(&heap) && late.is_finished());
    // Again it does nothing.
    assert!(late.finish(&heap));
    records.extend(fresh);
    // What was free before is used now: the pool does not grow for it.
    let size = heap.pool().size();
    records.extend(take(&mut session, 100));
    assert_eq!(heap.pool().size(), size);
    drop(session);
    assert_sound(&heap, &records);
}

/// Freed, used again and freed by others before its mark is made, up to the last of its chunk, which serves for
/// something else then.
#[test]
fn what_is_freed_before_it_is_marked_is_given_out_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let records = used(&path);
    let (heap, late) = late(&path, 1);
    let mut session = heap.session().expect("a session");
    let marks: Vec<_> = records
        .iter()
        .map(|(offset, size)| late.recovery().record_mark(*offset, *size).expect("there"))
        .collect();
    for (offset, size) in &records {
        session.retire_record(*offset, *size);
    }
    session.collect_all();
    session.give_back();
    heap.release_empty_chunks();
    let again = take(&mut session, 200);
    for mark in marks {
        mark.set().expect("once");
    }
    late.note_marked(1);
    assert!(late.finish(&heap));
    drop(session);
    assert_sound(&heap, &again);
}

#[test]
fn a_kill_before_all_marks_are_there_loses_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let mut records = used(&path);
    for round in 0..3 {
        let (heap, late) = late(&path, 1);
        let mut session = heap.session().expect("a session");
        let more = take(&mut session, 30);
        assert!(more.iter().all(|new| !records.contains(new)), "round {round}");
        records.extend(more);
        assert!(!late.is_finished());
    }
    let (heap, recovery) = Heap::open(pool(&path)).expect("a heap");
    for (offset, size) in &records {
        recovery.mark_record(*offset, *size).expect("there once");
    }
    recovery.finish(&heap);
    assert_sound(&heap, &records);
}
