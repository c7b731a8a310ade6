//! Rebuilding a pool from its log: the newest good snapshot, then what was logged behind it.
//!
//! A snapshot is sorted, so its blocks are loaded in partitions of the key range, by several threads, as
//! leaves that are full from the start (`load.rs`). What was logged comes in the order of the LSNs;
//! each thread takes the changes of its share of the keys, so that each key has them in order
//! (`replay.rs`).

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use everleaf_index::{
    Change, CreateMode, Hardware, IndexError, Pool, PoolError, PoolOptions, human_size, uuid_of,
};
use everleaf_log::{Disk, Log, Lsn, Recovered};

use super::age;
use super::filling::{Filling, Names, Progress};
use super::log_directory::{Identity, LogDirectory, LogState, Settings};
use super::log_folder::LogDisk;
use super::log_metadata::reached_note;
use super::metadata_keys::{IDENTITY, LAST, LOGGED, MODE, NAME, REACHED, map_key};
use super::open::log_options;
use super::{load, replay};
use crate::conversion::{from_pool, is_lost};
use crate::maintenance::kept_file::{keep_newest, kept_already};
use crate::maintenance::new_file::NewFile;
use crate::rebuilt::Rebuilt;
use crate::{Durability, Error, Options, Result, Tree};

/// The ending of a pool that was replaced and is kept, and that of a file that is no pool.
const REPLACED: &str = ".replaced";
const NO_POOL: &str = ".no-pool";

/// Rebuilds the pool at `path` from its log, beside it, and puts it in its place. It can grow as
/// far as the one that was lost, and its log is kept as it was, unless the options say otherwise.
///
/// A process that holds the log looks at the pool again: another process may have made it meanwhile, and have it
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
    place.refuse_unreadable()?;
    let (settings, tree) = (place.settings()?, place.tree()?);
    let reached = place.reached(identity)?;
    let belongs = belongs(path, &lost, identity, settings);
    if !disk.mutant("store.rebuilds_from_any") {
        refuse_other(belongs, &lost, (path, place), identity)?;
    }
    let kept = settings.map_or(Durability::Power, |settings| settings.durability);
    let durability = options.durability.unwrap_or(kept);
    let was_salvaging = place.is_salvaging()?;
    let aside = place.put_aside()?;
    let mut damages = place.begin_salvage(&disk, options.salvage_log)?;
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
    let lacks = was_salvaging || !damages.is_empty();
    let is_kept = is_kept(belongs, &lost, settings.filter(|_| !lacks));
    let new = NewFile::beside(path)?;
    let building = Building { path, options, settings, tree, durability, reached, threads };
    let built = building.build(&new, (identity, log.disk()), &recovered);
    let (filled, settings) = built.map_err(|error| {
        let has_all = !is_kept && !lacks && recovered.replay_start().is_ok();
        with_way_to_space(error, (path, place), has_all)
    })?;
    let mut rebuilt = Rebuilt { damages, ..filled };
    // Before the log says anything else of its durability: should this process die, the next one keeps it, too.
    if is_kept {
        rebuilt.kept = keep_newest(path, if uuid_of(path).is_some() { REPLACED } else { NO_POOL })?;
    }
    // Before the pool has its name: a log of an older version does not say whose it is, and a crash in
    // between would leave a pool that nobody can place.
    place.write_settings(log.disk(), settings)?;
    // It has nothing new. The next opening ends it properly, should that fail here, for instance
    // because the disk is full.
    let _ = log.close();
    new.replace_beside(place.path())?;
    // Held until here, by what was recovered: nobody else makes the pool meanwhile.
    drop(recovered);
    let pool = Pool::open(path, &existing).map_err(|error| from_pool(error, path))?;
    Ok((pool, Some(rebuilt)))
}

/// What a pool is to be like that is made from its log.
struct Building<'a> {
    path: &'a Path,
    options: &'a Options,
    settings: Option<Settings>,
    tree: Tree,
    durability: Durability,
    reached: Lsn,
    threads: usize,
}

