//! Fills an index and measures workloads on it, round by round.

pub mod contest;
mod entrant;
pub mod index_kind;
mod measured;
pub mod redis;
mod session;
mod tally;

use std::sync::Arc;

use everleaf::Domain;
use everleaf_index::{Design, U64Tree};

use crate::arrivals::Arrivals;
use crate::calibrate::REGION_SIZE_BYTES;
use crate::distribution::Distribution;
use crate::error::BenchError;
use crate::keys::KEY_SIZE_MIN;
use crate::medium::{Medium, new_pool, new_store};
use crate::report::{Report, Setup};
use crate::target::{Integers, Strings};
use crate::trace::Trace;
use crate::workload::Workload;
use entrant::Entrant;
use index_kind::IndexKind;
use session::{BenchRun, Instruments};

/// One workload to measure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Case {
    /// What the operations are.
    pub workload: Workload,
    /// Which keys they choose; without effect where each operation needs a fresh key.
    pub distribution: Distribution,
    /// Threads at work, at least 1.
    pub threads: usize,
}

/// How long each round of each workload is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Length {
    /// This many operations, all threads together. Batches and scans count as many.
    Operations(u64),
    /// As many operations as take about so many seconds, by a short trial at the beginning.
    Seconds(f64),
}

/// What to measure, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Which index.
    pub index: IndexKind,
    /// Keys loaded before the measurements, at least 1.
    pub keys: u64,
    /// Bytes of a key, at least 8; the integer tree has 8.
    pub key_size: usize,
    /// Bytes of a value; the integer tree has 8.
    pub value_size: usize,
    /// Where the pool is.
    pub medium: Medium,
    /// The persistence domain; `None` to detect it (memory: `process`).
    pub domain: Option<Domain>,
    /// What to measure, in this order in each round. Every load, and every workload with keys of its
    /// own, starts with an empty pool; if the first case does not, the keys are loaded once, outside
    /// the clock.
    pub cases: Vec<Case>,
    /// How often, at least 1.
    pub rounds: usize,
    /// How long each round of each case is (a load inserts all keys, a trace is done once).
    pub length: Length,
    /// When operations are due: `None` for a closed loop, in which a thread begins one when the one
    /// before has ended. Loads are always in a closed loop.
    pub arrivals: Option<Arrivals>,
    /// Whether the updates of mixes are calls that would also add the key.
    pub upsert: bool,
    /// The operations of [`Workload::Trace`].
    pub trace: Option<Arc<Trace>>,
    /// Keys of a batch, 1 to 1024.
    pub batch: usize,
    /// Pairs of a scan, 1 to 1,000,000; at most, for the scans of YCSB E.
    pub scan_length: u32,
    /// One operation in this many is timed by itself, at least 1.
    pub sample_every: usize,
    /// The seed of the operations.
    pub seed: u64,
    /// Bytes of the memory that is walked to time a dependent miss.
    pub miss_region: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            index: IndexKind::U64,
            keys: 1_000_000,
            key_size: 8,
            value_size: 8,
            medium: Medium::Memory,
            domain: None,
            cases: Vec::new(),
            rounds: 5,
            length: Length::Operations(1_000_000),
            arrivals: None,
            upsert: false,
            trace: None,
            batch: 32,
            scan_length: 100,
            sample_every: 64,
            seed: 1,
            miss_region: REGION_SIZE_BYTES,
        }
    }
}

impl Settings {
    /// These settings for `index`, without the cases that need order if it has none; and the workloads
    /// that were left out.
    pub fn suited_to(&self, index: IndexKind) -> (Settings, Vec<Workload>) {
        let mut suited = Settings { index, ..self.clone() };
        let mut left_out = vec![];
        if !index.is_ordered() {
            let (cases, others) = self.cases.iter().partition(|case| !self.scans(case.workload));
            suited.cases = cases;
            left_out = others.into_iter().map(|case: Case| case.workload).collect();
            left_out.dedup();
        }
        (suited, left_out)
    }

    /// Whether a workload needs an index that has its keys in order.
    fn scans(&self, workload: Workload) -> bool {
        let has_trace = workload == Workload::Trace;
        let trace = self.trace.as_ref().filter(|_| has_trace);
        workload.scans() || trace.is_some_and(|trace| trace.scans())
    }
}

/// How far a run has come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress<'p> {
    /// What is being done, such as "get uniform, 1 thread, round 2 of 5".
    pub what: &'p str,
    /// Measurements done.
    pub done: u64,
    /// Measurements in all.
    pub total: u64,
}

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

/// Makes an entrant of a tree of integers.
pub(crate) fn enter<T: Design>(settings: &Settings) -> Box<dyn Entrant> {
    let (own, max_size) = (settings.clone(), pool_size_max(settings));
    let make = move || {
        let (pool, home) = new_pool(&own.medium, own.domain, max_size)?;
        Ok((Integers::<T>::create(pool)?, home))
    };
    Box::new(BenchRun::new(settings.index.name(), settings.clone(), make))
}

