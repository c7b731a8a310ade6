//! Space that was returned to the system is allocated again before anybody gets it, and is returned
//! only when nobody looks there, also after a crash.

mod world;

use std::collections::BTreeSet;

use everleaf_machine::random::mix;

use self::world::{CHUNK, PAGE, UNIT, World, of_chunks};

#[test]
fn returned_space_is_allocated_before_it_is_handed_out() {
    for seed in 0..40 {
        let world = World::in_units_of([PAGE, CHUNK, 2 * CHUNK, UNIT][seed as usize % 4], 1 << 26);
        let mut session = world.heap.session().expect("room");
        let mut held: Vec<(u64, usize)> = vec![];
        for step in 0..600u64 {
            let dice = mix(seed << 20 | step);
            match dice % 8 {
                0..4 => {
                    let size = 1 + (dice >> 8) as usize % 120_000;
                    match session.allocate_record(size) {
                        Ok(offset) => {
                            world.has_space(offset, offset + size as u64);
                            world.heap.pool().word(offset).write_private(step);
                            held.push((offset, size));
                        }
                        Err(error) => {
                            assert!(error.is_full(), "{error}");
                            world.disk.lock().expect("nobody panics with it").is_full = false;
                        }
                    }
                }
                4 if !held.is_empty() => {
                    let (offset, size) = held.swap_remove((dice >> 8) as usize % held.len());
                    session.free_record(offset, size);
                }
                5 if dice & 0x300 == 0 => {
                    for (offset, size) in held.drain(..) {
                        session.free_record(offset, size);
                    }
                }
                6 => {
                    session.give_back();
                    world.heap.return_space().expect("room");
                }
                7 => world.disk.lock().expect("nobody panics with it").is_full = dice & 0x100 == 0,
                _ => {}
            }
            world.walk();
            world.counts();
            for (offset, size) in &held {
                world.has_space(*offset, *offset + *size as u64);
            }
        }
    }
}

#[test]
fn all_whole_units_that_are_free_are_returned() {
    let world = World::new();
    let mut session = world.heap.session().expect("room");
    let held: Vec<u64> = (0..40).map(|_| session.allocate_record(100_000).expect("room")).collect();
    for offset in &held[1..] {
        session.free_record(*offset, 100_000);
    }
    let free = world.heap.returnable_bytes();
    let returned = world.heap.return_space().expect("room");
    assert_eq!(returned, free);
    let free = (39 * 7) << 14;
    assert!(returned + 2 * UNIT > free, "{returned} of {free}: all but the units of both ends");
    assert_eq!(world.heap.return_space().expect("room"), 0, "only once");
    world.counts();
    // A full disk: what was returned cannot be had, and nothing is lost by asking.
    world.disk.lock().expect("nobody panics with it").is_full = true;
    assert!(session.allocate_record(3_000_000).expect_err("the disk is full").is_full());
    world.disk.lock().expect("nobody panics with it").is_full = false;
    let offset = session.allocate_record(3_000_000).expect("room");
    world.has_space(offset, offset + 3_000_000);
    world.walk();
}

/// Free space that has its space was refused, because holes lay before it in its run: no removal could
/// cure a full disk.
#[test]
fn a_full_disk_gives_what_has_space() {
    let world = World::new();
    let mut session = world.heap.session().expect("room");
    let [a, b, c, _end] =
        [10, 10, 7, 1].map(|count| world.allocate(&mut session, of_chunks(count)));
    session.free_record(a, of_chunks(10));
    world.heap.return_space().expect("room");
    world.disk().is_full = true;
    // Behind a hole, and so much as there is.
    session.free_record(b, of_chunks(10));
    let again = world.allocate(&mut session, of_chunks(10));
    world.walk();
    // Before a hole: all but one chunk, which is left for the header of the rest.
    session.free_record(again, of_chunks(10));
    world.disk().is_full = false;
    world.heap.return_space().expect("room");
    let low = world.allocate(&mut session, of_chunks(20));
    session.free_record(low, of_chunks(20));
    session.free_record(c, of_chunks(7));
    world.heap.return_space().expect("room");
    world.counts();
    let _filled = world.allocate(&mut session, of_chunks(2));
    world.walk();
    world.counts();
}

/// As far as the pool reaches there is space, though holes come before it.
#[test]
fn a_full_disk_gives_the_frontier_of_the_pool() {
    let world = World::new();
    let mut session = world.heap.session().expect("room");
    let [a, _end] = [10, 1].map(|count| world.allocate(&mut session, of_chunks(count)));
    session.free_record(a, of_chunks(10));
    world.heap.return_space().expect("room");
    assert!(
        world.heap.pool().size() > world.heap.used_bytes() + (25 << 14),
        "there is room behind it"
    );
    world.disk().is_full = true;
    let mut taken = 0;
    while let Ok(offset) = session.allocate_record(of_chunks(1)) {
        world.has_space(offset, offset + of_chunks(1) as u64);
        taken += 1;
    }
    assert!(taken >= 25, "{taken} chunks of a pool of 64");
    world.walk();
    world.counts();
}

