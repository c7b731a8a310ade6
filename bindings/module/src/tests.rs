//! The map against a model, without a server.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::allocator::ServerMemory;
use crate::entry::{Entry, NAME_SIZE_MAX};
use crate::map::{ALL, OrderedMap, PACKED_COUNT_MAX};
use crate::memory::OUTSIDE;
use crate::space;

type Model = BTreeMap<Vec<u8>, (Vec<u8>, u64)>;

fn put(map: &mut OrderedMap, name: &[u8], value: &[u8], expiry_ms: u64) {
    map.put(Entry { name, value, expiry_ms }).expect("memory");
}

fn contents(map: &OrderedMap, reverse: bool) -> Vec<(Vec<u8>, Vec<u8>, u64)> {
    let mut all = vec![];
    map.walk(ALL, reverse, &mut |entry| {
        all.push((entry.name.to_vec(), entry.value.to_vec(), entry.expiry_ms));
        true
    })
    .expect("undamaged");
    all
}

fn compare(map: &mut OrderedMap, model: &Model, now: u64) {
    let expected: Vec<_> = model
        .iter()
        .map(|(name, (value, expiry))| (name.clone(), value.clone(), *expiry))
        .collect();
    assert_eq!(contents(map, false), expected);
    let reversed: Vec<_> = expected.iter().rev().cloned().collect();
    assert_eq!(contents(map, true), reversed);
    assert_eq!(map.len(), model.len() as u64);
    let volatile = model.values().filter(|(_, expiry)| *expiry != 0).count();
    assert_eq!(map.volatile(), volatile as u64);
    let alive = model.values().filter(|(_, expiry)| *expiry == 0 || *expiry > now).count();
    assert_eq!(map.live_len(now).expect("undamaged"), alive as u64);
    let mut expired = map.expired(now, usize::MAX).expect("undamaged");
    expired.sort();
    let due: Vec<_> = model
        .iter()
        .filter(|(_, (_, expiry))| *expiry != 0 && *expiry <= now)
        .map(|(name, _)| name.clone())
        .collect();
    assert_eq!(expired, due);
}

fn random_name(random: &mut StdRng, names: usize) -> Vec<u8> {
    let number = random.random_range(0..names);
    let mut name = format!("{:b}", number).into_bytes();
    if number % 7 == 0 {
        name.resize(name.len() + number % 90, 0xFF);
    }
    if number == 5 { vec![] } else { name }
}

/// A step on map and model; the names that are due at `now` may be removed.
fn step(random: &mut StdRng, map: &mut OrderedMap, model: &mut Model, names: usize, now: u64) {
    let name = random_name(random, names);
    match random.random_range(0..10) {
        0..5 => {
            let size = if random.random_ratio(1, 50) { 5000 } else { random.random_range(0..40) };
            let value = vec![random.random(); size];
            let expires = random.random_ratio(1, 3);
            let expiry = if expires { random.random_range(1..2 * now) } else { 0 };
            put(map, &name, &value, expiry);
            model.insert(name, (value, expiry));
        }
        5..8 => {
            let old = map.remove(&name).expect("memory").map(|old| (old.value_size, old.expiry_ms));
            let expected = model.remove(&name).map(|(value, expiry)| (value.len(), expiry));
            assert_eq!(old, expected);
        }
        8 => {
            let found = map.get(&name, now, |entry| entry.value.to_vec()).expect("undamaged");
            let expected = model.get(&name).filter(|(_, expiry)| *expiry == 0 || *expiry > now);
            assert_eq!(found, expected.map(|(value, _)| value.clone()));
        }
        _ => {
            let other = random_name(random, names);
            let (from, to) = if name < other { (name, other) } else { (other, name) };
            let bounds = (Bound::Excluded(from.as_slice()), Bound::Included(to.as_slice()));
            let mut found = vec![];
            map.walk(bounds, false, &mut |entry| {
                found.push(entry.name.to_vec());
                true
            })
            .expect("undamaged");
            let expected: Vec<_> = if from == to {
                vec![]
            } else {
                model.range::<[u8], _>(bounds).map(|(name, _)| name.clone()).collect()
            };
            assert_eq!(found, expected);
        }
    }
}