fn check(settings: &Settings) -> Result<(), BenchError> {
    let wrong = |text: &str| Err(BenchError::Settings(text.to_owned()));
    let is_integers = settings.index.is_integers();
    if settings.cases.is_empty() {
        return wrong("there is nothing to measure: choose at least one workload");
    }
    if is_integers && (settings.key_size != 8 || settings.value_size != 8) {
        return wrong(
            "this index has keys and values of 8 bytes: choose the index bytes for other sizes",
        );
    }
    if !(KEY_SIZE_MIN..=everleaf::KEY_SIZE_MAX).contains(&settings.key_size) {
        return wrong("the size of keys must be 8 to 65536 bytes");
    }
    if settings.value_size > 1 << 20 {
        return wrong("the size of values must be at most 1048576 bytes");
    }
    if settings.keys == 0 || settings.keys > 1 << 40 {
        return wrong("the number of keys must be 1 to 2^40");
    }
    if settings.rounds == 0 || settings.sample_every == 0 {
        return wrong("the number of rounds, and of operations per sample, must be at least 1");
    }
    if !(1..=1024).contains(&settings.batch) || !(1..=1_000_000).contains(&settings.scan_length) {
        return wrong("a batch has 1 to 1024 keys, a scan 1 to 1000000 pairs");
    }
    if let Length::Seconds(seconds) = settings.length
        && !(0.001..=3600.0).contains(&seconds)
    {
        return wrong("a round takes 0.001 to 3600 seconds");
    }
    if settings.length == Length::Operations(0) {
        return wrong("a round has at least 1 operation");
    }
    if settings.arrivals.is_some_and(|arrivals| !arrivals.is_valid()) {
        return wrong("a rate is 0.001 to 10^9 operations a second, a burst 1 to 10^6 operations");
    }
    settings.cases.iter().try_for_each(|case| check_case(case, settings))
}

fn check_case(case: &Case, settings: &Settings) -> Result<(), BenchError> {
    let wrong = |text: &str| Err(BenchError::Settings(text.to_owned()));
    let keys_of_each = settings.keys / case.threads.max(1) as u64;
    if !(1..=256).contains(&case.threads) {
        return wrong("the number of threads must be 1 to 256");
    }
    if !case.distribution.is_valid() {
        return wrong(
            "the exponent theta of a distribution must be 0.5 to 0.99, the hot part of self-similar \
             0.01 to 0.49",
        );
    }
    match case.workload {
        Workload::Remove if keys_of_each < 2 => {
            wrong("to remove keys there must be at least two for each thread")
        }
        mix if mix.is_mix() && mix.removal_share() > 0.0 && keys_of_each < 100 => {
            wrong("for a mix with removals there must be at least 100 keys for each thread")
        }
        Workload::Writes { percent } if percent > 100 => {
            wrong("the share of writes must be 0 to 100 percent")
        }
        scanning if settings.scans(scanning) && !settings.index.is_ordered() => {
            Err(BenchError::Settings(format!(
                "{} is a hash index: its keys have no order, which {scanning} needs",
                settings.index.name()
            )))
        }
        Workload::Trace if settings.trace.is_none() => {
            wrong("the workload trace needs a file with one")
        }
        _ => Ok(()),
    }
}

/// Address space for the pool: far more than the keys can take, for only what is used costs.
fn pool_size_max(settings: &Settings) -> u64 {
    let pair = (settings.key_size + settings.value_size + 128) as u64;
    let inserted = match settings.length {
        Length::Operations(count) => count.saturating_mul(settings.rounds as u64 + 1),
        Length::Seconds(_) => session::OPERATION_COUNT_MAX,
    };
    let inserts = settings.cases.iter().filter(|case| !case.workload.is_load()).count();
    let keys = settings.keys.saturating_add(inserted.saturating_mul(inserts as u64));
    let traced = settings.trace.as_ref().map_or(0, |trace| trace.written_bytes());
    let bytes = keys.saturating_mul(pair).saturating_add(traced);
    bytes.saturating_mul(4).clamp(4 << 30, 8 << 40)
}

fn setup(index: &'static str, settings: &Settings, domain: String) -> Setup {
    Setup {
        index,
        keys: settings.keys,
        key_size_bytes: settings.key_size,
        value_size_bytes: settings.value_size,
        medium: settings.medium.to_string(),
        domain,
        rounds: settings.rounds,
        seed: settings.seed,
        batch: settings.batch,
        scan_length: settings.scan_length,
        upsert: settings.upsert,
        offered_per_second: settings.arrivals.map(|arrivals| arrivals.per_second),
        burst: settings.arrivals.map(|arrivals| arrivals.burst),
        sample_every: settings.sample_every,
        miss_region_bytes: settings.miss_region,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::index_kind::MeasuredDesign;
    use crate::table;

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
