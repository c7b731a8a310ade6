//! Replacing a leaf: freeze, copy, commit, switch. Any number of threads help.
//!
//! 1. *Freeze*: every position gets a frozen state; none keeps a fingerprint of 0.
//! 2. *Copy*: the frozen entries go into one or two private blocks; the operation that brought the
//!    thread here may be applied on the way (carried). One candidate wins `successor`.
//! 3. *Commit*: one store in the old block's state word, durable: from now on recovery uses the
//!    new blocks. This is the durability point, also of a carried operation.
//! 4. *Switch*: `REPLACED` in `flags`: the new leaves are the authority. Linearization point of a
//!    carried operation. The thread that switched makes the new blocks `Live`; whoever takes the old
//!    leaf out of the inner nodes retires it.
//!
//! Every step is an exchange from a state that does not recur, so a late helper does no harm.

use everleaf_alloc::{AllocError, Session};
use everleaf_machine::{Atomic, Machine, Ordering, Pair};

use super::HashedLeafTree;
use super::layout::{Cold, DEAD, FREEZING, LeafId, LeafShape, REPLACED, Successor, UNKNOWN};
use super::merge::{ABORTED, COMMITTED};
use super::placement::Placement;
use super::probe::{Filling, usable};
use super::state::FROZEN_EMPTY;
use crate::api::change::{Effect, Outcome};
use crate::kind::Kind;
use crate::nbtree::layout::owner_word;
use crate::nbtree::shared::Shared;
use crate::nbtree::state::{BlockState, EMPTY, EMPTY_ENTRY, FROZEN, LIVE, NO_BLOCK, PENDING, TOMB};
use crate::nbtree::write::Write;

/// Blocks that a split must leave: merging needs one to free two, so that without any a full pool
/// could be emptied of its keys and still have no room.
const SPARE_BLOCKS: usize = 2;

/// Turns to wait for the thread that froze the leaf, before building a candidate of our own.
const PATIENCE: u32 = 200;

/// A replacement that nobody else has seen.
pub(super) struct Candidate<M: Machine> {
    pub successor: *mut Successor<M>,
    /// The outcome of the carried operation, if it is part of the new contents.
    pub carried: Option<Outcome>,
    /// Why the leaf is only compacted although it is full.
    pub no_space: Option<AllocError>,
}

/// The fingerprints of a leaf without entries.
pub(super) fn unclaimed<G: LeafShape>() -> [[u8; 64]; 4] {
    std::array::from_fn(|chunk| {
        let free = if chunk < G::CHUNKS { usable::<G>(chunk) } else { 0 };
        std::array::from_fn(|within| if free >> within & 1 == 1 { UNKNOWN } else { DEAD })
    })
}

impl<K: Kind<M>, G: LeafShape, M: Machine> HashedLeafTree<K, G, M> {
    /// Brings the replacement of `leaf` to its end. Returns the outcome of `carry` if the
    /// replacement performed it; otherwise the caller starts over.
    #[cold]
    #[inline(never)]
    pub(super) fn replace_leaf(
        &self,
        session: &mut Session<M>,
        leaf: LeafId,
        carry: Option<&Write<'_, K, M>>,
    ) -> Result<Option<Outcome>, AllocError> {
        if leaf.stands_in_for().is_some() {
            // What looked full is to be restored; the caller looks again.
            return Ok(None);
        }
        let mut carried = None;
        let mut no_space = None;
        let mut waits = 0;
        loop {
            // Acquire: with REPLACED, the successor's contents; pairs with the switch below.
            let flags = self.cold(leaf).flags.load(Ordering::Acquire);
            if flags & REPLACED != 0 {
                let Some(write) = carry else { return Ok(None) };
                self.try_install(session, write.key);
                // A write that needs no room goes on in the compacted leaf.
                return match no_space {
                    Some(error) if carried.is_none() && write.intent.inserts() => Err(error),
                    _ => Ok(carried),
                };
            }
            // Acquire: the successor is complete; pairs with its installation below.
            let successor = self.cold(leaf).successor.load(Ordering::Acquire);
            if successor.is_null() {
                // A first look: what the leaf holds by the time it is frozen decides.
                let full = self.live_count(leaf) * 2 >= G::CAPACITY;
                let grows = full && carry.is_some_and(|write| write.intent.inserts());
                let reserved = match flags & FREEZING {
                    0 => self.reserve(session, grows),
                    _ => self.reserve_for_frozen(session, grows),
                };
                if let Err(error) = reserved {
                    waits += 1;
                    if !error.lacks_space()
                        || waits > Self::FULL_PATIENCE
                        || !self.await_leader(leaf)
                    {
                        return Err(error);
                    }
                    continue;
                }
                if let Some(candidate) = self.freeze_and_propose(session, leaf, carry)? {
                    (carried, no_space) = (candidate.carried, candidate.no_space);
                }
                continue;
            }
            // SAFETY: installed successors are retired no earlier than the leaf.
            let successor = unsafe { Shared::new(successor) };
            if successor.merging.is_none() {
                self.commit_and_switch(session, leaf, successor);
            } else if let Some(candidate) = self.help_merge(session, leaf, successor, carry)? {
                (carried, no_space) = (candidate.carried, candidate.no_space);
            }
        }
    }

