//! One run of the bench on one kind of index: the rounds, the pools, the calibration between.

use std::thread;

use everleaf_machine::topology;

use super::tally::Tally;
use super::{Case, Length, Progress, Settings};
use crate::calibrate::Chase;
use crate::driver::{self, Manner, Outcome};
use crate::error::LabError;
use crate::medium::Home;
use crate::report::{Memory, Round, Row};
use crate::stream::{Plan, draw};
use crate::target::{Footprint, Target};
use crate::workload::Workload;

/// Operations of one thread that warm it up, at most, and as a share of those under the clock.
const WARM_UP_MAX: u64 = 100_000;
const WARM_UP_SHARE: u64 = 5;
/// Operations of the trial that finds out how many fit into some seconds.
const TRIAL_COUNT: u64 = 20_000;
/// Operations of a round, at most: their keys are kept in memory.
pub(super) const OPERATION_COUNT_MAX: u64 = 1 << 27;
/// A scan counts as this many operations when the length of a round is chosen.
const SCAN_WEIGHT: u64 = 10;

/// An index full of keys, and where its pool is.
struct Filled<T> {
    target: T,
    /// Keys there are: those numbered below this.
    population: u64,
    /// Goes last, with the pool's file.
    _home: Option<Home>,
}

/// What a run found.
pub(super) struct Found {
    pub rows: Vec<Row>,
    pub memory: Memory,
    pub domain: String,
}

/// One run of the bench.
pub(super) struct Session<'s, T, Make> {
    settings: &'s Settings,
    make: Make,
    cpus: Vec<usize>,
    chase: Chase,
    filled: Option<Filled<T>>,
    footprint: Option<Footprint>,
    domain: String,
    done: u64,
}

impl<'s, T: Target, Make: Fn() -> Result<(T, Option<Home>), LabError>> Session<'s, T, Make> {
    /// `make` makes an empty index in a new pool.
    pub fn new(settings: &'s Settings, make: Make) -> Self {
        Session {
            settings,
            make,
            cpus: topology::allowed_cpus(),
            chase: Chase::new(settings.miss_region),
            filled: None,
            footprint: None,
            domain: String::new(),
            done: 0,
        }
    }

