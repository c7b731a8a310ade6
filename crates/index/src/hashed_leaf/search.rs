//! Finding the leaf for a key, and the entry in the leaf.

use everleaf_alloc::{AllocError, Session};
use everleaf_machine::{Machine, Ordering, Pair};

use super::HashedLeafTree;
use super::aim::Aim;
use super::layout::{DEAD, LeafId, LeafShape, REPLACED, UNKNOWN};
use super::probe::Probe;
use crate::kind::Kind;
use crate::nbtree::Absence;
use crate::nbtree::layout::Inner;
use crate::nbtree::shared::Shared;
use crate::nbtree::state::{FROZEN, LIVE, PENDING, TOMB};
use crate::once::once;

/// What a search of a leaf came to.
enum Found {
    /// The key has this payload.
    Payload(u64),
    Absent,
    /// The leaf is no authority any more.
    Replaced,
}

/// Where a key is missing in a leaf.
enum Gap {
    /// An insert would begin here.
    At(usize),
    /// It is there, or is being inserted.
    None,
    /// The leaf is no authority any more.
    Replaced,
}

/// Where a write has to do its work.
pub(super) enum WriteTarget {
    /// The key is there.
    Live(usize, Pair),
    /// The key is there, and the leaf is being replaced.
    Frozen(Pair),
    /// The key is absent, and this is where an insert would claim.
    Free(usize),
    /// The key is absent, and there is no room, or the leaf is being replaced.
    Full,
    /// The key is absent; only for what does not insert.
    Absent,
    /// The leaf is no authority any more.
    Replaced,
}

impl<K: Kind<M>, G: LeafShape, M: Machine> HashedLeafTree<K, G, M> {
    /// The way of a key through a leaf.
    #[inline(always)]
    pub(super) fn probe(&self, leaf: LeafId, key: K::Key<'_>) -> Probe<G> {
        Probe::new(leaf.placement, K::hash(key), K::number(key))
    }

    /// The way of an entry's key through a leaf with this low fence.
    #[inline(always)]
    pub(super) fn probe_of(&self, leaf: LeafId, low: u64, entry: Pair) -> Probe<G> {
        Probe::new(leaf.placement, K::entry_hash(low, entry), K::entry_number(low, entry))
    }

    /// The leaf that the inner nodes give for `key`, which may have been replaced, and the key's way
    /// through it.
    #[inline(always)]
    pub(super) fn descend(&self, key: K::Key<'_>, aim: Aim) -> (LeafId, Probe<G>) {
        if M::SIMULATED {
            return once(|| self.descend_here(key, aim));
        }
        self.descend_here(key, aim)
    }

    /// [`Self::descend`], compiled into its caller.
    #[inline(always)]
    fn descend_here(&self, key: K::Key<'_>, aim: Aim) -> (LeafId, Probe<G>) {
        let mut node = self.inner.root();
        let mut level = node.level;
        while level > 1 {
            let child = node.child_at(level, node.find::<K>(level, self.base, key, false));
            level -= 1;
            Shared::<Inner<M>>::prefetch::<K>(child, level);
            // SAFETY: children above level 1 are inner nodes, read while pinned.
            node = unsafe { Shared::new(child.cast()) };
        }
        let leaf = LeafId::of_child(node.child_at(1, node.find::<K>(1, self.base, key, false)));
        let probe = self.probe(leaf, key);
        self.prefetch(leaf, &probe, aim);
        (leaf, probe)
    }

    /// Asks for what a search of the leaf reads, all at once.
    #[inline(always)]
    pub(super) fn prefetch(&self, leaf: LeafId, probe: &Probe<G>, aim: Aim) {
        if M::SIMULATED {
            return;
        }
        let line = self.entry_place(leaf, probe.home().max(G::HEADER_POSITIONS));
        match aim {
            Aim::Find => M::prefetch(line),
            Aim::Miss => {}
            Aim::Write => M::prefetch_write(line),
        }
        self.prefetch_metadata(leaf, probe);
    }

    /// Asks for what a search of the leaf reads besides the entry.
    #[inline(always)]
    pub(super) fn prefetch_metadata(&self, leaf: LeafId, probe: &Probe<G>) {
        if M::SIMULATED {
            return;
        }
        M::prefetch(self.fingerprints(leaf, probe.chunk(0)).as_ptr());
        if K::HAS_TAILS || self.medium.needs_flush() {
            M::prefetch(self.cold(leaf).flags.as_ptr());
        }
    }