    /// How often to wait for the thread that froze a leaf when there is no space to help it.
    const FULL_PATIENCE: u32 = if M::SIMULATED { 1 } else { 100 };

    /// Without space: if somebody froze the leaf, who has space enough to replace it, gives it time.
    /// A removal must not fail only because it cannot help. Returns whether there was one.
    fn await_leader(&self, leaf: LeafId) -> bool {
        // Relaxed: only a reason to wait; the loop in `replace_leaf` looks properly.
        let frozen = self.cold(leaf).flags.load(Ordering::Relaxed) & FREEZING != 0;
        if frozen {
            M::mark("hashed.split.no_space_to_help");
            self.wait_for_leader(leaf);
        }
        frozen
    }

    /// Space for the largest replacement, before anything is frozen: a full pool must not leave
    /// frozen leaves behind. A tree that `grows` leaves some for those that make room.
    pub(super) fn reserve(&self, session: &mut Session<M>, grows: bool) -> Result<(), AllocError> {
        session.reserve_blocks_of(G::BLOCK_CLASS, if grows { 2 + SPARE_BLOCKS } else { 2 })
    }

    /// As [`Self::reserve`] for a leaf that is frozen and must not stay so: one block is enough to
    /// compact it.
    pub(super) fn reserve_for_frozen(
        &self,
        session: &mut Session<M>,
        grows: bool,
    ) -> Result<(), AllocError> {
        match self.reserve(session, grows) {
            Err(error) if error.lacks_space() => {
                session.reserve_blocks_of(G::BLOCK_CLASS, 1).map_err(|_| error)
            }
            result => result,
        }
    }

