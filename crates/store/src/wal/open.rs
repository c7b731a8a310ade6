//! Opening the log of a pool that can be trusted, or making one.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use everleaf_index::{BytesTree, Change, Hardware, IndexError, Session, Trees};
use everleaf_log::{Disk, Error as LogError, Log, LogOptions, Lsn, Recovered, SyncMode};

use super::log_directory::{Identity, LogDirectory, LogState, Settings};
use super::log_folder::LogDisk;
use super::log_metadata::{log_identity, new_identity, older_than_its_log, refuse_integers};
use super::metadata_keys::{IDENTITY, LOGGED, MODE, NAME, map_key};
use super::{OPENED, StoreLog, age, live_maps};
use crate::event::Event;
use crate::map::reserved::DEFAULT_MAP;
use crate::ranked::{Rank, RankedMutex};
use crate::{Durability, Error, Options, Result, Tree};

type OpenResult = std::result::Result<(Log<LogDisk>, Recovered<LogDisk>), LogError>;

/// A log as it was found.
struct Found {
    log: Log<LogDisk>,
    /// Whether it lacks what the pool has: its end, or what was damaged.
    is_cut: bool,
    was_owing: bool,
}

/// What is opened, and how.
struct Opening<'a> {
    trees: &'a Trees,
    directory: &'a LogDirectory,
    durability: Durability,
    options: &'a Options,
    metadata: Arc<BytesTree>,
    identity: Identity,
    /// Whether the pool had this log before.
    is_known: bool,
    /// Whether the file is missing that says that the log is whole.
    is_unsaid: bool,
    /// Whether the pool was not closed, and may have what the log has not.
    owes: bool,
}

pub(super) fn log_options(
    identity: [u8; 16],
    durability: Durability,
    options: &Options,
) -> LogOptions {
    let mode = match durability {
        Durability::Interval(interval) => SyncMode::Interval(interval),
        _ => SyncMode::Sync,
    };
    let log_options = LogOptions::new(identity).sync_mode(mode).salvage(options.salvage_log);
    // A simulated run says itself when it is time.
    let log_options = log_options.background_thread(!options.is_simulated());
    match options.segment_size_bytes {
        0 => log_options,
        size => log_options.segment_size_bytes(size),
    }
}

impl StoreLog {
    /// Opens the log of a pool that can be trusted, or makes one. `lacks` becomes true if the log then
    /// lacks what the pool has, until this has returned a log.
    pub fn open(
        trees: &Trees,
        directory: &LogDirectory,
        durability: Durability,
        options: &Options,
        lacks: &mut bool,
    ) -> Result<StoreLog> {
        // Before anything is made that looks as if the log were its own.
        let known = log_identity(trees, directory)?;
        known.map_or(Ok(()), |_| directory.refuse_unreadable())?;
        refuse_integers(trees)?;
        let mut session = trees.heap().session().map_err(IndexError::from)?;
        let metadata = trees.bytes_tree(NAME)?;
        let disk = directory.open()?;
        if known.is_none() {
            directory.begin(&disk)?;
        }
        let owes_none = disk.mutant("store.owes_no_snapshot");
        let opening = Opening {
            trees,
            directory,
            durability,
            options,
            metadata,
            identity: known.unwrap_or_else(|| new_identity(trees)),
            is_known: known.is_some(),
            is_unsaid: known.is_some() && matches!(directory.state()?, LogState::Unexplained(_)),
            owes: !trees.heap().pool().was_clean() && !owes_none,
        };
        let Some(found) = opening.find(disk, &mut session)? else {
            directory.begin(&directory.open()?)?;
            return Self::open(trees, directory, durability, options, lacks);
        };
        *lacks = found.is_cut;
        opening.complete(found, &mut session)
    }

    /// Notes durably which tree the maps are in of a pool that is rebuilt from the log.
    pub fn note_tree(&self, tree: Tree) -> Result<()> {
        self.directory.write_tree(self.log.disk(), tree)
    }

    /// Goes on counting what is logged where earlier lives have ended.
    fn go_on_counting(&self, session: &mut Session<Hardware>) -> Result<()> {
        let logged = self.metadata.get_with(session, LOGGED, |bytes| {
            let (words, _) = bytes.as_chunks::<8>();
            [0, 1, 2].map(|index| words.get(index).map_or(0, |word| u64::from_le_bytes(*word)))
        })?;
        let [bytes, files, openings] = logged.unwrap_or_default();
        // Relaxed: nobody else is here yet.
        self.bytes.store(bytes, Ordering::Relaxed);
        // Relaxed: as `bytes`. It may be less than nothing.
        self.stored_before.store(0_u64.wrapping_sub(files), Ordering::Relaxed);
        // Relaxed: as `bytes`.
        self.openings.store(openings.saturating_add(1), Ordering::Relaxed);
        Ok(())
    }

