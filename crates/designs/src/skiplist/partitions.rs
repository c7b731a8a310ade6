//! Partitions, in variants with buffers or caching: a tall node, or the head, begins one, which goes on to the next
//! tall node. What belongs to it is in DRAM: a lock, its last key, and its buffer.
//!
//! ```text
//!   DRAM, by number      0: lock | head | last 29 | next 2       2: lock | 30 | last MAX | -
//!                             |                                       |
//!   pool, level 0          head -> 10 -> 20 -> 25 ----------------> 30 -> 40 -> 50 -> .
//!                                                                  tall
//! ```
//!
//! A partition has its number for as long as the pool is open, and stays: no tall node goes. A key that is behind the
//! last one of a partition is in one of those that follow; so a thread that comes to a partition by a way that does
//! not know the newest ones goes on to the right (K9).

use everleaf_alloc::{AllocError, Session};
use everleaf_index::Production;
use everleaf_machine::{Atomic, Machine, Ordering, SpinLock};

use crate::node::buffer_table::Buffers;
use crate::node::inner::InnerTree;
use crate::node::place_table::{Cell, Table};
use crate::node::version_lock::{Retry, VersionLock};
use crate::node::write_buffer::{Buffer, Buffered};
use crate::node::write_log::Logs;

/// Locks are in DRAM: they have one generation.
const GENERATION: u32 = 0;
/// Leaves of an inner tree are multiples of a line.
const LEAF_SHIFT: u32 = 6;
/// Fewer bytes of the pool than any tall node has.
const TALL_SIZE_MIN: u64 = 48;

/// What there is of a partition. Changed under its lock.
pub(super) struct Partition<M: Machine> {
    lock: VersionLock<M>,
    /// The node that begins it. Never changes.
    node: Atomic<u64, M>,
    /// The last key that belongs to it.
    last: Atomic<u64, M>,
    /// The number of the partition behind it, if there is one.
    next: Atomic<u64, M>,
}

impl<M: Machine> Cell for Partition<M> {
    fn clear(&self) {
        self.lock.reset_held(GENERATION);
        for word in [&self.node, &self.last, &self.next] {
            word.write_private(0);
        }
    }
}

impl<M: Machine> Partition<M> {
    /// The node that begins it.
    #[inline(always)]
    pub fn node(&self) -> u64 {
        // Relaxed: written before anybody had the number.
        self.node.load(Ordering::Relaxed)
    }

    /// The last key that belongs to it.
    #[inline(always)]
    pub fn last(&self) -> u64 {
        // Relaxed: validated with the lock, or read by its holder.
        self.last.load(Ordering::Relaxed)
    }

    /// The number of the partition behind it; 0 if there is none.
    #[inline(always)]
    pub fn next(&self) -> u64 {
        // Relaxed: as in `last`.
        self.next.load(Ordering::Relaxed)
    }

    /// Opens it after a change.
    pub fn unlock(&self) {
        self.lock.unlock();
    }

    /// Opens it when nothing was changed.
    pub fn unlock_unchanged(&self) {
        self.lock.unlock_unchanged();
    }

    /// Whether nobody holds it.
    pub fn is_open(&self) -> bool {
        self.lock.stable(GENERATION).is_some()
    }
}

/// All of them.
pub(super) struct Partitions<M: Machine> {
    cells: Table<Partition<M>, M, 1>,
    /// Partitions there are.
    count: SpinLock<u64, M>,
    has_buffers: bool,
    pub buffers: Buffers<M>,
    /// From first keys to numbers, in a variant with caching.
    cache: Option<InnerTree<Production, M>>,
}

impl<M: Machine> Partitions<M> {
    /// None yet, in a pool of `bytes`.
    pub fn new(bytes: u64, has_buffers: bool, logs: Logs<M>) -> Self {
        let places = bytes / TALL_SIZE_MIN;
        let buffers = Buffers::new(if has_buffers { places } else { 0 }, 1, logs);
        let count = SpinLock::new(0);
        Partitions { cells: Table::new(places), count, has_buffers, buffers, cache: None }
    }

    /// Gives the memory outside of the pool back. Nobody uses the list any more.
    pub fn free(&self, session: &mut Session<M>) {
        self.cells.free(session);
        self.buffers.free(session);
        if let Some(cache) = &self.cache {
            cache.free(session);
        }
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        *self.count.lock()
    }

    /// The partition of a number.
    #[inline(always)]
    pub fn at(&self, number: u64) -> &Partition<M> {
        self.cells.at(number)
    }

    /// The buffer of a partition.
    #[inline(always)]
    pub fn buffer(&self, number: u64) -> &Buffer<M> {
        self.buffers.part(number, 0)
    }

    /// A new partition that begins with a node, locked; gives its number.
    ///
    /// # Errors
    /// No memory; then there is none more.
    pub fn add(&self, session: &mut Session<M>, node: u64) -> Result<u64, AllocError> {
        let mut count = self.count.lock();
        let number = *count;
        self.cells.make_room(session, number)?;
        if self.has_buffers {
            self.buffers.make_room(session, number)?;
        }
        *count += 1;
        self.at(number).node.write_private(node);
        Ok(number)
    }

    /// Makes a new partition of the upper part of another, from `low` on. Both are locked.
    pub fn divide(&self, number: u64, upper: u64, low: u64) {
        let (from, to) = (self.at(number), self.at(upper));
        to.last.write_private(from.last());
        to.next.write_private(from.next());
        // Relaxed: readers validate.
        from.last.store(low - 1, Ordering::Relaxed);
        // Relaxed: readers validate.
        from.next.store(upper, Ordering::Relaxed);
        if self.has_buffers {
            // Records of the lower part may be of keys that are the upper one's now (K10).
            self.buffers.set_sequence(upper, self.buffers.sequence(number));
            let (from, to) = (self.buffer(number), self.buffer(upper));
            from.iter().filter(|(key, _)| *key >= low).for_each(|entry| to.put(None, entry));
            from.keep(|key| key < low);
        }
    }

