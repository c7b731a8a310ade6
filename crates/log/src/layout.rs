//! Bytes of the log's segments and of snapshots.
//!
//! All numbers are little-endian. Offsets are in bytes.
//!
//! ```text
//!   segment         offset  size    file `log-<sequence, 16 hexadecimal digits>`
//!   header               0    64
//!   zero                64  4032
//!   chunks            4096          each begins at a multiple of 4096; what follows the last is
//!                                   zero, or left from an earlier use of the file
//!
//!   segment header  offset  size
//!   magic                0     8    "EVERLOGS"
//!   format version       8     4    2; 1 if no gap of it is 2 or 3 and no record of kind 3
//!   block size          12     4    4096
//!   uuid                16    16    of the store the log belongs to
//!   sequence            32     8    as in the name; one more than that of the segment before
//!   first LSN           40     8    of the first chunk. From here on the segment counts, and what
//!                                   segments before it say of this LSN or later ones does not
//!   size                48     8    bytes of the file when it was made
//!   gap                 56     4    0; 1: what is before it is not whole up to the first LSN, so that
//!                                   a snapshot from there on is needed; 2: it is, but for that LSN
//!                                   less one, which nobody has, and the segment counts only with a
//!                                   snapshot from there on; 3: as 2, of the segment before
//!   checksum            60     4    CRC-32C of bytes 0 .. 60
//!
//!   chunk           offset  size
//!   mark                 0     4    "CHNK"
//!   checksum             4     4    CRC-32C of the uuid, bytes 8 .. 48 and the entries
//!   body size            8     8    bytes of the entries
//!   sequence            16     8    of the segment
//!   first LSN           24     8    the entries have this LSN and the following ones, in any order
//!   durable LSN         32     8    everything up to it was durable when the chunk was written
//!   entry count         40     4    0 for the mark of a clean end, or of a snapshot that was owed
//!                                   and is there: all up to the durable LSN counts
//!   zero                44     4
//!   entries             48
//!   zero                            up to a multiple of 4096
//!
//!   entry           offset  size    one atomic group of records
//!   LSN                  0     8
//!   size                 8     4    bytes of the records
//!   record count        12     4
//!   records             16
//!
//!   record          offset  size
//!   map                  0     4
//!   key size             4     3
//!   kind                 7     1    1 put, 2 deletion, 3 the key keeps its value and expires as
//!                                   the record says; 0x80 is added if there is an expiry
//!   value size           8     4    0 unless it is a put
//!   expiry              12     8    milliseconds since 1970-01-01 UTC; only if the kind says so
//!   key
//!   value
//!
//!   snapshot        offset  size    file `snapshot-<sequence, 16 hexadecimal digits>`
//!   header               0    64
//!   blocks              64          one behind the other
//!   index                     32    per block
//!   footer                    64    the last bytes of the file
//!
//!   snapshot header offset  size
//!   magic                0     8    "EVERSNAP"
//!   format version       8     4    1
//!   zero                12     4
//!   uuid                16    16
//!   sequence            32     8
//!   from LSN            40     8    the snapshot has all that was logged up to it
//!   segment             48     8    number of the segment that was written when it was begun; 0 of older versions
//!   zero                56     4
//!   checksum            60     4    CRC-32C of bytes 0 .. 60
//!
//!   block                           records as in a chunk, puts only, sorted by map and key; as they
//!                                   are, or compressed as one LZ4 block
//!
//!   index entry     offset  size
//!   offset               0     8    of the block in the file
//!   stored size          8     4    less than the raw size if and only if it is compressed
//!   raw size            12     4
//!   pair count          16     4
//!   checksum            20     4    CRC-32C of the stored bytes
//!   zero                24     8
//!
//!   footer          offset  size
//!   magic                0     8    "EVERSEND"
//!   from LSN             8     8
//!   to LSN              16     8    the snapshot may have some of what was logged up to it, and
//!                                   nothing later: it is valid with all of the log up to it
//!   pair count          24     8
//!   block count         32     8
//!   index offset        40     8
//!   sequence            48     8
//!   index checksum      56     4    CRC-32C of the index, and so of everything before
//!   checksum            60     4    CRC-32C of the uuid and bytes 0 .. 60
//! ```
//!
//! The first 64 bytes of both files keep the meaning of magic, version and checksum in every
//! version, so that a newer file is told from a damaged one.

use crate::{Error, Result};

