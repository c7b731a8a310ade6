//! One run of the bench on one kind of index: the rounds, the pools, the calibration between.

use super::entrant::Entrant;
use super::instruments::Instruments;
use super::measured::Measured;
use super::progress::Progress;
use super::settings::{Case, Length, OPERATION_COUNT_MAX, Settings, setup};
use super::tally::Tally;
use crate::driver::{self, Manner};
use crate::error::BenchError;
use crate::report::{Memory, Report, Round};
use crate::stream::{OwnStreams, Plan, Stream, draw};
use crate::target::{Footprint, Target};
use crate::workload::Workload;
use crate::{tpcc, trace};

/// Operations of one thread that warm it up, at most, and as a share of those under the clock.
const WARM_UP_MAX: u64 = 100_000;
const WARM_UP_SHARE: u64 = 5;
/// Operations of the trial that finds out how many fit into some seconds.
const TRIAL_COUNT: u64 = 20_000;
/// A scan, or a transaction, counts as this many operations when the length of a round is chosen.
const SCAN_WEIGHT: u64 = 10;
const TRANSACTION_WEIGHT: u64 = 20;

/// An index full of keys, and where it is.
struct Filled<T, H> {
    target: T,
    /// Keys there are: those numbered below this.
    population: u64,
    /// Goes last, with the files.
    _home: H,
}

/// The rounds of one index.
pub(super) struct BenchRun<T, H, Make> {
    /// What reports call the index.
    name: &'static str,
    settings: Settings,
    make: Make,
    filled: Option<Filled<T, H>>,
    footprint: Option<Footprint>,
    domain: String,
    /// Operations of each case; empty before the first round.
    lengths: Vec<u64>,
    tallies: Vec<Tally>,
    done: u64,
}

