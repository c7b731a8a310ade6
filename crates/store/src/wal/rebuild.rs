//! Making a pool again from its log: the newest good snapshot, then what was logged behind it.
//!
//! A snapshot is sorted, so its blocks are loaded in pieces of the key range, by several threads, as
//! leaves that are full from the start (`load.rs`). What was logged comes in the order of the LSNs;
//! each thread takes the changes of its share of the keys, so that each key has them in order
//! (`replay.rs`).

use std::collections::{BTreeMap, HashMap};
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use everleaf_index::{
    BytesTree, Change, CreateMode, Hardware, IndexError, Pool, PoolError, PoolOptions, Trees,
    uuid_of,
};
use everleaf_log::{Log, Lsn, Record, RecordEffect, Recovered};

use super::log_directory::{LogDirectory, LogDisk, LogState, Settings};
use super::log_metadata::reached_note;
use super::{
    Durability, IDENTITY, LAST, LOGGED, MODE, NAME, REACHED, io, load, open::log_options, own_key,
    replay,
};
use crate::conversion::from_pool;
use crate::opening::is_lost;
use crate::options::ProgressFn;
use crate::regular_file::open_regular;
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
    /// What was damaged in the log, if it was [salvaged](Options::salvage_log): what was logged behind the
    /// first of it is lost.
    pub damages: Vec<String>,
}

/// Makes the pool at `path` again from its log, beside it, and puts it in its place. It can grow as
/// far as the one that was lost, and its log is kept as it was, unless the options say otherwise.
///
/// Who holds the log looks at the pool again: another process may have made it meanwhile, and have it
/// open.
pub(crate) fn rebuild(
    path: &Path,
    place: &LogDirectory,
    options: &Options,
    threads: usize,
) -> Result<(Pool<Hardware>, Option<Rebuilt>)> {
    if options.salvage_log && !place.is_salvaging()? {
        // A log that is whole is not marked as one that is being salvaged.
        let options = options.clone().salvage_log(false);
        match try_rebuild(path, place, &options, threads) {
            Err(Error::Corrupt(_)) => {}
            done => return done,
        }
    }
    try_rebuild(path, place, options, threads)
}

fn try_rebuild(
    path: &Path,
    place: &LogDirectory,
    options: &Options,
    threads: usize,
) -> Result<(Pool<Hardware>, Option<Rebuilt>)> {
    let disk = place.open()?;
    let existing = PoolOptions {
        create: CreateMode::Never,
        trust_after_machine_crash: false,
        ..options.pool.clone()
    };
    let lost = match Pool::open(path, &existing) {
        Ok(pool) => return Ok((pool, None)),
        Err(error) if is_lost(&error) => error,
        Err(error) => return Err(from_pool(error, path)),
    };
    let LogState::Whole(identity) = place.state()? else {
        return Err(place.mention(from_pool(lost, path), path));
    };
    let settings = place.settings();
    let belongs = belongs(path, &lost, identity, settings);
    if belongs == Some(false) {
        return Err(not_its_pool(&lost, path, place));
    }
    let kept = settings.map_or(Durability::Power, |settings| settings.durability);
    let durability = options.durability.unwrap_or(kept);
    let max_size_bytes = settings.map_or(0, |settings| settings.max_size_bytes);
    let max_size_bytes = max_size_bytes.max(options.pool.max_size_bytes);
    let was_salvaging = place.is_salvaging()?;
    let aside = place.put_aside()?;
    let mut damages = place.begin_salvage(&disk, options.salvage_log)?;
    let reached = place.reached(identity);
    let log_options =
        log_options(identity, durability, options).starts_empty(false).reached(reached);
    let opened = Log::open(disk, &log_options);
    if matches!(opened, Err(everleaf_log::Error::Damaged(_)))
        && !was_salvaging
        && place.put_aside()? == aside
    {
        // Nothing could be salvaged, and nothing was changed.
        place.end_salvage(&place.open()?)?;
    }
    let (log, recovered) = opened.map_err(|error| place.without_end(error.into()))?;
    if damages.is_empty() && recovered.report().damages.is_empty() {
        place.end_salvage(log.disk())?;
    }
    damages.extend_from_slice(&recovered.report().damages);
    let new = crate::new_file::NewFile::beside(path)?;
    let pool_options = PoolOptions {
        create: CreateMode::New,
        read_only: false,
        max_size_bytes,
        // The log knows its pool by it.
        uuid: settings.and_then(|settings| settings.pool),
        ..options.pool.clone()
    };
    let pool = Pool::open(&new.path(), &pool_options).map_err(|error| from_pool(error, path))?;
    let trees = Trees::create(pool)?;
    crate::opening::choose_tree(&trees, options.tree.unwrap_or_else(|| place.tree()))?;
    let settings = Settings { max_size_bytes, durability, pool: Some(trees.heap().pool().uuid()) };
    // A log that was salvaged goes on behind all LSNs that were ever durable, as if the pool had had them.
    let reached = recovered.report().end.max(reached);
    let progress = Progress::new(options.rebuild_progress.clone());
    let filling = Filling { trees: &trees, threads: threads.max(1), progress: &progress };
    let filled = filling.fill(&recovered, (identity, reached), settings)?;
    let rebuilt = Rebuilt { damages, ..filled };
    trees.close()?;
    drop(trees);
    // Before the pool has its name: a log of an older version does not say whose it is, and a crash in
    // between would leave a pool that nobody can place.
    place.write_settings(log.disk(), settings)?;
    // It has nothing new. The next opening ends it properly, should that fail here, for instance
    // because the disk is full.
    let _ = log.close();
    if belongs.is_none() {
        keep_other(path, if uuid_of(path).is_some() { ".replaced" } else { ".no-pool" })?;
    }
    new.replace()?;
    // Held until here, by what was recovered: nobody else makes the pool meanwhile.
    drop(recovered);
    let pool = Pool::open(path, &existing).map_err(|error| from_pool(error, path))?;
    Ok((pool, Some(rebuilt)))
}

