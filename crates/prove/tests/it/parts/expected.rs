//! Answers held against a map.

use everleaf_machine::simulated::history::{Call, Reply};
use everleaf_prove::judge::expected::Expected;

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

/// A write that was refused was held against the map as if it had been made. So a program that fills a pool by
/// many writes at once was called wrong: `hashed-leaf-bytes` with seed 12 in `adr`, by
/// `made/3/alike/2/growing/103/d177.1b4d.9e9d.629f.a8cd/47c3.69be.5b08/7167eb97`.
#[test]
fn what_found_no_space_among_several_writes_was_not_done() {
    let mut expected = Expected::new();
    let calls = [(1, Call::Remove), (2, Call::Upsert(7)), (3, Call::Upsert(8))];
    let replies = [Reply::Previous(None), Reply::Refused, Reply::Previous(None)];
    expected.hold(&"many", &calls, &replies);
    assert_eq!(expected.pairs(), Some(vec![(3, 8)]));
}