    /// Steps 1 and 2: freezes, builds a candidate, offers it.
    fn freeze_and_propose(
        &self,
        session: &mut Session<M>,
        leaf: LeafId,
        carry: Option<&Write<'_, K, M>>,
    ) -> Result<Option<Candidate<M>>, AllocError> {
        let was_frozen = self.freeze(leaf);
        if was_frozen && !M::SIMULATED && self.wait_for_leader(leaf) {
            return Ok(None);
        }
        let candidate = self.build_candidate(session, leaf, carry)?;
        // AcqRel: publishes the candidate; acquires the winner's. Pairs with the loads of
        // `successor`.
        let offer = self.cold(leaf).successor.compare_exchange(
            std::ptr::null_mut(),
            candidate.successor,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        match offer {
            Ok(_) => Ok(Some(candidate)),
            Err(_) => {
                M::mark("hashed.split.lost_offer");
                self.discard(session, candidate.successor);
                Ok(None)
            }
        }
    }

    /// Ends all change in a leaf. Returns whether somebody had begun to.
    pub(super) fn freeze(&self, leaf: LeafId) -> bool {
        // AcqRel: only says that somebody is at it; pairs with the loads of `flags`.
        let before = self.cold(leaf).flags.fetch_or(FREEZING, Ordering::AcqRel);
        let less = usize::from(M::mutant("hashed.freezes_one_less"));
        for position in G::HEADER_POSITIONS..G::POSITIONS - less {
            self.freeze_position(leaf, position);
        }
        before & FREEZING != 0
    }

    #[inline(always)]
    fn freeze_position(&self, leaf: LeafId, position: usize) {
        let cell = self.entry(leaf, position);
        let mut entry = cell.load();
        loop {
            let state = K::state(entry);
            let frozen = match state {
                TOMB | FROZEN => return,
                FROZEN_EMPTY => break,
                EMPTY if M::mutant("hashed.no_freeze_empty") => return,
                EMPTY => K::with_state(entry, FROZEN_EMPTY),
                PENDING => {
                    // An insert that is still pending is linearized here; its fingerprint comes first.
                    M::mark("hashed.split.freeze_pending");
                    self.help_fingerprint(leaf, position, entry);
                    let kill = M::mutant("hashed.freeze_kills_pending");
                    K::with_state(entry, if kill { TOMB } else { FROZEN })
                }
                _ => K::with_state(entry, FROZEN),
            };
            match cell.compare_exchange(entry, frozen) {
                Ok(_) if state == EMPTY => break,
                Ok(_) => return,
                Err(now) => entry = now,
            }
        }
        if !M::mutant("hashed.freeze_leaves_zeros") {
            // Release: nobody claims the position any more. Before REPLACED in every thread's eyes, so
            // that a 0 proves that the leaf is not replaced (HL5); pairs with the loads of `flags`.
            self.fingerprints(leaf, position / G::CHUNK).store(
                position % G::CHUNK,
                DEAD,
                Ordering::Release,
            );
        }
    }

    /// Gives the thread that froze the leaf first a moment to offer its candidate.
    fn wait_for_leader(&self, leaf: LeafId) -> bool {
        for attempt in 0..PATIENCE {
            // Acquire: as in `replace_leaf`.
            if !self.cold(leaf).successor.load(Ordering::Acquire).is_null() {
                return true;
            }
            M::spin(attempt);
        }
        false
    }

    /// The frozen contents of a leaf, as live entries in no order.
    pub(super) fn frozen_entries(&self, leaf: LeafId) -> Vec<Pair> {
        let mut entries = Vec::with_capacity(G::CAPACITY + 2);
        for position in G::HEADER_POSITIONS..G::POSITIONS {
            let entry = self.entry(leaf, position).load();
            if K::state(entry) == FROZEN {
                entries.push(K::with_state(entry, LIVE));
            }
        }
        entries
    }

    /// Step 2: a private replacement of a frozen leaf.
    pub(super) fn build_candidate(
        &self,
        session: &mut Session<M>,
        leaf: LeafId,
        carry: Option<&Write<'_, K, M>>,
    ) -> Result<Candidate<M>, AllocError> {
        let mut entries = self.frozen_entries(leaf);
        let (carried, inserted) = match carry {
            Some(write) if !M::mutant("hashed.no_carry") => {
                self.apply_carry(leaf, &mut entries, write)
            }
            _ => (None, None),
        };
        let count = entries.len();
        // What merges give up comes without a write: each of its leaves has one of the two blocks that were
        // reserved, and if one split, a full pool would be left with a frozen leaf.
        if count * 2 <= G::CAPACITY || count < 2 || carry.is_none() {
            let successor = self.build_successor(session, leaf, &entries, count, 0)?;
            return Ok(Candidate { successor, carried, no_space: None });
        }
        let at = self.split_position(leaf, &entries, inserted);
        // Only the halves matter, not the order within.
        entries.select_nth_unstable_by(at, |a, b| K::compare(self.base, *a, *b));
        let below = entries[..at]
            .iter()
            .copied()
            .max_by(|a, b| K::compare(self.base, *a, *b))
            .expect("a split leaves entries on both sides");
        let low = self.cold(leaf).low.read_private();
        // Who helps may have had space for one block only.
        let fence = session
            .reserve_blocks_of(G::BLOCK_CLASS, 2)
            .and_then(|()| K::make_fence(session, low, below, entries[at]));
        match fence {
            Ok(fence) => match self.build_successor(session, leaf, &entries, at, fence) {
                Ok(successor) => Ok(Candidate { successor, carried, no_space: None }),
                Err(error) => {
                    K::free_fence(session, fence);
                    Err(error)
                }
            },
            Err(error) if error.lacks_space() => {
                // No room to split: only compact the leaf, so that it is not left frozen.
                M::mark("hashed.split.no_room");
                let kept = self.frozen_entries(leaf);
                let successor = self.build_successor(session, leaf, &kept, kept.len(), 0)?;
                Ok(Candidate { successor, carried: None, no_space: Some(error) })
            }
            Err(error) => Err(error),
        }
    }

    /// Applies the carried write to the contents. Returns its outcome if it has an effect, and the
    /// entry if it inserted one.
    fn apply_carry(
        &self,
        leaf: LeafId,
        entries: &mut Vec<Pair>,
        write: &Write<'_, K, M>,
    ) -> (Option<Outcome>, Option<Pair>) {
        let skip = self.skip(leaf);
        let found = entries.iter().position(|entry| K::is_of(self.base, write.key, skip, *entry));
        let old = found.map(|index| K::payload(entries[index]));
        let (outcome, effect) = write.intent.decide(old);
        let mut inserted = None;
        match (effect, found) {
            (Effect::None, _) | (Effect::Delete, None) => return (None, None),
            (Effect::Put, Some(index)) => {
                entries[index] = K::with_payload(entries[index], write.payload);
            }
            (Effect::Put, None) => {
                let entry = K::entry(write.key, skip, write.payload, LIVE);
                entries.push(entry);
                inserted = Some(entry);
            }
            (Effect::Delete, Some(index)) => drop(entries.swap_remove(index)),
        }
        (Some(outcome), inserted)
    }

    /// Where to cut: in the middle, or near the end when keys arrive in order.
    fn split_position(&self, leaf: LeafId, entries: &[Pair], inserted: Option<Pair>) -> usize {
        let count = entries.len();
        let high = self.cold(leaf).high.read_private();
        let last_of_class = high == 0 || K::is_boundary(high);
        let in_order = last_of_class
            && inserted.is_some_and(|inserted| {
                entries.iter().all(|entry| K::compare(self.base, *entry, inserted).is_le())
            });
        if in_order { count - (count / 10).max(1) } else { count / 2 }
    }

    /// Leaves for `entries[..at]` and `entries[at..]`, and the successor that names them.
    fn build_successor(
        &self,
        session: &mut Session<M>,
        leaf: LeafId,
        entries: &[Pair],
        at: usize,
        split: u64,
    ) -> Result<*mut Successor<M>, AllocError> {
        let cold = self.cold(leaf);
        let (low, high) = (cold.low.read_private(), cold.high.read_private());
        let two = at < entries.len();
        let (skip, origin) = (self.skip(leaf), leaf.block::<G>());
        let middle = if two { split } else { high };
        let left = self.build_leaf(session, low, middle, &entries[..at], skip, origin)?;
        let mut right = Ok(None);
        if two {
            right = self.build_leaf(session, split, high, &entries[at..], skip, origin).map(Some);
        }
        let offered = right.and_then(|right| {
            let status = Atomic::new(0);
            let contents = Successor { left, right, split: middle, merging: None, status };
            self.new_successor(session, contents).inspect_err(|_| {
                right.into_iter().for_each(|right| self.discard_leaf(session, right))
            })
        });
        offered.inspect_err(|_| self.discard_leaf(session, left))
    }

    pub(super) fn new_successor(
        &self,
        session: &mut Session<M>,
        contents: Successor<M>,
    ) -> Result<*mut Successor<M>, AllocError> {
        let node: *mut Successor<M> = session.allocate_node(size_of::<Successor<M>>())?.cast();
        // SAFETY: the memory is ours, large enough and aligned.
        unsafe { node.write(contents) };
        Ok(node)
    }

    /// A private leaf with a private block in state `New`, durable.
    pub(super) fn build_leaf(
        &self,
        session: &mut Session<M>,
        low: u64,
        high: u64,
        entries: &[Pair],
        skip_before: usize,
        origin: u32,
    ) -> Result<LeafId, AllocError> {
        let number = session.allocate_block_of(G::BLOCK_CLASS)?;
        let leaf = LeafId::of_block::<G>(number, Placement::choose::<K, G, M>(low, high, entries));
        if let Err(error) = self.slab.prepare(leaf) {
            session.free_block_of(G::BLOCK_CLASS, number);
            return Err(error);
        }
        let skip = K::shared_prefix(self.base, low, high);
        let header = self.header(leaf);
        // Relaxed: private. The block of a tree that was cleared still says `Live`; on the same
        // line, and so also in the pool, this comes before the owner word, or a crash in between
        // would make a leaf of ours of what the block holds (I9).
        header.state.store(BlockState::Free.encode(), Ordering::Relaxed);
        let mut filling = Filling::<G>::new();
        let mut bytes = unclaimed::<G>();
        for entry in entries {
            let entry =
                if skip == skip_before { *entry } else { K::rekey(self.base, *entry, skip) };
            let probe = self.probe_of(leaf, low, entry);
            let position = filling.take(&probe);
            self.entry(leaf, position).write_private(entry);
            bytes[position / G::CHUNK][position % G::CHUNK] = probe.fingerprint;
        }
        for position in G::HEADER_POSITIONS..G::POSITIONS {
            // What the block's last life left must not be taken for entries (I10).
            let left_over = !filling.is_taken(position)
                && self.entry(leaf, position).read_private() != EMPTY_ENTRY;
            if left_over && !M::mutant("hashed.no_clear") {
                self.entry(leaf, position).write_private(EMPTY_ENTRY);
            }
        }
        header.low.write_private(low);
        header.placement.write_private(u64::from(leaf.placement.to_bits()));
        // Release: after the store of `Free` to the state; the order counts in the pool: recovery reads both after a
        // crash.
        header.owner.store(owner_word(self.id, skip), Ordering::Release);
        // Release: where a visible store is durable, the contents come first; recovery's view.
        header.state.store(BlockState::New { origin }.encode(), Ordering::Release);
        if !M::mutant("hashed.no_build_flush") {
            // Persist: the whole block before the state word of its origin names it, or recovery
            // would find a live block without its entries (I9).
            self.medium.persist(self.block_start(leaf), G::BLOCK_BYTES);
        }
        self.begin_leaf(leaf, low, high, skip, &bytes, 0);
        Ok(leaf)
    }

    /// Writes the volatile half of a leaf that nobody can reach.
    pub(super) fn begin_leaf(
        &self,
        leaf: LeafId,
        low: u64,
        high: u64,
        skip: usize,
        fingerprints: &[[u8; 64]; 4],
        flags: u64,
    ) {
        for (chunk, bytes) in fingerprints.iter().enumerate().take(G::CHUNKS) {
            let line = self.fingerprints(leaf, chunk);
            for (within, byte) in bytes.iter().enumerate() {
                line.write_private(within, *byte);
            }
        }
        let cold: &Cold<M> = self.cold(leaf);
        cold.flags.write_private(flags);
        cold.successor.write_private(std::ptr::null_mut());
        cold.order.write_private(0);
        cold.low.write_private(low);
        cold.high.write_private(high);
        cold.skip.write_private(skip as u64);
        cold.in_flight.write_private(0);
    }

    /// Gives up a candidate that lost.
    pub(super) fn discard(&self, session: &mut Session<M>, successor: *mut Successor<M>) {
        // SAFETY: the candidate was never published.
        let candidate = unsafe { Shared::new(successor) };
        let (left, right) = (candidate.left, candidate.right);
        if let Some(right) = right {
            if !M::mutant("hashed.discard_keeps_right") {
                self.discard_leaf(session, right);
            }
            K::free_fence(session, candidate.split);
        }
        self.discard_leaf(session, left);
        // SAFETY: allocated with this size, never published.
        unsafe { session.free_node(successor.cast(), size_of::<Successor<M>>()) };
    }

    /// Gives up a leaf that nobody else has seen.
    pub(super) fn discard_leaf(&self, session: &mut Session<M>, leaf: LeafId) {
        // Relaxed: nobody else looks at the block; a crash before it is durable leaves a `New` that
        // its origin does not name.
        self.header(leaf).state.store(BlockState::Free.encode(), Ordering::Relaxed);
        session.free_block_of(G::BLOCK_CLASS, leaf.block::<G>());
    }

    /// Steps 3 and 4 of a plain replacement.
    fn commit_and_switch(
        &self,
        session: &mut Session<M>,
        leaf: LeafId,
        successor: Shared<Successor<M>>,
    ) {
        let (left, right) = (successor.left, successor.right);
        let named = right.filter(|_| !M::mutant("hashed.commit_names_left"));
        let right_block = named.map_or(NO_BLOCK, |right| right.block::<G>());
        if M::mutant("hashed.switch_before_commit") {
            // AcqRel: as below; the planted bug is only that it comes too early.
            self.cold(leaf).flags.fetch_or(REPLACED, Ordering::AcqRel);
        }
        self.commit_replaced(leaf, left.block::<G>(), right_block);
        // AcqRel: whoever sees REPLACED finds the successor and its contents; pairs with the loads
        // of `flags`. Exactly one thread switches.
        let before = self.cold(leaf).flags.fetch_or(REPLACED, Ordering::AcqRel);
        if before & REPLACED != 0 {
            M::mark("hashed.split.helped_switch");
            return;
        }
        if !M::mutant("hashed.no_finalize") {
            self.finalize(left, leaf.block::<G>());
            if let Some(right) = right {
                self.finalize(right, leaf.block::<G>());
            }
        }
        self.note_split(session, i64::from(right.is_some()));
    }

    /// The durable commit: the block's state names its replacements.
    pub(super) fn commit_replaced(&self, leaf: LeafId, left: u32, right: u32) {
        let state = &self.header(leaf).state;
        // Acquire: a helper's commit; pairs with the exchange below.
        let mut seen = state.load(Ordering::Acquire);
        let mut is_ours = false;
        let replaced = BlockState::Replaced { left, right }.encode();
        while !matches!(BlockState::decode(seen), Some(BlockState::Replaced { .. })) {
            // AcqRel: the new blocks come before the word that names them; pairs with recovery and
            // with the load above.
            match state.compare_exchange(seen, replaced, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    is_ours = true;
                    break;
                }
                Err(now) => seen = now,
            }
        }
        let leaves_it = M::mutant("hashed.helper_trusts_commit") && !is_ours;
        if !leaves_it && !M::mutant("hashed.no_commit_flush") {
            // Persist: the commit before the switch, also when somebody else wrote the word, or a
            // crash could take back what readers of the new leaf have seen (I2).
            self.medium.persist(state.as_ptr(), 8);
        }
    }

