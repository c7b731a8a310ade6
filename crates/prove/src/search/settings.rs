//! What a search is asked to do.

use std::time::Duration;

use everleaf_machine::simulated::{Config, Fault};

use crate::machine::configure::Fixed;

/// What one random program may cost, in [`Counts::work`](everleaf_machine::simulated::Counts::work).
pub const WORK: u64 = 1_000_000;

/// When a search ends, if nothing is found. Not by the time on the wall, of which other programs take
/// a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// After about this CPU time.
    Cpu(Duration),
    /// After about so many schedules: the same search on every machine.
    Schedules(u64),
}

/// What a search is asked to do.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How much to search, about.
    pub budget: Budget,
    /// Where all chance begins: the same seed gives the same programs and schedules.
    pub seed: u64,
    /// The domain and the memory model, if only one of each is wanted.
    pub fixed: Fixed,
    /// A planted bug that is switched on.
    pub mutant: Option<&'static str>,
    /// An access with a fault.
    pub fault: Option<Fault>,
    /// Schedules of each program.
    pub schedules: u64,
    /// Preemptions of the exhaustive search of the small programs; none skips it.
    pub preemptions: Option<u32>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            budget: Budget::Cpu(Duration::from_secs(30)),
            seed: 1,
            fixed: Fixed::default(),
            mutant: None,
            fault: None,
            schedules: 100,
            preemptions: Some(1),
        }
    }
}

impl Settings {
    /// A machine with what is planted.
    pub(crate) fn planted(&self, config: Config) -> Config {
        let mutants = self.mutant.into_iter().collect();
        Config { mutants, fault: self.fault, ..config }
    }

    /// Whether the search ends after some time. Of a number of schedules, short ones would take more than
    /// their part.
    pub(crate) fn is_by_time(&self) -> bool {
        matches!(self.budget, Budget::Cpu(_))
    }
}
