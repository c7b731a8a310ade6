//! Writing a snapshot while the store is in use.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use everleaf_machine::OwnerProcess;

use super::{BlockInfo, Footer, SnapshotReader, encode_start, put_aside};
use crate::disk::write_whole;
use crate::layout::{SNAPSHOT, UNFINISHED, file_name, next_number, parse_name};
use crate::log::Shared;
use crate::record::group_size;
use crate::{Disk, DiskFile, Error, Log, Lsn, Portions, RealDisk, Record, Result};

/// A snapshot that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SnapshotInfo {
    /// Its number: one more than that of the snapshot before.
    pub sequence: u64,
    /// It has everything that was logged up to this LSN.
    pub from: Lsn,
    /// It is consistent with the log up to this LSN.
    pub to: Lsn,
    /// Number of pairs.
    pub pair_count: u64,
    /// Bytes of the file.
    pub size: u64,
    /// Bytes of the pairs before compression.
    pub raw_size: u64,
}

/// A snapshot that is being written.
///
/// 1. [`SnapshotWriter::begin`];
/// 2. read the store in the order of map and key, while it is written to, and [`SnapshotWriter::add`]
///    every pair;
/// 3. [`SnapshotWriter::finish`].
///
/// What the reading may have seen has a [place](Log::place) in the log by then, since it is taken before
/// the change can be seen.
///
/// Dropped before that, it leaves nothing behind. Not for several threads at once; other threads may
/// use the log.
///
/// # Example
/// ```
/// # fn main() -> everleaf_log::Result<()> {
/// # let folder = tempfile::tempdir().expect("a temporary folder");
/// use everleaf_log::{Log, LogOptions, RealDisk, Record, SnapshotWriter};
///
/// let (log, _) = Log::open(RealDisk::open(folder.path())?, &LogOptions::new([7; 16]))?;
/// let mut snapshot = SnapshotWriter::begin(&log)?;
/// snapshot.add(&Record::put(1, b"elm", b"Ulmus"))?;
/// snapshot.add(&Record::put(1, b"oak", b"Quercus"))?;
/// assert_eq!(snapshot.finish()?.pair_count, 2);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct SnapshotWriter<D: Disk = RealDisk> {
    log: Arc<Shared<D>>,
    file: D::File,
    portions: Portions,
    sequence: u64,
    from: Lsn,
    /// Records of the block that is being filled.
    block: Vec<u8>,
    block_pairs: u32,
    /// Stored bytes that are not written yet, and where they go.
    pending: Vec<u8>,
    position: u64,
    index: Vec<u8>,
    block_count: u64,
    pair_count: u64,
    raw_size: u64,
    /// Map and key of the last pair.
    last: Option<(u32, Vec<u8>)>,
    is_finished: bool,
    owner: OwnerProcess,
}

impl<D: Disk> SnapshotWriter<D> {
    /// Begins a snapshot. Whatever was appended to the log before is part of it: writes out what waits,
    /// so that every change of a place taken before is made.
    ///
    /// # Errors
    /// [`Error::Busy`] if another snapshot is being written, [`Error::Failed`] if the log has failed, and
    /// the disk's answers.
    pub fn begin(log: &Log<D>) -> Result<SnapshotWriter<D>> {
        if let Some(error) = log.failed() {
            return Err(error);
        }
        let shared = Arc::clone(&log.shared);
        if !shared.begin_snapshot() {
            return Err(Error::Busy(
                "another snapshot of this log is being written: wait until it is done".into(),
            ));
        }
        let made = shared.take_turn(false).and_then(|()| create(&*shared.disk));
        let (sequence, file) = made.inspect_err(|_| shared.end_snapshot())?;
        let from = match shared.disk.mutant("snapshot.from_places") {
            true => shared.last_lsn(),
            false => shared.made_lsn(),
        };
        let segment = shared.writer().current().sequence;
        let portions = shared.disk.portions();
        Ok(SnapshotWriter {
            log: shared,
            file,
            portions,
            sequence,
            from,
            block: Vec::with_capacity(portions.block),
            block_pairs: 0,
            pending: encode_start(&log.shared.uuid, sequence, from, segment).to_vec(),
            position: 0,
            index: Vec::new(),
            block_count: 0,
            pair_count: 0,
            raw_size: 0,
            last: None,
            is_finished: false,
            owner: log.owner,
        })
    }

    /// The LSN up to which everything logged is part of the snapshot.
    pub fn from_lsn(&self) -> Lsn {
        self.from
    }

