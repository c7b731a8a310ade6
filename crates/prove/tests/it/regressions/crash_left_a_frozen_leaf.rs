//! A crash in the middle of a replacement leaves its leaves frozen. Recovery froze them again, and the first thread
//! with a write completed the replacement, for which it needs a block. Those that had been reserved are free after a
//! crash; but once others had taken them, and the pool was full, no key of such a leaf could be removed.
//!
//! Found by the search, in hashed leaves (seed 3, program "gathered/2/alike/tight/8bdf9a4c", `Adr`): the power fails
//! when the right one of two leaves is marked as merging and the left one does not yet name their target; in the next
//! life nobody writes to them until all space is taken. NBTree had it, too. Recovery, which is alone with the leaves,
//! thaws them now: without a durable commit nothing was replaced. Where leaves are restored later, a
//! thread with a lock does.

use everleaf_machine::simulated::{Config, CrashConfig, Report};
use everleaf_prove::machine::configure::exhaustive;
use everleaf_prove::structures::find;

/// The lives after each crash in all orders without a preemption, of two threads, one of which merges leaves.
fn lives(name: &str, mutant: Option<&'static str>) -> Result<Report, String> {
    let structure = find(name).expect("in the list");
    let case = structure.case("tight/21/merge, scan").expect("a small program");
    let crash = CrashConfig { nested_one_in: 1, ..CrashConfig::default() };
    let mutants = mutant.into_iter().collect();
    let config = exhaustive(&Config { crash, mutants, ..Config::default() }, 0);
    let (report, failure) = case.explore(&config, 1000);
    failure.map_or(Ok(report), |failure| Err(format!("{failure}")))
}

#[test]
fn a_crash_in_a_merge_leaves_removals_that_need_no_space() {
    let names = [
        ("nbtree", "nbtree.recovery_keeps_frozen"),
        ("hashed-leaf", "hashed.recovery_keeps_frozen"),
        ("hashed-leaf-at-once", "hashed.restore_keeps_frozen"),
    ];
    for (name, mutant) in names {
        let report = lives(name, None).unwrap_or_else(|failure| panic!("{name}: {failure}"));
        println!("{name}: {} lives after crashes", report.counts.nested_runs);
        let failure = lives(name, Some(mutant)).err();
        let failure = failure.unwrap_or_else(|| panic!("{mutant} is not missed"));
        assert!(failure.contains("a removal from a full pool is refused"), "{failure}");
    }
}
