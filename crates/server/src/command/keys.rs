//! What commands read and write: the store, or a transaction that is being made.
//!
//! A transaction (`EXEC`) runs its commands on a stage: what they read comes from the store and is
//! noted, what they write is kept aside. In the end all of it is written as one batch, on the
//! condition that what was read is still so; if it is not, all of it is run again. Where nobody else
//! writes until the batch is done, no conditions are needed.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use everleaf::{Action, Alone, Expiry, Map, Result, Statistics, Store, WriteBatch};

use super::expiry::now_ms;
use super::walk::{Bounds, walk};

/// A value and when it expires.
type Value = (Vec<u8>, Expiry);

/// Where a command reads and writes.
pub enum Keys<'a> {
    /// The store itself.
    Store(&'a Store),
    /// A transaction.
    Stage(Staged<'a>),
}

/// A transaction that is being made, and where it reads what it has not written.
pub struct Staged<'a> {
    pub stage: &'a mut Stage,
    pub source: &'a mut (dyn Source + 'a),
}

/// What is shown of a key and its value, until it breaks.
type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// What makes of a key, and when it expires, what is to be done with it.
type Decide<'a> = dyn FnMut(Option<(&[u8], Expiry)>) -> Action + 'a;

/// Where a transaction reads what it has not written.
pub trait Source {
    /// A key as it is, with its time.
    fn read(&mut self, key: &[u8]) -> Result<Option<Value>>;
    /// Visits the keys inside bounds.
    fn scan(&mut self, bounds: &Bounds, reverse: bool, visit: &mut Visit<'_>) -> Result<()>;
    /// The number of keys.
    fn len(&mut self) -> u64;
}

/// While others write.
impl Source for &Store {
    fn read(&mut self, key: &[u8]) -> Result<Option<Value>> {
        self.get_with_expiry(key, |value, expiry| (value.to_vec(), expiry))
    }

    fn scan(&mut self, bounds: &Bounds, reverse: bool, visit: &mut Visit<'_>) -> Result<()> {
        walk(self, bounds, reverse, visit)
    }

    fn len(&mut self) -> u64 {
        Map::len(self)
    }
}

/// While nobody else writes.
impl Source for Alone<'_> {
    fn read(&mut self, key: &[u8]) -> Result<Option<Value>> {
        self.get_with_expiry(key, |value, expiry| (value.to_vec(), expiry))
    }

    fn scan(&mut self, bounds: &Bounds, reverse: bool, visit: &mut Visit<'_>) -> Result<()> {
        Alone::scan(self, bounds.as_slices(), reverse, visit)
    }

    fn len(&mut self) -> u64 {
        Alone::len(self)
    }
}

/// What a transaction has read and written so far.
#[derive(Default)]
pub struct Stage {
    /// What was read, as it was.
    read: BTreeMap<Vec<u8>, Option<Value>>,
    /// What is to be written; `None` removes the key.
    written: BTreeMap<Vec<u8>, Option<Value>>,
    /// For `INFO`: taken before, because a stage that is alone must not ask the store.
    pub statistics: Option<Statistics>,
}

impl Stage {
    /// Makes a batch depend on what was read.
    pub fn expect_read(&self, batch: &mut WriteBatch, map: &Map) {
        for (key, value) in &self.read {
            match value {
                Some((value, expiry)) => batch.expect_with_expiry(map, key, value, *expiry),
                None => batch.expect(map, key, None),
            };
        }
    }

    /// Adds what is to be written to a batch.
    pub fn fill(&self, batch: &mut WriteBatch, map: &Map) {
        for (key, value) in &self.written {
            match value {
                Some((value, expiry)) => batch.put_with_expiry(map, key, value, expiry.as_ms()),
                None => batch.remove(map, key),
            };
        }
    }
}

/// Whether a value is there, or its time has come.
fn is_live((_, expiry): &Value) -> bool {
    match expiry {
        Expiry::Never => true,
        Expiry::At(time_ms) => *time_ms > now_ms(),
    }
}

