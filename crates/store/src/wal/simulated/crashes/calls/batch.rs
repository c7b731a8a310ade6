//! Batches with conditions, as data.

use std::collections::BTreeMap;

use super::{Answer, Kept, State};

/// What a change makes of its key.
#[derive(Clone, Debug)]
pub enum Effect {
    Put(Vec<u8>, u64),
    Remove,
    Expire(u64),
    /// If it expires at the first of these.
    ExpireSeen(u64, u64),
}

/// What must be so of a key.
#[derive(Clone, Debug)]
pub enum Must {
    Have(Option<Vec<u8>>),
    HaveBoth(Vec<u8>, u64),
}

#[derive(Clone, Debug)]
pub enum Part {
    Change {
        name: String,
        key: Vec<u8>,
        effect: Effect,
    },
    Condition {
        name: String,
        key: Vec<u8>,
        must: Must,
    },
    /// The watch of this number is not broken.
    Unwritten(usize),
    /// So many more batches were rolled back than were when it was made.
    Rollbacks(u64),
}

/// Changes and conditions, in the order in which they are added.
pub type Batch = Vec<Part>;

/// What the changes of one key come to.
#[derive(Clone)]
enum Sum {
    Put(Vec<u8>, u64),
    Remove,
    /// Whether also if its time has come.
    Expire(u64, bool),
}

impl State {
    /// What keys are at one moment.
    pub(super) fn read_all(&self, name: &str, keys: &[Vec<u8>], now_ms: u64) -> Answer {
        let see = |key: &Vec<u8>| {
            let live = self.live(name, key, now_ms);
            live.map(|kept| (kept.value.clone(), kept.expiry_ms))
        };
        Answer::All(keys.iter().map(see).collect())
    }

    /// Removes a key: whether it was there. If it has expired it is freed, as by the sweep: that is no write, and the
    /// log is not told.
    pub(super) fn remove(&mut self, name: &str, key: &[u8], now_ms: u64) -> bool {
        let is_there = self.live(name, key, now_ms).is_some();
        if is_there {
            self.set(name, key, None);
        } else if let Some(kept) = self.maps.get_mut(name).and_then(|it| it.get_mut(key)) {
            kept.is_swept = true;
        }
        is_there
    }

    pub(super) fn remove_all(&mut self, name: &str, keys: &[Vec<u8>], now_ms: u64) -> Answer {
        Answer::Count(keys.iter().filter(|key| self.remove(name, key, now_ms)).count() as u64)
    }

    pub(super) fn apply_batch(&mut self, batch: &Batch, now_ms: u64) -> Answer {
        let is_missing = |part: &Part| match part {
            Part::Change { name, .. } | Part::Condition { name, .. } => {
                !self.maps.contains_key(name)
            }
            _ => false,
        };
        if batch.iter().any(is_missing) {
            return Answer::NoMap;
        }
        let mut number = 0;
        for part in batch {
            let holds = match part {
                Part::Condition { name, key, must } => self.holds(name, key, must, now_ms),
                Part::Change { name, key, effect: Effect::ExpireSeen(seen_ms, _) } => {
                    self.stored(name, key).is_some_and(|kept| kept.expiry_ms == *seen_ms)
                }
                Part::Change { .. } => continue,
                // One that is not there is not asked for.
                Part::Unwritten(id) => match self.is_broken(*id, now_ms) {
                    Some(is_broken) => !is_broken,
                    None => continue,
                },
                Part::Rollbacks(more) => *more == 0,
            };
            if !holds {
                return Answer::Refused(Some(number));
            }
            number += 1;
        }
        for ((name, key), sum) in sums(batch) {
            self.apply_sum(&name, &key, sum, now_ms);
        }
        Answer::Refused(None)
    }

    fn holds(&self, name: &str, key: &[u8], must: &Must, now_ms: u64) -> bool {
        let live = self.live(name, key, now_ms);
        match must {
            Must::Have(value) => live.map(|kept| &kept.value) == value.as_ref(),
            Must::HaveBoth(value, expiry_ms) => {
                live.is_some_and(|kept| kept.value == *value && kept.expiry_ms == *expiry_ms)
            }
        }
    }

    fn apply_sum(&mut self, name: &str, key: &[u8], sum: Sum, now_ms: u64) {
        match sum {
            Sum::Put(value, expiry_ms) => self.set(name, key, Some(Kept::new(value, expiry_ms))),
            Sum::Remove => self.set(name, key, None),
            Sum::Expire(expiry_ms, also_over) => {
                let found = match also_over {
                    true => self.stored(name, key),
                    false => self.live(name, key, now_ms),
                };
                if let Some(value) = found.map(|kept| kept.value.clone()) {
                    self.set(name, key, Some(Kept::new(value, expiry_ms)));
                }
            }
        }
    }
}

/// The last change of each key counts; one of its expiry alone goes with the one before it.
fn sums(batch: &Batch) -> BTreeMap<(String, Vec<u8>), Sum> {
    let mut sums = BTreeMap::new();
    for part in batch {
        let Part::Change { name, key, effect } = part else { continue };
        let place = (name.clone(), key.clone());
        let sum = match (effect, sums.remove(&place)) {
            (Effect::Put(value, expiry_ms), _) => Sum::Put(value.clone(), *expiry_ms),
            (Effect::Remove, _)
            | (Effect::Expire(_) | Effect::ExpireSeen(..), Some(Sum::Remove)) => Sum::Remove,
            (Effect::Expire(ms) | Effect::ExpireSeen(_, ms), Some(Sum::Put(value, _))) => {
                Sum::Put(value, *ms)
            }
            (Effect::Expire(ms), Some(Sum::Expire(_, also_over))) => Sum::Expire(*ms, also_over),
            (Effect::Expire(ms), None) => Sum::Expire(*ms, false),
            (Effect::ExpireSeen(_, ms), _) => Sum::Expire(*ms, true),
        };
        sums.insert(place, sum);
    }
    sums
}
