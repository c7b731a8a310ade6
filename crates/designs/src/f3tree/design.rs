//! The tree as one of the designs: limits, sessions, and what is common to all calls.

use everleaf_alloc::{AllocError, Recovery, Session};
use everleaf_index::build::{Change, Operations, Outcome, Way};
use everleaf_index::{
    CheckReport, Design, DesignInfo, IndexError, Progress, Reads, TreeShape, Writes,
};
use everleaf_machine::Machine;

use super::F3Tree;
use super::variant::Variant;
use crate::fast_fair::FastFair;

impl<V: Variant, M: Machine> Operations for F3Tree<V, M> {
    type Machine = M;
    const PINS_ITSELF: bool = true;

    fn is_writable(&self) -> bool {
        !self.heap.pool().is_read_only()
    }

    #[inline]
    fn read(&self, session: &mut Session<M>, key: u64) -> Result<Option<u64>, IndexError> {
        self.find(session, key)
    }

    #[inline]
    fn write(&self, session: &mut Session<M>, change: &Change) -> Result<Outcome, IndexError> {
        self.write(session, change)
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
        self.scan_pages(session, way, from, limit, pairs)
    }

    /// Counts: the tree keeps no number of its keys.
    fn len(&self, session: &mut Session<M>) -> Result<u64, IndexError> {
        Ok(self.count(session)?.keys)
    }

    /// Walks all leaves of the global tree.
    fn shape(&self, session: &mut Session<M>) -> Result<TreeShape, IndexError> {
        self.count(session)
    }

    fn check(
        &self,
        session: &mut Session<M>,
        used: &Recovery<M>,
        report: &mut CheckReport,
    ) -> Result<(), IndexError> {
        self.check_all(session, used, report)
    }

    fn free_all(&self, session: &mut Session<M>) {
        self.free_everything(session);
    }
}

impl<V: Variant, M: Machine> Design<M> for F3Tree<V, M> {
    const INFO: DesignInfo = DesignInfo {
        name: V::NAME,
        kind: V::KIND,
        progress: Progress::Blocking,
        reads: Reads::Committed,
        writes: if V::BLIND { Writes::Blind } else { Writes::Conditional },
        ..<FastFair<V::Global, M> as Design<M>>::INFO
    };

    const MARKS_LATER: bool = true;

    fn create(session: &mut Session<M>) -> Result<Self, IndexError> {
        Self::create_in(session)
    }

    fn recover(
        session: &mut Session<M>,
        recovery: &Recovery<M>,
        root: u32,
        threads: usize,
    ) -> Result<Self, IndexError> {
        Self::open_in(session, recovery, root, threads)
    }

    fn root_value(&self) -> u32 {
        self.root_object.root_value()
    }

    fn mark(&self, session: &mut Session<M>, used: &Recovery<M>) -> Result<(), AllocError> {
        self.global.mark(session, used)
    }
}
