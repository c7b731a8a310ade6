//! A safeguard, and a program in which it is missed as soon as it is switched off.

use everleaf_machine::simulated::{Config, CrashConfig, Domain, MemoryModel};

use crate::machine::configure::exhaustive;
use crate::programs::scenarios::Scenario;
use crate::tree::operation::Operation;

/// A program that is right with a safeguard and wrong without it, and where that is looked for.
pub struct DirectedCase {
    /// The structure that has the safeguard.
    pub structure: &'static str,
    /// The safeguard, as a planted bug.
    pub mutant: &'static str,
    /// What the name of its program begins with.
    pub kind: &'static str,
    /// The program.
    pub scenario: Scenario,
    /// Preemptions that it takes.
    pub preemptions: u32,
    /// The domain it needs, if it takes a crash.
    pub crash: Option<Domain>,
    /// Schedules in which the search through all orders meets it, at most.
    pub schedules: u64,
    /// Whether the machine compares a key with many words at once.
    pub wide_compares: bool,
    /// Whether its stores wait in buffers.
    pub memory: MemoryModel,
}

/// How it is met: the structure, the safeguard, the crash, preemptions and schedules.
pub(crate) type Expectation = (&'static str, &'static str, Option<Domain>, u32, u64);

impl DirectedCase {
    /// A program of this kind and name, in leaves of 3 slots.
    pub(crate) fn new(
        (kind, name): (&'static str, &'static str),
        (structure, mutant, crash, preemptions, schedules): Expectation,
        history: &[Operation],
        plan: &[&[Operation]],
    ) -> Self {
        let plan = plan.iter().map(|operations| operations.to_vec()).collect();
        let scenario = Scenario { name, slots: 3, history: history.to_vec(), plan };
        let wide_compares = false;
        DirectedCase {
            structure,
            mutant,
            kind,
            scenario,
            preemptions,
            crash,
            schedules,
            wide_compares,
            memory: MemoryModel::Sc,
        }
    }

    /// The same on a machine that compares a key with many words at once.
    pub(crate) fn with_wide_compares(mut self) -> Self {
        self.wide_compares = true;
        self
    }

    /// The same on a machine whose stores wait in buffers.
    pub(crate) fn with_store_buffers(mut self) -> Self {
        self.memory = MemoryModel::Tso;
        self
    }

    /// The same in leaves of `slots` slots.
    pub(crate) fn in_leaves_of(mut self, slots: usize) -> Self {
        self.scenario.slots = slots;
        self
    }

    /// The same in a pool that has no space when the threads come.
    pub(crate) fn without_space(mut self) -> Self {
        self.kind = "bare";
        self
    }

    /// The name of its program.
    pub fn program(&self) -> String {
        format!("{}/{}", self.kind, self.scenario.name)
    }

    /// The search that meets it, and without the planted bug goes through all orders.
    pub fn config(&self, is_planted: bool) -> Config {
        let crash = CrashConfig { enabled: self.crash.is_some(), ..CrashConfig::default() };
        let domain = self.crash.unwrap_or(Domain::Eadr);
        let mutants = if is_planted { vec![self.mutant] } else { vec![] };
        let (wide_compares, memory) = (self.wide_compares, self.memory);
        let base = Config { domain, crash, mutants, wide_compares, memory, ..Config::default() };
        exhaustive(&base, self.preemptions)
    }
}

/// A program that was made for one planted bug.
pub(crate) fn directed(
    name: &'static str,
    expectation: Expectation,
    history: &[Operation],
    plan: &[&[Operation]],
) -> DirectedCase {
    DirectedCase::new(("directed", name), expectation, history, plan)
}
