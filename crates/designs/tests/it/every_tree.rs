//! Every published design against `BTreeMap`: operations of one thread, threads that share a tree, and pools that are
//! closed and opened again. What a design does besides is in a file of its own.

use everleaf_designs::bztree::variant as bz;
use everleaf_designs::cceh::variant as cc;
use everleaf_designs::f3tree::variant as f3;
use everleaf_designs::fast_fair::variant as fast;
use everleaf_designs::pactree::variant as pac;
use everleaf_designs::skiplist::variant as skip;
use everleaf_designs::{
    BwTree, BzTree, Cceh, CddsTree, F3Tree, FastFair, FpTree, Masstree, NbTreeCoupled,
    NbTreePublished, NbTreeW, NbTreeWr, NvTree, NvTreeBlind, PSkiplist, PacTree, RnTree,
    RnTreeDirect, RnTreeDual, RnTreeRtm, RnTreeWide, SpTree, SpTreeArt, SpTreeBuffered,
    SpTreeBufferedUnfiltered, SpTreeCheckpointed, SpTreePlain, SpTreePlainUnfiltered,
    SpTreeUnfiltered, SpTreeUnfilteredUnlogged, SpTreeUnlogged, UTree, WbTree, WbTreeSo, Wort,
};
use everleaf_index::{Design, Production, Tiny};

use super::common::{blind, closed, one_thread, reopened, shared};

/// As [`one_thread`], with hardly any keys, few and many.
fn in_three_sizes<T: Design>(operations: usize) {
    [3, 60, 4000].into_iter().for_each(|keys| one_thread::<T>(keys, operations));
}

/// Tests of trees: what each test runs, with keys and operations.
macro_rules! for_every_tree {
    ($($module:ident { $($test:ident: $($run:ident::<$tree:ty>($($size:expr),*)),+;)+ })+) => {$(
        mod $module {
            use super::*;
            $(
                #[test]
                fn $test() {
                    $($run::<$tree>($($size),*);)+
                }
            )+
        }
    )+};
}

/// Those of trees with inner nodes in DRAM, in all geometries.
macro_rules! in_all_geometries {
    ($($module:ident: $tree:ident $(, $shared:ident)?;)+) => {
        for_every_tree! {$(
            $module {
                agrees_with_a_btreemap:
                    one_thread::<$tree<Production>>(3000, 30_000),
                    one_thread::<$tree<Production>>(40, 8_000);
                agrees_with_a_btreemap_in_small_nodes:
                    one_thread::<$tree<Tiny<3, 3>>>(300, 8_000),
                    one_thread::<$tree<Tiny<2, 4>>>(30, 8_000),
                    one_thread::<$tree<Tiny<9, 3>>>(2000, 15_000);
                survives_being_closed_and_opened:
                    reopened::<$tree<Production>>(),
                    reopened::<$tree<Tiny<4, 3>>>();
                $(
                    is_shared_by_threads:
                        $shared::<$tree<Production>>(2000, 20_000),
                        $shared::<$tree<Tiny<3, 3>>>(60, 10_000);
                )?
            }
        )+}
    };
}

in_all_geometries! {
    rntree: RnTree, shared;
    rntree_dual: RnTreeDual, shared;
    rntree_wide: RnTreeWide, shared;
    rntree_direct: RnTreeDirect, shared;
    rntree_rtm: RnTreeRtm, shared;
    fptree: FpTree, shared;
    wbtree: WbTree, shared;
    wbtree_so: WbTreeSo, shared;
    nvtree: NvTree, shared;
    cdds: CddsTree, shared;
    nbtree_w: NbTreeW, shared;
    nbtree_wr: NbTreeWr, shared;
    sptree: SpTree, shared;
    sptree_unfiltered: SpTreeUnfiltered, shared;
    sptree_buffered: SpTreeBuffered, shared;
    sptree_buffered_unfiltered: SpTreeBufferedUnfiltered, shared;
    sptree_checkpointed: SpTreeCheckpointed, shared;
    sptree_plain: SpTreePlain, shared;
    sptree_plain_unfiltered: SpTreePlainUnfiltered, shared;
    sptree_art: SpTreeArt, shared;
    // As published: with several threads they lose writes.
    nbtree_published: NbTreePublished;
    nbtree_coupled: NbTreeCoupled;
}

