//! Processor and modules: caches, prefetchers, and the two buffers of a module.

use std::collections::{HashMap, VecDeque};

/// Lines of a block of the medium.
const LINES: u64 = 4;
/// Addresses from here on are DRAM.
pub(super) const DRAM: u64 = 1 << 50;
const NOTHING: u64 = u64::MAX;

/// Bytes, or, of an operation, the mean of them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Traffic {
    /// Read by the memory controller.
    pub controller_read: f64,
    /// Written by it.
    pub controller_written: f64,
    /// Read from the medium.
    pub media_read: f64,
    /// Written to it.
    pub media_written: f64,
}

#[derive(Clone, Copy)]
struct Resident {
    line: u64,
    dirty: bool,
}

/// Lines in the order of their use, by set.
struct Cache {
    ways: usize,
    lines: Vec<Resident>,
}

impl Cache {
    /// A cache of so many bytes, at least eight sets.
    fn new(bytes: f64, ways: usize) -> Self {
        let sets = ((bytes / 64.0) as usize / ways).max(8);
        Cache { ways, lines: vec![Resident { line: NOTHING, dirty: false }; sets * ways] }
    }

    fn set(&mut self, line: u64) -> &mut [Resident] {
        // The processor hashes addresses to sets too.
        let hash = line.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
        let set = (hash % (self.lines.len() / self.ways) as u64) as usize;
        &mut self.lines[set * self.ways..(set + 1) * self.ways]
    }

    fn touch(&mut self, line: u64) -> Option<&mut Resident> {
        let set = self.set(line);
        let way = set.iter().position(|resident| resident.line == line)?;
        set[..=way].rotate_right(1);
        set.first_mut()
    }

    fn has(&mut self, line: u64) -> bool {
        self.set(line).iter().any(|resident| resident.line == line)
    }

    fn take(&mut self, line: u64) -> Option<Resident> {
        let set = self.set(line);
        let way = set.iter().position(|resident| resident.line == line)?;
        let taken = std::mem::replace(&mut set[way], Resident { line: NOTHING, dirty: false });
        set[way..].rotate_left(1);
        Some(taken)
    }

    fn insert(&mut self, resident: Resident) -> Option<Resident> {
        let set = self.set(resident.line);
        set.rotate_right(1);
        let displaced = std::mem::replace(&mut set[0], resident);
        (displaced.line != NOTHING).then_some(displaced)
    }
}

/// A block in the write buffer.
struct Gathered {
    /// Lines that the medium does not have yet.
    lines: u8,
    is_whole: bool,
    used: u64,
}

/// A page of 4 KiB as the prefetcher for runs knows it.
#[derive(Clone, Copy)]
struct Stream {
    page: u64,
    last: u64,
    run: i64,
    used: u64,
}

/// One core and its persistent memory.
pub(crate) struct Machine {
    caches: [Cache; 3],
    /// Blocks read, with the lines that were not handed out yet, the oldest first.
    read: HashMap<u64, (u8, u64)>,
    read_order: VecDeque<(u64, u64)>,
    written: HashMap<u64, Gathered>,
    blocks: usize,
    streams: Vec<Stream>,
    clock: u64,
    /// Lines read and written, blocks read and written.
    counts: [u64; 4],
}

/// The share of the L3 that works for one thread. Fitted: see the module above.
const L3_SHARE: f64 = 0.25;

impl Machine {
    /// A Xeon Gold 6230 with six modules, as much smaller as the data are.
    pub fn xeon_6230(scale: f64) -> Self {
        let mebibyte = f64::from(1 << 20) / scale;
        Machine {
            caches: [
                Cache::new(8192.0, 8),
                Cache::new(mebibyte, 16),
                Cache::new(27.5 * L3_SHARE * mebibyte, 11),
            ],
            read: HashMap::new(),
            read_order: VecDeque::new(),
            written: HashMap::new(),
            // Each module has 16 KiB for either; an operation must not feel the smaller scale.
            blocks: ((6.0 * 64.0 / scale) as usize).max(64),
            streams: vec![Stream { page: NOTHING, last: 0, run: 0, used: 0 }; 32],
            clock: 0,
            counts: [0; 4],
        }
    }

    /// The traffic since the last call, by operation.
    pub fn take(&mut self, operations: u64) -> Traffic {
        let [lines_read, lines_written, read, written] = std::mem::take(&mut self.counts);
        let each = |count: u64, bytes: u64| (count * bytes) as f64 / operations as f64;
        Traffic {
            controller_read: each(lines_read, 64),
            controller_written: each(lines_written, 64),
            media_read: each(read, 64 * LINES),
            media_written: each(written, 64 * LINES),
        }
    }