impl Staged<'_> {
    /// What a key is to the transaction.
    fn get(&mut self, key: &[u8]) -> Result<Option<Value>> {
        if let Some(value) = self.stage.written.get(key) {
            return Ok(value.clone().filter(is_live));
        }
        if let Some(value) = self.stage.read.get(key) {
            return Ok(value.clone());
        }
        let value = self.source.read(key)?;
        self.stage.read.insert(key.to_vec(), value.clone());
        Ok(value)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) {
        self.stage.written.insert(key.to_vec(), Some((value.to_vec(), Expiry::Never)));
    }

    fn update_with(&mut self, key: &[u8], decide: &mut Decide<'_>) -> Result<()> {
        let old = self.get(key)?;
        let at = |time_ms| if time_ms == 0 { Expiry::Never } else { Expiry::At(time_ms) };
        let new = match decide(old.as_ref().map(|(value, expiry)| (value.as_slice(), *expiry))) {
            Action::Keep => return Ok(()),
            Action::Expire(_) | Action::Remove if old.is_none() => return Ok(()),
            Action::Put(value) => Some((value, old.map_or(Expiry::Never, |(_, expiry)| expiry))),
            Action::PutWithExpiry(value, time_ms) => Some((value, at(time_ms))),
            Action::Expire(time_ms) => old.map(|(value, _)| (value, at(time_ms))),
            Action::Remove => None,
        };
        self.stage.written.insert(key.to_vec(), new);
        Ok(())
    }

    /// Visits what there would be if the transaction were done.
    fn walk(&mut self, bounds: &Bounds, reverse: bool, visit: &mut Visit<'_>) -> Result<()> {
        if bounds.is_empty() {
            return Ok(());
        }
        let mut over: Vec<_> = self.stage.written.range::<[u8], _>(bounds.as_slices()).collect();
        if reverse {
            over.reverse();
        }
        let mut over = over.into_iter().peekable();
        let show = |visit: &mut Visit<'_>, key: &[u8], value: &Option<Value>| match value {
            Some(value) if is_live(value) => visit(key, &value.0),
            _ => ControlFlow::Continue(()),
        };
        let mut flow = ControlFlow::Continue(());
        self.source.scan(bounds, reverse, &mut |key, value| {
            let is_due = |over: &[u8]| if reverse { over >= key } else { over <= key };
            let mut replaced = false;
            while let Some((over_key, value)) = over.next_if(|(over_key, _)| is_due(over_key)) {
                replaced = over_key == key;
                flow = show(visit, over_key, value);
                flow?;
            }
            if !replaced {
                flow = visit(key, value);
            }
            flow
        })?;
        for (key, value) in over {
            if flow.is_continue() {
                flow = show(visit, key, value);
            }
        }
        Ok(())
    }

    /// Removes everything.
    fn clear(&mut self) -> Result<()> {
        let written = &mut self.stage.written;
        written.values_mut().for_each(|value| *value = None);
        self.source.scan(&Bounds::of_prefix(b""), false, &mut |key, _| {
            written.insert(key.to_vec(), None);
            ControlFlow::Continue(())
        })
    }

    fn len(&mut self) -> Result<u64> {
        let mut count = self.source.len();
        for (key, value) in &self.stage.written {
            let before = self.source.read(key)?.is_some();
            let now = value.as_ref().is_some_and(is_live);
            count = count.saturating_add_signed(i64::from(now) - i64::from(before));
        }
        Ok(count)
    }
}

