//! Writes: one at a time.

use everleaf_alloc::{AllocError, Session};
use everleaf_index::build::{Change, Effect, Outcome};
use everleaf_machine::Machine;

use super::Wort;
use super::leaf::RECORD_SIZE;

impl<const BITS: u32, M: Machine> Wort<BITS, M> {
    /// One write. The caller is pinned.
    ///
    /// *Linearizes at* the store of a link or of a value, or, without effect, under the lock. *Durable*
    /// when it returns.
    pub(super) fn write(
        &self,
        session: &mut Session<M>,
        change: &Change,
    ) -> Result<Outcome, AllocError> {
        let _turn = self.tree.lock.lock();
        self.change_locked(session, change)
    }

    fn change_locked(
        &self,
        session: &mut Session<M>,
        change: &Change,
    ) -> Result<Outcome, AllocError> {
        let spot = self.tree.seek(change.key);
        let old = spot.leaf.map(|record| self.records.read_locked(record));
        let (outcome, effect) = change.decide(old);
        match (effect, spot.leaf) {
            (Effect::Put, Some(record)) => self.records.set(record, change.value),
            (Effect::Put, None) => {
                let record = self.records.make(session, change.key, change.value)?;
                match self.tree.insert(session, &spot, change.key, record) {
                    Ok(new_node) => self.nodes.add(session.stripe(), i64::from(new_node)),
                    Err(error) => {
                        if !M::mutant("wort.keeps_refused") {
                            session.free_record(record, RECORD_SIZE);
                        }
                        return Err(error);
                    }
                }
            }
            (Effect::Delete, Some(record)) => {
                self.tree.remove(session, &spot);
                if M::mutant("wort.free_at_once") {
                    session.free_record(record, RECORD_SIZE);
                } else {
                    session.retire_record(record, RECORD_SIZE);
                }
            }
            _ => {}
        }
        Ok(outcome)
    }
}
