//! The list as one of the designs: limits, sessions, and what is common to all calls.

use everleaf_alloc::{AllocError, Recovery, Session};
use everleaf_index::build::{Change, Intent, Outcome};
use everleaf_index::{
    CheckReport, Design, DesignInfo, IndexError, OrderedIndex, Progress, Reads, Scans, TreeShape,
    Writes,
};
use everleaf_machine::Machine;

use super::PSkiplist;
use super::layout::VALUE_MAX;
use super::variant::Variant;

impl<V: Variant, M: Machine> OrderedIndex<M> for PSkiplist<V, M> {
    fn info(&self) -> DesignInfo {
        <Self as Design<M>>::INFO
    }

    #[inline]
    fn get(&self, session: &mut Session<M>, key: u64) -> Result<Option<u64>, IndexError> {
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
        if !intent.removes() {
            <Self as Design<M>>::INFO.check_value(value)?;
        }
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
        shape.height = (0..V::LEVEL_COUNT)
            .take_while(|level| *level == 0 || self.load(self.head, *level).node() != 0)
            .count() as u64;
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

impl<V: Variant, M: Machine> Design<M> for PSkiplist<V, M> {
    const INFO: DesignInfo = DesignInfo {
        name: V::NAME,
        kind: V::KIND,
        keys: 0..=u64::MAX,
        values: 0..=VALUE_MAX,
        progress: Progress::LockFreeReads,
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
        self.walk(used, true, &mut |_| true)
    }
}
