//! The accountant: caches, media, and the tally of the operation that runs.

use std::collections::HashSet;

use super::super::raw::AddressRange;
use super::CountingConfig;
use super::cache::{Cache, Resident};
use super::dram::{Dram, PIECE_BYTES};
use super::media::Media;

/// A kind of machine operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A load, a byte match or a bulk read.
    Read,
    /// A store or a bulk write.
    Write,
    /// An atomic read-modify-write.
    Locked,
    /// A prefetch: fills the caches, is not a read of a line.
    Prefetch,
    /// A flush of one line.
    Flush,
    /// A drain.
    Drain,
    /// A full fence.
    Fence,
    /// A compare-and-exchange that found another value, beside its `Locked`.
    Refused,
    /// A turn of a waiting loop.
    Spin,
    /// A volatile node is allocated.
    Node,
    /// A piece of the pool is handed out.
    Piece,
}

/// Sums over operations of one kind. Lines are counted once per operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Operations.
    pub operations: u64,
    /// Loads, byte matches (one each) and bulk reads (one each).
    pub loads: u64,
    /// Stores and bulk writes (one each).
    pub stores: u64,
    /// Atomic read-modify-writes.
    pub locked: u64,
    /// Flushes of a line.
    pub flushes: u64,
    /// Those of them under a lock that the thread has taken, of locks that tell the machine.
    pub flushes_under_lock: u64,
    /// Drains.
    pub drains: u64,
    /// Full fences.
    pub fences: u64,
    /// Prefetches.
    pub prefetches: u64,
    /// Compare-and-exchanges that found another value.
    pub refused: u64,
    /// Turns of waiting loops.
    pub spins: u64,
    /// Volatile nodes allocated.
    pub nodes: u64,
    /// Pieces of the pool handed out: leaves, records.
    pub pieces: u64,
    /// Distinct lines of the pool read.
    pub pool_lines_read: u64,
    /// Distinct lines of the pool written.
    pub pool_lines_written: u64,
    /// Distinct other lines read.
    pub other_lines_read: u64,
    /// Distinct other lines written.
    pub other_lines_written: u64,
    /// Accesses that missed the first-level cache.
    pub l1_misses: u64,
    /// Accesses that missed the second-level cache too.
    pub l2_misses: u64,
    /// Accesses that missed all caches, to DRAM.
    pub dram_misses: u64,
    /// Accesses that missed all caches, to the pool.
    pub pool_misses: u64,
    /// The same, but of neighbouring lines that missed one right after the other only the first: a
    /// machine fetches the others ahead or at the same time.
    pub pool_chains: u64,
    /// Bytes read from the persistent medium.
    pub media_read_bytes: u64,
    /// Bytes written to the persistent medium.
    pub media_written_bytes: u64,
}

impl Tally {
    /// `sum`, a field of this tally, per operation; 0 if there was none.
    pub fn per_operation(&self, sum: u64) -> f64 {
        if self.operations == 0 { 0.0 } else { sum as f64 / self.operations as f64 }
    }
}

/// Lines of the pool have this bit in the caches' numbering.
const POOL: u64 = 1 << 62;

