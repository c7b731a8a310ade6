//! Durability against the loss of power on an ordinary disk: the log beside the pool.
//!
//! With a log, the gate is raised for good: every write takes the stripe of its key and a place in
//! the log, changes the tree, and leaves what the key is now at that place, so that the log has the
//! changes of a key in their order. It returns when the log says that this is durable. Since the place
//! is taken before the change can be seen, a thread that has seen it takes a later one: what is durable never
//! comes of something that is not. The pool's pages reach the disk
//! whenever the kernel likes; after a crash of the machine they are not looked at. The pool is then
//! rebuilt from the newest snapshot and the log behind it. Which thread may see a value before it is in the log is
//! drawn in `reservation.rs`; the steps of a write are in `ordered_write.rs`.
//!
//! ```text
//!   POOL.log/           the folder of the log (docs/log.md), also with small text files (`log_directory.rs`)
//!   map "\u{1}log"      in the pool: "identity" -> 16 bytes, the same as in the log;
//!                       "mode" -> 8 bytes: milliseconds of the interval, 0 for none;
//!                       "map:NAME" -> number of the map in the log, 4 bytes, little-endian;
//!                       "live:NAME" -> nothing: there is such a map (`live_maps.rs`);
//!                       "last" -> the largest number ever given, 4 bytes;
//!                       "logged" -> three times 8 bytes, as of the last closing: bytes of keys and
//!                       values that were logged since the last snapshot, bytes that the files of the
//!                       log have grown by, and how often the pool was opened;
//!                       "reached" -> the identity of the log, and an LSN that was durable, 8 bytes: of a
//!                       pool that was closed, the last there is
//!                       "generation" -> the identity of the log, and how often it was opened and closed,
//!                       8 bytes (`age.rs`)
//!   map 0 of the log    NAME -> number, 4 bytes, little-endian: replay learns from it which map is which
//! ```
//!
//! Invariants:
//! - W1 what is in the log is in the pool: a place is filled after the change was made, also that of
//!   the number of a map;
//! - W2 a number is given to a map before anything of the map is in the log, and never again: an
//!   emptied map gets a new one. So replay drops what belongs to a number that no name has;
//! - W3 what the pool has and the log may lack (because the process died in between) gets into a
//!   snapshot before anything new is durable: before the store is open, or, where writes do not wait for
//!   the disk anyhow (`Interval`), behind that, unless the life before had not come so far. Until then
//!   the log counts as it was found (`LogOptions::owes_snapshot`), and the pool does not count as cleanly
//!   closed. No older snapshot ever serves for what comes behind it;
//! - W4 a place is taken before the first moment at which its change can be seen, and behind the
//!   stripes of its keys. From then until it is filled or given up its thread waits for nothing that
//!   may wait for the log.

mod age;
mod deferring;
mod filling;
mod live_maps;
mod load;
mod log_directory;
mod log_effect;
mod log_folder;
mod log_metadata;
mod metadata_keys;
mod open;
mod owed;
mod rebuild;
mod replay;
mod reservation;
mod salvaging;
#[cfg(feature = "simulated")]
pub(crate) mod simulated;
mod small_file;
mod snapshot_map;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use everleaf_index::{BytesTree, Change, Hardware, Session, Trees};
use everleaf_log::{Disk, Log, Lsn, Record, SnapshotWriter};

pub(crate) use self::age::{NO_LOG, refuse_stale};
pub(crate) use self::live_maps::refuse_lost_maps;
pub(crate) use self::log_directory::{LogDirectory, LogState};
pub use self::log_effect::LogEffect;
use self::log_folder::LogDisk;
pub(crate) use self::log_folder::{Folder, LogFolder};
pub(crate) use self::log_metadata::{
    copy_log_metadata, last_durability, last_number, leave_refused, log_identity, logged_at_close,
    note_durability,
};
pub(crate) use self::metadata_keys::NAME;
use self::metadata_keys::{LAST, LOGGED, NAMES, REACHED, map_key};
pub(crate) use self::rebuild::rebuild;
pub(crate) use self::reservation::LogReservation;
use self::snapshot_map::Numbered;
use crate::ranked::{RankedGuard, RankedMutex};
use crate::{Durability, Error, Result};

/// A snapshot is due, too, when the files of the log have grown by so many times what keys and values may
/// grow by: small writes that are waited for one by one take a block each.
const FILES_FACTOR: u64 = 4;
/// And when the store was opened so often: each opening begins a file, at which all later ones look.
const OPENINGS_MAX: u64 = 1000;

/// Logs opened so far: each has a number, which no other log of this process ever has.
static OPENED: AtomicU64 = AtomicU64::new(0);

