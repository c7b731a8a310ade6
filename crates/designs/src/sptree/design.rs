//! The tree as one of the designs: limits, sessions, and what is common to all calls.

use everleaf_alloc::{AllocError, Recovery, Session};
use everleaf_index::build::{Change, Operations, Outcome, Way};
use everleaf_index::{
    CheckReport, Design, DesignInfo, Geometry, IndexError, Progress, Reads, Scans, TreeShape,
    Writes,
};
use everleaf_machine::Machine;

use super::Tree;
use super::layout::{HEAD_WORD, HIGH_MAX, LEAF_SIZE};
use super::top::TopIndex;
use super::variant::Variant;

impl<V: Variant, G: Geometry, M: Machine> Operations for Tree<V, G, M> {
    type Machine = M;

    fn is_writable(&self) -> bool {
        self.is_writable
    }

    #[inline]
    fn read(&self, session: &mut Session<M>, key: u64) -> Result<Option<u64>, IndexError> {
        self.read(session, key)
    }

    #[inline]
    fn write(&self, session: &mut Session<M>, change: &Change) -> Result<Outcome, IndexError> {
        self.write(session, change)
    }

    #[inline(always)]
    fn count(&self, session: &Session<M>, growth: i64) {
        self.keys.add(session.stripe(), growth);
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
        match way {
            Way::Up => self.scan_forward(session, from, limit, pairs),
            Way::Down => self.scan_backward(session, from, limit, pairs),
        }
    }

    fn len(&self, session: &mut Session<M>) -> Result<u64, IndexError> {
        self.restore_all(&mut session.pinned())?;
        Ok(self.keys.sum())
    }

    fn persist_deferred(&self, session: &mut Session<M>) -> Result<(), IndexError> {
        if V::BUFFERED && !V::LOGGED { self.flush_buffers(session) } else { Ok(()) }
    }

    fn unrestored(&self) -> u64 {
        Tree::unrestored(self)
    }

    fn restore_next(
        &self,
        session: &mut Session<M>,
        from: u64,
        leaves: usize,
        damaged: &mut Vec<IndexError>,
    ) -> Result<Option<u64>, IndexError> {
        Tree::restore_next(self, session, from, leaves, damaged)
    }

    fn shape(&self, session: &mut Session<M>) -> Result<TreeShape, IndexError> {
        let mut shape = TreeShape::default();
        shape.keys = self.len(session)?;
        shape.leaves = self.leaves.sum();
        shape.height = self.top.height() + 1;
        shape.splits = self.splits.sum();
        Ok(shape)
    }

    fn check(
        &self,
        session: &mut Session<M>,
        used: &Recovery<M>,
        report: &mut CheckReport,
    ) -> Result<(), IndexError> {
        self.check_all(session, used, report);
        Ok(())
    }

    fn free_all(&self, session: &mut Session<M>) {
        let mut offset = self.root_object.word(HEAD_WORD).read_private();
        // Behind damage nothing can be told of the leaves: then they are left where they are.
        if self.know_all(session).is_err() {
            offset = 0;
        }
        while offset != 0 {
            let next = self.leaf(offset).heading().next;
            session.free_record(offset, LEAF_SIZE);
            offset = next;
        }
        if V::BUFFERED {
            for chunk in self.logs.chunks() {
                session.free_record(chunk, self.logs.shape().chunk_size());
            }
            let mut blocks = vec![];
            let all: Result<(), AllocError> = self.areas.for_each_block(|block, size| {
                blocks.push((block, size));
                Ok(())
            });
            debug_assert!(all.is_ok());
            for (block, size) in blocks {
                session.free_record(block, size);
            }
        }
        self.free_volatile(session);
        self.root_object.free(session);
    }
}

impl<V: Variant, G: Geometry, M: Machine> Design<M> for Tree<V, G, M> {
    const INFO: DesignInfo = DesignInfo {
        name: V::NAME,
        kind: V::KIND,
        keys: 0..=HIGH_MAX - 1,
        values: 0..=u64::MAX,
        progress: Progress::Blocking,
        reads: if V::BUFFERED && !V::LOGGED { Reads::Deferred } else { Reads::Committed },
        writes: Writes::Conditional,
        scans: Scans::BothWays,
    };

    const CAVEAT: Option<&'static str> = if V::BUFFERED && !V::LOGGED {
        Some(
            "what was written last is lost when the process or the machine stops before the pool is closed",
        )
    } else {
        None
    };

    fn create(session: &mut Session<M>) -> Result<Self, IndexError> {
        Self::create_in(session)
    }

    /// On one thread, whatever `threads` is. The list of leaves is followed by its links, and nothing else tells which
    /// leaves are in it: what looks like one in the pool may be the dummy of a split, or merged away. What threads
    /// could bring is told in `docs/trees/sptree.md`, "What is open".
    fn recover(
        session: &mut Session<M>,
        recovery: &Recovery<M>,
        root: u32,
        _threads: usize,
    ) -> Result<Self, IndexError> {
        Self::open_in(session, recovery, root, false)
    }

    /// In the variant with checkpoints, if the last one leads to the leaves: they are made known when they are touched.
    /// Else as [`Self::recover`], on one thread.
    fn recover_at_once(
        session: &mut Session<M>,
        recovery: &Recovery<M>,
        root: u32,
        _threads: usize,
    ) -> Result<Self, IndexError> {
        Self::open_in(session, recovery, root, true)
    }

    fn root_value(&self) -> u32 {
        self.root_object.root_value()
    }

    const MARKS_LATER: bool = V::CHECKPOINTED;

    /// Opening that walks the list has marked everything.
    fn has_marked(&self) -> bool {
        !self.opened_at_once
    }

    /// What was opened at once is marked by nobody.
    fn mark(&self, _session: &mut Session<M>, _used: &Recovery<M>) -> Result<(), AllocError> {
        Ok(())
    }
}
