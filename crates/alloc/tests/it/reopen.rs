//! What a heap gives out after its pool was opened again.

use everleaf_alloc::{Heap, Session};
use everleaf_machine::Hardware;
use everleaf_pool::{CreateMode, Pool, PoolOptions};

/// More than one chunk.
const LARGE: usize = 3 << 20;
/// As much as fits the pool several times over.
const ATTEMPTS: usize = 200;

fn pool(path: &std::path::Path, create: CreateMode) -> Pool<Hardware> {
    let options = PoolOptions {
        create,
        // With room behind what is used.
        initial_size_bytes: 32 << 20,
        max_size_bytes: 128 << 20,
        ..PoolOptions::default()
    };
    Pool::open(path, &options).expect("the pool opens")
}

fn allocate(session: &mut Session<Hardware>, size: usize) -> Option<u64> {
    session.allocate_record(size).ok()
}

/// A free run at the end of what was used lies before space that was never used. The two were taken
/// for one run, and what lies behind the end was given out again from the frontier.
#[test]
fn nothing_is_given_out_twice_after_the_last_chunks_were_freed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("pool");
    let kept = {
        let heap = Heap::create(pool(&path, CreateMode::New)).expect("room");
        let mut session = heap.session().expect("a session");
        let kept = allocate(&mut session, LARGE).expect("room");
        let last = allocate(&mut session, LARGE).expect("room");
        session.free_record(last, LARGE);
        kept
    };
    let (heap, recovery) = Heap::open(pool(&path, CreateMode::Never)).expect("a heap");
    recovery.mark_record(kept, LARGE).expect("it is there");
    recovery.finish(&heap);
    let mut session = heap.session().expect("a session");
    let mut places = vec![kept];
    places.extend((0..ATTEMPTS).map_while(|_| allocate(&mut session, LARGE)));
    assert!(places.len() > 10 && places.len() < ATTEMPTS, "{} places", places.len());
    places.sort_unstable();
    assert!(
        places.windows(2).all(|pair| pair[0] + LARGE as u64 <= pair[1]),
        "places overlap: {places:?}"
    );
}
