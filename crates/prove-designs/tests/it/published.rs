//! NBTree as published: with one thread in everything that a crash can do to it, its variants with
//! locks also with several; and what its operations cost.

#![allow(clippy::print_stdout, reason = "what was explored is the result")]

use std::time::Instant;

use crate::common::{plain, survive, tell};
use everleaf_designs::{NbTreeCoupled, NbTreePublished, NbTreeW, NbTreeWr};
use everleaf_index::{Design, Production, SingleTreePool, Tiny};
use everleaf_machine::Simulated;
use everleaf_machine::simulated::counting::{Counting, CountingConfig, Tally};
use everleaf_machine::simulated::{Config, CrashConfig, Domain, Random, Report};
use everleaf_prove::Of;
use everleaf_prove::case::{Case, PlannedCase, explore};
use everleaf_prove::hunt::mutants::OF_OTHER_TREES;
use everleaf_prove::machine::backing::new_pool_up_to;
use everleaf_prove::machine::configure::exhaustive;
use everleaf_prove::programs::published::{DIRECTED, anomalies, directed};
use everleaf_prove::programs::{plans, scenarios, trees};
use everleaf_prove_designs::structures::find;

type M = Simulated;

/// A random program, with its threads or in one.
fn random<T: Design<M>>(number: u64, slots: usize, alone: bool) -> Box<dyn Case> {
    let case = PlannedCase::boxed(plans::random::<Of<T>>(number, slots));
    if alone { case.alone() } else { case }
}

/// Random programs with crashes, also in recovery, and with opening inside the simulation.
fn survives<T2: Design<M>, T3: Design<M>, T9: Design<M>>(rounds: u64, alone: bool) -> Report {
    let nested = CrashConfig { nested_one_in: 20, ..CrashConfig::default() };
    let base = |number| match number % 8 {
        3 => Config { crash: nested, ..Config::default() },
        5 => Config { simulate_open: true, ..Config::default() },
        _ => Config::default(),
    };
    survive(T2::INFO.name, 0.05, rounds, base, |number, config| {
        let case = match number % 3 {
            0 => random::<T2>(number, 2, alone),
            1 => random::<T3>(number, 3, alone),
            _ => random::<T9>(number, 9, alone),
        };
        case.explore(config, if alone { 1 } else { 10 })
    })
}

#[test]
fn one_thread_survives_everything() {
    for report in [
        survives::<
            NbTreePublished<Tiny<2, 3>, M>,
            NbTreePublished<Tiny<3, 3>, M>,
            NbTreePublished<Tiny<9, 3>, M>,
        >(168, true),
        survives::<
            NbTreeCoupled<Tiny<2, 3>, M>,
            NbTreeCoupled<Tiny<3, 3>, M>,
            NbTreeCoupled<Tiny<9, 3>, M>,
        >(32, true),
    ] {
        let met = |name| report.marks.iter().any(|(mark, _)| *mark == name);
        assert!(met("nbtree_published.sync"), "no leaf was replaced");
        assert!(met("nbtree_published.calloc_mended"), "no allocator was mended");
        assert!(report.counts.nested_runs > 0);
    }
}

#[test]
fn threads_that_lock_leaves_survive() {
    survives::<NbTreeW<Tiny<2, 3>, M>, NbTreeW<Tiny<3, 3>, M>, NbTreeW<Tiny<9, 3>, M>>(24, false);
    survives::<NbTreeWr<Tiny<2, 3>, M>, NbTreeWr<Tiny<3, 3>, M>, NbTreeWr<Tiny<9, 3>, M>>(
        24, false,
    );
}

/// Every order of the small programs with one preemption.
fn every_order<T2: Design<M>, T3: Design<M>>() {
    let started = Instant::now();
    let mut total = Report { exhausted: true, ..Report::default() };
    for scenario in scenarios::small() {
        for domain in [Domain::Adr, Domain::Eadr] {
            let config = exhaustive(&Config { domain, races: true, ..Config::default() }, 1);
            let space = Default::default();
            let (report, failure) =
                trees::run_numbers::<Of<T2>, Of<T3>>(&scenario, &config, 1_000_000, space);
            assert!(failure.is_none(), "{}, {config:?}: {failure:?}", scenario.name);
            total.add(&report);
        }
    }
    assert!(total.exhausted);
    tell(&format!("{}, small programs", T2::INFO.name), started, &total);
}

#[test]
fn small_programs_with_locks_survive_every_order() {
    every_order::<NbTreeW<Tiny<2, 3>, M>, NbTreeW<Tiny<3, 3>, M>>();
    every_order::<NbTreeWr<Tiny<2, 3>, M>, NbTreeWr<Tiny<3, 3>, M>>();
}

#[test]
fn named_scenarios_with_locks_survive() {
    let all: Vec<_> = scenarios::published_bugs().into_iter().chain(scenarios::others()).collect();
    survive("scenarios", 0.05, 2, plain, |number, config| {
        crate::common::all_of(&all, |scenario| {
            let space = Default::default();
            if number % 2 == 0 {
                trees::run_numbers::<Of<NbTreeW<Tiny<2, 3>, M>>, Of<NbTreeW<Tiny<3, 3>, M>>>(
                    scenario, config, 5, space,
                )
            } else {
                trees::run_numbers::<Of<NbTreeWr<Tiny<2, 3>, M>>, Of<NbTreeWr<Tiny<3, 3>, M>>>(
                    scenario, config, 5, space,
                )
            }
        })
    });
}

