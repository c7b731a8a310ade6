//! What to measure, and how; and whether it goes together.

use std::sync::Arc;

use everleaf::Domain;

use super::index_kind::IndexKind;
use crate::arrivals::Arrivals;
use crate::calibrate::REGION_SIZE_BYTES;
use crate::distribution::Distribution;
use crate::error::BenchError;
use crate::keys::KEY_SIZE_MIN;
use crate::medium::Medium;
use crate::report::Setup;
use crate::trace::Trace;
use crate::workload::Workload;

/// Operations of a round, at most: their keys are kept in memory.
pub(super) const OPERATION_COUNT_MAX: u64 = 1 << 27;

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
    pub(super) fn scans(&self, workload: Workload) -> bool {
        let has_trace = workload == Workload::Trace;
        let trace = self.trace.as_ref().filter(|_| has_trace);
        workload.scans() || trace.is_some_and(|trace| trace.scans())
    }
}

/// Refuses settings that do not go together.
pub(super) fn check(settings: &Settings) -> Result<(), BenchError> {
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
    if settings.keys == 0 || settings.keys > 1 << 32 {
        return wrong("the number of keys must be 1 to 2^32");
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
    if let Length::Operations(count) = settings.length
        && !(1..=OPERATION_COUNT_MAX).contains(&count)
    {
        return wrong("a round has 1 to 2^27 operations");
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

/// What a report says of the settings.
pub(super) fn setup(index: &'static str, settings: &Settings, domain: String) -> Setup {
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
