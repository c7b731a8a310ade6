//! The writing end: rounds of collected groups become chunks in the current segment.
//!
//! One thread at a time has the writer. A segment is synced before the next one is made, so only the
//! last segment can have chunks that are not durable. A file gets its name as a segment when its
//! header is durable, so a segment without a sound header is damage and never an accident of a
//! crash.
//!
//! While a snapshot is *owed* (`LogOptions::owes_snapshot`), what is synced does not count: segments say so,
//! and nothing is told to be durable, until a mark in the log says that the snapshot is there.

mod maker;

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use self::maker::{Maker, SMALL_SEGMENT, leftovers};
use crate::buffers::Buffers;
use crate::chunk::{ChunkHeader, UnsealedChunk, seal};
use crate::disk::write_whole;
use crate::file_names::{free_name, numbers};
use crate::layout::{
    BLOCK_SIZE, CHUNK_HEADER_SIZE, SEGMENT, SPARE, file_name, next_number, whole_blocks,
};
use crate::scan::{Gap, SegmentHeader, SegmentReader};
use crate::{Disk, DiskFile, Error, Lsn, Result};

/// How many files wait to become segments again, at most.
const SPARES_MAX: usize = 4;
/// The space that an emptied chunk buffer keeps.
const CHUNK_CAPACITY: usize = 4 << 20;

/// A segment that is written.
struct Current<F> {
    file: F,
    header: SegmentHeader,
    /// Where the next chunk goes.
    position: u64,
}

/// The writing end of a log.
pub(crate) struct Writer<D: Disk> {
    disk: Arc<D>,
    uuid: [u8; 16],
    segment_size: u64,
    /// What the next segment takes ahead: less than it should where space lacked for the last one, so that what little
    /// there is is not taken from others again and again.
    ahead: u64,
    current: Current<D::File>,
    /// All segments there are, the current one last.
    segments: VecDeque<SegmentHeader>,
    /// Names of files that may become segments.
    spares: Vec<String>,
    /// The last LSN that is in the file.
    written: Lsn,
    /// Everything up to here was synced.
    synced: Lsn,
    /// Everything up to here is durable. Others read it. Less than what was synced while a snapshot is
    /// owed, without which that does not count.
    durable: Arc<AtomicU64>,
    /// Whether a snapshot is owed.
    is_owing: bool,
    /// Bytes of segments that were written, padding included. Others read it.
    stored: Arc<AtomicU64>,
    /// An empty buffer for the collections.
    lent: Vec<u8>,
    chunk: Vec<u8>,
}

/// What a new writer starts from.
pub(crate) struct Start {
    pub(crate) uuid: [u8; 16],
    pub(crate) segment_size: u64,
    /// The segments there are.
    pub(crate) segments: VecDeque<SegmentHeader>,
    /// Number of the segment to be made.
    pub(crate) sequence: u64,
    /// Everything before this LSN is durable in those segments; the new one begins with it.
    pub(crate) first: Lsn,
    /// Whether what is before that is not whole.
    pub(crate) is_cut: bool,
    /// Whether what comes behind `chunks` counts only with a snapshot.
    pub(crate) owes_snapshot: bool,
    /// Chunks to begin with.
    pub(crate) chunks: SealedChunks,
}

/// Chunks that a segment is begun with, and the last LSN that is in it then.
pub(crate) struct SealedChunks {
    chunks: Vec<Vec<u8>>,
    written: Lsn,
}

impl SealedChunks {
    /// Seals chunks for the segment of this number that begins with LSN `first`.
    pub(crate) fn seal<D: Disk>(
        disk: &D,
        uuid: &[u8; 16],
        (sequence, first): (u64, Lsn),
        unsealed: Vec<UnsealedChunk>,
    ) -> SealedChunks {
        let mut written = first - 1;
        let durable = written;
        let sealed = |UnsealedChunk { first, count, mut bytes }| {
            let body_size = (bytes.len() - CHUNK_HEADER_SIZE) as u64;
            let header = ChunkHeader { body_size, sequence, first, durable, count };
            seal(disk, uuid, header, &mut bytes);
            written = first + u64::from(count) - 1;
            bytes
        };
        SealedChunks { chunks: unsealed.into_iter().map(sealed).collect(), written }
    }

    fn size(&self) -> u64 {
        self.chunks.iter().map(|chunk| chunk.len() as u64).sum()
    }
}

