//! Answers held against a map.

use everleaf_machine::simulated::history::{Call, Reply};
use everleaf_prove::expected::Expected;

#[test]
fn answers_are_held_against_a_map() {
    let mut expected = Expected::new();
    let answer = |value| [Reply::Previous(value)];
    expected.hold(&"insert", &[(1, Call::Insert(7))], &answer(None));
    expected.hold(&"insert", &[(1, Call::Insert(8))], &answer(Some(7)));
    expected.hold(
        &"both",
        &[(1, Call::Get), (2, Call::Get)],
        &[Reply::Previous(Some(7)), Reply::Unknown],
    );
    expected.refuse(&[(1, Call::Remove)]);
    assert_eq!(expected.pairs(), Some(vec![(1, 7)]));
}

#[test]
#[should_panic(expected = "answered Previous(None)")]
fn a_wrong_answer_is_told() {
    let mut expected = Expected::new();
    expected.hold(&"upsert", &[(1, Call::Upsert(7))], &[Reply::Unknown]);
    expected.hold(&"get", &[(1, Call::Get)], &[Reply::Previous(None)]);
}

#[test]
fn a_part_of_several_changes_leaves_nothing_to_know() {
    let mut expected = Expected::new();
    expected.refuse(&[(1, Call::Remove), (2, Call::Remove)]);
    assert_eq!(expected.pairs(), None);
}
