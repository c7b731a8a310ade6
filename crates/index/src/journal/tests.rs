//! Batches that were cut short, and damage that meets them.

use everleaf_machine::Ordering;
use everleaf_pool::{Domain, Pool};

use super::*;
use crate::bytes::entry::{BytesKey, record_offset};
use crate::bytes::record::{Record, Verify};
use crate::pool_trees::nodes::BytesNodes;

fn trees() -> Trees {
    let pool = Pool::in_memory(1 << 20, 1 << 30, Domain::Process).expect("memory");
    Trees::create(pool).expect("room")
}

/// How many batches were done again, and what was told of them: while the batch is still in the journal, so that a
/// thread that is killed right behind that is told again.
fn recover(
    journal: &Journal,
    trees: &Trees,
    session: &mut Session<Hardware>,
) -> (usize, Vec<String>) {
    let (redone, told) = try_recover(journal, trees, session);
    (redone.expect("one key is no reason to refuse all"), told)
}

fn try_recover(
    journal: &Journal,
    trees: &Trees,
    session: &mut Session<Hardware>,
) -> (Result<usize, IndexError>, Vec<String>) {
    let mut told = vec![];
    let mut other = trees.heap().session().expect("a session");
    let before = journal.pending(&mut other).expect("readable");
    let redone = journal.recover(trees, session, &mut |damage| {
        assert_eq!(journal.pending(&mut other).expect("readable"), before, "told too late");
        told.push(damage.to_string());
    });
    (redone, told)
}

#[test]
fn what_was_cut_short_is_done_again_and_only_once() {
    let trees = trees();
    let tree = trees.bytes_tree("t").expect("room");
    let mut session = trees.heap().session().expect("a session");
    let journal = Journal::open(&trees, &mut session).expect("room");
    tree.change(&mut session, &Change::insert(b"gone", b"x")).expect("room");
    tree.change(&mut session, &Change::insert(b"stays", b"y").expiring(1)).expect("room");
    let operations = [
        BatchOp::put(&tree, b"one", b"1", 0),
        BatchOp::remove(&tree, b"gone"),
        // It had not expired when the batch was made.
        BatchOp::expire(&tree, b"stays", 0),
        BatchOp::expire(&tree, b"absent", 0),
    ];
    let batch = encode(&mut session, &operations).expect("small");
    let entry = Change::upsert(b"\0\x07", &batch);
    journal.tree.change(&mut session, &entry).expect("room");
    assert_eq!(journal.pending(&mut session).expect("readable"), 1);
    assert_eq!(recover(&journal, &trees, &mut session), (1, vec![]));
    let get = |session: &mut Session<Hardware>, key: &[u8]| {
        tree.get_with(session, key, <[u8]>::to_vec).expect("there")
    };
    assert_eq!(get(&mut session, b"one"), Some(b"1".to_vec()));
    assert_eq!(get(&mut session, b"gone"), None);
    assert_eq!(get(&mut session, b"stays"), Some(b"y".to_vec()));
    assert_eq!(get(&mut session, b"absent"), None);
    assert_eq!(recover(&journal, &trees, &mut session), (0, vec![]));
}

