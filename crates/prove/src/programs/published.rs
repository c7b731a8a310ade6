//! NBTree as published. Its protocol keeps no promise when several threads use a tree, so it is
//! proven with one thread; and there are programs that show what is lost with more, and what each of
//! its safeguards is good for.
//!
//! ```text
//!   any name of `trees`   the program of that name, its threads' operations in turn in one thread
//!   anomaly/NAME          one of [`anomalies`], with its threads
//!   directed/NAME         one of [`directed`], with its threads
//! ```

use everleaf_machine::simulated::{
    Abandon, Config, CrashConfig, Domain, Failure, Plan, Random, Report,
};

use crate::case::step::{Programs, Step};
use crate::case::{Case, PlannedCase};
use crate::machine::configure::{Fixed, exhaustive};
use crate::machine::dimensions::{self, Dimension, Drawn};
use crate::programs::directed_case::DirectedCase;
use crate::programs::scenarios::Scenario;
use crate::programs::trees::{Trees, draw_brief};
use crate::programs::unjudged;
use crate::tree::living::AnyTree;
use crate::tree::operation::Operation::{self, Exchange, Get, Insert, Remove, Update};
use crate::tree::subject::Subject;
use crate::tree::u64_program::U64Program;

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
    /// Whether the first thread stops for ever on its way, which a lock-free tree has to bear.
    pub stops: bool,
    /// A safeguard of ours against it, if there is one, which is switched off for it.
    pub mutant: Option<&'static str>,
    /// The variants with locks that have it too.
    pub remains_in: &'static [&'static str],
}

/// How an anomaly was met.
pub struct Meeting {
    /// The search that met it.
    pub config: Config,
    /// What all searches until then explored.
    pub report: Report,
    /// What was seen.
    pub failure: Box<Failure>,
}

/// Where a thread may stop for ever: more places than the longest operation has.
const STOPS: u64 = 400;

impl Anomaly {
    /// The name of its program.
    pub fn program(&self) -> String {
        format!("anomaly/{}", self.scenario.name)
    }

    /// Its program. Reads are held to more than the trees promise: what was read is there.
    pub fn strict<S: Subject>(&self) -> (U64Program, Plan<Operation>) {
        self.strict_on(const { &AnyTree::of::<S>() })
    }

    /// As [`Self::strict`], of any tree.
    pub fn strict_on(&self, tree: &'static AnyTree) -> (U64Program, Plan<Operation>) {
        let (program, plan) = self.scenario.numbers_on(tree);
        (U64Program { judges_reads: true, ..program }, plan)
    }

    /// A search through all orders, in which nobody stops for ever.
    pub fn config(&self) -> Config {
        let enabled = self.crash.is_some();
        let crash = CrashConfig { enabled, ..CrashConfig::default() };
        let domain = self.crash.unwrap_or(Domain::Eadr);
        let mutants = self.mutant.into_iter().collect();
        exhaustive(&Config { domain, crash, mutants, ..Config::default() }, self.preemptions)
    }

    /// Looks for it in its case: in all orders, and, if the first thread is to stop for ever, in one
    /// place after the other. `None`: not met in [`schedules`](Self::schedules).
    pub fn meet(&self, case: &dyn Case) -> Option<Meeting> {
        let mut total = Report::default();
        for place in 0..if self.stops { STOPS } else { 1 } {
            let abandon = self.stops.then_some(Abandon { thread: 0, after_points: place });
            let config = Config { abandon, ..self.config() };
            let left = self.schedules - total.counts.schedules;
            let (report, failure) = case.explore(&config, left);
            total.add(&report);
            if let Some(failure) = failure {
                return Some(Meeting { config, report: total, failure });
            }
        }
        None
    }
}

/// How an anomaly is met: its number, the crash it needs, preemptions and schedules.
type Expectation = (&'static str, Option<Domain>, u32, u64);

fn anomaly(
    name: &'static str,
    (number, crash, preemptions, schedules): Expectation,
    history: &[Operation],
    plan: &[&[Operation]],
) -> Anomaly {
    let plan = plan.iter().map(|operations| operations.to_vec()).collect();
    // Entries that a crash is to tell apart lie on different lines: the first two share one.
    let slots = if crash == Some(Domain::Adr) { 3 } else { 2 };
    let scenario = Scenario { name, slots, history: history.to_vec(), plan };
    let (stops, mutant, remains_in) = (false, None, [].as_slice());
    Anomaly { scenario, number, preemptions, crash, schedules, stops, mutant, remains_in }
}

/// What is left of the paper's protocol to go wrong: a program for each defect that its techniques
/// bring with them.
pub fn anomalies() -> Vec<Anomaly> {
    let mut all = in_one_leaf();
    all.extend(beside_a_replacement());
    all.extend(after_a_replacement());
    all.extend(after_a_crash());
    all
}

/// A leaf with two slots, both filled.
const FULL: [Operation; 2] = [Insert(1, 10), Insert(2, 20)];

/// Two calls in one leaf.
fn in_one_leaf() -> Vec<Anomaly> {
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
            &FULL,
            &[&[Update(1, 11)], &[Remove(1)]],
        ),
    ]
}

