//! The tree of 64-bit integers as an index and as a design.

use everleaf_alloc::{Recovery, Session};
use everleaf_machine::{Machine, Pair};

use super::layout::LeafShape;
use super::{HashedLeafTree, Slab};
use crate::api::change::{Change, Outcome};
use crate::api::check_report::CheckReport;
use crate::api::error::IndexError;
use crate::api::operations::{Operations, Way};
use crate::api::ordered::{Design, DesignInfo, OrderedIndex, Progress, Reads, Scans, Writes};
use crate::kind::{U64Kind, u64_key};
use crate::nbtree::write::Write;
use crate::nbtree::{Extent, TreeShape, find_live_blocks, group};

impl<G: LeafShape, M: Machine> Operations for HashedLeafTree<U64Kind, G, M> {
    type Machine = M;

    fn is_writable(&self) -> bool {
        !self.heap.pool().is_read_only()
    }

    #[inline]
    fn read(&self, session: &mut Session<M>, key: u64) -> Result<Option<u64>, IndexError> {
        Ok(self.get_payload(session, key)?)
    }

    #[inline]
    fn write(&self, session: &mut Session<M>, change: &Change) -> Result<Outcome, IndexError> {
        Ok(self.write(session, change.key, change.intent, change.value)?)
    }

    #[inline(always)]
    fn count(&self, session: &Session<M>, growth: i64) {
        self.note_keys(session, growth);
    }

    fn get_many(
        &self,
        session: &mut Session<M>,
        keys: &[u64],
        values: &mut [Option<u64>],
    ) -> Result<(), IndexError> {
        let mut session = session.pinned();
        Ok(self.get_many_payloads(&mut session, keys, Extent::Heads, values)?)
    }

    fn write_many(
        &self,
        session: &mut Session<M>,
        changes: &[Change],
        outcomes: &mut [Outcome],
    ) -> Result<(), IndexError> {
        let size = group::<M>();
        for (changes, outcomes) in changes.chunks(size).zip(outcomes.chunks_mut(size)) {
            let mut done = 0;
            let made = {
                let mut session = session.pinned();
                let write_of = |index: usize| {
                    let Change { key, intent, value } = changes[index];
                    Write { key, intent, payload: value }
                };
                self.write_together(&mut session, changes.len(), write_of, |session, outcome| {
                    match outcome.growth(changes[done].intent) {
                        0 => {}
                        growth => self.note_keys(session, growth),
                    }
                    outcomes[done] = outcome;
                    done += 1;
                })
            };
            match made {
                // While we were pinned, leaves that we have replaced could not be used again.
                Err(error) if error.lacks_space() && done > 0 => {
                    M::mark("hashed.many.one_by_one");
                    for (change, outcome) in changes[done..].iter().zip(&mut outcomes[done..]) {
                        let Change { key, intent, value } = *change;
                        *outcome = OrderedIndex::change(self, session, key, intent, value)?;
                    }
                }
                made => made?,
            }
        }
        Ok(())
    }

    #[inline]
    fn read_pairs(
        &self,
        session: &mut Session<M>,
        way: Way,
        from: u64,
        limit: usize,
        pairs: &mut Vec<(u64, u64)>,
    ) -> Result<(), IndexError> {
        // A short scan allocates once; a long one grows as it goes.
        pairs.reserve(limit.min(256));
        let mut left = limit;
        let push = |low, entry: Pair| {
            pairs.push((u64_key(low, entry), entry.second));
            left -= 1;
            left > 0
        };
        match way {
            Way::Up => self.scan_forward(session, from, limit, Extent::Heads, push)?,
            Way::Down => self.scan_backward(session, from.checked_add(1), Extent::Heads, push)?,
        }
        Ok(())
    }

    fn unrestored(&self) -> u64 {
        self.unrestored_leaves()
    }

    fn restore_next(
        &self,
        session: &mut Session<M>,
        from: u64,
        leaves: usize,
        damaged: &mut Vec<IndexError>,
    ) -> Result<Option<u64>, IndexError> {
        let mut found = vec![];
        let next = self.restore_leaves(session, Some(&from), leaves, &mut found);
        damaged.extend(found.into_iter().map(IndexError::from));
        Ok(next)
    }

    fn len(&self, session: &mut Session<M>) -> Result<u64, IndexError> {
        self.restore_all(session)?;
        Ok(self.key_count())
    }

    fn table_bytes(&self) -> u64 {
        self.place_bytes() + self.slab.directory_size() as u64
    }

    fn shape(&self, session: &mut Session<M>) -> Result<TreeShape, IndexError> {
        self.restore_all(session)?;
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

    fn recover_at_once(
        session: &mut Session<M>,
        recovery: &Recovery<M>,
        root: u32,
        threads: usize,
    ) -> Result<Self, IndexError> {
        let heap = session.heap().clone();
        let live = find_live_blocks(&heap, recovery, &[root], G::BLOCK_CLASS, threads)?.remove(0);
        let slab = Slab::zeroed(heap.pool().max_size())?;
        Ok(Self::open_at_once(session, recovery, root, live, slab.into(), None)?)
    }

    fn root_value(&self) -> u32 {
        self.id
    }
}
