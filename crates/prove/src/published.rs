//! NBTree as published. Its protocol keeps no promise when several threads use a tree, so it is
//! proven with one thread; and there are programs that show what is lost with more.
//!
//! ```text
//!   any name of `trees`   the program of that name, its threads' operations in turn in one thread
//!   anomaly/NAME          one of [`anomalies`], with its threads
//! ```

use everleaf_index::Design;
use everleaf_machine::Simulated;
use everleaf_machine::simulated::{Config, CrashConfig, Domain};

use crate::case::{Case, Prepared};
use crate::configure::exhaustive;
use crate::design::Of;
use crate::operation::Operation::{self, Get, Insert, Remove, Update};
use crate::scenarios::Scenario;
use crate::trees;

/// A program on which the protocol fails, and where that is looked for.
pub struct Anomaly {
    /// The program.
    pub scenario: Scenario,
    /// The number of the defect in `docs/trees/nbtree-published.md`.
    pub number: &'static str,
    /// Preemptions that it takes.
    pub preemptions: u32,
    /// The domain it needs, if its failure is one of crashes.
    pub crash: Option<Domain>,
    /// Schedules in which the search through all orders meets it, at most.
    pub schedules: u64,
}

impl Anomaly {
    /// The name of its program.
    pub fn program(&self) -> String {
        format!("anomaly/{}", self.scenario.name)
    }

    /// The search that meets it.
    pub fn config(&self) -> Config {
        let enabled = self.crash.is_some();
        let crash = CrashConfig { enabled, ..CrashConfig::default() };
        let domain = self.crash.unwrap_or(Domain::Visible);
        exhaustive(&Config { domain, crash, ..Config::default() }, self.preemptions)
    }
}

/// How an anomaly is met: its number, the crash it needs, preemptions and schedules.
type Met = (&'static str, Option<Domain>, u32, u64);

fn anomaly(
    name: &'static str,
    (number, crash, preemptions, schedules): Met,
    history: &[Operation],
    plan: &[&[Operation]],
) -> Anomaly {
    let plan = plan.iter().map(|operations| operations.to_vec()).collect();
    // Entries that a crash is to tell apart lie on different lines: the first two share one.
    let slots = if crash == Some(Domain::Line) { 3 } else { 2 };
    let scenario = Scenario { name, slots, history: history.to_vec(), plan };
    Anomaly { scenario, number, preemptions, crash, schedules }
}

/// What is left of the paper's protocol to go wrong: a program for each defect that its techniques
/// bring with them.
pub fn anomalies() -> Vec<Anomaly> {
    let full = [Insert(1, 10), Insert(2, 20)];
    let visible = Some(Domain::Visible);
    vec![
        anomaly(
            "two inserts of one key",
            ("A1", None, 1, 2000),
            &[],
            &[&[Insert(1, 11)], &[Insert(1, 12)]],
        ),
        anomaly(
            "a removal that says what an update has replaced",
            ("A2", None, 1, 2000),
            &full,
            &[&[Update(1, 11)], &[Remove(1)]],
        ),
        anomaly(
            "a search that writes an old value back",
            ("A3", None, 2, 40_000),
            &full,
            &[&[Get(1)], &[Update(1, 11)], &[Insert(3, 30)]],
        ),
        anomaly(
            "a search that erases an insert",
            ("A4", None, 2, 40_000),
            &[Insert(2, 20)],
            &[&[Get(1)], &[Insert(1, 10)], &[Insert(3, 30)]],
        ),
        anomaly(
            "an update that the sync phase takes back",
            ("A5", None, 2, 40_000),
            &[Insert(1, 11), Insert(2, 20)],
            &[&[Insert(3, 30)], &[Update(1, 13)], &[Update(1, 11)]],
        ),
        anomaly(
            "a removal that takes the next insert with it",
            ("A6", None, 1, 2000),
            &full,
            &[&[Remove(1)], &[Insert(1, 11)]],
        ),
        anomaly(
            "an update that is two replacements late",
            ("A7", None, 1, 2000),
            &full,
            &[&[Update(2, 21)], &[Insert(3, 30), Insert(4, 40)]],
        ),
        anomaly(
            "a removal that is two replacements late",
            ("A7", None, 1, 2000),
            &full,
            &[&[Remove(2)], &[Insert(3, 30), Insert(4, 40)]],
        ),
        anomaly(
            "an update that is told of a removal before its time",
            ("A8", None, 2, 40_000),
            &full,
            &[&[Insert(3, 30)], &[Remove(1)], &[Update(1, 11), Get(1)]],
        ),
        anomaly(
            "two entries of one key after a power failure",
            ("A9", visible, 1, 2000),
            &[],
            &[&[Insert(1, 11)], &[Insert(1, 12)]],
        ),
        anomaly(
            "an insert that follows a removal not yet flushed",
            ("A10", Some(Domain::Line), 1, 2000),
            &full,
            &[&[Remove(1)], &[Insert(1, 11)]],
        ),
    ]
}

/// The case of a name for a tree, given with 2 and 3 slots in a leaf.
pub fn case<T2: Design<Simulated>, T3: Design<Simulated>>(name: &str) -> Option<Box<dyn Case>> {
    let mut all = anomalies().into_iter();
    let Some(anomaly) = all.find(|anomaly| anomaly.program() == name) else {
        return Some(trees::numbers::<Of<T2>, Of<T3>, Of<T3>>(name)?.alone());
    };
    Some(match anomaly.scenario.slots {
        2 => Prepared::boxed(anomaly.scenario.numbers::<Of<T2>>()),
        _ => Prepared::boxed(anomaly.scenario.numbers::<Of<T3>>()),
    })
}
