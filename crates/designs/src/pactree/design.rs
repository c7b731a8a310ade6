//! The tree as one of the designs: limits, sessions, and what is common to all calls.

use everleaf_alloc::{AllocError, Recovery, Session};
use everleaf_index::build::{Change, Operations, Outcome, Way};
use everleaf_index::{
    CheckReport, Design, DesignInfo, IndexError, Progress, Reads, Scans, TreeShape, Writes,
};
use everleaf_machine::Machine;

use super::PacTree;
use super::layout::HIGH_MAX;
use super::log::Log;
use super::variant::Variant;

impl<V: Variant, const BITS: u32, M: Machine> Operations for PacTree<V, BITS, M> {
    type Machine = M;

    fn is_writable(&self) -> bool {
        self.is_writable
    }

    #[inline]
    fn read(&self, _session: &mut Session<M>, key: u64) -> Result<Option<u64>, IndexError> {
        Ok(self.read(key))
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
        match way {
            Way::Up => self.scan_forward(from, limit, pairs),
            Way::Down => self.scan_backward(from, limit, pairs),
        }
        Ok(())
    }

    fn len(&self, _session: &mut Session<M>) -> Result<u64, IndexError> {
        Ok(self.keys.sum())
    }

    /// Walks the nodes of the search layer.
    fn shape(&self, session: &mut Session<M>) -> Result<TreeShape, IndexError> {
        let _pinned = session.pinned();
        let mut shape = TreeShape::default();
        shape.keys = self.keys.sum();
        shape.leaves = self.nodes.sum();
        shape.height = self.search.height() + 1;
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
        self.free_everything(session);
    }
}

impl<V: Variant, const BITS: u32, M: Machine> PacTree<V, BITS, M> {
    /// Marks the root object, the log, and what it alone keeps.
    pub(super) fn mark_parts(&self, used: &Recovery<M>) -> Result<(), AllocError> {
        self.root_object.mark(used)?;
        used.mark_record(self.log.offset(), Log::<M>::size(V::LOG_LENGTH))?;
        self.mark_merged(used)
    }
}

impl<V: Variant, const BITS: u32, M: Machine> Design<M> for PacTree<V, BITS, M> {
    const INFO: DesignInfo = DesignInfo {
        name: V::NAME,
        kind: V::KIND,
        keys: 0..=HIGH_MAX - 1,
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
        self.root_object.root_value()
    }

    fn mark(&self, _session: &mut Session<M>, used: &Recovery<M>) -> Result<(), AllocError> {
        self.mark_parts(used)?;
        self.walk(used, &mut |_| {})?;
        self.mark_search(used, &mut |_, _| {})
    }
}