for_every_tree! {
    fast_fair {
        nodes_of_all_sizes_agree_with_a_btreemap:
            in_three_sizes::<FastFair<fast::Standard>>(8000),
            in_three_sizes::<FastFair<fast::Nodes256>>(8000),
            in_three_sizes::<FastFair<fast::Nodes1024>>(8000),
            in_three_sizes::<FastFair<fast::Nodes2048>>(8000),
            in_three_sizes::<FastFair<fast::Nodes4096>>(8000);
        nodes_of_a_few_records_agree_with_a_btreemap:
            in_three_sizes::<FastFair<fast::Small<2>>>(8000),
            in_three_sizes::<FastFair<fast::Small<3>>>(8000),
            in_three_sizes::<FastFair<fast::Small<4>>>(8000);
        all_options_agree_with_a_btreemap:
            in_three_sizes::<FastFair<fast::LeafLocks>>(6000),
            in_three_sizes::<FastFair<fast::BLink>>(6000),
            in_three_sizes::<FastFair<fast::Small<3, 2>>>(6000),
            in_three_sizes::<FastFair<fast::Logging>>(6000),
            in_three_sizes::<FastFair<fast::Binary>>(6000),
            in_three_sizes::<FastFair<fast::Fenced>>(6000),
            in_three_sizes::<FastFair<fast::Unfenced>>(6000);
        variants_with_buffers_agree_with_a_btreemap:
            in_three_sizes::<FastFair<fast::Cached>>(6000),
            in_three_sizes::<FastFair<fast::Buffered>>(6000),
            in_three_sizes::<FastFair<fast::BufferedCached>>(6000),
            in_three_sizes::<FastFair<fast::Small<3, 1, 5>>>(6000),
            in_three_sizes::<FastFair<fast::OutOfPlace>>(6000),
            in_three_sizes::<FastFair<fast::Whole>>(6000),
            in_three_sizes::<FastFair<fast::Small<2, 1, 1>>>(6000),
            in_three_sizes::<FastFair<fast::Small<3, 1, 3>>>(6000),
            in_three_sizes::<FastFair<fast::Small<3, 1, 7>>>(6000),
            in_three_sizes::<FastFair<fast::Small<3, 0, 4>>>(6000);
        survives_being_closed_and_opened:
            reopened::<FastFair<fast::Standard>>(),
            reopened::<FastFair<fast::Small<3>>>(),
            reopened::<FastFair<fast::LeafLocks>>(),
            reopened::<FastFair<fast::BLink>>(),
            reopened::<FastFair<fast::Cached>>(),
            reopened::<FastFair<fast::Buffered>>(),
            reopened::<FastFair<fast::BufferedCached>>(),
            reopened::<FastFair<fast::Small<3, 1, 3>>>(),
            reopened::<FastFair<fast::Whole>>();
        is_shared_by_threads:
            shared::<FastFair<fast::Standard>>(600, 100_000),
            shared::<FastFair<fast::Small<3>>>(600, 60_000),
            shared::<FastFair<fast::LeafLocks>>(600, 60_000),
            shared::<FastFair<fast::BLink>>(600, 40_000),
            shared::<FastFair<fast::Small<3, 2>>>(600, 40_000),
            shared::<FastFair<fast::Binary>>(600, 60_000);
        variants_with_buffers_are_shared_by_threads:
            shared::<FastFair<fast::Buffered>>(600, 40_000),
            shared::<FastFair<fast::Whole>>(600, 40_000),
            shared::<FastFair<fast::Small<3, 1, 1>>>(600, 20_000),
            shared::<FastFair<fast::Small<3, 1, 5>>>(600, 20_000),
            shared::<FastFair<fast::Small<3, 1, 7>>>(600, 20_000),
            shared::<FastFair<fast::Small<3, 0, 4>>>(600, 20_000);
        variants_without_a_log_agree_with_a_btreemap:
            in_three_sizes::<FastFair<fast::BufferedUnlogged>>(5000),
            in_three_sizes::<FastFair<fast::BufferedCachedUnlogged>>(5000),
            in_three_sizes::<FastFair<fast::OutOfPlaceUnlogged>>(5000),
            in_three_sizes::<FastFair<fast::WholeUnlogged>>(5000),
            in_three_sizes::<FastFair<fast::Small<3, 1, 9>>>(5000),
            in_three_sizes::<FastFair<fast::Small<3, 1, 11>>>(5000);
        variants_without_a_log_keep_what_a_closed_pool_had:
            closed::<FastFair<fast::BufferedUnlogged>>(),
            closed::<FastFair<fast::BufferedCachedUnlogged>>(),
            closed::<FastFair<fast::OutOfPlaceUnlogged>>(),
            closed::<FastFair<fast::WholeUnlogged>>(),
            closed::<FastFair<fast::Small<3, 1, 9>>>(),
            closed::<FastFair<fast::Small<3, 1, 11>>>();
    }
    sptree_without_a_log {
        keeps_what_a_closed_pool_had:
            one_thread::<SpTreeUnlogged<Production>>(3000, 10_000),
            one_thread::<SpTreeUnlogged<Tiny<3, 3>>>(300, 8_000),
            shared::<SpTreeUnlogged<Tiny<3, 3>>>(60, 10_000),
            closed::<SpTreeUnlogged<Production>>(),
            closed::<SpTreeUnlogged<Tiny<4, 3>>>(),
            one_thread::<SpTreeUnfilteredUnlogged<Production>>(3000, 10_000),
            one_thread::<SpTreeUnfilteredUnlogged<Tiny<3, 3>>>(300, 8_000),
            shared::<SpTreeUnfilteredUnlogged<Tiny<3, 3>>>(60, 10_000),
            closed::<SpTreeUnfilteredUnlogged<Production>>();
    }
    nvtree_without_conditional_writes {
        holds_what_was_written_last:
            blind::<NvTreeBlind<Production>>(3000, 20_000),
            blind::<NvTreeBlind<Tiny<3, 3>>>(100, 8_000);
    }
    wort {
        agrees_with_a_btreemap:
            one_thread::<Wort>(3000, 30_000), one_thread::<Wort>(40, 8_000);
        agrees_with_a_btreemap_in_small_nodes:
            one_thread::<Wort<1>>(300, 8_000), one_thread::<Wort<2>>(300, 8_000);
        survives_being_closed_and_opened: reopened::<Wort>();
        is_shared_by_threads: shared::<Wort>(300, 10_000), shared::<Wort<1>>(30, 5_000);
    }
    utree {
        agrees_with_a_btreemap:
            one_thread::<UTree<Production>>(3000, 30_000),
            one_thread::<UTree<Production>>(40, 8_000);
        agrees_with_a_btreemap_in_small_nodes:
            one_thread::<UTree<Tiny<2, 3>>>(300, 8_000), one_thread::<UTree<Tiny<2, 5>>>(40, 8_000);
        survives_being_closed_and_opened: reopened::<UTree<Production>>();
        is_shared_by_threads:
            shared::<UTree<Production>>(300, 10_000), shared::<UTree<Tiny<2, 3>>>(30, 5_000);
    }
    masstree {
        agrees_with_a_btreemap:
            one_thread::<Masstree>(3000, 30_000), one_thread::<Masstree>(40, 8_000);
        agrees_with_a_btreemap_in_small_nodes:
            one_thread::<Masstree<2>>(40, 8_000),
            one_thread::<Masstree<2>>(1000, 8_000),
            one_thread::<Masstree<3>>(300, 8_000);
        is_shared_by_threads:
            shared::<Masstree>(300, 10_000),
            shared::<Masstree<2>>(30, 5_000),
            shared::<Masstree<3>>(300, 5_000);
    }
    pactree {
        agrees_with_a_btreemap:
            one_thread::<PacTree>(3000, 30_000), one_thread::<PacTree>(40, 8_000);
        agrees_with_a_btreemap_in_small_nodes:
            one_thread::<PacTree<pac::Small<2, 0>, 1>>(300, 8_000),
            one_thread::<PacTree<pac::Small<3, 2>, 2>>(300, 8_000);
        survives_being_closed_and_opened:
            reopened::<PacTree>(), reopened::<PacTree<pac::Small<3, 2>, 2>>();
        is_shared_by_threads:
            shared::<PacTree>(300, 10_000), shared::<PacTree<pac::Small<2, 0>, 1>>(30, 5_000);
    }
    bw_tree {
        agrees_with_a_btreemap:
            one_thread::<BwTree>(3000, 30_000), one_thread::<BwTree>(40, 8_000);
        agrees_with_a_btreemap_in_small_pages:
            one_thread::<BwTree<2, 1>>(1000, 8_000),
            one_thread::<BwTree<2, 3>>(40, 8_000),
            one_thread::<BwTree<3, 2>>(300, 8_000);
        is_shared_by_threads:
            shared::<BwTree>(300, 10_000),
            shared::<BwTree<2, 1>>(30, 5_000),
            shared::<BwTree<3, 2>>(300, 5_000);
    }
    bztree {
        agrees_with_a_btreemap:
            one_thread::<BzTree>(3000, 30_000), one_thread::<BzTree<bz::Compact>>(40, 8_000);
        agrees_with_a_btreemap_in_small_nodes:
            one_thread::<BzTree<bz::Small<2>>>(40, 8_000),
            one_thread::<BzTree<bz::Small<3, 4>>>(300, 8_000);
        survives_being_closed_and_opened: reopened::<BzTree>();
        is_shared_by_threads:
            shared::<BzTree>(300, 10_000), shared::<BzTree<bz::Small<3, 64>>>(30, 5_000);
    }
    cceh {
        agrees_with_a_btreemap:
            one_thread::<Cceh<cc::Standard>>(3000, 30_000),
            one_thread::<Cceh<cc::Standard>>(40, 8_000);
        agrees_with_a_btreemap_in_small_segments:
            one_thread::<Cceh<cc::Small<1, 3, 1>>>(100, 8_000),
            one_thread::<Cceh<cc::Small<4, 3, 2>>>(300, 8_000);
        survives_being_closed_and_opened:
            reopened::<Cceh<cc::Standard>>(), reopened::<Cceh<cc::Small<4, 4, 2>>>();
        is_shared_by_threads:
            shared::<Cceh<cc::Standard>>(3000, 20_000),
            shared::<Cceh<cc::Small<4, 3, 2>>>(60, 5_000);
        variants_agree_with_a_btreemap:
            one_thread::<Cceh<cc::Buffered>>(3000, 20_000),
            one_thread::<Cceh<cc::OutOfPlace>>(3000, 20_000),
            one_thread::<Cceh<cc::Whole>>(3000, 20_000),
            one_thread::<Cceh<cc::Cached>>(3000, 20_000),
            one_thread::<Cceh<cc::BufferedCached>>(3000, 20_000),
            one_thread::<Cceh<cc::Small<1, 3, 1, 1>>>(100, 6_000),
            one_thread::<Cceh<cc::Small<4, 3, 2, 5>>>(300, 6_000),
            one_thread::<Cceh<cc::Small<4, 3, 2, 7>>>(300, 6_000);
        variants_survive_being_closed_and_opened:
            reopened::<Cceh<cc::Buffered>>(),
            reopened::<Cceh<cc::Whole>>(),
            reopened::<Cceh<cc::Cached>>(),
            reopened::<Cceh<cc::BufferedCached>>(),
            reopened::<Cceh<cc::Small<4, 3, 2, 3>>>();
        variants_are_shared_by_threads:
            shared::<Cceh<cc::Buffered>>(3000, 10_000),
            shared::<Cceh<cc::Whole>>(3000, 10_000),
            shared::<Cceh<cc::Small<4, 3, 2, 5>>>(60, 5_000),
            shared::<Cceh<cc::Small<4, 3, 2, 7>>>(60, 5_000);
        variants_without_a_log_keep_what_a_closed_pool_had:
            one_thread::<Cceh<cc::BufferedUnlogged>>(3000, 10_000),
            one_thread::<Cceh<cc::Small<4, 3, 2, 15>>>(300, 6_000),
            shared::<Cceh<cc::Small<4, 3, 2, 9>>>(60, 5_000),
            one_thread::<Cceh<cc::OutOfPlaceUnlogged>>(3000, 10_000),
            one_thread::<Cceh<cc::BufferedCachedUnlogged>>(3000, 10_000),
            closed::<Cceh<cc::OutOfPlaceUnlogged>>(),
            closed::<Cceh<cc::BufferedCachedUnlogged>>(),
            closed::<Cceh<cc::WholeUnlogged>>(),
            closed::<Cceh<cc::Small<4, 3, 2, 9>>>();
    }
    skiplist {
        agrees_with_a_btreemap:
            one_thread::<PSkiplist>(3000, 30_000), one_thread::<PSkiplist>(40, 8_000);
        agrees_with_a_btreemap_on_few_levels:
            one_thread::<PSkiplist<skip::Small<1>>>(40, 8_000),
            one_thread::<PSkiplist<skip::Small<3>>>(300, 8_000);
        survives_being_closed_and_opened: reopened::<PSkiplist>();
        is_shared_by_threads:
            shared::<PSkiplist>(300, 10_000), shared::<PSkiplist<skip::Small<2>>>(30, 5_000);
        variants_agree_with_a_btreemap:
            one_thread::<PSkiplist<skip::Cached>>(3000, 15_000),
            one_thread::<PSkiplist<skip::Buffered>>(3000, 15_000),
            one_thread::<PSkiplist<skip::OutOfPlace>>(3000, 15_000),
            one_thread::<PSkiplist<skip::Whole>>(3000, 15_000),
            one_thread::<PSkiplist<skip::Small<3, 1>>>(300, 6_000),
            one_thread::<PSkiplist<skip::Small<2, 3>>>(40, 6_000),
            one_thread::<PSkiplist<skip::Small<3, 7>>>(300, 6_000);
        variants_survive_being_closed_and_opened:
            reopened::<PSkiplist<skip::Cached>>(),
            reopened::<PSkiplist<skip::Buffered>>(),
            reopened::<PSkiplist<skip::Whole>>(),
            reopened::<PSkiplist<skip::Small<2, 3>>>();
        variants_are_shared_by_threads:
            shared::<PSkiplist<skip::Cached>>(300, 5_000),
            shared::<PSkiplist<skip::Whole>>(300, 5_000),
            shared::<PSkiplist<skip::Small<3, 1>>>(60, 5_000),
            shared::<PSkiplist<skip::Small<3, 7>>>(60, 5_000);
        variants_without_a_log_keep_what_a_closed_pool_had:
            closed::<PSkiplist<skip::BufferedUnlogged>>(),
            closed::<PSkiplist<skip::OutOfPlaceUnlogged>>(),
            closed::<PSkiplist<skip::WholeUnlogged>>();
    }
    f3_tree {
        agrees_with_a_btreemap:
            one_thread::<F3Tree<f3::Objects500>>(3000, 30_000),
            one_thread::<F3Tree<f3::Objects100>>(40, 8_000),
            one_thread::<F3Tree<f3::Objects1000>>(300, 8_000),
            one_thread::<F3Tree<f3::Entries6>>(300, 8_000),
            one_thread::<F3Tree<f3::Entries30>>(300, 8_000),
            one_thread::<F3Tree<f3::Entries62>>(300, 8_000),
            one_thread::<F3Tree<f3::Unlimited>>(300, 8_000);
        agrees_with_a_btreemap_in_small_objects:
            one_thread::<F3Tree<f3::Small>>(300, 8_000),
            one_thread::<F3Tree<f3::Small<1, 1>>>(30, 8_000),
            one_thread::<F3Tree<f3::Small<3, 4>>>(2000, 15_000);
        agrees_with_a_btreemap_in_the_node_based_form:
            one_thread::<F3Tree<f3::Nodes500>>(3000, 30_000),
            one_thread::<F3Tree<f3::Nodes100>>(40, 8_000),
            one_thread::<F3Tree<f3::Nodes1000>>(300, 8_000),
            one_thread::<F3Tree<f3::NodesUnlimited>>(300, 8_000),
            one_thread::<F3Tree<f3::Small<2, 2, 1, 2>>>(300, 8_000),
            one_thread::<F3Tree<f3::Small<3, 4, 1, 2>>>(2000, 15_000);
        survives_being_closed_and_opened:
            reopened::<F3Tree<f3::Objects500>>(),
            reopened::<F3Tree<f3::Unlimited>>(),
            reopened::<F3Tree<f3::Entries30>>(),
            reopened::<F3Tree<f3::Small<3, 4>>>(),
            reopened::<F3Tree<f3::Nodes500>>(),
            reopened::<F3Tree<f3::Small<3, 4, 1, 2>>>();
        is_shared_by_threads:
            shared::<F3Tree<f3::Objects500>>(2000, 20_000),
            shared::<F3Tree<f3::Small>>(60, 10_000),
            shared::<F3Tree<f3::Nodes100>>(2000, 20_000),
            shared::<F3Tree<f3::Small<3, 4, 1, 2>>>(60, 10_000);
        without_conditional_writes_holds_what_was_written_last:
            blind::<F3Tree<f3::Blind>>(3000, 20_000),
            blind::<F3Tree<f3::Small<2, 2, 0>>>(100, 8_000);
    }
}
