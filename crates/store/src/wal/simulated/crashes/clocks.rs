//! What several writers did and had seen, and whether what was found fits it.
//!
//! Each writer has some keys that only it writes, so what it did is a sequence of states of these keys.
//! With each state goes what its writer had seen by then: of every writer, up to which state. What is
//! found after a crash must be a state of every writer, with all that any of them had seen.

use std::collections::BTreeMap;

/// Keys of a writer.
pub const KEYS: usize = 4;

/// What the keys of a writer have: the number of a value, and when that expires (0: never); or nothing.
pub type Keys = [Option<(u64, u64)>; KEYS];

/// What somebody has read of a key.
#[derive(Clone, Copy, Debug)]
pub enum Found {
    /// The number of its value.
    Value(Option<u64>),
    /// When it expires.
    Expiry(Option<u64>),
    Both(Option<(u64, u64)>),
}

impl Found {
    /// Whether this may be read of a key that has that.
    fn is_of(self, has: Option<(u64, u64)>) -> bool {
        match self {
            Found::Value(found) => found == has.map(|(number, _)| number),
            Found::Expiry(found) => found == has.map(|(_, expiry_ms)| expiry_ms),
            Found::Both(found) => found == has,
        }
    }
}

/// For each writer, how many of its writes.
pub type Clock = Vec<usize>;

/// A state of a writer's keys, and what it had seen when it began the write that made it so.
#[derive(Clone)]
struct Step {
    keys: Keys,
    seen: Clock,
}

/// What all writers did.
pub struct Clocks {
    steps: Vec<Vec<Step>>,
    /// What each has seen by now.
    seen: Vec<Clock>,
    /// Up to which step of each somebody was told that it is durable.
    told: Clock,
    /// Reads that saw something new of another writer.
    pub sights: u64,
}

impl Clocks {
    pub fn new(writers: usize) -> Clocks {
        let first = Step { keys: [None; KEYS], seen: vec![0; writers] };
        Clocks {
            steps: vec![vec![first]; writers],
            seen: vec![vec![0; writers]; writers],
            told: vec![0; writers],
            sights: 0,
        }
    }

    /// What a writer's keys are when all it has begun is done.
    pub fn keys(&self, writer: usize) -> Keys {
        self.steps[writer].last().expect("there is one from the start").keys
    }

    /// A writer begins a write that makes its keys these. Returns the number of its step.
    pub fn begin(&mut self, writer: usize, keys: Keys) -> usize {
        let step = self.steps[writer].len();
        self.seen[writer][writer] = step;
        let seen = self.seen[writer].clone();
        self.steps[writer].push(Step { keys, seen });
        step
    }

    /// A writer was told that its step is durable.
    pub fn tell(&mut self, writer: usize, step: usize) {
        self.told[writer] = self.told[writer].max(step);
    }

    /// What a writer has seen by now.
    pub fn seen_by(&self, writer: usize) -> Clock {
        self.seen[writer].clone()
    }

    /// All of this was told to be durable.
    pub fn tell_all(&mut self, clock: &[usize]) {
        for (told, seen) in self.told.iter_mut().zip(clock) {
            *told = (*told).max(*seen);
        }
    }

    /// `reader` has found this at a key of `writer`: so it has seen at least the first step at which that
    /// is so, and all that this step came of.
    ///
    /// # Errors
    /// It never was so, or not since what the reader has seen before.
    pub fn see(
        &mut self,
        reader: usize,
        writer: usize,
        key: usize,
        found: Found,
    ) -> Result<(), String> {
        let known = self.seen[reader][writer];
        let steps = &self.steps[writer];
        let step = (known..steps.len()).find(|step| found.is_of(steps[*step].keys[key]));
        let Some(step) = step else {
            return Err(format!(
                "{reader} reads {found:?} at key {key} of {writer}, which it has not been since step \
                 {known}"
            ));
        };
        self.sights += u64::from(step > known);
        let seen = steps[step].seen.clone();
        for (mine, theirs) in self.seen[reader].iter_mut().zip(seen) {
            *mine = (*mine).max(theirs);
        }
        Ok(())
    }

    /// Whether what was found after a crash fits: for each writer one of its states, none before what was
    /// told, and with each all that it came of.
    ///
    /// # Errors
    /// What does not fit.
    pub fn judge(&self, found: &[Keys]) -> Result<(), String> {
        let mut between = BTreeMap::new();
        for (writer, keys) in found.iter().enumerate() {
            let fits = |step: &usize| self.steps[writer][*step].keys == *keys;
            let steps: Vec<usize> = (0..self.steps[writer].len()).filter(fits).collect();
            let (Some(low), Some(high)) = (steps.first(), steps.last()) else {
                return Err(format!("{keys:?} was never what {writer} wrote: half a write"));
            };
            if *high < self.told[writer] {
                return Err(format!(
                    "step {} of {writer} was acknowledged, and it is at {high}",
                    self.told[writer]
                ));
            }
            between.insert(writer, ((*low).max(self.told[writer]), *high));
        }
        for (writer, (low, _)) in &between {
            for (cause, seen) in self.steps[*writer][*low].seen.iter().enumerate() {
                let high = between[&cause].1;
                if cause != *writer && *seen > high {
                    return Err(format!(
                        "an effect without its cause: step {low} of {writer} is there, which had seen \
                         step {seen} of {cause}, and that is at {high}"
                    ));
                }
            }
        }
        Ok(())
    }
}

#[test]
fn the_judge_tells_an_effect_without_its_cause() {
    let mut clocks = Clocks::new(3);
    let keys = |value| [Some((value, 0)), None, None, None];
    let read = |value| Found::Value(Some(value));
    let _ = clocks.begin(0, keys(1));
    clocks.see(1, 0, 0, read(1)).expect("it is there");
    let effect = clocks.begin(1, keys(1));
    clocks.see(2, 1, 0, read(1)).expect("it is there");
    let _ = clocks.begin(2, keys(1));
    let none = [None; KEYS];
    assert!(clocks.judge(&[none, none, none]).is_ok());
    assert!(clocks.judge(&[keys(1), none, none]).is_ok());
    assert!(clocks.judge(&[keys(1), keys(1), keys(1)]).is_ok());
    assert!(clocks.judge(&[none, keys(1), none]).is_err(), "without its cause");
    assert!(clocks.judge(&[none, none, keys(1)]).is_err(), "without the cause of its cause");
    assert!(clocks.judge(&[keys(2), none, none]).is_err(), "nobody wrote it");
    clocks.tell(1, effect);
    assert!(clocks.judge(&[keys(1), none, none]).is_err(), "it was acknowledged");
    assert!(clocks.see(1, 0, 0, Found::Value(None)).is_err(), "it saw it before");
    // An expiry alone is an effect, and a cause, too.
    let expiring = [Some((1, 9)), None, None, None];
    let _ = clocks.begin(0, expiring);
    clocks.see(2, 0, 0, Found::Expiry(Some(9))).expect("it is there");
    assert!(clocks.see(2, 0, 0, Found::Both(Some((1, 0)))).is_err(), "it saw it before");
    assert!(clocks.see(2, 0, 0, read(1)).is_ok(), "the value is the same");
    let _ = clocks.begin(2, keys(2));
    assert!(clocks.judge(&[expiring, keys(1), keys(2)]).is_ok());
    assert!(clocks.judge(&[keys(1), keys(1), keys(2)]).is_err(), "without the expiry it saw");
}
