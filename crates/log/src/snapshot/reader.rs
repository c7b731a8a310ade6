//! Reading a snapshot, block by block and by several threads if the reader likes.

use std::sync::Arc;
use std::{io, thread};

use super::{BLOCK_TARGET, BlockInfo, Footer};
use crate::disk::{READ_TRIES, is_bad_medium, read_up_to};
use crate::layout::{
    ENTRY_SIZE_MAX, HEADER_SIZE, INDEX_ENTRY_SIZE, NUMBER_MAX, SNAPSHOT, SNAPSHOT_MAGIC, file_name,
    read_u64,
};
use crate::record::Records;
use crate::scan::check_start;
use crate::{Disk, DiskFile, Error, Lsn, RealDisk, Record, Result};

/// The most bytes that one byte of a compressed block can stand for (a length in LZ4).
const UNPACKED_MAX: u64 = 255;

/// A snapshot that is open for reading. Threads may share it.
#[derive(Debug)]
pub struct SnapshotReader<D: Disk = RealDisk> {
    name: String,
    file: D::File,
    /// Number of the segment in which it was begun; 0 if it does not say.
    begun_in: u64,
    footer: Footer,
    index: Vec<BlockInfo>,
}

/// A block of a snapshot: some hundred kilobytes of pairs.
#[derive(Clone, Debug)]
pub struct SnapshotBlock {
    records: Vec<u8>,
}

impl SnapshotBlock {
    /// The pairs, sorted by map and key. All of them are larger than those of the blocks before.
    pub fn pairs(&self) -> impl Iterator<Item = Record<'_>> {
        Records::new(&self.records)
    }
}

impl<D: Disk> SnapshotReader<D> {
    /// Opens a snapshot: its header, footer and index are sound, the blocks are not looked at.
    ///
    /// # Errors
    /// [`Error::Damaged`] also if the disk cannot read them; what else the disk answers, for instance that there is no
    /// descriptor at this moment, says nothing about the snapshot.
    pub(crate) fn open(disk: Arc<D>, uuid: [u8; 16], sequence: u64) -> Result<Self> {
        let name = file_name(SNAPSHOT, sequence);
        let file = ask::<D::File, _>(&name, || disk.open(&name))?;
        let size = ask::<D::File, _>(&name, || file.size())?;
        let mut start = [0; HEADER_SIZE];
        let read = ask::<D::File, _>(&name, || read_up_to(&file, &mut start, 0))?;
        let is_whole = check_start(&name, SNAPSHOT_MAGIC, &uuid, &start[..read])?;
        if !is_whole || size < 2 * HEADER_SIZE as u64 || read_u64(&start, 32) != sequence {
            return Err(damaged(&name, "its header"));
        }
        let mut end = [0; HEADER_SIZE];
        let footer_at = size - HEADER_SIZE as u64;
        ask::<D::File, _>(&name, || read_up_to(&file, &mut end, footer_at))?;
        let footer = Footer::decode(&uuid, &end)
            .filter(|footer| footer.sequence == sequence)
            .filter(|footer| footer.from <= footer.to && footer.to <= NUMBER_MAX)
            .ok_or_else(|| damaged(&name, "its end"))?;
        let index_size = footer
            .index_offset
            .checked_add(footer.block_count.saturating_mul(INDEX_ENTRY_SIZE as u64))
            .filter(|end| *end == footer_at)
            .map(|end| (end - footer.index_offset) as usize)
            .ok_or_else(|| damaged(&name, "its end"))?;
        let mut index = vec![0; index_size];
        ask::<D::File, _>(&name, || read_up_to(&file, &mut index, footer.index_offset))?;
        if crc32c::crc32c(&index) != footer.index_checksum {
            return Err(damaged(&name, "its index"));
        }
        let index: Vec<_> = index.chunks_exact(INDEX_ENTRY_SIZE).map(BlockInfo::decode).collect();
        if !fits(&index, &footer) {
            return Err(wrong(&name, "its index"));
        }
        let begun_in = read_u64(&start, 48);
        Ok(SnapshotReader { name, file, begun_in, footer, index })
    }

    /// Everything that was logged up to this LSN is part of the snapshot.
    pub fn from_lsn(&self) -> Lsn {
        self.footer.from
    }

    /// Number of the segment that was written when the snapshot was begun; `None` of one of an older version.
    pub(crate) fn begun_in(&self) -> Option<u64> {
        Some(self.begun_in).filter(|number| *number != 0)
    }

