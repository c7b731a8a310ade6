//! Rare branches of NBTree as published where its writers do not lock leaves: threads that replace leaves beside each
//! other. No key is written by two of them, so the protocol loses nothing here.

#![allow(clippy::print_stdout, reason = "what was explored is the result")]

use std::collections::BTreeSet;
use std::time::Instant;

use crate::common::tell;
use everleaf_designs::NbTreePublished;
use everleaf_index::{Design, Tiny};
use everleaf_machine::Simulated;
use everleaf_machine::simulated::{Config, CrashConfig, Domain, Plan};
use everleaf_prove::Of;
use everleaf_prove::case::explore;
use everleaf_prove::machine::configure::exhaustive;
use everleaf_prove::tree::operation::Operation::{self, Insert, Remove};
use everleaf_prove::tree::u64_program::U64Program;

/// More keys than programs have.
const KEYS: u64 = 60;

fn inserts(keys: &[u64]) -> Vec<Operation> {
    keys.iter().map(|key| Insert(*key, 10 * key)).collect()
}

/// Panics if orders with so many preemptions, or by chance, fail or do not meet these marks.
fn meet<T: Design<Simulated>>(
    history: &[u64],
    plan: Plan<Operation>,
    preemptions: Option<u32>,
    marks: &[&str],
) {
    let started = Instant::now();
    let program = U64Program::new::<Of<T>>((1..KEYS).collect(), inserts(history), plan.len());
    let crash = CrashConfig { enabled: false, ..CrashConfig::default() };
    let config = Config { domain: Domain::Eadr, crash, ..Config::default() };
    let (config, schedules) = match preemptions {
        Some(preemptions) => (exhaustive(&config, preemptions), 20_000),
        None => (config, 2000),
    };
    let (report, failure) = explore(program, plan, &config, schedules);
    assert!(failure.is_none(), "{marks:?}: {failure:?}");
    tell(&marks.join(", "), started, &report);
    let met: BTreeSet<&str> = report.marks.iter().map(|(mark, _)| *mark).collect();
    let missing: Vec<_> = marks.iter().filter(|mark| !met.contains(**mark)).collect();
    assert!(missing.is_empty(), "rare branches that are not met any more: {missing:?}");
}

#[test]
fn leaves_replaced_beside_each_other_meet_rare_branches() {
    type Two = NbTreePublished<Tiny<2, 3>, Simulated>;
    type Three = NbTreePublished<Tiny<3, 3>, Simulated>;
    // Two neighbours are full.
    meet::<Two>(
        &[10, 20, 30, 5],
        vec![inserts(&[7]), inserts(&[25])],
        Some(1),
        &[
            "nbtree_published.copy_lost",
            "nbtree_published.help_predecessor",
            "nbtree_published.install_busy",
        ],
    );
    // The copies are replaced before their leaf is linked again.
    meet::<Two>(
        &[10, 20],
        vec![inserts(&[30]), inserts(&[5, 7, 8])],
        Some(1),
        &["nbtree_published.predecessor_moved", "nbtree_published.sibling"],
    );
    // A key is removed behind the copy phase, and its copy only by the sync phase.
    meet::<Three>(
        &[10, 20, 30],
        vec![inserts(&[40]), vec![Remove(20)]],
        Some(2),
        &["nbtree_published.sync.erases"],
    );
}
