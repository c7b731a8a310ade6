//! Calls of a store as data: what each does to a model of the store, and what it must answer.
//!
//! A pair whose time has come stays in the model: the store may keep it for a while, and must not show it. So
//! what is kept can be compared, too, by a clock that is set back.

pub mod batch;
pub mod draw;
pub mod make;
pub mod themes;
pub mod told;

use std::collections::BTreeMap;

use super::model::Contents;

/// A pair as the store may keep it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    pub value: Vec<u8>,
    /// 0: it never expires.
    pub expiry_ms: u64,
    /// Whether its time has come, and it was removed behind that; what is left of a crash may have it again.
    pub is_swept: bool,
}

impl Kept {
    pub fn new(value: Vec<u8>, expiry_ms: u64) -> Kept {
        Kept { value, expiry_ms, is_swept: false }
    }

    pub fn is_over(&self, now_ms: u64) -> bool {
        self.expiry_ms != 0 && self.expiry_ms <= now_ms
    }
}

pub type Pairs = BTreeMap<Vec<u8>, Kept>;
type Maps = BTreeMap<String, Pairs>;

/// A watch, and how often its key had been written when it began.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Watching {
    name: String,
    key: Vec<u8>,
    writes: u64,
    expiry_ms: u64,
}

/// What a store must be.
#[derive(Clone, Debug, Default)]
pub struct State {
    pub maps: Maps,
    /// Writes of each key so far.
    writes: BTreeMap<(String, Vec<u8>), u64>,
    /// What the open views see, by their numbers.
    views: BTreeMap<usize, Maps>,
    watches: BTreeMap<usize, Watching>,
}

/// What is done to one key of a map.
#[derive(Clone, Debug)]
pub enum What {
    Put(Vec<u8>, u64),
    Insert(Vec<u8>),
    Update(Vec<u8>),
    Replace(Vec<u8>),
    Remove,
    Take,
    Add(i64),
    Exchange(Option<Vec<u8>>, Option<Vec<u8>>),
    /// By a function, passed in one of four ways.
    Decide(u8, Decided),
    Expire(u64),
    Persist,
    RemoveExpired,
    Get,
    Contains,
    Expiry,
    Both,
}

/// What a function decides.
#[derive(Clone, Debug)]
pub enum Decided {
    Keep,
    Put(Vec<u8>),
    PutExpiring(Vec<u8>, u64),
    Expire(u64),
    Remove,
}

/// A call.
#[derive(Clone, Debug)]
pub enum Call {
    Key {
        name: String,
        key: Vec<u8>,
        what: What,
    },
    Pop {
        name: String,
        is_last: bool,
    },
    /// A scan of one of several kinds.
    Look {
        name: String,
        from: Vec<u8>,
        to: Vec<u8>,
        way: u8,
    },
    /// Reads keys at one moment, or removes them as one change.
    ReadAll {
        name: String,
        keys: Vec<Vec<u8>>,
    },
    RemoveAll {
        name: String,
        keys: Vec<Vec<u8>>,
    },
    Batch(batch::Batch),
    Clear(String),
    Drop(String),
    Make(String),
    Load(String, Vec<(Vec<u8>, Vec<u8>)>),
    Sweep(String),
    OpenView {
        id: usize,
        names: Vec<String>,
    },
    ReadView {
        id: usize,
        way: u8,
    },
    CloseView(usize),
    /// Of a key of the default map.
    Watch {
        id: usize,
        key: Vec<u8>,
    },
    Sync,
    Snapshot,
}

/// What a call answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Nothing,
    NoMap,
    Was(bool),
    Value(Option<Vec<u8>>),
    Exchanged(Option<Option<Vec<u8>>>),
    Added(Option<i64>),
    Expires(Option<u64>),
    Both(Option<(Vec<u8>, u64)>),
    /// The values of keys, and when they expire.
    All(Vec<Option<(Vec<u8>, u64)>>),
    Pair(Option<(Vec<u8>, Vec<u8>)>),
    Pairs(Vec<(Vec<u8>, Vec<u8>)>),
    Maps(BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>),
    /// A batch: the number of the condition that did not hold.
    Refused(Option<usize>),
    Count(u64),
}

/// Keys that there may be. The last holds integers.
pub const KEYS: &[u8] = b"abcden";
/// The default map is the first.
pub const NAMES: [&str; 3] = [crate::DEFAULT_MAP, "second", "third"];