#[test]
fn trees_survive_that_memory_and_space_give_out() {
    let near_full = |number| {
        everleaf_prove::programs::exhaustion::near_full::<Of<NbTreeW<Tiny<2, 3>, M>>>(
            number,
            number.is_multiple_of(2),
        )
    };
    survive("full pools", 0.03, 12, plain, |number, config| {
        let (program, plan) = near_full(number);
        explore(program, plan, config, 10)
    });
    survive("no memory", 0.03, 28, plain, |number, config| {
        let config = Config { fail_allocation: Some(number % 14), ..config.clone() };
        let (mut program, plan) = plans::random::<Of<NbTreeW<Tiny<2, 3>, M>>>(number, 2);
        program.space.may_fill = true;
        explore(program, plan, &config, 10)
    });
}

#[test]
fn what_is_done_beside_a_replacement_is_enough_for_two_threads() {
    let shown: Vec<_> = anomalies().into_iter().filter_map(|anomaly| anomaly.mutant).collect();
    let of_protocol = OF_OTHER_TREES.iter().filter(|mutant| mutant.structure == DIRECTED);
    let of_writes = of_protocol.filter(|mutant| !shown.contains(&mutant.name));
    assert_eq!(of_writes.count(), directed().len());
    let structure = find(DIRECTED).expect("in the list");
    for directed in directed() {
        let case = structure.case(&directed.program()).expect("its program");
        let (report, failure) = case.explore(&directed.config(false), directed.schedules);
        assert!(failure.is_none(), "{}: {failure:?}", directed.mutant);
        assert!(report.exhausted);
    }
}

/// Bytes of a pool.
const POOL: usize = 16 << 20;

/// Makes a tree.
fn make<T: Design<M>>(counting: &Counting) -> SingleTreePool<T, M> {
    let pool = new_pool_up_to(counting.memory(), POOL as u64).expect("memory becomes a pool");
    SingleTreePool::create(pool).expect("room")
}

/// Flushes, drains, lines of the pool written and read.
type Cost = (u64, u64, u64, u64);

fn cost(tally: Tally) -> Cost {
    assert_eq!(tally.operations, 1);
    (tally.flushes, tally.drains, tally.pool_lines_written, tally.pool_lines_read)
}

/// What insert, update, remove, a search that finds and one that does not cost.
fn costs<T: Design<M>>() -> [Cost; 5] {
    let counting = Counting::new(CountingConfig::default(), POOL);
    let tree_pool = make::<T>(&counting);
    let (tree, mut session) = (tree_pool.tree(), tree_pool.heap().session().expect("a session"));
    for key in 1..=20 {
        tree.insert(&mut session, key * 10, key).expect("room");
    }
    let session = &mut session;
    counting.operation("insert", || tree.insert(session, 15, 1).expect("room"));
    counting.operation("update", || tree.update(session, 20, 2).expect("room"));
    counting.operation("remove", || tree.remove(session, 15).expect("room"));
    counting.operation("hit", || tree.get(session, 30).expect("get"));
    counting.operation("miss", || tree.get(session, 31).expect("get"));
    ["insert", "update", "remove", "hit", "miss"].map(|kind| cost(counting.tally(kind)))
}

#[test]
fn an_operation_writes_flushes_and_reads_one_line() {
    for costs in [
        costs::<NbTreePublished<Production, M>>(),
        costs::<NbTreeW<Production, M>>(),
        costs::<NbTreeWr<Production, M>>(),
    ] {
        println!("{costs:?}");
        let [insert, update, remove, hit, miss] = costs;
        assert_eq!((insert.0, insert.1, insert.2), (1, 1, 1), "insert");
        assert_eq!(update, (1, 1, 1, 1), "update");
        assert_eq!(remove, (1, 1, 1, 1), "remove");
        assert_eq!((hit, miss), ((0, 0, 0, 1), (0, 0, 0, 0)), "get");
    }
}

#[test]
fn a_coupled_leaf_touches_its_metadata_in_the_pool_too() {
    let costs = costs::<NbTreeCoupled<Production, M>>();
    println!("{costs:?}");
    let [insert, update, remove, hit, miss] = costs;
    assert_eq!((insert.0, insert.1, insert.2), (1, 1, 3), "insert: entry, fingerprint, bitmap");
    assert_eq!((update.0, update.2, update.3), (1, 1, 3), "update");
    assert_eq!((remove.0, remove.2, remove.3), (1, 1, 3), "remove");
    assert_eq!((hit.3, miss.3), (3, 2), "get: fingerprints, bitmap, and an entry if it is there");
}

/// Flushes per insert of random keys, and leaves replaced.
fn flushes_per_insert<T: Design<M>>(count: u64) -> (f64, u64) {
    let counting = Counting::new(CountingConfig::default(), POOL);
    let tree_pool = make::<T>(&counting);
    let mut session = tree_pool.heap().session().expect("a session");
    let mut random = Random::new(1);
    for _ in 0..count {
        let key = random.below(u64::MAX - 1) + 1;
        counting
            .operation("insert", || tree_pool.tree().insert(&mut session, key, 1).expect("room"));
    }
    let splits = tree_pool.tree().shape(&mut session).expect("shape").splits;
    let tally = counting.tally("insert");
    (tally.per_operation(tally.flushes), splits)
}

#[test]
fn a_split_flushes_two_blocks_a_link_and_allocator_words() {
    let count = 30_000;
    let (flushes, splits) = flushes_per_insert::<NbTreePublished<Production, M>>(count);
    // Two blocks of 16 lines, the link, the log twice, the ring twice, and a bit for every leaf
    // that is not from the ring: one in two, as a split takes two leaves and frees one.
    let split = 2.0 * 16.0 + 1.0 + 2.0 + 2.0 + 1.0;
    let expected = 1.0 + split * splits as f64 / count as f64;
    println!("{flushes:.3} flushes per insert, {expected:.3} expected, {splits} splits");
    assert!((flushes - expected).abs() < 0.02, "{flushes} instead of {expected}");
}
