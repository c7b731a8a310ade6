//! A new list, and recovery: level 0 is walked, and all others are made from it.

use everleaf_alloc::{AllocError, Recovery, Session};
use everleaf_index::build::Tally;
use everleaf_index::{IndexError, PoolBase, RootObject};
use everleaf_machine::{Machine, Ordering};

use super::PSkiplist;
use super::layout::{
    CORE_SIZE, DIRTY_VALUE, FLUSHED_END, LINKED_UP, LOG_WORD, Link, VARIANT_WORD, head_word,
    is_tall, linked_levels, live, node_size, tag,
};
use super::partitions::Partitions;
use super::variant::{LEVEL_COUNT_MAX, Variant};
use crate::node::write_log::Logs;

/// A node of level 0, as it was found.
pub(super) struct Found {
    pub offset: u64,
    pub key: u64,
    pub height: usize,
    /// The word of its value.
    pub word: u64,
}

/// A node that begins a partition: its place, its key, and the number of the last buffered write that it has.
type Tall = (u64, u64, u64);

impl<V: Variant, M: Machine> PSkiplist<V, M> {
    fn assemble(session: &Session<M>, root_object: RootObject<M>) -> Result<Self, IndexError> {
        let heap = session.heap().clone();
        let base = PoolBase::of(&heap);
        let head = root_object.word(head_word::<V>()).as_ptr().addr() - base.start().addr();
        let is_writable = !heap.pool().is_read_only();
        let writes_logs = V::BUFFERED && is_writable;
        let generation = if writes_logs { heap.pool().next_id()? } else { u32::MAX };
        let medium = heap.medium();
        let logs = Logs::new(base, medium, (root_object, LOG_WORD), generation, Self::LOGS);
        let bytes = if V::BUFFERED || V::CACHED { heap.pool().max_size() } else { 0 };
        Ok(PSkiplist {
            base,
            medium,
            root_object,
            head: head as u64,
            is_writable,
            keys: Tally::new(0),
            guide: vec![],
            partitions: Partitions::new(bytes, V::BUFFERED, logs),
            variant: std::marker::PhantomData,
            _heap: heap,
        })
    }

    pub(super) fn create_in(session: &mut Session<M>) -> Result<Self, IndexError> {
        // All links of the head are 0: an empty list.
        let root_object = RootObject::create(session, tag::<V>())?;
        let made = Self::assemble(session, root_object).and_then(|mut list| {
            let loaded = list.load_partitions(session, vec![]);
            loaded.inspect_err(|_| list.partitions.free(session))?;
            Ok(list)
        });
        let list = made.inspect_err(|_| root_object.free(session))?;
        if V::BUFFERED {
            list.partitions.buffers.logs.create();
        }
        root_object.word(VARIANT_WORD).write_private(u64::from(V::KIND));
        // Persist: the root object before the directory names the tree.
        session.medium().persist(root_object.word(0).as_ptr(), 16);
        Ok(list)
    }

    pub(super) fn open_in(
        session: &mut Session<M>,
        recovery: &Recovery<M>,
        root: u32,
    ) -> Result<Self, IndexError> {
        let root_object = RootObject::open(session.heap(), recovery, root, tag::<V>())?;
        let found = root_object.word(VARIANT_WORD).read_private();
        if found != u64::from(V::KIND) {
            let what =
                format!("a list is of variant {found}, and this is {} ({})", V::NAME, V::KIND);
            return Err(AllocError::Corrupt { offset: 0, what }.into());
        }
        let mut list = Self::assemble(session, root_object)?;
        let (keys, tall) =
            if list.is_writable { list.mend(recovery)? } else { list.look(recovery)? };
        let restored = list
            .load_partitions(session, tall)
            .and_then(|()| if V::BUFFERED { list.restore_buffers(recovery) } else { Ok(0) });
        let more = restored.inspect_err(|_| list.partitions.free(session))?;
        list.keys.add(0, keys + more);
        Ok(list)
    }

    /// Makes what there is of partitions in DRAM, in a variant that has them.
    fn load_partitions(
        &mut self,
        session: &mut Session<M>,
        mut tall: Vec<Tall>,
    ) -> Result<(), AllocError> {
        if !V::BUFFERED && !V::CACHED {
            return Ok(());
        }
        if V::BUFFERED && !V::CACHED && self.is_writable {
            for (number, (node, ..)) in (1..).zip(&tall) {
                self.number_word(*node).write_private(number);
            }
        }
        let flushed = if V::BUFFERED { self.flushed(self.head) } else { 0 };
        tall.insert(0, (self.head, 0, flushed));
        self.partitions.load(session, &tall, V::CACHED)
    }

    /// Refuses a number of flushed writes that nobody wrote.
    fn check_flushed(&self, node: u64) -> Result<(), AllocError> {
        let flushed = self.flushed(node);
        if V::BUFFERED && flushed >= FLUSHED_END {
            let what = format!("a node says that {flushed} writes are in their place");
            return Err(AllocError::Corrupt { offset: node, what });
        }
        Ok(())
    }

