//! Tiny programs by name, and that all of their orders are run.

use everleaf_index::Tiny as Size;
use everleaf_machine::simulated::{Config, Program, SchedulerKind};
use everleaf_prove::Nb;
use everleaf_prove::programs::made::{KEYS, Keys, Room};
use everleaf_prove::programs::tiny::{FORMS, Form, ORDERS, Tiny};
use everleaf_prove::structures::find;
use everleaf_prove::tree::bytes_program::AnyWords;
use everleaf_prove::tree::living::AnyTree;
use everleaf_prove::tree::operation::Operation;

#[test]
fn a_name_says_all() {
    for number in 0..50 {
        let (slots, (_, keys)) = (2 + number % 9, KEYS[number % 4]);
        let room = [Room::Refusing, Room::Usual, Room::AtHand][number % 3];
        let (_, form) = FORMS[number / 3 % FORMS.len()];
        let tiny = Tiny { form, slots, keys, room, number: 77 * number as u32 };
        assert_eq!(Tiny::from_name(&tiny.name()), Some(tiny));
    }
    for wrong in
        ["tiny/", "tiny/2/near", "tiny/2/near/usual/x", "tiny/2/near/full/1", "made/2/near/1"]
    {
        assert_eq!(Tiny::from_name(wrong), None, "{wrong}");
    }
}

#[test]
fn most_of_them_are_run_in_every_order() {
    let mut exhausted = 0;
    for number in 0..40 {
        let structure = find(["nbtree", "nbtree-bytes"][number % 2]).expect("in the list");
        let keys = KEYS[number / 2 % 4].1;
        let (form, room) = (Form::Few, Room::Usual);
        let tiny = Tiny { form, slots: 3, keys, room, number: number as u32 };
        let case = structure.case(&tiny.name()).expect("its program");
        let config = Config {
            scheduler: SchedulerKind::Dfs { preemptions: 1 },
            work_limit: 300_000,
            ..Config::default()
        };
        let (report, failure) = case.explore(&config, ORDERS);
        assert!(failure.is_none(), "{}: {failure:?}", tiny.name());
        exhausted += usize::from(report.exhausted);
    }
    assert!(exhausted >= 30, "{exhausted} of 40");
}

/// Small programs read several keys in one call nearly never while a leaf below was replaced.
#[test]
fn gathered_ones_name_many_keys_beside_writes() {
    let tree = const { &AnyTree::of::<Nb<Size<3, 3>>>() };
    let (mut reads, mut writes) = (0, 0);
    for number in 0..60 {
        let (form, keys, room) = (Form::Gathered, Keys::Near, Room::Usual);
        let (program, plan) = Tiny { form, slots: 3, keys, room, number }.numbers(tree);
        let named = |operation: &Operation| {
            let mut calls = vec![];
            operation.calls(&program.universe, &mut calls);
            calls.len()
        };
        let many = plan[0].iter().filter(|operation| named(operation) > 1);
        let (read, written): (Vec<_>, Vec<_>) = many.partition(|operation| operation.is_read());
        reads += usize::from(!read.is_empty());
        writes += usize::from(!written.is_empty());
        assert!(plan[1].iter().all(|operation| operation.key_written().is_some()), "{plan:?}");
    }
    assert!(reads > 30 && writes > 15, "{reads} read many keys, {writes} write them");
}

/// How the order of a leaf is kept changes with its 17th key.
#[test]
fn many_of_those_on_wide_leaves_fill_one() {
    let tree = const { &AnyTree::of::<Nb<Size<3, 3>>>() };
    let is_full = |number: &u32| {
        let (form, keys, room) = (Form::Cached, Keys::Near, Room::Usual);
        let (program, _) = Tiny { form, slots: 22, keys, room, number: *number }.numbers(tree);
        let there = program.expected(false).expect("it is known");
        (16..=22).contains(&there.len())
    };
    let full = (0..60).filter(is_full).count();
    assert!(full >= 12, "{full} of 60");
}

/// What the fences of an inner node share, a key may be, or end just before.
#[test]
fn strings_may_begin_with_whole_words_that_are_one_of_them() {
    let tree = const { &AnyWords::of::<Size<3, 3>>() };
    let has_such = |number: &u32| {
        let (form, keys, room) = (Form::Few, Keys::Alike, Room::Usual);
        let (program, _) = Tiny { form, slots: 3, keys, room, number: *number }.words(tree);
        let all = &program.universe;
        let begins = |prefix: &[u8]| all.iter().filter(|key| key.starts_with(prefix)).count();
        all.iter().any(|key| !key.is_empty() && key.len() % 8 == 0 && begins(key) > 4)
    };
    let such = (0..60).filter(has_such).count();
    assert!(such >= 12, "{such} of 60");
}