impl State {
    pub fn new() -> State {
        let first = (NAMES[0].to_string(), Pairs::new());
        State { maps: Maps::from([first]), ..State::default() }
    }

    /// This state of a store that was opened again, and then kept that. What its time has come of and was removed
    /// behind that the log may have still, so that it comes back when the pool is lost.
    pub fn again(&self, found: &Contents) -> State {
        let mut maps = self.maps.clone();
        for (name, pairs) in &mut maps {
            let found = found.get(name);
            for (key, kept) in pairs {
                kept.is_swept = found.is_none_or(|pairs| !pairs.contains_key(key));
            }
        }
        State { maps, ..State::default() }
    }

    /// Whether all that is kept in a store may be this, at this time: what was removed behind its time may be there, or
    /// not, and all the rest is as it was, also if its time has come.
    pub fn fits(&self, found: &Contents, now_ms: u64) -> bool {
        let pair_fits = |kept: Option<&Kept>, found: Option<&(Vec<u8>, u64)>| match (kept, found) {
            (None, None) => true,
            (Some(kept), None) => kept.is_swept && kept.is_over(now_ms),
            (Some(kept), Some((value, expiry_ms))) => {
                kept.value == *value && kept.expiry_ms == *expiry_ms
            }
            (None, Some(_)) => false,
        };
        let map_fits = |pairs: &Pairs, found: &BTreeMap<Vec<u8>, (Vec<u8>, u64)>| {
            let all = pairs.keys().chain(found.keys());
            all.into_iter().all(|key| pair_fits(pairs.get(key), found.get(key)))
        };
        self.maps.keys().eq(found.keys())
            && self
                .maps
                .iter()
                .zip(found.values())
                .all(|((_, pairs), found)| map_fits(pairs, found))
    }

    /// Names, keys, values and expiries.
    pub fn bare(&self) -> Vec<(&String, &[u8], &[u8], u64)> {
        let mut all = vec![];
        for (name, pairs) in &self.maps {
            // A map that has nothing is one, too.
            all.push((name, &[][..], &[][..], 0));
            all.extend(
                pairs.iter().map(|(key, kept)| (name, &key[..], &kept.value[..], kept.expiry_ms)),
            );
        }
        all
    }

    /// A pair that is to be seen at this time.
    pub fn live(&self, name: &str, key: &[u8], now_ms: u64) -> Option<&Kept> {
        self.maps.get(name)?.get(key).filter(|kept| !kept.is_over(now_ms))
    }

    /// A pair that is there, whether or not its time has come.
    pub fn stored(&self, name: &str, key: &[u8]) -> Option<&Kept> {
        self.maps.get(name)?.get(key).filter(|kept| !kept.is_swept)
    }

    fn mark(&mut self, name: &str, key: &[u8]) {
        *self.writes.entry((name.to_string(), key.to_vec())).or_default() += 1;
    }

    /// A key becomes this.
    fn set(&mut self, name: &str, key: &[u8], kept: Option<Kept>) {
        self.mark(name, key);
        let pairs = self.maps.get_mut(name).expect("a map that there is");
        match kept {
            Some(kept) => drop(pairs.insert(key.to_vec(), kept)),
            None => drop(pairs.remove(key)),
        }
    }

    /// Whether the watch of this number is broken; `None`: there is none.
    fn is_broken(&self, id: usize, now_ms: u64) -> Option<bool> {
        let watching = self.watches.get(&id)?;
        let place = (watching.name.clone(), watching.key.clone());
        let writes = self.writes.get(&place).copied().unwrap_or(0);
        let is_over = watching.expiry_ms != 0 && watching.expiry_ms <= now_ms;
        Some(writes != watching.writes || is_over)
    }

    /// The pairs of a map that are to be seen.
    fn seen(pairs: &Pairs, now_ms: u64) -> impl DoubleEndedIterator<Item = (Vec<u8>, Vec<u8>)> {
        let live = pairs.iter().filter(move |(_, kept)| !kept.is_over(now_ms));
        live.map(|(key, kept)| (key.clone(), kept.value.clone()))
    }