impl Building<'_> {
    /// Makes the pool, closed. Returns what was done, and what its log is to say of it.
    fn build(
        &self,
        new: &NewFile,
        (identity, disk): (Identity, &LogDisk),
        recovered: &Recovered<LogDisk>,
    ) -> Result<(Rebuilt, Settings)> {
        let Building { path, options, durability, .. } = *self;
        let max_size_bytes = size_limit(self.settings, options);
        let pool_options = PoolOptions {
            create: CreateMode::New,
            read_only: false,
            max_size_bytes,
            // The log knows its pool by it.
            uuid: self.settings.and_then(|settings| settings.pool),
            ..options.pool.clone()
        };
        let pool =
            Pool::open(&new.path(), &pool_options).map_err(|error| from_pool(error, path))?;
        let trees = options.make_trees(pool)?;
        options.tree.unwrap_or(self.tree).choose_for(&trees)?;
        let pool = Some(trees.heap().pool().uuid());
        let settings = Settings { max_size_bytes, durability, pool };
        // A log that was salvaged goes on behind all LSNs that were ever durable, as if the pool had had them.
        let reached = recovered.report().end.max(self.reached);
        let progress = Progress::new(options.rebuild_progress.clone());
        let filling = Filling::new(&trees, self.threads, &progress, options, disk);
        let filled = fill(filling, recovered, (identity, reached), settings)?;
        trees.close()?;
        Ok((filled, settings))
    }
}

/// Adds what helps to the error of a pool that cannot be rebuilt as long as it was, since threads that fill one keep
/// space for themselves, and to that of a disk without room for the new pool: how the file that is in its place is put
/// out of the way, for another disk, or, if the log was read and has all that the file is relied on for, for good.
fn with_way_to_space(error: Error, (path, place): (&Path, &LogDirectory), has_all: bool) -> Error {
    if let Error::PoolFull(what) = &error {
        let (log, path) = (place.display(), path.display());
        let otherwise = match has_all {
            true => String::new(),
            false => format!("; do not remove {path}, since it may have what {log} has not"),
        };
        return Error::PoolFull(format!(
            "{what}; nothing can be removed before the pool is rebuilt from {log}: raise the maximum{otherwise}"
        ));
    }
    let Ok(found) = path.symlink_metadata() else { return error };
    let is_in_the_way = found.is_file() && found.blocks() > 0;
    let (Error::DiskFull(what), true) = (&error, is_in_the_way) else { return error };
    let (log, size) = (place.display(), human_size(found.len()));
    // An earlier attempt may have kept it, and then the file is still there when one name is gone.
    let kept = [REPLACED, NO_POOL].into_iter().flat_map(|ending| kept_already(path, ending));
    let names = std::iter::once(path.to_path_buf()).chain(kept);
    let quote = |name: PathBuf| format!("'{}'", name.display().to_string().replace('\'', r"'\''"));
    let quoted = names.map(quote).collect::<Vec<_>>().join(" ");
    let freed = human_size(512 * found.blocks());
    let otherwise = match has_all {
        true => format!(
            " or, where there is no other disk, `rm -- {quoted}`: {log} was read, and has all that was acknowledged, \
             but is the only one that has it then"
        ),
        false => format!("; do not remove it, since it may have what {log} has not"),
    };
    Error::DiskFull(format!(
        "{what}; the pool is rebuilt from {log} beside the file that is there, for which about {size} must be free: \
         `mv -- {quoted} FOLDER`, with a folder of another disk, frees {freed}, and the next opening rebuilds the \
         pool{otherwise}"
    ))
}

/// How long a rebuilt pool may become: what it could before, or more if that is asked for.
fn size_limit(settings: Option<Settings>, options: &Options) -> u64 {
    settings.map_or(0, |settings| settings.max_size_bytes).max(options.pool.max_size_bytes)
}

