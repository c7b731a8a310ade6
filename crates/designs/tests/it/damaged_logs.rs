//! Logs of buffered writes and what leaves say of them, damaged: opening refuses what no crash can leave.

use std::collections::BTreeSet;
use std::os::unix::fs::FileExt;
use std::path::Path;

use everleaf_designs::cceh::variant::Buffered as CcehBuffered;
use everleaf_designs::fast_fair::variant::Buffered as FastFairBuffered;
use everleaf_designs::skiplist::variant::Buffered as SkipBuffered;
use everleaf_designs::{
    Cceh, FastFair, PSkiplist, SpTreeBuffered, SpTreeCheckpointed, SpTreePlain,
};
use everleaf_index::{
    CreateMode, Design, OrderedIndex, Pool, PoolOptions, Production, SingleTreePool,
};

use super::common::open;

/// Far apart, so that no other word of the pool has the value of one.
fn key(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 1 | 1 << 62
}

/// A closed pool of the tree, with buffers that are not empty.
fn filled<T: Design>(path: &Path) -> Vec<u8> {
    let single = open::<T>(path, CreateMode::New);
    let mut session = single.heap().session().expect("a free session");
    for number in 0..3000 {
        let _ = single.tree().upsert(&mut session, key(number), number + 1).expect("room");
    }
    drop(session);
    drop(single);
    std::fs::read(path).expect("readable")
}

/// What opening a damaged pool says; nothing if it opens.
fn refusal<T: Design>(path: &Path, damaged: &[u8]) -> Option<String> {
    std::fs::write(path, damaged).expect("room");
    let pool = match Pool::open(path, &PoolOptions::default()) {
        Ok(pool) => pool,
        Err(error) => return Some(error.to_string()),
    };
    SingleTreePool::<T>::open(pool, 1).err().map(|error| error.to_string())
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// A record whose value has changed ended its log: the records behind it, the newest of their leaves, were
/// given up without a word.
fn a_record_in_the_middle<T: Design>() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pool");
    let whole = filled::<T>(&path);
    let keys: BTreeSet<u64> = (0..3000).map(key).collect();
    let is_key = |at: usize| keys.contains(&word(&whole, at));
    // Records have 32 bytes and their key first; pairs of a leaf have 16.
    let mut records = (64..whole.len() - 64).step_by(32).filter(|at| {
        is_key(*at) && is_key(at + 32) && !is_key(at + 16) && word(&whole, at + 24) & 1 == 1
    });
    let at = records.nth(20).expect("there is a log");
    let mut damaged = whole.clone();
    damaged[at + 8] ^= 0x10;
    let told = refusal::<T>(&path, &damaged).expect("the record is damaged");
    assert!(told.contains("damaged record in the middle"), "{told}");
    assert_eq!(refusal::<T>(&path, &whole), None);
}

#[test]
fn a_damaged_record_before_others_is_told() {
    a_record_in_the_middle::<SpTreeBuffered<Production>>();
    a_record_in_the_middle::<SpTreePlain<Production>>();
    a_record_in_the_middle::<FastFair<FastFairBuffered>>();
    a_record_in_the_middle::<Cceh<CcehBuffered>>();
    a_record_in_the_middle::<PSkiplist<SkipBuffered>>();
}

/// The heads of the chunks of the log: their fourth word has a sum and says so.
fn heads(bytes: &[u8]) -> Vec<usize> {
    let format = u64::from(u32::from_le_bytes(*b"LOG2"));
    (64..bytes.len() - 64).step_by(64).filter(|at| word(bytes, at + 24) >> 32 == format).collect()
}