impl<D: Disk> Writer<D> {
    /// Makes a segment and begins to write it. When this returns, the segment and the chunks in it
    /// are durable; when it fails, or the machine does, there is no new segment.
    ///
    /// # Errors
    /// What the disk answers.
    pub(crate) fn start(disk: Arc<D>, start: &Start) -> Result<Writer<D>> {
        let spares = leftovers(&*disk)?;
        let written = start.chunks.written;
        let mut maker = Maker { disk: &*disk, uuid: &start.uuid, spares, waits: false };
        let filled = BLOCK_SIZE + start.chunks.size();
        // Nothing more is written to it if a snapshot is owed.
        let size = if start.owes_snapshot { filled } else { start.segment_size.max(filled) };
        let gap = if start.is_cut { Gap::Cut } else { Gap::None };
        let header = SegmentHeader { sequence: start.sequence, first: start.first, size, gap };
        let current = maker.make(header, filled, &start.chunks.chunks)?;
        let spares = maker.spares;
        let stored = current.position;
        let mut segments = start.segments.clone();
        segments.push_back(current.header);
        let mut writer = Writer {
            disk,
            uuid: start.uuid,
            segment_size: start.segment_size,
            ahead: start.segment_size,
            current,
            segments,
            spares,
            written,
            synced: written,
            durable: Arc::new(AtomicU64::new(written)),
            is_owing: false,
            stored: Arc::new(AtomicU64::new(stored)),
            lent: Vec::new(),
            chunk: Vec::new(),
        };
        writer.note_space(size);
        if start.owes_snapshot {
            writer.owe()?;
        }
        Ok(writer)
    }

    /// Notes whether the current segment got the size that it was to have.
    fn note_space(&mut self, wanted: u64) {
        self.ahead = match self.current.header.size < wanted {
            true => SMALL_SEGMENT.min(self.segment_size),
            false => self.ahead.saturating_mul(4).min(self.segment_size),
        };
    }

    /// From now on a snapshot is owed. The next LSN is nobody's, so that nothing is replayed across it.
    fn owe(&mut self) -> Result<()> {
        self.is_owing = true;
        let next = if self.disk.mutant("log.owed_without_gap") { 1 } else { 2 };
        self.make_segment(self.written + next, BLOCK_SIZE, Gap::Owed)?;
        self.written += 1;
        self.synced = self.written;
        Ok(())
    }

    /// Whether a snapshot is owed.
    pub(crate) fn is_owing(&self) -> bool {
        self.is_owing
    }

    /// Notes durably that the snapshot that was owed is there: from then on what was synced is durable.
    ///
    /// # Errors
    /// What the disk answers. The writer must then not be used again.
    pub(crate) fn note_owed_written(&mut self) -> Result<()> {
        if !self.is_owing {
            return Ok(());
        }
        if self.current.position + BLOCK_SIZE > self.current.header.size {
            self.next_segment(self.written + 1, BLOCK_SIZE)?;
        }
        let header = ChunkHeader {
            body_size: 0,
            sequence: self.current.header.sequence,
            first: self.written + 1,
            durable: self.synced,
            count: 0,
        };
        let mut mark = vec![0; CHUNK_HEADER_SIZE];
        seal(&*self.disk, &self.uuid, header, &mut mark);
        write_whole(&self.current.file, &mark, self.current.position)
            .and_then(|()| self.current.file.sync_data())
            .map_err(|error| Error::io(self.cannot("write"), &error))?;
        self.current.position += BLOCK_SIZE;
        self.count_stored(BLOCK_SIZE);
        self.is_owing = false;
        self.synced = self.written;
        self.publish();
        Ok(())
    }

    /// The last LSN that is in the file.
    pub(crate) fn written(&self) -> Lsn {
        self.written
    }

    /// The segment that is written.
    pub(crate) fn current(&self) -> SegmentHeader {
        self.current.header
    }

    /// Everything up to here was synced, whether it counts or not.
    pub(crate) fn synced(&self) -> Lsn {
        self.synced
    }

