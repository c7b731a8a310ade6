//! From a buffer to the list. In place, entry by entry; or out of place, where all new nodes are made and flushed
//! together, and each run of them that has the same neighbours is linked by one store.
//!
//! ```text
//!   L: 10 -> 20 -> 60    + 30 40 70   =>   10 -> 20 -------------> 60 -> .
//!                                                    30 -> 40 --'    70 -> .      flushed, drained
//!                                     =>   10 -> 20 -> 30 -> 40 -> 60 -> 70 -> .  two links, flushed, drained
//! ```
//!
//! All under the lock of the partition, and those of the ones that tall nodes begin in it, which their maker holds
//! from the start. What a crash leaves of a half filled list is in the log too: only at the end do the tall nodes, old
//! and new, say that their partitions have it (K10).

use everleaf_alloc::{AllocError, Session};
use everleaf_machine::{Machine, Ordering};

use super::PSkiplist;
use super::layout::{
    CORE_SIZE, DEAD_VALUE, FLUSHED_SHIFT, HEIGHT_MASK, is_tall, linked_levels, node_size,
};
use super::search::Path;
use super::variant::{LEVEL_COUNT_MAX, Variant};
use super::write::NewNode;
use crate::node::write_buffer::Buffered;

/// A new node, the partition that it begins, if it does, and where it will be.
struct Fresh {
    node: NewNode,
    partition: Option<u64>,
    key: u64,
    path: Path,
}

/// New nodes that nothing leads to yet, from the right to the left.
#[derive(Default)]
struct Pending {
    nodes: Vec<Fresh>,
    /// The node in front of each run, and the first of the run.
    runs: Vec<(u64, u64)>,
}

impl<V: Variant, M: Machine> PSkiplist<V, M> {
    /// Brings the buffer of a locked partition to the list. Partitions that come to be are noted in `made`, locked.
    ///
    /// # Errors
    /// No space; then what is in its place already is in the log and in the buffers as well.
    pub(super) fn fill(
        &self,
        session: &mut Session<M>,
        number: u64,
        made: &mut Vec<u64>,
    ) -> Result<(), AllocError> {
        let entries = self.partitions.entries(number, 0);
        if entries.is_empty() {
            return Ok(());
        }
        M::mark("skiplist.fill");
        let sequence = self.partitions.buffers.sequence(number);
        if M::mutant("skiplist.flushed_first") {
            self.set_flushed(&[number], sequence);
        }
        self.place(session, number, &entries, made)?;
        let all: Vec<u64> = made.iter().copied().chain([number]).collect();
        if V::LOGGED {
            self.set_flushed(&all, sequence);
        }
        all.iter().for_each(|number| self.partitions.buffer(*number).empty());
        Ok(())
    }

    /// Says, durably, up to which number locked partitions have the buffered writes.
    fn set_flushed(&self, numbers: &[u64], sequence: u64) {
        for number in numbers {
            let word = self.state(self.partitions.at(*number).node());
            let height = word.read_private() & HEIGHT_MASK;
            // Relaxed: only holders of the lock look at it.
            word.store(height | sequence << FLUSHED_SHIFT, Ordering::Relaxed);
            // Persist: by the drain below.
            self.medium.flush(word.as_ptr(), 8);
        }
        // Persist: before the buffer is emptied, and before the log forgets it (K10).
        self.medium.drain();
    }

    /// Opens a partition, and those that were made in it, and lets searches from above know these.
    pub(super) fn open(&self, session: &mut Session<M>, number: u64, made: &[u64]) {
        for number in made.iter().chain([&number]) {
            self.partitions.at(*number).unlock();
        }
        for number in made {
            let node = self.partitions.at(*number).node();
            if V::CACHED {
                self.partitions.cache(session, self.key(node), *number);
            } else {
                self.raise(node);
            }
        }
    }

    /// Makes entries part of the list, durably, in a locked partition to which they belong.
    ///
    /// # Errors
    /// No space; then some of them are. What needs no node is.
    pub(super) fn place(
        &self,
        session: &mut Session<M>,
        number: u64,
        entries: &[Buffered],
        made: &mut Vec<u64>,
    ) -> Result<(), AllocError> {
        let mut absent = self.change_stored(session, number, entries);
        // From the right to the left: what is behind a new node stays behind it.
        absent.sort_unstable_by_key(|entry| std::cmp::Reverse(entry.0));
        let (mut pending, mut placed) = (Pending::default(), Ok(()));
        for pair in absent {
            match self.new_place(session, pair.0) {
                Ok((node, partition)) => {
                    self.prepare(number, node, partition, pair, &mut pending);
                }
                Err(error) => {
                    placed = Err(error);
                    break;
                }
            }
            if !V::OUT_OF_PLACE {
                self.link_pending(number, &mut pending, made);
            }
        }
        self.link_pending(number, &mut pending, made);
        placed
    }