    /// Whether nothing was changed since the snapshot began, so that what was read for it is what
    /// there is.
    pub fn is_alone(&self) -> bool {
        // Acquire: pairs with the Release in `Place::give_up_rolled_back`, whose place can be given again.
        let is_spoiled = self.log.is_snapshot_spoiled.load(Ordering::Acquire);
        !is_spoiled && self.log.last_lsn() == self.from
    }

    /// Number of pairs so far.
    pub fn pair_count(&self) -> u64 {
        self.pair_count
    }

    /// Adds a pair.
    ///
    /// # Errors
    /// [`Error::TooLarge`], and the disk's answers; [`Error::Damaged`] if map and key do not follow
    /// those of the record before.
    ///
    /// # Panics
    /// If the record is no put.
    pub fn add(&mut self, pair: &Record<'_>) -> Result<()> {
        assert!(pair.value().is_some(), "a snapshot has pairs only, and no other records");
        group_size(std::slice::from_ref(pair))?;
        match &mut self.last {
            Some((map, key)) => {
                if (*map, &key[..]) >= (pair.map, pair.key) {
                    return Err(Error::Damaged(format!(
                        "what a snapshot is to be written of is damaged: the key '{}' does not follow \
                         '{}'; check it with `everleaf check`",
                        pair.key.escape_ascii(),
                        key.escape_ascii()
                    )));
                }
                *map = pair.map;
                key.clear();
                key.extend_from_slice(pair.key);
            }
            last => *last = Some((pair.map, pair.key.to_vec())),
        }
        pair.encode(&mut self.block);
        self.block_pairs += 1;
        self.pair_count += 1;
        if self.block.len() >= self.portions.block { self.end_block() } else { Ok(()) }
    }

    /// Ends the snapshot and makes it durable; then lets go of snapshots and segments that are no
    /// longer needed.
    ///
    /// # Errors
    /// [`Error::Failed`] if the log fails before it is durable so far, [`Error::Busy`] if what may have been
    /// read was [rolled back](crate::Place::give_up_rolled_back), and the disk's answers. There is a new snapshot then,
    /// or there is none, and nothing else has changed.
    pub fn finish(mut self) -> Result<SnapshotInfo> {
        self.end_block()?;
        let disk = Arc::clone(&self.log.disk);
        if disk.mutant("snapshot.frees_log_early") {
            self.log.writer().release(self.from)?;
        }
        let last = self.log.last_lsn();
        disk.reached("snapshot.ends");
        // The snapshot may have a part of an atomic group whose other part only the log has. Not more of
        // the log than there is: the last place may have been given up.
        let to = match disk.mutant("snapshot.footer_early") {
            true => last,
            false => self.log.sync_for_snapshot(last)?,
        };
        let to = if disk.mutant("snapshot.needs_given_up") { last } else { to };
        // Acquire: all places up to `last` are filled or given up; pairs with the Release in
        // `Place::give_up_rolled_back`.
        if self.log.is_snapshot_spoiled.load(Ordering::Acquire)
            && !disk.mutant("snapshot.keeps_rolled_back")
        {
            return Err(Error::Busy(
                "a batch was rolled back while the snapshot was being written, which may have a part of it: \
                 write the snapshot again"
                    .into(),
            ));
        }
        let size = self.write_end(to)?;
        let name = file_name(SNAPSHOT, self.sequence);
        let failed = |error: &std::io::Error| Error::io(format!("cannot complete {name}"), error);
        if disk.mutant("snapshot.marks_early") {
            self.log.note_owed_written()?;
        }
        if !disk.mutant("snapshot.no_sync") {
            self.file.sync_data().map_err(|error| failed(&error))?;
        }
        disk.rename(&file_name(UNFINISHED, self.sequence), &name)
            .map_err(|error| failed(&error))?;
        self.is_finished = true;
        if !disk.mutant("snapshot.no_folder_sync") {
            disk.sync_folder().map_err(|error| failed(&error))?;
        }
        self.log.note_owed_written()?;
        self.let_go()?;
        Ok(SnapshotInfo {
            sequence: self.sequence,
            from: self.from,
            to,
            pair_count: self.pair_count,
            size,
            raw_size: self.raw_size,
        })
    }