    /// Loads from all lines of the bytes.
    pub fn read(&mut self, address: u64, size: u64) {
        (address / 64..=(address + size - 1) / 64).for_each(|line| self.access(line, false));
    }

    /// Stores to all lines of the bytes.
    pub fn write(&mut self, address: u64, size: u64) {
        (address / 64..=(address + size - 1) / 64).for_each(|line| self.access(line, true));
    }

    /// Flushes the lines: on this processor they also leave the caches.
    pub fn flush(&mut self, address: u64, size: u64) {
        for line in address / 64..=(address + size - 1) / 64 {
            if self.drop_from_caches(line) {
                self.write_line(line);
            }
        }
    }

    /// Stores that go past the caches.
    pub fn write_past(&mut self, address: u64, size: u64) {
        for line in address / 64..=(address + size - 1) / 64 {
            self.drop_from_caches(line);
            self.write_line(line);
        }
    }

    /// Says whether the line was dirty.
    fn drop_from_caches(&mut self, line: u64) -> bool {
        let mut taken = self.caches.iter_mut().map(|cache| cache.take(line));
        taken.find_map(|found| found).is_some_and(|resident| resident.dirty)
    }

    fn access(&mut self, line: u64, write: bool) {
        if let Some(resident) = self.caches[0].touch(line) {
            resident.dirty |= write;
            return;
        }
        let second = self.caches[1].take(line);
        let is_miss = second.is_none();
        let found = second.or_else(|| self.caches[2].take(line));
        let resident = found.unwrap_or_else(|| self.fetch(line));
        let resident = Resident { dirty: resident.dirty || write, ..resident };
        if let Some(displaced) = self.caches[0].insert(resident) {
            self.insert_second(displaced);
        }
        if is_miss {
            self.prefetch(line ^ 1);
        }
        self.follow(line);
    }

    fn fetch(&mut self, line: u64) -> Resident {
        if line < DRAM / 64 {
            self.read_line(line);
        }
        Resident { line, dirty: false }
    }

    fn insert_second(&mut self, resident: Resident) {
        let displaced = self.caches[1].insert(resident);
        if let Some(victim) = displaced.and_then(|resident| self.caches[2].insert(resident))
            && victim.dirty
            && victim.line < DRAM / 64
        {
            self.write_line(victim.line);
        }
    }

    /// Brings a line into the second cache.
    fn prefetch(&mut self, line: u64) {
        if self.caches[0].has(line) || self.caches[1].has(line) {
            return;
        }
        let found = self.caches[2].take(line);
        let resident = found.unwrap_or_else(|| self.fetch(line));
        self.insert_second(resident);
    }

    /// The prefetcher for runs: two steps in one direction within a page, and the next line is fetched.
    fn follow(&mut self, line: u64) {
        self.clock += 1;
        let (page, used) = (line / 64, self.clock);
        let Some(stream) = self.streams.iter_mut().find(|stream| stream.page == page) else {
            if let Some(oldest) = self.streams.iter_mut().min_by_key(|stream| stream.used) {
                *oldest = Stream { page, last: line, run: 0, used };
            }
            return;
        };
        let step = line.cast_signed() - stream.last.cast_signed();
        stream.used = used;
        if step == 0 {
            return;
        }
        let direction = step.signum();
        stream.run = match step.abs() <= 2 {
            true if stream.run.signum() * direction >= 0 => stream.run + direction,
            true => direction,
            false => 0,
        };
        stream.last = line;
        let next = line.wrapping_add_signed(direction);
        if stream.run.abs() >= 2 && next / 64 == page {
            self.prefetch(next);
        }
    }

    /// A line is wanted: handed out by a buffer once, or read with its block.
    fn read_line(&mut self, line: u64) {
        self.counts[0] += 1;
        let (block, bit) = (line / LINES, 1 << (line % LINES));
        if let Some(held) = self.written.get_mut(&block) {
            if !held.is_whole && held.lines & bit == 0 {
                held.is_whole = true;
                self.counts[2] += 1;
            }
            return;
        }
        if let Some((left, _)) = self.read.get_mut(&block)
            && *left & bit != 0
        {
            *left &= !bit;
            return;
        }
        self.counts[2] += 1;
        self.clock += 1;
        self.read.insert(block, (0xF & !bit, self.clock));
        self.read_order.push_back((block, self.clock));
        while self.read.len() > self.blocks {
            let Some((oldest, entered)) = self.read_order.pop_front() else { break };
            if self.read.get(&oldest).is_some_and(|held| held.1 == entered) {
                self.read.remove(&oldest);
            }
        }
    }