    /// Does what needs no node: changes values, and takes nodes out. Gives the pairs that do.
    fn change_stored(
        &self,
        session: &mut Session<M>,
        number: u64,
        entries: &[Buffered],
    ) -> Vec<(u64, u64)> {
        let first = self.partitions.at(number).node();
        let (mut absent, mut gone, mut is_changed) = (vec![], vec![], false);
        for (key, value) in entries {
            let path = self.path_in(first, *key);
            match (path.found, value) {
                (None, None) => continue,
                (None, Some(value)) => {
                    absent.push((*key, *value));
                    continue;
                }
                (Some(node), Some(value)) => self.set_value(node, *value),
                (Some(node), None) if self.is_tall(node) => self.set_value(node, DEAD_VALUE),
                (Some(node), None) => {
                    self.take_out(&path, node);
                    gone.push(node);
                }
            }
            is_changed = true;
            if !V::OUT_OF_PLACE {
                // Persist: each by itself, as the list without buffers does.
                self.medium.drain();
            }
        }
        if V::OUT_OF_PLACE && is_changed {
            // Persist: what is changed before its partition says that it has it (K10), and the ways around what is
            // taken out before that is used again.
            self.medium.drain();
        }
        for node in gone {
            let size = node_size::<V>(self.height(node));
            if M::mutant("skiplist.frees_under_readers") {
                session.free_record(node, size);
            } else {
                session.retire_record(node, size);
            }
        }
        absent
    }

    /// Stores a value. The caller drains it.
    fn set_value(&self, node: u64, value: u64) {
        // Relaxed: readers validate.
        self.value(node).store(value, Ordering::Relaxed);
        // Persist: by the caller's drain.
        self.medium.flush(self.value(node).as_ptr(), 8);
    }

    /// Unlinks a node. The caller drains it.
    fn take_out(&self, path: &Path, node: u64) {
        for level in (0..linked_levels::<V>(self.height(node))).rev() {
            let word = self.link(path.before[level], level);
            // Release: what is behind it, for a thread that comes this way; pairs with the acquire in `load`.
            word.store(self.load(node, level).0, Ordering::Release);
        }
        if !M::mutant("skiplist.no_way_around") {
            // Persist: by the caller's drain.
            self.medium.flush(self.link(path.before[0], 0).as_ptr(), 8);
        }
    }

    /// Memory for a node, and the partition that it begins if it is tall.
    fn new_place(
        &self,
        session: &mut Session<M>,
        key: u64,
    ) -> Result<(NewNode, Option<u64>), AllocError> {
        let node = self.new_node(session, key)?;
        if !is_tall::<V>(node.height) {
            return Ok((node, None));
        }
        if let Ok(number) = self.partitions.add(session, node.offset) {
            return Ok((node, Some(number)));
        }
        // Without memory for a partition it begins none.
        session.free_record(node.offset, node_size::<V>(node.height));
        let height = V::LOW_LEVELS;
        let offset = session.allocate_record(node_size::<V>(height))?;
        Ok((NewNode { offset, height }, None))
    }

    /// Writes a new node that will be behind what is in front of its key, and in front of what is pending.
    fn prepare(
        &self,
        number: u64,
        node: NewNode,
        partition: Option<u64>,
        (key, value): (u64, u64),
        pending: &mut Pending,
    ) {
        let NewNode { offset, height } = node;
        let first = self.partitions.at(number).node();
        let path = self.path_in(first, key);
        let before = path.before[0];
        let mut next = path.after[0];
        match pending.runs.last_mut() {
            Some(run) if run.0 == before => next = std::mem::replace(&mut run.1, offset),
            _ => pending.runs.push((before, offset)),
        }
        // Of what is in the buffer now, something may be missing behind a tall node if this is cut off (K10).
        let flushed = if M::mutant("skiplist.new_partition_flushed") {
            self.partitions.buffers.sequence(number)
        } else {
            self.flushed(first)
        };
        let flushed = if partition.is_some() { flushed << FLUSHED_SHIFT } else { 0 };
        self.state(offset).write_private(height as u64 | flushed);
        if let Some(partition) = partition.filter(|_| !V::CACHED) {
            self.number_word(offset).write_private(partition);
        }
        self.value(offset).write_private(value);
        self.set_key(offset, key);
        for level in 0..height {
            self.link(offset, level).write_private(if level == 0 { next } else { 0 });
        }
        pending.nodes.push(Fresh { node, partition, key, path });
    }