    /// Completes the block that is being filled.
    fn end_block(&mut self) -> Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        let packed = lz4_flex::block::compress(&self.block);
        // Compression that saves less than an eighth costs more to undo than to read.
        let pays = packed.len() <= self.block.len() - self.block.len() / 8;
        let stored = if pays { &packed } else { &self.block };
        BlockInfo {
            offset: self.position + self.pending.len() as u64,
            stored_size: stored.len() as u32,
            raw_size: self.block.len() as u32,
            pair_count: self.block_pairs,
            checksum: crc32c::crc32c(stored),
        }
        .encode(&mut self.index);
        self.pending.extend_from_slice(stored);
        self.raw_size += self.block.len() as u64;
        self.block_count += 1;
        self.block.clear();
        if !self.log.disk.mutant("snapshot.counts_on") {
            self.block_pairs = 0;
        }
        if self.pending.len() >= self.portions.write { self.write_pending() } else { Ok(()) }
    }

    fn write_pending(&mut self) -> Result<()> {
        write_whole(&self.file, &self.pending, self.position).map_err(|error| {
            Error::io(format!("cannot write {}", file_name(UNFINISHED, self.sequence)), &error)
        })?;
        if !self.log.disk.mutant("snapshot.writes_in_place") {
            self.position += self.pending.len() as u64;
        }
        self.pending.clear();
        Ok(())
    }

    /// Writes index and footer; returns the size of the file.
    fn write_end(&mut self, to: Lsn) -> Result<u64> {
        let footer = Footer {
            from: if self.log.disk.mutant("snapshot.late_from") { to } else { self.from },
            to,
            pair_count: self.pair_count,
            block_count: self.block_count,
            index_offset: self.position + self.pending.len() as u64,
            sequence: self.sequence,
            index_checksum: crc32c::crc32c(&self.index),
        };
        self.pending.append(&mut self.index);
        self.pending.extend_from_slice(&footer.encode(&self.log.uuid));
        self.write_pending()?;
        Ok(self.position)
    }

    /// Keeps this snapshot and the newest good one before it, and the log back to that one. Good is
    /// one of which every block was read: the one before it goes.
    fn let_go(&self) -> Result<()> {
        let disk = &self.log.disk;
        let names =
            disk.list().map_err(|error| Error::io("cannot list the log's folder", &error))?;
        let mut older: Vec<u64> = names
            .iter()
            .filter_map(|name| parse_name(SNAPSHOT, name))
            .filter(|sequence| *sequence < self.sequence)
            .collect();
        older.sort_unstable_by(|a, b| b.cmp(a));
        let mut kept = None;
        for sequence in older {
            if kept.is_some() {
                let name = file_name(SNAPSHOT, sequence);
                disk.remove(&name)
                    .map_err(|error| Error::io(format!("cannot remove {name}"), &error))?;
                continue;
            }
            let opened = SnapshotReader::open(Arc::clone(disk), self.log.uuid, sequence);
            let checked = opened.and_then(|snapshot| match disk.mutant("snapshot.keeps_unread") {
                true => Ok(snapshot),
                false => snapshot.verify().map(|()| snapshot),
            });
            match checked {
                Ok(snapshot) => kept = Some(snapshot.from_lsn()),
                // Best effort: it is found damaged again.
                Err(Error::Damaged(_)) => drop(put_aside(&**disk, sequence, "damaged")),
                // Perhaps it can be read later; it does not count, and it stays.
                Err(_) => {}
            }
        }
        if disk.mutant("snapshot.keeps_no_older_log") {
            kept = kept.map(|_| self.from);
        }
        if disk.mutant("snapshot.releases_without_older") {
            kept = kept.or(Some(self.from));
        }
        kept.map_or(Ok(()), |from| self.log.writer().release(from))
    }
}

/// Creates the file of a new snapshot; returns its number too.
fn create<D: Disk>(disk: &D) -> Result<(u64, D::File)> {
    let failed = |error: &std::io::Error| Error::io("cannot begin a snapshot", error);
    let names = disk.list().map_err(|error| failed(&error))?;
    let newest = names.iter().filter_map(|name| parse_name(SNAPSHOT, name)).max().unwrap_or(0);
    let sequence = next_number(SNAPSHOT, newest)?;
    let name = file_name(UNFINISHED, sequence);
    if names.contains(&name) {
        disk.remove(&name).map_err(|error| failed(&error))?;
    }
    let file = disk.create(&name).map_err(|error| failed(&error))?;
    Ok((sequence, file))
}

impl<D: Disk> Drop for SnapshotWriter<D> {
    fn drop(&mut self) {
        if !self.owner.is_current() {
            // Inherited by a fork: the file is still being written by another, and threads that are not here may hold
            // the locks.
            return;
        }
        if !self.is_finished {
            // Best effort: the next opening removes it otherwise.
            drop(self.log.disk.remove(&file_name(UNFINISHED, self.sequence)));
        }
        self.log.end_snapshot();
    }
}