    /// Makes a replacement stand on its own, so that its origin may be reused.
    pub(super) fn finalize(&self, leaf: LeafId, origin: u32) {
        let state = &self.header(leaf).state;
        if M::mutant("hashed.finalize_overwrites") {
            // Release: a planted bug.
            state.store(BlockState::Live.encode(), Ordering::Release);
        }
        // AcqRel on success, relaxed on failure: only a block that is still `New` is made `Live`; a
        // later replacement of it has spoken already.
        let _ = state.compare_exchange(
            BlockState::New { origin }.encode(),
            BlockState::Live.encode(),
            Ordering::AcqRel,
            Ordering::Relaxed,
        );
        // Persist: `Live` before the origin is reused, or recovery would look for an origin that
        // says something else by then (I9).
        self.medium.persist(state.as_ptr(), 8);
    }

    /// Whether an aborted merge still stands in a leaf's `successor`.
    pub(super) fn is_aborted(successor: Shared<Successor<M>>) -> bool {
        // Acquire: the decision; pairs with the exchange in `merge.rs`.
        successor.status.load(Ordering::Acquire) == ABORTED
    }

    /// Whether a merge was decided to happen.
    pub(super) fn is_committed_merge(successor: Shared<Successor<M>>) -> bool {
        // Acquire: the decision; pairs with the exchange in `merge.rs`.
        successor.status.load(Ordering::Acquire) == COMMITTED
    }
}
