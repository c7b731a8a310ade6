//! uTree as the other trees are tested.

use everleaf_designs::UTree;
use everleaf_index::{Production, Tiny};

use super::common::{one_thread, reopened, shared};

#[test]
fn agrees_with_a_btreemap() {
    one_thread::<UTree<Production>>(3000, 30_000);
    one_thread::<UTree<Production>>(40, 8_000);
}

#[test]
fn agrees_with_a_btreemap_in_small_nodes() {
    one_thread::<UTree<Tiny<2, 3>>>(300, 8_000);
    one_thread::<UTree<Tiny<2, 5>>>(40, 8_000);
}

#[test]
fn survives_being_closed_and_opened() {
    reopened::<UTree<Production>>();
}

#[test]
fn threads_share_it() {
    shared::<UTree<Production>>(300, 10_000);
    shared::<UTree<Tiny<2, 3>>>(30, 5_000);
}
