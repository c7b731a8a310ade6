//! The saved form of an ordered map: what RDB files, `DUMP` and a full synchronisation hold.
//!
//! Version 1 is a number, how many entries there are, and then blocks until that many were read.
//! A block is a string:
//!
//! ```text
//!   block  | CRC-32C of the rest, 4 bytes, lowest first | entries as in `packed` |
//! ```
//!
//! The names ascend over all blocks. A block has about 64 KiB, or one entry. Nothing that is read
//! is believed before it was checked, and no memory is taken by what a length says.

use crate::entry::Entry;
use crate::packed;

/// The version that is written; older ones can be read, newer ones are refused.
pub const VERSION: i32 = 1;
/// A block is full when it has this many bytes.
pub const BLOCK_SIZE: usize = 64 << 10;
const SUM_SIZE: usize = 4;

/// Collects entries into blocks.
pub struct BlockWriter {
    block: Vec<u8>,
}

impl BlockWriter {
    /// With an empty block.
    pub fn new() -> Self {
        BlockWriter { block: vec![0; SUM_SIZE] }
    }

    /// Adds an entry; what it returns is a block that is full.
    pub fn push(&mut self, entry: Entry<'_>) -> Option<Vec<u8>> {
        packed::append(&mut self.block, entry);
        if self.block.len() >= BLOCK_SIZE { self.finish() } else { None }
    }

    /// The last block, if anything is in it.
    pub fn finish(&mut self) -> Option<Vec<u8>> {
        if self.block.len() == SUM_SIZE {
            return None;
        }
        let mut block = std::mem::replace(&mut self.block, vec![0; SUM_SIZE]);
        seal(&mut block);
        Some(block)
    }
}

/// Writes the check sum of a block in front of its entries.
pub fn seal(block: &mut [u8]) {
    if let Some((sum, entries)) = block.split_first_chunk_mut::<SUM_SIZE>() {
        *sum = crc32c::crc32c(entries).to_le_bytes();
    }
}

/// Why a saved map is refused, and where: bytes of blocks before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Bytes of blocks before it.
    pub offset: u64,
    /// What is wrong.
    pub reason: String,
}

/// Reads blocks and checks them.
pub struct BlockReader {
    left: u64,
    offset: u64,
    last: Option<Vec<u8>>,
}

impl BlockReader {
    /// For a map of this many entries.
    ///
    /// # Errors
    /// None: a map that is kept is never empty.
    pub fn new(count: u64) -> Result<Self, Damage> {
        if count == 0 {
            return Err(Damage { offset: 0, reason: "it says that it has no entries".into() });
        }
        Ok(BlockReader { left: count, offset: 0, last: None })
    }

    /// Whether entries are still missing.
    pub fn is_unfinished(&self) -> bool {
        self.left > 0
    }

    /// Bytes of blocks that were read.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Reads a block, entry by entry.
    ///
    /// # Errors
    /// The block is damaged, its names do not ascend, it has more entries than were announced; or
    /// `see` refuses.
    pub fn block(
        &mut self,
        block: &[u8],
        mut see: impl FnMut(Entry<'_>) -> Result<(), String>,
    ) -> Result<(), Damage> {
        let start = self.offset;
        let damage = |at: usize, reason: String| Damage { offset: start + at as u64, reason };
        let Some((sum, entries)) = block.split_first_chunk::<SUM_SIZE>() else {
            return Err(damage(0, "a block is shorter than its check sum".into()));
        };
        if crc32c::crc32c(entries) != u32::from_le_bytes(*sum) {
            return Err(damage(0, "the check sum of a block is wrong: its bytes changed".into()));
        }
        if entries.is_empty() {
            return Err(damage(0, "a block has no entries".into()));
        }
        let mut at = 0;
        loop {
            let begin = at + SUM_SIZE;
            let entry = packed::read(entries, &mut at);
            let Some(entry) = entry.map_err(|reason| damage(begin, reason.into()))? else { break };
            let checked = self.admit(entry).and_then(|()| see(entry));
            checked.map_err(|reason| damage(begin, reason))?;
        }
        self.offset += block.len() as u64;
        Ok(())
    }

    fn admit(&mut self, entry: Entry<'_>) -> Result<(), String> {
        entry.check()?;
        if self.last.as_ref().is_some_and(|last| last.as_slice() >= entry.name) {
            return Err("a name is not greater than the one before".into());
        }
        if self.left == 0 {
            return Err("there are more entries than announced".into());
        }
        self.left -= 1;
        let last = self.last.get_or_insert_default();
        last.clear();
        last.extend_from_slice(entry.name);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saved() -> Vec<Vec<u8>> {
        let mut writer = BlockWriter::new();
        let names: Vec<String> = (0..5000).map(|i| format!("name-{i:05}")).collect();
        let value = [b'v'; 40];
        let mut blocks: Vec<Vec<u8>> = names
            .iter()
            .enumerate()
            .filter_map(|(i, name)| {
                let expiry_ms = if i % 3 == 0 { 1_000_000 + i as u64 } else { 0 };
                writer.push(Entry { name: name.as_bytes(), value: &value[..i % 40], expiry_ms })
            })
            .collect();
        blocks.extend(writer.finish());
        blocks
    }

    fn read(count: u64, blocks: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, Damage> {
        let mut reader = BlockReader::new(count)?;
        let mut names = vec![];
        for block in blocks {
            reader.block(block, |entry| {
                names.push(entry.name.to_vec());
                Ok(())
            })?;
        }
        assert!(!reader.is_unfinished() || names.len() < count as usize);
        Ok(names)
    }

    #[test]
    fn what_was_saved_is_read() {
        let blocks = saved();
        assert!(blocks.len() > 2);
        let names = read(5000, &blocks).expect("undamaged");
        assert_eq!(names.len(), 5000);
        assert!(names.is_sorted());
    }

    #[test]
    fn every_flipped_bit_of_a_block_is_found() {
        let mut block = saved().pop().expect("several");
        for bit in 0..block.len().min(8000) * 8 {
            block[bit / 8] ^= 1 << (bit % 8);
            read(5000, std::slice::from_ref(&block)).expect_err("a bit is wrong");
            block[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn bytes_with_a_right_sum_are_read_or_refused() {
        let mut block = saved().pop().expect("several");
        let mut refused = 0;
        for place in 4..block.len().min(2000) {
            for change in [0x01, 0x80, 0xFF] {
                block[place] ^= change;
                seal(&mut block);
                refused += u32::from(read(5000, std::slice::from_ref(&block)).is_err());
                block[place] ^= change;
            }
        }
        assert!(refused > 100, "{refused}");
    }

    #[test]
    fn blocks_in_another_order_too_many_and_too_few_are_found() {
        let mut blocks = saved();
        assert!(read(4999, &blocks).is_err());
        assert!(BlockReader::new(0).is_err());
        blocks.swap(0, 1);
        let damage = read(5000, &blocks).expect_err("out of order");
        assert!(damage.offset > 0 && damage.reason.contains("greater"), "{damage:?}");
    }
}