/// The first eight bytes of a segment.
pub const SEGMENT_MAGIC: [u8; 8] = *b"EVERLOGS";
/// The first eight bytes of a snapshot.
pub const SNAPSHOT_MAGIC: [u8; 8] = *b"EVERSNAP";
/// The first eight bytes of a snapshot's footer.
pub const FOOTER_MAGIC: [u8; 8] = *b"EVERSEND";
/// The version of segments that this code writes, and the newest of any file that it reads.
pub const FORMAT_VERSION: u32 = 2;
/// The version of snapshots that this code writes.
pub const SNAPSHOT_VERSION: u32 = 1;
/// Chunks begin at multiples of this, so that no block ever has both durable and new bytes.
pub const BLOCK_SIZE: u64 = 4096;
/// Bytes in the header of a segment, of a snapshot, and in a snapshot's footer.
pub const HEADER_SIZE: usize = 64;
/// The first four bytes of a chunk.
pub const CHUNK_MARK: [u8; 4] = *b"CHNK";
/// Bytes in the header of a chunk.
pub const CHUNK_HEADER_SIZE: usize = 48;
/// Bytes in the header of an entry.
pub const ENTRY_HEADER_SIZE: usize = 16;
/// Bytes in the header of a record without expiry.
pub const RECORD_HEADER_SIZE: usize = 12;
/// Bytes in an entry of a snapshot's index.
pub const INDEX_ENTRY_SIZE: usize = 32;
/// The most bytes of records in one atomic group.
pub const ENTRY_SIZE_MAX: usize = 1 << 30;
/// The highest number of a file, and the highest LSN. A file that says more is damaged, and one whose
/// name does is not of the log.
pub const NUMBER_MAX: u64 = 1 << 62;

/// The four bytes at `offset`, as a number.
///
/// # Panics
/// If there are none.
pub fn read_u32(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(bytes[offset..offset + 4].try_into().expect("four bytes were taken"))
}

/// The eight bytes at `offset`, as a number.
///
/// # Panics
/// If there are none.
pub fn read_u64(bytes: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(bytes[offset..offset + 8].try_into().expect("eight bytes were taken"))
}

/// Stores a number in the four bytes at `offset`.
pub(crate) fn write_u32(bytes: &mut [u8], offset: usize, value: u32) {
    bytes[offset..offset + 4].copy_from_slice(&value.to_le_bytes());
}

/// Stores a number in the eight bytes at `offset`.
pub(crate) fn write_u64(bytes: &mut [u8], offset: usize, value: u64) {
    bytes[offset..offset + 8].copy_from_slice(&value.to_le_bytes());
}

/// `size`, rounded up to whole blocks.
pub(crate) fn whole_blocks(size: u64) -> u64 {
    size.next_multiple_of(BLOCK_SIZE)
}

/// The name of a file: its kind and its number.
pub(crate) fn file_name(kind: &str, sequence: u64) -> String {
    format!("{kind}-{sequence:016x}")
}

/// The number of a file of this kind, if the name is one.
pub(crate) fn parse_name(kind: &str, name: &str) -> Option<u64> {
    let digits = name.strip_prefix(kind)?.strip_prefix('-')?;
    let sequence = u64::from_str_radix(digits, 16).ok()?;
    (sequence <= NUMBER_MAX && file_name(kind, sequence) == name).then_some(sequence)
}

/// The number of the file after number `newest`.
///
/// # Errors
/// [`Error::Damaged`] if no number is left: only a file that was made up has such a name.
pub(crate) fn next_number(kind: &str, newest: u64) -> Result<u64> {
    match newest < NUMBER_MAX {
        true => Ok(newest + 1),
        false => Err(Error::Damaged(format!(
            "{} has the highest number there is, and the log did not make it: move it away",
            file_name(kind, newest)
        ))),
    }
}

/// The kind of a segment's name.
pub(crate) const SEGMENT: &str = "log";
/// The kind of the name of a file that waits to become a segment.
pub(crate) const SPARE: &str = "spare";
/// The kind of a snapshot's name.
pub(crate) const SNAPSHOT: &str = "snapshot";
/// The kind of the name of a snapshot that is being written.
pub(crate) const UNFINISHED: &str = "unfinished";
/// The kind of the name of a copy that is to be made of a damaged segment.
pub(crate) const COPYING: &str = "unfinished-log";

const _: () = assert!(BLOCK_SIZE.is_power_of_two() && HEADER_SIZE as u64 <= BLOCK_SIZE);
const _: () = assert!(CHUNK_HEADER_SIZE + ENTRY_HEADER_SIZE + RECORD_HEADER_SIZE <= 4096);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_strangers_are_not() {
        let name = file_name(SEGMENT, 0x1f);
        assert_eq!(name, "log-000000000000001f");
        assert_eq!(parse_name(SEGMENT, &name), Some(0x1f));
        for stranger in ["log-1f", "log-000000000000001F", "log-+00000000000001f", "spare-1", ""] {
            assert_eq!(parse_name(SEGMENT, stranger), None, "{stranger}");
        }
        let highest = file_name(SEGMENT, NUMBER_MAX);
        assert_eq!(parse_name(SEGMENT, &highest), Some(NUMBER_MAX));
        assert_eq!(parse_name(SEGMENT, &file_name(SEGMENT, NUMBER_MAX + 1)), None);
        assert_eq!(next_number(SEGMENT, NUMBER_MAX - 1).unwrap(), NUMBER_MAX);
        assert!(next_number(SEGMENT, NUMBER_MAX).unwrap_err().to_string().contains(&highest));
    }

    #[test]
    fn sizes_are_rounded_up_to_blocks() {
        assert_eq!([0, 1, 4096, 4097].map(whole_blocks), [0, 4096, 4096, 8192]);
    }
}
