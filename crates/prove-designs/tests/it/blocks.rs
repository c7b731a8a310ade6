//! The allocators of NBTree's paper on the simulated machine: every small program in every order with
//! one preemption and cuts at every persist, recovery included; then programs by chance; and what an
//! allocation costs, exactly.

#![allow(clippy::print_stdout, reason = "what was explored is the result")]

use std::time::Instant;

use crate::common::{budget, half_of, tell, tell_marks};
use everleaf_designs::allocators::{
    Allocator, Calloc, Everleaf, Naive, NvAllocLike, NvmMallocLike, PmdkLike, Shape,
};
use everleaf_index::Heap;
use everleaf_machine::Simulated as M;
use everleaf_machine::simulated::counting::{Counting, CountingConfig, Tally};
use everleaf_machine::simulated::{Config, CrashConfig, Report};
use everleaf_prove::case::structure::Structure;
use everleaf_prove::machine::backing::new_pool_up_to;
use everleaf_prove::machine::configure::exhaustive;
use everleaf_prove::search::campaign::{Settings, run};
use everleaf_prove_designs::structures::STRUCTURES;

fn allocators() -> impl Iterator<Item = &'static Structure> {
    STRUCTURES.iter().filter(|structure| structure.name.starts_with("blocks-"))
}

/// The paper's tree with locks, on the allocators.
fn trees() -> impl Iterator<Item = &'static Structure> {
    STRUCTURES.iter().filter(|structure| structure.name.starts_with("nbtree-on-"))
}

#[test]
fn every_order_of_the_small_programs_survives_every_cut() {
    for structure in allocators() {
        let (started, mut total) = (Instant::now(), Report::default());
        for program in structure.small() {
            let case = structure.case(&program).expect("its own program");
            let (report, failure) = case.explore(&exhaustive(&Config::default(), 1), 2000);
            assert!(failure.is_none(), "{}, {program}: {failure:?}", structure.name);
            assert!(report.exhausted, "{}, {program}: more than 2000 orders", structure.name);
            total.add(&report);
            let crash = CrashConfig { nested_one_in: 1, ..CrashConfig::default() };
            let nested = Config { crash, simulate_open: true, ..Config::default() };
            let (report, failure) = case.explore(&nested, 2);
            assert!(failure.is_none(), "{}, {program}: {failure:?}", structure.name);
            assert!(report.counts.nested_runs > 0, "{}, {program}", structure.name);
            total.add(&report);
        }
        tell(structure.name, started, &total);
        tell_marks(&total);
    }
}

#[test]
fn random_programs_survive_on_every_machine() {
    let count = allocators().chain(trees()).count() as f64;
    for structure in allocators().chain(trees()) {
        let started = Instant::now();
        let (budget, seed) = budget(0.5 / count, half_of(100), 7);
        let settings = Settings { budget, schedules: 10, seed, ..Settings::default() };
        let verdict = run(structure, &settings, &mut |_| {});
        if let Some((record, failure)) = verdict.failure {
            panic!("{}: {failure}\n{}", structure.name, record.to_text());
        }
        tell(structure.name, started, &verdict.report);
        tell_marks(&verdict.report);
    }
}

#[test]
fn a_tree_on_them_survives_every_order_of_its_small_programs() {
    for structure in trees() {
        let (started, mut total) = (Instant::now(), Report::default());
        for program in structure.small() {
            let case = structure.case(&program).expect("its own program");
            let (report, failure) = case.explore(&exhaustive(&Config::default(), 1), 200);
            assert!(failure.is_none(), "{}, {program}: {failure:?}", structure.name);
            total.add(&report);
            let crash = CrashConfig { nested_one_in: 100, ..CrashConfig::default() };
            let nested = Config { crash, ..Config::default() };
            let (report, failure) = case.explore(&nested, 1);
            assert!(failure.is_none(), "{}, {program}: {failure:?}", structure.name);
            total.add(&report);
        }
        tell(structure.name, started, &total);
        tell_marks(&total);
    }
}

/// Lines flushed, drains, and lines written.
type Cost = (u64, u64, u64);

fn cost(tally: Tally) -> Cost {
    (tally.flushes, tally.drains, tally.pool_lines_written)
}

/// What an activation and a liberation cost, destination included, in the published shape; and the lines
/// that four activations in a row write.
fn costs<A: Allocator<M>>() -> (Cost, Cost, u64) {
    const POOL: usize = 16 << 20;
    let counting = Counting::new(CountingConfig::default(), POOL);
    let pool = new_pool_up_to(counting.memory(), POOL as u64).expect("memory becomes a pool");
    let heap = Heap::create(pool).expect("room");
    let mut session = heap.session().expect("a free session");
    let session = &mut session;
    let chunk_bytes = A::CHUNK_BYTES.min(1 << 20);
    let chunks = (1 << 20) / chunk_bytes;
    let shape = Shape { block_bytes: 1024, chunk_bytes, chunks, threads: 2 };
    let allocator = A::create(session, shape).expect("room");
    // Larger than a line, so that each destination has one of its own.
    let row = session.allocate_record(1024).expect("room");
    let word = |index: u64| heap.pool().word(row + 128 * index);
    (0..8).for_each(|index| word(index).write_private(0));
    // The first one takes a chunk.
    let first = allocator.reserve(session).expect("room");
    allocator.activate(session, first, word(0));
    let block = counting.operation("reserve", || allocator.reserve(session).expect("room"));
    let reserved = counting.tally("reserve");
    assert_eq!((cost(reserved), reserved.pool_lines_read), ((0, 0, 0), 0), "{}", A::NAME);
    counting.operation("activate", || allocator.activate(session, block, word(1)));
    counting.operation("free", || allocator.free_from(session, word(0)));
    let mut four = vec![];
    (0..4).for_each(|_| four.push(allocator.reserve(session).expect("room")));
    counting.operation("four", || {
        for (block, index) in four.into_iter().zip(2..) {
            allocator.activate(session, block, word(index));
        }
    });
    let written = counting.tally("four").pool_lines_written;
    (cost(counting.tally("activate")), cost(counting.tally("free")), written)
}

#[test]
fn an_allocation_costs_what_the_designs_say() {
    // Each counts the destination's line, its flush and its drain.
    assert_eq!(costs::<Everleaf<M>>(), ((1, 1, 1), (1, 1, 1), 4));
    assert_eq!(costs::<Naive<M>>(), ((1, 1, 1), (1, 1, 1), 4));
    // Entry, bit and destination, entry again. A free block stays in the ring, on the line of the entry; the
    // first of four comes from there.
    assert_eq!(costs::<Calloc<M>>(), ((4, 3, 3), (3, 3, 2), 4 + 2));
    // Lane, bit and destination, lane again: 4 lines and 3 drains, as the specification has it. Four in
    // a row write one lane and one line of bits.
    assert_eq!(costs::<PmdkLike<M>>(), ((4, 3, 3), (4, 3, 3), 4 + 2));
    // Header, destination, header again; published are 2 and 2, which leaves the state behind. Four
    // blocks are on two pages, of which the first has three.
    assert_eq!(costs::<NvmMallocLike<M>>(), ((3, 3, 2), (3, 3, 2), 4 + 2));
    // Entry and bit, and the destination between them. Each of four has lines of its own.
    assert_eq!(costs::<NvAllocLike<M>>(), ((3, 3, 3), (3, 3, 3), 4 + 4 + 4));
}
