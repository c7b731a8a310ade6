//! Writes to a leaf.

use everleaf_alloc::{AllocError, Session};
use everleaf_index::build::{Change, Effect, Intent, Outcome};
use everleaf_machine::{Machine, Ordering};

use super::BzTree;
use super::layout::{PAIR_SIZE, meta_at};
use super::search::Found;
use super::state::{FREE, GONE, RESERVED, Status, VISIBLE};
use super::variant::Variant;
use crate::node::pmwcas::Entry;
use crate::node::version_lock::Retry;

/// How often one looks after a reserved pair in front of one's own before giving it up.
const fn patience<M: Machine>() -> u32 {
    if M::SIMULATED { 2 } else { 64 }
}

/// Why a call cannot go on.
#[derive(Debug)]
pub(super) enum Stop {
    /// Not for want of descriptors.
    Alloc(AllocError),
    /// There is no room to replace a frozen leaf, and what is to be done there needs none.
    Frozen(AllocError),
    /// No descriptor is free: nothing was changed.
    NoDescriptor,
}

impl Stop {
    /// Whether there is no room for a node.
    pub fn lacks_space(&self) -> bool {
        matches!(self, Stop::Alloc(error) | Stop::Frozen(error) if error.lacks_space())
    }
}

impl From<AllocError> for Stop {
    fn from(error: AllocError) -> Self {
        Stop::Alloc(error)
    }
}

/// What a write did, and whether its leaf has little now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done {
    pub outcome: Outcome,
    pub is_thin: bool,
}

/// What an attempt came to: an outcome, another attempt, or none.
pub(super) type Attempt<T> = Result<Result<T, Retry>, Stop>;

/// A word that has to be what it is.
fn same(address: u64, value: u64) -> Entry {
    Entry { address, old: value, new: value }
}

impl<V: Variant, M: Machine> BzTree<V, M> {
    /// One write. The caller is pinned.
    ///
    /// *Durable* when it returns.
    pub(super) fn write(&self, session: &mut Session<M>, change: &Change) -> Result<Done, Stop> {
        let mut attempt = 0;
        loop {
            match self.try_write(session, change)? {
                Ok(done) => return Ok(done),
                Err(retry) => retry.pause::<M>(&mut attempt),
            }
            M::mark("bztree.write_again");
        }
    }

    fn try_write(&self, session: &mut Session<M>, change: &Change) -> Attempt<Done> {
        let stripe = session.stripe();
        let leaf = self.find_leaf(stripe, change.key);
        let status = self.status(stripe, leaf);
        let found = self.look(stripe, leaf, status, change.key);
        let old = found.slot.map(|slot| self.value(stripe, leaf, slot));
        let (outcome, effect) = change.decide(old);
        let whole = Done { outcome, is_thin: false };
        if effect == Effect::None {
            return Ok(Ok(whole));
        }
        if status.is_frozen() {
            M::mark("bztree.write_to_frozen");
            return match self.replace(session, leaf, change) {
                Err(Stop::Alloc(error)) if error.lacks_space() && found.slot.is_some() => {
                    Err(Stop::Frozen(error))
                }
                replaced => replaced,
            };
        }
        match (found.slot, effect) {
            (Some(slot), Effect::Delete) => {
                self.remove(session, (leaf, slot), status, change, outcome)
            }
            (Some(slot), _) => {
                let old = old.unwrap_or_default();
                let done = self.update(session, (leaf, slot), status, (old, change.value))?;
                Ok(if done { Ok(whole) } else { Err(Retry::Now) })
            }
            (None, _) if status.count() >= V::SLOT_COUNT => self.replace(session, leaf, change),
            (None, _) => {
                let done = self.insert(session, leaf, status, found, change)?;
                Ok(done.map(|()| whole))
            }
        }
    }

    /// Exchanges words of one node; [`Stop::NoDescriptor`] if that cannot be begun.
    pub(super) fn exchange(
        &self,
        session: &mut Session<M>,
        entries: &mut [Entry],
    ) -> Result<bool, Stop> {
        let claim = self.words.claim(session).ok_or(Stop::NoDescriptor)?;
        Ok(self.words.exchange(session, claim, entries))
    }

    /// Gives a visible pair another value; false if something changed meanwhile.
    fn update(
        &self,
        session: &mut Session<M>,
        (leaf, slot): (u64, usize),
        status: Status,
        (old, new): (u64, u64),
    ) -> Result<bool, Stop> {
        let value = Entry { address: Self::value_at(leaf, slot), old, new };
        let meta = same(leaf + meta_at(slot), VISIBLE);
        if M::mutant("bztree.update_ignores_freeze") {
            return self.exchange(session, &mut [meta, value]);
        }
        if M::mutant("bztree.update_ignores_removal") {
            return self.exchange(session, &mut [same(leaf, status.0), value]);
        }
        self.exchange(session, &mut [same(leaf, status.0), meta, value])
    }