#[test]
fn random_operations_give_what_the_model_gives() {
    space::open().expect("this machine is fit");
    for seed in 0..60 {
        println!("seed {seed}");
        let mut random = StdRng::seed_from_u64(seed);
        let names = [10, 60, 200, 3000][seed as usize % 4];
        let (mut map, mut model) = (OrderedMap::new(), Model::new());
        for round in 0..3000 {
            step(&mut random, &mut map, &mut model, names, 1000);
            if round % 500 == 0 {
                compare(&mut map, &model, 1000);
            }
        }
        compare(&mut map, &model, 1000);
        let mut copy = map.copy().expect("memory");
        // Down to nothing, through the packed form.
        for name in model.keys() {
            map.remove(name).expect("memory").expect("it is there");
        }
        assert_eq!((map.len(), map.encoding()), (0, "packed"));
        compare(&mut copy, &model, 1000);
    }
}

#[test]
fn a_map_is_packed_while_small_and_again_when_small() {
    space::open().expect("this machine is fit");
    let mut map = OrderedMap::new();
    let empty = map.memory();
    for number in 0..10 {
        put(&mut map, format!("key:{number:04}").as_bytes(), b"eight by", 0);
    }
    let ten = map.memory();
    println!("an empty map: {empty} bytes; of ten entries of 16 bytes: {ten}");
    assert!(empty < 128 && ten < 512, "{empty} {ten}");
    for number in 10..PACKED_COUNT_MAX {
        put(&mut map, format!("key:{number:04}").as_bytes(), b"eight by", 0);
    }
    assert_eq!(map.encoding(), "packed");
    for number in PACKED_COUNT_MAX..1000 {
        put(&mut map, format!("key:{number:04}").as_bytes(), b"eight by", number as u64);
    }
    assert_eq!(map.encoding(), "tree");
    println!("of a thousand: {}", map.memory());
    for number in 20..1000 {
        map.remove(format!("key:{number:04}").as_bytes()).expect("memory").expect("there");
    }
    assert_eq!((map.encoding(), map.len()), ("packed", 20));
}

#[test]
fn the_longest_names_and_the_emptiest_are_kept() {
    space::open().expect("this machine is fit");
    let mut map = OrderedMap::new();
    let long = vec![0xFF; NAME_SIZE_MAX];
    put(&mut map, &long, b"last", 7);
    put(&mut map, b"", b"first", 0);
    put(&mut map, &long[1..], &vec![1; 1 << 20], 9);
    assert_eq!(map.encoding(), "tree");
    let all = contents(&map, false);
    assert_eq!(all.iter().map(|entry| entry.0.len()).collect::<Vec<_>>(), [0, 65_518, 65_519]);
    assert_eq!(all[2].1, b"last");
    assert_eq!(map.expired(8, 10).expect("undamaged"), [long]);
    let too_long = Entry { name: &[0; NAME_SIZE_MAX + 1], value: b"", expiry_ms: 0 };
    assert!(too_long.check().is_err());
}

#[test]
fn maps_of_one_tree_are_apart_and_freed_on_another_thread() {
    space::open().expect("this machine is fit");
    let mut maps: Vec<OrderedMap> = (0..4).map(|_| OrderedMap::new()).collect();
    for round in 0..20_000_u32 {
        for (number, map) in maps.iter_mut().enumerate() {
            let value = [number as u8; 9];
            put(
                map,
                &(round.wrapping_mul(2_654_435_761)).to_be_bytes(),
                &value,
                u64::from(round % 2),
            );
        }
    }
    let freed: Vec<OrderedMap> = maps.drain(1..3).collect();
    std::thread::scope(|scope| {
        scope.spawn(move || drop(freed));
        for map in &mut maps {
            for round in 0..1000_u32 {
                put(map, format!("new {round}").as_bytes(), b"value", 0);
            }
        }
    });
    for (number, map) in [0, 3].into_iter().zip(&maps) {
        let all = contents(map, false);
        assert_eq!(all.len(), 21_000);
        assert!(
            all.iter().all(|(name, value, _)| name.starts_with(b"new") || *value == [number; 9])
        );
    }
}