/// A full pool in which a batch of one put and a removal was cut short: if the put was made, the removal is done; if
/// there is no space for it, nothing is. What was lost: the whole pool, if the record of the put was damaged as well,
/// so that nobody could tell which it is. It was refused at every opening.
#[test]
fn a_batch_without_space_for_its_one_put_is_left() {
    for (is_made, is_damaged) in [(false, false), (true, false), (true, true)] {
        let pool = Pool::in_memory(1 << 20, 1 << 20, Domain::Process).expect("memory");
        let trees: Trees = Trees::create(pool).expect("room");
        let tree = trees.bytes_tree("t").expect("room");
        let mut session = trees.heap().session().expect("a session");
        let journal = Journal::open(&trees, &mut session).expect("room");
        let value = [7; 900];
        tree.change(&mut session, &Change::insert(b"gone", b"x")).expect("room");
        if is_made {
            tree.change(&mut session, &Change::insert(b"new", &value)).expect("room");
        }
        let operations = [BatchOp::remove(&tree, b"gone"), BatchOp::put(&tree, b"new", &value, 0)];
        let batch = encode(&mut session, &operations).expect("small");
        let entry = Change::upsert(b"\0\x07", &batch);
        journal.tree.change(&mut session, &entry).expect("room");
        let mut fill = 0..;
        for size in [900, 890, 400] {
            let mut put = |number: u32| {
                tree.change(&mut session, &Change::insert(&number.to_be_bytes(), &value[..size]))
            };
            let _ = fill.find(|number| put(*number).is_err());
        }
        if is_damaged {
            // A byte of the value: the key is in one word of the leaf.
            damage(&tree, &mut session, b"new", 8 + 3, 1);
        }
        let (redone, told) = recover(&journal, &trees, &mut session);
        assert_eq!((redone, told.len()), (1, usize::from(is_damaged)), "{told:?}");
        assert!(told.iter().all(|told| told.contains("'new'")), "{told:?}");
        let mut has = |key: &[u8]| tree.get_with(&mut session, key, |_| ()).expect("there");
        let is_done = is_made && !is_damaged;
        assert_eq!((has(b"gone").is_some(), has(b"new").is_some()), (!is_done, is_made));
        assert_eq!(journal.pending(&mut session).expect("readable"), 0);
    }
}

/// Exchanges bits of the byte at this distance from the start of a key's record.
fn damage(tree: &BytesTree, session: &mut Session<Hardware>, key: &[u8], at: usize, bits: u64) {
    let find = |tree: &BytesNodes<_, _>, session: &mut Session<Hardware>| {
        tree.get_payload(session, BytesKey::new(key))
    };
    let payload = tree.cell().with(session, find).expect("the tree is there").expect("it is sound");
    let offset = record_offset(payload.expect("the key is there")) + at as u64;
    let word = session.heap().pool().word(offset & !7);
    // Relaxed: no other thread.
    word.store(word.load(Ordering::Relaxed) ^ bits << (8 * (offset % 8)), Ordering::Relaxed);
}

/// What was lost: that a key is damaged. A leaf that is replaced reads the keys of its records, and one with a damaged
/// time was taken for an empty key: behind it the key passed for absent.
#[test]
fn a_key_whose_time_is_damaged_is_told_behind_splits() {
    let trees = trees();
    let tree = trees.bytes_tree("t").expect("room");
    let mut session = trees.heap().session().expect("a session");
    let key = |number: u32| format!("a prefix that all of them have {number:05}").into_bytes();
    // So long that its record has a word for the time.
    tree.change(&mut session, &Change::insert(&key(200), &[7; 5000])).expect("room");
    damage(&tree, &mut session, &key(200), 8, 1);
    for number in (0..400).filter(|number| *number != 200) {
        tree.change(&mut session, &Change::insert(&key(number), b"y")).expect("room");
        let found = tree.get_with(&mut session, &key(200), <[u8]>::len);
        assert!(found.is_err(), "{found:?} behind {number}");
    }
}

/// Its name, the value, where in a record of this key, and which bits.
type Damage<'a> = (&'a str, &'a [u8], &'a dyn Fn(&[u8]) -> usize, u64);

