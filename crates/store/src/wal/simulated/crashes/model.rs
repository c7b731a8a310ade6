//! What a store must be, and what runs have seen of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use everleaf_log::simulated::Random;

/// Maps, and of each key the value and when it expires.
pub type Contents = BTreeMap<String, BTreeMap<Vec<u8>, (Vec<u8>, u64)>>;

/// What runs have seen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Crashes of the machine that were recovered from.
    pub crashes: u64,
    /// Of these, with a snapshot.
    pub from_snapshots: u64,
    /// Of these, in the mode `Interval` and with a loss, as they may have.
    pub lost_in_interval: u64,
    /// Of these, while a snapshot was owed.
    pub owing: u64,
    /// Deaths of the process.
    pub kills: u64,
    /// What was left of a crash or a death and lived on.
    pub lived_on: u64,
    /// Maps that were made.
    pub maps_made: u64,
    /// Calls within which time has passed.
    pub passed: u64,
}

impl Counts {
    /// What was looked at after a crash or a death.
    pub fn seen(&self) -> u64 {
        self.crashes + self.kills
    }

    /// Adds what other runs have seen.
    pub fn add(&mut self, other: Counts) {
        self.crashes += other.crashes;
        self.from_snapshots += other.from_snapshots;
        self.lost_in_interval += other.lost_in_interval;
        self.owing += other.owing;
        self.kills += other.kills;
        self.lived_on += other.lived_on;
        self.maps_made += other.maps_made;
        self.passed += other.passed;
    }
}

/// The store after each change, and up to which change it was told to be durable.
pub struct Model {
    pub states: Vec<Contents>,
    pub acknowledged: usize,
    /// The process died before, and nothing counts until there is a snapshot.
    pub is_owing: bool,
    pub clock: Clock,
    pub random: Random,
    pub counts: Counts,
    pub next_value: u64,
}

/// The time of a run in the mode `Interval`, in milliseconds. It passes when the run says so.
#[derive(Default)]
pub struct Clock {
    /// `None` in the mode `Power`: no time passes.
    pub interval: Option<u64>,
    pub now: u64,
    /// When each state of the model came to be.
    pub times: Vec<u64>,
}

impl Clock {
    /// The last state that is older than the interval, which is not lost any more.
    pub fn kept(&self) -> usize {
        let Some(interval) = self.interval else { return 0 };
        self.times.partition_point(|time| time + interval < self.now).saturating_sub(1)
    }
}

impl Model {
    /// A store that was in these states, of which the first is durable.
    pub fn new(states: Vec<Contents>, interval: Option<u64>, seed: u64, next_value: u64) -> Model {
        let times = vec![0; states.len()];
        Model {
            states,
            acknowledged: 0,
            is_owing: false,
            clock: Clock { interval, now: 0, times },
            random: Random::new(seed),
            counts: Counts::default(),
            next_value,
        }
    }

    pub fn now(&self) -> &Contents {
        self.states.last().expect("there is one from the start")
    }

    pub fn change(&mut self, change: impl FnOnce(&mut Contents)) {
        let mut state = self.now().clone();
        change(&mut state);
        self.push(state);
    }

    pub fn push(&mut self, state: Contents) {
        self.states.push(state);
        self.clock.times.push(self.clock.now);
    }

    /// Everything up to a state must survive every crash from now on.
    pub fn acknowledge(&mut self, state: usize) {
        self.acknowledged = self.acknowledged.max(state);
    }

    pub fn last(&self) -> usize {
        self.states.len() - 1
    }

    /// The first state that may be found if the machine crashes now.
    pub fn lowest(&self) -> usize {
        match self.is_owing {
            true => self.acknowledged,
            false => self.acknowledged.max(self.clock.kept()),
        }
    }

    pub fn value(&mut self) -> Vec<u8> {
        self.next_value += 1;
        let size = if self.random.one_in(12) { 6000 } else { 12 };
        let mut value = self.next_value.to_be_bytes().to_vec();
        value.resize(size, self.next_value as u8);
        value
    }

    pub fn key(&mut self) -> Vec<u8> {
        vec![b'a' + self.random.below(8) as u8]
    }

    /// A map that there is.
    pub fn name(&mut self) -> String {
        let names: Vec<&String> = self.states.last().expect("there is always one").keys().collect();
        names[self.random.below(names.len())].clone()
    }
}

/// The model of a run, for all that take part in it.
pub type Shared = Arc<Mutex<Model>>;

pub fn lock(model: &Shared) -> MutexGuard<'_, Model> {
    model.lock().unwrap_or_else(PoisonError::into_inner)
}
