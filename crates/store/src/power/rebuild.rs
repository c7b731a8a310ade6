//! Making a pool again from its log: the newest good snapshot, then what was logged behind it.
//!
//! A snapshot is sorted, so its blocks are loaded in pieces of the key range, by several threads, as
//! leaves that are full from the start (`load.rs`). What was logged comes in the order of the LSNs;
//! each thread takes the changes of its share of the keys, so that each key has them in order
//! (`replay.rs`).

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use everleaf_index::{
    BytesTree, Change, CreateMode, Hardware, IndexError, Pool, PoolOptions, Session, Trees,
};
use everleaf_log::{Log, Record, Recovered};

use super::place::{LogDisk, Place, Settings};
use super::{
    Durability, IDENTITY, LAST, LOGGED, MODE, NAME, io, load, log_options, own_key, replay,
};
use crate::options::Tell;
use crate::store::from_pool;
use crate::{Error, Options, Result};

/// What a rebuilding did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rebuilt {
    /// Pairs from the snapshot.
    pub snapshot_pairs: u64,
    /// Commits that were replayed from the log.
    pub replayed: u64,
    /// Why newer snapshots were passed over.
    pub skipped: Vec<String>,
}

/// Makes the pool at `path` again from its log, beside it, and puts it in its place. It can grow as
/// far as the one that was lost, and its log is kept as it was, unless the options say otherwise.
pub(crate) fn rebuild(
    path: &Path,
    place: &Place,
    options: &Options,
    threads: usize,
) -> Result<Rebuilt> {
    let identity = place.identity().ok_or_else(|| {
        Error::Corrupt(format!("there is no whole log in {}: restore a backup", place.display()))
    })?;
    let settings = place.settings();
    let kept = settings.map_or(Durability::Power, |settings| settings.durability);
    let durability = options.durability.unwrap_or(kept);
    let max_size_bytes = settings.map_or(0, |settings| settings.max_size_bytes);
    let max_size_bytes = max_size_bytes.max(options.pool.max_size_bytes);
    let log_options = log_options(identity, durability, options).starts_empty(false);
    let (log, recovered) = Log::open(place.open()?, &log_options)?;
    let mut new = path.as_os_str().to_owned();
    new.push(".unfinished");
    let new = PathBuf::from(new);
    let _ = std::fs::remove_file(&new);
    let pool_options = PoolOptions {
        create: CreateMode::New,
        read_only: false,
        max_size_bytes,
        ..options.pool.clone()
    };
    let pool = Pool::open(&new, &pool_options).map_err(|error| from_pool(error, &new))?;
    let trees = Trees::create(pool)?;
    let settings = Settings { max_size_bytes, durability };
    let progress = Progress::new(options.rebuild_progress.clone());
    let filling = Filling { trees: &trees, threads: threads.max(1), progress: &progress };
    let rebuilt = filling.fill(&recovered, identity, settings)?;
    trees.close()?;
    drop(trees);
    // It has nothing new. The next opening ends it properly, should that fail here, for instance
    // because the disk is full.
    let _ = log.close();
    std::fs::rename(&new, path).map_err(io(format!("cannot replace {}", path.display())))?;
    crate::copy::sync_folder_of(path)?;
    Ok(rebuilt)
}

/// Counts what is done, and tells.
pub(super) struct Progress {
    tell: Option<Tell>,
    count: AtomicU64,
    /// Held while it is told, so that what is told never falls.
    telling: Mutex<u64>,
}

impl Progress {
    pub fn new(tell: Option<Tell>) -> Progress {
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

/// A pool that is being filled.
#[derive(Clone, Copy)]
pub(super) struct Filling<'a> {
    pub trees: &'a Trees,
    pub threads: usize,
    pub progress: &'a Progress,
}

impl Filling<'_> {
    fn fill(
        self,
        recovered: &Recovered<LogDisk>,
        identity: [u8; 16],
        settings: Settings,
    ) -> Result<Rebuilt> {
        let base = recovered.base()?;
        let mut rebuilt = Rebuilt { skipped: base.skipped.clone(), ..Rebuilt::default() };
        let mut names = Names::default();
        if let Some(snapshot) = &base.snapshot {
            rebuilt.snapshot_pairs = load::load(self, snapshot, &mut names)?;
        }
        let replayed = replay::replay(self, recovered, base.from_lsn(), &mut names)?;
        rebuilt.replayed = replayed.groups;
        let mut session = self.trees.heap().session().map_err(IndexError::from)?;
        let own = self.trees.bytes_tree(NAME)?;
        let mut put = |key: &[u8], value: &[u8]| -> Result<()> {
            Ok(own.change(&mut session, key, Change::Upsert(value), |_, _| ())?)
        };
        for (name, number) in &names.numbers {
            put(&own_key(name), &number.to_le_bytes())?;
        }
        put(LAST, &names.last.to_le_bytes())?;
        put(LOGGED, &replayed.bytes.to_le_bytes())?;
        put(MODE, &settings.durability.interval_ms().to_le_bytes())?;
        put(IDENTITY, &identity)?;
        Ok(rebuilt)
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
    let number = record.value.and_then(|value| <[u8; 4]>::try_from(value).ok());
    (String::from_utf8_lossy(record.key).into_owned(), number.map(u32::from_le_bytes))
}

/// Does what a record says.
#[inline]
pub(super) fn apply(
    tree: &BytesTree,
    session: &mut Session<Hardware>,
    key: &[u8],
    value: Option<&[u8]>,
    expiry_ms: u64,
) -> Result<()> {
    let change = value.map_or(Change::Remove, Change::Upsert);
    Ok(tree.change_expiring(session, key, change, expiry_ms, |_, _| ())?)
}