/// What was lost: the whole pool. A batch that was cut short lets a key expire whose record has no place for it, and
/// the record was damaged meanwhile: it could not be written again, so the pool was refused at every opening. And a
/// header that by damage claims to have such a place was taken at its word, and the time written over the key.
#[test]
fn a_damaged_record_keeps_nothing_else_from_being_done_again() {
    let long = vec![7; 5000];
    // A value that has changed; lengths that reach out of the pool; a place that is none; a time that has changed.
    let value_of = |key: &[u8]| 8 + key.len();
    let damages: [Damage<'_>; 4] = [
        ("value", b"short", &value_of, 1),
        ("length", b"short", &|_| 3, 1 << 4),
        ("place", b"short", &|_| 5, 3 << 6),
        ("time", &long, &|_| 8, 1),
    ];
    for (name, value, at, bits) in damages {
        let trees = trees();
        let tree = trees.bytes_tree("t").expect("room");
        let mut session = trees.heap().session().expect("a session");
        let session = &mut session;
        let journal = Journal::open(&trees, session).expect("room");
        for key in [&b"sound"[..], b"last"] {
            tree.change(session, &Change::insert(key, b"y")).expect("room");
        }
        let keys = [&b"a key of more than one word"[..], b"put", b"gone", b"expired"];
        for key in keys {
            tree.change(session, &Change::insert(key, value)).expect("room");
            damage(&tree, session, key, at(key), bits);
        }
        let operations = [
            BatchOp::expire(&tree, b"sound", 1 << 45),
            BatchOp::expire(&tree, keys[0], 1 << 45),
            BatchOp::put(&tree, keys[1], b"new", 0),
            BatchOp::remove(&tree, keys[2]),
            // That needs no value.
            BatchOp::expire(&tree, keys[3], 1),
            BatchOp::expire(&tree, b"last", 1 << 45),
        ];
        let batch = encode(session, &operations).expect("small");
        journal.tree.change(session, &Change::upsert(b"\0\x07", &batch)).expect("room");
        let (redone, told) = recover(&journal, &trees, session);
        assert_eq!((redone, told.len()), (1, 1), "{name}");
        let told = &told[0];
        assert!(told.contains("a key of more than one word"), "{name}: {told}");
        let mut get = |key| {
            let see = |record: Record<'_>| (record.value.to_vec(), record.expiry_ms);
            tree.get_verified(session, key, Verify::Sum, see)
        };
        for key in [&b"sound"[..], b"last"] {
            assert_eq!(get(key).expect("sound"), Some((b"y".to_vec(), 1 << 45)), "{name}");
        }
        assert!(get(keys[0]).is_err(), "{name}: it is as damaged as it was");
        assert_eq!(
            get(keys[1]).expect("it is another record"),
            Some((b"new".to_vec(), 0)),
            "{name}"
        );
        assert_eq!(get(keys[2]).expect("it is gone"), None, "{name}");
        damage(&tree, session, keys[0], at(keys[0]), bits);
        let see = |record: Record<'_>| (record.value == value, record.expiry_ms);
        let found = tree.get_verified(session, keys[0], Verify::Sum, see);
        assert_eq!(found.expect("nothing else of it changed"), Some((true, 0)), "{name}");
        assert_eq!(recover(&journal, &trees, session), (0, vec![]), "{name}");
    }
}

/// What one batch cannot do is told although another cannot be read at all, which refuses the pool.
#[test]
fn damage_is_told_before_an_unreadable_batch_refuses_all() {
    let trees = trees();
    let tree = trees.bytes_tree("t").expect("room");
    let mut session = trees.heap().session().expect("a session");
    let session = &mut session;
    let journal = Journal::open(&trees, session).expect("room");
    tree.change(session, &Change::insert(b"damaged", b"short")).expect("room");
    damage(&tree, session, b"damaged", 8 + b"damaged".len(), 1);
    let operations = [BatchOp::expire(&tree, b"damaged", 1 << 45)];
    let batch = encode(session, &operations).expect("small");
    let mut unreadable = batch.clone();
    unreadable[0] ^= 1;
    for (slot, batch) in [(b"\0\x03", &batch), (b"\0\x07", &unreadable)] {
        journal.tree.change(session, &Change::upsert(slot, batch)).expect("room");
    }
    let (redone, told) = try_recover(&journal, &trees, session);
    let error = redone.expect_err("it is not known what else would have to be done");
    assert!(error.to_string().contains("its check sum is wrong"), "{error}");
    assert_eq!(told.len(), 1);
    assert!(told[0].contains("'damaged'"), "{told:?}");
    // The first one is done; the other stays for `repair`.
    assert_eq!(journal.pending(session).expect("readable"), 1);
    let (_, told) = try_recover(&journal, &trees, session);
    assert_eq!(told, Vec::<String>::new());
}

