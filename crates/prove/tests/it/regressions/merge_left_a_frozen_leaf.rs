//! A merge freezes two leaves, for which it has reserved two blocks. When it gave up since both together held too
//! much by then, it replaced the left leaf as a split does, which may take both blocks; then there was none for
//! the right one, which stayed frozen in a full pool: nobody could change or remove its keys until there was
//! room.
//!
//! Found by the small program "merge, fill" in a pool without space but two blocks at hand of the one thread and
//! one of the other, in schedule 125 of the orders with one preemption: the merging thread waits for a leader of
//! the frozen leaf, and there is nobody else. The tree with hashed leaves had it, too. What gives up now copies
//! each leaf into one block.

use everleaf_machine::simulated::{Config, CrashConfig};
use everleaf_prove::machine::configure::exhaustive;
use everleaf_prove::structures::find;

#[test]
fn a_merge_that_gives_up_in_a_full_pool_leaves_no_frozen_leaf() {
    for name in ["nbtree", "hashed-leaf"] {
        let structure = find(name).expect("in the list");
        let case = structure.case("tight/21/merge, fill").expect("a small program");
        let crash = CrashConfig { enabled: false, ..CrashConfig::default() };
        let config = exhaustive(&Config { crash, ..Config::default() }, 1);
        let (report, failure) = case.explore(&config, 100_000);
        assert!(failure.is_none(), "{name}: {failure:?}");
        assert!(report.exhausted, "{name}: {} schedules", report.counts.schedules);
    }
}
