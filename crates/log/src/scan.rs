//! Reading segments: their headers, and their chunks in order.

use crate::chunk::{ChunkHeader, checksum, checksum_begun, checksum_continued};
use crate::disk::Unreadable;
use crate::layout::{
    BLOCK_SIZE, CHUNK_HEADER_SIZE, FORMAT_VERSION, HEADER_SIZE, NUMBER_MAX, SEGMENT, SEGMENT_MAGIC,
    file_name, read_u32, read_u64, write_u32, write_u64,
};
use crate::record::{Entry, decode_entries};
use crate::{Disk, Error, Lsn, Result};

/// Behind the end of the log, so many times the bytes of the segment are summed for nothing. A value may look like a
/// chunk in each of its blocks.
const IN_VAIN_MAX: u64 = 4;
/// From then on only chunks of this size are: those of the log seldom are larger.
const SHORT_CHUNK: u64 = 256 << 10;

/// No more memory than this, in bytes, is taken for a chunk before its checksum is known to be right: a file with holes
/// may be longer than what there is of it, and a header that claims all of it is not summed by itself.
const CLAIM_MAX: usize = 16 << 20;

/// What the header of a segment says of what is before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gap {
    /// The log is whole up to its first LSN.
    None,
    /// It is not, because its end was cut off: a snapshot from there on is needed.
    Cut,
    /// It is, but the store had more: the segment counts once there is a snapshot from its first LSN on.
    Owed,
    /// It follows one that is owed, and the snapshot was not there yet when it was begun.
    StillOwed,
}

impl Gap {
    fn of(number: u32) -> Gap {
        match number {
            0 => Gap::None,
            2 => Gap::Owed,
            3 => Gap::StillOwed,
            _ => Gap::Cut,
        }
    }

    /// Whether the log from the segment on cannot be replayed onto what is before it.
    pub(crate) fn is_beginning(self) -> bool {
        matches!(self, Gap::Cut | Gap::Owed)
    }

    /// Whether the segment counts only with a snapshot that may not be there yet.
    pub(crate) fn is_owed(self) -> bool {
        matches!(self, Gap::Owed | Gap::StillOwed)
    }
}

/// What the header of a segment says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentHeader {
    pub(crate) sequence: u64,
    pub(crate) first: Lsn,
    pub(crate) size: u64,
    /// Whether what is before it is enough for it to count.
    pub(crate) gap: Gap,
}

/// The header's bytes.
pub(crate) fn encode_header(uuid: &[u8; 16], header: &SegmentHeader) -> [u8; HEADER_SIZE] {
    let mut bytes = [0; HEADER_SIZE];
    bytes[..8].copy_from_slice(&SEGMENT_MAGIC);
    write_u32(&mut bytes, 8, FORMAT_VERSION);
    write_u32(&mut bytes, 12, BLOCK_SIZE as u32);
    bytes[16..32].copy_from_slice(uuid);
    write_u64(&mut bytes, 32, header.sequence);
    write_u64(&mut bytes, 40, header.first);
    write_u64(&mut bytes, 48, header.size);
    write_u32(&mut bytes, 56, header.gap as u32);
    let sum = crc32c::crc32c(&bytes[..60]);
    write_u32(&mut bytes, 60, sum);
    bytes
}

/// Checks magic, version, checksum and identity of the first 64 bytes of a segment or snapshot;
/// false if they are damaged.
///
/// # Errors
/// [`Error::Foreign`] if the file is whole, but of a newer version or another store.
pub(crate) fn check_start(
    name: &str,
    magic: [u8; 8],
    uuid: &[u8; 16],
    bytes: &[u8],
) -> Result<bool> {
    let is_whole = bytes.len() >= HEADER_SIZE
        && bytes[..8] == magic
        && read_u32(bytes, 60) == crc32c::crc32c(&bytes[..60]);
    if !is_whole {
        return Ok(false);
    }
    let version = read_u32(bytes, 8);
    if version > FORMAT_VERSION {
        return Err(Error::Foreign(format!(
            "{name} has format version {version} and this program reads up to {FORMAT_VERSION}: \
             use a newer Everleaf"
        )));
    }
    if bytes[16..32] != *uuid {
        return Err(Error::Foreign(format!(
            "{name} belongs to another store: give each store a folder of its own for its log"
        )));
    }
    Ok(true)
}