/// The log of an open store.
pub(crate) struct StoreLog {
    log: Log<LogDisk>,
    directory: LogDirectory,
    identity: [u8; 16],
    /// Which log of this process it is.
    id: u64,
    durability: Durability,
    /// The number of each map in the log, by the address of its tree.
    numbers: RankedMutex<HashMap<usize, Arc<AtomicU32>>>,
    /// The largest number given so far; held while one is given.
    last_number: RankedMutex<u32>,
    /// The map [`NAME`] of the pool.
    metadata: Arc<BytesTree>,
    /// Bytes appended since the last snapshot began.
    bytes: AtomicU64,
    /// What the log had stored then; less by what earlier lives of the store had since.
    stored_before: AtomicU64,
    /// Openings since then.
    openings: AtomicU64,
    /// Whether what the pool has and the log may lack must get into a snapshot (W3).
    pub snapshot_due: AtomicBool,
    /// Whether the pool may say a number of a map that is not the one in the log.
    is_pool_misnumbered: AtomicBool,
}

impl StoreLog {
    fn lock(&self) -> RankedGuard<'_, HashMap<usize, Arc<AtomicU32>>> {
        self.numbers.lock()
    }

    fn enter(&self, tree: &Arc<BytesTree>, number: u32) {
        let mut numbers = self.lock();
        let cell = numbers.entry(Arc::as_ptr(tree) as usize).or_default();
        // Relaxed: read by threads that take a stripe after us.
        cell.store(number, Ordering::Relaxed);
    }

    /// Whether a map has its number: nobody may get a handle before.
    pub fn is_numbered(&self, tree: &Arc<BytesTree>) -> bool {
        // Relaxed: a thread that sees 0 looks again behind the lock of the makers.
        self.number_of(tree).load(Ordering::Relaxed) != 0
    }

    /// The number of a map, which may change while nobody has a stripe.
    pub fn number_of(&self, tree: &Arc<BytesTree>) -> Arc<AtomicU32> {
        self.lock().entry(Arc::as_ptr(tree) as usize).or_default().clone()
    }

    /// Gives a map that is new, or was just emptied, a number of its own, durably (W2). The caller has
    /// all stripes, or the map is not known to anybody yet.
    pub fn give_number(
        &self,
        tree: &Arc<BytesTree>,
        name: &str,
        session: &mut Session<Hardware>,
    ) -> Result<Lsn> {
        let number = self.new_number(name, session)?;
        let lsn = self.use_number(self.place(), tree, name, number)?;
        self.note_map(name, session);
        Ok(lsn)
    }

    /// Notes in the pool that there is a map, so that its loss can be told.
    pub fn note_map(&self, name: &str, session: &mut Session<Hardware>) {
        live_maps::note(&self.metadata, session, name);
    }

    /// Forgets the note of a map, which is then dropped: before it is, or it would count as lost.
    pub fn forget_note(&self, name: &str, session: &mut Session<Hardware>) -> Result<()> {
        live_maps::forget(&self.metadata, session, name)
    }

    /// A number that no map had, noted in the pool as that of `name`.
    fn new_number(&self, name: &str, session: &mut Session<Hardware>) -> Result<u32> {
        let mut last = self.last_number.lock();
        let number = last.checked_add(1).ok_or_else(|| {
            let text = "all numbers of maps were given: write what is there to a new store";
            Error::Unsupported(text.to_string())
        })?;
        let bytes = number.to_le_bytes();
        // Before the map has it, so that it is not given again when the map is gone.
        self.metadata.change(session, &Change::upsert(LAST, &bytes))?;
        *last = number;
        self.metadata.change(session, &Change::upsert(&map_key(name), &bytes))?;
        Ok(number)
    }

    /// From now on a map has this number. As every change it is made before its place is filled (W1): a
    /// snapshot that has the record has the number, too. And after its place was taken (W4): what is
    /// logged under the number comes behind it.
    fn use_number(
        &self,
        reservation: LogReservation<'_>,
        tree: &Arc<BytesTree>,
        name: &str,
        number: u32,
    ) -> Result<Lsn> {
        let bytes = number.to_le_bytes();
        let record = [Record::put(NAMES, name.as_bytes(), &bytes)];
        if self.mutant("store.fills_number_first") {
            let lsn = reservation.fill(&record)?;
            self.log.disk().reached("store.number_entered");
            self.enter(tree, number);
            return Ok(lsn);
        }
        self.enter(tree, number);
        self.log.disk().reached("store.number_entered");
        reservation.fill(&record)
    }

    /// Whether the planted bug of this name is to be shown: never, except on a simulated disk.
    pub fn mutant(&self, name: &'static str) -> bool {
        self.log.disk().mutant(name)
    }

    /// Tells a simulated run where a thread is.
    pub fn reached(&self, point: &'static str) {
        self.log.disk().reached(point);
    }

    /// Empties a map, which then has a new number; what it held is freed by the caller, later. The
    /// caller has all stripes.
    pub fn clear_map(
        &self,
        tree: &Arc<BytesTree>,
        name: &str,
        session: &mut Session<Hardware>,
    ) -> Result<Lsn> {
        self.check()?;
        let mut number = self.new_number(name, session)?;
        if self.mutant("store.clear_keeps_number") {
            // Relaxed: we have all stripes.
            number = self.number_of(tree).load(Ordering::Relaxed);
        }
        let reservation = self.place();
        if let Err(error) = tree.clear_at_once(session) {
            // Nothing was changed.
            reservation.give_up();
            // Relaxed: we have all stripes.
            let old = self.number_of(tree).load(Ordering::Relaxed).to_le_bytes();
            let undone = self.metadata.change(session, &Change::upsert(&map_key(name), &old));
            if undone.is_err() {
                // The pool has a number that the log does not know. It does not matter before the next opening.
                // Relaxed: a request, which carries nothing.
                self.is_pool_misnumbered.store(true, Ordering::Relaxed);
            }
            return Err(error.into());
        }
        self.use_number(reservation, tree, name, number)
    }

    /// Notes in the pool which numbers the maps have, if a full pool was in the way of that: what the next life
    /// logs under another number would count for nothing. While it cannot be noted the pool does not count as
    /// cleanly closed, so that the next opening writes a snapshot with the numbers that the pool has (W3). Nobody
    /// writes any more.
    pub fn renumber(&self, trees: &Trees, session: &mut Session<Hardware>) -> Result<()> {
        // Relaxed: the thread that emptied a map has ended.
        if !self.is_pool_misnumbered.load(Ordering::Relaxed) {
            return Ok(());
        }
        for name in trees.names().iter().filter(|name| !crate::map::reserved::is_reserved(name)) {
            if let Some(tree) = trees.find_bytes_tree(name)? {
                // Relaxed: the thread that emptied a map, and gave it another number, has ended.
                let number = self.number_of(&tree).load(Ordering::Relaxed);
                // An empty map may have none yet.
                if number != 0 {
                    let number = number.to_le_bytes();
                    self.metadata.change(session, &Change::upsert(&map_key(name), &number))?;
                }
            }
        }
        Ok(())
    }

    /// Notes that a map is no more. The caller has all stripes.
    pub fn forget_map(
        &self,
        reservation: LogReservation<'_>,
        tree: &Arc<BytesTree>,
        name: &str,
        session: &mut Session<Hardware>,
    ) -> Result<Lsn> {
        self.log.disk().reached("store.map_removed");
        // Another tree may come to lie at its address, and must not be taken for it (W2).
        self.lock().remove(&(Arc::as_ptr(tree) as usize));
        if self.mutant("store.drop_unlogged") {
            reservation.give_up();
            return Ok(self.log.last_lsn());
        }
        let lsn = reservation.fill(&[Record::delete(NAMES, name.as_bytes())])?;
        // Last: if it is left behind, the next opening removes it.
        self.metadata.change(session, &Change::remove(&map_key(name)))?;
        Ok(lsn)
    }

    /// Ends the log if it was removed from its place, so that nobody goes on writing what nobody finds.
    pub fn check_names(&self) {
        // Told to the next that writes.
        let _ = self.log.check_names();
    }

    /// Refuses a write if it could not be logged.
    pub fn check(&self) -> Result<()> {
        self.log.failed().map_or(Ok(()), |error| Err(error.into()))
    }

    /// Takes the place of a change in the log, before it can be seen (W4). The caller has the stripes of
    /// its keys and has [checked](Self::check) that the log works.
    #[inline]
    pub fn place(&self) -> LogReservation<'_> {
        LogReservation::take(&self.log)
    }

    fn count(&self, bytes: usize) {
        // Relaxed: a statistic, and a reason to make a snapshot.
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// When a write counts as done.
    pub fn durability(&self) -> Durability {
        self.durability
    }

    /// Waits until a write counts as done.
    pub fn wait(&self, lsn: Lsn) -> Result<()> {
        Ok(self.log.wait(lsn)?)
    }

    /// Helps to write what waits, if that is much; by a thread that holds nothing. An error is told to the thread that
    /// writes next.
    #[inline]
    pub fn relieve(&self) {
        let _ = self.log.relieve();
    }

    /// Bytes of keys and values logged since the last snapshot, and commits not yet on the disk.
    pub fn lag(&self) -> (u64, u64) {
        // Relaxed: a statistic.
        let bytes = self.bytes.load(Ordering::Relaxed);
        (bytes, self.log.last_lsn().saturating_sub(self.log.durable_lsn()))
    }

    /// Bytes that the files of the log have grown by since the last snapshot.
    fn file_growth(&self) -> u64 {
        // Relaxed: a statistic.
        self.log.stored_bytes().wrapping_sub(self.stored_before.load(Ordering::Relaxed))
    }

    /// Whether so much was logged that a snapshot should let the log go.
    pub fn is_long(&self, snapshot_after_bytes: u64) -> bool {
        let files = snapshot_after_bytes.saturating_mul(FILES_FACTOR);
        // Relaxed: a statistic.
        let openings = self.openings.load(Ordering::Relaxed);
        self.lag().0 > snapshot_after_bytes || self.file_growth() > files || openings > OPENINGS_MAX
    }

    /// Writes a snapshot while the store goes on; the log from before it is then let go. Returns the
    /// number of keys in it.
    ///
    /// What it has read of a batch or a write has a place in the log (W4), and it ends when the log up
    /// to the last place is durable: so it never holds half a batch.
    pub fn snapshot(&self, trees: &Trees, session: &mut Session<Hardware>) -> Result<u64> {
        // Relaxed: a reason to make snapshots; what is logged from here on counts for the next.
        let bytes = self.bytes.load(Ordering::Relaxed);
        let stored = self.log.stored_bytes();
        let early = self.mutant("store.lists_maps_first").then(|| self.numbered_maps(trees));
        let mut writer = SnapshotWriter::begin(&self.log)?;
        // Behind the beginning: a map that is made later is in the log from there on.
        let maps = early.unwrap_or_else(|| self.numbered_maps(trees));
        let mut names: Vec<(&str, u32)> =
            maps.iter().map(|(number, (name, _))| (name.as_str(), *number)).collect();
        names.sort_unstable();
        for (name, number) in names {
            writer.add(&Record::put(NAMES, name.as_bytes(), &number.to_le_bytes()))?;
        }
        for (number, (name, tree)) in &maps {
            self.log.disk().reached("store.snapshot_map");
            let map = Numbered { number: *number, name, tree };
            snapshot_map::write_map(&self.log, &mut writer, &map, session)?;
        }
        let pair_count = writer.finish()?.pair_count - maps.len() as u64;
        // Relaxed: a count of what was logged, which decides when the next snapshot is due. Only now: one that fails is
        // tried again.
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        // Relaxed: read by `is_long` only, which may decide a moment later.
        self.stored_before.store(stored, Ordering::Relaxed);
        // Relaxed: as `stored_before`.
        self.openings.store(0, Ordering::Relaxed);
        Ok(pair_count)
    }

    /// The maps that have a number, by it, with their names.
    fn numbered_maps(&self, trees: &Trees) -> BTreeMap<u32, (String, Arc<BytesTree>)> {
        let mut maps = BTreeMap::new();
        for name in
            trees.names().into_iter().filter(|name| !crate::map::reserved::is_reserved(name))
        {
            if let Ok(Some(tree)) = trees.find_bytes_tree(&name) {
                // Relaxed: a map that is emptied meanwhile is in the log with its new number.
                let number = self.number_of(&tree).load(Ordering::Relaxed);
                if number != 0 {
                    maps.insert(number, (name, tree));
                }
            }
        }
        maps
    }

    /// Makes everything durable that was appended, and notes in the pool how much that is, so that
    /// short lives add up to a snapshot, too.
    pub fn end(&self, session: &mut Session<Hardware>) -> Result<()> {
        self.sync()?;
        let reached = self.log.durable_lsn();
        if self.note_reached(session).is_err() {
            // It must not say less than the log has; its removal needs no space.
            self.metadata.change(session, &Change::remove(REACHED))?;
        }
        // Behind the pool's note, which must not be the older one (`age.rs`). Only evidence: without it the
        // end of the log could be cut off unnoticed.
        let _ = self.directory.write_reached(self.log.disk(), self.identity, reached);
        let beside = (&self.directory, self.log.disk());
        age::begin_generation(&self.metadata, session, beside, self.identity, false)?;
        // Relaxed: a statistic.
        let openings = self.openings.load(Ordering::Relaxed);
        let logged = [self.lag().0, self.file_growth(), openings].map(u64::to_le_bytes);
        // A full pool must not be in the way of its closing: that much is counted anew.
        let _ = self.metadata.change(session, &Change::upsert(LOGGED, logged.as_flattened()));
        Ok(())
    }

    /// Makes everything durable that anybody can have seen. If a snapshot is owed, it is waited for.
    pub fn sync(&self) -> Result<()> {
        if self.mutant("store.sync_is_a_wait") {
            return self.wait(self.log.last_lsn());
        }
        self.log.sync()?;
        Ok(())
    }
}