thread_local! {
    /// Whether notes of times cannot be removed, as when there is no memory for it.
    static NOTES_STAY: Cell<bool> = const { Cell::new(false) };
}

thread_local! {
    /// Keys of the tree that cannot be removed are those with this last byte.
    static STAYING: Cell<Option<u8>> = const { Cell::new(None) };
}

/// Whether the removal of a key of the tree is to be refused.
pub fn is_refused(key: &[u8]) -> bool {
    NOTES_STAY.get() && key.get(8) == Some(&space::EXPIRIES)
        || STAYING.get().is_some_and(|byte| key.last() == Some(&byte))
}

/// A map of which each piece that is freed is counted, and how many were.
static WATCHED: AtomicU64 = AtomicU64::new(0);
static PIECES: AtomicU64 = AtomicU64::new(0);

/// A piece of a map is freed.
pub fn note_piece(number: u64) {
    if WATCHED.load(Ordering::Relaxed) == number {
        PIECES.fetch_add(1, Ordering::Relaxed);
    }
}

/// How many keys the tree has of the map of a number.
fn keys_in_tree(number: u64) -> usize {
    let (from, to) = (number.to_be_bytes(), (number + 1).to_be_bytes());
    let bounds = (Bound::Included(from.as_slice()), Bound::Excluded(to.as_slice()));
    let mut count = 0;
    let walked = space::with(|space, session| {
        space.walk(session, bounds, false, |_, _, _| {
            count += 1;
            true
        })
    });
    walked.expect("undamaged");
    count
}

fn large_map(count: u32) -> OrderedMap {
    let mut map = OrderedMap::new();
    (0..count).for_each(|number| put(&mut map, &number.to_be_bytes(), b"value", 0));
    assert_eq!(map.encoding(), "tree");
    map
}

/// What was lost: all of a map behind the first entry that could not be freed for want of memory, for good.
#[test]
fn what_could_not_be_freed_is_tried_again() {
    space::open().expect("this machine is fit");
    let map = large_map(5000);
    let number = map.number();
    STAYING.set(Some(7));
    drop(map);
    STAYING.set(None);
    // One of 256, unless another thread has freed them by now.
    assert!(keys_in_tree(number) <= 20, "{}", keys_in_tree(number));
    for _ in 0..1000 {
        if keys_in_tree(number) == 0 {
            return;
        }
        // Memory comes back with whatever is freed.
        drop(large_map(1000));
    }
    panic!("{} keys are left", keys_in_tree(number));
}

/// What was lost: live entries of a map that had been small, left the tree without memory to free it, and came back.
#[test]
fn what_is_freed_late_takes_nothing_of_a_map_that_grew_again() {
    space::open().expect("this machine is fit");
    let mut map = large_map(1000);
    let before = map.number();
    STAYING.set(Some(7));
    // Packed with 32; those that end in 7 are not removed, and stay where the map was.
    for number in (0..1000_u32).filter(|number| number % 256 != 7).take(980) {
        assert!(map.remove(&number.to_be_bytes()).is_ok());
    }
    STAYING.set(None);
    assert_eq!(map.encoding(), "packed");
    (0..500_u32).for_each(|number| put(&mut map, &number.to_be_bytes(), b"again", 0));
    assert_eq!(map.encoding(), "tree");
    let wanted = contents(&map, false);
    for _ in 0..1000 {
        // Memory comes back with whatever is freed.
        drop(large_map(1000));
        if keys_in_tree(before) == 0 || map.number() == before {
            break;
        }
    }
    for _ in 0..20 {
        drop(large_map(1000));
    }
    assert_eq!(contents(&map, false), wanted);
    assert_eq!(map.len() as usize, wanted.len());
}

/// What stood still: every command, while another thread freed a map, for its memory could not be looked after
/// meanwhile.
#[test]
fn looking_after_memory_waits_for_no_thread_that_frees() {
    space::open().expect("this machine is fit");
    space::before_fork();
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut map = large_map(5000);
        (200..5000_u32).for_each(|it| assert!(map.remove(&it.to_be_bytes()).is_ok()));
        space::return_freed();
        // It is packed, and so freed, when the gate is open.
        sender.send(map).expect("the test waits");
    });
    let map = receiver.recv_timeout(Duration::from_secs(60));
    space::behind_fork();
    assert_eq!(map.expect("it did not wait").len(), 200);
}