/// A segment that is open for reading, with a window over its bytes.
pub(crate) struct SegmentReader<'a, D: Disk> {
    disk: &'a D,
    uuid: &'a [u8; 16],
    name: String,
    /// `None` if its disk cannot even open it.
    file: Option<D::File>,
    /// Of one that cannot be opened that of a header, so that it does not pass for one that was cut off.
    size: u64,
    window: Vec<u8>,
    window_start: u64,
    /// Bytes that were summed behind the end of the log, for headers of no chunk.
    in_vain: u64,
    /// Zero in the window, so that it fits no checksum.
    unreadable: Unreadable,
}

/// A chunk whose checksum is right.
pub(crate) struct Chunk<'a> {
    pub(crate) header: ChunkHeader,
    /// The entries, sorted by LSN.
    pub(crate) entries: Vec<Entry<'a>>,
    /// The entries' bytes as they are in the file.
    pub(crate) body: &'a [u8],
}

impl<'a, D: Disk> SegmentReader<'a, D> {
    /// Opens the segment with this number.
    ///
    /// # Errors
    /// What the disk answers, but that it cannot read it: then nothing of it can be read.
    pub(crate) fn open(disk: &'a D, uuid: &'a [u8; 16], sequence: u64) -> Result<Self> {
        let name = file_name(SEGMENT, sequence);
        let mut unreadable = Unreadable::default();
        let opened = unreadable.open(disk, &name);
        let opened = opened.map_err(|error| Error::io(format!("cannot open {name}"), &error))?;
        let (file, size) = opened.map_or((None, BLOCK_SIZE), |(file, size)| (Some(file), size));
        Ok(SegmentReader {
            disk,
            uuid,
            name,
            file,
            size,
            window: Vec::new(),
            window_start: 0,
            in_vain: 0,
            unreadable,
        })
    }

    /// The header; `None` if it is damaged, or of another use of the file.
    ///
    /// # Errors
    /// As [`check_start`], and what the disk answers.
    pub(crate) fn header(&mut self, sequence: u64) -> Result<Option<SegmentHeader>> {
        let (uuid, name) = (self.uuid, self.name.clone());
        let Some(bytes) = self.bytes(0, HEADER_SIZE)? else { return Ok(None) };
        if !check_start(&name, SEGMENT_MAGIC, uuid, bytes)? {
            return Ok(None);
        }
        let header = SegmentHeader {
            sequence: read_u64(bytes, 32),
            first: read_u64(bytes, 40),
            size: read_u64(bytes, 48),
            gap: Gap::of(read_u32(bytes, 56)),
        };
        let is_sound = header.sequence == sequence && (1..=NUMBER_MAX).contains(&header.first);
        Ok(is_sound.then_some(header))
    }

    /// Whether it is known what the file is: a segment with a sound header, perhaps that of another use, or
    /// nothing at all.
    ///
    /// # Errors
    /// As [`check_start`], and what the disk answers.
    pub(crate) fn is_understood(&mut self) -> Result<bool> {
        let (uuid, name, is_empty) = (self.uuid, self.name.clone(), self.size == 0);
        match self.bytes(0, HEADER_SIZE)? {
            Some(bytes) => check_start(&name, SEGMENT_MAGIC, uuid, bytes),
            None => Ok(is_empty),
        }
    }

