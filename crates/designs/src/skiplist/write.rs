//! Writes. No thread waits for another, but for one that makes the value of the same key durable.

use everleaf_alloc::{AllocError, Session};
use everleaf_index::build::{Change, Effect, Outcome};
use everleaf_machine::{Machine, Ordering};

use super::PSkiplist;
use super::layout::{
    CORE_SIZE, DEAD, DEAD_VALUE, DIRTY_VALUE, LINKED_UP, Link, is_tall, linked_levels, live,
    node_size,
};
use super::search::Path;
use super::variant::Variant;
use crate::node::version_lock::Retry;

/// A node that nobody else has seen.
#[derive(Clone, Copy)]
pub(super) struct NewNode {
    pub offset: u64,
    pub height: usize,
}

impl<V: Variant, M: Machine> PSkiplist<V, M> {
    /// One write. The caller is pinned.
    ///
    /// *Durable* when it returns.
    pub(super) fn write(
        &self,
        session: &mut Session<M>,
        change: &Change,
    ) -> Result<Outcome, AllocError> {
        if V::BUFFERED {
            return self.write_buffered(session, change);
        }
        let (mut attempt, mut spare) = (0, None);
        let outcome = loop {
            let path = self.seek(change.key);
            let done = match path.found {
                Some(node) => self.change_found(session, node, change),
                None => match change.decide(None) {
                    (outcome, Effect::Put) => {
                        let node = match spare.take() {
                            Some(node) => node,
                            None => self.new_node(session, change.key)?,
                        };
                        let is_linked = self.link_new(session, path, node, change);
                        spare = (!is_linked).then_some(node);
                        is_linked.then_some(outcome).ok_or(Retry::Now)
                    }
                    (outcome, _) => Ok(outcome),
                },
            };
            match done {
                Ok(outcome) => break outcome,
                Err(retry) => retry.pause::<M>(&mut attempt),
            }
            M::mark("skiplist.write_again");
        };
        if let Some(node) = spare {
            session.free_record(node.offset, node_size::<V>(node.height));
        }
        Ok(outcome)
    }

    /// The same on the node of the key.
    fn change_found(
        &self,
        session: &mut Session<M>,
        node: u64,
        change: &Change,
    ) -> Result<Outcome, Retry> {
        let word = self.read_word(node);
        let old = live(word);
        let (outcome, effect) = change.decide(old);
        let is_done = match (old, effect) {
            (_, Effect::None) => true,
            // In the way of a new one.
            (None, _) if !self.stays(node) => {
                self.mark(node);
                false
            }
            // Somebody is about to clean it (K4).
            _ if word & DIRTY_VALUE != 0 => return Err(Retry::Wait),
            (_, Effect::Put) => self.exchange(node, word, change.value, "skiplist.no_value_flush"),
            (_, Effect::Delete) => {
                let is_dead = self.exchange(node, word, DEAD_VALUE, "skiplist.no_dead_flush");
                if is_dead && !self.stays(node) {
                    self.remove(session, node);
                }
                is_dead
            }
        };
        if is_done { Ok(outcome) } else { Err(Retry::Now) }
    }

    /// Whether a node stays when it is removed, because the tree in DRAM leads to it (K11).
    #[inline(always)]
    fn stays(&self, node: u64) -> bool {
        self.is_tall(node) && !M::mutant("skiplist.removes_tall")
    }

    /// Gives a node another value, durably, unless it changed meanwhile.
    fn exchange(&self, node: u64, old: u64, new: u64, unflushed: &'static str) -> bool {
        let word = self.value(node);
        let dirty = if self.medium.needs_flush() { DIRTY_VALUE } else { 0 };
        // AcqRel: for the reader's sake; pairs with the acquire in `read_word`. Relaxed on failure: the caller
        // looks again.
        if word.compare_exchange(old, new | dirty, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return false;
        }
        if !M::mutant(unflushed) {
            // Persist: the value before it is clean, and before the writer returns (K4).
            self.medium.persist(word.as_ptr(), 8);
        }
        if dirty != 0 {
            // Release: pairs with the acquire in `read_word`. A store is enough: nobody else changes what is dirty.
            word.store(new, Ordering::Release);
        }
        true
    }

