//! What a full heap gives out when all that filled it was freed.

use std::sync::Arc;

use everleaf_alloc::{AllocError, Heap, Session};
use everleaf_machine::Hardware;
use everleaf_pool::{Domain, Pool};

/// Of 16 KiB, in a pool of 2 MiB: a session may have more free records of a size than fill all of them.
const CHUNK_SHIFT: u32 = 14;

fn heap() -> Arc<Heap<Hardware>> {
    let pool = Pool::in_memory(1 << 20, 2 << 20, Domain::Process).expect("memory");
    Heap::create_with_chunks(pool, CHUNK_SHIFT).expect("room")
}

/// Something of which a heap has many.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Of so many bytes.
    Record(usize),
    /// Of this class.
    Block(usize),
}

/// Many to a chunk, few, two, one, and of several chunks.
const KINDS: [Kind; 7] = [
    Kind::Record(200),
    Kind::Record(3000),
    Kind::Record(7000),
    Kind::Record(12_000),
    Kind::Record(40_000),
    Kind::Block(0),
    Kind::Block(2),
];

impl Kind {
    fn take(self, session: &mut Session<Hardware>) -> Result<u64, AllocError> {
        match self {
            Kind::Record(size) => session.allocate_record(size),
            Kind::Block(class) => session.allocate_block_of(class).map(u64::from),
        }
    }

    fn retire(self, session: &mut Session<Hardware>, place: u64) {
        match self {
            Kind::Record(size) => session.retire_record(place, size),
            Kind::Block(class) => session.retire_block_of(class, place as u32),
        }
    }

    /// Takes until there is no space.
    fn fill(self, session: &mut Session<Hardware>) -> Vec<u64> {
        let mut taken = vec![];
        loop {
            match self.take(session) {
                Ok(place) => taken.push(place),
                Err(error) => {
                    assert!(error.is_full(), "{error}");
                    return taken;
                }
            }
        }
    }
}

/// A session looked for empty chunks among what was given back, and not among what it had freed itself and kept: a
/// pool that a thread had filled and emptied stayed full for it, for any other size.
#[test]
fn what_a_session_has_freed_serves_for_something_else() {
    let session = || heap().session().expect("a session");
    let alone = KINDS.map(|kind| kind.fill(&mut session()).len());
    for first in KINDS {
        let mut session = session();
        for (second, expected) in KINDS.into_iter().zip(alone) {
            for place in first.fill(&mut session) {
                first.retire(&mut session, place);
            }
            let taken = second.fill(&mut session);
            assert_eq!(taken.len(), expected, "{second:?} behind {first:?}");
            taken.iter().for_each(|place| second.retire(&mut session, *place));
        }
    }
}

/// What is promised stays at hand, whatever else finds no space meanwhile.
#[test]
fn promised_blocks_are_kept_when_space_runs_out() {
    const PROMISED: usize = 7;
    let heap = heap();
    let mut session = heap.session().expect("a session");
    let mut other = heap.session().expect("a session");
    let blocks: Vec<u32> = (0..60).map(|_| session.allocate_block().expect("room")).collect();
    blocks.into_iter().for_each(|block| session.free_block(block));
    session.reserve_blocks(PROMISED).expect("they are at hand");
    for kind in KINDS.iter().filter(|kind| matches!(kind, Kind::Record(_))) {
        kind.fill(&mut session);
    }
    let of_others = Kind::Block(0).fill(&mut other).len();
    for _ in 0..PROMISED {
        session.allocate_block().expect("promised");
    }
    assert!(of_others > 0, "the rest of the chunk is theirs");
}

/// What was promised to an operation and not used stayed bound to its session: chunks in which such blocks lay could
/// become nothing else.
#[test]
fn promises_end_with_their_operation() {
    const PROMISED: usize = 200;
    let records = Kind::Record(40_000);
    let alone = records.fill(&mut heap().session().expect("a session")).len();
    let heap = heap();
    let mut session = heap.session().expect("a session");
    // Freed in another order than they lie: those that are promised are in all chunks.
    let mut blocks = Kind::Block(0).fill(&mut session);
    blocks.sort_by_key(|block| block.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    blocks.into_iter().for_each(|block| session.free_block(block as u32));
    session.reserve_blocks(PROMISED).expect("they are at hand");
    session.end_promises();
    assert_eq!(records.fill(&mut session).len(), alone);
}

/// A session gave others what was promised to it when it had taken one block back.
#[test]
fn more_may_be_promised_than_a_session_keeps() {
    const PROMISED: usize = 256;
    let heap = heap();
    let mut session = heap.session().expect("a session");
    let spare = session.allocate_block().expect("room");
    session.reserve_blocks(PROMISED).expect("room");
    session.free_block(spare);
    Kind::Block(0).fill(&mut heap.session().expect("a session"));
    for _ in 0..PROMISED {
        session.allocate_block().expect("promised");
    }
}

/// A bag was full when it had a number of items, however large they were: one large value that was written again and
/// again took hundreds of its size.
#[test]
fn large_records_are_reclaimed_soon() {
    const SIZE: usize = 1 << 20;
    let pool = Pool::in_memory(1 << 20, 1 << 30, Domain::Process).expect("memory");
    let heap = Heap::create(pool).expect("room");
    let mut session = heap.session().expect("a session");
    let mut record = session.allocate_record(SIZE).expect("room");
    for _ in 0..500 {
        let mut pinned = session.pinned();
        let next = pinned.allocate_record(SIZE).expect("room");
        pinned.retire_record(std::mem::replace(&mut record, next), SIZE);
    }
    let used = heap.used_bytes() as usize;
    assert!(used < 8 * SIZE, "{used} bytes for one record of {SIZE}");
}

/// What was lost: a session that asked for more blocks than there were kept those that there were.
#[test]
fn blocks_that_are_too_few_can_be_had_by_others() {
    for class in [0, 2] {
        let heap = heap();
        let (mut one, mut other) = (heap.session().expect("one"), heap.session().expect("two"));
        let taken = Kind::Block(class).fill(&mut one);
        for block in &taken[..2] {
            one.free_block_of(class, *block as u32);
        }
        one.give_back();
        assert!(one.reserve_blocks_of(class, 3).expect_err("there are two").is_full());
        other.reserve_blocks_of(class, 2).expect("nobody has them");
        // What was promised stays, though more was asked for.
        assert!(other.reserve_blocks_of(class, 3).expect_err("there are two").is_full());
        assert!(one.reserve_blocks_of(class, 1).expect_err("they are promised").is_full());
        let kept = [(); 2].map(|()| Kind::Block(class).take(&mut other).expect("promised"));
        kept.iter().for_each(|block| other.free_block_of(class, *block as u32));
        taken[2..].iter().for_each(|block| one.free_block_of(class, *block as u32));
    }
}
