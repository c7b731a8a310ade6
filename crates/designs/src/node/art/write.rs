//! Changes: a value added or taken out, and nodes that come, grow, shrink and go.

use everleaf_alloc::{AllocError, Session};
use everleaf_index::Geometry;
use everleaf_machine::{Machine, Ordering};

use super::Art;
use super::node::{Child, Node, Slot};
use super::shape::GENERATION;
use crate::node::radix::Header;
use crate::node::version_lock::{Retry, Version, VersionLock};

/// Why a change was not made.
enum Stop {
    /// Somebody was in the way: again.
    Again(Retry),
    /// No memory for a node.
    Alloc(AllocError),
}

impl From<Retry> for Stop {
    fn from(retry: Retry) -> Self {
        Stop::Again(retry)
    }
}

impl From<AllocError> for Stop {
    fn from(error: AllocError) -> Self {
        Stop::Alloc(error)
    }
}

/// A lock, and the version under which what it guards was read.
struct LockedVersion<'t, M: Machine> {
    lock: &'t VersionLock<M>,
    version: Version,
}

impl<M: Machine> Clone for LockedVersion<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine> Copy for LockedVersion<'_, M> {}

impl<'t, M: Machine> LockedVersion<'t, M> {
    fn read(lock: &'t VersionLock<M>) -> Result<Self, Retry> {
        Ok(LockedVersion { lock, version: lock.stable_or_wait(GENERATION)? })
    }

    /// Whether nothing has changed since it was read, and it is in the tree.
    fn validate(&self) -> Result<(), Retry> {
        if self.lock.validate(GENERATION, self.version) { Ok(()) } else { Err(Retry::Now) }
    }

    /// Locks it, if nothing has changed since it was read, and it is in the tree.
    fn lock(&self) -> Result<(), Retry> {
        let taken = if M::mutant("art.any_version") {
            self.lock.try_lock(GENERATION)
        } else {
            self.lock.upgrade(self.version)
        };
        if taken { Ok(()) } else { Err(Retry::Now) }
    }

    /// Opens it after a change.
    fn unlock(&self) {
        if M::mutant("art.same_version") {
            self.lock.unlock_unchanged()
        } else {
            self.lock.unlock()
        }
    }
}

/// A place that leads on, and what guards it.
struct ChildSlot<'t, M: Machine> {
    guard: LockedVersion<'t, M>,
    slot: &'t Slot<M>,
}

impl<M: Machine> Clone for ChildSlot<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine> Copy for ChildSlot<'_, M> {}

impl<M: Machine> ChildSlot<'_, M> {
    fn child(&self) -> Child<M> {
        // Acquire: the child is complete; pairs with the release in `put`.
        Child::of(self.slot.load(Ordering::Acquire))
    }

    /// Lets it lead elsewhere. The caller holds the lock.
    fn put(&self, child: Child<M>) {
        // Release: the child is complete; pairs with the acquire in `child` and in `Node::child`.
        self.slot.store(child.word(), Ordering::Release);
    }

    /// The same, if nothing has changed since it was read.
    fn exchange(&self, child: Child<M>) -> Result<(), Retry> {
        self.guard.lock()?;
        self.put(child);
        self.guard.unlock();
        Ok(())
    }
}

/// A node that a change is in, and the place that leads to it.
struct Spot<'t, G, M: Machine> {
    above: ChildSlot<'t, M>,
    node: Node<'t, G, M>,
    guard: LockedVersion<'t, M>,
}

impl<G: Geometry, M: Machine> Art<G, M> {
    /// Makes `value` that of `key`; the value that it replaces. The caller is pinned.
    ///
    /// *Linearizes at* the opening of the lock of the node that is changed; for a thread that was on the way there, and
    /// meets the new value or node sooner, at the store that leads to it: nobody else can pass the lock.
    ///
    /// # Errors
    /// No memory for a node; then nothing was changed.
    pub fn insert(
        &self,
        session: &mut Session<M>,
        key: u64,
        value: u64,
        key_of: impl Fn(u64) -> u64,
    ) -> Result<Option<u64>, AllocError> {
        let mut attempt = 0;
        loop {
            match self.try_insert(session, key, value, &key_of) {
                Ok(replaced) => return Ok(replaced),
                Err(Stop::Alloc(error)) => return Err(error),
                Err(Stop::Again(retry)) => retry.pause::<M>(&mut attempt),
            }
            M::mark("art.insert_again");
        }
    }

