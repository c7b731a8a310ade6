//! The trees whose inner nodes are in DRAM: larger leaves, crashes in recovery, every order of small
//! programs, and the planted bugs that only they have.

#![allow(clippy::print_stdout, reason = "what was explored is the result")]

use std::time::Instant;

use crate::common::{all_of, half_of, is_everyday, is_long, plain, survive, tell, turn};
use crate::marks::assert_met;
use everleaf_designs::{
    CddsTree, FpTree, NvTree, NvTreeBlind, RnTree, RnTreeDual, RnTreeWide, SpTree, SpTreeBuffered,
    SpTreeCheckpointed, WbTree, WbTreeSo,
};
use everleaf_index::{Design, Tiny};
use everleaf_machine::Simulated;
use everleaf_machine::simulated::{Config, CrashConfig, Domain, Plan, Report};
use everleaf_prove::Of;
use everleaf_prove::case::{SearchResult, explore};
use everleaf_prove::machine::configure::exhaustive;
use everleaf_prove::machine::space::Space;
use everleaf_prove::programs::{plans, scenarios, trees};
use everleaf_prove::tree::operation::Operation::{self, Get, Insert, Remove};
use everleaf_prove::tree::u64_program::U64Program;

type M = Simulated;

fn random<T: Design<M>>(number: u64, slots: usize, config: &Config) -> SearchResult {
    random_of::<T>(number, slots, config, 10)
}

fn random_of<T: Design<M>>(
    number: u64,
    slots: usize,
    config: &Config,
    effort: u64,
) -> SearchResult {
    let (program, plan) = plans::random::<Of<T>>(number, slots);
    explore(program, plan, config, effort)
}

fn random_plans<T2: Design<M>, T3: Design<M>, T9: Design<M>>() {
    let name = T2::INFO.name;
    let nested = CrashConfig { nested_one_in: 200, ..CrashConfig::default() };
    let base = |number| match number % 8 {
        3 => Config { crash: nested, ..Config::default() },
        5 => Config { simulate_open: true, ..Config::default() },
        _ => Config::default(),
    };
    survive(name, 0.1, half_of(6), base, |number, config| match number % 3 {
        0 => random::<T2>(number, 2, config),
        1 => random::<T3>(number, 3, config),
        _ => random::<T9>(number, 9, config),
    });
    let all: Vec<_> = scenarios::published_bugs().into_iter().chain(scenarios::others()).collect();
    let report = survive(&format!("{name}, scenarios"), 0.05, 1, plain, |_, config| {
        all_of(&all, |scenario| {
            // Four rounds of landings have what this one leaves out.
            let schedules = if is_everyday() { 2 } else { 6 };
            trees::run_numbers::<Of<T2>, Of<T3>>(scenario, config, schedules, Space::default())
        })
    });
    match name {
        "rntree" => assert_met(&report, &["hybrid.scan_again", "rntree.wait_for_owners"]),
        "sptree" => assert_met(&report, &["sptree.move_right"]),
        _ => {}
    }
}

macro_rules! trees {
    ($($name:ident: $tree:ident,)*) => {$(
        #[test]
        fn $name() {
            random_plans::<$tree<Tiny<2, 3>, M>, $tree<Tiny<3, 3>, M>, $tree<Tiny<9, 3>, M>>();
            every_order::<$tree<Tiny<2, 3>, M>, $tree<Tiny<3, 3>, M>>();
        }
    )*};
}

/// How a planted bug is looked for: mostly orders of threads, or mostly crashes.
fn hunting_config(mutant: &'static str, number: u64, crashes: bool) -> Config {
    // Crashes in recovery are expensive, and few bugs need them.
    let nested_one_in = if number % 4 == 3 { 1000 } else { 0 };
    let base = CrashConfig { budget: 16, nested_depth: 1, ..CrashConfig::default() };
    let crash = CrashConfig { enabled: crashes, nested_one_in, ..base };
    let domain = if number % 6 == 5 { Domain::Eadr } else { Domain::Adr };
    Config {
        mutants: vec![mutant],
        seed: number + 1,
        domain,
        crash,
        wide_compares: number % 2 == 1,
        // A planted bug may make recovery go round for ever.
        recovery_limit: 200_000,
        ..Config::default()
    }
}

