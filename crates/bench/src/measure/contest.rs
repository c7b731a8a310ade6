//! Several indexes measured side by side in one run.
//!
//! Each round lets every entrant make itself a new index, load it, and do all its workloads, one
//! entrant after the other, in an order that is drawn anew for each round: so a slow hour of the
//! machine, or what one entrant leaves in the caches of the system, hits all alike.

pub use super::entrant::Entrant;
use super::index_kind::IndexKind;
use super::instruments::Instruments;
use super::progress::Progress;
use super::session::BenchRun;
use super::settings::{Settings, check};
use crate::error::BenchError;
use crate::random::Random;
use crate::report::Report;
use crate::statistics::shuffle;
use crate::target::Target;

/// An entrant of any kind: `make` makes an empty one, and whatever has to live as long as it does
/// and goes after it (its folder).
///
/// Of the settings, those of the pool (index, medium, domain) say nothing to it.
///
/// # Errors
/// Settings that do not go together.
///
/// # Example
/// See the crate `rivals` beside this one.
pub fn entrant<T, H, Make>(
    name: &'static str,
    settings: &Settings,
    make: Make,
) -> Result<Box<dyn Entrant>, BenchError>
where
    T: Target + 'static,
    H: 'static,
    Make: Fn() -> Result<(T, H), BenchError> + 'static,
{
    let settings = Settings { index: IndexKind::Bytes, ..settings.clone() };
    check(&settings)?;
    Ok(Box::new(BenchRun::new(name, settings, make)))
}

/// The index of ours that the settings name.
///
/// # Errors
/// Settings that do not go together.
pub fn ours(settings: &Settings) -> Result<Box<dyn Entrant>, BenchError> {
    super::entrant_of(settings)
}

/// Measures one entrant in as many rounds as its settings say, on one index unless a load is among the
/// cases. `progress` is told what comes next.
///
/// # Errors
/// As soon as an operation fails; the text begins with the entrant's name.
pub fn alone(
    mut entrant: Box<dyn Entrant>,
    rounds: usize,
    miss_region: usize,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Report, BenchError> {
    let mut instruments = Instruments::new(miss_region);
    for _ in 0..rounds {
        let result = entrant.round(&mut instruments, progress);
        result.map_err(|error| BenchError::Target(format!("{}: {error}", entrant.name())))?;
    }
    Ok(entrant.report())
}

/// Measures all entrants, `rounds` times, in random order. `progress` is told which comes next and
/// what it does.
///
/// # Errors
/// As soon as one entrant fails; the text begins with its name.
pub fn run(
    mut entrants: Vec<Box<dyn Entrant>>,
    rounds: usize,
    seed: u64,
    miss_region: usize,
    progress: &mut dyn FnMut(&str, Progress<'_>),
) -> Result<Vec<Report>, BenchError> {
    let mut instruments = Instruments::new(miss_region);
    let mut random = Random::new(seed ^ 0xc047_e571);
    for _ in 0..rounds {
        let mut order: Vec<usize> = (0..entrants.len()).collect();
        shuffle(&mut order, &mut random);
        for index in order {
            let entrant = &mut entrants[index];
            let name = entrant.name();
            let mut tell = |step: Progress<'_>| progress(name, step);
            let result = entrant.round(&mut instruments, &mut tell);
            entrant.rest();
            result.map_err(|error| BenchError::Target(format!("{name}: {error}")))?;
        }
    }
    Ok(entrants.into_iter().map(|entrant| entrant.report()).collect())
}
