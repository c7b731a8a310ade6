//! Many keys in one call, and scans: that programs show what such calls alone would tell.

use everleaf_index::Production;
use everleaf_machine::simulated::{Config, CrashConfig};
use everleaf_prove::Nb;
use everleaf_prove::case::explore;
use everleaf_prove::machine::configure::exhaustive;
use everleaf_prove::structures::find;
use everleaf_prove::tree::operation::Operation;
use everleaf_prove::tree::u64_program::U64Program;

/// Orders of a program, at most.
const ORDERS: u64 = 20_000;

/// In every order with one preemption, without crashes.
fn machine(mutants: Vec<&'static str>) -> Config {
    let crash = CrashConfig { enabled: false, ..CrashConfig::default() };
    Config { mutants, crash, ..exhaustive(&Config::default(), 1) }
}

/// Of a leaf that was replaced the slots of its successor were read in the old block; and a scan that met a merge to
/// the left gave the keys of the left leaf twice, for which no program of the search was made.
#[test]
fn small_programs_show_what_many_keys_and_scans_miss() {
    let structure = find("nbtree").expect("in the list");
    let planted = [
        ("small/split, get of many", "nbtree.many_keeps_leaf"),
        ("small/scan, merge to the left", "nbtree.scan_repeats_merged"),
    ];
    for (program, mutant) in planted {
        let case = structure.case(program).expect("its program");
        let (_, failure) = case.explore(&machine(vec![mutant]), ORDERS);
        assert!(failure.is_some(), "{mutant} is not found by {program}");
        let (report, failure) = case.explore(&machine(vec![]), ORDERS);
        assert!(failure.is_none() && report.exhausted, "{program}: {failure:?}");
    }
}

/// Nobody in the program reads many keys: what such a call answers was not judged at all.
#[test]
fn all_keys_are_read_in_one_call_in_the_end() {
    let keys: Vec<u64> = (1..=300).collect();
    let history = keys.iter().map(|key| Operation::Insert(*key, 1000 + key)).collect();
    let program = U64Program::new::<Nb<Production>>(keys, history, 1);
    let plan = vec![vec![Operation::Get(1)]];
    let (_, failure) = explore(program.clone(), plan.clone(), &machine(vec![]), ORDERS);
    assert!(failure.is_none(), "{failure:?}");
    let planted = machine(vec!["nbtree.many_keeps_fence"]);
    let (_, failure) = explore(program, plan, &planted, ORDERS);
    let message = failure.expect("it is planted").message;
    assert!(message.contains("read with all others"), "{message}");
}

/// Many keys were asked for in their order only, so that nothing showed a search that takes a key for one behind the
/// last.
#[test]
fn all_keys_are_read_in_one_call_in_other_orders_too() {
    let case = find("nbtree-bytes").and_then(|one| one.case("small/split above, read"));
    let case = case.expect("its program");
    let (_, failure) = case.explore(&machine(vec!["nbtree.many_keeps_head"]), ORDERS);
    let message = failure.expect("it is planted").message;
    assert!(message.contains("read with all others"), "{message}");
    let (_, failure) = case.explore(&machine(vec![]), ORDERS);
    assert!(failure.is_none(), "{failure:?}");
}
