//! Long walks by name.

use everleaf_machine::simulated::{Config, Random};
use everleaf_prove::programs::long::Long;
use everleaf_prove::programs::made::Keys;
use everleaf_prove::structures::find;

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
