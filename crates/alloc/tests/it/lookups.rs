//! What a session expects of a lookup.

use everleaf_alloc::Heap;
use everleaf_machine::Hardware;
use everleaf_pool::{Domain, Pool};

#[test]
fn absence_is_expected_behind_sixteen_misses_in_a_row() {
    let pool = Pool::<Hardware>::in_memory(2 << 20, 2 << 20, Domain::Process).expect("memory");
    let heap = Heap::create(pool).expect("room");
    let mut session = heap.session().expect("room");
    for _ in 0..3 {
        for _ in 0..16 {
            assert!(!session.expects_absent());
            session.note_lookup(false);
        }
        for _ in 0..300 {
            assert!(session.expects_absent());
            session.note_lookup(false);
        }
        session.note_lookup(true);
    }
    assert!(!session.expects_absent());
}
