//! Fills an index and measures workloads on it, round by round.

pub mod contest;
mod entrant;
pub mod index_kind;
mod instruments;
mod measured;
mod progress;
pub mod redis;
mod session;
mod settings;
mod tally;

use everleaf_index::{Design, Scans, U64Tree};

use crate::error::BenchError;
use crate::medium::{new_pool, new_store};
use crate::report::Report;
use crate::target::{Integers, Strings};
use entrant::Entrant;
use index_kind::{IndexKind, MeasuredDesign};
use instruments::Instruments;
use session::BenchRun;
use settings::check;

pub use progress::Progress;
pub use settings::{Case, Length, Settings};

/// Measures. `progress` is told what comes next, before each measurement.
///
/// # Errors
/// Settings that do not go together; a pool that cannot be made or is full; an operation that
/// fails, returns a wrong value, or misses a key.
pub fn run(
    settings: &Settings,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Report, BenchError> {
    let mut session = entrant_of(settings)?;
    let mut instruments = Instruments::new(settings.miss_region);
    for _ in 0..settings.rounds {
        session.round(&mut instruments, progress)?;
    }
    Ok(session.report())
}

/// The index that the settings name, as an entrant.
fn entrant_of(settings: &Settings) -> Result<Box<dyn Entrant>, BenchError> {
    check(settings)?;
    Ok(match settings.index {
        IndexKind::U64 => enter::<U64Tree>(settings),
        IndexKind::Design(design) => (design.enter)(settings),
        IndexKind::Bytes => {
            let (own, max_size) = (settings.clone(), pool_size_max(settings));
            let make = move || {
                let (store, home) = new_store(&own.medium, own.domain, max_size)?;
                Ok((Strings::new(store, own.key_size, own.value_size), home))
            };
            Box::new(BenchRun::new(settings.index.name(), settings.clone(), make))
        }
    })
}

impl MeasuredDesign {
    /// The design `T`.
    pub const fn of<T: Design>() -> Self {
        MeasuredDesign {
            name: T::INFO.name,
            caveat: T::CAVEAT,
            is_ordered: !matches!(T::INFO.scans, Scans::Never),
            enter: enter::<T>,
        }
    }
}

/// Makes an entrant of a tree of integers.
fn enter<T: Design>(settings: &Settings) -> Box<dyn Entrant> {
    let (own, max_size) = (settings.clone(), pool_size_max(settings));
    let make = move || {
        let (pool, home) = new_pool(&own.medium, own.domain, max_size)?;
        Ok((Integers::<T>::create(pool)?, home))
    };
    Box::new(BenchRun::new(settings.index.name(), settings.clone(), make))
}

/// Address space for the pool: far more than the keys can take, for only what is used costs.
fn pool_size_max(settings: &Settings) -> u64 {
    let pair = (settings.key_size + settings.value_size + 128) as u64;
    let inserted = match settings.length {
        Length::Operations(count) => count.saturating_mul(settings.rounds as u64 + 1),
        Length::Seconds(_) => settings::OPERATION_COUNT_MAX,
    };
    let inserts = settings.cases.iter().filter(|case| !case.workload.is_load()).count();
    let keys = settings.keys.saturating_add(inserted.saturating_mul(inserts as u64));
    let traced = settings.trace.as_ref().map_or(0, |trace| trace.written_bytes());
    let bytes = keys.saturating_mul(pair).saturating_add(traced);
    bytes.saturating_mul(4).clamp(4 << 30, 8 << 40)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::Distribution;
    use crate::table;
    use crate::workload::Workload;

    /// A tree that is said to have no order.
    static HASHED: MeasuredDesign =
        MeasuredDesign { name: "hashed", is_ordered: false, ..MeasuredDesign::of::<U64Tree>() };

    #[test]
    fn what_scans_is_left_out_of_a_hash_index_or_refused() {
        let case = |workload| Case { workload, distribution: Distribution::Uniform, threads: 1 };
        let settings = Settings {
            keys: 1000,
            rounds: 1,
            length: Length::Operations(100),
            cases: [Workload::Scan, Workload::Get, Workload::YcsbE].map(case).to_vec(),
            miss_region: 1 << 20,
            ..Settings::default()
        };
        let hashed = IndexKind::Design(&HASHED);
        let (suited, left_out) = settings.suited_to(hashed);
        assert_eq!(left_out, [Workload::Scan, Workload::YcsbE]);
        assert_eq!(suited.cases, [case(Workload::Get)]);
        assert_eq!(settings.suited_to(IndexKind::U64), (settings.clone(), vec![]));

        let asked = Settings { index: hashed, ..settings.clone() };
        let error = run(&asked, &mut |_| {}).map(drop).unwrap_err().to_string();
        assert!(error.contains("hashed is a hash index") && error.contains("scan"), "{error}");

        let measure = |settings| run(settings, &mut |_| {}).unwrap();
        let text = table::compare(&[measure(&suited), measure(&settings)]);
        let lines: Vec<Vec<_>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert!(lines.iter().any(|words| *words == ["index", "scan", "get", "ycsb-e"]), "{text}");
        let row = lines.iter().find(|words| words.first() == Some(&"hashed")).expect("a row");
        assert!(row[1] == "-" && row[2] != "-" && row[3] == "-", "{text}");
    }
}
