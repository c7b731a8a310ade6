//! Replacing or merging leaves allocates blocks of the pool, records for fences and volatile nodes,
//! one after the other. When the volatile memory gave out in the middle, what had been allocated
//! before was lost until the next open: nobody used it and no free list had it.
//!
//! Found by failing one allocation after the other: random plan 4 on byte strings with the fifth
//! allocation failing (`Adr`, total store order, seed 0xb1441d254bd86cd7) leaked two blocks and a
//! fence; "a merge, a split and another merge" with the sixth (`Eadr`, seed 0x447d0673cb136167)
//! leaked the target of a merge that was given up; emptying a tree leaked the leaves of the new one.

use everleaf_index::Tiny;
use everleaf_machine::simulated::Config;

use everleaf_prove::Nb;
use everleaf_prove::case::explore;
use everleaf_prove::machine::space::Space;
use everleaf_prove::programs::trees::run_numbers;
use everleaf_prove::programs::{plans, scenarios};

const SPACE: Space = Space {
    blocks_left: None,
    no_records: false,
    hands: None,
    pool_bytes: 128 << 10,
    chunk_shift: 12,
    blocks_at_hand: 0,
    may_fill: true,
    grows_at_once: false,
};

#[test]
fn nothing_is_lost_when_a_replacement_fails_half_way() {
    for failing in 0..12 {
        let config = Config { fail_allocation: Some(failing), ..Config::default() };
        let (mut program, plan) = plans::random_words::<Tiny<2, 3>>(4, 2);
        program.space = SPACE;
        let (_, failure) = explore(program, plan, &config, 5);
        assert!(failure.is_none(), "allocation {failing} fails: {failure:?}");
    }
}

#[test]
fn nothing_is_lost_when_merging_and_emptying_fail_half_way() {
    let names = ["a merge, a split and another merge", "a tree that is emptied and filled again"];
    let scenarios = scenarios::published_bugs().into_iter().chain(scenarios::others());
    let scenarios: Vec<_> = scenarios.filter(|found| names.contains(&found.name)).collect();
    assert_eq!(scenarios.len(), names.len());
    for failing in 0..14 {
        for scenario in &scenarios {
            let config = Config { fail_allocation: Some(failing), ..Config::default() };
            let (_, failure) =
                run_numbers::<Nb<Tiny<2, 3>>, Nb<Tiny<3, 3>>>(scenario, &config, 5, SPACE);
            assert!(failure.is_none(), "allocation {failing} fails: {failure:?}");
        }
    }
}