    /// Links what is pending, durably, and the partitions that it begins, noted in `made`.
    fn link_pending(&self, number: u64, pending: &mut Pending, made: &mut Vec<u64>) {
        if pending.nodes.is_empty() {
            return;
        }
        if !M::mutant("skiplist.no_run_flush") {
            self.flush_nodes(&pending.nodes);
            // Persist: the nodes before a link leads to them (K1).
            self.medium.drain();
        }
        for (before, first) in pending.runs.drain(..) {
            let word = self.link(before, 0);
            // Release: the nodes, for a thread that comes this way; pairs with the acquire in `load`.
            word.store(first, Ordering::Release);
            if !M::mutant("skiplist.no_run_link_flush") {
                // Persist: by the drain below.
                self.medium.flush(word.as_ptr(), 8);
            }
        }
        // Persist: the links before the partition says that it has what they lead to (K10), and before a tall node
        // can be found from above (K3).
        self.medium.drain();
        for Fresh { node, partition, key, path } in pending.nodes.drain(..) {
            for level in 1..V::LOW_LEVELS.min(node.height) {
                let before = self.link(path.before[level], level);
                // Relaxed: only the caller, which holds the lock, changes it.
                self.link(node.offset, level).write_private(before.load(Ordering::Relaxed));
                // Release: the node, for a thread that comes this way; pairs with the acquire in `load`.
                before.store(node.offset, Ordering::Release);
            }
            if let Some(upper) = partition {
                self.partitions.divide(number, upper, key);
                made.push(upper);
            }
        }
    }

    /// Flushes what has to be durable of new nodes: each line once.
    fn flush_nodes(&self, nodes: &[Fresh]) {
        let ends = |fresh: &Fresh| [fresh.node.offset, fresh.node.offset + CORE_SIZE as u64 - 1];
        let mut lines: Vec<u64> = nodes.iter().flat_map(ends).map(|byte| byte / 64).collect();
        lines.sort_unstable();
        lines.dedup();
        for line in lines {
            // Persist: by the caller's drain.
            self.medium.flush(self.link(line * 64, 0).as_ptr(), 64);
        }
    }

    /// Where a key of a partition is, or would be, on its levels.
    fn path_in(&self, first: u64, key: u64) -> Path {
        let mut path = Path {
            before: [first; LEVEL_COUNT_MAX],
            after: [0; LEVEL_COUNT_MAX],
            found: Some(first).filter(|first| *first != self.head && self.key(*first) == key),
        };
        if path.found.is_some() {
            return path;
        }
        let mut node = first;
        for level in (0..self.low_levels()).rev() {
            path.after[level] = loop {
                let next = self.load(node, level).node();
                if next == 0 || self.key(next) >= key {
                    break next;
                }
                node = next;
            };
            path.before[level] = node;
        }
        path.found = Some(path.after[0]).filter(|next| *next != 0 && self.key(*next) == key);
        path
    }

    /// The last tall node whose key is not greater, or the head, and the one behind it on this level, which is above
    /// the low ones.
    #[inline(always)]
    pub(super) fn above(&self, key: u64, level: usize) -> (u64, u64) {
        let (mut node, mut larger) = (self.head, 0);
        for level in (level..V::LEVEL_COUNT).rev() {
            loop {
                let next = self.load(node, level).node();
                // What was too large on the level above is so here.
                if next == 0 || next == larger {
                    break;
                }
                if self.key(next) > key {
                    larger = next;
                    break;
                }
                node = next;
            }
        }
        (node, larger)
    }

    /// Links a tall node on the levels above the low ones, from below. None of these ever goes.
    fn raise(&self, node: u64) {
        let key = self.key(node);
        for level in V::LOW_LEVELS..self.height(node) {
            loop {
                let (before, after) = self.above(key, level);
                // Relaxed: the exchange publishes it.
                self.link(node, level).store(after, Ordering::Relaxed);
                let word = self.link(before, level);
                // AcqRel: the node, for a thread that comes this way; pairs with the acquire in `load`. Relaxed on
                // failure: it looks again.
                if word.compare_exchange(after, node, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                    break;
                }
            }
        }
    }
}
