//! Snapshots: all pairs of the store, sorted, in checked and compressed blocks.
//!
//! A snapshot is *fuzzy*: it is taken while the store is written to, so it has everything logged up
//! to its from-LSN, perhaps some of what was logged up to its to-LSN, and nothing later. Together with
//! the log from one to the other it is consistent; the footer, without which it is no snapshot, is
//! written when that log is durable. The two newest are kept, and the log back to the older.

mod reader;
mod writer;

pub use reader::{SnapshotBlock, SnapshotReader};
pub use writer::{SnapshotInfo, SnapshotWriter};

use crate::file_names::free_name;
use crate::layout::{
    FOOTER_MAGIC, HEADER_SIZE, INDEX_ENTRY_SIZE, SNAPSHOT, SNAPSHOT_MAGIC, SNAPSHOT_VERSION,
    file_name, read_u32, read_u64, write_u32, write_u64,
};
use crate::{Disk, Error, Lsn, Result};

/// Bytes of records in a block before it is compressed; the last of them may be a large one.
const BLOCK_TARGET: usize = 256 << 10;

/// Puts a snapshot aside under a name of this kind that no earlier one has, so that it is not one of the two that are
/// kept. Returns that name.
///
/// # Errors
/// What the disk answers.
pub(crate) fn put_aside<D: Disk>(disk: &D, sequence: u64, kind: &str) -> Result<String> {
    let name = file_name(SNAPSHOT, sequence);
    let renamed = disk.list().and_then(|names| {
        let aside = free_name(&names, kind, sequence);
        disk.rename(&name, &aside).map(|()| aside)
    });
    renamed.map_err(|error| Error::io(format!("cannot put {name} aside"), &error))
}

/// What the index says of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BlockInfo {
    offset: u64,
    stored_size: u32,
    raw_size: u32,
    pair_count: u32,
    checksum: u32,
}

impl BlockInfo {
    fn encode(&self, index: &mut Vec<u8>) {
        let mut bytes = [0; INDEX_ENTRY_SIZE];
        write_u64(&mut bytes, 0, self.offset);
        write_u32(&mut bytes, 8, self.stored_size);
        write_u32(&mut bytes, 12, self.raw_size);
        write_u32(&mut bytes, 16, self.pair_count);
        write_u32(&mut bytes, 20, self.checksum);
        index.extend_from_slice(&bytes);
    }

    fn decode(bytes: &[u8]) -> BlockInfo {
        BlockInfo {
            offset: read_u64(bytes, 0),
            stored_size: read_u32(bytes, 8),
            raw_size: read_u32(bytes, 12),
            pair_count: read_u32(bytes, 16),
            checksum: read_u32(bytes, 20),
        }
    }
}

/// The end of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Footer {
    from: Lsn,
    to: Lsn,
    pair_count: u64,
    block_count: u64,
    index_offset: u64,
    sequence: u64,
    index_checksum: u32,
}

impl Footer {
    fn encode(&self, uuid: &[u8; 16]) -> [u8; HEADER_SIZE] {
        let mut bytes = [0; HEADER_SIZE];
        bytes[..8].copy_from_slice(&FOOTER_MAGIC);
        write_u64(&mut bytes, 8, self.from);
        write_u64(&mut bytes, 16, self.to);
        write_u64(&mut bytes, 24, self.pair_count);
        write_u64(&mut bytes, 32, self.block_count);
        write_u64(&mut bytes, 40, self.index_offset);
        write_u64(&mut bytes, 48, self.sequence);
        write_u32(&mut bytes, 56, self.index_checksum);
        let sum = footer_checksum(uuid, &bytes);
        write_u32(&mut bytes, 60, sum);
        bytes
    }

    fn decode(uuid: &[u8; 16], bytes: &[u8; HEADER_SIZE]) -> Option<Footer> {
        let is_whole =
            bytes[..8] == FOOTER_MAGIC && read_u32(bytes, 60) == footer_checksum(uuid, bytes);
        is_whole.then(|| Footer {
            from: read_u64(bytes, 8),
            to: read_u64(bytes, 16),
            pair_count: read_u64(bytes, 24),
            block_count: read_u64(bytes, 32),
            index_offset: read_u64(bytes, 40),
            sequence: read_u64(bytes, 48),
            index_checksum: read_u32(bytes, 56),
        })
    }
}

fn footer_checksum(uuid: &[u8; 16], bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(uuid), &bytes[..60])
}

fn encode_start(uuid: &[u8; 16], sequence: u64, from: Lsn, segment: u64) -> [u8; HEADER_SIZE] {
    let mut bytes = [0; HEADER_SIZE];
    bytes[..8].copy_from_slice(&SNAPSHOT_MAGIC);
    write_u32(&mut bytes, 8, SNAPSHOT_VERSION);
    bytes[16..32].copy_from_slice(uuid);
    write_u64(&mut bytes, 32, sequence);
    write_u64(&mut bytes, 40, from);
    write_u64(&mut bytes, 48, segment);
    let sum = crc32c::crc32c(&bytes[..60]);
    write_u32(&mut bytes, 60, sum);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RealDisk;

    /// What was lost: a damaged snapshot that was put aside, when another of its number was: numbers are given again.
    #[test]
    fn what_was_put_aside_stays_when_its_number_comes_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let disk = RealDisk::open(folder.path().join("log")).expect("it opens");
        for _ in 0..2 {
            disk.create(&file_name(SNAPSHOT, 2)).expect("room");
            put_aside(&disk, 2, "damaged").expect("room");
        }
        let mut names = disk.list().expect("a folder");
        names.sort_unstable();
        let first = file_name("damaged", 2);
        assert_eq!(names, [first.clone(), format!("{first}.2")]);
        assert!(names.iter().all(|name| crate::is_put_aside(name)));
    }
}
