//! Long walks by name.

use everleaf_index::Tiny as Size;
use everleaf_machine::simulated::{Config, Random};
use everleaf_prove::Nb;
use everleaf_prove::programs::long::Long;
use everleaf_prove::programs::made::Keys;
use everleaf_prove::structures::find;
use everleaf_prove::tree::living::AnyTree;

#[test]
fn a_name_says_all() {
    let long = Long { slots: 62, keys: Keys::Edges, number: 0x1a2b };
    assert_eq!(long.name(), "long/62/edges/1a2b");
    assert_eq!(Long::from_name(&long.name()), Some(long));
    for wrong in ["long/", "long/2/near", "long/2/near/1/1", "made/2/near/1"] {
        assert_eq!(Long::from_name(wrong), None, "{wrong}");
    }
}

#[test]
fn long_walks_of_right_trees_answer_as_a_map_does() {
    let config = Long::machine(Config::default(), &mut Random::new(1));
    for (name, program) in [
        ("nbtree", "long/62/far/1"),
        ("nbtree", "long/5/near/2"),
        ("nbtree-bytes", "long/5/edges/3"),
        ("hashed-leaf", "long/4/edges/4"),
        ("hashed-leaf-bytes", "long/7/edges/5"),
    ] {
        let case = find(name).expect("in the list").case(program).expect("there is one");
        let (report, failure) = case.explore(&config, 1);
        assert!(failure.is_none() && report.counts.schedules == 1, "{name}: {failure:?}");
    }
}

/// A walk over 200 keys filled the pool of FAST & FAIR with two records in a node, whose inner nodes are there, too:
/// that counted as a failure of the tree. Found by the plain search, behind 117 CPU seconds.
#[test]
fn a_comb_of_inner_nodes_fits_its_pool() {
    let tree = const { &AnyTree::of::<Nb<Size<3, 3>>>() };
    let long = Long::from_name("long/2/alike/5c06b9f").expect("a name");
    let (program, _) = long.numbers(tree);
    let (keys, bytes) = (program.universe.len(), program.space.pool_bytes);
    assert!(keys == 200 && bytes > 2_000_000, "{keys} keys in {bytes} bytes");
}