/// What stood still: the server, which wanted to fork, until all of a map was freed. The thread that freed it had
/// each piece's lock again before another could wake up.
#[test]
fn who_wants_to_fork_waits_for_one_piece() {
    space::open().expect("this machine is fit");
    let map = large_map(200_000);
    WATCHED.store(map.number(), Ordering::Relaxed);
    let is_freed = AtomicBool::new(false);
    let pieces = || PIECES.load(Ordering::Relaxed);
    let mut missed = 0;
    space::before_fork();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            drop(map);
            is_freed.store(true, Ordering::Relaxed);
        });
        for _ in 0..20 {
            let before = pieces();
            space::behind_fork();
            // The other thread has the gate, or had it.
            while pieces() == before && !is_freed.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            let begun = pieces();
            space::before_fork();
            missed += pieces() - begun;
        }
        space::behind_fork();
    });
    println!("{missed} of {} pieces were freed while the gate was waited for", pieces());
    // One of each wait, or two where it is seen too late; and all that fit in where this thread does not run.
    assert!(missed < pieces() / 2, "{missed} of {}", pieces());
}

/// What was lost: the note of a time stayed when there was no memory to remove it, and its entry went at that time, whatever
/// time it had by then; and the entry was counted for good where its removal had been told to have failed.
#[test]
fn an_entry_goes_at_its_own_time_whatever_notes_stayed() {
    space::open().expect("this machine is fit");
    let (mut map, mut model) = (OrderedMap::new(), Model::new());
    for number in 0..500_u32 {
        let (name, expiry) = (number.to_be_bytes(), u64::from(number % 2) * 100);
        put(&mut map, &name, b"value", expiry);
        model.insert(name.to_vec(), (b"value".to_vec(), expiry));
    }
    assert_eq!(map.encoding(), "tree");
    NOTES_STAY.set(true);
    // Another time, none, and gone.
    for (number, expiry) in [(1_u32, Some(900)), (3, Some(0)), (5, None), (7, Some(50))] {
        let name = number.to_be_bytes();
        match expiry {
            Some(expiry) => {
                put(&mut map, &name, b"other", expiry);
                model.insert(name.to_vec(), (b"other".to_vec(), expiry));
            }
            None => {
                map.remove(&name).expect("it is removed").expect("it was there");
                model.remove(&name[..]);
            }
        }
    }
    for now in [60, 100, 899, 900] {
        compare(&mut map, &model, now);
    }
    NOTES_STAY.set(false);
    for now in [60, 100, 900] {
        compare(&mut map, &model, now);
        for name in map.expired(now, usize::MAX).expect("undamaged") {
            map.remove(&name).expect("memory").expect("it is there");
            model.remove(&name);
        }
    }
    assert_eq!((map.len(), map.volatile()), (251, 0));
}

/// What was lost: chunks that two maps share counted as long as one of them was there. So eviction freed nothing that
/// counted, and went on until nearly all was gone; and what was over the limit once stayed refused.
#[test]
fn what_is_removed_counts_no_more_even_in_shared_chunks() {
    const SIZE: usize = 600;
    const COUNT: u32 = 20_000;
    space::open().expect("this machine is fit");
    let mut maps: [OrderedMap; 2] = std::array::from_fn(|_| OrderedMap::new());
    let name = |number: u32| number.wrapping_mul(2_654_435_761).to_be_bytes();
    for number in 0..COUNT {
        maps.iter_mut().for_each(|map| put(map, &name(number), &[7; SIZE], 0));
    }
    // Other tests of this process take and free some MiB meanwhile.
    let size = SIZE as u64 * u64::from(COUNT);
    let [kept, freed] = maps;
    let before = space::used_bytes();
    drop(freed);
    space::return_freed();
    let after = space::used_bytes();
    assert!(
        before - after > size * 2 / 3,
        "{before} bytes before, and {after} after {size} were freed"
    );
    // In place of it comes as much again.
    let mut next = OrderedMap::new();
    (0..COUNT).for_each(|number| put(&mut next, &name(number), &[8; SIZE], 0));
    let again = space::used_bytes();
    assert!(again.abs_diff(before) < size / 3, "{before} bytes before, and {again} again");
    for number in (0..COUNT).rev() {
        next.remove(&name(number)).expect("memory").expect("it is there");
        if number % 100 == 0 {
            space::return_freed();
        }
    }
    let last = space::used_bytes();
    assert!(
        again - last > size * 2 / 3,
        "{again} bytes before, and {last} after {size} were removed"
    );
    drop(kept);
}