    /// Drops removed nodes from level 0, cleans what is dirty, and makes the other levels. Gives the number
    /// of keys, and the tall nodes. Nobody else is active; a crash may cut it anywhere, and it is begun again.
    fn mend(&self, recovery: &Recovery<M>) -> Result<(i64, Vec<Tall>), AllocError> {
        // Without its tall node a partition would be the left one's, and its records have numbers of their own (K10).
        let is_fixed = |found: &Found| {
            V::LOGGED
                && V::BUFFERED
                && is_tall::<V>(found.height)
                && !M::mutant("skiplist.drops_partition")
        };
        let stays = |found: &Found| {
            live(found.word).is_some() || is_fixed(found) || M::mutant("skiplist.keeps_removed")
        };
        self.check_flushed(self.head)?;
        // To the end before anything is changed: a damaged link may lead into another tree.
        self.walk(recovery, true, &mut |found| stays(found))?;
        let (mut last, mut keys, mut tall) = ([self.head; LEVEL_COUNT_MAX], 0, vec![]);
        self.walk(recovery, false, &mut |found| {
            if !stays(found) {
                return false;
            }
            keys += i64::from(live(found.word).is_some());
            self.end_work(found);
            if is_tall::<V>(found.height) {
                tall.push(self.tall(found));
            }
            let levels = linked_levels::<V>(found.height);
            for (level, last) in last.iter_mut().enumerate().take(levels) {
                self.relink(*last, level, found.offset);
                *last = found.offset;
            }
            true
        })?;
        for (level, last) in last.iter().enumerate().take(linked_levels::<V>(V::LEVEL_COUNT)) {
            self.relink(*last, level, 0);
        }
        // Persist: what was dropped is used again now.
        self.medium.drain();
        Ok((keys, tall))
    }

    fn tall(&self, found: &Found) -> Tall {
        let flushed = if V::BUFFERED { self.flushed(found.offset) } else { 0 };
        (found.offset, found.key, flushed)
    }

    /// Makes a link of a level lead to a node, if it does not.
    fn relink(&self, node: u64, level: usize, next: u64) {
        let word = self.link(node, level);
        let link = Link(word.read_private());
        if link.0 == next || level > 0 && M::mutant("skiplist.trusts_upper_links") {
            return;
        }
        // Relaxed: nobody else is active.
        word.store(next, Ordering::Relaxed);
        if level == 0 && link.node() != next {
            // Persist: by the drain at the end of recovery.
            self.medium.flush(word.as_ptr(), 8);
        }
    }

    /// Takes from a node what says that somebody is at work on it.
    fn end_work(&self, found: &Found) {
        if found.word & DIRTY_VALUE != 0 && !M::mutant("skiplist.keeps_dirty") {
            // Relaxed: nobody else is active. What a crash left is durable: opening has seen to it.
            self.value(found.offset).store(found.word & !DIRTY_VALUE, Ordering::Relaxed);
        }
        if V::BUFFERED {
            return;
        }
        let state = found.height as u64 | LINKED_UP;
        if self.state(found.offset).read_private() != state {
            // Relaxed: nobody else is active. No need to be durable.
            self.state(found.offset).store(state, Ordering::Relaxed);
        }
    }

    /// The same where nothing may be changed: links above level 0 are not used, but a guide in DRAM.
    fn look(&mut self, recovery: &Recovery<M>) -> Result<(i64, Vec<Tall>), AllocError> {
        self.check_flushed(self.head)?;
        let (mut guide, mut keys, mut tall) = (vec![], 0, vec![]);
        self.walk(recovery, true, &mut |found| {
            keys += i64::from(live(found.word).is_some());
            let begins = is_tall::<V>(found.height);
            if begins {
                tall.push(self.tall(found));
            }
            // With buffers the place in the guide is the partition's number.
            if begins || !V::BUFFERED && found.height > 1 {
                guide.push((found.key, found.offset));
            }
            true
        })?;
        self.guide = guide;
        Ok((keys, tall))
    }

    /// Calls `visit` with each node of level 0, which says whether it stays, and marks those that do if they
    /// are to be marked. Nobody else is active.
    pub(super) fn walk(
        &self,
        used: &Recovery<M>,
        marks: bool,
        visit: &mut dyn FnMut(&Found) -> bool,
    ) -> Result<(), AllocError> {
        let mut offset = Link(self.link(self.head, 0).read_private()).node();
        let mut before = None;
        while offset != 0 {
            let found = self.found(used, offset)?;
            if before.is_some_and(|before| found.key <= before) {
                let what =
                    format!("a node with key {} is at the wrong place of its list", found.key);
                return Err(AllocError::Corrupt { offset, what });
            }
            before = Some(found.key);
            if visit(&found) && marks {
                used.mark_record(offset, node_size::<V>(found.height))?;
            }
            offset = Link(self.link(offset, 0).read_private()).node();
        }
        Ok(())
    }

    /// The node at a place that a link names; refused if there cannot be one.
    fn found(&self, used: &Recovery<M>, offset: u64) -> Result<Found, AllocError> {
        let room = used.record_room(offset).unwrap_or(0);
        let height = if room < CORE_SIZE { 0 } else { self.height(offset) };
        if !(1..=V::LEVEL_COUNT).contains(&height) || node_size::<V>(height) > room {
            let what = format!("no node of a list can be here: {height} levels in {room} bytes");
            return Err(AllocError::Corrupt { offset, what });
        }
        let (key, word) = (self.key(offset), self.value(offset).read_private());
        if is_tall::<V>(height) {
            self.check_flushed(offset)?;
            if key == 0 {
                let what = "a node that begins a list has key 0".to_owned();
                return Err(AllocError::Corrupt { offset, what });
            }
        }
        Ok(Found { offset, key, height, word })
    }

    /// Gives everything back; nobody can reach the list any more.
    pub(super) fn free_everything(&self, session: &mut Session<M>) {
        let mut node = Link(self.link(self.head, 0).read_private()).node();
        while node != 0 {
            let next = Link(self.link(node, 0).read_private()).node();
            session.free_record(node, node_size::<V>(self.height(node)));
            node = next;
        }
        self.free_logs(session);
        self.partitions.free(session);
        self.root_object.free(session);
    }
}