    /// Gives every map its number.
    fn number_all(&self, trees: &Trees, session: &mut Session<Hardware>) -> Result<()> {
        let mut last = 0;
        self.metadata.scan(
            session,
            std::ops::Bound::Unbounded,
            std::ops::Bound::Unbounded,
            false,
            |_, value| {
                if let Ok(number) = <[u8; 4]>::try_from(value) {
                    last = last.max(u32::from_le_bytes(number));
                }
                true
            },
        )?;
        *self.last_number.lock() = last;
        let names = trees.names();
        live_maps::note_all(&self.metadata, session, &names)?;
        self.forget_dropped(&names, session)?;
        for name in names.iter().filter(|name| !crate::map::reserved::is_reserved(name)) {
            if let Some(tree) = trees.find_bytes_tree(name)? {
                let own = self.metadata.get_with(session, &map_key(name), |value| {
                    <[u8; 4]>::try_from(value).map_or(0, u32::from_le_bytes)
                })?;
                match own {
                    Some(number) if number != 0 => self.enter(&tree, number),
                    _ => self.number_found(&tree, name, session)?,
                }
            }
        }
        Ok(())
    }

    /// Removes numbers of maps that are not there any more: the process died while one was dropped. A map of that name
    /// would get a number that the log has given up.
    fn forget_dropped(&self, names: &[String], session: &mut Session<Hardware>) -> Result<()> {
        let known: BTreeSet<Vec<u8>> = names.iter().map(|name| map_key(name)).collect();
        let (prefix, mut left) = (map_key(""), vec![]);
        let low = std::ops::Bound::Included(&prefix[..]);
        self.metadata.scan(session, low, std::ops::Bound::Unbounded, false, |key, _| {
            let is_number = key.starts_with(&prefix);
            if is_number && !known.contains(key) {
                left.push(key.to_vec());
            }
            is_number
        })?;
        left.iter().try_for_each(|key| {
            self.metadata.change(session, &Change::remove(key)).map(drop).map_err(Error::from)
        })
    }

    /// Gives a number to a map that has none. Its making was cut short, or it was made without a log. If it is empty,
    /// and a full pool has no room for the number, it stays as it is: nobody has seen it or gets a handle, and the
    /// thread that asks for it tries again. Only the default map has its handle at once.
    fn number_found(
        &self,
        tree: &Arc<BytesTree>,
        name: &str,
        session: &mut Session<Hardware>,
    ) -> Result<()> {
        match self.give_number(tree, name, session) {
            Err(error) if error.lacks_space() && !self.is_numbered(tree) && name != DEFAULT_MAP => {
                if tree.len(session)? == 0 {
                    Ok(())
                } else {
                    Err(error)
                }
            }
            given => given.map(drop),
        }
    }

    /// Notes in the pool how it is opened. A full pool, which may have no room for another note, must be opened all the
    /// same: then the note goes, which needs no room, and a pool without it waits for the disk where the next opening
    /// does not say otherwise.
    fn note_mode(&self, session: &mut Session<Hardware>) -> Result<()> {
        let mode = self.durability.interval_ms().to_le_bytes();
        if self.metadata.get_with(session, MODE, |noted| noted == mode)? == Some(true) {
            return Ok(());
        }
        match self.metadata.change(session, &Change::upsert(MODE, &mode)) {
            Err(error) if error.lacks_space() => {
                self.metadata.change(session, &Change::remove(MODE))?;
            }
            noted => drop(noted?),
        }
        Ok(())
    }
}

