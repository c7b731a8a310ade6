//! What the threads of a program on a tree do.

use everleaf_machine::simulated::history::Call;

/// One operation on the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Reads a key.
    Get(u64),
    /// All keys of the universe in one call.
    GetMany,
    /// Adds a key with a value.
    Insert(u64, u64),
    /// Changes the value of a key that is there.
    Update(u64, u64),
    /// Sets the value of a key.
    Upsert(u64, u64),
    /// Takes a key out.
    Remove(u64),
    /// Key, expected value, new value.
    Exchange(u64, u64, u64),
    /// Everything from the key on, up to a number of pairs.
    Scan(u64, usize),
    /// Everything up to the key, downwards, up to a number of pairs.
    ScanBack(u64, usize),
    /// Everything between two keys, one way or the other.
    Range(Range),
    /// Empties the tree.
    Clear,
    /// Ends the thread's session and begins another.
    Rejoin,
    /// Gives space that is free back, so that it can serve for something else.
    Release,
    /// Many writes in one call: inserts, updates, upserts and removals.
    WriteMany(Vec<Operation>),
    /// Opens the pool again: what is done before the threads come, and nothing if they are there.
    Reopen {
        /// Whether it is closed cleanly before.
        closes: bool,
    },
}

/// What a scan with two ends passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The lower end.
    pub low: u64,
    /// The upper end; if it is below the lower one, there is nothing between.
    pub high: u64,
    /// Which of the two ends are left out.
    pub excludes: (bool, bool),
    /// Whether it goes downwards.
    pub reverse: bool,
}

impl Range {
    /// Whether a key is between the ends.
    pub fn has(&self, key: u64) -> bool {
        let low = if self.excludes.0 { key > self.low } else { key >= self.low };
        low && if self.excludes.1 { key < self.high } else { key <= self.high }
    }

    /// Of these keys, ascending, those that are passed, in the order in which they are.
    pub fn of(&self, keys: impl Iterator<Item = u64>) -> Vec<u64> {
        let mut all: Vec<u64> = keys.filter(|key| self.has(*key)).collect();
        if self.reverse {
            all.reverse();
        }
        all
    }
}

/// The places of so many keys in the order in which one call asks for them, which callers choose: ascending,
/// descending, or from both ends in turn.
pub(crate) fn asked(turn: usize, count: usize) -> Vec<usize> {
    let place = |number: usize| match turn % 3 {
        0 => number,
        1 => count - 1 - number,
        _ if number.is_multiple_of(2) => number / 2,
        _ => count - 1 - number / 2,
    };
    (0..count).map(place).collect()
}

/// What was found of keys that were [asked] for in such an order, in the order of the keys.
pub(crate) fn sorted<T: Clone>(order: &[usize], found: &[T]) -> Vec<T> {
    let mut all: Vec<_> = order.iter().zip(found).collect();
    all.sort_unstable_by_key(|(place, _)| **place);
    all.into_iter().map(|(_, found)| found.clone()).collect()
}

impl Operation {
    /// What the operation does, key by key, for the judge; `universe` are all keys, ascending.
    pub fn calls(&self, universe: &[u64], calls: &mut Vec<(u64, Call)>) {
        let get = |key: &u64| (*key, Call::Get);
        let (key, call) = match *self {
            Operation::Get(key) => (key, Call::Get),
            Operation::Insert(key, value) => (key, Call::Insert(value)),
            Operation::Update(key, value) => (key, Call::Update(value)),
            Operation::Upsert(key, value) => (key, Call::Upsert(value)),
            Operation::Remove(key) => (key, Call::Remove),
            Operation::Exchange(key, expected, new) => {
                (key, Call::CompareExchange { expected, new })
            }
            Operation::GetMany => return calls.extend(universe.iter().map(get)),
            Operation::Scan(from, _) => {
                return calls.extend(universe.iter().filter(|&&key| key >= from).map(get));
            }
            Operation::ScanBack(from, _) => {
                return calls.extend(universe.iter().rev().filter(|&&key| key <= from).map(get));
            }
            Operation::Range(range) => {
                return calls.extend(range.of(universe.iter().copied()).iter().map(get));
            }
            Operation::Clear => {
                return calls.extend(universe.iter().map(|key| (*key, Call::Remove)));
            }
            Operation::Rejoin | Operation::Release | Operation::Reopen { .. } => return,
            Operation::WriteMany(ref all) => {
                return all.iter().for_each(|one| one.calls(universe, calls));
            }
        };
        calls.push((key, call));
    }

    /// Whether the operation never changes anything.
    pub fn is_read(&self) -> bool {
        use Operation::{Get, GetMany, Range, Scan, ScanBack};
        matches!(self, Get(_) | GetMany | Scan(..) | ScanBack(..) | Range(_))
    }

    /// The same operation with every key and value replaced.
    #[must_use]
    pub fn map(&self, key: impl Fn(u64) -> u64, value: impl Fn(u64) -> u64) -> Operation {
        self.map_by(&key, &value)
    }

    fn map_by(&self, key: &dyn Fn(u64) -> u64, value: &dyn Fn(u64) -> u64) -> Operation {
        match *self {
            Operation::Get(k) => Operation::Get(key(k)),
            Operation::GetMany => Operation::GetMany,
            Operation::Insert(k, v) => Operation::Insert(key(k), value(v)),
            Operation::Update(k, v) => Operation::Update(key(k), value(v)),
            Operation::Upsert(k, v) => Operation::Upsert(key(k), value(v)),
            Operation::Remove(k) => Operation::Remove(key(k)),
            Operation::Exchange(k, old, new) => Operation::Exchange(key(k), value(old), value(new)),
            Operation::Scan(from, limit) => Operation::Scan(key(from), limit),
            Operation::ScanBack(from, limit) => Operation::ScanBack(key(from), limit),
            Operation::Range(range) => {
                Operation::Range(Range { low: key(range.low), high: key(range.high), ..range })
            }
            Operation::Clear => Operation::Clear,
            Operation::Rejoin => Operation::Rejoin,
            Operation::Release => Operation::Release,
            Operation::Reopen { closes } => Operation::Reopen { closes },
            Operation::WriteMany(ref all) => {
                Operation::WriteMany(all.iter().map(|one| one.map_by(key, value)).collect())
            }
        }
    }

    /// The key of a write of one key.
    pub fn key_written(&self) -> Option<u64> {
        use Operation::{Insert, Remove, Update, Upsert};
        match *self {
            Insert(key, _) | Update(key, _) | Upsert(key, _) | Remove(key) => Some(key),
            _ => None,
        }
    }

    /// The same operation, but that it writes no key twice: among other threads nobody could say in which
    /// order it did.
    #[must_use]
    pub fn distinct(self) -> Operation {
        let Operation::WriteMany(mut all) = self else { return self };
        let mut known = vec![];
        all.retain(|one| {
            let key = one.key_written();
            let is_new = !known.contains(&key);
            known.push(key);
            is_new
        });
        Operation::WriteMany(all)
    }
}
