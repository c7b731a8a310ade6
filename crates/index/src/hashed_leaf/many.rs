//! Looking up or writing many keys at once, so that their cache misses overlap.
//!
//! All keys go down the tree together, one level at a time: while the lines of one are on their way,
//! the next one's are asked for. The answers are those of separate gets, and the writes are separate
//! writes, in order.

use everleaf_alloc::{AllocError, Session};
use everleaf_machine::Machine;

use super::HashedLeafTree;
use super::aim::Aim;
use super::layout::{LeafId, LeafShape, UNKNOWN};
use super::placement::Placement;
use super::probe::Probe;
use crate::api::change::Outcome;
use crate::kind::Kind;
use crate::nbtree::layout::Inner;
use crate::nbtree::shared::Shared;
use crate::nbtree::write::Write;
use crate::nbtree::{Extent, TOGETHER, group};

/// A key on its way: how it goes through a leaf, and the leaf.
#[derive(Clone, Copy)]
struct Traveller<G> {
    probe: Probe<G>,
    leaf: LeafId,
}

impl<K: Kind<M>, G: LeafShape, M: Machine> HashedLeafTree<K, G, M> {
    /// The payloads of `keys`, in order, each to its place in `payloads`. Each is looked up as by `get_payload`.
    ///
    /// # Errors
    /// As there; then it is open which places were written to.
    pub(crate) fn get_many_payloads(
        &self,
        session: &mut Session<M>,
        keys: &[K::Key<'_>],
        extent: Extent,
        payloads: &mut [Option<u64>],
    ) -> Result<(), AllocError> {
        let payloads = payloads[..keys.len()].chunks_mut(group::<M>());
        for (keys, payloads) in keys.chunks(group::<M>()).zip(payloads) {
            let aim = Aim::of_lookup(session);
            let travellers = self.descend_together(keys.len(), |index| keys[index], aim);
            for traveller in &travellers[..keys.len()] {
                self.prefetch_matches(traveller, false);
            }
            if K::HAS_TAILS {
                for traveller in &travellers[..keys.len()] {
                    self.prefetch_record(traveller);
                }
            }
            for ((key, traveller), payload) in keys.iter().zip(&travellers).zip(&mut *payloads) {
                *payload = self.get_from(session, traveller.leaf, *key, traveller.probe)?;
                session.note_lookup(payload.is_some());
            }
            if K::HAS_TAILS && extent == Extent::Whole && !M::SIMULATED {
                for payload in payloads.iter().flatten() {
                    K::ask_for_rest(self.base, *payload);
                }
            }
        }
        Ok(())
    }

    /// Performs the writes of some items one after the other, and calls `done` for each with its
    /// outcome. The session is pinned.
    ///
    /// # Errors
    /// As `write`; then `done` was called for all items before the one whose write failed, and none
    /// behind it was looked at.
    pub(crate) fn write_many<'w, 'k, T>(
        &self,
        session: &mut Session<M>,
        items: &'w [T],
        write_of: impl Fn(&'w T) -> &'w Write<'k, K, M>,
        mut done: impl FnMut(&'w T, Outcome),
    ) -> Result<(), AllocError>
    where
        'k: 'w,
        K: 'w,
    {
        for items in items.chunks(group::<M>()) {
            let mut made = items.iter();
            let write_of = |index: usize| {
                let Write { key, intent, payload } = *write_of(&items[index]);
                Write { key, intent, payload }
            };
            self.write_together(session, items.len(), write_of, |_, outcome| {
                done(made.next().expect("an outcome for each"), outcome);
            })?;
        }
        Ok(())
    }

    /// Performs `count` writes, at most [`TOGETHER`], one after the other, and calls `done` for each with
    /// its outcome. The session is pinned.
    ///
    /// # Errors
    /// As `write`; then `done` was called for all before the one that failed, and none behind it was
    /// begun.
    pub(super) fn write_together<'k>(
        &self,
        session: &mut Session<M>,
        count: usize,
        write_of: impl Fn(usize) -> Write<'k, K, M>,
        mut done: impl FnMut(&mut Session<M>, Outcome),
    ) -> Result<(), AllocError>
    where
        K: 'k,
    {
        let travellers = self.descend_together(count, |index| write_of(index).key, Aim::Write);
        for traveller in &travellers[..count] {
            self.prefetch_matches(traveller, true);
        }
        for (index, traveller) in travellers[..count].iter().enumerate() {
            // The leaf may have been replaced since, also by us: then the attempt says so. Its number
            // means no other leaf as long as we are pinned (HL7).
            let Traveller { leaf, probe } = *traveller;
            let outcome = self.write_from(session, leaf, probe, &write_of(index))?;
            done(session, outcome);
        }
        Ok(())
    }

    /// Asks for the entry whose fingerprint matches first, or where a write would insert: it may not be
    /// where the key begins to look.
    #[inline(always)]
    fn prefetch_matches(&self, traveller: &Traveller<G>, writes: bool) {
        if M::SIMULATED {
            return;
        }
        let Traveller { probe, leaf } = traveller;
        let chunk = probe.chunk(0);
        let fingerprints = self.fingerprints(*leaf, chunk);
        let mut positions = fingerprints.matches(probe.fingerprint);
        if positions == 0 && writes {
            positions = fingerprints.matches(UNKNOWN);
        }
        if positions != 0 {
            let position = chunk * G::CHUNK + probe.first(0, positions);
            M::prefetch(self.entry_place(*leaf, position));
        }
    }

    /// Asks for the record of the entry whose fingerprint matches first.
    #[inline(always)]
    fn prefetch_record(&self, traveller: &Traveller<G>) {
        if M::SIMULATED {
            return;
        }
        let Traveller { probe, leaf } = traveller;
        let chunk = probe.chunk(0);
        let positions = self.fingerprints(*leaf, chunk).matches(probe.fingerprint);
        if positions != 0 {
            let position = chunk * G::CHUNK + probe.first(0, positions);
            // An address, which nobody follows.
            M::prefetch(K::reference(self.base, self.entry(*leaf, position).load()));
        }
    }

    /// The leaves that the inner nodes give for so many keys, at most [`TOGETHER`], with what a search
    /// of them reads asked for.
    #[inline(always)]
    fn descend_together<'k>(
        &self,
        count: usize,
        key: impl Fn(usize) -> K::Key<'k>,
        aim: Aim,
    ) -> [Traveller<G>; TOGETHER] {
        let root = self.inner.root();
        let mut nodes: [*mut (); TOGETHER] = [root.as_ptr().cast(); TOGETHER];
        // All start from the root read above, so that they are on one level at all times.
        for level in (2..=root.level).rev() {
            for (index, place) in nodes[..count].iter_mut().enumerate() {
                // SAFETY: nodes on levels above 0 are inner nodes, read while pinned.
                let node: Shared<Inner<M>> = unsafe { Shared::new(place.cast()) };
                debug_assert_eq!(node.level, level);
                *place = node.child_at(level, node.find::<K>(level, self.base, key(index), false));
                Shared::<Inner<M>>::prefetch::<K>(*place, level - 1);
            }
        }
        std::array::from_fn(|index| {
            if index >= count {
                let leaf = LeafId { number: 0, placement: Placement::HASHED };
                return Traveller { probe: Probe::new(leaf.placement, 0, 0), leaf };
            }
            // SAFETY: nodes of level 1 are inner nodes, read while pinned.
            let node: Shared<Inner<M>> = unsafe { Shared::new(nodes[index].cast()) };
            let place = node.find::<K>(1, self.base, key(index), false);
            let leaf = LeafId::of_child(node.child_at(1, place));
            let probe = self.probe(leaf, key(index));
            if K::HAS_TAILS {
                // The entry is asked for when its fingerprint says where it is.
                self.prefetch_metadata(leaf, &probe);
            } else {
                self.prefetch(leaf, &probe, aim);
            }
            Traveller { probe, leaf }
        })
    }
}