    /// Memory for a node of `key`, of random height.
    pub(super) fn new_node(
        &self,
        session: &mut Session<M>,
        key: u64,
    ) -> Result<NewNode, AllocError> {
        let drawn = 1 + draw(key, u64::from(session.turn())) / V::BRANCHING_SHIFT;
        let mut height = V::LEVEL_COUNT.min(drawn as usize);
        if key == 0 && is_tall::<V>(height) {
            // In front of it there would be a partition without keys.
            height = V::LOW_LEVELS;
        }
        let offset = session.allocate_record(node_size::<V>(height))?;
        Ok(NewNode { offset, height })
    }

    /// Puts a new node where its key would be; false, and nothing was done, if something changed there.
    fn link_new(
        &self,
        session: &mut Session<M>,
        path: Path,
        node: NewNode,
        change: &Change,
    ) -> bool {
        let NewNode { offset, height } = node;
        let (left, right) = (path.before[0], path.after[0]);
        let levels = linked_levels::<V>(height);
        let linked_up = if levels == 1 { LINKED_UP } else { 0 };
        self.value(offset).write_private(change.value);
        self.set_key(offset, change.key);
        self.state(offset).write_private(height as u64 | linked_up);
        for level in 0..height {
            self.link(offset, level).write_private(path.after[level]);
        }
        if !M::mutant("skiplist.no_node_flush") {
            // Persist: the node before a link to it (K1).
            self.medium.persist(self.link(offset, 0).as_ptr(), CORE_SIZE);
        }
        if M::mutant("skiplist.links_down") && levels > 1 {
            self.link_up(path.clone(), node, change.key);
        }
        let word = self.link(left, 0);
        let dirty = if self.medium.needs_flush() { Link::DIRTY } else { 0 };
        // AcqRel: the node, for a thread that comes this way; pairs with the acquire in `load`. Relaxed on failure:
        // the caller looks again.
        let linked =
            word.compare_exchange(right, offset | dirty, Ordering::AcqRel, Ordering::Relaxed);
        if linked.is_err() {
            return false;
        }
        if !M::mutant("skiplist.no_link_flush") {
            // Persist: the link before it is clean, and before the node is linked above (K2, K3).
            self.medium.persist(word.as_ptr(), 8);
        }
        self.clean(left, Link(offset | dirty));
        if levels > 1 {
            if !M::mutant("skiplist.links_down") {
                self.link_up(path, node, change.key);
            }
            self.end_links(session, offset);
        }
        if is_tall::<V>(height) {
            self.cache_node(session, offset, change.key);
        }
        true
    }

    /// Lets the tree in DRAM know a new node, which is durable and stays (K11). If there is no memory, it is found
    /// from the left.
    fn cache_node(&self, session: &mut Session<M>, node: u64, key: u64) {
        if let Ok(number) = self.partitions.add(session, node) {
            self.partitions.cache(session, key, number);
        }
    }

    /// Links a node on the levels above 0, from below, as long as it is not removed.
    fn link_up(&self, mut path: Path, node: NewNode, key: u64) {
        for level in 1..linked_levels::<V>(node.height) {
            while !self.link_on(&path, node.offset, level, key) {
                M::mark("skiplist.link_again");
                path = self.seek(key);
                // Removed, whether or not the thread that removes it has come to level 0.
                let is_marked = self.load(node.offset, level).is_marked();
                if is_marked || path.found != Some(node.offset) {
                    return;
                }
            }
        }
    }