    /// The place of the root, as it is now.
    fn root_place(&self) -> Result<ChildSlot<'_, M>, Retry> {
        Ok(ChildSlot { guard: LockedVersion::read(&self.lock)?, slot: &self.root })
    }

    fn try_insert(
        &self,
        session: &mut Session<M>,
        key: u64,
        value: u64,
        key_of: &impl Fn(u64) -> u64,
    ) -> Result<Option<u64>, Stop> {
        let new = Child::Value(value);
        let mut place = self.root_place()?;
        loop {
            let child = place.child();
            let pointer = match child {
                Child::Empty => {
                    // Not so of a place in a node, unless it changes: then it cannot be locked.
                    place.exchange(new)?;
                    return Ok(None);
                }
                Child::Value(other) => {
                    let there = key_of(other);
                    if there == key {
                        place.exchange(new)?;
                        return Ok(Some(other));
                    }
                    self.put_beside(session, place, (there, child), (key, new))?;
                    return Ok(None);
                }
                Child::Node(pointer) => pointer,
            };
            let node = self.node(pointer);
            if !node.header().covers(key) {
                M::mark("art.node_between");
                self.put_beside(session, place, (node.header().0, child), (key, new))?;
                return Ok(None);
            }
            let guard = LockedVersion::read(node.lock())?;
            let digit = node.digit(key);
            match node.at_most(digit) {
                Some((found, slot)) if found == digit => place = ChildSlot { guard, slot },
                _ => {
                    let spot = Spot { above: place, node, guard };
                    self.add(session, &spot, digit, new)?;
                    return Ok(None);
                }
            }
        }
    }

    /// Puts a node with both children in a place that leads to the first one, each with bits of its keys.
    fn put_beside(
        &self,
        session: &mut Session<M>,
        place: ChildSlot<'_, M>,
        (there, child): (u64, Child<M>),
        (key, new): (u64, Child<M>),
    ) -> Result<(), Stop> {
        let at = Self::SHAPE.first_difference(there, key);
        let mut both = [(Self::SHAPE.digit(there, at), child), (Self::SHAPE.digit(key, at), new)];
        both.sort_unstable_by_key(|(digit, _)| *digit);
        let node = Node::<G, M>::build(session, Header::new(key, at), &both)?;
        let put = place.exchange(Child::Node(node));
        if put.is_err() {
            // SAFETY: built above, reachable from nowhere.
            unsafe { Self::release(session, node) };
        }
        put.map_err(Stop::from)
    }

    /// Adds a child to a node that has none at this digit.
    fn add(
        &self,
        session: &mut Session<M>,
        spot: &Spot<'_, G, M>,
        digit: usize,
        new: Child<M>,
    ) -> Result<(), Stop> {
        let Spot { node, guard, .. } = spot;
        if node.count() < node.room() {
            guard.lock()?;
            node.insert(digit, new);
            guard.unlock();
            return Ok(());
        }
        M::mark("art.grow");
        self.replace(session, spot, |children| {
            let place = children.partition_point(|(other, _)| *other < digit);
            children.insert(place, (digit, new));
        })
    }

    /// Puts another node in the place of one: with its children, changed by `change`.
    fn replace(
        &self,
        session: &mut Session<M>,
        spot: &Spot<'_, G, M>,
        change: impl FnOnce(&mut Vec<(usize, Child<M>)>),
    ) -> Result<(), Stop> {
        let Spot { above, node, guard } = spot;
        self.lock_both(spot)?;
        let mut children = node.entries();
        change(&mut children);
        match Node::<G, M>::build(session, node.header(), &children) {
            Ok(other) => {
                self.leave(session, spot, Child::Node(other));
                Ok(())
            }
            Err(error) => {
                guard.lock.unlock_unchanged();
                above.guard.lock.unlock_unchanged();
                Err(error.into())
            }
        }
    }

    /// Locks a node and what guards the place that leads to it.
    fn lock_both(&self, spot: &Spot<'_, G, M>) -> Result<(), Retry> {
        spot.above.guard.lock()?;
        let locked = spot.guard.lock();
        if locked.is_err() {
            spot.above.guard.lock.unlock_unchanged();
        }
        locked
    }

    /// Takes a node out of the tree, with another child in its place. Both locks are held, and opened: that of the node
    /// for ever.
    fn leave(&self, session: &mut Session<M>, spot: &Spot<'_, G, M>, child: Child<M>) {
        let Spot { above, node, guard } = spot;
        above.put(child);
        // A1: before anybody can find the other one, or a thread that is still in this one could go on there.
        if M::mutant("art.stays_alive") {
            guard.lock.unlock()
        } else {
            guard.lock.unlock_dead()
        }
        above.guard.unlock();
        if M::mutant("art.free_at_once") {
            // SAFETY: of `build`, and no more in the tree. (A planted bug: others may be in it.)
            unsafe { Self::release(session, node.pointer) };
            return;
        }
        // SAFETY: of `build` with this size, taken out above, by nobody else: it is dead.
        unsafe { session.retire_node(node.pointer.cast::<u8>(), node.size()) };
    }

    /// Takes the value of `key` out, and gives it. The caller is pinned.
    ///
    /// *Linearizes at* the same as an insert.
    pub fn remove(
        &self,
        session: &mut Session<M>,
        key: u64,
        key_of: impl Fn(u64) -> u64,
    ) -> Option<u64> {
        let mut attempt = 0;
        loop {
            match self.try_remove(session, key, &key_of) {
                Ok(removed) => return removed,
                Err(retry) => retry.pause::<M>(&mut attempt),
            }
            M::mark("art.remove_again");
        }
    }

    fn try_remove(
        &self,
        session: &mut Session<M>,
        key: u64,
        key_of: &impl Fn(u64) -> u64,
    ) -> Result<Option<u64>, Retry> {
        let mut place = self.root_place()?;
        let mut spot: Option<Spot<'_, G, M>> = None;
        loop {
            match place.child() {
                Child::Value(value) if key_of(value) == key => {
                    match &spot {
                        None => place.exchange(Child::Empty)?,
                        Some(spot) => self.take_out(session, spot, spot.node.digit(key))?,
                    }
                    return Ok(Some(value));
                }
                Child::Node(pointer) if self.node(pointer).header().covers(key) => {
                    let node = self.node(pointer);
                    let guard = LockedVersion::read(node.lock())?;
                    let digit = node.digit(key);
                    match node.at_most(digit) {
                        Some((found, slot)) if found == digit => {
                            spot = Some(Spot { above: place, node, guard });
                            place = ChildSlot { guard, slot };
                        }
                        _ => {
                            guard.validate()?;
                            return Ok(None);
                        }
                    }
                }
                _ => {
                    place.guard.validate()?;
                    return Ok(None);
                }
            }
        }
    }

    /// Takes the child at a digit out of a node.
    fn take_out(
        &self,
        session: &mut Session<M>,
        spot: &Spot<'_, G, M>,
        digit: usize,
    ) -> Result<(), Retry> {
        let Spot { node, guard, .. } = spot;
        let left = node.count().saturating_sub(1);
        if left <= 1 {
            M::mark("art.node_goes");
            self.lock_both(spot)?;
            let others = node.entries().into_iter().filter(|(other, _)| *other != digit);
            let other = others.map(|(_, child)| child).next();
            self.leave(session, spot, other.expect("a node has two children (A3)"));
            return Ok(());
        }
        if node.is_few(left) {
            M::mark("art.shrink");
            match self
                .replace(session, spot, |children| children.retain(|(other, _)| *other != digit))
            {
                Ok(()) => return Ok(()),
                Err(Stop::Again(retry)) => return Err(retry),
                // It keeps its kind: nothing was changed, and its version is as before.
                Err(Stop::Alloc(_)) => {}
            }
        }
        guard.lock()?;
        node.remove(digit);
        guard.unlock();
        Ok(())
    }
}