/// What was lost: the server's count of the module's memory was too high for good behind a block that could not be had.
#[test]
fn blocks_that_cannot_be_had_count_for_nothing() {
    let counted = || OUTSIDE.load(Ordering::Relaxed);
    let layout = |size| Layout::from_size_align(size, 64).expect("a layout");
    let huge = isize::MAX as usize - 63;
    let before = counted();
    // SAFETY: the size is not zero.
    let block = unsafe { ServerMemory.alloc(layout(128)) };
    assert!(!block.is_null());
    assert_eq!(counted(), before + 128);
    // SAFETY: the block is of this layout, and the size not zero.
    let grown = unsafe { ServerMemory.realloc(block, layout(128), huge) };
    assert!(grown.is_null());
    // SAFETY: the size is not zero.
    assert!(unsafe { ServerMemory.alloc(layout(huge)) }.is_null());
    assert_eq!(counted(), before + 128);
    // SAFETY: the block is of this layout, and is not used any more.
    unsafe { ServerMemory.dealloc(block, layout(128)) };
    assert_eq!(counted(), before);
}

/// What a server with active defragmentation does: a block goes to another place, or stays.
#[test]
fn a_map_is_the_same_where_it_was_moved_to() {
    space::open().expect("this machine is fit");
    for (count, blocks) in [(0_u32, 1), (3, 2), (5000, 1)] {
        let mut map = Box::new(OrderedMap::new());
        let name = |number: u32| number.to_be_bytes();
        (0..count).for_each(|number| put(&mut map, &name(number), &[7; 9], 0));
        let sizes = [size_of::<OrderedMap>(), map.memory() as usize - size_of::<OrderedMap>()];
        let mut map = Box::into_raw(map);
        for moves in [true, false] {
            let (mut seen, old) = (0, map);
            let mut relocate = |block: *mut u8| {
                seen += 1;
                if !moves {
                    return std::ptr::null_mut();
                }
                let is_map = block == old.cast();
                let (size, align) =
                    if is_map { (sizes[0], align_of::<OrderedMap>()) } else { (sizes[1], 1) };
                let layout = Layout::from_size_align(size, align).expect("a layout");
                // SAFETY: the layout has a size.
                let other = unsafe { std::alloc::alloc(layout) };
                // SAFETY: both are of this layout, and the other one is no part of the block.
                unsafe { block.copy_to_nonoverlapping(other, size) };
                // SAFETY: the block is of this layout; nobody reads what it holds any more.
                unsafe { block.write_bytes(0xa5, size) };
                // SAFETY: the block is of this layout, and the other one takes its place.
                unsafe { std::alloc::dealloc(block, layout) };
                other
            };
            // SAFETY: the map is one of `Box::into_raw`, and nobody else uses it; blocks are given back as is promised.
            map = unsafe { OrderedMap::relocate(map, &mut relocate) };
            assert_eq!(seen, blocks, "{count}");
            assert_eq!(map != old, moves);
        }
        // SAFETY: it was made by `Box::into_raw`, or moved in its place.
        let mut map = unsafe { Box::from_raw(map) };
        assert_eq!(map.len(), u64::from(count));
        for number in 0..count {
            let found = map.get(&name(number), 0, |entry| entry.value == [7; 9]);
            assert_eq!(found.expect("memory"), Some(true), "{number}");
        }
        put(&mut map, b"new", b"v", 0);
        assert_eq!(map.len(), u64::from(count) + 1);
    }
}
