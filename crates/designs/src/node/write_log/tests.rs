//! Records, and what becomes of one that is changed; heads of chunks and links.

use everleaf_alloc::Heap;
use everleaf_machine::Hardware;
use everleaf_pool::{Domain, Pool};

use super::*;

#[test]
fn a_record_survives_encoding_and_no_flipped_bit_does() {
    let records = [
        Record { key: 7, value: Some(70), sequence: 1, link: 0 },
        Record { key: u64::MAX - 1, value: None, sequence: (1 << 47) - 1, link: (1 << 48) - 64 },
    ];
    for record in records {
        let words = record.encode([5, 8]);
        assert_eq!(Record::decode(words, [5, 8]), Some(record));
        assert_eq!(Record::decode(words, [6, 8]), None);
        assert_eq!(Record::decode(words, [5, 9]), None);
        for bit in 0..256 {
            let mut flipped = words;
            flipped[bit / 64] ^= 1 << (bit % 64);
            assert_eq!(Record::decode(flipped, [5, 8]), None, "bit {bit}");
        }
    }
}

#[test]
fn a_record_that_is_turned_is_one_of_a_removal() {
    let record = Record { key: 7, value: Some(70), sequence: 5, link: 64 };
    let words = record.encode([5, 8]);
    let mut turned = words;
    turned[3] = record::removal_meta([5, 8], words);
    assert_eq!(Record::decode(turned, [5, 8]), Some(Record { value: None, ..record }));
    assert_eq!(Record::decode(turned, [5, 9]), None);
}

#[test]
fn no_flipped_bit_of_a_head_or_a_link_is_missed() {
    let (place, mark, before) = (3 << 18 | 64, [7 << 32 | 5, 12], 2046);
    for bit in 0..64 {
        let flip = 1 << bit;
        let sum = chunk::head_sum(place, mark, before);
        assert_ne!(chunk::head_sum(place, [mark[0] ^ flip, mark[1]], before), sum, "bit {bit}");
        assert_ne!(chunk::head_sum(place, [mark[0], mark[1] ^ flip], before), sum, "bit {bit}");
        assert_ne!(chunk::head_sum(place, mark, before ^ flip), sum, "bit {bit}");
        // What it leads to then is another place, or its sum is another one.
        let flipped = link(5, place, mark) ^ flip;
        let reached = flipped & ((1 << 48) - 1);
        assert_ne!(link(5, reached, mark), flipped, "bit {bit}");
    }
    // A word of the root object that was lost is no end of a log.
    assert!((0..24).all(|log| no_link(log) != 0));
}

fn new_logs(session: &mut Session<Hardware>, shape: Shape) -> Logs<Hardware> {
    let root_object = RootObject::create(session, 7).expect("room");
    let (base, medium) = (PoolBase::of(session.heap()), session.heap().medium());
    let logs = Logs::new(base, medium, (root_object, 3), 1, shape);
    logs.create();
    logs
}

/// What the older chunk has finds no space until the newest one is freed. It was held against the number of records of
/// that one, and called damaged as long as the pool was open.
#[test]
fn a_chunk_is_whole_when_the_newest_one_went_before_it() {
    let pool = Pool::in_memory(1 << 20, 1 << 24, Domain::Process).expect("memory");
    let heap = Heap::<Hardware>::create(pool).expect("room");
    let mut session = heap.session().expect("a session");
    let logs = new_logs(&mut session, Shape { logs: 1, ..Shape::SMALL });
    let append = |session: &mut Session<Hardware>, key| {
        let record = Record { key, value: Some(key), sequence: key, link: 0 };
        logs.append(session, record).expect("room")
    };
    for key in 1..6 {
        append(&mut session, key);
    }
    assert_eq!(logs.chunks().len(), 2);
    let mut has_space = false;
    let mut trim = |session: &mut Session<Hardware>, newest| {
        let take = || logs.take_for_space(newest);
        logs.trim(session, usize::MAX, take, |_, records| {
            let is_old = records.iter().flatten().any(|record| record.key < 5);
            if !is_old {
                has_space |= newest == Newest::Goes;
            }
            if is_old && !has_space { Err(AllocError::OutOfMemory.into()) } else { Ok(()) }
        })
    };
    assert_eq!(trim(&mut session, Newest::StaysIfOpen), 0);
    assert_eq!(trim(&mut session, Newest::Goes), 2);
    assert_eq!((logs.damaged(), logs.chunks().len()), (0, 0));
    // It goes on with chunks of its own.
    for key in 6..11 {
        append(&mut session, key);
    }
    assert_eq!(logs.chunks().len(), 2);
}

/// Three records, of which the first and the last are of one leaf, and what they say when the key of that leaf is
/// removed without room, after one of them was damaged.
fn turned(is_linked: bool, damaged: Option<usize>) -> Result<Option<Option<u64>>, AllocError> {
    let pool = Pool::in_memory(1 << 20, 1 << 24, Domain::Process).expect("memory");
    let heap = Heap::<Hardware>::create(pool).expect("room");
    let mut session = heap.session().expect("a session");
    let logs = new_logs(&mut session, Shape::SMALL);
    let mut places = vec![];
    for (key, value, sequence) in [(5, 50, 1), (9, 90, 1), (5, 51, 2)] {
        let link = if is_linked && sequence == 2 { places[0] } else { 0 };
        let record = Record { key, value: Some(value), sequence, link };
        places.push(logs.append(&mut session, record).expect("room").0);
    }
    if let Some(damaged) = damaged {
        logs.cells(places[damaged]).value.write_private(7);
    }
    let head = is_linked.then(|| places[2]);
    logs.turn_to_removal(5, Needed { head, newest: 2, flushed: 0 })?;
    Ok(logs.read(places[2], 2).map(|record| record.value))
}

/// All of the log was read up to the first record that was not whole: one that another leaf had lost hid the newest of
/// the key, an older one was changed, and a crash brought the key back.
#[test]
fn a_lost_record_of_another_leaf_hides_no_newer_one() {
    assert_eq!(turned(true, None).expect("whole"), Some(None));
    assert_eq!(turned(true, Some(1)).expect("another leaf's is damaged"), Some(None));
    assert_eq!(turned(false, None).expect("whole"), Some(None));
    for (is_linked, damaged) in [(true, 2), (false, 0), (false, 1), (false, 2)] {
        let told = turned(is_linked, Some(damaged)).expect_err("it may be the newest");
        assert!(told.to_string().contains("record"), "{told}");
    }
}
