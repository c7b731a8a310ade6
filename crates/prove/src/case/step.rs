//! What a search does step by step, and what can be run of a structure.

use std::time::Duration;

use everleaf_machine::simulated::{Config, Domain, MemoryModel, Random, cpu_time};

use crate::case::Case;
use crate::machine::configure::{Fixed, memory_name};
use crate::machine::dimensions::{self, Dimension, Values};

/// One step of a search: a program, the machine it runs on, and what both are called in the table.
pub struct Step {
    /// The name of a program of the structure.
    pub program: String,
    /// The machine.
    pub config: Config,
    /// Values of dimensions.
    pub values: Values,
}

/// One step of so many under sequential consistency has weak memory instead, where that is tried.
const WEAK_ONE_IN: u64 = 4;

impl Step {
    /// The same, now and then on weak memory instead of a sequentially consistent one. Drawn from the seed alone, so
    /// that all else of the step stays what it is.
    #[must_use]
    pub fn maybe_weak(mut self, fixed: Fixed) -> Step {
        let is_open = fixed.memory.is_none() && self.config.memory == MemoryModel::Sc;
        if is_open && Random::new(!self.config.seed).one_in(WEAK_ONE_IN) {
            self.config.memory = MemoryModel::Weak;
            let values = self.values.iter_mut().filter(|(dimension, _)| *dimension == "memory");
            values.for_each(|(_, value)| *value = memory_name(MemoryModel::Weak));
        }
        self
    }

    /// The same with the values of what it has become: a program may have other crashes than were drawn.
    #[must_use]
    pub fn as_it_runs(mut self) -> Step {
        let recovery = dimensions::recovery_of(&self.config.crash);
        let values = self.values.iter_mut().filter(|(dimension, _)| *dimension == "recovery");
        values.for_each(|(_, value)| *value = recovery);
        self
    }
}

/// What can be run of a structure.
pub trait Programs: Sync {
    /// The case of a program's name; none if there is no such program.
    fn case(&self, name: &str) -> Option<Box<dyn Case>>;

    /// What a random search does at its step of this number: everything is drawn from `random`, but
    /// for what is fixed.
    fn step(&self, number: u64, random: &mut Random, fixed: Fixed) -> Step;

    /// A step with a brief program, drawn in the same way: many of them run beside each other step. None where
    /// there are no such programs.
    fn brief(&self, _number: u64, _random: &mut Random, _fixed: Fixed) -> Option<Step> {
        None
    }

    /// What steps are drawn of.
    fn dimensions(&self) -> Vec<Dimension>;

    /// The clock of a search with a budget of time: the CPU time that was spent on it, since some moment.
    fn cpu_time(&self) -> Duration {
        cpu_time()
    }

    /// The programs that are small enough for an exhaustive search.
    fn small(&self) -> Vec<String>;

    /// The domains that small programs run in unless one is asked for; that in which threads do most to each other
    /// comes first.
    fn domains(&self) -> [Domain; 2] {
        [Domain::Adr, Domain::Eadr]
    }

    /// More of them, which only searches that end by time run.
    fn more_small(&self) -> Vec<String> {
        vec![]
    }

    /// Small programs whose operations may find no space. None where there are no such programs.
    fn tight(&self) -> Vec<String> {
        vec![]
    }

    /// Small programs whose operations may be refused memory. None where there are no such programs.
    fn refused(&self) -> Vec<String> {
        vec![]
    }
}
