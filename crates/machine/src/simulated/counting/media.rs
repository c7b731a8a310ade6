//! Persistent memory as its modules work: 64-byte lines arrive, 256-byte blocks are written.
//!
//! Each module has a small buffer of blocks, for what is read and what is written. A line that is
//! wanted brings its whole block in; a line that arrives is combined with others of its block. A block
//! with new lines is written whole when it leaves the buffer; what neither arrived nor was read before
//! must be read from the medium first. So a block that is read and then written, as a tree does, is
//! read once, and a line that is wanted of a block that was only written in part brings the block in.

use std::collections::HashMap;

/// Lines per media block.
const LINES: u64 = 4;
/// Bytes per media block.
pub const BLOCK_BYTES: u64 = 256;
/// Modules are interleaved in pieces of this many blocks (4 KiB).
const INTERLEAVE: u64 = 16;

/// The shape of persistent memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MediaShape {
    /// Interleaved modules, at least 1.
    pub modules: usize,
    /// Blocks in the buffer of each, at least 1.
    pub buffer_blocks: usize,
}

#[derive(Clone, Copy)]
struct Block {
    /// Bit i: line i of the block arrived.
    written: u8,
    /// Whether the block was read from the medium.
    is_read: bool,
    used: u64,
}

/// All modules.
pub struct Media {
    shape: MediaShape,
    modules: Vec<HashMap<u64, Block>>,
    clock: u64,
    /// Bytes read from and written to the medium so far.
    pub read_bytes: u64,
    pub written_bytes: u64,
}

impl Media {
    pub fn new(shape: MediaShape) -> Self {
        let modules = vec![HashMap::new(); shape.modules.max(1)];
        Media { shape, modules, clock: 0, read_bytes: 0, written_bytes: 0 }
    }

    fn enter(&mut self, block: u64) -> &mut Block {
        self.clock += 1;
        let index = (block / INTERLEAVE) as usize % self.modules.len();
        let is_new = !self.modules[index].contains_key(&block);
        if is_new && self.modules[index].len() >= self.shape.buffer_blocks.max(1) {
            // The clock is unique, so the oldest block is, whatever the order of the table.
            let oldest = self.modules[index].iter().min_by_key(|(_, held)| held.used);
            if let Some((&oldest, _)) = oldest
                && let Some(held) = self.modules[index].remove(&oldest)
            {
                self.retire(held);
            }
        }
        let used = self.clock;
        let fresh = Block { written: 0, is_read: false, used };
        let held = self.modules[index].entry(block).or_insert(fresh);
        held.used = used;
        held
    }

    fn retire(&mut self, block: Block) {
        if block.written == 0 {
            return;
        }
        self.written_bytes += BLOCK_BYTES;
        if block.written != (1 << LINES) - 1 && !block.is_read {
            self.read_bytes += BLOCK_BYTES;
        }
    }

    /// A line arrives from the caches.
    pub fn write(&mut self, line: u64) {
        self.enter(line / LINES).written |= 1 << (line % LINES);
    }

    /// A line is wanted by the caches.
    pub fn read(&mut self, line: u64) {
        let held = self.enter(line / LINES);
        if !held.is_read && held.written & 1 << (line % LINES) == 0 {
            held.is_read = true;
            self.read_bytes += BLOCK_BYTES;
        }
    }

    /// Empties the buffers.
    pub fn flush(&mut self) {
        for index in 0..self.modules.len() {
            for (_, block) in std::mem::take(&mut self.modules[index]) {
                self.retire(block);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Media bytes written per byte stored, for stores of `lines` adjacent lines at the given
    /// blocks, each store written back at once.
    fn amplification(lines: u64, blocks: impl Iterator<Item = u64>) -> f64 {
        let mut media = Media::new(MediaShape { modules: 2, buffer_blocks: 64 });
        let mut stored = 0;
        for block in blocks {
            for line in 0..lines {
                media.write(block * LINES + line);
                stored += 64;
            }
        }
        media.flush();
        media.written_bytes as f64 / stored as f64
    }

    #[test]
    fn scattered_small_writes_cost_a_whole_block_each() {
        // Distinct blocks in a scattered order (an odd multiplier permutes them).
        let scattered = || (0..4096u64).map(|index| index * 2_654_435_761 % 4096);
        assert_eq!(amplification(1, scattered()), 4.0);
        assert_eq!(amplification(2, scattered()), 2.0);
        assert_eq!(amplification(4, scattered()), 1.0);
    }

    #[test]
    fn sequential_small_writes_are_combined() {
        let mut media = Media::new(MediaShape { modules: 1, buffer_blocks: 64 });
        (0..4096).for_each(|line| media.write(line));
        media.flush();
        assert_eq!(media.written_bytes, 4096 * 64);
        assert_eq!(media.read_bytes, 0);
    }

    #[test]
    fn a_partly_written_block_is_read_first() {
        let mut media = Media::new(MediaShape { modules: 1, buffer_blocks: 1 });
        media.write(0);
        media.write(4);
        assert_eq!((media.written_bytes, media.read_bytes), (256, 256));
        // Its neighbour was fetched with it.
        media.read(8);
        media.read(9);
        assert_eq!(media.read_bytes, 256 + 256 + 256);
    }

    #[test]
    fn a_block_that_is_read_and_then_written_is_read_once() {
        let mut media = Media::new(MediaShape { modules: 1, buffer_blocks: 8 });
        media.read(0);
        media.write(0);
        media.flush();
        assert_eq!((media.written_bytes, media.read_bytes), (256, 256));
    }

    #[test]
    fn the_buffer_answers_for_lines_it_has_and_for_no_others() {
        let mut media = Media::new(MediaShape { modules: 1, buffer_blocks: 8 });
        media.write(0);
        media.read(0);
        assert_eq!(media.read_bytes, 0);
        media.read(1);
        assert_eq!(media.read_bytes, 256);
        media.flush();
        assert_eq!((media.written_bytes, media.read_bytes), (256, 256));
    }
}
