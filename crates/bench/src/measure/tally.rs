//! The rounds of one case, and the row that sums them up.

use super::measured::Measured;
use super::settings::Case;
use crate::latency::Latencies;
use crate::report::{Round, Row, Spread};

/// The rounds of one case so far.
pub(super) struct Tally {
    pub case: Case,
    pub rounds: Vec<Round>,
    latencies: Latencies,
}

impl Tally {
    pub fn new(case: Case) -> Self {
        Tally { case, rounds: Vec::new(), latencies: Latencies::new() }
    }

    /// Adds a round.
    pub fn add(&mut self, measured: &Measured) {
        let outcome = &measured.outcome;
        let (before, after) = (measured.miss_before_ns, measured.miss_after_ns);
        let units = outcome.units(self.case.workload);
        let elapsed_ns = outcome.elapsed.as_nanos().max(1) as f64;
        let per_second = units as f64 / elapsed_ns * 1e9;
        let unit_ns = outcome.service.as_nanos().max(1) as f64 / units.max(1) as f64;
        let available_ns = elapsed_ns * self.case.threads as f64;
        self.rounds.push(Round {
            operations: outcome.operations,
            units,
            elapsed_ns: elapsed_ns as u64,
            miss_before_ns: before,
            miss_after_ns: after,
            per_second,
            busy_share: outcome.busy.as_nanos() as f64 / available_ns,
            unit_ns,
            misses: unit_ns / ((before + after) / 2.0),
        });
        self.latencies.add(&outcome.samples);
    }

    /// The row, given the rounds of all cases.
    pub fn into_row(self, all: &[(Case, Vec<Round>)]) -> Row {
        let Tally { case, rounds, latencies } = self;
        let spread = |figure: fn(&Round) -> f64| {
            Spread::of(rounds.iter().map(figure)).expect("there is at least one round")
        };
        let distribution = case.workload.has_distribution().then_some(case.distribution);
        Row {
            workload: case.workload.name(),
            distribution: distribution.map_or("", |distribution| distribution.name()),
            theta: distribution.and_then(|distribution| distribution.theta()),
            threads: case.threads,
            unit: case.workload.unit().name(),
            per_second: spread(|round| round.per_second),
            misses: spread(|round| round.misses),
            unit_ns: spread(|round| round.unit_ns),
            latency: latencies.percentiles(),
            miss_before_ns: spread(|round| round.miss_before_ns).median,
            miss_after_ns: spread(|round| round.miss_after_ns).median,
            noisy_rounds: rounds.iter().filter(|round| round.is_noisy()).count(),
            preempted_rounds: rounds.iter().filter(|round| round.was_preempted()).count(),
            scaling: scaling(&case, &rounds, all),
            rounds,
        }
    }
}

/// Throughput relative to one thread, round by round.
fn scaling(case: &Case, rounds: &[Round], all: &[(Case, Vec<Round>)]) -> Option<Spread> {
    if case.threads == 1 {
        return None;
    }
    let single = Case { threads: 1, ..*case };
    let (_, base) = all.iter().find(|(other, _)| *other == single)?;
    Spread::of(rounds.iter().zip(base).map(|(many, one)| many.per_second / one.per_second))
}
