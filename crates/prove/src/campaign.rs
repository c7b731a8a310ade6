//! A search for a given time: the small programs in every order, then everything by chance.

use std::time::{Duration, Instant};

use everleaf_machine::simulated::{Config, Domain, Failure, MemoryModel, Report};

use crate::configure::{Fixed, exhaustive, vary_but};
use crate::record::Record;
use crate::structure::{Step, Structure};

/// What a search is asked to do.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How long to search, about.
    pub budget: Duration,
    /// Where all chance begins: the same seed gives the same programs and schedules.
    pub seed: u64,
    /// The domain and the memory model, if only one of each is wanted.
    pub fixed: Fixed,
    /// A planted bug that is switched on.
    pub mutant: Option<&'static str>,
    /// Schedules of each program.
    pub schedules: u64,
    /// Preemptions of the exhaustive search of the small programs; none skips it.
    pub preemptions: Option<u32>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            budget: Duration::from_secs(30),
            seed: 1,
            fixed: Fixed::default(),
            mutant: None,
            schedules: 100,
            preemptions: Some(1),
        }
    }
}

/// What came of a search.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The structure's name.
    pub structure: &'static str,
    /// What was explored, of all programs.
    pub report: Report,
    /// Programs of the random search.
    pub programs: u64,
    /// The small programs of which every order was run, and how many there are.
    pub exhausted: (usize, usize),
    /// Seconds it took.
    pub seconds: f64,
    /// The failure that ended it, if one did.
    pub failure: Option<(Record, Failure)>,
}

impl Verdict {
    /// Whether nothing was found.
    pub fn is_clean(&self) -> bool {
        self.failure.is_none()
    }
}

/// Searches through the programs of a structure until the time is over or something fails; calls
/// `tell` now and then with what was done so far.
pub fn run(
    structure: &'static Structure,
    settings: &Settings,
    tell: &mut dyn FnMut(&Verdict),
) -> Verdict {
    let verdict = Verdict {
        structure: structure.name,
        report: Report { exhausted: true, ..Report::default() },
        programs: 0,
        exhausted: (0, 0),
        seconds: 0.0,
        failure: None,
    };
    let mut campaign = Campaign { structure, settings, started: Instant::now(), verdict, tell };
    if let Some(preemptions) = settings.preemptions {
        campaign.run_small(preemptions);
    }
    campaign.run_random();
    campaign.verdict.seconds = campaign.started.elapsed().as_secs_f64();
    campaign.verdict
}

struct Campaign<'a> {
    structure: &'static Structure,
    settings: &'a Settings,
    started: Instant,
    verdict: Verdict,
    tell: &'a mut dyn FnMut(&Verdict),
}

/// The most schedules of a small program: where every order is to be run, none has as many.
const SMALL_SCHEDULES: u64 = 1_000_000;
/// The same where stores wait in buffers, whose steps multiply the orders: only a part of them.
const SMALL_SCHEDULES_TSO: u64 = 20_000;

impl Campaign<'_> {
    fn is_over(&self) -> bool {
        !self.verdict.is_clean() || self.started.elapsed() >= self.settings.budget
    }

    fn config(&self, config: Config) -> Config {
        Config { mutants: self.settings.mutant.into_iter().collect(), ..config }
    }

    fn run_small(&mut self, preemptions: u32) {
        let Fixed { domain, memory } = self.settings.fixed;
        let domains = domain.map_or(vec![Domain::Line, Domain::Visible], |domain| vec![domain]);
        let memory = memory.unwrap_or(MemoryModel::Sc);
        let programs = (self.structure.small)();
        self.verdict.exhausted.1 = programs.len() * domains.len();
        for domain in domains {
            for program in &programs {
                if self.is_over() {
                    return;
                }
                let races = memory == MemoryModel::Sc;
                let base = Config { domain, memory, races, ..Config::default() };
                let config = self.config(exhaustive(&base, preemptions));
                let schedules = if races { SMALL_SCHEDULES } else { SMALL_SCHEDULES_TSO };
                if self.explore(program, &config, schedules) {
                    self.verdict.exhausted.0 += 1;
                }
            }
        }
    }

    fn run_random(&mut self) {
        let first = (self.settings.seed.wrapping_sub(1)) << 32;
        for number in (0..).map(|number: u64| first.wrapping_add(number)) {
            if self.is_over() {
                return;
            }
            let Step { program, config } = (self.structure.step)(number);
            let base = Config { seed: self.settings.seed, ..config };
            let config = self.config(vary_but(number, &base, self.settings.fixed));
            self.explore(&program, &config, self.settings.schedules);
            self.verdict.programs += 1;
        }
    }

    /// Runs a program; whether its search came to an end of its own.
    fn explore(&mut self, program: &str, config: &Config, schedules: u64) -> bool {
        let case = (self.structure.case)(program).expect("a structure knows its own programs");
        let (report, failure) = case.explore(config, schedules);
        self.verdict.report.add(&report);
        self.verdict.seconds = self.started.elapsed().as_secs_f64();
        if let Some(failure) = failure {
            let record = Record::new(self.structure.name, program, config, &failure);
            self.verdict.failure = Some((record, *failure));
        }
        (self.tell)(&self.verdict);
        report.exhausted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::structure::find;

    fn short(mutant: Option<&'static str>) -> Settings {
        Settings { budget: Duration::from_millis(300), mutant, ..Settings::default() }
    }

    #[test]
    fn a_structure_that_is_right_is_clean() {
        let mut told = 0;
        let structure = find("nbtree").expect("the flagship");
        let verdict = run(structure, &short(None), &mut |_| told += 1);
        assert!(verdict.is_clean(), "{:?}", verdict.failure);
        assert!(told > 0 && verdict.report.counts.schedules > 0);
    }

    #[test]
    fn a_planted_bug_is_found_written_replayed_and_made_small() {
        let structure = find("nbtree").expect("the flagship");
        let settings = Settings {
            budget: Duration::from_secs(60),
            preemptions: None,
            ..short(Some("nbtree.no_insert_flush"))
        };
        let verdict = run(structure, &settings, &mut |_| {});
        let (record, failure) = verdict.failure.expect("an insert that is not durable");
        let small = record.shrunk(&failure, 200).expect("the program is there");
        for record in [record, small] {
            let read = Record::from_text(&record.to_text()).expect("just written");
            let replay = read.replay().expect("the program is there");
            assert!(!replay.diverged);
            let again = replay.failure.expect("it fails again");
            assert_eq!(again.message, record.message);
        }
    }
}
