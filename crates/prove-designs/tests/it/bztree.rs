//! BzTree on the simulated machine: a thread that replaces a leaf gets on.

use everleaf_machine::simulated::{Config, CrashConfig, SchedulerKind};
use everleaf_prove_designs::structures::find;

/// Three threads put one key into a leaf with one place left. Each that found it full copied it without the pair
/// for which another had reserved the place, and then reserved the copy's: there was no end.
#[test]
fn who_replaces_a_leaf_has_done_its_own_write() {
    // The most replacements in one of some orders, and how many of these had no end.
    let most = |mutants: &[&'static str]| {
        let case = find("bztree").expect("in the list").case("crowd/3/near/usual/b94e2bc0");
        let case = case.expect("its program");
        let (mut most, mut endless) = (0, 0);
        for seed in 0..300 {
            let crash = CrashConfig { enabled: false, ..CrashConfig::default() };
            let (scheduler, mutants) = (SchedulerKind::Random, mutants.to_vec());
            let config = Config { crash, scheduler, seed, mutants, ..Config::default() };
            let (report, failure) = case.explore(&config, 1);
            if let Some(failure) = failure {
                assert_eq!(failure.kind.to_string(), "livelock", "{seed}: {failure}");
                endless += 1;
            }
            let replaced = report.marks.iter().filter(|(mark, _)| *mark == "bztree.replaced");
            most = most.max(replaced.map(|(_, count)| *count).sum::<u64>());
        }
        (most, endless)
    };
    // One for each write, at most.
    let (replaced, endless) = most(&[]);
    assert!(replaced <= 3 && endless == 0, "{replaced} replacements, {endless} without end");
    let (replaced, endless) = most(&["bztree.no_carry"]);
    assert!(replaced > 3, "{replaced} replacements, {endless} without end");
}