impl Keys<'_> {
    /// Runs `see` on the value of a key.
    pub fn get_with<R>(&mut self, key: &[u8], see: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        match self {
            Keys::Store(store) => store.get_with(key, see),
            Keys::Stage(staged) => Ok(staged.get(key)?.map(|(value, _)| see(&value))),
        }
    }

    /// Runs `see` on the values of keys, in order.
    pub fn get_many(
        &mut self,
        keys: &[&[u8]],
        mut see: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        match self {
            Keys::Store(store) => store.get_many(keys, see),
            Keys::Stage(staged) => {
                for (index, key) in keys.iter().enumerate() {
                    see(index, staged.get(key)?.as_ref().map(|(value, _)| value.as_slice()));
                }
                Ok(())
            }
        }
    }

    /// Whether a key is there.
    pub fn contains(&mut self, key: &[u8]) -> Result<bool> {
        Ok(self.get_with(key, |_| ())?.is_some())
    }

    /// When a key expires; `None` if it is not there.
    pub fn expiry(&mut self, key: &[u8]) -> Result<Option<Expiry>> {
        match self {
            Keys::Store(store) => store.expiry(key),
            Keys::Stage(staged) => Ok(staged.get(key)?.map(|(_, expiry)| expiry)),
        }
    }

    /// Visits each key and value inside `bounds`, ascending or descending, until `visit` breaks; see
    /// [`walk`].
    pub fn walk(
        &mut self,
        bounds: &Bounds,
        reverse: bool,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        match self {
            Keys::Store(store) => walk(store, bounds, reverse, visit),
            Keys::Stage(staged) => staged.walk(bounds, reverse, &mut visit),
        }
    }

    /// The number of keys.
    pub fn len(&mut self) -> Result<u64> {
        match self {
            Keys::Store(store) => Ok(store.len()),
            Keys::Stage(staged) => staged.len(),
        }
    }

    /// Numbers about the store.
    pub fn statistics(&mut self) -> Statistics {
        match self {
            Keys::Store(store) => store.statistics(),
            Keys::Stage(staged) => staged.stage.statistics.clone().unwrap_or_default(),
        }
    }

    /// Removes everything.
    pub fn clear(&mut self) -> Result<()> {
        match self {
            Keys::Store(store) => store.clear(),
            Keys::Stage(staged) => staged.clear(),
        }
    }

    /// Sets a value that never expires.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        match self {
            Keys::Store(store) => store.put(key, value).map(drop),
            Keys::Stage(staged) => {
                staged.put(key, value);
                Ok(())
            }
        }
    }

    /// Adds a key unless it is there. Returns whether it was added.
    pub fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool> {
        match self {
            Keys::Store(store) => store.insert(key, value),
            Keys::Stage(_) => {
                let absent = !self.contains(key)?;
                if absent {
                    self.put(key, value)?;
                }
                Ok(absent)
            }
        }
    }

    /// Replaces the value of a key that is there. Returns whether it was.
    pub fn update(&mut self, key: &[u8], value: &[u8]) -> Result<bool> {
        match self {
            Keys::Store(store) => store.update(key, value),
            Keys::Stage(_) => {
                let present = self.contains(key)?;
                if present {
                    self.put(key, value)?;
                }
                Ok(present)
            }
        }
    }

    /// Sets a value. Returns the old one.
    pub fn replace(&mut self, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>> {
        match self {
            Keys::Store(store) => store.replace(key, value),
            Keys::Stage(staged) => {
                let old = staged.get(key)?;
                staged.put(key, value);
                Ok(old.map(|(value, _)| value))
            }
        }
    }

    /// Removes a key. Returns the value it had.
    pub fn take(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        match self {
            Keys::Store(store) => store.take(key),
            Keys::Stage(staged) => {
                let old = staged.get(key)?;
                if old.is_some() {
                    staged.stage.written.insert(key.to_vec(), None);
                }
                Ok(old.map(|(value, _)| value))
            }
        }
    }

    /// Removes a key. Returns whether it was there.
    pub fn remove(&mut self, key: &[u8]) -> Result<bool> {
        match self {
            Keys::Store(store) => store.remove(key),
            Keys::Stage(_) => Ok(self.take(key)?.is_some()),
        }
    }

    /// Reads, decides and writes a key as one step. `decide` may run several times.
    pub fn update_with(
        &mut self,
        key: &[u8],
        mut decide: impl FnMut(Option<(&[u8], Expiry)>) -> Action,
    ) -> Result<()> {
        match self {
            Keys::Store(store) => store.update_with_expiry(key, decide),
            Keys::Stage(staged) => staged.update_with(key, &mut decide),
        }
    }

    /// As [`Self::update_with`] for those who need not see the value.
    pub fn update_expiry_with(
        &mut self,
        key: &[u8],
        mut decide: impl FnMut(Option<Expiry>) -> Action,
    ) -> Result<()> {
        match self {
            Keys::Store(store) => store.update_expiry_with(key, decide),
            Keys::Stage(_) => {
                self.update_with(key, |found| decide(found.map(|(_, expiry)| expiry)))
            }
        }
    }

    /// The keys `pairs` with their values as one change, unless one of them is there and `fresh` is
    /// wanted. Returns whether it was done.
    pub fn put_all(&mut self, pairs: &[(&[u8], &[u8])], fresh: bool) -> Result<bool> {
        let store = match self {
            Keys::Store(store) => *store,
            Keys::Stage(_) => {
                for (key, _) in pairs {
                    if fresh && self.contains(key)? {
                        return Ok(false);
                    }
                }
                pairs.iter().try_for_each(|(key, value)| self.put(key, value))?;
                return Ok(true);
            }
        };
        let mut batch = WriteBatch::new();
        for (key, value) in pairs {
            if fresh {
                batch.expect(store, key, None);
            }
            batch.put(store, key, value);
        }
        Ok(store.write(&batch)?.is_done())
    }
}