/// The head of a chunk had no sum, nor had what leads to it: all records of a chunk whose mark was lost, and all chunks
/// behind a lost link, counted as never written, and keys had older values without a word.
fn a_head_or_a_link<T: Design>() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pool");
    let whole = filled::<T>(&path);
    let heads = heads(&whole);
    assert!(heads.len() > 1, "{heads:?}");
    let refused = |damaged: &[u8], how: &str| {
        let told = refusal::<T>(&path, damaged).unwrap_or_else(|| panic!("{how}"));
        assert!(told.contains("of the log"), "{how}: {told}");
    };
    for at in &heads {
        // Log, opening, number, records before, sum, and of the link place and sum.
        for byte in [0, 4, 8, 16, 24, 34, 38] {
            let mut damaged = whole.clone();
            damaged[at + byte] ^= 0x04;
            refused(&damaged, &format!("byte {byte} of a head"));
        }
        for (first, count) in [(0, 64), (32, 8)] {
            let mut damaged = whole.clone();
            damaged[at + first..at + first + count].fill(0);
            refused(&damaged, &format!("{count} bytes of a head"));
        }
    }
    let place = |at: usize| word(&whole, at) & ((1 << 48) - 1);
    let leads = |at: &usize| heads.contains(&(place(*at) as usize)) && word(&whole, *at) >> 48 != 0;
    let of_heads = |at: &usize| heads.iter().any(|head| (*head..head + 64).contains(at));
    let roots = (0..whole.len() - 8).step_by(8).filter(leads).filter(|at| !of_heads(at));
    let roots: Vec<usize> = roots.collect();
    assert_eq!(roots.len(), 1, "one log was written");
    // That of the log, and one of a log that was never begun.
    for at in [roots[0], roots[0] + 8] {
        let mut damaged = whole.clone();
        damaged[at + 2] ^= 0x04;
        refused(&damaged, "a word of the root object");
        damaged[at..at + 8].fill(0);
        refused(&damaged, "a word of the root object is lost");
    }
    assert_eq!(refusal::<T>(&path, &whole), None);
}

#[test]
fn a_damaged_head_or_link_of_the_log_is_told() {
    a_head_or_a_link::<SpTreeBuffered<Production>>();
    a_head_or_a_link::<SpTreeCheckpointed<Production>>();
    a_head_or_a_link::<SpTreePlain<Production>>();
    a_head_or_a_link::<FastFair<FastFairBuffered>>();
    a_head_or_a_link::<Cceh<CcehBuffered>>();
    a_head_or_a_link::<PSkiplist<SkipBuffered>>();
}

/// Behind the last records of a chunk there are none in it, so that they may be lost without one that is valid behind
/// them. The next chunk says how many there were.
fn the_last_record_of_a_chunk<T: Design>() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pool");
    let whole = filled::<T>(&path);
    let first = heads(&whole).into_iter().find(|at| word(&whole, at + 8) == 0);
    let end = first.expect("there is a first chunk") + (64 << 10);
    let mut damaged = whole.clone();
    damaged[end - 24] ^= 0x10;
    let told = refusal::<T>(&path, &damaged).expect("the record is damaged");
    assert!(told.contains("damaged record in the middle"), "{told}");
}

#[test]
fn a_damaged_record_before_another_chunk_is_told() {
    the_last_record_of_a_chunk::<SpTreeBuffered<Production>>();
    the_last_record_of_a_chunk::<SpTreePlain<Production>>();
    the_last_record_of_a_chunk::<FastFair<FastFairBuffered>>();
    the_last_record_of_a_chunk::<Cceh<CcehBuffered>>();
    the_last_record_of_a_chunk::<PSkiplist<SkipBuffered>>();
}

/// Opening finds the records whole and reads them again when their leaf is first touched: one that the medium has lost
/// meanwhile stopped the program, and a value that had changed was served.
#[test]
fn a_record_lost_after_opening_is_told_to_whoever_needs_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pool");
    let whole = filled::<SpTreeBuffered<Production>>(&path);
    let keys: BTreeSet<u64> = (0..3000).map(key).collect();
    let is_record = |at: &usize| {
        let [key, value, link, meta] = [0, 8, 16, 24].map(|part| word(&whole, at + part));
        keys.contains(&key) && value <= 3000 && !keys.contains(&link) && meta & 1 == 1
    };
    let records: Vec<usize> = (64..whole.len() - 64).step_by(32).filter(is_record).collect();
    for (bytes, how) in [(8, "a value"), (16, "a link"), (24, "a number")] {
        std::fs::write(&path, &whole).expect("room");
        let single = open::<SpTreeBuffered<Production>>(&path, CreateMode::Never);
        let mut session = single.heap().session().expect("a free session");
        let tree = single.tree();
        let left = tree.unrestored();
        assert!(left > 10, "{left} buffers");
        let file = std::fs::File::options().write(true).open(&path).expect("there");
        let rot = |by: u8| {
            for at in &records {
                let place = at + bytes;
                file.write_all_at(&[whole[place] ^ by], place as u64).expect("room");
            }
        };
        rot(0x12);
        let mut told = 0;
        for number in 0..3000 {
            match tree.get(&mut session, key(number)) {
                Ok(value) => assert_eq!(value, Some(number + 1), "{how}"),
                Err(error) => {
                    told += 1;
                    assert!(error.to_string().contains("of a leaf's buffer"), "{error}");
                    let write = tree.upsert(&mut session, key(number), 1);
                    assert!(write.is_err(), "{how}: a write to a leaf that is not whole");
                }
            }
        }
        assert!(told > 100, "{how}: {told} keys are told");
        assert!(tree.len(&mut session).is_err(), "{how}");
        // Each is told, and none keeps those behind it from being looked at.
        let mut damaged = vec![];
        let next = tree.restore_next(&mut session, 0, usize::MAX, &mut damaged);
        assert_eq!((next.expect("passed"), damaged.len() as u64), (None, left), "{how}");
        assert_eq!(tree.unrestored(), left, "{how}");
        // What was lost comes back: nothing was given up.
        rot(0);
        for number in 0..3000 {
            assert_eq!(tree.get(&mut session, key(number)).expect("whole"), Some(number + 1));
        }
        assert_eq!(tree.unrestored(), 0);
    }
}

