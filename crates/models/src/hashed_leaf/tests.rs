//! The programs that are explored, and the safeguards that they miss.

use super::program::Operation::{Get, Insert, Remove, Replace, Update};
use super::*;

/// Two positions, a line each, one chunk.
const PAIR: Shape = Shape { positions: 2, line: 1, chunk: 2 };
/// Three positions, a line each, one chunk.
const ONE_CHUNK: Shape = Shape { positions: 3, line: 1, chunk: 3 };
/// Four positions, a line each, two chunks: keys 0, 4, 8 begin at the first.
const TWO_CHUNKS: Shape = Shape { positions: 4, line: 1, chunk: 2 };

fn program(shape: Shape, before: &[(Key, Value)], threads: &[&[Operation]]) -> Program {
    let threads = threads.iter().map(|thread| thread.to_vec()).collect();
    Program { shape, before: before.to_vec(), threads, mutant: None }
}

/// Programs that take seconds together.
fn programs() -> Vec<Program> {
    vec![
        program(TWO_CHUNKS, &[], &[&[Insert(0, 1)], &[Insert(0, 2), Get(0)]]),
        program(TWO_CHUNKS, &[(4, 1)], &[&[Insert(8, 1), Insert(0, 1)], &[Get(0), Get(8)]]),
        program(
            ONE_CHUNK,
            &[(0, 1), (3, 1)],
            &[&[Remove(0), Insert(6, 1)], &[Insert(9, 2), Get(3)]],
        ),
        program(PAIR, &[(0, 1)], &[&[Update(0, 2)], &[Remove(0), Insert(0, 3)], &[Get(0)]]),
        program(ONE_CHUNK, &[(0, 1)], &[&[Remove(0), Insert(3, 2)], &[Insert(3, 3)], &[Get(3)]]),
        program(TWO_CHUNKS, &[(4, 1)], &[&[Insert(8, 1)], &[Insert(0, 2), Get(0)], &[Get(0)]]),
        program(
            TWO_CHUNKS,
            &[(4, 1)],
            &[&[Insert(8, 1)], &[Insert(0, 2)], &[Insert(0, 3), Get(0)]],
        ),
        program(ONE_CHUNK, &[], &[&[Insert(0, 1)], &[Insert(3, 2)], &[Insert(3, 3), Get(3)]]),
        program(PAIR, &[(0, 1)], &[&[Replace], &[Insert(2, 2), Get(2)]]),
        program(PAIR, &[(0, 1)], &[&[Replace], &[Remove(0), Insert(0, 2)]]),
        program(PAIR, &[(0, 1)], &[&[Replace], &[Update(0, 2), Get(0)]]),
    ]
}

/// Replacements beside two other threads: a minute in a release build.
fn long_programs() -> Vec<Program> {
    vec![
        program(PAIR, &[(0, 1)], &[&[Replace], &[Replace], &[Insert(2, 2)]]),
        program(PAIR, &[(0, 1)], &[&[Replace], &[Update(0, 2), Get(0)], &[Get(0)]]),
        program(PAIR, &[(0, 1)], &[&[Replace], &[Remove(0), Insert(0, 2)], &[Get(0)]]),
        program(ONE_CHUNK, &[(3, 1)], &[&[Replace], &[Insert(0, 2), Get(0)], &[Get(0)]]),
        program(TWO_CHUNKS, &[(4, 1), (8, 1)], &[&[Replace], &[Insert(0, 2), Get(0)], &[Get(0)]]),
    ]
}

fn first_violation(programs: Vec<Program>, mutant: Mutant) -> Option<Violation> {
    programs
        .into_iter()
        .find_map(|program| explore(&Program { mutant: Some(mutant), ..program }).err())
}

fn all_hold(programs: &[Program]) -> Explored {
    let mut total = Explored::default();
    for program in programs {
        let explored = explore(program).unwrap_or_else(|found| panic!("{program:?}: {found:?}"));
        total.states += explored.states;
        total.crashes += explored.crashes;
    }
    total
}

#[test]
fn every_schedule_and_crash_is_right() {
    let explored = all_hold(&programs());
    assert!(explored.states > 100_000 && explored.crashes > 10_000, "{explored:?}");
}

#[test]
#[ignore = "a long run: a minute in a release build"]
fn every_schedule_of_three_threads_is_right() {
    all_hold(&long_programs());
}

#[test]
fn each_safeguard_is_missed() {
    use Mutant::*;
    let needed = [
        LiveBeforeFingerprint,
        HelperSkipsFingerprint,
        NoOverflowBit,
        OverflowBitAfterClaim,
        PassesUnread,
        ReusesTombstone,
        RemovalClearsFingerprint,
        FreezeSkipsTombstones,
        ReadIsNotFlushed,
        AbsenceIsNotFlushed,
        WriteIsNotFlushed,
        SwitchBeforeCommit,
        CopyIsNotFlushed,
        GapsStayFree,
    ];
    for mutant in needed {
        let found = first_violation(programs(), mutant);
        assert!(found.is_some(), "{mutant:?} is not missed");
    }
}

#[test]
#[ignore = "a long run: two minutes in a release build"]
fn what_only_looks_like_a_safeguard_is_not_missed() {
    use Mutant::*;
    let idle = [
        OverflowBitReadFirst,
        FreezeLeavesZeroes,
        FreezeSkipsFingerprint,
        TrustsFrozen,
        TrustsFullLeaf,
    ];
    for mutant in idle {
        let found = first_violation([programs(), long_programs()].concat(), mutant);
        assert!(found.is_none(), "{mutant:?}: {found:?}");
    }
}
