//! What the published protocols of the other trees lose: a program for each defect, in which it comes
//! back when the safeguard against it is switched off, and which is right with it.
//!
//! `tests/it/regressions` holds a record of a failing schedule of each. (What NBTree's own protocol loses
//! is in [`published`](crate::programs::published), since there the defects cannot be switched off.)

use everleaf_machine::simulated::Domain;

use crate::programs::directed_case::{DirectedCase, Expectation};
use crate::programs::scenarios::Scenario;
use crate::tree::operation::Operation::{self, Get, Insert, Remove, Scan, Update};

fn anomaly(
    name: &'static str,
    expectation: Expectation,
    history: &[Operation],
    plan: &[&[Operation]],
) -> DirectedCase {
    DirectedCase::new(("anomaly", name), expectation, history, plan)
}

/// All of them.
pub fn anomalies() -> Vec<DirectedCase> {
    let three = [Insert(1, 10), Insert(5, 50), Insert(9, 90)];
    let line = Some(Domain::Adr);
    vec![
        // Two writers meet a full leaf; the third takes the right half's first key away while the
        // second waits. Compared with that key, 10 belongs to the left half. (The right half has to
        // keep enough keys not to be merged.)
        anomaly(
            "a first key that goes while a writer waits",
            ("fast-fair", "fast_fair.first_key", None, 1, 20_000),
            &three,
            &[&[Insert(15, 150), Insert(16, 160)], &[Insert(10, 100), Get(10)], &[Remove(9)]],
        ),
        // A record whose word is its neighbour's counts as one that is being moved.
        anomaly(
            "equal values next to each other",
            ("fast-fair", "fast_fair.equal_words", None, 0, 100),
            &[],
            &[&[Insert(1, 7), Insert(2, 7), Get(2), Scan(0, 9)]],
        ),
        // The reader of 2 looks at its neighbour before the update and at itself after the removal.
        anomaly(
            "an update and a removal between two loads of a reader",
            ("fast-fair", "fast_fair.quiet_update", None, 3, 300_000),
            &[Insert(1, 10), Insert(2, 20), Insert(3, 30)],
            &[&[Remove(3), Update(1, 11), Remove(2)], &[Get(2)]],
        ),
        // The leaf is split between the traversal of 9 and the reservation of its entry.
        anomaly(
            "an insert overtaken by a split",
            ("rntree", "rntree.no_revalidation", None, 1, 5000),
            &[Insert(1, 10), Insert(2, 20)],
            &[&[Insert(9, 90), Get(9)], &[Insert(5, 50), Insert(6, 60)]],
        ),
        // Readers are sent to a slot array that is not durable yet.
        anomaly(
            "a get of a slot array on its way",
            ("rntree-dual", "rntree.early_switch", line, 1, 5000),
            &[Insert(1, 10)],
            &[&[Insert(9, 90)], &[Get(9)]],
        ),
        // Recovery hands out the last entry that is in use.
        anomaly(
            "an insert after a crash",
            ("rntree", "rntree.max_slot", line, 0, 100),
            &[],
            &[&[Insert(2, 20), Insert(3, 30)]],
        ),
        // Readers follow the counter before it is durable.
        anomaly(
            "a get of an entry on its way",
            ("nvtree", "nvtree.read_uncommitted", line, 1, 5000),
            &[Insert(1, 10)],
            &[&[Insert(9, 90)], &[Get(9)]],
        ),
        // The record of the undo log is durable before the image that it refers to.
        anomaly(
            "a split whose image is not there yet",
            ("wbtree", "hybrid.no_image_flush", line, 0, 100),
            &[Insert(1, 10), Insert(2, 20), Insert(3, 30)],
            &[&[Insert(4, 40)]],
        ),
    ]
}

/// Their programs.
pub fn scenarios() -> Vec<Scenario> {
    anomalies().into_iter().map(|anomaly| anomaly.scenario).collect()
}
