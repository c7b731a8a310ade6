//! SPTree's checkpoints of the heads of its buffers: whatever becomes of them, nothing is lost.

use std::collections::BTreeSet;
use std::path::Path;

use everleaf_designs::{SpTreeBuffered, SpTreeCheckpointed};
use everleaf_index::{CreateMode, Design, OrderedIndex, Production, SingleTreePool, Tiny};

use super::common::{Model, open};

/// Keys of the pools here: some fifty leaves, and a log of a few chunks.
const KEYS: u64 = 2500;
/// The last of these writes is not at the end of a checkpoint.
const WRITES: u64 = 13_000;
/// Behind so many, half of the leaves are not written any more.
const EVEN_WRITES: u64 = 2 * KEYS;
/// Words of the root object: the two areas.
const AREAS: [usize; 2] = [30, 31];

/// Far apart, so that no other word of the pool has the value of one.
fn key(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 1 | 1 << 62
}

/// A pool whose tree was left as a crash leaves it, and what is in it.
fn left<T: Design>(path: &Path) -> (Vec<u8>, Model) {
    let single = open::<T>(path, CreateMode::New);
    let mut session = single.heap().session().expect("a free session");
    let mut model = Model::new();
    for number in 0..WRITES {
        let key = key(number * 7919 % KEYS);
        if number >= EVEN_WRITES && key >> 61 & 1 == 1 {
            continue;
        }
        if number % 13 == 5 {
            let _ = single.tree().remove(&mut session, key).expect("room");
            model.remove(&key);
        } else {
            let _ = single.tree().upsert(&mut session, key, number).expect("room");
            model.insert(key, number);
        }
    }
    drop(session);
    drop(single);
    (std::fs::read(path).expect("readable"), model)
}

/// Opens a pool with these bytes and compares all of it; gives how many buffers opening has left.
fn assert_has<T: Design>(path: &Path, bytes: &[u8], model: &Model) -> u64 {
    std::fs::write(path, bytes).expect("room");
    let single = open::<T>(path, CreateMode::Never);
    let tree = single.tree();
    let mut session = single.heap().session().expect("a free session");
    let all = tree.unrestored();
    for key in (0..KEYS).map(key) {
        assert_eq!(tree.get(&mut session, key).expect("whole"), model.get(&key).copied());
    }
    assert_eq!(tree.len(&mut session).expect("whole"), model.len() as u64);
    all
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// Where the first blocks of the two areas are.
fn areas(bytes: &[u8]) -> [usize; 2] {
    let tag = u64::from_le_bytes(*b"EVLSPTR4");
    let root = (0..bytes.len() - 256).step_by(64).find(|at| word(bytes, *at) == tag);
    let root = root.expect("there is a root object");
    AREAS.map(|index| word(bytes, root + index * 8) as usize)
}

#[test]
fn opening_finds_all_buffers_whatever_it_reads() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pool");
    type Tree = SpTreeCheckpointed<Production>;
    let (whole, model) = left::<Tree>(&path);
    let all = assert_has::<Tree>(&path, &whole, &model);
    assert!(all > 20, "{all} buffers");
    let areas = areas(&whole);
    assert!(areas.iter().all(|area| *area > 0), "both were written");
    // The newest one, the older one, both: of each an entry, the length, and the line that says that it is complete.
    for damaged in [&areas[..1], &areas[1..], &areas[..]] {
        for at in [64, 16, 32] {
            let mut bytes = whole.clone();
            for area in damaged {
                bytes[area + at] ^= 0x10;
            }
            assert_eq!(assert_has::<Tree>(&path, &bytes, &model), all, "{damaged:?} at {at}");
        }
    }
}

