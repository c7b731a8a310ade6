//! The tree as one of the designs: limits, sessions, scans, recovery and check.

use std::ops::ControlFlow;

use everleaf_alloc::{AllocError, Recovery, Session};
use everleaf_index::build::{Change, Operations, Outcome, Tally, Way};
use everleaf_index::{
    CheckReport, Design, DesignInfo, IndexError, Progress, Reads, RootObject, Scans, TreeShape,
    Writes,
};
use everleaf_machine::Machine;

use super::Wort;
use super::leaf::{RECORD_SIZE, Records, VALUE_MAX};
use crate::node::radix::RadixTree;

/// First word of a root object: "EVLWORT1".
const TAG: u64 = u64::from_le_bytes(*b"EVLWORT1");
/// The root object's word that says on how many bits nodes branch.
const BITS_WORD: usize = 1;
/// The root object's first link: the root.
const ROOT_WORD: usize = 8;

impl<const BITS: u32, M: Machine> Wort<BITS, M> {
    fn assemble(session: &Session<M>, root_object: RootObject<M>) -> Self {
        let heap = session.heap().clone();
        Wort {
            tree: RadixTree::new(session, root_object, ROOT_WORD),
            records: Records::new(session),
            root_object,
            keys: Tally::new(0),
            nodes: Tally::new(0),
            is_writable: !heap.pool().is_read_only(),
            _heap: heap,
        }
    }

    /// Marks all nodes and records but the root object. Gives the number of keys. Nobody else is active.
    fn mark_below(&self, used: &Recovery<M>) -> Result<u64, AllocError> {
        let mut keys = 0;
        self.tree.mark(used, &mut |record| {
            used.mark_record(record, RECORD_SIZE)?;
            keys += 1;
            Ok(self.records.clean(record, self.is_writable))
        })?;
        Ok(keys)
    }

    /// Appends up to `limit` pairs, at least one.
    fn walk(&self, way: Way, from: u64, limit: usize, pairs: &mut Vec<(u64, u64)>) {
        let end = pairs.len().saturating_add(limit);
        self.tree.walk(way, from, &mut |record| {
            pairs.push((self.tree.key(record), self.records.read(record)));
            if pairs.len() < end { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
    }
}

impl<const BITS: u32, M: Machine> Operations for Wort<BITS, M> {
    type Machine = M;

    fn is_writable(&self) -> bool {
        self.is_writable
    }

    #[inline]
    fn read(&self, _session: &mut Session<M>, key: u64) -> Result<Option<u64>, IndexError> {
        Ok(self.tree.find(key).map(|record| self.records.read(record)))
    }

    #[inline]
    fn write(&self, session: &mut Session<M>, change: &Change) -> Result<Outcome, IndexError> {
        Ok(self.write(session, change)?)
    }

    #[inline(always)]
    fn count(&self, session: &Session<M>, growth: i64) {
        self.keys.add(session.stripe(), growth);
    }

    #[inline]
    fn read_pairs(
        &self,
        _session: &mut Session<M>,
        way: Way,
        from: u64,
        limit: usize,
        pairs: &mut Vec<(u64, u64)>,
    ) -> Result<(), IndexError> {
        self.walk(way, from, limit, pairs);
        Ok(())
    }

    fn len(&self, _session: &mut Session<M>) -> Result<u64, IndexError> {
        Ok(self.keys.sum())
    }

    /// Walks all nodes.
    fn shape(&self, session: &mut Session<M>) -> Result<TreeShape, IndexError> {
        let _pinned = session.pinned();
        let mut shape = TreeShape::default();
        shape.keys = self.keys.sum();
        shape.leaves = shape.keys;
        shape.height = self.tree.height() + 1;
        shape.splits = self.nodes.sum();
        Ok(shape)
    }

    fn check(
        &self,
        _session: &mut Session<M>,
        used: &Recovery<M>,
        report: &mut CheckReport,
    ) -> Result<(), IndexError> {
        self.root_object.mark(used)?;
        match self.mark_below(used) {
            Ok(keys) => {
                if keys != self.keys.sum() {
                    let counted = self.keys.sum();
                    report.problems.push(format!("{keys} keys are there, {counted} are counted"));
                }
                report.keys += keys;
                report.leaves += keys;
            }
            Err(error) => report.problems.push(error.to_string()),
        }
        Ok(())
    }

    fn free_all(&self, session: &mut Session<M>) {
        self.tree.free_nodes(session, &mut |session, record| {
            session.free_record(record, RECORD_SIZE);
        });
        self.root_object.free(session);
    }
}

impl<const BITS: u32, M: Machine> Design<M> for Wort<BITS, M> {
    const INFO: DesignInfo = DesignInfo {
        name: if BITS == 4 { "wort" } else { "wort-small" },
        kind: if BITS == 4 { 0x70 } else { 0x71 },
        keys: 0..=u64::MAX,
        values: 0..=VALUE_MAX,
        progress: Progress::LockFreeReads,
        reads: Reads::Committed,
        writes: Writes::Conditional,
        scans: Scans::BothWays,
    };

    fn create(session: &mut Session<M>) -> Result<Self, IndexError> {
        let root_object = RootObject::create(session, TAG)?;
        root_object.word(BITS_WORD).write_private(u64::from(BITS));
        // Persist: the root object before the directory names the tree.
        session.medium().persist(root_object.word(0).as_ptr(), 16);
        Ok(Self::assemble(session, root_object))
    }

    fn recover(
        session: &mut Session<M>,
        recovery: &Recovery<M>,
        root: u32,
        _threads: usize,
    ) -> Result<Self, IndexError> {
        let root_object = RootObject::open(session.heap(), recovery, root, TAG)?;
        let found = root_object.word(BITS_WORD).read_private();
        if found != u64::from(BITS) {
            let what = format!("a tree branches on {found} bits instead of {BITS}");
            return Err(AllocError::Corrupt { offset: 0, what }.into());
        }
        let tree = Self::assemble(session, root_object);
        let keys = tree.mark_below(recovery)?;
        tree.keys.add(0, keys as i64);
        Ok(tree)
    }

    fn root_value(&self) -> u32 {
        self.root_object.root_value()
    }

    fn mark(&self, _session: &mut Session<M>, used: &Recovery<M>) -> Result<(), AllocError> {
        self.root_object.mark(used)?;
        self.mark_below(used)?;
        Ok(())
    }
}
