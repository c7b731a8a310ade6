//! What opening does besides the trees: the pool, its log, and batches that were cut short.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use everleaf_index::{
    AllocError, BytesTree, CreateMode, Domain, Hardware, IndexError, Journal, Pool, PoolError,
    PoolOptions, Trees,
};

use crate::conversion::{from_new_pool, from_pool, is_lost};
use crate::event::{Event, EventFn};
use crate::maintenance::lost_map::refuse_lost_default;
use crate::maintenance::new_file::{NewFile, remove_leftovers};
use crate::map::reserved::{DEFAULT_MAP, is_reserved};
use crate::shared::Shared;
use crate::wal::{self, LogDirectory, LogState, StoreLog};
use crate::{Durability, Error, Options, Rebuilt, Result};

/// Room that a pool has to have for more, in bytes, to be opened at once: else all of it is restored first.
const ROOM_MIN: u64 = 64 << 20;

/// The maximum of a pool is raised by this at least for a batch that was cut short, in bytes.
const RAISE_MIN: u64 = 1 << 20;
/// How often it is doubled by how much that is. What such a batch needs beside its records are leaves: of short records
/// at most some hundred times as much.
const RAISES_MAX: u32 = 12;

/// A pool that is open, with what is in it.
pub struct OpenedTrees {
    pub trees: Trees,
    /// Batches that were cut short and are at their end now.
    pub recovered_batches: u64,
    /// If it was rebuilt from its log.
    pub rebuilt: Option<Rebuilt>,
    /// Whether it was made just now.
    pub is_new: bool,
}

/// A pool that is open.
struct OpenedPool {
    pool: Pool<Hardware>,
    rebuilt: Option<Rebuilt>,
    is_new: bool,
}

/// Opens the pool, or rebuilds it, and opens what is in it. Where a batch that was cut short has no room, the maximum
/// of the pool is raised.
pub fn open_whole(
    path: &Path,
    place: &LogDirectory,
    options: &Options,
    threads: usize,
) -> Result<OpenedTrees> {
    let OpenedPool { pool, rebuilt, is_new } = open_pool(path, place, options, threads)?;
    if !pool.is_read_only() {
        remove_leftovers(path);
    }
    let (max_size, mut lacking) = (pool.max_size(), None);
    let opened = match (open_trees(pool, threads, path, options, &mut lacking), lacking) {
        (Err(refused), Some(size)) => {
            open_raised(path, options, threads, (refused, max_size, size))
        }
        (opened, _) => opened,
    };
    let (trees, recovered_batches) = opened.map_err(|error| place.mention(error, path))?;
    Ok(OpenedTrees { trees, recovered_batches, rebuilt, is_new })
}

/// Opens a pool with a higher maximum that was refused with what it has, because a batch of so many bytes has no room:
/// its process died while it was made or taken back, and it did not fit. What is made of it takes the room of the rest,
/// and nothing tells any more what it has replaced: so it can only be finished.
fn open_raised(
    path: &Path,
    options: &Options,
    threads: usize,
    (mut refused, max_size, batch_size): (Error, u64, u64),
) -> Result<(Trees, u64)> {
    let (mut more, mut highest) = (batch_size.max(RAISE_MIN), max_size);
    for _ in 0..RAISES_MAX {
        let pool_options = PoolOptions {
            create: CreateMode::Never,
            max_size_bytes: max_size.saturating_add(more),
            ..options.pool.clone()
        };
        // More than that is not to be had.
        let Ok(pool) = Pool::open(path, &pool_options) else { break };
        let mut lacking = None;
        if pool.max_size() <= highest {
            break;
        }
        highest = pool.max_size();
        match (open_trees(pool, threads, path, options, &mut lacking), lacking) {
            (Err(error), Some(_)) => refused = error,
            (opened, _) => {
                options.events.tell(&Event::MaximumRaised(highest));
                return opened;
            }
        }
        more = more.saturating_mul(2);
    }
    // It stays, though it was in vain.
    if highest > max_size {
        options.events.tell(&Event::MaximumRaised(highest));
    }
    Err(refused)
}

