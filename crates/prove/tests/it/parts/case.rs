//! Plans taken apart.

use everleaf_prove::case::{in_turn, positions};

#[test]
fn threads_take_turns_in_one() {
    assert_eq!(in_turn(&vec![vec![1, 2, 3], vec![], vec![4], vec![5, 6]]), [1, 4, 5, 2, 6, 3]);
}

#[test]
fn the_part_of_a_plan_is_found_again() {
    let plan = vec![vec![1, 2, 1, 3], vec![7], vec![5, 5]];
    assert_eq!(positions(&plan, &vec![vec![2, 3], vec![], vec![5]]), [vec![1, 3], vec![], vec![0]]);
    assert_eq!(positions(&plan, &plan), [vec![0, 1, 2, 3], vec![0], vec![0, 1]]);
}
