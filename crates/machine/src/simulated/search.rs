//! Searches over many programs, and over the flushes and drains of a program.

use std::fmt;
use std::ops::Range;

use super::config::Config;
use super::failure::Failure;
use super::program::{Plan, Program};
use super::report::Report;
use super::runner::Runner;
use super::sites::{Site, SiteHits, SiteKind};

/// A failure found by a [`search`].
pub struct Found<P: Program> {
    /// The number given to the maker of the program.
    pub number: u64,
    /// The schedules run until then, of all programs.
    pub schedules: u64,
    /// What failed.
    pub failure: Box<Failure>,
    /// The plan that failed; the maker gives its program again.
    pub plan: Plan<P::Operation>,
}

impl<P: Program> fmt::Display for Found<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "program {}, {} schedules in all: {}", self.number, self.schedules, self.failure)
    }
}

impl<P: Program> fmt::Debug for Found<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Runs the programs of the numbers in `programs`, each under up to `schedules` schedules. `make`
/// gives the program and plan of a number, always the same; varied initial contents find more than
/// varied schedules. Searches over disjoint ranges may run on OS threads of their own.
///
/// # Errors
/// The first failure.
pub fn search<P: Program + 'static>(
    config: &Config,
    programs: Range<u64>,
    schedules: u64,
    mut make: impl FnMut(u64) -> (P, Plan<P::Operation>),
) -> Result<Report, Box<Found<P>>> {
    let mut total = Report { exhausted: true, ..Report::default() };
    for number in programs {
        let (program, plan) = make(number);
        let run = || {
            let mut runner = Runner::new(program, plan.clone(), config.clone())?;
            let exhausted = runner.explore(schedules)?.exhausted;
            Ok(Report { exhausted, ..runner.report() })
        };
        match run() {
            Ok(report) => total.add(&report),
            Err(failure) => {
                let failure: Box<Failure> = failure;
                let schedules = total.counts.schedules + failure.schedule;
                return Err(Box::new(Found { number, schedules, failure, plan }));
            }
        }
    }
    Ok(total)
}

impl Report {
    /// Adds the report of another search.
    pub fn add(&mut self, other: &Report) {
        self.counts.add(&other.counts);
        self.exhausted &= other.exhausted;
        for &(name, count) in &other.marks {
            match self.marks.binary_search_by_key(&name, |&(known, _)| known) {
                Ok(index) => self.marks[index].1 += count,
                Err(index) => self.marks.insert(index, (name, count)),
            }
        }
        for fault in &other.faults {
            if let Err(index) = self.faults.binary_search(fault) {
                self.faults.insert(index, *fault);
            }
        }
        for entry in &other.sites {
            match self.sites.binary_search_by_key(&entry.site, |known| known.site) {
                Ok(index) => self.sites[index].hits += entry.hits,
                Err(index) => self.sites.insert(index, *entry),
            }
        }
    }
}

/// What happened when one flush or drain was switched off.
#[derive(Clone, Debug)]
pub struct Ablation {
    /// Which call.
    pub site: Site,
    /// Flush or drain.
    pub kind: SiteKind,
    /// How often it ran in the search with nothing switched off.
    pub hits: u64,
    /// The number of schedules until the failure and the failure; none if all went well without the
    /// call, which then is superfluous or needs a better test.
    pub killed: Option<(u64, Failure)>,
}

impl Ablation {
    /// Whether the call proved necessary.
    pub fn is_needed(&self) -> bool {
        self.killed.is_some()
    }
}

/// Switches each flush and drain of the programs off in turn and searches for a failure.
///
/// # Errors
/// The failure if there is one with nothing switched off.
pub fn ablate<P: Program + 'static>(
    config: &Config,
    programs: Range<u64>,
    schedules: u64,
    mut make: impl FnMut(u64) -> (P, Plan<P::Operation>),
) -> Result<Vec<Ablation>, Box<Found<P>>> {
    let whole = Config { ablate: None, ..config.clone() };
    let sites = search(&whole, programs.clone(), schedules, &mut make)?.sites;
    let judge = |SiteHits { site, kind, hits }| {
        let config = Config { ablate: Some(site), ..config.clone() };
        let found = search(&config, programs.clone(), schedules, &mut make).err();
        let killed = found.map(|found| (found.schedules, *found.failure));
        Ablation { site, kind, hits, killed }
    };
    Ok(sites.into_iter().map(judge).collect())
}