/// Where holes cannot be filled the pool grows, if it can.
#[test]
fn a_pool_grows_where_holes_cannot_be_filled() {
    let world = World::new();
    let mut session = world.heap.session().expect("room");
    let [a, _end] = [100, 1].map(|count| world.allocate(&mut session, of_chunks(count)));
    session.free_record(a, of_chunks(100));
    world.heap.return_space().expect("room");
    world.disk().fills_nothing = true;
    let size = world.heap.pool().size();
    world.allocate(&mut session, of_chunks(90));
    assert!(world.heap.pool().size() > size);
    world.walk();
    world.counts();
}

/// A filling that failed in the middle kept what it had got: the disk was full of space that nobody
/// counted and nobody returned.
#[test]
fn a_refused_filling_keeps_nothing() {
    let world = World::new();
    let mut session = world.heap.session().expect("room");
    let [a, _end] = [100, 1].map(|count| world.allocate(&mut session, of_chunks(count)));
    session.free_record(a, of_chunks(100));
    world.heap.return_space().expect("room");
    // The frontier that the pool reaches.
    world.disk().is_full = true;
    while session.allocate_record(of_chunks(1)).is_ok() {}
    world.disk().is_full = false;
    let holes = world.disk().holes.clone();
    for count in [100, 90, 60] {
        world.disk().pages_left = Some(200);
        let error = session.allocate_record(of_chunks(count)).expect_err("only 50 chunks fit");
        assert!(error.is_full(), "{error}");
        assert_eq!(world.disk().holes, holes, "as before it was tried");
        world.counts();
        world.walk();
    }
    // What others would have missed is there: twelve units.
    world.allocate(&mut session, of_chunks(47));
    world.counts();
    world.walk();
}

/// A pool in which every second record is free, and two units of it were returned.
fn with_many_holes() -> World {
    let world = World::new();
    let mut session = world.heap.session().expect("room");
    let held: Vec<u64> = (0..100).map(|_| world.allocate(&mut session, of_chunks(12))).collect();
    for offset in held.iter().step_by(2) {
        session.free_record(*offset, of_chunks(12));
    }
    session.give_back();
    drop(session);
    assert!(world.heap.return_space().expect("room") > 48 * 2 * UNIT);
    world
}

/// Each free run was searched by itself, twice, and the kernel looks at all extents before and behind
/// it: a pool with many holes took the square of their number to open.
#[test]
fn an_opening_searches_for_holes_once() {
    let world = with_many_holes();
    let holes = world.disk().holes.clone();
    world.disk().searches = 0;
    let world = world.reopen().expect("it is sound");
    assert_eq!(world.disk().searches, 1);
    assert_eq!(world.disk().holes, holes, "free runs stay as they are");
    world.counts();
    world.walk();
}

/// A search that failed was taken for one that found nothing: what has no space would have been given
/// out, and the first store to it would have ended the process.
#[test]
fn an_opening_that_cannot_search_for_holes_is_refused() {
    let world = with_many_holes();
    world.disk().cannot_search = true;
    let error = world.reopen().err().expect("it is not known what has space");
    assert!(error.to_string().contains("find out which parts of it have space"), "{error}");
}

/// A world in which twelve chunks are free, and the first page of the first of two units that they fill.
fn with_two_free_units() -> (World, u64) {
    let world = World::new();
    let mut session = world.heap.session().expect("room");
    let [a, _end] = [12, 1].map(|count| world.allocate(&mut session, of_chunks(count)));
    session.free_record(a, of_chunks(12));
    drop(session);
    (world, (a + CHUNK).next_multiple_of(UNIT) / PAGE)
}

/// What a full disk refuses at opening takes no header with it.
#[test]
fn a_unit_that_is_half_a_hole_keeps_what_is_around_it() {
    let (world, first) = with_two_free_units();
    // A page in the middle of the first, and two of the last.
    world.disk().holes.extend([first + 2, first + 25, first + 26]);
    world.disk().is_full = true;
    let world = world.reopen().expect("it is sound");
    world.walk();
    world.counts();
    assert_eq!(world.heap.returned_bytes(), 2 * UNIT);
    let world = world.reopen().expect("it is sound");
    world.walk();
    world.disk().is_full = false;
    let mut session = world.heap.session().expect("room");
    world.allocate(&mut session, of_chunks(12));
    world.walk();
    world.counts();
}

/// As an older version, or a copying program, left them: a store beside these holes would fill them, and where the disk
/// is full end the process.
#[test]
fn holes_beside_what_is_in_use_are_filled_at_opening_or_refused() {
    let (world, first) = with_two_free_units();
    let places = (world.memory.clone(), world.disk.clone());
    // Beside the header of the free run, and beside the chunk behind it.
    for hole in [first - 2, first + 32] {
        world.disk().holes = [hole].into();
        world.disk().is_full = true;
        let refused = World::open(places.0.clone(), places.1.clone()).err();
        assert!(refused.expect("there is no space").is_full(), "page {hole}");
        world.disk().is_full = false;
        let opened = World::open(places.0.clone(), places.1.clone()).expect("it is sound");
        assert_eq!(opened.disk().holes, BTreeSet::new());
        opened.walk();
    }
}

