//! WORT as the other trees are tested.

use everleaf_designs::Wort;

use super::common::{one_thread, reopened, shared};

#[test]
fn agrees_with_a_btreemap() {
    one_thread::<Wort>(3000, 30_000);
    one_thread::<Wort>(40, 8_000);
}

#[test]
fn agrees_with_a_btreemap_in_small_nodes() {
    one_thread::<Wort<1>>(300, 8_000);
    one_thread::<Wort<2>>(300, 8_000);
}

#[test]
fn survives_being_closed_and_opened() {
    reopened::<Wort>();
}

#[test]
fn threads_share_it() {
    shared::<Wort>(300, 10_000);
    shared::<Wort<1>>(30, 5_000);
}
