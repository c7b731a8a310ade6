//! Writes. Locks are taken from left to right.

use everleaf_alloc::{AllocError, Session};
use everleaf_index::Geometry;
use everleaf_index::build::{Change, Effect, Outcome};
use everleaf_machine::{Machine, Ordering};

use super::UTree;
use super::layout::{NODE_SIZE, Node, leaf_of};
use super::search::Seat;

impl<G: Geometry, M: Machine> UTree<G, M> {
    /// One write. The caller is pinned.
    ///
    /// *Durable* when it returns.
    pub(super) fn write(
        &self,
        session: &mut Session<M>,
        change: &Change,
    ) -> Result<Outcome, AllocError> {
        if change.intent.removes() {
            return Ok(self.remove(session, change));
        }
        let seat = self.lock_seat(change.key);
        let node = seat.node;
        let is_there = node.key() == change.key;
        let (outcome, effect) = change.decide(is_there.then(|| node.value()));
        match effect {
            Effect::Put if is_there => self.set(node, change.value),
            Effect::Put => {
                let linked = self.link(session, &seat, change);
                if linked.is_err() {
                    node.lock.unlock_unchanged();
                }
                linked?;
            }
            _ => node.lock.unlock_unchanged(),
        }
        Ok(outcome)
    }

    /// The node of `key`, or else of the next smaller one, locked.
    fn lock_seat(&self, key: u64) -> Seat<'_, M> {
        let mut attempt = 0;
        loop {
            let seat = self.seek(key);
            if seat.node.lock.try_lock(self.generation) {
                // A thread that enters a node behind this one holds its lock.
                if self.inner.revalidate(seat.token) || M::mutant("utree.no_revalidation") {
                    return seat;
                }
                seat.node.lock.unlock_unchanged();
            } else if !seat.node.lock.is_dead(self.generation) {
                M::spin(attempt);
                attempt += 1;
            }
            M::mark("utree.write_again");
        }
    }

    /// Stores a value in a locked node, and opens it.
    fn set(&self, node: &Node<M>, value: u64) {
        node.set_value(value);
        if !M::mutant("utree.no_value_flush") {
            // Persist: the value before the lock is opened, or a reader could see what a crash takes back.
            self.medium.persist(node.as_ptr(), NODE_SIZE);
        }
        node.lock.unlock();
    }

    /// Puts a new node behind a locked one, and opens both.
    fn link(
        &self,
        session: &mut Session<M>,
        seat: &Seat<'_, M>,
        change: &Change,
    ) -> Result<(), AllocError> {
        let left = seat.node;
        let offset = session.allocate_record(NODE_SIZE)?;
        let node = self.node(offset);
        node.build(self.generation, left.next(), change.key, change.value);
        if !M::mutant("utree.no_node_flush") {
            // Persist: the node before a link to it (U1).
            self.medium.persist(node.as_ptr(), NODE_SIZE);
        }
        if M::mutant("utree.shows_first") {
            node.lock.unlock();
        }
        // It is locked: a thread that finds it there waits (U4).
        if let Err(error) = self.enter(session, seat, change.key, offset) {
            session.free_record(offset, NODE_SIZE);
            return Err(error);
        }
        left.set_next(offset);
        if !M::mutant("utree.no_link_flush") {
            // Persist: the link before the node can be read, and before another is linked behind it (U2).
            self.medium.persist(left.as_ptr(), NODE_SIZE);
        }
        if !M::mutant("utree.shows_first") {
            node.lock.unlock();
        }
        left.lock.unlock();
        Ok(())
    }

    /// Enters a new node in the tree. The seat of its key is locked.
    fn enter(
        &self,
        session: &mut Session<M>,
        seat: &Seat<'_, M>,
        key: u64,
        offset: u64,
    ) -> Result<(), AllocError> {
        let (old, new) = (leaf_of(seat.offset), leaf_of(offset));
        if seat.may_be_it {
            // The first place of a node was that of the key, and was given to the node before.
            M::mark("utree.place_again");
            self.inner.replace_leaf(key, old, new);
        } else {
            self.inner.insert_separator(session, key, new)?;
        }
        if self.has_given_places() && self.inner.may_end_node(key) {
            self.inner.give_places(key, self.last_before(seat.node.next()), old, new);
        }
        Ok(())
    }

    /// The largest key before that of a node, or of all.
    fn last_before(&self, next: u64) -> u64 {
        if next == 0 { u64::MAX } else { self.node(next).key() - 1 }
    }

    /// Whether a node may have more than its own place in the tree.
    fn has_given_places(&self) -> bool {
        // Relaxed: a thread that looks for places of a node holds the lock under which they were given to
        // it.
        self.given.load(Ordering::Relaxed) != 0
    }

    /// A write that takes a key out, if it is there and has the right value.
    fn remove(&self, session: &mut Session<M>, change: &Change) -> Outcome {
        if !self.seek(change.key).may_be_it {
            return change.decide(None).0;
        }
        let left = self.lock_seat(change.key - 1);
        let next = left.node.next();
        let node = self.node(next);
        if next == 0 || node.key() != change.key {
            left.node.lock.unlock_unchanged();
            return change.decide(None).0;
        }
        self.lock_next(node);
        let (outcome, effect) = change.decide(Some(node.value()));
        if effect == Effect::Delete {
            self.unlink(session, &left, next);
        } else {
            node.lock.unlock_unchanged();
            left.node.lock.unlock_unchanged();
        }
        outcome
    }

    /// Locks the right neighbour of a locked node: it cannot leave the list.
    fn lock_next(&self, node: &Node<M>) {
        let mut attempt = 0;
        while !node.lock.try_lock(self.generation) {
            M::spin(attempt);
            attempt += 1;
        }
    }

    /// Takes the right neighbour of a node out, both locked, and opens the node.
    fn unlink(&self, session: &mut Session<M>, left: &Seat<'_, M>, offset: u64) {
        let node = self.node(offset);
        let next = node.next();
        let leave = || self.leave(left.offset, offset);
        if M::mutant("utree.hides_first") {
            leave();
        }
        left.node.set_next(next);
        if !M::mutant("utree.no_unlink_flush") {
            // Persist: the link before the node leaves the tree, or what a reader found absent could
            // come back; and before the node is used again (U2).
            self.medium.persist(left.node.as_ptr(), NODE_SIZE);
        }
        if !M::mutant("utree.hides_first") {
            leave();
        }
        node.lock.unlock_dead();
        left.node.lock.unlock();
        if M::mutant("utree.free_at_once") {
            session.free_record(offset, NODE_SIZE);
        } else {
            session.retire_record(offset, NODE_SIZE);
        }
    }

    /// Takes a node out of the tree: its places lead to the node before.
    fn leave(&self, left: u64, offset: u64) {
        let node = self.node(offset);
        let (old, new) = (leaf_of(offset), leaf_of(left));
        if self.has_given_places() && self.inner.may_end_node(node.key()) {
            self.inner.give_places(node.key(), self.last_before(node.next()), old, new);
        }
        if self.inner.yield_place(node.key(), old, new) {
            // Relaxed: as in `has_given_places`.
            self.given.store(1, Ordering::Relaxed);
        }
    }
}
