//! Every flush and drain switched off in turn: one that no program misses is superfluous, or a
//! program is missing.

use std::time::Instant;

use everleaf_machine::simulated::{Config, Domain, Failure, Report, Site, SiteKind};

use crate::case::step::Step;
use crate::case::structure::Structure;
use crate::machine::configure::{Fixed, exhaustive};
use crate::search::campaign::WORK;
use crate::search::record::Record;

/// How hard to look.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Random programs.
    pub programs: u64,
    /// Schedules of each random program.
    pub schedules: u64,
    /// Schedules of a small program, which is run in order of preemptions.
    pub small_schedules: u64,
}

impl Default for Effort {
    fn default() -> Self {
        Effort { programs: 320, schedules: 20, small_schedules: 2000 }
    }
}

/// What happened when one call was switched off.
#[derive(Clone, Debug)]
pub struct Ablated {
    /// Which call.
    pub site: Site,
    /// Flush or drain.
    pub kind: SiteKind,
    /// How often it ran with nothing switched off.
    pub hits: u64,
    /// Schedules run without it, until it was missed or all were run.
    pub schedules: u64,
    /// Seconds that took.
    pub seconds: f64,
    /// The program that missed it, and how.
    pub missed: Option<(String, Failure)>,
}

/// Switches every flush and drain that the programs of a structure execute off, one at a time, in
/// the domain that needs them; calls `tell` with each result.
///
/// # Errors
/// The failure if there is one with nothing switched off.
pub fn ablate(
    structure: &Structure,
    effort: Effort,
    tell: &mut dyn FnMut(&Ablated),
) -> Result<Vec<Ablated>, Box<(Record, Failure)>> {
    let (whole, found) = search(structure, effort, None);
    if let Some(found) = found {
        let record = Record::new(structure.name, &found.program, &found.config, &found.failure);
        return Err(Box::new((record, found.failure)));
    }
    let mut all = vec![];
    for hits in whole.sites {
        let started = Instant::now();
        let (report, found) = search(structure, effort, Some(hits.site));
        let ablated = Ablated {
            site: hits.site,
            kind: hits.kind,
            hits: hits.hits,
            schedules: report.counts.schedules,
            seconds: started.elapsed().as_secs_f64(),
            missed: found.map(|found| (found.program, found.failure)),
        };
        tell(&ablated);
        all.push(ablated);
    }
    Ok(all)
}

struct Found {
    program: String,
    config: Config,
    failure: Failure,
}

/// Runs the programs until one fails. Locked instructions complete no flush here: a portable
/// program must not count on it.
fn search(structure: &Structure, effort: Effort, site: Option<Site>) -> (Report, Option<Found>) {
    let mut total = Report::default();
    let base = Config { domain: Domain::Adr, ablate: site, ..Config::default() };
    let small = structure.small().into_iter();
    let small = small.map(|program| (program, exhaustive(&base, 1), effort.small_schedules));
    let random = (0..effort.programs).map(|number| {
        let fixed = Fixed { domain: Some(Domain::Adr), memory: None };
        let Step { program, config, .. } = structure.step(1, number, fixed);
        let config = Config { ablate: site, rmw_drains: false, work_limit: WORK, ..config };
        (program, config, effort.schedules)
    });
    for (program, config, schedules) in small.chain(random) {
        let case = structure.case(&program).expect("a structure knows its own programs");
        let (report, failure) = case.explore(&config, schedules);
        total.add(&report);
        if let Some(failure) = failure {
            return (total, Some(Found { program, config, failure: *failure }));
        }
    }
    (total, None)
}
