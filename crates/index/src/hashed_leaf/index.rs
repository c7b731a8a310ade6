//! The tree of 64-bit integers as an index and as a design.

use everleaf_alloc::{Recovery, Session};
use everleaf_machine::Machine;

use super::layout::{LeafShape, OrderPlace};
use super::{HashedLeafTree, Slab};
use crate::change::{Change, Intent, Outcome};
use crate::check_report::CheckReport;
use crate::error::IndexError;
use crate::kind::{U64Kind, u64_key};
use crate::nbtree::write::Write;
use crate::nbtree::{Extent, TOGETHER, TreeShape, find_live_blocks};
use crate::ordered::{Design, DesignInfo, OrderedIndex, Progress, Reads, Scans, Writes};

impl<G: LeafShape, M: Machine> OrderedIndex<M> for HashedLeafTree<U64Kind, G, M> {
    fn info(&self) -> DesignInfo {
        Self::INFO
    }

    #[inline]
    fn get(&self, session: &mut Session<M>, key: u64) -> Result<Option<u64>, IndexError> {
        let mut session = session.pinned();
        Ok(self.get_payload(&mut session, key))
    }

    #[inline]
    fn change(
        &self,
        session: &mut Session<M>,
        key: u64,
        intent: Intent,
        value: u64,
    ) -> Result<Outcome, IndexError> {
        if self.heap.pool().is_read_only() {
            return Err(IndexError::ReadOnly);
        }
        let mut session = session.pinned();
        let outcome = self.write(&mut session, key, intent, value)?;
        self.count(&session, intent, outcome);
        Ok(outcome)
    }

    fn get_many(
        &self,
        session: &mut Session<M>,
        keys: &[u64],
        values: &mut [Option<u64>],
    ) -> Result<(), IndexError> {
        let values = &mut values[..keys.len()];
        let mut session = session.pinned();
        self.get_many_payloads(&mut session, keys, Extent::Heads, |_, index, value| {
            values[index] = value;
        });
        Ok(())
    }

    fn write_many(
        &self,
        session: &mut Session<M>,
        changes: &[Change],
        outcomes: &mut [Outcome],
    ) -> Result<(), IndexError> {
        if self.heap.pool().is_read_only() {
            return Err(IndexError::ReadOnly);
        }
        let outcomes = &mut outcomes[..changes.len()];
        for (changes, outcomes) in changes.chunks(TOGETHER).zip(outcomes.chunks_mut(TOGETHER)) {
            let mut done = 0;
            let made = {
                let mut session = session.pinned();
                let write_of = |index: usize| {
                    let Change { key, intent, value } = changes[index];
                    Write { key, intent, payload: value }
                };
                self.write_together(&mut session, changes.len(), write_of, |session, outcome| {
                    self.count(session, changes[done].intent, outcome);
                    outcomes[done] = outcome;
                    done += 1;
                })
            };
            match made {
                // While we were pinned, leaves that we have replaced could not be used again.
                Err(error) if error.lacks_space() && done > 0 => {
                    M::mark("hashed.many.one_by_one");
                    for (change, outcome) in changes[done..].iter().zip(&mut outcomes[done..]) {
                        *outcome = self.change(session, change.key, change.intent, change.value)?;
                    }
                }
                made => made?,
            }
        }
        Ok(())
    }

    fn scan(
        &self,
        session: &mut Session<M>,
        from: u64,
        limit: usize,
        pairs: &mut Vec<(u64, u64)>,
    ) -> Result<(), IndexError> {
        if limit == 0 {
            return Ok(());
        }
        // A short scan allocates once; a long one grows as it goes.
        pairs.reserve(limit.min(256));
        let mut session = session.pinned();
        let mut left = limit;
        self.scan_forward(&mut session, from, limit, Extent::Heads, |low, entry| {
            pairs.push((u64_key(low, entry), entry.second));
            left -= 1;
            left > 0
        });
        Ok(())
    }

    fn scan_back(
        &self,
        session: &mut Session<M>,
        from: u64,
        limit: usize,
        pairs: &mut Vec<(u64, u64)>,
    ) -> Result<(), IndexError> {
        if limit == 0 {
            return Ok(());
        }
        pairs.reserve(limit.min(256));
        let mut session = session.pinned();
        let mut left = limit;
        self.scan_backward(&mut session, from.checked_add(1), Extent::Heads, |low, entry| {
            pairs.push((u64_key(low, entry), entry.second));
            left -= 1;
            left > 0
        });
        Ok(())
    }

    fn len(&self, _session: &mut Session<M>) -> Result<u64, IndexError> {
        Ok(self.key_count())
    }

    fn table_bytes(&self) -> u64 {
        let orders = self.ordered.sum().saturating_mul(size_of::<OrderPlace<M>>() as u64);
        let leaves = self.leaves.sum().saturating_mul(Self::PLACE_SIZE);
        leaves + orders + self.slab.directory_size() as u64
    }

    fn shape(&self, session: &mut Session<M>) -> Result<TreeShape, IndexError> {
        Ok(self.tree_shape(session))
    }

    fn check(
        &self,
        session: &mut Session<M>,
        used: &Recovery<M>,
        report: &mut CheckReport,
    ) -> Result<(), IndexError> {
        self.check_tree(session, used, report);
        Ok(())
    }

    fn free_all(&self, session: &mut Session<M>) {
        self.free_tree(session);
    }
}

impl<G: LeafShape, M: Machine> HashedLeafTree<U64Kind, G, M> {
    /// Adds to the count of keys what a write changed.
    #[inline(always)]
    fn count(&self, session: &Session<M>, intent: Intent, outcome: Outcome) {
        match outcome.growth(intent) {
            0 => {}
            growth => self.note_keys(session, growth),
        }
    }
}

impl<G: LeafShape, M: Machine> Design<M> for HashedLeafTree<U64Kind, G, M> {
    const INFO: DesignInfo = DesignInfo {
        name: if G::BLOCK_CLASS == 1 { "hashed-leaf-2k" } else { "hashed-leaf" },
        kind: if G::BLOCK_CLASS == 1 { 61 } else { 60 },
        keys: 0..=u64::MAX,
        values: 0..=u64::MAX,
        progress: Progress::LockFree,
        reads: Reads::Committed,
        writes: Writes::Conditional,
        scans: Scans::BothWays,
    };

    fn create(session: &mut Session<M>) -> Result<Self, IndexError> {
        let id = session.heap().pool().next_id()?;
        let slab = Slab::new(session.heap().pool().max_size())?;
        Ok(Self::create_empty(session, id, slab.into())?)
    }

    fn recover(
        session: &mut Session<M>,
        recovery: &Recovery<M>,
        root: u32,
        threads: usize,
    ) -> Result<Self, IndexError> {
        let heap = session.heap().clone();
        let live = find_live_blocks(&heap, recovery, &[root], G::BLOCK_CLASS, threads)?.remove(0);
        let slab = Slab::new(heap.pool().max_size())?;
        Ok(Self::recover_from(session, recovery, root, live, slab.into(), threads, None)?)
    }

    fn root_value(&self) -> u32 {
        self.id
    }
}