/// Opens the pool; if the machine crashed and there is a log, rebuilds it from there.
fn open_pool(
    path: &Path,
    place: &LogDirectory,
    options: &Options,
    threads: usize,
) -> Result<OpenedPool> {
    let state = place.state();
    let has_none = matches!(state, Ok(LogState::Absent | LogState::Incomplete));
    // Not to be made as if there had been nothing.
    let create = if has_none { options.pool.create } else { CreateMode::Never };
    let pool_options = PoolOptions {
        create: CreateMode::Never,
        // What is torn need not be trusted if there is a log.
        trust_after_machine_crash: options.pool.trust_after_machine_crash && has_none,
        ..options.pool.clone()
    };
    let mut is_new = false;
    if options.pool.create == CreateMode::New {
        if path.symlink_metadata().is_ok() {
            return Err(Error::AlreadyExists(path.into()));
        }
        if create == CreateMode::New {
            make_pool(path, options)?;
            is_new = true;
        }
    }
    let mut opened = Pool::open(path, &pool_options);
    if matches!(opened, Err(PoolError::Missing { .. })) && create == CreateMode::IfMissing {
        match make_pool(path, options) {
            Ok(()) => is_new = true,
            // Another was faster: then it is there to be opened.
            Err(Error::AlreadyExists(_)) => {}
            Err(error) => return Err(error),
        }
        opened = Pool::open(path, &pool_options);
    }
    let error = match opened {
        Ok(pool) => return Ok(OpenedPool { pool, rebuilt: None, is_new }),
        Err(error) => error,
    };
    match state? {
        LogState::Absent | LogState::Incomplete => Err(from_pool(error, path)),
        LogState::Unexplained(owners) if is_lost(&error) => Err(place.unexplained(&owners)),
        LogState::Unexplained(_) => Err(from_pool(error, path)),
        LogState::Whole(_) if !is_lost(&error) => Err(place.mention(from_pool(error, path), path)),
        LogState::Whole(_) => {
            refuse_rebuilding(&error, place, options)?;
            let (pool, rebuilt) = wal::rebuild(path, place, options, threads)?;
            if let Some(rebuilt) = &rebuilt {
                options.events.tell(&Event::Rebuilt(rebuilt));
            }
            Ok(OpenedPool { pool, rebuilt, is_new: false })
        }
    }
}

/// Makes a new pool, which has its name when it is whole: with the default map in it, closed, and
/// knowing how it is to be opened.
fn make_pool(path: &Path, options: &Options) -> Result<()> {
    if options.pool.read_only {
        let action = "create it";
        return Err(from_pool(PoolError::ReadOnly { path: path.into(), action }, path));
    }
    let new = NewFile::beside(path)?;
    let pool_options = PoolOptions { create: CreateMode::New, ..options.pool.clone() };
    let refused = |error| from_new_pool(error, path);
    let pool = Pool::open(&new.path(), &pool_options).map_err(|e| refused(e.into()))?;
    let is_ordinary = pool.medium().domain() == Domain::Process;
    let trees = options.make_trees(pool).map_err(refused)?;
    options.tree.unwrap_or_default().choose_for(&trees).map_err(refused)?;
    trees.bytes_tree(DEFAULT_MAP).map_err(refused)?;
    let ordinary = options.durability_of_new.filter(|_| is_ordinary);
    if let Some(durability) = options.durability.or(ordinary) {
        wal::note_durability(&trees, durability)?;
    }
    trees.close()?;
    drop(trees);
    new.place_for_owner()
}

/// Whether nothing was ever done with a pool since it was made: another process may have opened it first.
pub fn is_untouched(trees: &Trees, place: &LogDirectory) -> bool {
    let untouched = || -> Result<bool> {
        let is_default = trees.names().iter().all(|name| is_reserved(name) || name == DEFAULT_MAP);
        let mut session = trees.heap().session().map_err(IndexError::from)?;
        let tree = trees.find_bytes_tree(DEFAULT_MAP)?;
        let is_empty = tree.is_some_and(|tree| tree.len(&mut session).is_ok_and(|keys| keys == 0));
        Ok(is_default && is_empty && wal::log_identity(trees, place)?.is_none())
    };
    untouched().unwrap_or(false)
}