    /// Makes what recovery found, or a new list has: partitions with these nodes, first keys and numbers of flushed
    /// writes, open.
    ///
    /// # Errors
    /// No memory.
    pub fn load(
        &mut self,
        session: &mut Session<M>,
        nodes: &[(u64, u64, u64)],
        is_cached: bool,
    ) -> Result<(), AllocError> {
        let mut leaves = vec![];
        for (index, (node, low, flushed)) in nodes.iter().enumerate() {
            let number = self.add(session, *node)?;
            let next = nodes.get(index + 1);
            self.at(number).last.write_private(next.map_or(u64::MAX, |next| next.1 - 1));
            self.at(number).next.write_private(next.map_or(0, |_| number + 1));
            if self.has_buffers {
                self.buffers.set_sequence(number, *flushed);
            }
            self.at(number).unlock();
            leaves.push((*low, number << LEAF_SHIFT));
        }
        if is_cached {
            let end = (session.heap().pool().max_size() / TALL_SIZE_MIN) << LEAF_SHIFT;
            self.cache = Some(InnerTree::load_up_to(session, end, &leaves)?);
        }
        Ok(())
    }

    /// The partition of `key`, or one on the left of that, as the tree in DRAM knows it.
    #[inline(always)]
    pub fn cached(&self, key: u64) -> u64 {
        self.cache.as_ref().map_or(0, |cache| cache.find_le(key).leaf >> LEAF_SHIFT)
    }

    /// Lets the tree in DRAM know a new partition, if there is one. If there is no memory, it is found from the left.
    pub fn cache(&self, session: &mut Session<M>, low: u64, number: u64) {
        if let Some(cache) = &self.cache {
            let _ = cache.insert_separator(session, low, number << LEAF_SHIFT);
        }
    }

    /// Locks the partition of `key`, from one on that is not on the right of it.
    pub fn lock(&self, mut number: u64, key: u64) -> u64 {
        let mut attempt = 0;
        loop {
            let partition = self.at(number);
            if partition.lock.try_lock(GENERATION) {
                if key <= partition.last() || M::mutant("skiplist.stays_in_partition") {
                    return number;
                }
                number = partition.next();
                partition.lock.unlock_unchanged();
            } else {
                M::spin(attempt);
                attempt += 1;
            }
            M::mark("skiplist.lock_again");
        }
    }

    /// What `see` makes of the partition of `key`, at one instant: of the first one from a number on, which is not on
    /// the right of it. The caller is pinned.
    #[inline(always)]
    pub fn look<R>(&self, mut number: u64, key: u64, see: impl Fn(u64) -> R) -> R {
        let mut attempt = 0;
        loop {
            let partition = self.at(number);
            let seen = partition.lock.stable_or_wait(GENERATION).and_then(|version| {
                let next = (key > partition.last()).then(|| partition.next());
                let seen = if next.is_none() { Some(see(number)) } else { None };
                let is_stable = partition.lock.validate(GENERATION, version)
                    || M::mutant("skiplist.no_validation");
                if is_stable { Ok((seen, next)) } else { Err(Retry::Now) }
            });
            match seen {
                Ok((Some(seen), _)) => return seen,
                Ok((None, next)) => number = next.unwrap_or(number),
                Err(retry) => retry.pause::<M>(&mut attempt),
            }
            M::mark("skiplist.look_again");
        }
    }

    /// The entries of a partition's buffer from `from` on, in a variant with buffers.
    pub fn entries(&self, number: u64, from: u64) -> Vec<Buffered> {
        if !self.has_buffers {
            return vec![];
        }
        self.buffer(number).iter().filter(|(key, _)| *key >= from).collect()
    }

    /// Holds the partitions, and the tree in DRAM, against the tall nodes: places and keys, the head first. Nobody
    /// else is active.
    pub fn check(&self, tall: &[(u64, u64)], problems: &mut Vec<String>) {
        if self.has_buffers {
            self.check_way(tall, problems);
        }
        if let Some(cache) = &self.cache {
            cache.check(problems);
            cache.for_each_leaf(&mut |low, leaf| {
                let node = self.at(leaf >> LEAF_SHIFT).node();
                let place = tall.binary_search_by_key(&low, |tall| tall.1);
                if place.map(|index| tall[index].0) != Ok(node) {
                    problems.push(format!("the tree in DRAM leads from {low} to {node} (K9)"));
                }
            });
        }
    }

    fn check_way(&self, tall: &[(u64, u64)], problems: &mut Vec<String>) {
        let mut number = 0;
        for (index, (node, low)) in tall.iter().enumerate() {
            let partition = self.at(number);
            let next = tall.get(index + 1);
            let last = next.map_or(u64::MAX, |next| next.1 - 1);
            if partition.node() != *node || partition.last() != last || !partition.is_open() {
                let seen = (partition.node(), partition.last());
                problems.push(format!("the partition from {low} on says {seen:?} (K9)"));
            }
            if (partition.next() == 0) != next.is_none() {
                return problems.push(format!("the way ends at the partition from {low} on (K9)"));
            }
            let entries = self.entries(number, 0);
            if entries.iter().any(|(key, _)| key < low || *key > last) {
                problems.push(format!("the buffer from {low} on has keys of another (K10)"));
            }
            number = partition.next();
        }
    }
}