impl<T, H, Make> BenchRun<T, H, Make>
where
    T: Target,
    Make: Fn() -> Result<(T, H), BenchError>,
{
    /// `make` makes an empty index in a new place.
    pub fn new(name: &'static str, settings: Settings, make: Make) -> Self {
        BenchRun {
            name,
            make,
            filled: None,
            footprint: None,
            domain: String::new(),
            lengths: Vec::new(),
            tallies: settings.cases.iter().map(|case| Tally::new(*case)).collect(),
            done: 0,
            settings,
        }
    }

    /// Operations of one round of a case, all threads.
    fn length(&mut self, case: &Case, instruments: &mut Instruments) -> Result<u64, BenchError> {
        let weight = match case.workload {
            Workload::Scan => SCAN_WEIGHT,
            Workload::Tpcc(_) => TRANSACTION_WEIGHT,
            _ => 1,
        };
        let count = match self.settings.length {
            _ if case.workload.is_load() => self.settings.keys,
            _ if case.workload == Workload::Trace => 1,
            Length::Operations(count) => count.div_ceil(weight),
            Length::Seconds(seconds) => {
                let trial = self.measure(case, TRIAL_COUNT.div_ceil(weight), instruments)?;
                let rate = trial.positions as f64 / trial.outcome.elapsed.as_secs_f64();
                (rate * seconds) as u64
            }
        };
        Ok(count.clamp(1, OPERATION_COUNT_MAX))
    }

    /// Runs a case once, with `count` operations.
    fn measure(
        &mut self,
        case: &Case,
        count: u64,
        instruments: &mut Instruments,
    ) -> Result<Measured, BenchError> {
        if case.workload.is_load() {
            return self.load(case.workload, case.threads, instruments);
        }
        let mut plan = plan_of(case, count, &self.settings, self.done);
        if case.workload.has_own_keys() {
            return self.measure_own(&plan, instruments);
        }
        let filled = self.filled.as_mut().expect("the caller loaded the keys");
        plan.population = filled.population;
        limit_removals(&mut plan);
        filled.measure(&plan, &self.settings, instruments)
    }

    /// Makes a new index and loads all keys.
    fn load(
        &mut self,
        workload: Workload,
        threads: usize,
        instruments: &mut Instruments,
    ) -> Result<Measured, BenchError> {
        let mut filled = self.make_empty()?;
        let plan = self.load_plan(workload, threads);
        let measured = filled.measure(&plan, &self.settings, instruments)?;
        self.note(&filled)?;
        self.filled = Some(filled);
        Ok(measured)
    }

    /// Fills an empty index for what is measured next.
    fn fill(&mut self) -> Result<(), BenchError> {
        let mut filled = self.make_empty()?;
        let plan = self.load_plan(Workload::Load, 1);
        let (streams, population) = draw(&plan, |capacity| filled.target.new_keys(capacity));
        driver::fill(&filled.target, &streams)?;
        drop(streams);
        filled.population = population;
        self.note(&filled)?;
        self.filled = Some(filled);
        Ok(())
    }

    fn load_plan(&self, workload: Workload, threads: usize) -> Plan {
        Plan {
            workload,
            distribution: crate::Distribution::Uniform,
            threads,
            population: 0,
            warm_up: 0,
            timed: self.settings.keys.div_ceil(threads as u64) as usize,
            scan_length: 1,
            arrivals: None,
            seed: self.settings.seed,
        }
    }

    /// A new, empty index. The old one goes first: there may be no room for two, and the path is
    /// the same.
    fn make_empty(&mut self) -> Result<Filled<T, H>, BenchError> {
        self.filled = None;
        let (target, home) = (self.make)()?;
        Ok(Filled { target, population: 0, _home: home })
    }

    /// Notes what a freshly filled index takes.
    fn note(&mut self, filled: &Filled<T, H>) -> Result<(), BenchError> {
        let footprint = filled.target.footprint()?;
        if footprint.keys != filled.population {
            return Err(miscounted(footprint.keys, filled.population));
        }
        self.footprint.get_or_insert(footprint);
        self.domain = filled.target.domain();
        Ok(())
    }

    /// Fills a new index with the keys of a workload that has its own, and measures.
    fn measure_own(
        &mut self,
        plan: &Plan,
        instruments: &mut Instruments,
    ) -> Result<Measured, BenchError> {
        let mut filled = self.make_empty()?;
        let new_keys = |capacity| filled.target.new_keys(capacity);
        let own = match (plan.workload, &self.settings.trace) {
            (Workload::Tpcc(mix), _) => tpcc::draw(mix, plan, self.settings.keys, new_keys)?,
            (_, Some(trace)) => trace::draw(trace, plan, new_keys),
            (_, None) => {
                let text = "the workload trace needs a file with one";
                return Err(BenchError::Settings(text.to_owned()));
            }
        };
        let OwnStreams { fill, streams, population } = own;
        let fill = [fill];
        driver::run(
            &filled.target,
            manner_of(Workload::Load, &self.settings),
            &fill,
            &instruments.cpus,
        )?;
        filled.population = fill[0].timed as u64;
        drop(fill);
        self.note(&filled)?;
        filled.run(plan, &self.settings, &streams, population, instruments)
    }
}

impl<T, H, Make> Entrant for BenchRun<T, H, Make>
where
    T: Target,
    Make: Fn() -> Result<(T, H), BenchError>,
{
    fn name(&self) -> &'static str {
        self.name
    }

    fn round(
        &mut self,
        instruments: &mut Instruments,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(), BenchError> {
        let (cases, rounds) = (self.settings.cases.clone(), self.settings.rounds);
        let total = (cases.len() * rounds) as u64;
        let round = self.tallies[0].rounds.len();
        for (index, case) in cases.iter().enumerate() {
            let is_filled = case.workload.is_load() || case.workload.has_own_keys();
            if self.filled.is_none() && !is_filled {
                progress(Progress { what: "loading", done: self.done, total });
                self.fill()?;
            }
            if round == 0 {
                let length = self.length(case, instruments)?;
                self.lengths.push(length);
            }
            let what = name_of(case, round, rounds);
            progress(Progress { what: &what, done: self.done, total });
            let measured = self.measure(case, self.lengths[index], instruments)?;
            self.tallies[index].add(&measured);
            self.done += 1;
        }
        Ok(())
    }

    fn rest(&mut self) {
        self.filled = None;
    }

    fn report(self: Box<Self>) -> Report {
        let memory = self.footprint.map(memory_of).expect("some case filled an index");
        let rounds: Vec<(Case, Vec<Round>)> =
            self.tallies.iter().map(|tally| (tally.case, tally.rounds.clone())).collect();
        let rows = self.tallies.into_iter().map(|tally| tally.into_row(&rounds)).collect();
        let setup = setup(self.name, &self.settings, self.domain);
        Report { machine: crate::report::Machine::here(), setup, memory, rows }
    }
}

