//! What a search has covered: pairs of dimensions, lives after crashes, rare branches.

use std::collections::BTreeMap;

use everleaf_machine::simulated::{Domain, NESTED_LEVELS, Report};

use crate::machine::dimensions::Dimension;
use crate::machine::dimensions::{Value, Values};

/// How often each pair of values of two dimensions was run, and how many lives after crashes.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    dimensions: Vec<Dimension>,
    pairs: BTreeMap<(Value, Value), u64>,
    lives: [[u64; NESTED_LEVELS]; 3],
}

/// The domains in the order of [`Coverage::lives`].
pub const DOMAINS: [Domain; 3] = [Domain::Adr, Domain::Eadr, Domain::Process];

impl Coverage {
    /// Nothing yet of these dimensions.
    pub fn of(dimensions: Vec<Dimension>) -> Self {
        Coverage { dimensions, ..Coverage::default() }
    }

    /// Counts a step of these values.
    pub fn count(&mut self, values: &Values) {
        for (index, first) in values.iter().enumerate() {
            for second in &values[index + 1..] {
                *self.pairs.entry(ordered(*first, *second)).or_default() += 1;
            }
        }
    }

    /// Counts the lives after crashes of a search in this domain.
    pub fn count_lives(&mut self, domain: Domain, report: &Report) {
        let index = DOMAINS.iter().position(|known| *known == domain).expect("one of three");
        for (mine, theirs) in self.lives[index].iter_mut().zip(report.counts.nested_at) {
            *mine += theirs;
        }
    }

    /// Lives after crashes, by domain and by depth.
    pub fn lives(&self) -> &[[u64; NESTED_LEVELS]; 3] {
        &self.lives
    }

    /// All pairs of values there can be.
    pub fn possible(&self) -> Vec<(Value, Value)> {
        let mut all = vec![];
        for (index, (first, values)) in self.dimensions.iter().enumerate() {
            for (second, others) in &self.dimensions[index + 1..] {
                let pairs =
                    values.iter().flat_map(|one| others.iter().map(move |two| (*one, *two)));
                all.extend(pairs.map(|(one, two)| ordered((*first, one), (*second, two))));
            }
        }
        all
    }

    /// How often a pair was run.
    pub fn times(&self, pair: &(Value, Value)) -> u64 {
        self.pairs.get(pair).copied().unwrap_or(0)
    }

    /// The pairs that no step had.
    pub fn missing(&self) -> Vec<(Value, Value)> {
        self.possible().into_iter().filter(|pair| self.times(pair) == 0).collect()
    }
}

fn ordered(first: Value, second: Value) -> (Value, Value) {
    if first <= second { (first, second) } else { (second, first) }
}
