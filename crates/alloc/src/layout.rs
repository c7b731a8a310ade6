//! Bytes of the allocator in the pool: chunks and their header words.
//!
//! ```text
//!   pool   | header, roots | heap header |  chunk  |  chunk  | ... |  chunk  |
//!   offset 0               DATA_START    first_chunk << shift          size
//!
//!   chunk  | header line 64 B | slots ...                            |  records
//!   chunk  | header block     | block | block | ...                  |  leaves of one class
//!   chunk  | header line 64 B | one large record over `run` chunks ...         |
//!
//!   header word   63      56 55      48 47            16 15           0
//!                |  kind    |  class   |  run (chunks)  |  check sum   |
//! ```
//!
//! The first word of a chunk says what the chunk (or the run of chunks it starts) is. It changes by
//! one 8-byte store, which is the durable commit of every change of ownership; zero means that the
//! chunk was never used. Nothing else about space is persistent: which slots of a chunk are in use
//! follows from what refers to them (`recover.rs`).

use everleaf_machine::LINE_SIZE;

/// Bytes of a leaf block of the smallest class, and the unit in which blocks are numbered.
pub const BLOCK_SIZE: usize = 1024;
/// Classes of leaf blocks: of 1, 2 and 4 KiB.
pub const BLOCK_CLASS_COUNT: usize = 3;
/// Alignment and smallest size of a record, in bytes.
pub const RECORD_ALIGN: usize = 16;
/// Bytes in front of the first record of a chunk.
pub const CHUNK_HEADER_SIZE: usize = LINE_SIZE;
/// Binary logarithm of the size of a chunk in an ordinary pool: 256 KiB.
pub const CHUNK_SHIFT: u32 = 18;
/// The smallest chunks, for simulated pools: 4 KiB.
pub const CHUNK_SHIFT_MIN: u32 = 12;
/// The largest chunks: 16 MiB.
pub const CHUNK_SHIFT_MAX: u32 = 24;
/// The space a heap can use, in bytes: block numbers have 30 bits, of which the last means none.
pub const POOL_SIZE_MAX: u64 = ((1 << 30) - 1) * BLOCK_SIZE as u64;
/// First word of the heap header: "EVLHEAP1".
pub const HEAP_MAGIC: u64 = u64::from_le_bytes(*b"EVLHEAP1");

/// Bytes of a leaf block of `class`.
pub const fn block_size(class: usize) -> usize {
    BLOCK_SIZE << class
}

/// The numbers of the blocks of `class` in a chunk, ascending. The place of the first is the header's.
pub fn blocks_of_chunk(
    class: usize,
    chunk: u64,
    shift: u32,
) -> impl DoubleEndedIterator<Item = u32> + Clone {
    let first = ((chunk << shift) / BLOCK_SIZE as u64) as u32;
    (1..blocks_per_chunk(class, shift)).map(move |slot| first + ((slot as u32) << class))
}

/// Places for blocks of `class` in a chunk, that of the header included.
pub const fn blocks_per_chunk(class: usize, shift: u32) -> usize {
    (1 << shift) / block_size(class)
}

/// What a chunk, or a run of chunks, is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkKind {
    /// Never used, or not durably taken: one free chunk.
    Unused,
    /// A run of free chunks.
    Free,
    /// Leaf blocks.
    Leaves,
    /// Records of one size class.
    Records,
    /// One large record over a run of chunks.
    Large,
}

/// The decoded header word of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkHeader {
    /// What the chunk is used for.
    pub kind: ChunkKind,
    /// Size class, for records and leaves.
    pub class: u8,
    /// Chunks in the run, at least 1.
    pub run: u32,
}

impl ChunkHeader {
    /// A header of one chunk.
    pub fn single(kind: ChunkKind, class: u8) -> Self {
        ChunkHeader { kind, class, run: 1 }
    }

    /// The header as its persistent word.
    pub fn encode(self) -> u64 {
        let kind = match self.kind {
            ChunkKind::Unused => return 0,
            ChunkKind::Free => 1u64,
            ChunkKind::Leaves => 2,
            ChunkKind::Records => 3,
            ChunkKind::Large => 4,
        };
        let body = kind << 56 | u64::from(self.class) << 48 | u64::from(self.run) << 16;
        body | check_sum(body)
    }

    /// The header from its word; `None` if the word cannot have been written by [`Self::encode`].
    pub fn decode(word: u64) -> Option<Self> {
        let run = (word >> 16) as u32;
        let kind = match word >> 56 {
            0 if word == 0 => return Some(ChunkHeader::single(ChunkKind::Unused, 0)),
            1 => ChunkKind::Free,
            2 => ChunkKind::Leaves,
            3 => ChunkKind::Records,
            4 => ChunkKind::Large,
            _ => return None,
        };
        let valid = check_sum(word & !0xFFFF) == word & 0xFFFF && run > 0;
        valid.then_some(ChunkHeader { kind, class: (word >> 48) as u8, run })
    }
}

/// Sixteen bits that tell a header word from a flipped or foreign one.
fn check_sum(body: u64) -> u64 {
    (body.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x00A5_5A00_0000_0000) >> 48
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_survives_encoding_and_no_single_bit_flip_does() {
        for kind in [ChunkKind::Free, ChunkKind::Leaves, ChunkKind::Records, ChunkKind::Large] {
            let header = ChunkHeader { kind, class: 17, run: 70_000 };
            let word = header.encode();
            assert_eq!(ChunkHeader::decode(word), Some(header));
            for bit in 0..64 {
                assert_eq!(ChunkHeader::decode(word ^ 1 << bit), None, "bit {bit}");
            }
        }
        assert_eq!(
            ChunkHeader::decode(0),
            Some(ChunkHeader::single(ChunkKind::Unused, 0)),
            "zeroed space is unused"
        );
    }
}