    /// Removes a visible pair.
    fn remove(
        &self,
        session: &mut Session<M>,
        (leaf, slot): (u64, usize),
        status: Status,
        change: &Change,
        mut outcome: Outcome,
    ) -> Attempt<Done> {
        let (stripe, value_at) = (session.stripe(), Self::value_at(leaf, slot));
        let removed = status.removed();
        let status_entry = Entry { address: leaf, old: status.0, new: removed.0 };
        let meta = Entry { address: leaf + meta_at(slot), old: VISIBLE, new: GONE };
        let is_done = if change.intent == Intent::Remove {
            self.exchange(session, &mut [status_entry, meta])?
        } else {
            // Only with the value that was read.
            let value = same(value_at, outcome.old.unwrap_or_default());
            self.exchange(session, &mut [status_entry, meta, value])?
        };
        if !is_done {
            return Ok(Err(Retry::Now));
        }
        if !M::mutant("bztree.removes_old_value") {
            // An update may have come after the value was read; none comes after the removal.
            outcome.old = Some(self.value(stripe, leaf, slot));
        }
        let most = removed.count().saturating_sub(removed.deleted());
        // The status does not count those that were given up.
        let is_thin = most <= Self::THIN || self.visible_count(stripe, leaf) <= Self::THIN;
        Ok(Ok(Done { outcome, is_thin }))
    }

    /// How many pairs a leaf has.
    fn visible_count(&self, stripe: usize, leaf: u64) -> usize {
        let slots = 0..self.status(stripe, leaf).count();
        slots.filter(|slot| self.meta(stripe, leaf, *slot) == VISIBLE).count()
    }

    /// Adds a pair to a leaf that has a place left: reserves it, writes the pair, and makes it visible.
    fn insert(
        &self,
        session: &mut Session<M>,
        leaf: u64,
        status: Status,
        found: Found,
        change: &Change,
    ) -> Attempt<()> {
        let slot = status.count();
        let meta_place = leaf + meta_at(slot);
        let reserve = Entry { address: meta_place, old: FREE, new: RESERVED };
        let counted = Entry { address: leaf, old: status.0, new: status.reserved().0 };
        if !self.exchange(session, &mut [counted, reserve])? {
            return Ok(Err(Retry::Now));
        }
        let value_at = Self::value_at(leaf, slot);
        // Relaxed: nobody reads the pair before it is visible; published by the exchange in `publish`.
        self.word(value_at - 8).store(change.key, Ordering::Relaxed);
        // Relaxed: published by the exchange in `publish`, as the key is.
        self.word(value_at).store(change.value, Ordering::Relaxed);
        if !M::mutant("bztree.no_pair_flush") {
            // Persist: the pair before it is visible (Z2).
            self.medium.persist(self.word(value_at - 8).as_ptr(), PAIR_SIZE as usize);
        }
        if self.is_there(session.stripe(), leaf, found.reserved, change.key) {
            M::mark("bztree.duplicate");
            self.give_up(leaf, slot);
            return Ok(Err(Retry::Now));
        }
        self.publish(session, leaf, slot)
    }

    /// Whether one of these pairs, which were reserved, has become a visible one of `key`. None of them does
    /// later. All others were visible with another key, or are behind the caller's own: a thread that has
    /// reserved one of those waits for the caller (Z5).
    fn is_there(&self, stripe: usize, leaf: u64, mut reserved: u64, key: u64) -> bool {
        if M::mutant("bztree.no_recheck") {
            return false;
        }
        while reserved != 0 {
            let slot = reserved.trailing_zeros() as usize;
            reserved &= reserved - 1;
            let mut attempt = 0;
            loop {
                match self.meta(stripe, leaf, slot) {
                    VISIBLE if self.key(leaf, true, slot) == key => return true,
                    // Nobody is at work in a frozen leaf, and the caller's pair will not be visible either.
                    RESERVED if self.status(stripe, leaf).is_frozen() => return false,
                    RESERVED if attempt < patience::<M>() => {
                        M::spin(attempt);
                        attempt += 1;
                    }
                    RESERVED => {
                        M::mark("bztree.impatient");
                        self.give_up(leaf, slot);
                    }
                    _ => break,
                }
            }
        }
        false
    }

    /// Makes the caller's reserved pair visible, unless the node is frozen, or others have given the pair up.
    fn publish(&self, session: &mut Session<M>, leaf: u64, slot: usize) -> Attempt<()> {
        let (stripe, place) = (session.stripe(), leaf + meta_at(slot));
        let visible = Entry { address: place, old: RESERVED, new: VISIBLE };
        loop {
            let status = self.status(stripe, leaf);
            if status.is_frozen() && !M::mutant("bztree.publish_ignores_freeze") {
                // What is reserved in a frozen node stays so, until it is replaced.
                return Ok(Err(Retry::Now));
            }
            match self.exchange(session, &mut [same(leaf, status.0), visible]) {
                Ok(true) => return Ok(Ok(())),
                Ok(false) if self.meta(stripe, leaf, slot) == RESERVED => {}
                Ok(false) => {
                    M::mark("bztree.given_up");
                    return Ok(Err(Retry::Now));
                }
                Err(stop) => {
                    self.give_up(leaf, slot);
                    return Err(stop);
                }
            }
        }
    }
}