    /// The word that says what is durable.
    pub(crate) fn durable(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.durable)
    }

    /// The word that counts what is written.
    pub(crate) fn stored(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.stored)
    }

    fn count_stored(&self, bytes: u64) {
        // Relaxed: a statistic.
        self.stored.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Writes everything for which a place was taken in `buffers`, and makes it durable if asked to.
    ///
    /// # Errors
    /// What the disk answers. The writer must then not be used again: what is in the file is not
    /// known, and neither a second write nor a second sync would tell.
    pub(crate) fn round(&mut self, buffers: &Buffers, sync: bool) -> Result<()> {
        self.chunk.resize(CHUNK_HEADER_SIZE, 0);
        let found = buffers.collect(&*self.disk, &mut self.lent, &mut self.chunk)?;
        if found.count > 0 {
            let written = self.write_chunk(found.first, found.count);
            if written.is_err() && self.disk.mutant("log.goes_on_after_failure") {
                self.written = found.first + found.count - 1;
            }
            written?;
        }
        self.chunk.clear();
        self.chunk.shrink_to(CHUNK_CAPACITY);
        if sync { self.sync() } else { Ok(()) }
    }

    /// Writes the entries in `self.chunk`.
    fn write_chunk(&mut self, first: Lsn, count: u64) -> Result<()> {
        let stored = whole_blocks(self.chunk.len() as u64);
        if self.current.position + stored > self.current.header.size {
            self.next_segment(first, stored)?;
        }
        let header = ChunkHeader {
            body_size: (self.chunk.len() - CHUNK_HEADER_SIZE) as u64,
            sequence: self.current.header.sequence,
            first,
            // Relaxed: only the holder of the writer stores it.
            durable: match self.disk.mutant("log.claims_written") {
                true => self.written,
                // Relaxed: only the holder of the writer stores it.
                false => self.durable.load(Ordering::Relaxed),
            },
            count: u32::try_from(count).map_err(|_| {
                Error::TooLarge(format!("{count} groups wait for one write of the log"))
            })?,
        };
        seal(&*self.disk, &self.uuid, header, &mut self.chunk);
        let result = if self.disk.mutant("log.ignores_short_write") {
            self.current.file.write_at(&self.chunk, self.current.position).map(|_| ())
        } else {
            write_whole(&self.current.file, &self.chunk, self.current.position)
        };
        result.map_err(|error| Error::io(self.cannot("write"), &error))?;
        self.current.position += stored;
        self.count_stored(stored);
        self.written = first + count - 1;
        if self.disk.mutant("log.durable_before_sync") {
            self.publish();
        }
        Ok(())
    }

    /// Fails if the folder or the segment was removed or moved away: what is synced then is found by nobody.
    ///
    /// # Errors
    /// That, and what the disk answers. The writer must then not be used again.
    pub(crate) fn check_names(&self) -> Result<()> {
        let cannot = |error: std::io::Error| Error::io(self.cannot("look at"), &error);
        let name = file_name(SEGMENT, self.current.header.sequence);
        let is_there = self.disk.has_name().and_then(|has_folder| {
            Ok(has_folder && self.disk.leads_to(&name, &self.current.file)?)
        });
        if is_there.map_err(cannot)? {
            return Ok(());
        }
        let answer = "somebody has removed it while the log is open, or moved it away".to_string();
        Err(Error::Io { what: format!("{name} is gone"), kind: ErrorKind::NotFound, answer })
    }

    /// Makes durable what is written.
    fn sync(&mut self) -> Result<()> {
        if self.synced == self.written {
            return self.check_names();
        }
        let mut result = self.current.file.sync_data();
        if result.is_err() && self.disk.mutant("log.retries_sync") {
            result = self.current.file.sync_data();
        }
        // A sync that failed may have dropped the pages it could not write, and the next would
        // succeed without them: the log ends here.
        result.map_err(|error| Error::io(self.cannot("sync"), &error))?;
        self.check_names()?;
        self.synced = self.written;
        if !self.is_owing || self.disk.mutant("log.tells_of_what_is_owed") {
            self.publish();
        }
        Ok(())
    }

    fn publish(&self) {
        // Release: a thread that sees that an LSN is durable sees what was done for it; pairs with the
        // Acquire in `Log::durable_lsn`.
        self.durable.store(self.written, Ordering::Release);
    }

    fn cannot(&self, verb: &str) -> String {
        let name = file_name(SEGMENT, self.current.header.sequence);
        format!("cannot {verb} {name} at byte {}", self.current.position)
    }

    /// Ends the current segment and makes the next, which begins with LSN `first` and has room for
    /// `stored` bytes.
    fn next_segment(&mut self, first: Lsn, stored: u64) -> Result<()> {
        // The next segment says by its first LSN that everything before is durable.
        if !self.disk.mutant("log.no_sync_at_switch") {
            self.sync()?;
        }
        let gap = if self.is_owing { Gap::StillOwed } else { Gap::None };
        self.make_segment(first, stored, gap)
    }

    fn make_segment(&mut self, first: Lsn, stored: u64, gap: Gap) -> Result<()> {
        // A spare file has its space.
        let ahead = if self.spares.is_empty() { self.ahead } else { self.segment_size };
        let needed = BLOCK_SIZE + stored;
        let header = SegmentHeader {
            sequence: next_number(SEGMENT, self.current.header.sequence)?,
            first,
            size: ahead.max(needed),
            gap,
        };
        let spares = std::mem::take(&mut self.spares);
        let mut maker = Maker { disk: &*self.disk, uuid: &self.uuid, spares, waits: true };
        self.current = maker.make(header, needed, &[])?;
        self.spares = maker.spares;
        self.note_space(header.size);
        self.count_stored(BLOCK_SIZE);
        self.segments.push_back(self.current.header);
        Ok(())
    }

    /// Gives back the segments that have nothing behind LSN `kept`: the first that are no longer
    /// needed become spares or are removed.
    ///
    /// # Errors
    /// What the disk answers. The log itself is whole.
    pub(crate) fn release(&mut self, kept: Lsn) -> Result<()> {
        while let [first, second, ..] = self.segments.make_contiguous() {
            let more = u64::from(self.disk.mutant("log.releases_one_more"));
            if second.first > kept + 1 + more {
                break;
            }
            let name = file_name(SEGMENT, first.sequence);
            let spare = file_name(SPARE, first.sequence);
            let is_spare = first.size == self.segment_size && self.spares.len() < SPARES_MAX;
            let result = match is_spare {
                true => self.disk.rename(&name, &spare),
                false => self.disk.remove(&name),
            };
            result.map_err(|error| Error::io(format!("cannot recycle {name}"), &error))?;
            if is_spare {
                self.spares.push(spare);
            }
            self.segments.pop_front();
        }
        match self.segments.front() {
            // What is kept reaches back to a snapshot: nobody needs what is before it.
            Some(first) if first.first <= kept + 1 => self.remove_strays(first.sequence),
            _ => Ok(()),
        }
    }

    /// Removes the segments from before the first that is kept that do not belong to it, because one in
    /// between is damaged or missing. Of those that can be understood nothing is needed any more, and they
    /// go; a damaged one is put aside, to be looked at.
    fn remove_strays(&self, first: u64) -> Result<()> {
        let names = self.disk.list();
        let names = names.map_err(|error| Error::io("cannot list the log's folder", &error))?;
        for sequence in numbers(&names, SEGMENT).into_iter().filter(|sequence| *sequence < first) {
            let name = file_name(SEGMENT, sequence);
            let looked = SegmentReader::open(&*self.disk, &self.uuid, sequence)
                .and_then(|mut reader| reader.is_understood());
            let removed = match looked {
                Ok(true) => self.disk.remove(&name),
                // Also what its disk cannot read: a tool for bad disks may.
                Ok(false) => self.disk.rename(&name, &free_name(&names, "damaged-log", sequence)),
                // It cannot be opened at this moment, or is another's: it stays.
                Err(_) => continue,
            };
            removed.map_err(|error| Error::io(format!("cannot put {name} aside"), &error))?;
        }
        Ok(())
    }

    /// Ends the log: makes everything durable, writes that it is, and gives back the space behind, with the files that
    /// wait to become segments.
    ///
    /// # Errors
    /// What the disk answers.
    pub(crate) fn close(&mut self, buffers: &Buffers) -> Result<()> {
        self.end(buffers)?;
        // Best effort: it is only space, and the next opening removes them, too.
        self.spares.drain(..).for_each(|spare| drop(self.disk.remove(&spare)));
        Ok(())
    }

    fn end(&mut self, buffers: &Buffers) -> Result<()> {
        self.round(buffers, true)?;
        if self.is_owing && !self.disk.mutant("log.ends_what_is_owed") {
            // A mark would say that the snapshot is there. Best effort: it is only space.
            let _ = self.current.file.truncate(self.current.position);
            return Ok(());
        }
        let header = ChunkHeader {
            body_size: 0,
            sequence: self.current.header.sequence,
            first: self.written + 1,
            durable: self.written,
            count: 0,
        };
        let mut mark = vec![0; CHUNK_HEADER_SIZE];
        seal(&*self.disk, &self.uuid, header, &mut mark);
        let end = self.current.position + mark.len() as u64;
        let written = write_whole(&self.current.file, &mark, self.current.position);
        match written.map_err(|error| Error::io(self.cannot("end"), &error)) {
            // Behind the space that was taken ahead. Everything is durable without the mark.
            Err(Error::Full(_)) => return Ok(()),
            result => result?,
        }
        let ended = self.current.file.truncate(end).and_then(|()| self.current.file.sync_data());
        ended.map_err(|error| Error::io(self.cannot("end"), &error))
    }
}