/// Programs on a leaf with one key and one free place, which others fill and split while somebody is
/// about to write or read a key of what becomes the right half; and whether crashes are looked at.
fn overtaken() -> Vec<(&'static str, bool, Plan<Operation>)> {
    let others = vec![Insert(5, 50), Insert(6, 60)];
    vec![
        (
            "an insert overtaken by a split",
            false,
            vec![vec![Insert(9, 90), Get(9)], others.clone()],
        ),
        ("a get overtaken by a split", false, vec![vec![Get(5), Get(5)], others.clone()]),
        (
            "a removal overtaken by a split",
            false,
            vec![vec![Insert(5, 51), Remove(5), Get(5)], others],
        ),
        ("a get of what is being inserted", true, vec![vec![Insert(9, 90)], vec![Get(9)]]),
    ]
}

/// Looks for a planted bug in programs made for it, then in named scenarios and random plans. Gives
/// the schedules until it was found, and where.
fn hunt<T2: Design<M>, T3: Design<M>, T9: Design<M>>(
    mutant: &'static str,
) -> Option<(u64, String)> {
    let mut schedules = 0;
    let mut found = |name: String, config: &Config, (report, failure): SearchResult| {
        schedules += report.counts.schedules;
        failure.map(|failure| {
            let seed = format!("seed {:#x} of number {}", failure.seed, config.seed - 1);
            (schedules, format!("{} ({name}, {seed})", failure.kind))
        })
    };
    for (name, crashes, plan) in overtaken() {
        let program = U64Program::new::<Of<T2>>(vec![1, 5, 6, 9], vec![Insert(1, 10)], plan.len());
        let config = exhaustive(&hunting_config(mutant, 0, crashes), 1);
        let kill = found(name.to_owned(), &config, explore(program, plan, &config, 3000));
        if kill.is_some() {
            return kill;
        }
    }
    // A slot array that takes two words changes in both.
    let history = (2..=9).map(|key| Insert(key, key)).collect();
    let program = U64Program::new::<Of<T9>>((1..=9).collect(), history, 1);
    let config = hunting_config(mutant, 0, true);
    let outcome = explore(program, vec![vec![Insert(1, 1)]], &config, 3);
    let kill = found("an insert in front of a long slot array".to_owned(), &config, outcome);
    if kill.is_some() {
        return kill;
    }
    for number in 0..120 {
        for crashes in [true, false] {
            let config = hunting_config(mutant, number, crashes);
            let effort = if crashes { 6 } else { 80 };
            let outcome = match number % 3 {
                0 => random_of::<T2>(number, 2, &config, effort),
                1 => random_of::<T3>(number, 3, &config, effort),
                _ => random_of::<T9>(number, 9, &config, effort),
            };
            let kill = found(format!("random plan {number}"), &config, outcome);
            if kill.is_some() {
                return kill;
            }
            let named = scenarios::named();
            let scenario = &named[number as usize % named.len()];
            let outcome =
                trees::run_numbers::<Of<T2>, Of<T3>>(scenario, &config, effort, Space::default());
            let kill = found(scenario.name.to_owned(), &config, outcome);
            if kill.is_some() {
                return kill;
            }
        }
    }
    None
}

/// Every order of the small programs with one preemption, in both domains that power cuts have.
fn every_order<T2: Design<M>, T3: Design<M>>() {
    let started = Instant::now();
    let mut total = Report { exhausted: true, ..Report::default() };
    for scenario in scenarios::small() {
        let machines = [
            (Domain::Adr, false),
            (Domain::Eadr, true),
            (Domain::Eadr, false),
            (Domain::Adr, true),
        ];
        // Everyday the first of them.
        let chosen = if is_long() { 0..4 } else { turn(1) };
        let chosen = chosen.start as usize..(chosen.end as usize).min(machines.len());
        for (domain, wide_compares) in machines[chosen].iter().copied() {
            let base = Config { domain, wide_compares, races: true, ..Config::default() };
            let config = exhaustive(&base, if is_long() { 2 } else { 1 });
            let (report, failure) = trees::run_numbers::<Of<T2>, Of<T3>>(
                &scenario,
                &config,
                1_000_000,
                Space::default(),
            );
            if let Some(failure) = failure {
                panic!("{}, {config:?}: {failure}", scenario.name);
            }
            total.add(&report);
        }
    }
    assert!(total.exhausted);
    tell(&format!("{}, small programs", T2::INFO.name), started, &total);
}

