//! A pool that is made from its log: what loading a snapshot and replaying the log share.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use everleaf_index::{BytesTree, Trees};
use everleaf_log::{Disk, Record, RecordEffect};

use crate::options::ProgressFn;
use crate::{Options, Result};

/// A pool that is being filled.
#[derive(Clone, Copy)]
pub(super) struct Filling<'a> {
    pub trees: &'a Trees,
    pub threads: usize,
    pub progress: &'a Progress,
    /// Whether the log is small, as those of tests and on a simulated disk are.
    pub is_small: bool,
    pub plants: Plants,
}

impl<'a> Filling<'a> {
    /// A pool that is filled from the log on `disk`, by one thread at least.
    pub fn new(
        trees: &'a Trees,
        threads: usize,
        progress: &'a Progress,
        options: &Options,
        disk: &impl Disk,
    ) -> Self {
        let is_small = cfg!(test) || options.is_simulated();
        Filling { trees, threads: threads.max(1), progress, is_small, plants: Plants::of(disk) }
    }
}

/// Planted bugs of a replay: none, except on a simulated disk.
#[derive(Clone, Copy)]
pub(super) struct Plants {
    /// A key that was put and then expired does not expire.
    pub loses_expiries: bool,
    /// A name changes before what was logged earlier is done.
    pub never_waits: bool,
    /// The changes of a key go to any thread.
    pub deals_by_turn: bool,
}

impl Plants {
    pub fn of(disk: &impl Disk) -> Plants {
        Plants {
            loses_expiries: disk.mutant("store.replay_loses_expiries"),
            never_waits: disk.mutant("store.replay_never_waits"),
            deals_by_turn: disk.mutant("store.replay_deals_by_turn"),
        }
    }
}

/// Counts what is done, and tells.
pub(super) struct Progress {
    tell: Option<ProgressFn>,
    count: AtomicU64,
    /// Held while it is told, so that what is told never falls.
    telling: Mutex<u64>,
}

impl Progress {
    pub fn new(tell: Option<ProgressFn>) -> Progress {
        Progress { tell, count: AtomicU64::new(0), telling: Mutex::new(0) }
    }

    /// So many pairs more are done.
    pub fn add(&self, pairs: u64) {
        // Relaxed: a statistic.
        let count = self.count.fetch_add(pairs, Ordering::Relaxed) + pairs;
        if let Some(tell) = &self.tell {
            let mut told = self.telling.lock().unwrap_or_else(PoisonError::into_inner);
            if count > *told {
                *told = count;
                (tell.0)(count);
            }
        }
    }
}

/// The maps of a log while a pool is made from it.
#[derive(Default)]
pub(super) struct Names {
    /// The largest number that was seen.
    pub last: u32,
    pub numbers: BTreeMap<String, u32>,
    /// The maps there are now, by number.
    trees: HashMap<u32, Arc<BytesTree>>,
}

impl Names {
    /// The map with a number; `None` if it was emptied or dropped later (W2).
    pub fn tree(&self, number: u32) -> Option<Arc<BytesTree>> {
        self.trees.get(&number).cloned()
    }

    /// Enters a map that was made.
    pub fn enter(&mut self, name: String, number: u32, tree: Arc<BytesTree>) {
        self.last = self.last.max(number);
        self.trees.insert(number, tree);
        self.numbers.insert(name, number);
    }

    /// What a record of the list of names changes; `None` if it says what is known.
    pub fn change_of(&mut self, record: &Record<'_>) -> Option<(String, Option<u32>)> {
        if record.effect == RecordEffect::Expire {
            return None;
        }
        let (name, number) = name_of(record);
        self.last = self.last.max(number.unwrap_or(0));
        (self.numbers.get(&name) != number.as_ref()).then_some((name, number))
    }

    /// Renumbers, makes or drops a map. Nobody is changing one meanwhile.
    pub fn change(&mut self, trees: &Trees, name: String, number: Option<u32>) -> Result<()> {
        if let Some(old) = self.numbers.remove(&name) {
            self.trees.remove(&old);
            trees.remove(&name)?;
        }
        if let Some(number) = number {
            let tree = trees.bytes_tree(&name)?;
            self.enter(name, number, tree);
        }
        Ok(())
    }
}

/// A record of the list of names: the name, and its number unless the map is dropped.
pub(super) fn name_of(record: &Record<'_>) -> (String, Option<u32>) {
    let number = record.value().and_then(|value| <[u8; 4]>::try_from(value).ok());
    (String::from_utf8_lossy(record.key).into_owned(), number.map(u32::from_le_bytes))
}
