//! Calls that are drawn: keys and maps are few, so that they meet.

use everleaf_log::simulated::Random;

use super::batch::{Effect, Must, Part};
use super::{Call, Decided, KEYS, NAMES, State, What};

/// A number of milliseconds that expiries and the steps of the clock are told apart by.
pub const STEP_MS: u64 = 1000;
/// Where the clock of a run begins.
pub const BEGIN_MS: u64 = 1 << 44;
/// Steps of the clock after which something expires, at most.
const EXPIRES_IN: usize = 6;
/// Views, and watches, that a thread may have at once.
const HELD_MAX: usize = 3;
/// Changes of a batch, at most.
const CHANGES_MAX: usize = 4;

/// What may be drawn.
#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    /// Everything.
    All,
    /// What is one step to all others, or can be told as one, and answers what they can tell.
    Steps,
}

/// Draws calls.
pub struct Draw {
    pub random: Random,
    kind: Kind,
    /// Values that were made.
    values: u64,
    /// Keys that are drawn of [`KEYS`], and maps of [`NAMES`].
    keys: usize,
    /// Bytes of a value that is long.
    long: usize,
    /// The number of the first of the views and watches of this thread.
    first_id: usize,
}

impl Draw {
    pub fn new(seed: u64, kind: Kind, keys: usize, long: usize) -> Draw {
        Draw { random: Random::new(seed), kind, values: 0, keys, long, first_id: 0 }
    }

    /// For another thread, which has views and watches of its own.
    pub fn of_other(mut self, thread: usize) -> Draw {
        self.first_id = thread * HELD_MAX;
        self.values = (thread as u64) << 32;
        self
    }

    fn id(&mut self) -> usize {
        let held = if self.kind == Kind::All { HELD_MAX } else { 1 };
        self.first_id + self.random.below(held)
    }

    pub(super) fn key(&mut self) -> Vec<u8> {
        // The one of integers is drawn seldom.
        let index = match self.random.one_in(8) {
            true => KEYS.len() - 1,
            false => self.random.below(self.keys),
        };
        vec![KEYS[index]]
    }

    pub(super) fn name(&mut self) -> String {
        NAMES[[0, 0, 0, 1, 1, 2][self.random.below(6)]].to_string()
    }

    pub(super) fn value(&mut self, key: &[u8]) -> Vec<u8> {
        self.values += 1;
        if key == [KEYS[KEYS.len() - 1]] {
            return (self.values & 0xFFFF).to_string().into_bytes();
        }
        let size = if self.random.one_in(6) { self.long } else { 12 };
        let mut value = self.values.to_be_bytes().to_vec();
        value.resize(size, self.values as u8);
        value
    }

    /// A time that nothing expired at before: soon, late, or seldom in the past.
    pub(super) fn time(&mut self, now_ms: u64) -> u64 {
        self.values += 1;
        let own = 1 + self.values % (STEP_MS - 1);
        match self.random.below(8) {
            0 => now_ms - STEP_MS + own,
            1 | 2 => (1 << 45) + self.values % (1 << 44),
            _ => now_ms + self.random.below(EXPIRES_IN) as u64 * STEP_MS + own,
        }
    }

    /// As [`Self::time`], or never.
    pub(super) fn expiry_ms(&mut self, now_ms: u64) -> u64 {
        if self.random.one_in(2) { self.time(now_ms) } else { 0 }
    }

    /// A call, of a store that is in this state.
    pub fn call(&mut self, state: &State, now_ms: u64) -> Call {
        let all = self.kind == Kind::All;
        match self.random.below(if all { 40 } else { 30 }) {
            0..14 => {
                let (name, key) = (self.name(), self.key());
                let what = self.what(state, (&name, &key), now_ms);
                Call::Key { name, key, what }
            }
            14..22 => Call::Batch(self.batch(state, now_ms)),
            22 => Call::Clear(self.name()),
            23 => Call::Drop(NAMES[if all { 1 + self.random.below(2) } else { 2 }].to_string()),
            24 => Call::Make(self.name()),
            25 => Call::Snapshot,
            26 => Call::Sync,
            27 => self.watch(),
            28 if self.random.one_in(2) => self.view(state),
            28 => Call::ReadView { id: self.id(), way: self.random.below(5) as u8 },
            29 => Call::Pop { name: self.name(), is_last: self.random.one_in(2) },
            30..33 => self.view(state),
            33 => Call::Sweep(self.name()),
            34 => self.load(),
            35 => self.of_several(),
            _ => {
                let (one, other) = (self.key(), self.key());
                let (from, to) = if one < other { (one, other) } else { (other, one) };
                let way = self.random.below(13) as u8;
                Call::Look { name: self.name(), from, to, way }
            }
        }
    }

    /// A call of several keys, of which some may be named twice.
    pub(super) fn of_several(&mut self) -> Call {
        let name = self.name();
        let count = 1 + self.random.below(KEYS.len());
        let keys = (0..count).map(|_| self.key()).collect();
        match self.random.one_in(3) {
            true => Call::RemoveAll { name, keys },
            false => Call::ReadAll { name, keys },
        }
    }