/// Calls that meet a replacement which is under way.
fn beside_a_replacement() -> Vec<Anomaly> {
    vec![
        anomaly(
            "a search that writes an old value back",
            ("A3", None, 2, 40_000),
            &FULL,
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
            &FULL,
            &[&[Remove(1)], &[Insert(1, 11)]],
        ),
        anomaly(
            "an update that is told of a removal before its time",
            ("A8", None, 2, 40_000),
            &FULL,
            &[&[Insert(3, 30)], &[Remove(1)], &[Update(1, 11), Get(1)]],
        ),
        // The thread that replaces the leaf stands still between the first phase and the second, so that
        // nothing else can go wrong: a value that comes a second time is taken for the first.
        Anomaly {
            stops: true,
            ..anomaly(
                "an update that a late one takes back",
                ("A12", None, 1, 40_000),
                &FULL,
                &[
                    &[Insert(3, 30)],
                    &[Update(1, 12), Update(1, 11), Get(1)],
                    &[Update(1, 13), Update(1, 12)],
                ],
            )
        },
    ]
}

/// Calls that found their leaf before it was replaced.
fn after_a_replacement() -> Vec<Anomaly> {
    vec![
        anomaly(
            "an update that is two replacements late",
            ("A7", None, 1, 2000),
            &FULL,
            &[&[Update(2, 21)], &[Insert(3, 30), Insert(4, 40)]],
        ),
        anomaly(
            "a removal that is two replacements late",
            ("A7", None, 1, 2000),
            &FULL,
            &[&[Remove(2)], &[Insert(3, 30), Insert(4, 40)]],
        ),
        anomaly(
            "a removal that is one replacement late",
            ("A11", None, 1, 2000),
            &FULL,
            &[&[Remove(1)], &[Insert(3, 30), Remove(1)]],
        ),
        anomaly(
            "an update that is one replacement late",
            ("A11", None, 1, 2000),
            &FULL,
            &[&[Update(1, 11)], &[Insert(3, 30), Update(1, 12)]],
        ),
        anomaly(
            "an exchange that is one replacement late",
            ("A11", None, 1, 2000),
            &FULL,
            &[&[Exchange(1, 10, 11)], &[Insert(3, 30), Exchange(1, 10, 12)]],
        ),
    ]
}

/// What a power failure shows.
fn after_a_crash() -> Vec<Anomaly> {
    let (eadr, adr) = (Some(Domain::Eadr), Some(Domain::Adr));
    vec![
        anomaly(
            "two entries of one key after a power failure",
            ("A9", eadr, 1, 2000),
            &[],
            &[&[Insert(1, 11)], &[Insert(1, 12)]],
        ),
        anomaly(
            "an insert that follows a removal not yet flushed",
            ("A10", adr, 1, 2000),
            &FULL,
            &[&[Remove(1)], &[Insert(1, 11)]],
        ),
        Anomaly {
            remains_in: &["nbtree-w"],
            ..anomaly(
                "a get of an update not yet flushed",
                ("A13", adr, 1, 2000),
                &[Insert(1, 10)],
                &[&[Update(1, 11)], &[Get(1)]],
            )
        },
        // One thread: the old leaf is in the ring, and the log still says that it is to be freed.
        Anomaly {
            mutant: Some("nbtree_published.trusts_calloc"),
            remains_in: &["nbtree-w", "nbtree-wr"],
            ..anomaly(
                "a leaf that is in the ring and free",
                ("A14", eadr, 0, 10),
                &FULL,
                &[&[Insert(3, 30)]],
            )
        },
        // One thread. A leaf leaves the ring when its grace period is over: where metadata are
        // reclaimed too, after two replacements, and else after a ring full of them.
        Anomaly {
            mutant: Some("nbtree_published.frees_once"),
            remains_in: &["nbtree-w", "nbtree-wr"],
            ..anomaly(
                "a leaf that is taken from the ring and not logged yet",
                ("A15", eadr, 0, 10),
                &FULL,
                &[&[3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22]
                    .map(|key| Insert(key, key * 10))],
            )
        },
        // The first thread has logged which two leaves replace which, and stands still. They are
        // linked, and the other thread replaces the left one.
        Anomaly {
            mutant: Some("nbtree_published.frees_once"),
            remains_in: &["nbtree-w", "nbtree-wr"],
            ..anomaly(
                "a log that was overtaken",
                ("A16", eadr, 1, 2000),
                &[Insert(10, 100), Insert(20, 200)],
                &[&[Insert(30, 300)], &[Insert(5, 50), Insert(7, 70)]],
            )
        },
    ]
}

