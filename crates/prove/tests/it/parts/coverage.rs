//! Pairs of dimensions that never ran.

use everleaf_prove::search::coverage::Coverage;

#[test]
fn a_pair_that_never_ran_is_missing() {
    let dimensions = vec![("a", vec!["1", "2"]), ("b", vec!["x", "y"])];
    let mut coverage = Coverage::of(dimensions);
    assert_eq!(coverage.possible().len(), 4);
    coverage.count(&vec![("b", "x"), ("a", "1")]);
    coverage.count(&vec![("a", "2"), ("b", "x")]);
    coverage.count(&vec![("a", "2"), ("b", "x")]);
    assert_eq!(coverage.missing(), [(("a", "1"), ("b", "y")), (("a", "2"), ("b", "y"))]);
    assert_eq!(coverage.times(&(("a", "2"), ("b", "x"))), 2);
}
