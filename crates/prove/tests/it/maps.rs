//! Programs of maps that once failed.

use everleaf_machine::simulated::Config;
use everleaf_prove::structure::find;

/// What it does before its threads come found the pool full, with trees of either design: a session had the blocks
/// of the trees that it had removed (head of `maps.rs`).
#[test]
fn a_pool_whose_blocks_are_in_one_session_has_room_for_a_tree() {
    let maps = find("maps").expect("in the list");
    for leaves in ["", "hashed/"] {
        let case = maps.case(&format!("{leaves}random/153494954858106")).expect("its program");
        let (report, failure) = case.explore(&Config::default(), 5);
        if let Some(failure) = failure {
            panic!("{leaves}: {failure}");
        }
        assert!(report.counts.schedules > 0);
    }
}
