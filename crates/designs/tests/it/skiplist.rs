//! P-Skiplist as the other designs are tested.

use everleaf_designs::PSkiplist;
use everleaf_designs::skiplist::variant::Small;

use super::hybrid_trees::{one_thread, reopened, shared};

#[test]
fn agrees_with_a_btreemap() {
    one_thread::<PSkiplist>(3000, 30_000);
    one_thread::<PSkiplist>(40, 8_000);
}

#[test]
fn agrees_with_a_btreemap_on_few_levels() {
    one_thread::<PSkiplist<Small<1>>>(40, 8_000);
    one_thread::<PSkiplist<Small<3>>>(300, 8_000);
}

#[test]
fn survives_being_closed_and_opened() {
    reopened::<PSkiplist>();
}

#[test]
fn threads_share_it() {
    shared::<PSkiplist>(300, 10_000);
    shared::<PSkiplist<Small<2>>>(30, 5_000);
}