/// Removes a pool that was made just now, and what there is of its log, because that cannot be made: a caller that
/// asked for both is not left with one. We have the pool open, so that no other has; what cannot be removed stays, and
/// can be opened.
pub fn remove_new(path: &Path, place: &LogDirectory) {
    // The log first: as soon as the pool has lost its name, another may make one, with a log in the same place.
    let _ = place.remove();
    let _ = std::fs::remove_file(path);
}

/// [`remove_new`] of a store whose threads cannot be started, given if it is new: its log is let go, so that it can be
/// removed, and its pool is held until then.
pub fn remove_unstarted(new: Option<Arc<Shared>>, path: &Path, place: &LogDirectory) {
    if let Some(mut shared) = new.and_then(Arc::into_inner) {
        drop(shared.log.take());
        remove_new(path, place);
    }
}

/// Refuses to put a new pool at `path`, or where a link of that name leads to, beside a log that is not its own.
///
/// # Errors
/// There is such a log; what the file system answers.
pub fn refuse_log_beside(path: &Path) -> Result<()> {
    let path = &resolved(path);
    LogDirectory::of(path, &Options::new()).refuse_other(path)
}

/// Refuses to rebuild a pool if that is not what was asked for.
fn refuse_rebuilding(error: &PoolError, place: &LogDirectory, options: &Options) -> Result<()> {
    let log = place.display();
    let how = if options.pool.read_only {
        "open it for writing once (for instance with `everleaf snapshot`), which rebuilds the pool \
         from there"
    } else if options.durability == Some(Durability::Process) {
        "open the store with durability power or interval to rebuild the pool from there"
    } else if options.pool.create == CreateMode::New {
        "open it instead of creating it, which rebuilds the pool from there, or move the log away"
    } else {
        return Ok(());
    };
    // Not what helps a pool without a log: an older backup, a new pool, or an option that is ignored beside a log.
    let what = error.finding();
    Err(Error::MachineCrashed(format!("{what}; the log in {log} has what was synced: {how}")))
}

/// Opens the log, if there is to be one, and the default map. A pool that is refused for one of them is
/// left as it was found: cleanly closed, if it was.
pub fn open_rest(
    trees: &Trees,
    place: &LogDirectory,
    options: &Options,
    path: &Path,
) -> Result<(Option<StoreLog>, Arc<BytesTree>)> {
    let last = wal::last_number(trees);
    let tree = || trees.find_bytes_tree(DEFAULT_MAP)?.ok_or_else(|| unmade(path));
    let mut lacks = false;
    let opened =
        tree().and_then(|tree| Ok((open_log(trees, place, options, path, &mut lacks)?, tree)));
    if opened.is_err() {
        wal::leave_refused(trees, last, lacks);
    }
    opened
}

