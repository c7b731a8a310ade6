//! Changes: one store of one link each. The caller holds the tree's lock, and is pinned.

use everleaf_alloc::{AllocError, Session};
use everleaf_machine::{Atomic, Machine, Ordering};

use super::{DIRTY, Header, Link, RadixTree};

/// Where a key is, or would be.
pub struct Spot<'t, M: Machine> {
    /// The last link on the way to it.
    link: &'t Atomic<u64, M>,
    /// What it says.
    seen: Link,
    /// The node that the link is in and the link to that node, unless it is in the root.
    above: Option<(u64, &'t Atomic<u64, M>)>,
    /// The record of the key.
    pub leaf: Option<u64>,
}

impl<const BITS: u32, M: Machine> RadixTree<BITS, M> {
    /// Where `key` is, or would be. Good as long as the lock is held and nothing is changed.
    pub fn seek(&self, key: u64) -> Spot<'_, M> {
        let (mut links, mut at, mut above) = (self.root(), 0, None);
        loop {
            let link = &links[Self::chunk(key, at)];
            // Relaxed: only the holder of the lock, the caller, stores it; and what it stored before is
            // durable.
            let seen = Link::of(link.load(Ordering::Relaxed));
            if let Link::Node(node) = seen {
                let header = self.header(node);
                if header.covers(key) || M::mutant("radix.skips_prefix") {
                    (links, at, above) = (self.links(node), header.at(), Some((node, link)));
                    continue;
                }
            }
            let leaf = match seen {
                Link::Leaf(leaf) if self.key(leaf) == key => Some(leaf),
                _ => None,
            };
            return Spot { link, seen, above, leaf };
        }
    }

    /// Adds a record, whose lines are on their way to the medium, at the spot of its key; in place of the
    /// one that is there, if one is. Says whether there is a new node.
    ///
    /// *Durable* when it returns: one flush and two drains, and the lines of a new node. *Linearizes at*
    /// the store of the link.
    ///
    /// # Errors
    /// No space; then nothing was changed.
    pub fn insert(
        &self,
        session: &mut Session<M>,
        spot: &Spot<'_, M>,
        key: u64,
        leaf: u64,
    ) -> Result<bool, AllocError> {
        let other = match spot.seen {
            Link::Leaf(other) if spot.leaf.is_none() => Some(self.key(other)),
            Link::Node(node) => Some(self.header(node).0),
            _ => None,
        };
        let link = match other {
            None => Link::Leaf(leaf),
            Some(other) => Link::Node(self.new_node(session, spot.seen, other, key, leaf)?),
        };
        if M::mutant("radix.link_first") {
            self.publish(spot.link, link);
        }
        // Persist: the record and the node before the link to them (R1).
        self.medium.drain();
        self.publish(spot.link, link);
        Ok(other.is_some())
    }

    /// A node with a record and what was there, which has `other` for its first bits, below it; on its
    /// way to the medium.
    fn new_node(
        &self,
        session: &mut Session<M>,
        seen: Link,
        other: u64,
        key: u64,
        leaf: u64,
    ) -> Result<u64, AllocError> {
        M::mark("radix.new_node");
        let node = session.allocate_record(Self::NODE_SIZE)?;
        let at = (key ^ other).leading_zeros() / BITS * BITS;
        self.word(node).write_private(Header::new(key, at).0);
        for link in self.links(node) {
            link.write_private(0);
        }
        self.links(node)[Self::chunk(other, at)].write_private(seen.word());
        self.links(node)[Self::chunk(key, at)].write_private(Link::Leaf(leaf).word());
        if !M::mutant("radix.no_node_flush") {
            // Persist: by the caller's drain, before the link to it (R1).
            self.medium.flush(self.word(node).as_ptr(), Self::NODE_SIZE);
        }
        Ok(node)
    }

    /// Takes away the record at the spot of its key. The caller retires it.
    ///
    /// *Durable* when it returns: one flush, one drain. *Linearizes at* the store of the link.
    pub fn remove(&self, session: &mut Session<M>, spot: &Spot<'_, M>) {
        debug_assert!(spot.leaf.is_some(), "there is nothing to remove");
        let Some((node, above)) = spot.above else { return self.publish(spot.link, Link::Empty) };
        let others = self.links(node).iter().filter(|link| !std::ptr::eq(*link, spot.link));
        // Relaxed: as in `seek`.
        let others = others.map(|link| Link::of(link.load(Ordering::Relaxed)));
        let mut used = others.filter(|link| *link != Link::Empty);
        match (used.next(), used.next()) {
            (Some(last), None) => {
                M::mark("radix.drop_node");
                // R3: the record and the node in one store.
                self.publish(above, last);
                if M::mutant("radix.free_at_once") {
                    return session.free_record(node, Self::NODE_SIZE);
                }
                session.retire_record(node, Self::NODE_SIZE);
            }
            _ => self.publish(spot.link, Link::Empty),
        }
    }

    /// Stores a link, durably.
    fn publish(&self, link: &Atomic<u64, M>, to: Link) {
        let dirty = if self.medium.needs_flush() { DIRTY } else { 0 };
        if M::mutant("radix.no_exchange") {
            // Release: what it refers to; pairs with the acquire in `load`.
            link.store(to.word() | dirty, Ordering::Release);
        } else {
            // AcqRel: what it refers to; pairs with the acquire in `load`. An exchange, because the change
            // takes effect here and readers do not wait for the lock: it must not wait in a store buffer
            // when the call has returned, and in `Process` the drain does not empty that (R6).
            link.swap(to.word() | dirty, Ordering::AcqRel);
        }
        if !M::mutant("radix.no_link_flush") {
            // Persist: the link before it is clean (R5), and before the writer returns.
            self.medium.persist(link.as_ptr(), 8);
        }
        if dirty != 0 {
            // Release: a thread that reads it clean reads what it refers to, pairs with the acquire in
            // `load`.
            link.store(to.word(), Ordering::Release);
        }
    }

    /// Gives back all nodes. Nobody can reach the tree any more.
    pub fn free_nodes(
        &self,
        session: &mut Session<M>,
        free_leaf: &mut dyn FnMut(&mut Session<M>, u64),
    ) {
        for link in self.root() {
            self.free_below(session, Link::of(link.read_private()), free_leaf);
        }
    }

    fn free_below(
        &self,
        session: &mut Session<M>,
        link: Link,
        free_leaf: &mut dyn FnMut(&mut Session<M>, u64),
    ) {
        match link {
            Link::Empty => {}
            Link::Leaf(leaf) => free_leaf(session, leaf),
            Link::Node(node) => {
                for link in self.links(node) {
                    self.free_below(session, Link::of(link.read_private()), free_leaf);
                }
                session.free_record(node, Self::NODE_SIZE);
            }
        }
    }
}