    /// The authority for `key` at some instant of this call, restored if opening has left it.
    ///
    /// # Errors
    /// It was left, and is damaged.
    #[cold]
    #[inline(never)]
    pub(super) fn resolve(
        &self,
        session: &mut Session<M>,
        key: K::Key<'_>,
    ) -> Result<LeafId, AllocError> {
        let (path, child) = self.inner.descend_path(key, false);
        let mut leaf = self.leaf_at(&path, child)?;
        let mut hopped = false;
        while self.is_replaced(leaf) {
            M::mark("hashed.search.follow");
            if !hopped {
                self.try_install(session, key);
            }
            hopped = true;
            leaf = self.step(leaf, |split| match K::compare_fence(self.base, split, key) {
                std::cmp::Ordering::Less => true,
                std::cmp::Ordering::Equal => !M::mutant("hashed.follow_key_left"),
                std::cmp::Ordering::Greater => false,
            });
        }
        Ok(leaf)
    }

    /// Whether the successor of a leaf is the authority.
    #[inline(always)]
    pub(super) fn is_replaced(&self, leaf: LeafId) -> bool {
        // Acquire: with REPLACED, the successor's contents; pairs with the switch in `split.rs`.
        self.cold(leaf).flags.load(Ordering::Acquire) & REPLACED != 0
    }

    /// From a replaced leaf to its successor: the right one if `goes_right(split)`.
    pub(super) fn step(&self, leaf: LeafId, goes_right: impl Fn(u64) -> bool) -> LeafId {
        // Acquire: the successor is complete; pairs with its installation in `split.rs`.
        let successor = self.cold(leaf).successor.load(Ordering::Acquire);
        // SAFETY: a replaced leaf has a successor, retired no earlier than the leaf.
        let successor = unsafe { Shared::new(successor) };
        match successor.right {
            Some(right) if goes_right(successor.split) => right,
            _ => successor.left,
        }
    }

    /// `Adr` domain: if a writer in this leaf may have made something visible that is not durable
    /// yet, persists the entry's line, so that what we report cannot be lost.
    #[inline(always)]
    #[track_caller]
    pub(super) fn observe(&self, leaf: LeafId, position: usize) {
        if !self.medium.needs_flush() {
            return;
        }
        // Acquire: if the writer's decrement is seen, its persist came before; pairs with the
        // release in `InFlight::end`.
        if self.cold(leaf).in_flight.load(Ordering::Acquire) != 0 && !M::mutant("hashed.no_observe")
        {
            M::mark("hashed.observe");
            // Persist: the entry before our answer that depends on it, or a crash could take back
            // what somebody has seen (I11).
            self.medium.persist(self.entry_place(leaf, position), 16);
        }
    }

    /// Persists a removed entry that a search has passed: a thread that says that the key is absent, or
    /// inserts it elsewhere, relies on its removal.
    #[inline(always)]
    pub(super) fn observe_removed(&self, leaf: LeafId, position: usize) {
        if !M::mutant("hashed.no_tomb_observe") {
            self.observe(leaf, position);
        }
    }

    /// The payload of `key`.
    ///
    /// *Linearizes*: hit, at the load of the entry if it was not frozen, else at the load of the flags
    /// after it; miss, at the load of the fingerprint that is 0 or before it, at the end of a removal that
    /// it met, or at the load of the flags. *Blocking*: wait-free but for hops over replaced leaves, each
    /// of which is a completed split.
    ///
    /// # Errors
    /// Opening has left the leaf, and it is damaged.
    #[inline]
    pub(crate) fn get_payload(
        &self,
        session: &mut Session<M>,
        key: K::Key<'_>,
    ) -> Result<Option<u64>, AllocError> {
        let (leaf, probe) = self.descend(key, Aim::of_lookup(session));
        let payload = self.get_from(session, leaf, key, probe)?;
        session.note_lookup(payload.is_some());
        Ok(payload)
    }

    /// [`Self::get_payload`] from the leaf on that the inner nodes gave.
    #[inline(always)]
    pub(super) fn get_from(
        &self,
        session: &mut Session<M>,
        leaf: LeafId,
        key: K::Key<'_>,
        probe: Probe<G>,
    ) -> Result<Option<u64>, AllocError> {
        if M::SIMULATED {
            return once(|| self.get_from_here(session, leaf, key, probe));
        }
        self.get_from_here(session, leaf, key, probe)
    }

    /// [`Self::get_from`], compiled into its caller.
    #[inline(always)]
    fn get_from_here(
        &self,
        session: &mut Session<M>,
        mut leaf: LeafId,
        key: K::Key<'_>,
        mut probe: Probe<G>,
    ) -> Result<Option<u64>, AllocError> {
        loop {
            match self.look_up(leaf, key, &probe) {
                Found::Payload(payload) => return Ok(Some(payload)),
                Found::Absent => return Ok(None),
                Found::Replaced => leaf = self.resolve(session, key)?,
            }
            if !M::mutant("hashed.old_way") {
                probe = self.probe(leaf, key);
            }
        }
    }