/// A chunk that a damaged leaf still needs stayed, and with it everything behind it: no log was trimmed any more. It is
/// passed over, the chunks behind it are freed, and the log that is left out of them leads on.
#[test]
fn a_damaged_leaf_keeps_its_chunk_and_no_other() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pool");
    let whole = filled::<SpTreeBuffered<Production>>(&path);
    let keys: BTreeSet<u64> = (0..3000).map(key).collect();
    let is_record = |at: &usize| {
        let [key, value, link, meta] = [0, 8, 16, 24].map(|part| word(&whole, at + part));
        let is_lost = keys.contains(&key) && key >> 58 & 0xF == 0xF;
        is_lost && value <= 3000 && !keys.contains(&link) && meta & 1 == 1
    };
    let records: Vec<usize> = (64..whole.len() - 64).step_by(32).filter(is_record).collect();
    let single = open::<SpTreeBuffered<Production>>(&path, CreateMode::Never);
    let mut session = single.heap().session().expect("a free session");
    let tree = single.tree();
    let file = std::fs::File::options().write(true).open(&path).expect("there");
    let rot = |by: u8| {
        for place in records.iter().map(|at| at + 8) {
            file.write_all_at(&[whole[place] ^ by], place as u64).expect("room");
        }
    };
    rot(0x12);
    let mut values: Vec<u64> = (1..=3000).collect();
    let mut told = 0;
    for round in 1..=20 {
        for (number, value) in (0..).zip(&mut values) {
            match tree.upsert(&mut session, key(number), round * 10_000) {
                Ok(_) => *value = round * 10_000,
                Err(_) => told += 1,
            }
        }
    }
    assert!((20..20 * 1500).contains(&told), "{told} writes to leaves that are not whole");
    // Sixteen, the two that are damaged, and what was begun since.
    let chunks = tree.log_bytes() >> 16;
    assert!((17..20).contains(&chunks), "{chunks} chunks");
    drop(session);
    let problems = single.check().expect("a check").problems;
    let is_told = |problem: &String| problem.contains("chunks of the log stay");
    assert!(problems.iter().any(is_told), "{problems:?}");
    // What was lost comes back, and the process dies.
    rot(0);
    drop(single);
    let single = open::<SpTreeBuffered<Production>>(&path, CreateMode::Never);
    let mut session = single.heap().session().expect("a free session");
    for (number, value) in (0..).zip(values) {
        assert_eq!(single.tree().get(&mut session, key(number)).expect("whole"), Some(value));
    }
    drop(session);
    assert_eq!(single.check().expect("a check").problems, Vec::<String>::new());
}

/// A number of flushed writes that nobody wrote was believed; the next write had a number that its record cannot
/// hold.
#[test]
fn sptree_refuses_a_number_of_flushed_writes_nobody_made() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pool");
    let whole = filled::<SpTreeBuffered<Production>>(&path);
    // Line 0 of the first leaf: its low fence is 0, and its bitmap and the number are not.
    let is_first = |at: &usize| {
        let words: Vec<u64> = (0..8).map(|index| word(&whole, at + index * 8)).collect();
        words[0] == 0
            && words[1] >> 62 == 1
            && words[3].count_ones() > 8
            && (1..=3000).contains(&words[7])
    };
    let at = (0..whole.len() - 64).step_by(64).find(is_first).expect("there is a first leaf");
    for wrong in [u64::MAX, 1 << 47, 1 << 46] {
        let mut damaged = whole.clone();
        damaged[at + 56..at + 64].copy_from_slice(&wrong.to_le_bytes());
        let told = refusal::<SpTreeBuffered<Production>>(&path, &damaged).expect("it is wrong");
        assert!(told.contains("writes are in their place"), "{told}");
    }
}
