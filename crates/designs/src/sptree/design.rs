//! The tree as one of the designs: limits, sessions, and what is common to all calls.

use everleaf_alloc::{AllocError, Recovery, Session};
use everleaf_index::build::{Change, Intent, Outcome};
use everleaf_index::{
    CheckReport, Design, DesignInfo, Geometry, IndexError, OrderedIndex, Progress, Reads, Scans,
    TreeShape, Writes,
};
use everleaf_machine::Machine;

use super::Tree;
use super::layout::{HEAD_WORD, HIGH_MAX, LEAF_SIZE};
use super::variant::Variant;

impl<V: Variant, G: Geometry, M: Machine> OrderedIndex<M> for Tree<V, G, M> {
    fn info(&self) -> DesignInfo {
        <Self as Design<M>>::INFO
    }

    #[inline]
    fn get(&self, session: &mut Session<M>, key: u64) -> Result<Option<u64>, IndexError> {
        <Self as Design<M>>::INFO.check_key(key)?;
        let _pinned = session.pinned();
        Ok(self.read(key))
    }

    #[inline]
    fn change(
        &self,
        session: &mut Session<M>,
        key: u64,
        intent: Intent,
        value: u64,
    ) -> Result<Outcome, IndexError> {
        if !self.is_writable {
            return Err(IndexError::ReadOnly);
        }
        <Self as Design<M>>::INFO.check_key(key)?;
        let mut session = session.pinned();
        let outcome = self.write(&mut session, &Change { key, intent, value })?;
        match outcome {
            Outcome { changed: true, old: None } => self.keys.add(session.stripe(), 1),
            Outcome { changed: true, .. } if intent.removes() => {
                self.keys.add(session.stripe(), -1);
            }
            _ => {}
        }
        Ok(outcome)
    }

    #[inline]
    fn scan(
        &self,
        session: &mut Session<M>,
        from: u64,
        limit: usize,
        pairs: &mut Vec<(u64, u64)>,
    ) -> Result<(), IndexError> {
        let _pinned = session.pinned();
        if from < HIGH_MAX {
            self.scan_forward(from, limit, pairs);
        }
        Ok(())
    }

    fn scan_back(
        &self,
        session: &mut Session<M>,
        from: u64,
        limit: usize,
        pairs: &mut Vec<(u64, u64)>,
    ) -> Result<(), IndexError> {
        let _pinned = session.pinned();
        self.scan_backward(from.min(HIGH_MAX - 1), limit, pairs);
        Ok(())
    }

    fn len(&self, session: &mut Session<M>) -> Result<u64, IndexError> {
        let _pinned = session.pinned();
        self.restore_all();
        Ok(self.keys.sum())
    }

    fn settle(&self, session: &mut Session<M>) -> Result<(), IndexError> {
        if !V::BUFFERED || V::LOGGED || !self.is_writable {
            return Ok(());
        }
        self.settle_all(session)
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
        _session: &mut Session<M>,
        used: &Recovery<M>,
        report: &mut CheckReport,
    ) -> Result<(), IndexError> {
        self.check_all(used, report);
        Ok(())
    }

    fn free_all(&self, session: &mut Session<M>) {
        let mut offset = self.anchor.word(HEAD_WORD).read_private();
        while offset != 0 {
            let next = self.leaf(offset).heading().next;
            session.free_record(offset, LEAF_SIZE);
            offset = next;
        }
        if V::BUFFERED {
            let mut chunks = vec![];
            let all: Result<(), AllocError> = self.logs.for_each_chunk(|_, chunk| {
                chunks.push(chunk);
                Ok(())
            });
            debug_assert!(all.is_ok());
            for chunk in chunks {
                session.free_record(chunk, Self::LOGS.chunk_size());
            }
        }
        self.free_volatile(session);
        self.anchor.free(session);
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

    fn recover(
        session: &mut Session<M>,
        recovery: &Recovery<M>,
        root: u32,
        _threads: usize,
    ) -> Result<Self, IndexError> {
        Self::open_in(session, recovery, root)
    }

    fn root_value(&self) -> u32 {
        self.anchor.root_value()
    }

    fn mark(&self, _session: &mut Session<M>, used: &Recovery<M>) -> Result<(), AllocError> {
        self.mark_all(used)
    }
}