    #[inline(always)]
    fn look_up(&self, leaf: LeafId, key: K::Key<'_>, probe: &Probe<G>) -> Found {
        let turns = if M::mutant("hashed.stops_at_first_chunk") { 1 } else { G::CHUNKS };
        for turn in 0..turns {
            let chunk = probe.chunk(turn);
            let fingerprints = self.fingerprints(leaf, chunk);
            let mut hits = fingerprints.matches(probe.fingerprint);
            if hits != 0 {
                // Where the key would be before what is free now (HL4).
                let free = fingerprints.matches(UNKNOWN);
                hits &= match M::mutant("hashed.orders_by_position") {
                    true => probe.before_first(1, free),
                    false => probe.before_first(turn, free),
                };
            }
            while hits != 0 {
                let position = chunk * G::CHUNK + hits.trailing_zeros() as usize;
                hits &= hits - 1;
                let entry = self.entry(leaf, position).load();
                let state = K::state(entry);
                if state == TOMB {
                    // Its record may be gone: it is not asked whose it was.
                    self.observe_removed(leaf, position);
                    continue;
                }
                if K::HAS_TAILS && state == FROZEN && self.may_be_outdated(leaf) {
                    return Found::Replaced;
                }
                if !K::is_of(self.base, key, self.skip(leaf), entry) {
                    continue;
                }
                match state {
                    LIVE => {}
                    FROZEN if self.is_replaced(leaf) && !M::mutant("hashed.trusts_frozen") => {
                        return Found::Replaced;
                    }
                    FROZEN => {}
                    PENDING if M::mutant("hashed.read_pending") => {}
                    // Not inserted yet, and nowhere else (HL2).
                    PENDING => return Found::Absent,
                    _ => continue,
                }
                self.observe(leaf, position);
                return Found::Payload(K::payload(entry));
            }
            if fingerprints.matches(UNKNOWN) != 0 {
                return Found::Absent;
            }
        }
        if self.is_replaced(leaf) && !M::mutant("hashed.trusts_full") {
            return Found::Replaced;
        }
        Found::Absent
    }

    /// What shows that a key is absent, unless it is there or is being inserted; see [`NbTree::absence`]. An insert
    /// claims the first free position of its key, which then never is free again (HL1), or goes on only when another's
    /// fingerprint is there (HL2); where none is free, it takes another leaf.
    ///
    /// # Errors
    /// As [`Self::get_payload`].
    ///
    /// [`NbTree::absence`]: crate::nbtree::NbTree::absence
    pub(crate) fn absence(
        &self,
        session: &mut Session<M>,
        key: K::Key<'_>,
    ) -> Result<Option<Absence>, AllocError> {
        let (mut leaf, mut probe) = self.descend(key, Aim::Find);
        loop {
            match self.gap(leaf, key, &probe) {
                Gap::At(position) => {
                    let leaf = u64::from(leaf.number);
                    return Ok(Some(Absence { leaf, state: position as u64 }));
                }
                Gap::None => return Ok(None),
                Gap::Replaced => leaf = self.resolve(session, key)?,
            }
            probe = self.probe(leaf, key);
        }
    }

    /// Where an insert of a key that is absent would begin.
    fn gap(&self, leaf: LeafId, key: K::Key<'_>, probe: &Probe<G>) -> Gap {
        for turn in 0..G::CHUNKS {
            let chunk = probe.chunk(turn);
            let fingerprints = self.fingerprints(leaf, chunk);
            // Before the matches, as in `seek`.
            let free = fingerprints.matches(UNKNOWN);
            let mut hits = fingerprints.matches(probe.fingerprint) & probe.before_first(turn, free);
            while hits != 0 {
                let position = chunk * G::CHUNK + hits.trailing_zeros() as usize;
                hits &= hits - 1;
                let entry = self.entry(leaf, position).load();
                let state = K::state(entry);
                if state == TOMB {
                    self.observe_removed(leaf, position);
                    continue;
                }
                if K::HAS_TAILS && state == FROZEN && self.may_be_outdated(leaf) {
                    return Gap::Replaced;
                }
                if K::is_of(self.base, key, self.skip(leaf), entry) {
                    let is_old = state == FROZEN && self.is_replaced(leaf);
                    return if is_old { Gap::Replaced } else { Gap::None };
                }
            }
            if free != 0 {
                return Gap::At(chunk * G::CHUNK + probe.first(turn, free));
            }
        }
        // Full, or frozen: an insert finds no place here.
        if self.is_replaced(leaf) { Gap::Replaced } else { Gap::At(usize::MAX) }
    }