/// The log in front of the tails is not read by opening: what it has lost there is told to the thread that touches the
/// leaf, and other leaves are served.
#[test]
fn a_record_in_front_of_the_tails_is_told_when_it_is_needed() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pool");
    let told = |is_checkpointed: bool| {
        let (whole, model) = if is_checkpointed {
            left::<SpTreeCheckpointed<Production>>(&path)
        } else {
            left::<SpTreeBuffered<Production>>(&path)
        };
        let keys: BTreeSet<u64> = (0..KEYS).map(key).collect();
        let is_record = |at: &usize| {
            let words = [0, 8, 16, 24].map(|part| word(&whole, at + part));
            keys.contains(&words[0]) && words[1] <= WRITES && !keys.contains(&words[2])
        };
        let mut records: Vec<_> = (64..whole.len() - 64)
            .step_by(32)
            .filter(is_record)
            .map(|at| word(&whole, at + 8))
            .collect();
        records.sort_unstable();
        // The last write of the leaves that are not written any more.
        let newest = model.values().copied().collect::<BTreeSet<_>>();
        let is_needed = |value: &&u64| newest.contains(*value) && **value < EVEN_WRITES;
        let value = *records.iter().rev().find(is_needed).expect("there is one");
        let at = (64..whole.len() - 64)
            .step_by(32)
            .filter(is_record)
            .find(|at| word(&whole, at + 8) == value)
            .expect("it was found");
        let mut bytes = whole.clone();
        bytes[at + 9] ^= 0x40;
        std::fs::write(&path, bytes).expect("room");
        (word(&whole, at), model)
    };
    let (_, _) = told(false);
    let pool = everleaf_index::Pool::open(&path, &everleaf_index::PoolOptions::default());
    let refused = SingleTreePool::<SpTreeBuffered<Production>>::open(pool.expect("sound"), 1);
    assert!(refused.is_err(), "without checkpoints opening reads it");
    std::fs::remove_file(&path).expect("it is there");
    let (lost, model) = told(true);
    let single = open::<SpTreeCheckpointed<Production>>(&path, CreateMode::Never);
    let mut session = single.heap().session().expect("a free session");
    let error = single.tree().get(&mut session, lost).expect_err("its record is damaged");
    assert!(error.to_string().contains("of a leaf's buffer"), "{error}");
    let (mut served, mut told) = (0, 0);
    for key in (0..KEYS).map(key) {
        match single.tree().get(&mut session, key) {
            Ok(value) => {
                assert_eq!(value, model.get(&key).copied());
                served += 1;
            }
            Err(_) => told += 1,
        }
    }
    assert!(told <= 64 && served + told == KEYS, "{told} keys are told");
}

/// Lives that end in the middle of everything, with several threads each.
#[test]
fn nothing_is_lost_over_many_lives() {
    fn lives<T: Design>(keys: u64, writes: u64) {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("pool");
        drop(open::<T>(&path, CreateMode::New));
        let mut model = Model::new();
        for life in 0..8 {
            let single = open::<T>(&path, CreateMode::Never);
            let (tree, heap) = (single.tree(), single.heap());
            if life % 2 == 0 {
                let mut session = heap.session().expect("a free session");
                assert_eq!(tree.len(&mut session).expect("whole"), model.len() as u64, "{life}");
                for key in 0..keys {
                    let found = tree.get(&mut session, key).expect("whole");
                    assert_eq!(found, model.get(&key).copied(), "{key} in life {life}");
                }
            }
            // Each thread has keys of its own, from all leaves.
            let parts = std::thread::scope(|scope| {
                let write = |thread: u64| {
                    let mut session = heap.session().expect("a free session");
                    let mut part = vec![];
                    for number in 0..writes {
                        let key = (number * 7919 + life * 31) % (keys / 2) * 2 + thread;
                        if (number + life) % 5 == 3 {
                            let _ = tree.remove(&mut session, key).expect("room");
                            part.push((key, None));
                        } else {
                            let value = life << 32 | number;
                            let _ = tree.upsert(&mut session, key, value).expect("room");
                            part.push((key, Some(value)));
                        }
                    }
                    part
                };
                let threads = [0, 1].map(|thread| scope.spawn(move || write(thread)));
                threads.map(|thread| thread.join().expect("no panic"))
            });
            for (key, value) in parts.into_iter().flatten() {
                match value {
                    Some(value) => drop(model.insert(key, value)),
                    None => drop(model.remove(&key)),
                }
            }
        }
    }
    lives::<SpTreeCheckpointed<Production>>(4000, 5000);
    lives::<SpTreeCheckpointed<Tiny<7, 3>>>(60, 700);
    lives::<SpTreeCheckpointed<Tiny<3, 3>>>(40, 500);
}
