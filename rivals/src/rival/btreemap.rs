//! The `BTreeMap` of Rust behind one read-write lock, as programs use it that need no more.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Bound;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use everleaf_bench::measure::Settings;
use everleaf_bench::measure::contest::entrant;
use everleaf_bench::target::{KeyOf, Target, Worker};
use everleaf_bench::{BenchError, Footprint};

use super::common::Rival;
use super::form::{Form, Strings, Words};

/// What is known of it.
pub const RIVAL: Rival = Rival {
    name: "btreemap",
    what: "BTreeMap of std under RwLock",
    durability: "volatile",
    is_durable: false,
    is_integers_only: false,
    enter: |name, settings, _| match (settings.key_size, settings.value_size) {
        (8, 8) => entrant(name, settings, make::<Words>(settings)),
        _ => entrant(name, settings, make::<Strings>(settings)),
    },
};

fn make<F: Form>(
    settings: &Settings,
) -> impl Fn() -> Result<(Locked<F>, ()), BenchError> + 'static {
    let form = F::new(settings);
    move || Ok((Locked { form: form.clone(), pairs: RwLock::default() }, ()))
}

struct Locked<F: Form> {
    form: F,
    pairs: RwLock<BTreeMap<F::Key, F::Value>>,
}

impl<F: Form> Target for Locked<F> {
    type Keys = F::Keys;
    type Worker<'t> = LockedWorker<'t, F>;

    fn new_keys(&self, capacity: usize) -> F::Keys {
        self.form.new_keys(capacity)
    }

    fn worker(&self) -> Result<LockedWorker<'_, F>, BenchError> {
        Ok(LockedWorker { pairs: &self.pairs, form: self.form.clone() })
    }

    fn domain(&self) -> String {
        RIVAL.durability.to_owned()
    }

    fn footprint(&self) -> Result<Footprint, BenchError> {
        let keys = read::<F>(&self.pairs).len() as u64;
        Ok(Footprint { keys, ..Footprint::default() })
    }
}

type Pairs<F> = BTreeMap<<F as Form>::Key, <F as Form>::Value>;

/// A panic of another thread ends the run anyway.
fn read<F: Form>(pairs: &RwLock<Pairs<F>>) -> RwLockReadGuard<'_, Pairs<F>> {
    pairs.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<F: Form>(pairs: &RwLock<Pairs<F>>) -> RwLockWriteGuard<'_, Pairs<F>> {
    pairs.write().unwrap_or_else(PoisonError::into_inner)
}

struct LockedWorker<'t, F: Form> {
    pairs: &'t RwLock<Pairs<F>>,
    form: F,
}

impl<F: Form> Worker for LockedWorker<'_, F> {
    type Keys = F::Keys;

    fn get(&mut self, key: KeyOf<'_, Self>) -> Result<bool, BenchError> {
        let key = F::look(&key);
        match read::<F>(self.pairs).get(key) {
            Some(value) => F::verdict(self.form.is_right(key, value), key, true),
            None => Ok(false),
        }
    }

    fn insert(&mut self, key: KeyOf<'_, Self>, version: u64) -> Result<bool, BenchError> {
        let value = self.form.value(F::look(&key), version);
        match write::<F>(self.pairs).entry(F::own(key)) {
            Entry::Vacant(place) => {
                place.insert(value);
                Ok(true)
            }
            Entry::Occupied(_) => Ok(false),
        }
    }

    fn update(&mut self, key: KeyOf<'_, Self>, version: u64) -> Result<bool, BenchError> {
        let key = F::look(&key);
        let value = self.form.value(key, version);
        let mut pairs = write::<F>(self.pairs);
        let Some(place) = pairs.get_mut(key) else { return Ok(false) };
        // The old value is freed after the lock.
        let old = std::mem::replace(place, value);
        drop(pairs);
        drop(old);
        Ok(true)
    }

    fn put(&mut self, key: KeyOf<'_, Self>, version: u64) -> Result<(), BenchError> {
        let value = self.form.value(F::look(&key), version);
        let old = write::<F>(self.pairs).insert(F::own(key), value);
        drop(old);
        Ok(())
    }

    fn remove(&mut self, key: KeyOf<'_, Self>) -> Result<bool, BenchError> {
        let old = write::<F>(self.pairs).remove(F::look(&key));
        Ok(old.is_some())
    }

    fn scan(&mut self, from: KeyOf<'_, Self>, length: u32) -> Result<u64, BenchError> {
        let from = F::look(&from);
        let pairs = read::<F>(self.pairs);
        let (mut count, mut is_right) = (0, true);
        let range = (Bound::Included(from), Bound::Unbounded);
        for (key, value) in pairs.range::<F::Look, _>(range).take(length as usize) {
            let key = key.borrow();
            is_right &= key >= from && self.form.is_right(key, value);
            count += 1;
        }
        F::verdict(is_right, from, count)
    }
}
