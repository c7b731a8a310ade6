//! The making of a pool, cut at every step: what is left opens with all that was answered, or is no pool yet.

use everleaf_machine::simulated::{Config, CrashConfig, Domain, Failure};
use everleaf_prove::structures::pool::creation;

/// Runs a few schedules of each program.
fn search(config: &Config) -> Result<u64, Box<Failure>> {
    let mut images = 0;
    for name in creation::names() {
        let case = creation::case(&name).expect("its own name");
        let (report, failure) = case.explore(config, 2);
        failure.map_or(Ok(()), Err)?;
        images += report.counts.images;
    }
    Ok(images)
}

#[test]
fn a_pool_whose_making_is_cut_opens_or_is_made_anew() {
    for domain in [Domain::Adr, Domain::Eadr, Domain::Process] {
        let crash = CrashConfig { nested_one_in: 50, ..CrashConfig::default() };
        let config = Config { domain, crash, ..Config::default() };
        let images = search(&config).unwrap_or_else(|failure| panic!("{domain:?}: {failure}"));
        assert!(images > 100, "{domain:?}: {images} crash states");
    }
}

#[test]
fn what_a_making_does_not_make_durable_is_missed() {
    for mutant in ["pool.format_ids_unflushed", "pool.format_unflushed", "alloc.create_unflushed"] {
        let config = Config { mutants: vec![mutant], ..Config::default() };
        assert!(search(&config).is_err(), "{mutant} was not missed");
    }
}