    /// Does a call at this time: what it answers.
    #[expect(clippy::too_many_lines, reason = "an arm for each call")]
    pub fn apply(&mut self, call: &Call, now_ms: u64) -> Answer {
        match call {
            Call::Key { name, .. }
            | Call::Pop { name, .. }
            | Call::Look { name, .. }
            | Call::ReadAll { name, .. }
            | Call::RemoveAll { name, .. }
            | Call::Clear(name)
            | Call::Sweep(name)
                if !self.maps.contains_key(name) =>
            {
                Answer::NoMap
            }
            Call::Key { name, key, what } => self.apply_to_key((name, key), what, now_ms),
            Call::Pop { name, is_last } => {
                let mut seen = Self::seen(&self.maps[name], now_ms);
                let pair = if *is_last { seen.next_back() } else { seen.next() };
                drop(seen);
                if let Some((key, _)) = &pair {
                    self.set(name, key, None);
                }
                Answer::Pair(pair)
            }
            Call::Look { name, from, to, way } => {
                Self::look(&self.maps[name], (from, to), *way, now_ms)
            }
            Call::ReadAll { name, keys } => self.read_all(name, keys, now_ms),
            Call::RemoveAll { name, keys } => self.remove_all(name, keys, now_ms),
            Call::Batch(batch) => self.apply_batch(batch, now_ms),
            Call::Clear(name) => {
                self.empty(name, now_ms);
                Answer::Nothing
            }
            Call::Drop(name) if name == NAMES[0] => {
                self.empty(name, now_ms);
                Answer::Was(true)
            }
            Call::Drop(name) => {
                self.writes.retain(|(of, _), _| of != name);
                Answer::Was(self.maps.remove(name).is_some())
            }
            Call::Make(name) => {
                let _ = self.maps.entry(name.clone()).or_default();
                Answer::Nothing
            }
            Call::Load(name, _) if self.maps.contains_key(name) => Answer::Was(false),
            Call::Load(name, pairs) => {
                let kept =
                    |(key, value): &(Vec<u8>, Vec<u8>)| (key.clone(), Kept::new(value.clone(), 0));
                self.maps.insert(name.clone(), pairs.iter().map(kept).collect());
                Answer::Was(true)
            }
            Call::Sweep(name) => {
                let pairs = self.maps.get_mut(name).expect("as asked");
                pairs.values_mut().for_each(|kept| kept.is_swept |= kept.is_over(now_ms));
                Answer::Nothing
            }
            Call::OpenView { id, names } => {
                let mut maps = self.maps.clone();
                maps.retain(|name, _| names.contains(name));
                self.views.insert(*id, maps);
                Answer::Nothing
            }
            Call::ReadView { id, .. } => match self.views.get(id) {
                None => Answer::Nothing,
                Some(maps) => {
                    let map = |(name, pairs): (&String, &Pairs)| {
                        (name.clone(), Self::seen(pairs, now_ms).collect())
                    };
                    Answer::Maps(maps.iter().map(map).collect())
                }
            },
            Call::CloseView(id) => {
                let _ = self.views.remove(id);
                Answer::Nothing
            }
            Call::Watch { id, key } => {
                let name = NAMES[0].to_string();
                let writes = self.writes.get(&(name.clone(), key.clone())).copied().unwrap_or(0);
                let expiry_ms = self.live(&name, key, now_ms).map_or(0, |kept| kept.expiry_ms);
                let watching = Watching { name, key: key.clone(), writes, expiry_ms };
                self.watches.insert(*id, watching);
                Answer::Nothing
            }
            Call::Sync | Call::Snapshot => Answer::Nothing,
        }
    }

    /// Empties a map. Of the watches those of keys that were seen are told.
    fn empty(&mut self, name: &str, now_ms: u64) {
        let pairs = std::mem::take(self.maps.get_mut(name).expect("a map that there is"));
        for (key, _) in Self::seen(&pairs, now_ms) {
            self.mark(name, &key);
        }
    }