/// Opens the log, if there is to be one; a log that there was and is not to be is forgotten.
fn open_log(
    trees: &Trees,
    place: &LogDirectory,
    options: &Options,
    path: &Path,
    lacks: &mut bool,
) -> Result<Option<StoreLog>> {
    if options.pool.read_only {
        return wal::refuse_stale(trees, place).map(|()| None);
    }
    let durability = match options.durability {
        Some(durability) => durability,
        None => match (wal::last_durability(trees)?, options.interval_of_last) {
            (Durability::Interval(_), Some(interval)) => Durability::Interval(interval),
            (last, _) => last,
        },
    };
    if durability != Durability::Process {
        let log = StoreLog::open(trees, place, durability, options, lacks)?;
        if !log.owes_snapshot() && log.is_long(options.snapshot_after_bytes) {
            // Lives that are too short for the thread that does it otherwise add up to this. It may
            // fail: then the log is longer than it should be.
            let mut session = trees.heap().session().map_err(IndexError::from)?;
            // That it failed tells the thread, which tries it again.
            if let Ok(pairs) = log.snapshot(trees, &mut session) {
                // Only evidence: the next closing says it again.
                let _ = log.note_reached(&mut session);
                options.events.tell(&Event::Snapshot(pairs));
            }
        }
        return Ok(Some(log));
    }
    if wal::log_identity(trees, place)?.is_some() {
        // What only the log has is not removed with it.
        wal::refuse_stale(trees, place)?;
    }
    if trees.find_bytes_tree(wal::NAME)?.is_some() {
        // What the log alone made durable must be so without it: a process that was killed has not written the pool
        // to the disk.
        write_back(path).inspect_err(|_| trees.heap().pool().note_failed_write())?;
        // What is written from now on is not in it, nor in another copy of it that turns up later.
        trees.heap().pool().note_log(wal::NO_LOG).map_err(IndexError::from)?;
        place.remove()?;
        trees.remove(wal::NAME)?;
    }
    Ok(None)
}

/// Has everything written to the disk that the pool holds, whatever process stored it.
fn write_back(path: &Path) -> Result<()> {
    let written = std::fs::File::open(path).and_then(|file| file.sync_data());
    written
        .map_err(|error| Error::Io(format!("cannot write {} to the disk", path.display()), error))
}

/// Opens what is in a pool, and brings batches to their end that were cut short; returns how many. `lacking` becomes
/// how many bytes these have if the pool has no room for them.
fn open_trees(
    pool: Pool<Hardware>,
    threads: usize,
    path: &Path,
    options: &Options,
    lacking: &mut Option<u64>,
) -> Result<(Trees, u64)> {
    let is_read_only = pool.is_read_only();
    refuse_lost_default(&pool, path)?;
    let open = if options.open_at_once { Trees::open_at_once } else { Trees::open };
    let trees = match open(pool, threads) {
        Err(IndexError::ReadOnly) => return Err(unmade(path)),
        opened => opened?,
    };
    let whole = match options.pool.trust_after_machine_crash {
        // What was written back of map and note need not fit together.
        true => Ok(()),
        false => wal::refuse_lost_maps(&trees, path),
    };
    if trees.heap().pool().max_size().saturating_sub(trees.heap().used_bytes()) < ROOM_MIN {
        // What is free among what opening has left is wanted soon, and what is done next must not fail for want of it.
        trees.reclaim_opening();
    }
    let finished = whole.and_then(|()| finish_batches(&trees, &options.events, lacking));
    let opened = finished.and_then(|finished| {
        if !is_read_only {
            trees.bytes_tree(DEFAULT_MAP)?;
        }
        Ok(finished)
    });
    if opened.is_err() {
        wal::leave_refused(&trees, wal::last_number(&trees), false);
    }
    opened.map(|finished| (trees, finished))
}

/// The error for a pool of which only the header was made: an older version was killed meanwhile.
pub fn unmade(path: &Path) -> Error {
    let path = path.display();
    Error::NotAPool(format!(
        "{path} holds no map yet, because its making was cut short: open it for writing once, or delete \
         it; nothing was ever stored in it"
    ))
}

/// The file that a path leads to: a pool has one log, whatever link it is opened by.
pub fn resolved(path: &Path) -> PathBuf {
    let is_link = |path: &Path| path.symlink_metadata().is_ok_and(|found| found.is_symlink());
    let mut file = path.to_path_buf();
    // As many as the kernel follows.
    for _ in 0..40 {
        let Some(to) = std::fs::read_link(&file).ok().filter(|_| is_link(&file)) else { break };
        file = file.parent().map_or_else(|| to.clone(), |folder| folder.join(&to));
    }
    let log_of = |path: &Path| {
        let mut name = path.as_os_str().to_owned();
        name.push(".log");
        PathBuf::from(name)
    };
    // Older versions kept the log beside the link.
    match is_link(path) && log_of(path).exists() && !log_of(&file).exists() {
        true => path.to_path_buf(),
        false => file,
    }
}

