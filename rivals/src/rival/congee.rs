//! congee: an adaptive radix tree with optimistic locks, in Rust, for integers.

use std::sync::atomic::{AtomicU64, Ordering};

use congee::{Congee, DefaultAllocator};
use everleaf_bench::measure::contest::entrant;
use everleaf_bench::target::{IntegerKeys, Target, Worker};
use everleaf_bench::{BenchError, Footprint};

use super::common::{Rival, refused};
use super::form::{Form, Words};

/// What is known of it.
pub const RIVAL: Rival = Rival {
    name: "congee",
    what: "congee 0.4",
    durability: "volatile; 8-byte keys and values only",
    is_durable: false,
    is_integers_only: true,
    enter: |name, settings, _| {
        entrant(name, settings, || Ok((Radix { pairs: new_tree(), keys: AtomicU64::new(0) }, ())))
    },
};

type Tree = Congee<usize, usize>;

fn new_tree() -> Tree {
    Congee::new(DefaultAllocator {})
}

struct Radix {
    pairs: Tree,
    /// Keys there are, less what the present workers have changed: the tree does not count them.
    keys: AtomicU64,
}

impl Target for Radix {
    type Keys = IntegerKeys;
    type Worker<'t> = RadixWorker<'t>;

    fn new_keys(&self, capacity: usize) -> IntegerKeys {
        IntegerKeys(Vec::with_capacity(capacity))
    }

    fn worker(&self) -> Result<RadixWorker<'_>, BenchError> {
        Ok(RadixWorker { radix: self, found: Vec::new(), added: 0 })
    }

    fn domain(&self) -> String {
        RIVAL.durability.to_owned()
    }

    fn footprint(&self) -> Result<Footprint, BenchError> {
        // Relaxed: the threads that counted have been joined.
        let keys = self.keys.load(Ordering::Relaxed);
        Ok(Footprint { keys, ..Footprint::default() })
    }
}

struct RadixWorker<'t> {
    radix: &'t Radix,
    found: Vec<(usize, usize)>,
    /// Keys added, less keys removed.
    added: i64,
}

impl Drop for RadixWorker<'_> {
    fn drop(&mut self) {
        // Relaxed: read when the thread has been joined.
        self.radix.keys.fetch_add(self.added as u64, Ordering::Relaxed);
    }
}

impl RadixWorker<'_> {
    /// Sets the value. Returns whether there was one.
    fn set(&mut self, key: u64, version: u64) -> Result<bool, BenchError> {
        let value = Words.value(&key, version) as usize;
        let guard = self.radix.pairs.pin();
        let old = self.radix.pairs.insert(key as usize, value, &guard);
        let old = old.map_err(|error| refused(format!("{error:?}")))?;
        self.added += i64::from(old.is_none());
        Ok(old.is_some())
    }
}

impl Worker for RadixWorker<'_> {
    type Keys = IntegerKeys;

    fn get(&mut self, key: u64) -> Result<bool, BenchError> {
        let guard = self.radix.pairs.pin();
        match self.radix.pairs.get(&(key as usize), &guard) {
            Some(value) => Words::verdict(Words.is_right(&key, &(value as u64)), &key, true),
            None => Ok(false),
        }
    }

    fn insert(&mut self, key: u64, version: u64) -> Result<bool, BenchError> {
        self.set(key, version).map(|was_there| !was_there)
    }

    fn update(&mut self, key: u64, version: u64) -> Result<bool, BenchError> {
        self.set(key, version)
    }

    fn put(&mut self, key: u64, version: u64) -> Result<(), BenchError> {
        self.set(key, version).map(|_| ())
    }

    fn remove(&mut self, key: u64) -> Result<bool, BenchError> {
        let guard = self.radix.pairs.pin();
        let was_there = self.radix.pairs.remove(&(key as usize), &guard).is_some();
        self.added -= i64::from(was_there);
        Ok(was_there)
    }

    fn scan(&mut self, from: u64, length: u32) -> Result<u64, BenchError> {
        self.found.resize(length as usize, (0, 0));
        let guard = self.radix.pairs.pin();
        let (from_key, last) = (from as usize, usize::MAX);
        let count = self.radix.pairs.range(&from_key, &last, &mut self.found, &guard);
        let mut is_right = true;
        for (key, value) in &self.found[..count] {
            let (key, value) = (*key as u64, *value as u64);
            is_right &= key >= from && Words.is_right(&key, &value);
        }
        Words::verdict(is_right, &from, count as u64)
    }
}
