//! The pool on the simulated machine: threads change roots, ids and size in every order that chance
//! gives, the power is cut wherever it can matter, and what is left must be a pool in which nothing
//! that was answered is missing and nothing is half done.

use everleaf_machine::simulated::{
    Config, Counts, CrashConfig, Domain, Failure, MemoryModel, Runner, Site, SiteKind,
};
use everleaf_prove::structures::pool::{Directory, plan};

/// Runs `plans` random plans with `schedules` schedules each.
fn search(
    config: &Config,
    plans: u64,
    schedules: u64,
    counts: &mut Counts,
) -> Result<Vec<(Site, SiteKind)>, Box<Failure>> {
    let mut sites = Vec::new();
    for seed in 0..plans {
        let mut runner = Runner::new(Directory::default(), plan(seed), config.clone())?;
        let report = runner.explore(schedules)?;
        counts.add(&report.counts);
        for hits in report.sites {
            if !sites.contains(&(hits.site, hits.kind)) {
                sites.push((hits.site, hits.kind));
            }
        }
    }
    Ok(sites)
}

#[test]
fn a_power_cut_anywhere_leaves_all_that_was_answered() {
    for domain in [Domain::Adr, Domain::Eadr, Domain::Process] {
        for memory in [MemoryModel::Sc, MemoryModel::Tso] {
            let crash = CrashConfig { nested_one_in: 20, ..CrashConfig::default() };
            let config = Config { domain, memory, crash, ..Config::default() };
            let mut counts = Counts::default();
            if let Err(failure) = search(&config, 40, 10, &mut counts) {
                panic!("{domain:?} {memory:?}: {failure}");
            }
            assert_eq!(counts.schedules, 400);
            assert!(counts.images > 400 && counts.nested_runs > 0, "{counts:?}");
        }
    }
}

#[test]
fn every_persist_of_the_pool_is_needed() {
    let config = Config::default();
    let sites = search(&config, 40, 5, &mut Counts::default()).unwrap_or_else(|failure| {
        panic!("before anything is switched off: {failure}");
    });
    // The program persists what witnesses the pool; without that less is demanded, and nothing is missed.
    let is_of_pool = |(site, _): &(Site, SiteKind)| !site.file.contains("prove");
    let sites: Vec<_> = sites.into_iter().filter(is_of_pool).collect();
    assert!(sites.len() >= 8, "roots, ids, growth, opening and closing persist: {sites:?}");
    for (site, kind) in sites {
        let ablated = Config { ablate: Some(site), ..config.clone() };
        let mut counts = Counts::default();
        let found = search(&ablated, 60, 20, &mut counts);
        let schedules = counts.schedules;
        assert!(found.is_err(), "{kind} at {site} was not missed in {schedules} schedules");
    }
}