    /// Links a node on one level; false if something is in the way, or the node is removed.
    fn link_on(&self, path: &Path, node: u64, level: usize, key: u64) -> bool {
        let (left, right) = (path.before[level], path.after[level]);
        if right != 0 && self.key(right) == key && !M::mutant("skiplist.before_its_like") {
            // A removed one, or else the path were newer (K6). It is marked by now, and unlinked next time.
            return false;
        }
        let own = self.link(node, level);
        let seen = self.load(node, level);
        // AcqRel, Relaxed: as in `unlink`. It fails if the node was removed meanwhile.
        let is_ours = !seen.is_marked()
            && (seen.node() == right
                || own
                    .compare_exchange(seen.0, right, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok());
        // AcqRel, Relaxed: as in `unlink`.
        is_ours
            && self
                .link(left, level)
                .compare_exchange(right, node, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
    }

    /// Says that a node gets no more links, and gives it up if it was removed meanwhile.
    fn end_links(&self, session: &mut Session<M>, node: u64) {
        // AcqRel: the links before the bit, for the thread that removes the node; and what that one has marked;
        // pairs with itself in `remove`.
        let before = self.state(node).fetch_or(LINKED_UP, Ordering::AcqRel);
        if before & DEAD != 0 && !M::mutant("skiplist.retires_early") {
            M::mark("skiplist.linker_retires");
            self.give_up(session, node);
        }
    }

    /// Marks all links of a node whose value is dead, durably: nothing is linked behind it any more.
    fn mark(&self, node: u64) {
        for level in (0..self.height(node)).rev() {
            if level == 0 && M::mutant("skiplist.no_mark") {
                break;
            }
            // AcqRel: the marks above before that on level 0, for a thread that does not see this one (K5).
            self.link(node, level).fetch_or(Link::MARK, Ordering::AcqRel);
        }
    }

    /// Takes a node out whose value the caller has made dead.
    fn remove(&self, session: &mut Session<M>, node: u64) {
        self.mark(node);
        // AcqRel: as in `end_links`.
        let before = self.state(node).fetch_or(DEAD, Ordering::AcqRel);
        if before & LINKED_UP != 0 || M::mutant("skiplist.retires_early") {
            self.give_up(session, node);
        }
    }

    /// Unlinks a node, all of whose links are made and marked, and gives it back when nobody can hold it.
    fn give_up(&self, session: &mut Session<M>, node: u64) {
        // Relaxed: neither changes.
        let (key, height) = (self.key(node), self.height(node));
        let path = self.seek(key);
        if !M::mutant("skiplist.no_unlink_flush") {
            // Persist: the link that spans the node before it is used again (K7).
            self.medium.persist(self.link(path.before[0], 0).as_ptr(), 8);
        }
        if M::mutant("skiplist.free_at_once") {
            session.free_record(node, node_size::<V>(height));
        } else {
            session.retire_record(node, node_size::<V>(height));
        }
    }
}

/// How many heads in a row a coin shows for the insert of a key in a turn of its session.
fn draw(key: u64, turn: u64) -> u32 {
    // Spread over all bits, so that it does not undo what keys that come in order have in their upper half.
    let turn = 1 << 32 ^ turn.wrapping_sub(1).wrapping_mul(0x3B87_ADB1_84D6_F371);
    let hash = (key ^ turn).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    // The upper bits of a product depend on all bits below.
    let hash = (hash ^ hash >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    hash.leading_zeros()
}

#[cfg(test)]
mod tests {
    use super::draw;

    /// Keys whose upper halves counted up with the turns all got the same height.
    #[test]
    fn heights_are_drawn_whatever_order_keys_come_in() {
        let orders: [fn(u64) -> u64; 8] = [
            |turn| turn,
            |_| 5,
            |turn| turn << 32,
            |turn| turn << 32 | 1,
            |turn| (turn - 1) << 32 | 7,
            |turn| turn << 20,
            |turn| turn << 48,
            |turn| u64::MAX - turn,
        ];
        for (number, key) in orders.into_iter().enumerate() {
            let mut counts = [0; 3];
            for turn in 1..=40_000 {
                counts[(draw(key(turn), turn) / 2).min(2) as usize] += 1;
            }
            // Three quarters, three sixteenths and a sixteenth.
            let [one, two, more] = counts;
            assert!((29_000..31_000).contains(&one), "{number}: {counts:?}");
            assert!((7_000..8_000).contains(&two), "{number}: {counts:?}");
            assert!((2_200..2_800).contains(&more), "{number}: {counts:?}");
        }
    }
}
