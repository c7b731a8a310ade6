//! The lock-free skip list of crossbeam.
//!
//! An insert that replaces a pair takes the old one out first, so that a read at that moment finds
//! nothing (seen with 0.1.3). So values are replaced in place: in an atomic word, or behind a lock of
//! their own. An insert does not tell whether the key was there, and always counts as done.

use std::borrow::Borrow;
use std::ops::Bound;

use crossbeam_skiplist::SkipMap;
use everleaf_bench::measure::Settings;
use everleaf_bench::measure::contest::entrant;
use everleaf_bench::target::{KeyOf, Target, Worker};
use everleaf_bench::{BenchError, Footprint};

use super::common::Rival;
use super::form::{Form, Strings, Words};

/// What is known of it.
pub const RIVAL: Rival = Rival {
    name: "skiplist",
    what: "crossbeam-skiplist 0.1",
    durability: "volatile",
    is_durable: false,
    is_integers_only: false,
    enter: |name, settings, _| match (settings.key_size, settings.value_size) {
        (8, 8) => entrant(name, settings, make::<Words>(settings)),
        _ => entrant(name, settings, make::<Strings>(settings)),
    },
};

fn make<F: Form>(settings: &Settings) -> impl Fn() -> Result<(Skips<F>, ()), BenchError> + 'static {
    let form = F::new(settings);
    move || Ok((Skips { form: form.clone(), pairs: SkipMap::new() }, ()))
}

struct Skips<F: Form> {
    form: F,
    pairs: SkipMap<F::Key, F::Cell>,
}

impl<F: Form> Target for Skips<F> {
    type Keys = F::Keys;
    type Worker<'t> = SkipsWorker<'t, F>;

    fn new_keys(&self, capacity: usize) -> F::Keys {
        self.form.new_keys(capacity)
    }

    fn worker(&self) -> Result<SkipsWorker<'_, F>, BenchError> {
        Ok(SkipsWorker { pairs: &self.pairs, form: self.form.clone() })
    }

    fn domain(&self) -> String {
        RIVAL.durability.to_owned()
    }

    fn footprint(&self) -> Result<Footprint, BenchError> {
        Ok(Footprint { keys: self.pairs.len() as u64, ..Footprint::default() })
    }
}

struct SkipsWorker<'t, F: Form> {
    pairs: &'t SkipMap<F::Key, F::Cell>,
    form: F,
}

impl<F: Form> Worker for SkipsWorker<'_, F> {
    type Keys = F::Keys;

    fn get(&mut self, key: KeyOf<'_, Self>) -> Result<bool, BenchError> {
        let key = F::look(&key);
        match self.pairs.get(key) {
            Some(pair) => F::verdict(self.form.is_cell_right(key, pair.value()), key, true),
            None => Ok(false),
        }
    }

    fn insert(&mut self, key: KeyOf<'_, Self>, version: u64) -> Result<bool, BenchError> {
        let value = self.form.value(F::look(&key), version);
        self.pairs.insert(F::own(key), F::cell(value));
        Ok(true)
    }

    fn update(&mut self, key: KeyOf<'_, Self>, version: u64) -> Result<bool, BenchError> {
        let key = F::look(&key);
        let value = self.form.value(key, version);
        let Some(pair) = self.pairs.get(key) else { return Ok(false) };
        F::replace(pair.value(), value);
        Ok(true)
    }

    fn put(&mut self, key: KeyOf<'_, Self>, version: u64) -> Result<(), BenchError> {
        if !self.update(key, version)? {
            self.insert(key, version)?;
        }
        Ok(())
    }

    fn remove(&mut self, key: KeyOf<'_, Self>) -> Result<bool, BenchError> {
        Ok(self.pairs.remove(F::look(&key)).is_some())
    }

    fn scan(&mut self, from: KeyOf<'_, Self>, length: u32) -> Result<u64, BenchError> {
        let from = F::look(&from);
        let (mut count, mut is_right) = (0, true);
        let range = (Bound::Included(from), Bound::Unbounded);
        for pair in self.pairs.range::<F::Look, _>(range).take(length as usize) {
            let key = pair.key().borrow();
            is_right &= key >= from && self.form.is_cell_right(key, pair.value());
            count += 1;
        }
        F::verdict(is_right, from, count)
    }
}