/// What was lost: the whole pool. In a full one, of a batch that was cut short behind its puts, recovery wrote all of
/// them again, for which there was no record: each opening was refused. So it was of an expiry that is written again.
#[test]
fn what_is_found_made_needs_no_space() {
    let pool = Pool::in_memory(1 << 20, 4 << 20, Domain::Process).expect("memory");
    let trees: Trees = Trees::create(pool).expect("room");
    let tree = trees.bytes_tree("t").expect("room");
    let mut session = trees.heap().session().expect("a session");
    let session = &mut session;
    let journal = Journal::open(&trees, session).expect("room");
    let (value, late) = ([7; 900], 1 << 52);
    let made = [
        Change::insert(b"one", &value),
        Change::insert(b"two", &value).expiring(late),
        // It had expired before it was done again.
        Change::insert(b"past", b"y").expiring(1),
        // Of that time a record has no place that can be changed.
        Change::insert(b"late", b"y").expiring(late),
        Change::insert(b"gone", b"x"),
        // As short as the record that erases the batch, which had been put by.
        Change::insert(b"e", b""),
    ];
    for change in &made {
        tree.change(session, change).expect("room");
    }
    let operations = [
        BatchOp::put(&tree, b"one", &value, 0),
        BatchOp::put(&tree, b"two", &value, late),
        BatchOp::put(&tree, b"past", b"y", 1),
        BatchOp::remove(&tree, b"gone"),
        BatchOp::expire(&tree, b"late", late),
    ];
    let batch = encode(session, &operations).expect("small");
    journal.tree.change(session, &Change::upsert(b"\0\x07", &batch)).expect("room");
    let mut fill = 0_u32..;
    for size in (0..1000).rev() {
        let mut put = |number: u32| {
            let key = number.to_be_bytes();
            tree.change(session, &Change::insert(&key, &[9; 1000][..size]))
        };
        let _ = fill.find(|number| put(*number).is_err());
    }
    tree.change(session, &Change::remove(b"e")).expect("no room needed");
    session.collect_all();
    assert_eq!(recover(&journal, &trees, session), (1, vec![]));
    let mut get = |key: &[u8]| {
        let see = |record: Record<'_>| (record.value.to_vec(), record.expiry_ms);
        tree.get_stored(session, key, Verify::Sum, see).expect("sound")
    };
    assert_eq!(get(b"one"), Some((value.to_vec(), 0)));
    assert_eq!(get(b"two"), Some((value.to_vec(), late)));
    assert_eq!(get(b"past"), Some((b"y".to_vec(), 1)));
    assert_eq!(get(b"late"), Some((b"y".to_vec(), late)));
    assert_eq!(get(b"gone"), None);
    assert_eq!(journal.pending(session).expect("readable"), 0);
}

/// What has another value or expiry, or a wrong check sum, does not count as made.
#[test]
fn what_is_not_as_it_should_be_is_written_again() {
    let trees = trees();
    let tree = trees.bytes_tree("t").expect("room");
    let mut session = trees.heap().session().expect("a session");
    let session = &mut session;
    let journal = Journal::open(&trees, session).expect("room");
    let keys = [&b"sum"[..], b"value", b"time", b"absent"];
    tree.change(session, &Change::insert(b"sum", b"new").expiring(1 << 45)).expect("room");
    tree.change(session, &Change::insert(b"value", b"old").expiring(1 << 45)).expect("room");
    tree.change(session, &Change::insert(b"time", b"new").expiring(1 << 44)).expect("room");
    // In the header, where the sum is: the value is the one that is wanted.
    damage(&tree, session, b"sum", 7, 1);
    let see = |record: Record<'_>| (record.value.to_vec(), record.expiry_ms);
    assert!(tree.get_verified(session, b"sum", Verify::Key, see).is_ok());
    let operations = keys.map(|key| BatchOp::put(&tree, key, b"new", 1 << 45));
    let batch = encode(session, &operations).expect("small");
    journal.tree.change(session, &Change::upsert(b"\0\x07", &batch)).expect("room");
    assert_eq!(recover(&journal, &trees, session), (1, vec![]));
    for key in keys {
        let found = tree.get_verified(session, key, Verify::Sum, see).expect("sound");
        assert_eq!(found, Some((b"new".to_vec(), 1 << 45)), "{key:?}");
    }
}