    pub(super) fn what(&mut self, state: &State, (name, key): (&str, &[u8]), now_ms: u64) -> What {
        let live = state.live(name, key, now_ms).map(|kept| kept.value.clone());
        if live.is_none() && state.stored(name, key).is_some() && self.random.one_in(4) {
            return What::RemoveExpired;
        }
        match self.random.below(24) {
            0..5 => What::Put(self.value(key), self.expiry_ms(now_ms)),
            5 => What::Insert(self.value(key)),
            6 => What::Update(self.value(key)),
            7 => What::Replace(self.value(key)),
            8 | 9 => What::Remove,
            10 => What::Take,
            11 => What::Add(self.random.below(9) as i64 - 4),
            12 | 13 => {
                let old = if self.random.one_in(4) { Some(self.value(key)) } else { live };
                // Nothing for nothing changes nothing, and need not be told.
                let new = (old.is_none() || !self.random.one_in(3)).then(|| self.value(key));
                What::Exchange(old, new)
            }
            14..17 => {
                let way = self.random.below(4) as u8;
                What::Decide(way, self.decided(key, way, now_ms))
            }
            17..19 => What::Expire(self.time(now_ms)),
            19 => What::Persist,
            20 => What::RemoveExpired,
            21 => What::Expiry,
            22 => What::Both,
            _ if self.random.one_in(2) => What::Get,
            _ => What::Contains,
        }
    }

    fn decided(&mut self, key: &[u8], way: u8, now_ms: u64) -> Decided {
        match self.random.below(5) {
            0 => Decided::Keep,
            // A call that does not see the value puts none.
            1 if way != 3 => Decided::Put(self.value(key)),
            2 if way != 3 => Decided::PutExpiring(self.value(key), self.time(now_ms)),
            3 => Decided::Remove,
            _ => Decided::Expire(self.time(now_ms)),
        }
    }

    pub(super) fn batch(&mut self, state: &State, now_ms: u64) -> Vec<Part> {
        let (mut parts, conditions) = (vec![], self.random.below(3));
        for _ in 0..conditions {
            parts.push(self.condition(state, now_ms));
        }
        for _ in 0..1 + self.random.below(CHANGES_MAX) {
            let (name, key) = (self.name(), self.key());
            let seen_ms = state.stored(&name, &key).map(|kept| kept.expiry_ms);
            let effect = match self.random.below(8) {
                0 | 1 => Effect::Remove,
                2 => Effect::Expire(self.time(now_ms)),
                3 if seen_ms.is_some_and(|ms| ms != 0) => {
                    let seen_ms = if self.random.one_in(6) { 7 } else { seen_ms.unwrap_or(7) };
                    Effect::ExpireSeen(seen_ms, self.time(now_ms))
                }
                _ => Effect::Put(self.value(&key), self.expiry_ms(now_ms)),
            };
            parts.push(Part::Change { name, key, effect });
        }
        parts
    }

    fn condition(&mut self, state: &State, now_ms: u64) -> Part {
        let (name, key) = (self.name(), self.key());
        let live = state.live(&name, &key, now_ms);
        match self.random.below(8) {
            0 | 1 => Part::Unwritten(self.id()),
            2 => Part::Rollbacks(u64::from(self.random.one_in(5))),
            3 if live.is_some() => {
                let (value, expiry_ms) =
                    live.map(|kept| (kept.value.clone(), kept.expiry_ms)).expect("as asked");
                let expiry_ms = expiry_ms + u64::from(self.random.one_in(5));
                Part::Condition { name, key, must: Must::HaveBoth(value, expiry_ms) }
            }
            4 if self.random.one_in(3) => {
                let value = self.value(&key);
                Part::Condition { name, key, must: Must::Have(Some(value)) }
            }
            _ => {
                let value = live.map(|kept| kept.value.clone());
                Part::Condition { name, key, must: Must::Have(value) }
            }
        }
    }

    fn watch(&mut self) -> Call {
        Call::Watch { id: self.id(), key: self.key() }
    }

    fn view(&mut self, state: &State) -> Call {
        let id = self.id();
        match self.random.below(5) {
            0 | 1 => {
                let names = match self.kind {
                    Kind::All => state.maps.keys().cloned().collect(),
                    // The others come and go.
                    Kind::Steps => vec![NAMES[0].to_string()],
                };
                Call::OpenView { id, names }
            }
            2 | 3 => Call::ReadView { id, way: self.random.below(5) as u8 },
            _ => Call::CloseView(id),
        }
    }

    fn load(&mut self) -> Call {
        let keys = 1 + self.random.below(KEYS.len() - 1);
        let name = NAMES[1 + self.random.below(2)].to_string();
        let pairs = (0..keys).map(|index| (vec![KEYS[index]], self.value(&[KEYS[index]])));
        Call::Load(name, pairs.collect())
    }
}