    /// Whether what a frozen entry refers to may be gone: the leaf was replaced, perhaps before we were
    /// pinned, and the key removed from its successor since. If not, nobody has removed the key before
    /// this call, and so its record stays until we are unpinned (HL8).
    #[cold]
    #[inline(never)]
    fn may_be_outdated(&self, leaf: LeafId) -> bool {
        self.is_replaced(leaf) && !M::mutant("hashed.follows_outdated")
    }

    /// Where a write of `key` has to be done in this leaf. An insert that is not linearized yet is
    /// linearized first, if `inserts`.
    #[inline(always)]
    pub(super) fn seek(
        &self,
        leaf: LeafId,
        key: K::Key<'_>,
        probe: &Probe<G>,
        inserts: bool,
    ) -> WriteTarget {
        for turn in 0..G::CHUNKS {
            let chunk = probe.chunk(turn);
            let fingerprints = self.fingerprints(leaf, chunk);
            // Before the matches: what has no 0 now has its fingerprint by then, so that no position of
            // the key before the first free one is missed (HL2).
            let mut free = fingerprints.matches(UNKNOWN);
            let mut hits = fingerprints.matches(probe.fingerprint);
            if M::mutant("hashed.zeros_last") {
                free = fingerprints.matches(UNKNOWN);
            }
            if hits != 0 {
                hits &= probe.before_first(turn, free);
            }
            while hits != 0 {
                let position = chunk * G::CHUNK + hits.trailing_zeros() as usize;
                hits &= hits - 1;
                match self.seek_at(leaf, position, key, inserts) {
                    Some(place) => return place,
                    None => continue,
                }
            }
            if free != 0 {
                return match inserts {
                    true => WriteTarget::Free(chunk * G::CHUNK + probe.first(turn, free)),
                    false => WriteTarget::Absent,
                };
            }
        }
        if inserts {
            return WriteTarget::Full;
        }
        if self.is_replaced(leaf) && !M::mutant("hashed.trusts_full") {
            return WriteTarget::Replaced;
        }
        WriteTarget::Absent
    }

    /// What a write has to do with a position whose fingerprint is its key's; `None` if nothing.
    #[inline(always)]
    fn seek_at(
        &self,
        leaf: LeafId,
        position: usize,
        key: K::Key<'_>,
        inserts: bool,
    ) -> Option<WriteTarget> {
        let cell = self.entry(leaf, position);
        let mut entry = cell.load();
        if K::state(entry) == TOMB {
            // The removal must be durable before a new entry of the key can be.
            self.observe_removed(leaf, position);
            return None;
        }
        if K::HAS_TAILS && K::state(entry) == FROZEN && self.may_be_outdated(leaf) {
            return Some(WriteTarget::Replaced);
        }
        if !K::is_of(self.base, key, self.skip(leaf), entry) {
            return None;
        }
        if K::state(entry) == PENDING {
            if !inserts {
                return Some(WriteTarget::Absent);
            }
            M::mark("hashed.write.help_pending");
            // It has its fingerprint, or we would not be here (HL3).
            let live = K::with_state(entry, LIVE);
            entry = match cell.compare_exchange(entry, live) {
                Ok(_) => live,
                Err(now) => now,
            };
        }
        match K::state(entry) {
            LIVE => Some(WriteTarget::Live(position, entry)),
            FROZEN if self.is_replaced(leaf) && !M::mutant("hashed.seek_trusts_frozen") => {
                Some(WriteTarget::Replaced)
            }
            FROZEN => {
                self.observe(leaf, position);
                Some(WriteTarget::Frozen(entry))
            }
            TOMB => {
                self.observe_removed(leaf, position);
                None
            }
            _ => None,
        }
    }

    /// The positions of a chunk that hold keys, nearly.
    #[inline(always)]
    pub(super) fn live_in_chunk(&self, leaf: LeafId, chunk: usize) -> usize {
        let line = self.fingerprints(leaf, chunk);
        64 - (line.matches(UNKNOWN) | line.matches(DEAD)).count_ones() as usize
    }

    /// The positions that hold keys, nearly: a count of fingerprints.
    pub(super) fn live_count(&self, leaf: LeafId) -> usize {
        (0..G::CHUNKS).map(|chunk| self.live_in_chunk(leaf, chunk)).sum()
    }
}
