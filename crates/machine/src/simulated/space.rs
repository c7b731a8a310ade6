//! The address space of the simulated machine: the pool, then the arena of volatile memory, with a
//! flag byte per 8 bytes that says whether they may be touched.

use std::alloc::Layout;

use super::region::Region;

/// The granule may not be touched: freed, or never handed out.
pub const DEAD: u8 = 1;
/// The granule was handed out and not written since.
pub const RAW: u8 = 2;
/// The granule of the pool was handed out and not taken back.
pub const HANDED: u8 = 4;

/// Which thread took a range out of use, and when.
#[derive(Clone, Copy, Debug)]
pub struct Freed {
    pub start: usize,
    pub length: usize,
    pub thread: usize,
    pub step: u64,
}

/// The pool and the arena.
pub struct Space {
    region: Region,
    /// The pool is the first so many bytes.
    pub pool_bytes: usize,
    flags: Vec<u8>,
    used: usize,
    /// Allocations of the arena that were not freed.
    live: usize,
    freed: Vec<Freed>,
    flagged: Vec<(usize, usize)>,
    allocations: u64,
    /// Requests for space of the pool.
    requests: u64,
}

impl Space {
    pub fn new(pool_bytes: usize, arena_bytes: usize) -> Self {
        let total = pool_bytes + arena_bytes;
        let mut flags = vec![0; total / 8];
        flags[pool_bytes / 8..].fill(DEAD);
        Space {
            region: Region::new(total),
            pool_bytes,
            flags,
            used: pool_bytes,
            live: 0,
            freed: Vec::new(),
            flagged: Vec::new(),
            allocations: 0,
            requests: 0,
        }
    }

    pub fn region(&self) -> &Region {
        &self.region
    }

    /// The offset of `address` in pool or arena.
    #[inline]
    pub fn offset(&self, address: usize) -> Option<usize> {
        self.region.offset(address)
    }

    /// Empties the arena and makes the whole pool touchable.
    pub fn reset(&mut self) {
        for (start, length) in self.flagged.drain(..) {
            self.flags[start / 8..(start + length) / 8].fill(0);
        }
        self.flags[self.pool_bytes / 8..self.used / 8].fill(DEAD);
        self.used = self.pool_bytes;
        self.live = 0;
        self.freed.clear();
        self.allocations = 0;
        self.requests = 0;
    }

    /// Arena memory at an address that depends only on the earlier calls of the schedule, filled
    /// with a pattern; null when the arena is full or, of the calls that may be refused, that of number
    /// `refuse` comes.
    pub fn allocate(&mut self, layout: Layout, may_refuse: bool, refuse: Option<u64>) -> *mut u8 {
        self.allocations += u64::from(may_refuse);
        let start = self.used.next_multiple_of(layout.align().max(8));
        let size = layout.size().next_multiple_of(8);
        let is_refused = may_refuse && refuse.is_some_and(|number| number + 1 == self.allocations);
        if is_refused || start + size > self.region.size() {
            return std::ptr::null_mut();
        }
        self.used = start + size;
        self.live += 1;
        self.flags[start / 8..self.used / 8].fill(0);
        for word in start / 8..self.used / 8 {
            self.region.write(word, 0xDBDB_DBDB_DBDB_DBDB);
        }
        self.region.base().wrapping_add(start)
    }

    /// Takes a range out of use. Nothing in it may be touched for the rest of the schedule (arena)
    /// or until it is handed out again (pool).
    pub fn kill(&mut self, freed: Freed) {
        self.set(freed.start, freed.length, DEAD);
        if freed.start >= self.pool_bytes {
            self.live -= 1;
        }
        self.freed.push(freed);
    }

    /// How many calls of the threads asked for memory in this schedule.
    pub fn allocations(&self) -> u64 {
        self.allocations
    }

    /// Counts a request of the threads for space of the pool; whether it is that of number `refuse`.
    pub fn refuses_space(&mut self, refuse: Option<u64>) -> bool {
        self.requests += 1;
        refuse.is_some_and(|number| number + 1 == self.requests)
    }

    /// How many requests there were for space of the pool in this schedule.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// How many allocations of the arena were not freed.
    pub fn live(&self) -> usize {
        self.live
    }

    /// Where the first of them begins, if there is one.
    pub fn first_live(&self) -> Option<usize> {
        (self.pool_bytes..self.used).step_by(8).find(|offset| self.flags(*offset) & DEAD == 0)
    }

    /// Hands out a range of the pool: it may be touched; a fresh one holds nothing yet.
    pub fn revive(&mut self, start: usize, length: usize, is_fresh: bool) {
        self.set(start, length, if is_fresh { RAW | HANDED } else { HANDED });
    }

    fn set(&mut self, start: usize, length: usize, flag: u8) {
        let end = (start + length).next_multiple_of(8);
        self.flags[start / 8..end / 8].fill(flag);
        if start < self.pool_bytes {
            self.flagged.push((start / 8 * 8, end - start / 8 * 8));
        }
    }

    /// The flags of the granule at `offset`.
    #[inline]
    pub fn flags(&self, offset: usize) -> u8 {
        self.flags[offset / 8]
    }

    /// Notes that the granule at `offset` was written.
    #[inline]
    pub fn written(&mut self, offset: usize) {
        self.flags[offset / 8] &= !RAW;
    }

    /// The last freeing of a range that holds `offset`.
    pub fn find_freed(&self, offset: usize) -> Option<&Freed> {
        self.freed.iter().rev().find(|freed| offset.wrapping_sub(freed.start) < freed.length)
    }

    /// The name of an address for people: region and offset.
    pub fn name(&self, address: usize) -> String {
        match self.offset(address) {
            Some(offset) if offset < self.pool_bytes => format!("pool+{offset:#x}"),
            Some(offset) => format!("arena+{:#x}", offset - self.pool_bytes),
            None => "heap".to_string(),
        }
    }
}