/// See the module.
pub struct Counter {
    pool_start: u64,
    pool_lines: u64,
    dram: Dram,
    only_memory: bool,
    l1: Cache,
    l2: Cache,
    l3: Cache,
    media: Media,
    tallies: Vec<(&'static str, Tally)>,
    running: Option<Option<usize>>,
    tally: Tally,
    media_before: (u64, u64),
    read: HashSet<u64>,
    written: HashSet<u64>,
    marks: Vec<(&'static str, u64)>,
    /// The line of the pool that missed last.
    last_miss: u64,
    /// Locks that the operation has taken and not opened.
    locks: u64,
}

impl Counter {
    pub fn new(config: &CountingConfig, base: usize, pool_bytes: usize) -> Self {
        Counter {
            pool_start: base as u64 / 64,
            pool_lines: pool_bytes as u64 / 64,
            dram: Dram::default(),
            only_memory: false,
            l1: Cache::new(config.l1),
            l2: Cache::new(config.l2),
            l3: Cache::new(config.l3),
            media: Media::new(config.media),
            tallies: Vec::new(),
            running: None,
            tally: Tally::default(),
            media_before: (0, 0),
            read: HashSet::new(),
            written: HashSet::new(),
            marks: Vec::new(),
            last_miss: 0,
            locks: 0,
        }
    }

    /// Starts an operation; without a kind it is not counted.
    pub fn begin(&mut self, kind: Option<&'static str>) {
        assert!(self.running.is_none(), "operations do not nest");
        self.running = Some(kind.map(|kind| {
            self.tallies.iter().position(|&(known, _)| known == kind).unwrap_or_else(|| {
                self.tallies.push((kind, Tally::default()));
                self.tallies.len() - 1
            })
        }));
        self.tally = Tally::default();
        self.last_miss = 0;
        self.locks = 0;
        self.media_before = (self.media.read_bytes, self.media.written_bytes);
        self.read.clear();
        self.written.clear();
    }

    /// Ends it.
    pub fn end(&mut self) {
        let Some(Some(index)) = self.running.take() else { return };
        let in_pool = |lines: &HashSet<u64>| lines.iter().filter(|&line| line & POOL != 0).count();
        let (read, written) = (in_pool(&self.read) as u64, in_pool(&self.written) as u64);
        self.tally.operations = 1;
        self.tally.pool_lines_read = read;
        self.tally.pool_lines_written = written;
        self.tally.other_lines_read = self.read.len() as u64 - read;
        self.tally.other_lines_written = self.written.len() as u64 - written;
        self.tally.media_read_bytes = self.media.read_bytes - self.media_before.0;
        self.tally.media_written_bytes = self.media.written_bytes - self.media_before.1;
        self.tallies[index].1 += self.tally;
    }

    pub fn tally(&self, kind: &str) -> Tally {
        let found = self.tallies.iter().find(|&&(known, _)| known == kind);
        found.map_or_else(Tally::default, |&(_, tally)| tally)
    }

    pub fn tallies(&self) -> &[(&'static str, Tally)] {
        &self.tallies
    }

    pub fn clear(&mut self) {
        self.tallies.clear();
        self.marks.clear();
    }

    /// Counts the locks that are held. One that its maker holds from the start is not told when it is made.
    pub fn holds_lock(&mut self, is_held: bool) {
        self.locks = if is_held { self.locks + 1 } else { self.locks.saturating_sub(1) };
    }

    /// Counts a coverage mark, if an operation that is counted runs.
    pub fn mark(&mut self, name: &'static str) {
        if !matches!(self.running, Some(Some(_))) {
            return;
        }
        match self.marks.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += 1,
            None => self.marks.push((name, 1)),
        }
    }

    pub fn marks(&self) -> &[(&'static str, u64)] {
        &self.marks
    }

    /// The caches' number of the line that holds `address`, and the address behind what it holds of the host's.
    fn line(&mut self, address: usize) -> (u64, usize) {
        let in_pool = (address as u64 / 64).wrapping_sub(self.pool_start);
        if in_pool < self.pool_lines {
            return (in_pool | POOL, (address & !63) + 64);
        }
        let (line, is_whole) = self.dram.number(address);
        let bytes = if is_whole { 64 } else { PIECE_BYTES };
        (line, (address & !(bytes - 1)) + bytes)
    }

    /// Whether only memory that is allocated and freed is looked at.
    pub fn only_memory(&mut self, is_only: bool) {
        self.only_memory = is_only;
    }

    /// A node is freed.
    pub fn free(&mut self, node: AddressRange) {
        self.dram.free(node);
    }

    /// Memory other than the pool is lost.
    pub fn lose_memory(&mut self) {
        self.dram.lose();
    }

    pub fn access(&mut self, access: Access, address: usize, size: usize) {
        if self.only_memory && access != Access::Node {
            return;
        }
        match access {
            Access::Read => self.tally.loads += 1,
            Access::Write => self.tally.stores += 1,
            Access::Locked => self.tally.locked += 1,
            Access::Prefetch => self.tally.prefetches += 1,
            Access::Drain => return self.tally.drains += 1,
            Access::Fence => return self.tally.fences += 1,
            Access::Refused => return self.tally.refused += 1,
            Access::Spin => return self.tally.spins += 1,
            Access::Node => {
                self.tally.nodes += 1;
                return self.dram.allocate(AddressRange { address, size });
            }
            Access::Piece => return self.tally.pieces += 1,
            Access::Flush => {
                self.tally.flushes += 1;
                self.tally.flushes_under_lock += u64::from(self.locks > 0);
                return self.flush(address);
            }
        }
        let write = matches!(access, Access::Write | Access::Locked);
        let (mut at, mut last) = (address, None);
        while at < address + size.max(1) {
            let (line, behind) = self.line(at);
            at = behind;
            // Pieces of a line that are met together.
            if last.replace(line) == Some(line) {
                continue;
            }
            if write {
                self.written.insert(line);
            }
            if matches!(access, Access::Read | Access::Locked) {
                self.read.insert(line);
            }
            self.touch(line, write);
        }
    }

    /// An access through the caches, which hold each line in one level only.
    fn touch(&mut self, line: u64, write: bool) {
        if let Some(resident) = self.l1.touch(line) {
            resident.dirty |= write;
            return;
        }
        self.tally.l1_misses += 1;
        let mut found = self.l2.take(line);
        if found.is_none() {
            self.tally.l2_misses += 1;
            found = self.l3.take(line);
        }
        let resident = found.unwrap_or_else(|| {
            if line & POOL == 0 {
                self.tally.dram_misses += 1;
            } else {
                self.tally.pool_misses += 1;
                self.tally.pool_chains += u64::from(line.abs_diff(self.last_miss) != 1);
                self.last_miss = line;
                self.media.read(line & !POOL);
            }
            Resident { line, dirty: false }
        });
        let resident = Resident { dirty: resident.dirty || write, ..resident };
        let displaced = self.l1.insert(resident);
        let displaced = displaced.and_then(|resident| self.l2.insert(resident));
        if let Some(victim) = displaced.and_then(|resident| self.l3.insert(resident)) {
            self.write_back(victim);
        }
    }

    fn write_back(&mut self, victim: Resident) {
        if victim.dirty && victim.line & POOL != 0 {
            self.media.write(victim.line & !POOL);
        }
    }

    /// Writes a line back and keeps it, clean.
    fn flush(&mut self, address: usize) {
        let (line, _) = self.line(address);
        let mut caches = [&mut self.l1, &mut self.l2, &mut self.l3];
        let found = caches.iter_mut().find_map(|cache| cache.find(line));
        let was = found.map(|resident| std::mem::replace(&mut resident.dirty, false));
        self.write_back(Resident { line, dirty: was == Some(true) });
    }

    pub fn write_back_all(&mut self) -> (u64, u64) {
        let before = (self.media.read_bytes, self.media.written_bytes);
        for level in [self.l1.empty(), self.l2.empty(), self.l3.empty()] {
            let mut level = level;
            level.sort_unstable_by_key(|resident| resident.line);
            level.into_iter().for_each(|resident| self.write_back(resident));
        }
        self.media.flush();
        (self.media.read_bytes - before.0, self.media.written_bytes - before.1)
    }
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, more: Tally) {
        self.operations += more.operations;
        self.loads += more.loads;
        self.stores += more.stores;
        self.locked += more.locked;
        self.flushes += more.flushes;
        self.flushes_under_lock += more.flushes_under_lock;
        self.drains += more.drains;
        self.fences += more.fences;
        self.prefetches += more.prefetches;
        self.refused += more.refused;
        self.spins += more.spins;
        self.nodes += more.nodes;
        self.pieces += more.pieces;
        self.pool_lines_read += more.pool_lines_read;
        self.pool_lines_written += more.pool_lines_written;
        self.other_lines_read += more.other_lines_read;
        self.other_lines_written += more.other_lines_written;
        self.l1_misses += more.l1_misses;
        self.l2_misses += more.l2_misses;
        self.dram_misses += more.dram_misses;
        self.pool_misses += more.pool_misses;
        self.pool_chains += more.pool_chains;
        self.media_read_bytes += more.media_read_bytes;
        self.media_written_bytes += more.media_written_bytes;
    }
}