/// Brings batches that were cut short to their end. Returns how many. `lacking` becomes their bytes if the pool is at
/// its maximum size, and has no room for them.
fn finish_batches(trees: &Trees, events: &EventFn, lacking: &mut Option<u64>) -> Result<u64> {
    let Some(journal) = Journal::find(trees)? else { return Ok(0) };
    let mut session = trees.heap().session().map_err(IndexError::from)?;
    if trees.heap().pool().is_read_only() {
        return match journal.pending(&mut session)? {
            0 => Ok(0),
            _ => Err(Error::Unfinished),
        };
    }
    let tell = &mut |damage: IndexError| events.tell(&Event::BatchLeft(&damage.into()));
    let redone = match journal.recover(trees, &mut session, tell) {
        // As on a full disk. What is done of it may be done again.
        Err(error) if error.lacks_space() && trees.is_opening() => {
            session.give_back();
            trees.reclaim_opening();
            journal.recover(trees, &mut session, tell)
        }
        done => done,
    };
    if let Err(IndexError::Alloc(AllocError::Pool(PoolError::PoolFull { .. }))) = redone {
        *lacking = Some(journal.pending_size(&mut session)?);
    }
    Ok(redone? as u64)
}

#[cfg(test)]
#[path = "../tests/processes/damage/cut_short.rs"]
mod cut_short;

#[cfg(test)]
mod tests {
    use everleaf_index::{Change, human_size};

    use super::*;
    use crate::Expiry;

    /// What was lost: a process that made a new pool as soon as the name was free again lost its log, which went last.
    #[test]
    fn the_log_of_a_refused_pool_goes_while_the_pool_has_its_name() {
        let folder = tempfile::tempdir().expect("a folder");
        // A name that cannot be removed as that of a file: nobody can make a pool there.
        let path = folder.path().join("pool");
        std::fs::create_dir(&path).expect("a folder");
        let place = LogDirectory::of(&path, &Options::new());
        let disk = place.open().expect("a log");
        place.begin(&disk).expect("room");
        drop(disk);
        remove_new(&path, &place);
        assert!(path.exists());
        assert!(!folder.path().join("pool.log").exists());
    }

    /// What was told: to restore a backup, or to give an option that is ignored beside a log.
    #[test]
    fn no_refusal_beside_a_log_has_the_advice_for_one_without() {
        let path = || PathBuf::from("words");
        let crashed = PoolError::MachineCrashed {
            path: path(),
            evidence: "it was open in another boot",
            is_certain: true,
        };
        let found = [
            (crashed, "in another boot"),
            (
                PoolError::Damaged { path: path(), offset: 64, what: "a root".into() },
                "at offset 64: a root",
            ),
            (PoolError::Truncated { path: path(), length: 1, needed: 2048 }, "must have 2 KiB"),
            (PoolError::Missing { path: path() }, "there is no pool words"),
            (PoolError::Empty { path: path() }, "words is an empty file"),
        ];
        let options = Options::new().read_only(true);
        let place = LogDirectory::of(&path(), &options);
        for (error, finding) in found {
            let refused = refuse_rebuilding(&error, &place, &options).expect_err("only to be read");
            let told = refused.to_string();
            assert!(
                told.contains(finding) && told.contains("; the log in words.log has"),
                "{told}"
            );
            for advice in ["--trust", "backup", "`everleaf repair`", "create"] {
                assert!(!told.contains(advice), "{told}");
            }
        }
    }

