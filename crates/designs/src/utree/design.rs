//! The tree as one of the designs: limits, sessions, and what is common to all calls.

use everleaf_alloc::{AllocError, Recovery, Session};
use everleaf_index::build::{Change, Intent, Outcome};
use everleaf_index::{
    CheckReport, Design, DesignInfo, Geometry, IndexError, OrderedIndex, Progress, Reads, Scans,
    TreeShape, Writes,
};
use everleaf_machine::Machine;

use super::UTree;
use super::layout::HEAD_KEY;

impl<G: Geometry, M: Machine> OrderedIndex<M> for UTree<G, M> {
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

    fn scan(
        &self,
        session: &mut Session<M>,
        from: u64,
        limit: usize,
        pairs: &mut Vec<(u64, u64)>,
    ) -> Result<(), IndexError> {
        let _pinned = session.pinned();
        self.scan_forward(from, limit, pairs);
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
        self.scan_backward(from, limit, pairs);
        Ok(())
    }

    fn len(&self, _session: &mut Session<M>) -> Result<u64, IndexError> {
        Ok(self.keys.sum())
    }

    fn shape(&self, _session: &mut Session<M>) -> Result<TreeShape, IndexError> {
        let mut shape = TreeShape::default();
        shape.keys = self.keys.sum();
        shape.leaves = shape.keys;
        shape.height = self.inner.height() + 1;
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
        self.free_everything(session);
    }
}

impl<G: Geometry, M: Machine> Design<M> for UTree<G, M> {
    const INFO: DesignInfo = DesignInfo {
        name: "utree",
        kind: 0x74,
        keys: HEAD_KEY + 1..=u64::MAX,
        values: 0..=u64::MAX,
        progress: Progress::Blocking,
        reads: Reads::Committed,
        writes: Writes::Conditional,
        scans: Scans::BothWays,
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
        self.anchor.mark(used)?;
        self.walk(used, &mut |_, _| {})
    }
}