/// Whether the log is that of the pool at `path`; `None` if nobody can tell. A log of an older version
/// only tells the pool that it was made for, not one that took its place since.
fn belongs(
    path: &Path,
    lost: &PoolError,
    identity: [u8; 16],
    settings: Option<Settings>,
) -> Option<bool> {
    if matches!(lost, PoolError::Missing { .. } | PoolError::Empty { .. }) {
        return Some(true);
    }
    let uuid = uuid_of(path)?;
    match settings.and_then(|settings| settings.pool) {
        Some(pool) => Some(pool == uuid),
        None => (uuid[..8] == identity[..8]).then_some(true),
    }
}

fn not_its_pool(lost: &PoolError, path: &Path, place: &LogDirectory) -> Error {
    let (path, log) = (path.display(), place.display());
    Error::Corrupt(format!(
        "{lost}; the log in {log} is that of another pool, so {path} is not rebuilt from there, and \
         nothing was changed: move {log} away to open {path} for itself, or move {path} away to make the \
         pool of that log again"
    ))
}

/// Keeps a file under another name of which nothing says that it is the pool of the log, unless there is
/// nothing in it: it may be something else that came to lie there.
fn keep_other(path: &Path, ending: &str) -> Result<()> {
    let cannot = || io(format!("cannot keep {} under another name", path.display()));
    let mut start = vec![];
    let file = open_regular(path).map_err(cannot())?;
    file.take(1 << 16).read_to_end(&mut start).map_err(cannot())?;
    if start.iter().all(|byte| *byte == 0) {
        return Ok(());
    }
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    let numbered = |number: u32| {
        let mut name = name.clone();
        if number > 1 {
            name.push(format!("-{number}"));
        }
        name
    };
    for kept in (1..1000).map(numbered) {
        // A link is refused if there is such a name; both names are the file until it is replaced.
        match std::fs::hard_link(path, &kept) {
            // Durable before the other name is given away.
            Ok(()) => return crate::new_file::sync_name(path).map_err(cannot()),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            // Without hard links: it goes, and what was to replace it comes to its place.
            Err(_) if !Path::new(&kept).exists() => {
                return std::fs::rename(path, &kept).map_err(cannot());
            }
            Err(error) => return Err(cannot()(error)),
        }
    }
    Err(cannot()(ErrorKind::AlreadyExists.into()))
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
        (identity, reached): ([u8; 16], Lsn),
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
            own.change(&mut session, &Change::upsert(key, value))?;
            Ok(())
        };
        for (name, number) in &names.numbers {
            put(&own_key(name), &number.to_le_bytes())?;
        }
        put(LAST, &names.last.to_le_bytes())?;
        put(LOGGED, &replayed.bytes.to_le_bytes())?;
        put(MODE, &settings.durability.interval_ms().to_le_bytes())?;
        put(IDENTITY, &identity)?;
        put(REACHED, &reached_note(identity, reached))?;
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