    /// What was lost: the whole pool, which was refused because a batch that was cut short could not write a damaged
    /// record again.
    #[test]
    fn a_damaged_record_of_a_batch_that_was_cut_short_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pool");
        let options = || Options::new().create(true).max_size_bytes(1 << 26).sweep(false);
        let store = options().open(&path).expect("it opens");
        let map = store.default_map();
        let _ = map.put("key", "a value that will be damaged").expect("room");
        let _ = map.put("other", "value").expect("room");
        store.close().expect("it closes");
        cut_short::leave_batch(&path, &[b"key", b"other"], 1 << 42);
        cut_short::damage(&path, b"will be damaged");
        let (tell, told) = std::sync::mpsc::channel();
        let options = options().verify_reads(true);
        let options = options.events(move |event| drop(tell.send(event.to_string())));
        let store = options.open(&path).expect("one damaged record is no reason to refuse all");
        let told = told.try_recv().expect("it was told");
        assert!(told.contains("could not be finished") && told.contains("'key'"), "{told}");
        assert_eq!(store.statistics().recovered_batches, 1);
        let map = store.default_map();
        assert!(matches!(map.get("key"), Err(Error::Corrupt(_))));
        let later = Expiry::from_unix_ms(1 << 42);
        assert_eq!(map.expiry("other").expect("readable"), Some(later));
    }

    /// Leaves a batch of puts in the journal of a pool that nobody has open, and fills the pool: as if its process had
    /// died while it took the batch back, for which there was no room.
    fn leave_puts_in_full_pool(pool: &Path, pairs: &[(Vec<u8>, Vec<u8>)]) {
        let opened = Pool::open(pool, &PoolOptions::default()).expect("it opens");
        let trees: Trees = Trees::open(opened, 1).expect("it is sound");
        let map = trees.find_bytes_tree(DEFAULT_MAP).expect("of bytes").expect("it is there");
        let mut session = trees.heap().session().expect("one is free");
        let id = map.id(&mut session).expect("it is there");
        // How many changes; of each the tree, the sizes, no time, key and value.
        let mut changes = (pairs.len() as u32).to_le_bytes().to_vec();
        for (key, value) in pairs {
            let sizes = [id, key.len() as u32, value.len() as u32].map(u32::to_le_bytes);
            changes.extend([&sizes.concat(), &[0; 8][..], key, value].concat());
        }
        cut_short::enter_batch(&trees, &changes);
        let mut numbers = 0_u32..;
        for size in (0..1000).rev().step_by(4) {
            let mut put = |number: u32| {
                map.change(&mut session, &Change::insert(&number.to_be_bytes(), &vec![9; size]))
            };
            let _ = numbers.find(|number| put(*number).is_err());
        }
        drop(session);
        trees.close().expect("it closes");
    }

    /// What was lost: the whole pool. A batch that did not fit was being taken back when its process died; it was to be
    /// finished at each opening, and there was no room for it.
    #[test]
    fn a_batch_that_does_not_fit_is_finished_with_more_room() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pool");
        let options = || Options::new().sweep(false);
        let new = options().create(true).max_size_bytes(2 << 20);
        new.open(&path).expect("it opens").close().expect("it closes");
        let pairs: Vec<(Vec<u8>, Vec<u8>)> =
            (0..500_u32).map(|n| (format!("new {n}").into_bytes(), vec![7; 700])).collect();
        leave_puts_in_full_pool(&path, &pairs);
        let (tell, told) = std::sync::mpsc::channel();
        let listening = options().events(move |event| drop(tell.send(event.to_string())));
        let store = listening.open(&path).expect("a full pool opens");
        assert_eq!(store.statistics().recovered_batches, 1);
        let text = told.try_recv().expect("it was told");
        let max_size = store.statistics().pool_max_bytes;
        assert!(text.contains("raised to") && text.contains(&human_size(max_size)), "{text}");
        assert!((3 << 20..=4 << 20).contains(&max_size), "{max_size}");
        for (key, value) in &pairs {
            assert_eq!(store.default_map().get(key).expect("get").as_ref(), Some(value));
        }
        assert_eq!(store.check().expect("a check").problems, Vec::<String>::new());
        store.close().expect("it closes");
        // Once.
        let store = options().open(&path).expect("it opens");
        assert_eq!(store.statistics().pool_max_bytes, max_size);
    }
}