/// The structure whose safeguards [`directed`] is about.
pub const DIRECTED: &str = "nbtree-published";

/// The safeguards of the protocol that two threads miss, in the domain that it was made for. Nothing
/// goes wrong in these programs as long as they are there.
pub fn directed() -> Vec<DirectedCase> {
    let directed = |mutant, name, history: &[Operation], plan: [&[Operation]; 2]| {
        let expectation = (DIRECTED, mutant, Some(Domain::Eadr), 1, 20_000);
        DirectedCase::new(("directed", name), expectation, history, &plan).in_leaves_of(2)
    };
    vec![
        directed(
            "nbtree_published.late_commit",
            "an insert that has its slot when the leaf is replaced",
            &[Insert(5, 50)],
            [&[Insert(1, 11), Get(1)], &[Insert(2, 21)]],
        ),
        directed(
            "nbtree_published.no_sync",
            "an update of what was copied",
            &FULL,
            [&[Insert(3, 30)], &[Update(1, 11), Get(1)]],
        ),
        directed(
            "nbtree_published.no_sync_on_write",
            "an update of what was synchronised",
            &FULL,
            [&[Insert(3, 30)], &[Update(1, 11), Get(1)]],
        ),
        directed(
            "nbtree_published.no_tail",
            "a removal of the last entry that was copied",
            &FULL,
            [&[Insert(3, 30)], &[Remove(2), Get(2)]],
        ),
        directed(
            "nbtree_published.removes_twice",
            "two removals of one key",
            &FULL,
            [&[Remove(1)], &[Remove(1)]],
        ),
    ]
}

/// A tree whose protocol promises something to one thread at a time only, by slots.
pub struct Alone(pub &'static [(usize, AnyTree)]);

impl Alone {
    fn trees(&self) -> Trees {
        Trees { sizes: self.0, wide: &[], alone: true }
    }

    fn of_slots(&self, slots: usize) -> &'static AnyTree {
        &self.0[usize::from(slots > 2)].1
    }
}

impl Programs for Alone {
    fn case(&self, name: &str) -> Option<Box<dyn Case>> {
        if let Some(anomaly) = anomalies().into_iter().find(|anomaly| anomaly.program() == name) {
            return Some(PlannedCase::boxed(
                anomaly.strict_on(self.of_slots(anomaly.scenario.slots)),
            ));
        }
        if let Some(directed) = directed().into_iter().find(|directed| directed.program() == name) {
            return Some(PlannedCase::boxed(directed.scenario.numbers_on(self.of_slots(2))));
        }
        unjudged::case(name, |slots| self.of_slots(slots)).or_else(|| self.trees().case(name))
    }

    fn step(&self, number: u64, random: &mut Random, fixed: Fixed) -> Step {
        let step = self.trees().step(number, random, fixed);
        if !random.one_in(4) {
            return step;
        }
        let (slots, seed) = (2 + random.below(2), random.below(1 << 40) << 8 | number & 255);
        unjudged::step(Step { program: format!("random/{slots}/{seed}"), ..step })
    }

    fn brief(&self, _number: u64, random: &mut Random, fixed: Fixed) -> Option<Step> {
        Some(unjudged::step(draw_brief(random, &[2, 3], fixed)))
    }

    fn dimensions(&self) -> Vec<Dimension> {
        self.trees().dimensions()
    }

    fn small(&self) -> Vec<String> {
        self.trees().small()
    }
}

/// NBTree as published, with locks, its leaves in few blocks of another allocator: programs that do not
/// need many.
pub struct OnBlocks(pub &'static [(usize, AnyTree)]);

impl OnBlocks {
    fn trees(&self) -> Trees {
        Trees { sizes: self.0, wide: &[], alone: false }
    }
}

impl Programs for OnBlocks {
    fn case(&self, name: &str) -> Option<Box<dyn Case>> {
        self.trees().case(name)
    }

    fn step(&self, number: u64, random: &mut Random, fixed: Fixed) -> Step {
        let Drawn { config, values } = dimensions::draw(random, fixed);
        let program = format!("random/2/{}", random.below(1 << 40) << 8 | number & 255);
        Step { program, config, values }
    }

    fn dimensions(&self) -> Vec<Dimension> {
        dimensions::machines()
    }

    fn small(&self) -> Vec<String> {
        self.trees().small()
    }
}