    /// A line arrives, and is gathered with others of its block. A block that is complete is written at once
    /// and leaves. If the line is one that the block has gathered already, the block is written and stays,
    /// clean.
    fn write_line(&mut self, line: u64) {
        self.counts[1] += 1;
        self.clock += 1;
        let (block, bit, used) = (line / LINES, 1 << (line % LINES), self.clock);
        if let Some(held) = self.written.get_mut(&block) {
            let is_again = held.lines & bit != 0;
            held.lines |= bit;
            held.used = used;
            let is_complete = held.lines == 0xF;
            if is_again || is_complete {
                self.write_out(block);
            }
            if is_complete && !is_again {
                self.written.remove(&block);
            }
            return;
        }
        if self.written.len() >= self.blocks {
            // The clock is unique, so the oldest block is, whatever the order of the table.
            let oldest = self.written.iter().min_by_key(|(_, held)| held.used);
            if let Some(oldest) = oldest.map(|(block, _)| *block) {
                self.write_out(oldest);
                self.written.remove(&oldest);
            }
        }
        let is_whole = self.read.remove(&block).is_some();
        self.written.insert(block, Gathered { lines: bit, is_whole, used });
    }

    /// Writes a block of the write buffer to the medium, once what it lacks is read.
    fn write_out(&mut self, block: u64) {
        let Some(held) = self.written.get_mut(&block) else { return };
        let lines = std::mem::take(&mut held.lines);
        let was_whole = std::mem::replace(&mut held.is_whole, true);
        if lines != 0 {
            self.counts[3] += 1;
            self.counts[2] += u64::from(!was_whole && lines != 0xF);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_brings_the_other_of_its_pair_and_one_block() {
        let mut machine = Machine::xeon_6230(100.0);
        machine.read(1 << 20, 8);
        assert_eq!(
            machine.take(1),
            Traffic { controller_read: 128.0, media_read: 256.0, ..Traffic::default() }
        );
        machine.read((1 << 20) + 64, 8);
        machine.read(DRAM, 64);
        assert_eq!(machine.take(1), Traffic::default());
    }

    #[test]
    fn scattered_flushes_write_a_block_each_and_a_row_shares_one() {
        let mut machine = Machine::xeon_6230(100.0);
        let each = |machine: &mut Machine, stride: u64| {
            for number in 0..4096 {
                machine.write_past(number * stride, 64);
            }
            machine.take(4096)
        };
        let row = each(&mut machine, 64);
        assert!((60.0..=64.0).contains(&row.media_written) && row.media_read == 0.0, "{row:?}");
        let scattered = each(&mut machine, 4096);
        assert!((250.0..=260.0).contains(&scattered.media_written), "{scattered:?}");
        // A part of a block is completed from the medium.
        assert!((250.0..=260.0).contains(&scattered.media_read), "{scattered:?}");
    }

    #[test]
    fn a_block_that_was_read_need_not_be_read_again_to_be_written() {
        let mut machine = Machine::xeon_6230(100.0);
        for number in 0..1000 {
            machine.write(number * 4096, 8);
            machine.flush(number * 4096, 8);
        }
        assert!((machine.take(1000).media_read - 256.0).abs() < 1.0);
    }

    /// Two records of half a line, each flushed: the block is written for each pair of them.
    #[test]
    fn a_line_that_arrives_again_makes_its_block_be_written() {
        let mut machine = Machine::xeon_6230(100.0);
        for number in 0..1024 {
            machine.write(number * 32, 32);
            machine.flush(number * 32, 32);
        }
        let each = machine.take(1024);
        assert!((125.0..=130.0).contains(&each.media_written), "{each:?}");
        // Each block was read once, for the first store to it.
        assert!((32.0..=33.0).contains(&each.media_read), "{each:?}");
    }

    #[test]
    fn a_block_written_early_stays_and_a_complete_one_leaves() {
        let mut machine = Machine::xeon_6230(100.0);
        machine.write_past(0, 256);
        assert!(machine.written.is_empty());
        machine.write_past(0, 64);
        machine.write_past(0, 64);
        // One block completed from the medium.
        let early = machine.take(1);
        assert_eq!((early.media_read, early.media_written), (256.0, 512.0));
        machine.write_past(64, 128);
        machine.read(192, 8);
        // Gathered, and neither written yet nor read again.
        assert_eq!((machine.take(1).media_read, machine.written[&0].lines), (0.0, 0b110));
    }

    #[test]
    fn runs_are_followed_within_a_page() {
        let mut machine = Machine::xeon_6230(100.0);
        machine.read(0, 5 * 64);
        // Five lines and the next of the run.
        assert_eq!(machine.take(1).controller_read, 6.0 * 64.0);
        machine.read(8192 + 3 * 64, 3 * 64);
        // The pair of the first, and the next of the run.
        assert_eq!(machine.take(1).controller_read, 5.0 * 64.0);
    }
}