impl Opening<'_> {
    /// Opens the log. `None` if it is what an older version has left, which was removing it: of no use.
    ///
    /// # Errors
    /// Besides those of the log: it is not the one of this pool as it is.
    fn find(&self, disk: LogDisk, session: &mut Session<Hardware>) -> Result<Option<Found>> {
        let Opening { trees, directory, identity, .. } = *self;
        let closed_at = age::refuse_older(&self.metadata, session, (trees, directory), identity)?;
        let was_salvaging = directory.is_salvaging()?;
        let salvages = self.options.salvage_log;
        let log_options = self.log_options(closed_at)?.salvage(salvages && was_salvaging);
        let mut opened = Log::open(disk, &log_options);
        // A log that is whole is not marked as one that is being salvaged.
        if salvages && !was_salvaging && matches!(opened, Err(LogError::Damaged(_))) {
            opened = self.salvage(closed_at)?;
        }
        let (log, recovered) = match opened {
            Err(LogError::Damaged(_)) if self.is_unsaid => return Ok(None),
            opened => opened?,
        };
        let report = recovered.report();
        let is_salvaged = !report.damages.is_empty() || was_salvaging || self.is_unsaid;
        let damages = report.damages.clone();
        let (end, was_owing) = (report.end, report.was_owing);
        let is_cut = report.is_cut || is_salvaged;
        drop(recovered);
        if trees.heap().pool().was_clean() && closed_at != 0 && closed_at < end {
            if !is_salvaged {
                directory.end_salvage(log.disk())?;
            }
            return Err(older_than_its_log(trees, directory));
        }
        // Of a pool that has it all, and of no older copy.
        if !damages.is_empty() {
            self.options.events.tell(&Event::LogSalvaged(&damages));
        }
        Ok(Some(Found { log, is_cut, was_owing }))
    }

    /// Opens a damaged log with what can be proven of it, and says so beside it before anything is changed.
    fn salvage(&self, closed_at: Lsn) -> Result<OpenResult> {
        let disk = self.directory.open()?;
        self.directory.mark_salvage(&disk)?;
        let aside = self.directory.put_aside()?;
        let opened = Log::open(disk, &self.log_options(closed_at)?);
        if opened.is_err() && self.directory.put_aside()? == aside {
            // Nothing was changed.
            self.directory.end_salvage(&self.directory.open()?)?;
        }
        Ok(opened)
    }

    fn log_options(&self, closed_at: Lsn) -> Result<LogOptions> {
        let reached = self.directory.reached(self.identity)?.max(closed_at);
        let pool = self.trees.heap().pool();
        // It is as it was sealed, and it was sealed behind all that is known to have been logged.
        let is_proven =
            pool.was_clean() && pool.seal().is_some() && closed_at != 0 && closed_at == reached;
        Ok(log_options(self.identity, self.durability, self.options)
            .starts_empty(false)
            .owner_is_proven(is_proven)
            .owes_snapshot(self.owes && self.is_known)
            .reached(reached)
            // The pool can be trusted.
            .owner_has_all(true))
    }

    /// Brings pool and log together.
    fn complete(self, found: Found, session: &mut Session<Hardware>) -> Result<StoreLog> {
        let Opening { trees, directory, durability, identity, .. } = self;
        let store_log = StoreLog {
            log: found.log,
            directory: directory.clone(),
            identity,
            // Relaxed: only distinct numbers are wanted.
            id: OPENED.fetch_add(1, Ordering::Relaxed),
            durability,
            numbers: RankedMutex::new(Rank::LogNumbers, HashMap::new()),
            last_number: RankedMutex::new(Rank::LogNumber, 0),
            metadata: self.metadata,
            bytes: AtomicU64::new(0),
            stored_before: AtomicU64::new(0),
            openings: AtomicU64::new(0),
            snapshot_due: false.into(),
            is_pool_misnumbered: false.into(),
        };
        store_log.number_all(trees, session)?;
        store_log.go_on_counting(session)?;
        store_log.note_mode(session)?;
        let pool = trees.heap().pool();
        let is_hashed = trees.makes_hashed_leaves();
        store_log.note_tree(if is_hashed { Tree::HashedLeaf } else { Tree::NbTree })?;
        // Otherwise it is written behind the opening: see W3. Not where writes wait for the disk, since they
        // would wait for it, too; and not twice in a row, or a store that dies again and again would keep
        // nothing of what it wrote if the machine crashed.
        let is_interval = matches!(durability, Durability::Interval(_));
        let was_owing = found.was_owing && !store_log.mutant("store.owes_again");
        let can_wait = is_interval && !was_owing && store_log.owes_snapshot();
        let is_owed_now = self.owes && !can_wait;
        if !self.is_known || is_owed_now || found.is_cut {
            let snapshot = store_log.snapshot(trees, session);
            match snapshot {
                // Only evidence: the next closing says it again.
                Ok(_) => drop(store_log.note_reached(session)),
                // It is tried once more behind the opening, and then the log ends; but what there is can be read.
                Err(Error::DiskFull(_))
                    if is_interval
                        && self.is_known
                        && !found.is_cut
                        && store_log.owes_snapshot() => {}
                // Damaged in it is only what it is made of.
                Err(error) => {
                    return Err(match pool.path() {
                        Some(pool) => directory.mention(error, pool),
                        None => error,
                    });
                }
            }
        }
        // Behind the snapshot: until then the pool may have more than a log that says that it has all.
        let settings =
            Settings { max_size_bytes: pool.max_size(), durability, pool: Some(pool.uuid()) };
        directory.write_settings(store_log.log.disk(), settings)?;
        if !self.is_known {
            store_log.metadata.change(session, &Change::upsert(IDENTITY, &identity))?;
        }
        let disk = store_log.log.disk();
        directory.end_salvage(disk)?;
        let places = (directory, disk);
        let note = age::begin_generation(&store_log.metadata, session, places, identity, true)?;
        // A new log is named in any case: the one before it is not the pool's any more.
        let of_new = || (!self.is_known).then(|| age::header_note(identity, 0));
        let note = note.or_else(of_new);
        if let Some(note) = note.filter(|_| !store_log.mutant("store.log_unnamed")) {
            pool.note_log(note).map_err(IndexError::from)?;
        }
        // Last: without it a crashed machine does not look at the log.
        directory.write_identity(disk, identity)?;
        Ok(store_log)
    }
}