    /// Bytes in the file.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// The name of the file.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// What was asked for and cannot be read, at `offset` or behind: something durable may be there.
    pub(crate) fn unreadable_from(&self, offset: u64) -> Option<Error> {
        let (at, answer) = self.unreadable.first_from(offset)?;
        Some(Error::Damaged(format!(
            "{} is damaged at byte {at}: its disk cannot read it ({answer}), and what was durable may be there; try \
             again, since it may be able to; otherwise restore a backup, or use `everleaf snapshot POOL --salvage-log` \
             to go on with what was before it",
            self.name
        )))
    }

    /// In a few words that something of it cannot be read, if so.
    pub(crate) fn unreadable(&self) -> Option<String> {
        let (_, answer) = self.unreadable.first_from(0)?;
        Some(format!(
            "the disk cannot read {} ({answer}), and may be able to if you try again",
            self.name
        ))
    }

    /// Bytes of that.
    pub(crate) fn unreadable_size_from(&self, offset: u64) -> u64 {
        self.unreadable.size_from(offset)
    }

    /// `size` bytes at `offset`, with zeros for what cannot be read; `None` if the file ends before.
    fn bytes(&mut self, offset: u64, size: usize) -> Result<Option<&[u8]>> {
        let end = offset.checked_add(size as u64);
        let Some(file) = self.file.as_ref().filter(|_| end.is_some_and(|end| end <= self.size))
        else {
            return Ok(None);
        };
        let window_end = self.window_start + self.window.len() as u64;
        if offset < self.window_start || offset + size as u64 > window_end {
            let window = self.disk.portions().window;
            let window =
                if self.disk.mutant("log.window_bounds") { window } else { window.max(size) };
            let wanted = (self.size - offset).min(window as u64) as usize;
            self.window.resize(wanted, 0);
            self.window_start = offset;
            let read = self.unreadable.read_around(file, &mut self.window, offset);
            let done =
                read.map_err(|error| Error::io(format!("cannot read {}", self.name), &error))?;
            self.window.truncate(done);
        }
        let start = (offset - self.window_start) as usize;
        Ok(self.window.get(start..start + size))
    }