/// The plan of a case, but for the population; `done`: measurements before it.
pub(super) fn plan_of(case: &Case, count: u64, settings: &Settings, done: u64) -> Plan {
    let mut each = count.div_ceil(case.threads as u64);
    let mut warm_up = (each / WARM_UP_SHARE).min(WARM_UP_MAX);
    if case.workload.is_batched() {
        each = each.next_multiple_of(settings.batch as u64);
        warm_up = (each / WARM_UP_SHARE).min(WARM_UP_MAX);
        warm_up = warm_up.next_multiple_of(settings.batch as u64);
    }
    Plan {
        workload: case.workload,
        distribution: case.distribution,
        threads: case.threads,
        population: 0,
        warm_up: warm_up as usize,
        timed: each as usize,
        scan_length: settings.scan_length,
        arrivals: settings.arrivals,
        // Other operations in each round; the same ones in each run.
        seed: settings.seed ^ done.wrapping_mul(0x9e37_79b9_7f4a_7c15),
    }
}

/// Half of the keys stay, whatever was asked for.
pub(super) fn limit_removals(plan: &mut Plan) {
    let share = plan.workload.removal_share();
    if share > 0.0 {
        let removable = plan.population / 2 / plan.threads as u64;
        let most = ((removable as f64 / share) as usize).max(1);
        plan.timed = plan.timed.min(most);
        plan.warm_up = plan.warm_up.min(most - plan.timed);
    }
}

fn manner_of(workload: Workload, settings: &Settings) -> Manner {
    Manner {
        workload,
        batch: settings.batch,
        scan_length: settings.scan_length,
        sample_every: settings.sample_every,
        upsert: settings.upsert,
        value_size: settings.value_size,
    }
}

impl<T: Target, H> Filled<T, H> {
    fn measure(
        &mut self,
        plan: &Plan,
        settings: &Settings,
        instruments: &mut Instruments,
    ) -> Result<Measured, BenchError> {
        let (streams, population) = draw(plan, |capacity| self.target.new_keys(capacity));
        self.run(plan, settings, &streams, population, instruments)
    }

    /// Runs the streams, after which there are `population` keys.
    fn run(
        &mut self,
        plan: &Plan,
        settings: &Settings,
        streams: &[Stream<T::Keys>],
        population: u64,
        instruments: &mut Instruments,
    ) -> Result<Measured, BenchError> {
        let manner = manner_of(plan.workload, settings);
        let miss_before_ns = instruments.miss_ns();
        let outcome = driver::run(&self.target, manner, streams, &instruments.cpus)?;
        let miss_after_ns = instruments.miss_ns();
        if !plan.workload.has_own_keys() {
            driver::put_back(&self.target, plan.workload, streams)?;
        }
        self.population = population;
        match self.target.count()? {
            Some(count) if count != population => return Err(miscounted(count, population)),
            _ => {}
        }
        let positions = (plan.timed * plan.threads) as u64;
        Ok(Measured { outcome, positions, miss_before_ns, miss_after_ns })
    }
}

fn miscounted(count: u64, expected: u64) -> BenchError {
    BenchError::Wrong(format!(
        "the index says that it holds {count} keys instead of {expected}; please report this"
    ))
}

pub(super) fn name_of(case: &Case, round: usize, rounds: usize) -> String {
    let Case { workload, distribution, threads } = case;
    let plural = if *threads == 1 { "" } else { "s" };
    let keys = match workload.has_distribution() {
        true => format!(" {distribution}"),
        false => String::new(),
    };
    format!("{workload}{keys}, {threads} thread{plural}, round {} of {rounds}", round + 1)
}

fn memory_of(footprint: Footprint) -> Memory {
    let Footprint { keys, pool_used_bytes, pool_size_bytes, dram_bytes, leaves, height } =
        footprint;
    Memory {
        keys,
        pool_used_bytes,
        pool_size_bytes,
        pool_bytes_per_key: pool_used_bytes as f64 / keys.max(1) as f64,
        dram_bytes,
        dram_percent: dram_bytes as f64 / pool_used_bytes.max(1) as f64 * 100.0,
        leaves,
        height,
    }
}