    /// The snapshot is consistent together with the log up to this LSN.
    pub fn to_lsn(&self) -> Lsn {
        self.footer.to
    }

    /// Number of pairs.
    pub fn pair_count(&self) -> u64 {
        self.footer.pair_count
    }

    /// Number of blocks.
    pub fn block_count(&self) -> usize {
        self.index.len()
    }

    /// Reads a block.
    ///
    /// # Errors
    /// [`Error::Damaged`] if its checksum is wrong, or if it does not have the bytes and the pairs
    /// that the index says; the disk's answers.
    ///
    /// # Panics
    /// If `index` is not below [`SnapshotReader::block_count`].
    pub fn block(&self, index: usize) -> Result<SnapshotBlock> {
        let info = &self.index[index];
        let stored = self.stored(info)?;
        let records = match info.stored_size == info.raw_size {
            true => stored,
            false => lz4_flex::block::decompress(&stored, info.raw_size as usize)
                .map_err(|_| damaged(&self.name, "a compressed block"))?,
        };
        let pairs = Records::new(&records).filter(|record| record.value().is_some());
        let size: usize = Records::new(&records).map(|record| record.size()).sum();
        let is_whole = records.len() == info.raw_size as usize
            && size == records.len()
            && pairs.count() == info.pair_count as usize;
        match is_whole {
            true => Ok(SnapshotBlock { records }),
            false => Err(wrong(&self.name, &format!("the block at byte {}", info.offset))),
        }
    }

    /// Reads every block and compares its checksum.
    ///
    /// # Errors
    /// As [`SnapshotReader::block`].
    pub fn verify(&self) -> Result<()> {
        self.index.iter().try_for_each(|info| self.stored(info).map(drop))
    }

    /// The bytes of a block as they are in the file.
    fn stored(&self, info: &BlockInfo) -> Result<Vec<u8>> {
        let mut stored = vec![0; info.stored_size as usize];
        let read =
            ask::<D::File, _>(&self.name, || read_up_to(&self.file, &mut stored, info.offset))?;
        if read < stored.len() || crc32c::crc32c(&stored) != info.checksum {
            return Err(damaged(&self.name, &format!("the block at byte {}", info.offset)));
        }
        Ok(stored)
    }
}

/// Asks the disk for something of a snapshot, and again if its medium cannot be read: it may be able to the next time.
/// What it cannot read then is damaged. Any other answer is about this moment.
fn ask<F: DiskFile, T>(name: &str, mut question: impl FnMut() -> io::Result<T>) -> Result<T> {
    let mut tries = 1;
    loop {
        match question() {
            Ok(answer) => return Ok(answer),
            Err(error) if !is_bad_medium(&error) => {
                return Err(Error::io(format!("cannot read {name}"), &error));
            }
            Err(error) if tries == READ_TRIES => {
                return Err(Error::Damaged(format!(
                    "{name} is damaged: its disk cannot read it ({error}); an older snapshot and the log may do, \
                     or a backup"
                )));
            }
            Err(_) => {
                tries += 1;
                thread::sleep(F::READ_PAUSE);
            }
        }
    }
}

/// Whether an index is of blocks that follow each other up to it, and of as many pairs as the footer
/// says; so no block is larger than the file, and none is said to have more than a block can have.
fn fits(index: &[BlockInfo], footer: &Footer) -> bool {
    let mut end = HEADER_SIZE as u64;
    let mut pairs = 0;
    for info in index {
        let (stored, raw) = (u64::from(info.stored_size), u64::from(info.raw_size));
        let raw_max = (stored * UNPACKED_MAX).min((BLOCK_TARGET + ENTRY_SIZE_MAX) as u64);
        if info.offset != end || !(stored..=raw_max).contains(&raw) {
            return false;
        }
        end += stored;
        pairs += u64::from(info.pair_count);
    }
    end == footer.index_offset && pairs == footer.pair_count
}

fn wrong(name: &str, what: &str) -> Error {
    Error::Damaged(format!(
        "{name} is damaged: {what} is not what it says it is, though its checksum is right; an older \
         snapshot and the log may do, or a backup"
    ))
}

fn damaged(name: &str, what: &str) -> Error {
    Error::Damaged(format!(
        "{name} is damaged: {what} does not have the right checksum; an older snapshot and the log \
         may do, or a backup"
    ))
}
