//! Single operations on leaves with room, counted.

use everleaf_lab_designs::count::leaf::{LeafCosts, costs, costs_if_any, insert_at};
use everleaf_lab_designs::count::{CountedOperation, conditional_designs};
use everleaf_machine::simulated::Domain;

fn flushes(costs: &LeafCosts) -> [f64; 3] {
    [CountedOperation::Insert, CountedOperation::Remove, CountedOperation::Update]
        .map(|operation| costs.each(operation, |tally| tally.flushes))
}

#[test]
fn the_flagship_flushes_one_line_a_write_and_reads_one_a_hit() {
    let costs = costs("nbtree", Domain::Adr, 20, 1).unwrap();
    assert!(costs.capacity >= 62);
    assert_eq!(flushes(&costs), [1.0; 3]);
    let read = |operation| costs.each(operation, |tally| tally.pool_lines_read);
    // An absent key that shares a fingerprint costs a look at an entry.
    assert!(
        (1.0..1.5).contains(&read(CountedOperation::Get))
            && read(CountedOperation::GetAbsent) < 0.5
    );
}

#[test]
fn an_insert_is_counted_at_the_fill_that_is_asked_for() {
    let flushes = |entries| {
        let tally = insert_at("cdds", entries, 10, 1).unwrap();
        assert_eq!(tally.operations, 10);
        tally.per_operation(tally.flushes)
    };
    assert!(flushes(16) > flushes(4), "{} and {}", flushes(16), flushes(4));
    assert!(insert_at("wbtree-so", 8, 1, 1).is_err(), "a leaf has room for seven");
}

#[test]
fn where_caches_are_persistent_nothing_is_flushed() {
    let costs = costs("fptree", Domain::Eadr, 5, 1).unwrap();
    assert_eq!(flushes(&costs), [0.0; 3]);
}

#[test]
fn slots_of_one_word_leave_room_for_seven() {
    let costs = costs("wbtree-so", Domain::Adr, 20, 1).unwrap();
    assert_eq!(costs.capacity, 7);
    assert_eq!(flushes(&costs), [2.0, 1.0, 2.0]);
}

#[test]
fn every_design_is_counted_or_has_no_leaf_with_room() {
    let is_counted = |name: &&str| costs_if_any(name, Domain::Adr, 4, 1).unwrap().is_some();
    let without: Vec<_> =
        conditional_designs().into_iter().filter(|name| !is_counted(name)).collect();
    let expected = ["f3-tree", "wort", "utree", "p-skiplist"];
    let is_expected = |name: &&str| expected.iter().any(|start| name.starts_with(start));
    assert!(expected.iter().all(|name| without.contains(name)), "{without:?}");
    assert!(without.iter().all(is_expected), "{without:?}");
    let refusal = costs("wort", Domain::Adr, 4, 1).err().expect("an error").to_string();
    assert!(refusal.contains("wort has no leaf with room"), "{refusal}");
}
