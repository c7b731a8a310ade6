//! Writes: one record put on top of a leaf.

use everleaf_alloc::{AllocError, Session};
use everleaf_index::build::{Change, Effect, Outcome};
use everleaf_machine::Machine;

use super::BwTree;
use super::layout::{Kind, Record, RecordRef};

impl<const PAIRS: usize, const CHAIN: u64, M: Machine> BwTree<PAIRS, CHAIN, M> {
    /// One write. The caller is pinned.
    pub(super) fn write(
        &self,
        session: &mut Session<M>,
        change: &Change,
    ) -> Result<Outcome, AllocError> {
        loop {
            let (page, top) = self.find(session, change.key, 0);
            let old = self.value(top, change.key);
            let (outcome, effect) = change.decide(old);
            let kind = match (effect, old) {
                (Effect::None, _) => return Ok(outcome),
                (Effect::Put, None) => Kind::Insert,
                (Effect::Put, Some(_)) => Kind::Update,
                (Effect::Delete, _) => Kind::Delete,
            };
            if self.is_full(top) {
                // Threads that come here do the same, and the first one is through: nothing is put on the chain
                // meanwhile. So a page that many write without a pause does not grow, and nobody waits.
                M::mark("bwtree.full");
                self.consolidate(session, page)?;
                continue;
            }
            let delta = Record::make_delta(session, kind, top, (change.key, change.value))?;
            if self.put_on(session, page, top, delta) {
                return Ok(outcome);
            }
            M::mark("bwtree.write_again");
        }
    }

    /// Makes a new record the topmost of a page, if `top` still is. If not, it is freed.
    pub(super) fn put_on(
        &self,
        session: &mut Session<M>,
        page: u64,
        top: RecordRef<'_, M>,
        delta: *mut Record<M>,
    ) -> bool {
        let depth = top.depth() + 1;
        if M::mutant("bwtree.plain_store") {
            self.table.set(page, delta);
        } else if !self.table.change(page, top.place(), delta) {
            // SAFETY: made by the caller, of one line; nobody else has seen it.
            unsafe { session.free_node(delta.cast(), size_of::<Record<M>>()) };
            return false;
        }
        if depth >= CHAIN {
            // In vain if somebody was faster, or there is no memory: then the next one tries.
            let _ = self.consolidate(session, page);
        }
        true
    }
}