    /// The chunk of segment `sequence` at `offset`; `None` if there is none whose checksum is
    /// right. `expected` is the LSN it must begin with, if that is known.
    ///
    /// # Errors
    /// What the disk answers.
    pub(crate) fn chunk(
        &mut self,
        sequence: u64,
        offset: u64,
        expected: Option<Lsn>,
    ) -> Result<Option<Chunk<'_>>> {
        let (disk, uuid) = (self.disk, self.uuid);
        let Some(bytes) = self.bytes(offset, CHUNK_HEADER_SIZE)? else { return Ok(None) };
        let Some(header) = ChunkHeader::parse(bytes) else { return Ok(None) };
        let is_old = header.sequence != sequence && !disk.mutant("log.takes_old_chunks");
        if is_old || expected.is_some_and(|expected| header.first != expected) {
            return Ok(None);
        }
        let Some(size) = usize::try_from(header.body_size)
            .ok()
            .and_then(|size| size.checked_add(CHUNK_HEADER_SIZE))
        else {
            return Ok(None);
        };
        let expected_sum = read_u32(bytes, 4);
        let is_torn = size > CLAIM_MAX && self.sum_of(offset, size)? != Some(expected_sum);
        if is_torn && !disk.mutant("log.takes_torn_chunk") {
            return Ok(None);
        }
        let Some(bytes) = self.bytes(offset, size)? else { return Ok(None) };
        let body = &bytes[CHUNK_HEADER_SIZE..];
        let is_whole = checksum(disk, uuid, bytes) == read_u32(bytes, 4);
        if !is_whole && !disk.mutant("log.takes_torn_chunk") {
            return Ok(None);
        }
        let Some(mut entries) = decode_entries(body) else { return Ok(None) };
        entries.sort_unstable_by_key(|entry| entry.lsn);
        let is_dense = entries.len() == header.count as usize
            && (header.first..).zip(&entries).all(|(lsn, entry)| entry.lsn == lsn);
        if !is_dense {
            return Ok(None);
        }
        Ok(Some(Chunk { header, entries, body }))
    }

    /// The checksum of what would be a chunk of `size` bytes at `offset`, which is read in portions; `None` if the file
    /// ends before.
    fn sum_of(&mut self, offset: u64, size: usize) -> Result<Option<u32>> {
        let end = offset.saturating_add(size as u64);
        // Before the first portion is read: all of them would be, up to the end of the file.
        if end > self.size {
            return Ok(None);
        }
        let portion = self.disk.portions().window as u64;
        let (mut sum, mut at) = (checksum_begun(self.uuid), offset + 8);
        while at < end {
            let length = (end - at).min(portion) as usize;
            let Some(bytes) = self.bytes(at, length)? else { return Ok(None) };
            sum = checksum_continued(sum, bytes);
            at += length as u64;
        }
        Ok(Some(sum))
    }

    /// Bytes that [`Self::chunk`] sums at `offset`.
    fn claimed(&mut self, sequence: u64, offset: u64) -> Result<u64> {
        let left = self.size - offset;
        let header = self.bytes(offset, CHUNK_HEADER_SIZE)?.and_then(ChunkHeader::parse);
        let header = header.filter(|header| header.sequence == sequence);
        Ok(header.map_or(0, |header| header.body_size).min(left))
    }

    /// Looks behind `offset` for chunks of segment `sequence` whose checksum is right; returns the
    /// highest LSN that one of them says was durable, and the last LSN of the last. Where much was summed that
    /// is none, long ones are taken for torn.
    ///
    /// # Errors
    /// What the disk answers.
    pub(crate) fn look_behind(
        &mut self,
        sequence: u64,
        mut offset: u64,
    ) -> Result<Option<(Lsn, Lsn)>> {
        let mut found: Option<(Lsn, Lsn)> = None;
        while offset < self.size {
            let claimed = self.claimed(sequence, offset)?;
            let is_too_much = self.in_vain + claimed > IN_VAIN_MAX * self.size;
            let is_torn = is_too_much && claimed > SHORT_CHUNK;
            let chunk = if is_torn { None } else { self.chunk(sequence, offset, None)? };
            if let Some(header) = chunk.map(|chunk| chunk.header) {
                let (durable, last) = found.unwrap_or_default();
                found = Some((durable.max(header.durable), last.max(header.last())));
                offset += header.stored_size().unwrap_or(BLOCK_SIZE);
            } else {
                self.in_vain += if is_torn { 0 } else { claimed };
                offset += BLOCK_SIZE;
            }
        }
        Ok(found)
    }

    /// Bytes in the blocks behind `offset` in which a chunk of segment `sequence` begins, whole or
    /// not: what was written and did not count.
    ///
    /// # Errors
    /// What the disk answers.
    pub(crate) fn written_behind(&mut self, sequence: u64, offset: u64) -> Result<u64> {
        self.chunks_behind(sequence, offset).map(|(written, _)| written)
    }

    /// Where the last chunk of segment `sequence` ends, whole or not.
    ///
    /// # Errors
    /// What the disk answers.
    pub(crate) fn end_of_written(&mut self, sequence: u64) -> Result<u64> {
        self.chunks_behind(sequence, BLOCK_SIZE).map(|(_, end)| end)
    }

    /// The bytes of all chunks behind `offset`, whole or not, and where the last of them ends.
    fn chunks_behind(&mut self, sequence: u64, mut offset: u64) -> Result<(u64, u64)> {
        let (mut written, mut end) = (0, offset);
        while let Some(bytes) = self.bytes(offset, CHUNK_HEADER_SIZE)? {
            let header = ChunkHeader::parse(bytes).filter(|header| header.sequence == sequence);
            let left = self.size - offset;
            let size = header.and_then(|header| header.stored_size()).map(|size| size.min(left));
            offset += size.unwrap_or(BLOCK_SIZE);
            if let Some(size) = size {
                written += size;
                end = offset;
            }
        }
        Ok((written, end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RealDisk;
    use crate::chunk::seal;
    use crate::record::{Record, encode_entry, group_size};

    /// What took hours: a value whose blocks look like chunks that reach to the end of the file lies behind the end of
    /// a log, and each of them was summed.
    #[test]
    fn blocks_that_only_look_like_chunks_are_not_all_summed() {
        let (uuid, size) = ([1; 16], 4 << 20);
        let folder = tempfile::tempdir().unwrap();
        let disk = RealDisk::open(folder.path()).unwrap();
        let mut bytes = vec![0; size];
        let block = BLOCK_SIZE as usize;
        for at in (block..size).step_by(block) {
            let body_size = (size - at - CHUNK_HEADER_SIZE) as u64;
            let header = ChunkHeader { body_size, sequence: 1, first: 10, durable: 9, count: 1 };
            let mut chunk = vec![0; CHUNK_HEADER_SIZE];
            chunk.resize(CHUNK_HEADER_SIZE + body_size as usize, 0);
            seal(&disk, &uuid, header, &mut chunk);
            bytes[at..at + CHUNK_HEADER_SIZE].copy_from_slice(&chunk[..CHUNK_HEADER_SIZE]);
            bytes[at + 4] ^= 1;
        }
        // A chunk behind them is found all the same.
        let header = ChunkHeader { body_size: 0, sequence: 1, first: 78, durable: 77, count: 0 };
        let mut chunk = vec![0; CHUNK_HEADER_SIZE];
        seal(&disk, &uuid, header, &mut chunk);
        let last = size - block;
        bytes[last..].copy_from_slice(&chunk);
        std::fs::write(folder.path().join(file_name(SEGMENT, 1)), &bytes).unwrap();
        let mut reader = SegmentReader::open(&disk, &uuid, 1).unwrap();
        assert_eq!(reader.look_behind(1, BLOCK_SIZE).unwrap(), Some((77, 77)));
        let blocks = (size / block) as u64;
        let limit = IN_VAIN_MAX * size as u64 + blocks * SHORT_CHUNK;
        assert!(reader.in_vain <= limit, "{} of {limit} bytes", reader.in_vain);
        assert!(reader.in_vain > size as u64, "they were looked at");
    }
    /// What was taken: as much memory as the file is long, for a header in a file with holes that claims all of it. A
    /// chunk that is as long and whole is read.
    #[test]
    fn memory_is_taken_for_what_is_a_chunk_and_not_for_a_claim() {
        let uuid = [1; 16];
        let folder = tempfile::tempdir().unwrap();
        let disk = RealDisk::open(folder.path()).unwrap();
        let value = vec![7; 3 * CLAIM_MAX];
        let records = [Record::put(1, b"key", &value)];
        let mut chunk = vec![0; CHUNK_HEADER_SIZE];
        encode_entry(&mut chunk, 10, group_size(&records).unwrap(), &records);
        let body_size = (chunk.len() - CHUNK_HEADER_SIZE) as u64;
        let header = ChunkHeader { body_size, sequence: 1, first: 10, durable: 9, count: 1 };
        seal(&disk, &uuid, header, &mut chunk);
        for is_whole in [false, true] {
            let file = std::fs::File::create(folder.path().join(file_name(SEGMENT, 1))).unwrap();
            let there = if is_whole { &chunk[..] } else { &chunk[..CHUNK_HEADER_SIZE] };
            std::os::unix::fs::FileExt::write_all_at(&file, there, BLOCK_SIZE).unwrap();
            file.set_len(BLOCK_SIZE + chunk.len() as u64).unwrap();
            let mut reader = SegmentReader::open(&disk, &uuid, 1).unwrap();
            let found = reader.chunk(1, BLOCK_SIZE, Some(10)).unwrap();
            assert_eq!(found.map(|chunk| chunk.entries.len()), is_whole.then_some(1));
            let is_little = reader.window.capacity() <= CLAIM_MAX;
            assert!(is_little || is_whole, "{} bytes", reader.window.capacity());
        }
    }
}
