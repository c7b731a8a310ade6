//! What commands read and write: the store, or a transaction that is being made.
//!
//! A transaction (`EXEC`) runs its commands on a stage (`stage.rs`): what they read comes from the
//! store and is noted, what they write is kept aside. In the end all of it is written as one batch, on
//! the condition that what was read is still so; if it is not, all of it is run again. Where nobody
//! else writes until the batch is done, no conditions are needed.

use std::ops::ControlFlow;

use everleaf::{Action, Expiry, Map, Statistics, Store, WriteBatch};

use super::at_once::{self, See};
use super::stage::Staged;
use super::walk::{Bounds, walk, walk_with_pauses};
use crate::failure::{Failure, Result};
use crate::read_size::counted;
use crate::types::{Kind, Types, would_be_header};
use crate::wall_clock::now_ms;

/// Where a command reads and writes.
pub enum Keys<'a> {
    /// The store itself: the map of a database.
    Store(&'a Store, &'a Map, &'a Types),
    /// A transaction.
    Stage(Staged<'a>),
}

impl<'a> Keys<'a> {
    /// Runs `see` on the string that a key holds.
    pub fn get_with<R>(&mut self, key: &[u8], see: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        let types = self.types();
        self.see(key, |value| if types.is_header(value) { None } else { Some(see(value)) })?
            .map_or(Ok(None), |seen| seen.map(Some).ok_or(Failure::WrongType))
    }

    /// Runs `see` on whatever a key holds.
    fn see<R>(&mut self, key: &[u8], see: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        match self {
            Keys::Store(_, map, _) => Ok(map.get_with(key, |value| see(counted(value)))?),
            Keys::Stage(staged) => staged.see(key, |value, _| see(value)),
        }
    }

    /// What tells strings from collections.
    pub fn types(&self) -> &'a Types {
        match self {
            Keys::Store(_, _, types) => types,
            Keys::Stage(staged) => staged.types,
        }
    }

    /// The time by which the command is judged, in milliseconds since 1970-01-01 UTC.
    pub fn now_ms(&self) -> u64 {
        match self {
            Keys::Store(..) => now_ms(),
            Keys::Stage(staged) => staged.stage.now_ms(),
        }
    }

    /// The transaction in which a command of a collection is run.
    pub fn staged(&mut self) -> Result<&mut Staged<'a>> {
        match self {
            Keys::Stage(staged) => Ok(staged),
            // No such command is run elsewhere.
            Keys::Store(..) => Err(Failure::WrongType),
        }
    }

    /// What a key holds: `Some(None)` is a string.
    pub fn kind(&mut self, key: &[u8]) -> Result<Option<Option<Kind>>> {
        let types = self.types();
        self.see(key, |value| types.header(value).map(|header| header.kind))
    }

    /// Runs `see` on the strings that keys hold at one moment, in order, until it breaks; of other types it sees
    /// nothing.
    pub fn get_many(&mut self, keys: &[&[u8]], see: &mut See<'_>) -> Result<()> {
        let types = self.types();
        match self {
            Keys::Store(_, map, _) => at_once::see(map, keys, &mut |index, value| {
                see(index, value.filter(|value| !types.is_header(value)))
            }),
            Keys::Stage(staged) => {
                for (index, key) in keys.iter().enumerate() {
                    let mut flow = None;
                    staged.see(key, |value, _| {
                        if !types.is_header(value) {
                            flow = Some(see(index, Some(value)));
                        }
                    })?;
                    if flow.unwrap_or_else(|| see(index, None)).is_break() {
                        break;
                    }
                }
                Ok(())
            }
        }
    }

    /// Whether a key is there.
    pub fn contains(&mut self, key: &[u8]) -> Result<bool> {
        Ok(self.see(key, |_| ())?.is_some())
    }

    /// How many of the keys are there at one moment; one that is named twice counts twice.
    pub fn count_of(&mut self, keys: &[&[u8]]) -> Result<i64> {
        if let Keys::Store(_, map, _) = self {
            return at_once::count(map, keys);
        }
        let mut count = 0;
        for key in keys {
            count += i64::from(self.contains(key)?);
        }
        Ok(count)
    }

    /// When a key expires; `None` if it is not there.
    pub fn expiry(&mut self, key: &[u8]) -> Result<Option<Expiry>> {
        match self {
            Keys::Store(_, map, _) => Ok(map.expiry(key)?),
            Keys::Stage(staged) => staged.see(key, |_, expiry| expiry),
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
            Keys::Store(_, map, _) => Ok(walk(map, bounds, reverse, visit)?),
            Keys::Stage(staged) => staged.walk(bounds, reverse, &mut visit),
        }
    }

    /// The same with pauses, in a transaction, too; see [`walk_with_pauses`].
    pub fn walk_with_pauses(
        &mut self,
        bounds: &Bounds,
        reverse: bool,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
        mut pause: impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        match self {
            Keys::Store(_, map, _) => Ok(walk_with_pauses(map, bounds, reverse, visit, pause)?),
            Keys::Stage(staged) => staged.walk_with_pauses(bounds, reverse, &mut visit, &mut pause),
        }
    }

    /// The number of keys.
    pub fn len(&mut self) -> Result<u64> {
        match self {
            Keys::Store(_, map, _) => Ok(map.len()),
            Keys::Stage(staged) => staged.len(),
        }
    }

    /// Numbers about the store.
    pub fn statistics(&mut self) -> Statistics {
        match self {
            Keys::Store(store, ..) => store.statistics(),
            Keys::Stage(staged) => staged.stage.statistics.clone().unwrap_or_default(),
        }
    }

    /// Removes all keys of the database.
    pub fn clear(&mut self) -> Result<()> {
        match self {
            Keys::Store(_, map, _) => Ok(map.clear_at_once()?),
            Keys::Stage(staged) => staged.clear(),
        }
    }

    /// Sets a value that never expires.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        match self {
            Keys::Store(_, map, types) => {
                types.check_string(value)?;
                Ok(map.put(key, value).map(drop)?)
            }
            Keys::Stage(staged) => staged.put(key, value),
        }
    }

    /// Adds a key unless it is there. Returns whether it was added.
    pub fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool> {
        self.types().check_string(value)?;
        match self {
            Keys::Store(_, map, _) => Ok(map.insert(key, value)?),
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
        self.types().check_string(value)?;
        match self {
            Keys::Store(_, map, _) => Ok(map.update(key, value)?),
            Keys::Stage(_) => {
                let present = self.contains(key)?;
                if present {
                    self.put(key, value)?;
                }
                Ok(present)
            }
        }
    }

    /// Sets a string. Returns the old one.
    pub fn replace(&mut self, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut old = None;
        self.update_with(key, |found| {
            old = found.map(|(old, _)| old.to_vec());
            Action::PutWithExpiry(value.to_vec(), Expiry::Never)
        })?;
        Ok(old)
    }

    /// Removes a string. Returns it.
    pub fn take(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut old = None;
        self.update_with(key, |found| {
            old = found.map(|(old, _)| old.to_vec());
            Action::Remove
        })?;
        Ok(old)
    }

    /// Removes a key. Returns whether it was there.
    pub fn remove(&mut self, key: &[u8]) -> Result<bool> {
        match self {
            Keys::Store(_, map, _) => Ok(map.remove(key)?),
            Keys::Stage(staged) => staged.remove(key),
        }
    }

    /// Removes keys as one change. Returns how many were there.
    pub fn remove_many(&mut self, keys: &[&[u8]]) -> Result<i64> {
        if let Keys::Store(_, map, _) = self {
            return at_once::remove(map, keys);
        }
        let mut count = 0;
        for key in keys {
            count += i64::from(self.remove(key)?);
        }
        Ok(count)
    }

    /// Reads, decides and writes a string as one step. `decide` may run several times.
    pub fn update_with(
        &mut self,
        key: &[u8],
        mut decide: impl FnMut(Option<(&[u8], Expiry)>) -> Action,
    ) -> Result<()> {
        let (types, mut is_wrong) = (self.types(), false);
        self.update_any_with(key, |found| {
            is_wrong = found.is_some_and(|(value, _)| types.is_header(value));
            if is_wrong { Action::Keep } else { decide(found) }
        })?;
        if is_wrong { Err(Failure::WrongType) } else { Ok(()) }
    }

    /// As [`Self::update_with`], by what does not use the store.
    pub fn update_apart(
        &mut self,
        key: &[u8],
        mut decide: impl FnMut(Option<&[u8]>) -> Action,
    ) -> Result<()> {
        let (types, mut is_wrong) = (self.types(), false);
        let mut decide = |found: Option<(&[u8], Expiry)>| {
            is_wrong = found.is_some_and(|(value, _)| types.is_header(value));
            if is_wrong { Action::Keep } else { decide(found.map(|(value, _)| counted(value))) }
        };
        let mut is_refused = false;
        match self {
            Keys::Store(_, map, _) => map.update_apart(key, |found| {
                let action = decide(found);
                types.check_action(action, &mut is_refused)
            })?,
            Keys::Stage(staged) => staged.update_with(key, &mut decide)?,
        }
        match (is_wrong, is_refused) {
            (true, _) => Err(Failure::WrongType),
            (false, true) => Err(would_be_header()),
            (false, false) => Ok(()),
        }
    }

    /// As [`Self::update_with`] for whatever the key holds.
    pub fn update_any_with(
        &mut self,
        key: &[u8],
        mut decide: impl FnMut(Option<(&[u8], Expiry)>) -> Action,
    ) -> Result<()> {
        let mut is_refused = false;
        match self {
            Keys::Store(_, map, types) => map.update_at_last(key, |found| {
                let action = decide(found.map(|(value, expiry)| (counted(value), expiry)));
                types.check_action(action, &mut is_refused)
            })?,
            Keys::Stage(staged) => staged.update_with(key, &mut decide)?,
        }
        if is_refused { Err(would_be_header()) } else { Ok(()) }
    }

    /// As [`Self::update_with`] for callers that need not see the value, and put none.
    pub fn update_expiry_with(
        &mut self,
        key: &[u8],
        mut decide: impl FnMut(Option<Expiry>) -> Action,
    ) -> Result<()> {
        match self {
            Keys::Store(_, map, _) => Ok(map.update_expiry_with(key, decide)?),
            Keys::Stage(_) => {
                self.update_any_with(key, |found| decide(found.map(|(_, expiry)| expiry)))
            }
        }
    }

    /// Appends to a value, unless it would have more than `size_max` bytes. Returns its size.
    pub fn append(&mut self, key: &[u8], suffix: &[u8], size_max: usize) -> Result<Option<usize>> {
        if let Keys::Stage(staged) = self {
            let types = staged.types;
            if staged.see(key, |value, _| types.is_header(value))? == Some(true) {
                return Err(Failure::WrongType);
            }
            return staged.append(key, suffix, size_max);
        }
        let mut size = 0;
        self.update_with(key, |old| {
            let old = old.map_or(&b""[..], |(old, _)| old);
            size = old.len() + suffix.len();
            if size > size_max { Action::Keep } else { Action::Put([old, suffix].concat()) }
        })?;
        Ok((size <= size_max).then_some(size))
    }

    /// The keys `pairs` with their values as one change, unless one of them is there and `fresh` is
    /// wanted. Returns whether it was done.
    pub fn put_all(&mut self, pairs: &[(&[u8], &[u8])], fresh: bool) -> Result<bool> {
        let types = self.types();
        pairs.iter().try_for_each(|(_, value)| types.check_string(value))?;
        let (store, map) = match self {
            Keys::Store(store, map, _) => (*store, *map),
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
        // A condition has the key once more.
        let size: usize = pairs.iter().map(|(key, value)| 2 * key.len() + value.len()).sum();
        batch.reserve(pairs.len(), size);
        for (key, value) in pairs {
            if fresh {
                batch.expect(map, key, None);
            }
            batch.put(map, key, value);
        }
        Ok(store.write(&batch)?.is_done())
    }
}