    fn look(pairs: &Pairs, (from, to): (&[u8], &[u8]), way: u8, now_ms: u64) -> Answer {
        let seen = || Self::seen(pairs, now_ms);
        let between = || seen().filter(|(key, _)| from <= &key[..] && &key[..] < to);
        match way {
            0 => Answer::Pairs(between().collect()),
            1 => Answer::Pairs(between().rev().collect()),
            2 => Answer::Pairs(seen().filter(|(key, _)| key.starts_with(from)).collect()),
            3 => Answer::Pairs(between().take(2).collect()),
            4 => Answer::Pairs(between().rev().take(2).collect()),
            5 => Answer::Pair(seen().next()),
            6 => Answer::Pair(seen().next_back()),
            7 => Answer::Pair(seen().rfind(|(key, _)| &key[..] <= from)),
            8 => Answer::Pair(seen().find(|(key, _)| &key[..] >= from)),
            // Those that are kept are counted.
            9 => Answer::Count(pairs.values().filter(|kept| !kept.is_swept).count() as u64),
            // From both ends.
            10 => Answer::Pairs(between().collect()),
            // Many keys at once.
            _ => Answer::Pairs(seen().collect()),
        }
    }

    #[expect(clippy::too_many_lines, reason = "an arm for each call")]
    fn apply_to_key(&mut self, place: (&str, &[u8]), what: &What, now_ms: u64) -> Answer {
        let (name, key) = place;
        let found = self.live(name, key, now_ms).cloned();
        let is_there = found.is_some();
        let kept_ms = found.as_ref().map_or(0, |kept| kept.expiry_ms);
        let before = found.as_ref().map(|kept| kept.value.clone());
        let both = found.as_ref().map(|kept| (kept.value.clone(), kept.expiry_ms));
        let mut put = |value: &[u8], expiry_ms| {
            self.set(name, key, Some(Kept::new(value.to_vec(), expiry_ms)));
        };
        match what {
            What::Put(value, expiry_ms) => {
                put(value, *expiry_ms);
                Answer::Was(is_there)
            }
            What::Insert(value) => {
                if !is_there {
                    put(value, 0);
                }
                Answer::Was(!is_there)
            }
            What::Update(value) => {
                if is_there {
                    put(value, 0);
                }
                Answer::Was(is_there)
            }
            What::Replace(value) => {
                put(value, 0);
                Answer::Value(before)
            }
            What::Remove => Answer::Was(self.remove(name, key, now_ms)),
            What::Take => {
                if is_there {
                    self.set(name, key, None);
                }
                Answer::Value(before)
            }
            What::Add(amount) => {
                let old = before.as_ref().map_or(Some(0), |digits| integer(digits));
                if let Some(sum) = old.and_then(|old| old.checked_add(*amount)) {
                    put(sum.to_string().as_bytes(), kept_ms);
                    return Answer::Added(old);
                }
                Answer::Added(None)
            }
            What::Exchange(old, new) => {
                if before != *old {
                    return Answer::Exchanged(Some(before));
                }
                let new = new.as_ref().map(|value| Kept::new(value.clone(), kept_ms));
                self.set(name, key, new);
                Answer::Exchanged(None)
            }
            What::Decide(way, decided) => {
                match decided {
                    Decided::Keep => {}
                    Decided::Put(value) => put(value, kept_ms),
                    Decided::PutExpiring(value, expiry_ms) => put(value, *expiry_ms),
                    Decided::Expire(expiry_ms) => {
                        before.iter().for_each(|value| put(value, *expiry_ms));
                    }
                    Decided::Remove if is_there => self.set(name, key, None),
                    Decided::Remove => {}
                }
                match way {
                    0 => Answer::Value(before),
                    3 => Answer::Expires(both.map(|(_, expiry_ms)| expiry_ms)),
                    _ => Answer::Both(both),
                }
            }
            What::Expire(expiry_ms) => {
                before.iter().for_each(|value| put(value, *expiry_ms));
                Answer::Was(is_there)
            }
            What::Persist => {
                if let Some(value) = before.filter(|_| kept_ms != 0) {
                    put(&value, 0);
                }
                Answer::Was(kept_ms != 0)
            }
            What::RemoveExpired => {
                if !is_there {
                    // No write: nobody sees a difference.
                    self.maps.get_mut(name).expect("as asked").remove(key);
                }
                Answer::Was(!is_there)
            }
            What::Get => Answer::Value(before),
            What::Contains => Answer::Was(is_there),
            What::Expiry => Answer::Expires(both.map(|(_, expiry_ms)| expiry_ms)),
            What::Both => Answer::Both(both),
        }
    }
}

/// An integer in the only way in which it is written.
fn integer(digits: &[u8]) -> Option<i64> {
    let number: i64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    (number.to_string().as_bytes() == digits).then_some(number)
}
