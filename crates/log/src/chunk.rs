//! Chunks: what one round of the log writes at once, whole or not at all.

use crate::layout::{
    BLOCK_SIZE, CHUNK_HEADER_SIZE, CHUNK_MARK, NUMBER_MAX, read_u32, read_u64, whole_blocks,
    write_u32, write_u64,
};
use crate::{Disk, Lsn};

/// What the header of a chunk says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkHeader {
    /// Bytes of the entries.
    pub(crate) body_size: u64,
    /// Of the segment the chunk was written to.
    pub(crate) sequence: u64,
    /// The entries have this LSN and the following ones.
    pub(crate) first: Lsn,
    /// Everything up to here was durable when the chunk was written.
    pub(crate) durable: Lsn,
    /// Number of entries; 0 for the mark of a clean end.
    pub(crate) count: u32,
}

impl ChunkHeader {
    /// The header at the start of `bytes`; `None` if there is none. The checksum is not looked at.
    pub(crate) fn parse(bytes: &[u8]) -> Option<ChunkHeader> {
        let bytes = bytes.get(..CHUNK_HEADER_SIZE)?;
        let header = ChunkHeader {
            body_size: read_u64(bytes, 8),
            sequence: read_u64(bytes, 16),
            first: read_u64(bytes, 24),
            durable: read_u64(bytes, 32),
            count: read_u32(bytes, 40),
        };
        let is_sound = bytes[..4] == CHUNK_MARK
            && (1..=NUMBER_MAX).contains(&header.first)
            && header.durable < header.first;
        is_sound.then_some(header)
    }

    /// LSN of the last entry; of the one before the chunk if it has none.
    pub(crate) fn last(&self) -> Lsn {
        self.first - 1 + u64::from(self.count)
    }

    /// Bytes of the chunk in the file; `None` if the header is not sound.
    pub(crate) fn stored_size(&self) -> Option<u64> {
        let size = self.body_size.checked_add(CHUNK_HEADER_SIZE as u64)?;
        size.checked_next_multiple_of(BLOCK_SIZE)
    }
}

/// The checksum of a chunk whose header and entries are `bytes`.
pub(crate) fn checksum<D: Disk>(disk: &D, uuid: &[u8; 16], bytes: &[u8]) -> u32 {
    let seed = checksum_begun(uuid);
    let mut covered = &bytes[8..];
    if disk.mutant("log.checks_first_block") {
        covered = &covered[..covered.len().min(BLOCK_SIZE as usize - 8)];
    }
    checksum_continued(seed, covered)
}

/// The checksum of a chunk that is read in portions: how it begins, and how it goes on behind the first eight bytes.
pub(crate) fn checksum_begun(uuid: &[u8; 16]) -> u32 {
    crc32c::crc32c(uuid)
}

/// See [`checksum_begun`].
pub(crate) fn checksum_continued(sum: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(sum, bytes)
}

/// Completes a chunk: `bytes` has room for the header and then the entries, and gets the header
/// and the zeros behind.
pub(crate) fn seal<D: Disk>(disk: &D, uuid: &[u8; 16], header: ChunkHeader, bytes: &mut Vec<u8>) {
    debug_assert_eq!(bytes.len() as u64, CHUNK_HEADER_SIZE as u64 + header.body_size);
    bytes[..4].copy_from_slice(&CHUNK_MARK);
    write_u64(bytes, 8, header.body_size);
    write_u64(bytes, 16, header.sequence);
    write_u64(bytes, 24, header.first);
    write_u64(bytes, 32, header.durable);
    write_u32(bytes, 40, header.count);
    write_u32(bytes, 44, 0);
    let sum = checksum(disk, uuid, bytes);
    write_u32(bytes, 4, sum);
    bytes.resize(whole_blocks(bytes.len() as u64) as usize, 0);
}

/// A chunk that goes to another segment than it was read from. Its bytes have room for the header, and are sealed in
/// place: a batch may have gigabytes.
pub(crate) struct UnsealedChunk {
    pub(crate) first: Lsn,
    /// How many entries.
    pub(crate) count: u32,
    pub(crate) bytes: Vec<u8>,
}

/// The entries of a chunk, behind room for the header and with space for what is behind them.
pub(crate) fn with_header_space(body: &[u8]) -> Vec<u8> {
    let size = whole_blocks((CHUNK_HEADER_SIZE + body.len()) as u64);
    let mut bytes = Vec::with_capacity(size as usize);
    bytes.resize(CHUNK_HEADER_SIZE, 0);
    bytes.extend_from_slice(body);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RealDisk;

    #[test]
    fn every_changed_bit_of_a_chunk_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let disk = RealDisk::open(folder.path()).unwrap();
        let header = ChunkHeader { body_size: 5, sequence: 3, first: 10, durable: 9, count: 2 };
        let mut bytes = vec![0; CHUNK_HEADER_SIZE];
        bytes.extend_from_slice(b"12345");
        seal(&disk, &[1; 16], header, &mut bytes);
        assert_eq!(bytes.len() as u64, header.stored_size().unwrap());
        assert_eq!(ChunkHeader::parse(&bytes), Some(header));
        assert_eq!(header.last(), 11);
        let is_good = |bytes: &[u8]| {
            bytes[..4] == CHUNK_MARK
                && read_u32(bytes, 4) == checksum(&disk, &[1; 16], &bytes[..CHUNK_HEADER_SIZE + 5])
        };
        assert!(is_good(&bytes));
        for bit in 0..8 * (CHUNK_HEADER_SIZE + 5) {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(!is_good(&bytes), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}
