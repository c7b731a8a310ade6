//! The tree as one of the designs: limits, sessions, and what is common to all calls.

use everleaf_alloc::{Recovery, Session};
use everleaf_index::build::{Change, Operations, Outcome, Tally, Way};
use everleaf_index::{
    CheckReport, Design, DesignInfo, IndexError, Progress, Reads, Scans, TreeShape, Writes,
};
use everleaf_machine::{AtomicPointer, Machine};

use super::Masstree;
use super::layout::Border;

impl<const WIDTH: usize, M: Machine> Operations for Masstree<WIDTH, M> {
    type Machine = M;

    fn is_writable(&self) -> bool {
        true
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
            Way::Up => self.scan_up(from, limit, pairs),
            Way::Down => self.scan_down(from, limit, pairs),
        }
        Ok(())
    }

    fn len(&self, _session: &mut Session<M>) -> Result<u64, IndexError> {
        Ok(self.keys.sum())
    }

    /// Walks all nodes; counts are exact when no writer is active.
    fn shape(&self, session: &mut Session<M>) -> Result<TreeShape, IndexError> {
        let _pinned = session.pinned();
        let mut shape = TreeShape::default();
        shape.keys = self.keys.sum();
        (shape.leaves, shape.height) = self.count_nodes();
        shape.splits = self.splits.sum();
        shape.merges = self.merges.sum();
        Ok(shape)
    }

    fn check(
        &self,
        _session: &mut Session<M>,
        _used: &Recovery<M>,
        report: &mut CheckReport,
    ) -> Result<(), IndexError> {
        self.check_all(report);
        Ok(())
    }

    fn free_all(&self, session: &mut Session<M>) {
        self.free_nodes(session, self.root());
    }
}

impl<const WIDTH: usize, M: Machine> Design<M> for Masstree<WIDTH, M> {
    const INFO: DesignInfo = DesignInfo {
        name: "masstree",
        kind: 0x7A,
        keys: 0..=u64::MAX,
        values: 0..=u64::MAX,
        progress: Progress::Blocking,
        reads: Reads::Volatile,
        writes: Writes::Conditional,
        scans: Scans::BothWays,
    };

    fn create(session: &mut Session<M>) -> Result<Self, IndexError> {
        const { assert!(WIDTH >= 2 && WIDTH <= super::permutation::SLOT_COUNT) };
        let root: *mut Border<M> = Border::make(session, (0, true), &[])?;
        let tree = Masstree {
            root: AtomicPointer::new(root.cast()),
            keys: Tally::new(0),
            splits: Tally::new(0),
            merges: Tally::new(0),
            _heap: session.heap().clone(),
        };
        tree.border(root.cast()).header.version.unlock();
        Ok(tree)
    }

    /// Refused: nothing is left to be found.
    fn recover(
        _session: &mut Session<M>,
        _recovery: &Recovery<M>,
        _root: u32,
        _threads: usize,
    ) -> Result<Self, IndexError> {
        Err(IndexError::Volatile(<Self as Design<M>>::INFO.name))
    }

    /// Nothing of it is in the pool.
    fn root_value(&self) -> u32 {
        0
    }
}