macro_rules! mutants {
    ($($name:ident: $tree:ident, [$($mutant:literal,)*],)*) => {$(
        #[test]
        fn $name() {
            let mut alive = vec![];
            $(
                let started = Instant::now();
                let kill =
                    hunt::<$tree<Tiny<2, 3>, M>, $tree<Tiny<3, 3>, M>, $tree<Tiny<9, 3>, M>>($mutant);
                let seconds = started.elapsed().as_secs_f64();
                match kill {
                    Some((schedules, how)) => {
                        println!("{:<28} {schedules:>6} schedules {seconds:>6.2} s  {how}", $mutant);
                    }
                    None => {
                        println!("{:<28} ALIVE {seconds:>6.2} s", $mutant);
                        alive.push($mutant);
                    }
                }
            )*
            assert!(alive.is_empty(), "not found: {alive:?}");
        }
    )*};
}

mutants! {
    planted_bugs_of_rntree_are_found: RnTree, [
        "hybrid.no_image_flush",
        "hybrid.no_new_flush",
        "hybrid.no_rewrite_flush",
        "hybrid.no_token",
        "hybrid.replay_again",
        "inner.no_validation",
        "lock.no_generation",
        "micro_log.kind_first",
        "rntree.early_split",
        "rntree.in_place",
        "rntree.max_slot",
        "rntree.no_entry_flush",
        "rntree.no_recheck",
        "rntree.no_revalidation",
        "rntree.no_slot_flush",
        "rntree.removes_twice",
        "rntree.trusts_entries",
        "rntree.trusts_seen",
    ],
    planted_bugs_of_rntree_dual_are_found: RnTreeDual, [
        "hybrid.no_token",
        "rntree.early_switch",
        "rntree.in_place",
        "rntree.no_revalidation",
        "rntree.trusts_entries",
        "rntree.trusts_seen",
    ],
    planted_bugs_of_rntree_wide_are_found: RnTreeWide, [
        "line_store.torn",
        "rntree.no_slot_flush",
    ],
    planted_bugs_of_fptree_are_found: FpTree, [
        "fptree.no_bitmap_flush",
        "fptree.no_entry_flush",
        "fptree.no_fingerprint_flush",
        "fptree.no_link_flush",
        "fptree.no_new_flush",
        "hybrid.free_at_once",
        "hybrid.no_revalidation",
        "hybrid.no_token",
        "hybrid.replay_again",
        "inner.no_validation",
        "lock.no_generation",
    ],
    planted_bugs_of_wbtree_are_found: WbTree, [
        "hybrid.no_image_flush",
        "hybrid.no_revalidation",
        "wbtree.keep_valid",
        "wbtree.no_entry_flush",
        "wbtree.no_slot_flush",
        "wbtree.trusts_entries",
    ],
    planted_bugs_of_wbtree_so_are_found: WbTreeSo, [
        "wbtree.no_entry_flush",
        "wbtree.no_word_flush",
    ],
    planted_bugs_of_cdds_are_found: CddsTree, [
        "cdds.keep_ends",
        "cdds.keep_later",
        "cdds.no_end_flush",
        "cdds.no_entry_flush",
        "cdds.no_shift_flush",
        "cdds.no_version_flush",
        "cdds.start_first",
        "hybrid.no_link_flush",
    ],
    planted_bugs_of_nvtree_are_found: NvTree, [
        "hybrid.no_link_flush",
        "hybrid.no_new_flush",
        "nvtree.no_count_flush",
        "nvtree.no_entry_flush",
        "nvtree.read_uncommitted",
    ],
}

trees! {
    rntree_survives: RnTree,
    rntree_dual_survives: RnTreeDual,
    rntree_wide_survives: RnTreeWide,
    fptree_survives: FpTree,
    wbtree_survives: WbTree,
    wbtree_so_survives: WbTreeSo,
    nvtree_survives: NvTree,
    nvtree_blind_survives: NvTreeBlind,
    cdds_survives: CddsTree,
    sptree_survives: SpTree,
    sptree_buffered_survives: SpTreeBuffered,
    sptree_checkpointed_survives: SpTreeCheckpointed,
}