/// Whether the file that is replaced is kept: unless there is none, or it is shown that it is the log's own pool and
/// has nothing more. A log that is synced at intervals lacks the last ones: if the process was killed, and the machine
/// started anew in order behind it, the pool has all, and also of one that is damaged `repair` reads what is left.
/// A log that does not say how it was synced may be such a one, and one of which something is lost is not asked. And
/// whether the machine crashed is not always known.
fn is_kept(belongs: Option<bool>, lost: &PoolError, settings: Option<Settings>) -> bool {
    let has_all = settings.is_some_and(|it| matches!(it.durability, Durability::Power));
    match lost {
        PoolError::Missing { .. } | PoolError::Empty { .. } => false,
        PoolError::MachineCrashed { is_certain: false, .. } => true,
        _ => belongs.is_none() || !has_all,
    }
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

/// Refuses a log that is another pool's, and one that the pool does not name.
fn refuse_other(
    belongs: Option<bool>,
    lost: &PoolError,
    (path, place): (&Path, &LogDirectory),
    identity: [u8; 16],
) -> Result<()> {
    match belongs {
        Some(false) => Err(not_its_pool(lost, path, place)),
        _ => age::refuse_other_log(path, place, identity),
    }
}

fn not_its_pool(lost: &PoolError, path: &Path, place: &LogDirectory) -> Error {
    let (lost, path, log) = (lost.finding(), path.display(), place.display());
    Error::Corrupt(format!(
        "{lost}; the log in {log} is that of another pool, so {path} is not rebuilt from there, and \
         nothing was changed: move {log} away to open {path} for itself, or move {path} away to make the \
         pool of that log again"
    ))
}

/// Makes the maps of a pool from the newest good snapshot and the log behind it.
fn fill(
    filling: Filling<'_>,
    recovered: &Recovered<LogDisk>,
    (identity, reached): ([u8; 16], Lsn),
    settings: Settings,
) -> Result<Rebuilt> {
    let start = recovered.replay_start()?;
    let mut rebuilt = Rebuilt { skipped: start.skipped.clone(), ..Rebuilt::default() };
    let mut names = Names::default();
    if let Some(snapshot) = &start.snapshot {
        rebuilt.snapshot_pairs = load::load(filling, snapshot, &mut names)?;
    }
    let replayed = replay::replay(filling, recovered, start.from_lsn(), &mut names)?;
    rebuilt.replayed = replayed.groups;
    let mut session = filling.trees.heap().session().map_err(IndexError::from)?;
    let own = filling.trees.bytes_tree(NAME)?;
    let mut put = |key: &[u8], value: &[u8]| -> Result<()> {
        own.change(&mut session, &Change::upsert(key, value))?;
        Ok(())
    };
    for (name, number) in &names.numbers {
        put(&map_key(name), &number.to_le_bytes())?;
    }
    put(LAST, &names.last.to_le_bytes())?;
    put(LOGGED, &replayed.bytes.to_le_bytes())?;
    put(MODE, &settings.durability.interval_ms().to_le_bytes())?;
    put(IDENTITY, &identity)?;
    put(REACHED, &reached_note(identity, reached))?;
    Ok(rebuilt)
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    /// What was told: to remove something, from a pool that is not there until it was rebuilt.
    #[test]
    fn a_pool_that_does_not_fit_again_needs_a_larger_maximum() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pool");
        let place = LogDirectory::of(&path, &Options::new());
        for has_all in [true, false] {
            let full = Error::PoolFull("pool is full: remove something".into());
            let told = with_way_to_space(full, (&path, &place), has_all).to_string();
            let rebuilt = "before the pool is rebuilt from";
            assert!(told.contains(rebuilt) && told.contains("raise the maximum"), "{told}");
            assert_eq!(told.contains("do not remove"), !has_all, "{told}");
        }
    }

    /// What was told: to move the pool away, which freed nothing where an earlier attempt had kept it.
    #[test]
    fn all_names_of_a_file_that_is_in_the_way_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pool");
        let place = LogDirectory::of(&path, &Options::new());
        std::fs::write(&path, [7; 5000]).unwrap();
        std::fs::write(folder.path().join("pool.replaced"), "another").unwrap();
        let told = || {
            let full = Error::DiskFull("no room".into());
            with_way_to_space(full, (&path, &place), true).to_string()
        };
        let (name, kept) = (path.display(), folder.path().join("pool.replaced-2"));
        let kept_name = kept.display();
        assert!(told().contains(&format!("`mv -- '{name}' FOLDER`")), "{}", told());
        std::fs::hard_link(&path, &kept).unwrap();
        let told = told();
        for command in [
            format!("`mv -- '{name}' '{kept_name}' FOLDER`"),
            format!("`rm -- '{name}' '{kept_name}'`"),
        ] {
            assert!(told.contains(&command), "{told}");
        }
    }

    /// What was taken for a pool that says nothing of its log: one that cannot be opened or read at this moment. So the
    /// log of another pool passed for its own.
    #[test]
    fn a_pool_that_cannot_be_read_now_may_have_another_log() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pool");
        let place = LogDirectory::of(&path, &Options::new());
        let refused = || age::refuse_other_log(&path, &place, [5; 16]);
        assert!(refused().is_ok(), "there is none");
        std::fs::write(&path, "short").unwrap();
        assert!(refused().is_ok(), "it says nothing");
        // A file that cannot be opened, and one of which the beginning cannot be read.
        for (target, errno) in [("pool", Errno::LOOP), ("/proc/self/mem", Errno::IO)] {
            std::fs::remove_file(&path).unwrap();
            std::os::unix::fs::symlink(target, &path).unwrap();
            match refused() {
                Err(Error::Io(_, error)) => assert_eq!(Errno::from_io_error(&error), Some(errno)),
                other => panic!("{target}: {other:?}"),
            }
        }
    }
}