    /// Measures everything.
    pub fn run(mut self, progress: &mut dyn FnMut(Progress<'_>)) -> Result<Found, LabError> {
        let Settings { cases, rounds, .. } = self.settings;
        let total = (cases.len() * rounds) as u64;
        let mut lengths = Vec::new();
        let mut tallies: Vec<Tally> = cases.iter().map(|case| Tally::new(*case)).collect();
        for round in 0..*rounds {
            for (index, case) in cases.iter().enumerate() {
                if self.filled.is_none() && case.workload != Workload::Load {
                    progress(Progress { what: "loading", done: self.done, total });
                    self.load(1)?;
                }
                if round == 0 {
                    lengths.push(self.length(case)?);
                }
                let what = name_of(case, round, *rounds);
                progress(Progress { what: &what, done: self.done, total });
                tallies[index].add(&self.measure(case, lengths[index])?);
                self.done += 1;
            }
        }
        let memory = self.footprint.map(memory_of).expect("the first case loads the keys");
        let one_thread: Vec<(Case, Vec<Round>)> =
            tallies.iter().map(|tally| (tally.case, tally.rounds.clone())).collect();
        let rows = tallies.into_iter().map(|tally| tally.into_row(&one_thread)).collect();
        Ok(Found { rows, memory, domain: self.domain })
    }

    /// Operations of one round of a case, all threads.
    fn length(&mut self, case: &Case) -> Result<u64, LabError> {
        let weight = if case.workload == Workload::Scan { SCAN_WEIGHT } else { 1 };
        let count = match self.settings.length {
            _ if case.workload == Workload::Load => self.settings.keys,
            Length::Operations(count) => count.div_ceil(weight),
            Length::Seconds(seconds) => {
                let trial = self.measure(case, TRIAL_COUNT.div_ceil(weight))?;
                let rate = trial.positions as f64 / trial.outcome.elapsed.as_secs_f64();
                (rate * seconds) as u64
            }
        };
        Ok(count.clamp(1, OPERATION_COUNT_MAX))
    }

    /// Runs a case once, with `count` operations.
    fn measure(&mut self, case: &Case, count: u64) -> Result<Measured, LabError> {
        if case.workload == Workload::Load {
            return self.load(case.threads);
        }
        let filled = self.filled.as_mut().expect("the caller loaded the keys");
        let settings = self.settings;
        let mut each = count.div_ceil(case.threads as u64);
        if case.workload == Workload::GetMany {
            each = each.next_multiple_of(settings.batch as u64);
        }
        let mut warm_up = (each / WARM_UP_SHARE).min(WARM_UP_MAX);
        if case.workload == Workload::Remove {
            // Half of the keys stay, whatever was asked for.
            let share = (filled.population / 2 / case.threads as u64).max(1);
            each = each.min(share);
            warm_up = warm_up.min(share - each);
        }
        if case.workload == Workload::GetMany {
            warm_up = warm_up.next_multiple_of(settings.batch as u64);
        }
        let plan = Plan {
            workload: case.workload,
            distribution: case.distribution,
            threads: case.threads,
            population: filled.population,
            warm_up: warm_up as usize,
            timed: each as usize,
            scan_length: settings.scan_length,
            // Other operations in each round; the same ones in each run.
            seed: settings.seed ^ self.done.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        };
        filled.measure(&plan, settings, &self.cpus, &mut self.chase)
    }

    /// Makes a new index and loads all keys.
    fn load(&mut self, threads: usize) -> Result<Measured, LabError> {
        // The old pool first: there may be no room for two, and the path is the same.
        self.filled = None;
        let (target, home) = (self.make)()?;
        let mut filled = Filled { target, population: 0, _home: home };
        let keys = self.settings.keys;
        let each = keys.div_ceil(threads as u64);
        let plan = Plan {
            workload: Workload::Load,
            distribution: crate::Distribution::Uniform,
            threads,
            population: 0,
            warm_up: 0,
            timed: each as usize,
            scan_length: 1,
            seed: self.settings.seed,
        };
        let measured = filled.measure(&plan, self.settings, &self.cpus, &mut self.chase)?;
        let footprint = filled.target.footprint()?;
        if footprint.keys != filled.population {
            return Err(miscounted(footprint.keys, filled.population));
        }
        self.footprint.get_or_insert(footprint);
        self.domain = filled.target.domain();
        self.filled = Some(filled);
        Ok(measured)
    }
}

/// Nanoseconds of a dependent miss, on this CPU.
fn miss_ns(chase: &mut Chase, cpu: usize) -> f64 {
    let walk = || {
        // Where the system refuses, the walk is where the system puts it.
        let _ = topology::pin_current_thread(cpu);
        chase.measure()
    };
    thread::scope(|scope| scope.spawn(walk).join())
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// What a case did.
pub(super) struct Measured {
    pub outcome: Outcome,
    /// Operations, with those of a batch counted one by one.
    pub positions: u64,
    /// Nanoseconds of a dependent miss, just before.
    pub miss_before_ns: f64,
    /// The same, just after.
    pub miss_after_ns: f64,
}

impl<T: Target> Filled<T> {
    fn measure(
        &mut self,
        plan: &Plan,
        settings: &Settings,
        cpus: &[usize],
        chase: &mut Chase,
    ) -> Result<Measured, LabError> {
        let manner = Manner {
            workload: plan.workload,
            batch: settings.batch,
            scan_length: settings.scan_length,
            sample_every: settings.sample_every,
        };
        let (streams, population) = draw(plan, |capacity| self.target.new_keys(capacity));
        let miss_before_ns = miss_ns(chase, cpus[0]);
        let outcome = driver::run(&self.target, manner, &streams, cpus)?;
        let miss_after_ns = miss_ns(chase, cpus[0]);
        if plan.workload == Workload::Remove {
            driver::put_back(&self.target, &streams)?;
        }
        self.population = population;
        let count = self.target.footprint()?.keys;
        if count != population {
            return Err(miscounted(count, population));
        }
        let positions = (plan.timed * plan.threads) as u64;
        Ok(Measured { outcome, positions, miss_before_ns, miss_after_ns })
    }
}

fn miscounted(count: u64, expected: u64) -> LabError {
    LabError::Wrong(format!(
        "the index says that it holds {count} keys instead of {expected}; please report this"
    ))
}

fn name_of(case: &Case, round: usize, rounds: usize) -> String {
    let Case { workload, distribution, threads } = case;
    let plural = if *threads == 1 { "" } else { "s" };
    let keys = if workload.has_fresh_keys() { String::new() } else { format!(" {distribution}") };
    format!("{workload}{keys}, {threads} thread{plural}, round {} of {rounds}", round + 1)
}

fn memory_of(footprint: Footprint) -> Memory {
    let Footprint { keys, pool_used_bytes, pool_size_bytes, dram_bytes, leaves, height } =
        footprint;
    Memory {
        keys,
        pool_used_bytes,
        pool_size_bytes,
        pool_bytes_per_key: pool_used_bytes as f64 / keys as f64,
        dram_bytes,
        dram_percent: dram_bytes as f64 / pool_used_bytes as f64 * 100.0,
        leaves,
        height,
    }
}
