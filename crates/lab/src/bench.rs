//! The bench: fills an index and measures workloads on it, round by round.

mod session;
mod tally;

use everleaf::Domain;
use everleaf_index::catalogue::{self, DesignVisitor};
use everleaf_index::{Design, Hardware, IndexError, U64Tree};
use everleaf_machine::topology;

use crate::calibrate::{self, REGION_SIZE_BYTES};
use crate::distribution::Distribution;
use crate::error::LabError;
use crate::keys::KEY_SIZE_MIN;
use crate::medium::{Medium, new_pool, new_store};
use crate::report::{Machine, Report, Setup};
use crate::target::{IndexKind, Integers, Strings};
use crate::workload::Workload;
use session::{Found, Session};

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
    /// What to measure, in this order in each round. Every `load` starts with an empty pool; if the
    /// first case is no load, the keys are loaded once, outside the clock.
    pub cases: Vec<Case>,
    /// How often, at least 1.
    pub rounds: usize,
    /// How long each round of each case is (a `load` inserts all keys).
    pub length: Length,
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
            batch: 32,
            scan_length: 100,
            sample_every: 64,
            seed: 1,
            miss_region: REGION_SIZE_BYTES,
        }
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
) -> Result<Report, LabError> {
    check(settings)?;
    let max_size = pool_size_max(settings);
    let found = match settings.index {
        IndexKind::U64 => Measure { settings, progress, max_size }.visit::<U64Tree>()?,
        IndexKind::Design(name) => catalogue::visit(name, Measure { settings, progress, max_size })
            .unwrap_or_else(|| Err(IndexError::UnknownDesign(format!("'{name}'")).into()))?,
        IndexKind::Bytes => {
            let make = || {
                let (store, home) = new_store(&settings.medium, settings.domain, max_size)?;
                Ok((Strings::new(store, settings.key_size, settings.value_size), home))
            };
            Session::new(settings, make).run(progress)?
        }
    };
    let Found { rows, memory, domain } = found;
    Ok(Report { machine: machine(), setup: setup(settings, domain), memory, rows })
}

/// A run on a tree of integers.
struct Measure<'s, 'p> {
    settings: &'s Settings,
    progress: &'p mut dyn FnMut(Progress<'_>),
    max_size: u64,
}

impl DesignVisitor<Hardware> for Measure<'_, '_> {
    type Output = Result<Found, LabError>;
    fn visit<T: Design>(self) -> Self::Output {
        let Measure { settings, progress, max_size } = self;
        let make = || {
            let (pool, home) = new_pool(&settings.medium, settings.domain, max_size)?;
            Ok((Integers::<T>::create(pool)?, home))
        };
        Session::new(settings, make).run(progress)
    }
}

fn check(settings: &Settings) -> Result<(), LabError> {
    let wrong = |text: &str| Err(LabError::Settings(text.to_owned()));
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
    for case in &settings.cases {
        if !(1..=256).contains(&case.threads) {
            return wrong("the number of threads must be 1 to 256");
        }
        if !case.distribution.is_valid() {
            return wrong("the exponent theta of a distribution must be 0.5 to 0.99");
        }
        if case.workload == Workload::Remove && settings.keys < 2 * case.threads as u64 {
            return wrong("to remove keys there must be at least two for each thread");
        }
    }
    Ok(())
}

/// Address space for the pool: far more than the keys can take, for only what is used costs.
fn pool_size_max(settings: &Settings) -> u64 {
    let pair = (settings.key_size + settings.value_size + 128) as u64;
    let inserted = match settings.length {
        Length::Operations(count) => count.saturating_mul(settings.rounds as u64 + 1),
        Length::Seconds(_) => session::OPERATION_COUNT_MAX,
    };
    let inserts = settings.cases.iter().filter(|case| case.workload != Workload::Load).count();
    let keys = settings.keys.saturating_add(inserted.saturating_mul(inserts as u64));
    keys.saturating_mul(4 * pair).clamp(4 << 30, 8 << 40)
}

fn machine() -> Machine {
    Machine {
        cpu: topology::cpu_model(),
        cpu_count: topology::cpu_count(),
        memory_bytes: topology::memory_total_bytes(),
        huge_page_bytes: topology::huge_page_size_bytes(),
        clock_ns: calibrate::clock_ns(),
        is_optimized: !cfg!(debug_assertions),
    }
}

fn setup(settings: &Settings, domain: String) -> Setup {
    Setup {
        index: settings.index.name(),
        keys: settings.keys,
        key_size_bytes: settings.key_size,
        value_size_bytes: settings.value_size,
        medium: settings.medium.to_string(),
        domain,
        rounds: settings.rounds,
        seed: settings.seed,
        batch: settings.batch,
        scan_length: settings.scan_length,
        sample_every: settings.sample_every,
        miss_region_bytes: settings.miss_region,
    }
}
