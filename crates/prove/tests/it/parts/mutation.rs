//! Faults in accesses, by rule.

use everleaf_machine::simulated::Fault;
use everleaf_prove::hunt::mutation::{faults_of, hunt, spread};
use everleaf_prove::search::campaign::Budget;
use everleaf_prove::structures::find;

#[test]
fn what_can_have_a_fault_is_listed_and_a_missing_flush_is_found() {
    let structure = find("pool").expect("in the list");
    let all = faults_of(structure, 20).unwrap_or_else(|found| panic!("{}", found.1));
    assert!(all.is_sorted() && all.len() > 20, "{}", all.len());
    let few = spread(&all, 10);
    assert!(few.len() == 10 && few.is_sorted() && few[0] == all[0]);
    assert_eq!(spread(&all, all.len() + 1), all);
    let budget = Budget::Schedules(300);
    let found = |fault: &Fault| !hunt(structure, *fault, budget, 1, &mut |_| {}).is_clean();
    assert!(few.iter().any(found), "{few:?}");
}
