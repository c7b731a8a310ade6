//! The marks of rare branches (`M::mark("..")`) of the product, by which search is known to meet them.
//! `cargo xtask tidy` refuses a mark that no test names. A mark that is not met any more tells of a branch that is not
//! searched any more: find out why, and then change a list.

use std::collections::BTreeSet;

pub use crate::common::marks::{assert_all_met, assert_met};

/// The everyday search of the product's structures meets these.
const EVERYDAY: [&str; 10] = [
    "expiry.changed_meanwhile",
    "hashed.merge.done",
    "hashed.restore",
    "hashed.restore.busy",
    "hashed.restore.together",
    "late.finish",
    "maps.load_refused",
    "nbtree.install.new_root",
    "nbtree.merge.done",
    "nbtree.merge.joined_inner",
];

/// That of landings meets these, too: it has four times as many schedules.
const LANDING: [&str; 9] = [
    "hashed.install.busy",
    "hashed.order.changed",
    "hashed.search.follow",
    "hashed.split.lost_offer",
    "hashed.write.help_pending",
    "hashed.write.lost_claim",
    "journal.expiry_written_again",
    "nbtree.search.follow",
    "nbtree.split.helped_switch",
];

/// Panics if the search of all structures, of which these were met, did not meet what it is known to meet.
pub fn assert_met_by_structures(met: &BTreeSet<&str>) {
    crate::common::marks::assert_met_by_structures(met, &EVERYDAY, &LANDING);
}

#[test]
fn no_mark_is_in_two_lists() {
    crate::common::marks::assert_distinct(&EVERYDAY, &LANDING);
}