/// Holes of any pages of what is free.
#[test]
fn units_of_what_is_in_use_have_their_space_behind_any_opening() {
    let (mut filled, mut kept) = (0, 0);
    for seed in 0..60 {
        let world = World::in_units_of([PAGE, CHUNK, 2 * CHUNK, UNIT][seed as usize % 4], 1 << 26);
        let mut session = world.heap.session().expect("room");
        let held: Vec<u64> = (0..40)
            .map(|step| 1 + (mix(seed << 20 | step) % 9) as usize)
            .map(|count| world.allocate(&mut session, of_chunks(count)))
            .collect();
        for (step, offset) in (0..).zip(&held) {
            if !mix(seed << 20 | 1 << 10 | step).is_multiple_of(3) {
                let count = 1 + (mix(seed << 20 | step) % 9) as usize;
                session.free_record(*offset, of_chunks(count));
            }
        }
        drop(session);
        let mut holes = BTreeSet::new();
        let density = 1 + mix(seed) % 40;
        for (start, end) in world.free_parts() {
            let pages = start / PAGE + 1..end / PAGE;
            holes.extend(pages.filter(|page| mix(seed << 20 | page) % 40 < density));
        }
        world.disk().holes.clone_from(&holes);
        let world = world.reopen().expect("it is sound");
        world.walk();
        world.counts();
        filled += holes.difference(&world.disk().holes).count();
        kept += world.disk().holes.len();
        world.disk().is_full = true;
        let mut session = world.heap.session().expect("room");
        while let Ok(offset) = session.allocate_record(of_chunks(1)) {
            world.has_space(offset, offset + CHUNK);
        }
        world.disk().is_full = false;
        world.walk();
        world.counts();
        for _ in 0..20 {
            world.allocate(&mut session, of_chunks(3));
            world.walk();
            world.counts();
        }
    }
    assert!(filled > 1000 && kept > 1000, "{filled} pages filled, {kept} kept");
}

/// A run that is returned in several turns, and taken back in pieces from its end and as a whole.
#[test]
fn long_runs_are_returned_and_filled_piece_by_piece() {
    let world = World::of_size(1 << 28);
    let mut session = world.heap.session().expect("room");
    let chunks = (50 << 20 >> 14) + 3;
    let [long, _end] = [chunks, 1].map(|count| world.allocate(&mut session, of_chunks(count)));
    for turn in 0..3 {
        let mut at = if turn == 0 { long } else { world.allocate(&mut session, of_chunks(chunks)) };
        session.free_record(at, of_chunks(chunks));
        let returned = world.heap.return_space().expect("room");
        assert!(returned + 2 * UNIT > (chunks as u64) << 14, "all but the units of both ends");
        assert!(
            world.heap.returnable_bytes() < 1 << 14,
            "all is returned, also what was free before"
        );
        world.counts();
        let mut held = vec![];
        for count in [1, 2, 700, 1500, 33] {
            // What has space comes first; and nothing more is filled than the units of what is handed out.
            let holes = world.disk().holes.len();
            at = world.allocate(&mut session, of_chunks(count));
            let filled = holes - world.disk().holes.len();
            assert!(filled < (count + 8) * 4, "{filled} pages for {count} chunks");
            world.walk();
            world.counts();
            held.push((at, of_chunks(count)));
        }
        for (offset, size) in held {
            session.free_record(offset, size);
            world.walk();
            world.counts();
        }
    }
}

/// What a file system does not take back is not counted as returned, nor tried again.
#[test]
fn a_medium_that_keeps_its_space_is_asked_once() {
    let world = World::new();
    let mut session = world.heap.session().expect("room");
    let [a, _end] = [100, 1].map(|count| world.allocate(&mut session, of_chunks(count)));
    session.free_record(a, of_chunks(100));
    world.disk().keeps_all = true;
    session.give_back();
    assert!(world.heap.returnable_bytes() + 2 * UNIT > 100 << 14);
    for _ in 0..3 {
        assert_eq!(world.heap.return_space().expect("room"), 0);
        assert_eq!(world.heap.returned_bytes(), 0);
        assert!(world.heap.returnable_bytes() < 100 << 14);
    }
    world.disk().is_full = true;
    world.allocate(&mut session, of_chunks(100));
    world.walk();
}

/// Some can be kept, and a caller that wants to end it can.
#[test]
fn returning_space_keeps_what_it_should_and_can_be_ended() {
    let world = World::of_size(1 << 28);
    let mut session = world.heap.session().expect("room");
    let [a, _end] = [3000, 1].map(|count| world.allocate(&mut session, of_chunks(count)));
    session.free_record(a, of_chunks(3000));
    assert_eq!(world.heap.return_space_but(0, || false).expect("room"), 0);
    let mut turns = 0..1;
    let some = world.heap.return_space_but(0, || turns.next().is_some());
    assert!(some.expect("room") < 3000 << 13, "not all in one turn");
    world.heap.return_space_but(100 << 14, || true).expect("room");
    let kept = world.heap.returnable_bytes() >> 14;
    assert!((100..110).contains(&kept), "{kept} chunks were kept");
    world.counts();
}
