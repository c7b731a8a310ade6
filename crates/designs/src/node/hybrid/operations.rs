//! The operations that every design has, as the other layers call them.

use everleaf_alloc::{AllocError, Recovery, Session};
use everleaf_index::build::{Change, Operations, Outcome, Way};
use everleaf_index::{CheckReport, Design, DesignInfo, Geometry, IndexError, TreeShape, Writes};
use everleaf_machine::Machine;

use super::Hybrid;
use super::leaf::LeafDesign;

impl<D: LeafDesign<M>, G: Geometry, M: Machine> Hybrid<D, G, M> {
    /// Whether writes do not look, so that keys cannot be counted as they come and go.
    pub(super) const IS_BLIND: bool = matches!(D::INFO.writes, Writes::Blind);
}

impl<D: LeafDesign<M>, G: Geometry, M: Machine> Operations for Hybrid<D, G, M> {
    type Machine = M;

    fn is_writable(&self) -> bool {
        self.context.is_writable
    }

    #[inline]
    fn read(&self, _session: &mut Session<M>, key: u64) -> Result<Option<u64>, IndexError> {
        Ok(self.read(key))
    }

    #[inline]
    fn write(&self, session: &mut Session<M>, change: &Change) -> Result<Outcome, IndexError> {
        D::write(self, session, change)
    }

    #[inline(always)]
    fn count(&self, session: &Session<M>, growth: i64) {
        // Nobody knows whether the key of a blind write was there.
        if !Self::IS_BLIND {
            self.keys.add(session.stripe(), growth);
        }
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

    fn len(&self, session: &mut Session<M>) -> Result<u64, IndexError> {
        if !Self::IS_BLIND {
            return Ok(self.keys.sum());
        }
        let _pinned = session.pinned();
        Ok(self.count_keys())
    }

    fn shape(&self, session: &mut Session<M>) -> Result<TreeShape, IndexError> {
        let mut shape = TreeShape::default();
        shape.keys = self.len(session)?;
        shape.leaves = self.leaves.sum();
        shape.height = self.inner.height() + 1;
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
        let mut offset = D::header(self.leaf(self.first_leaf())).next();
        while offset != 0 {
            let next = D::header(self.leaf(offset)).next();
            session.free_record(offset, Self::LEAF_SIZE);
            offset = next;
        }
        self.inner.free(session);
        // The first leaf, the images and the root object.
        Self::free_parts(session, self.root_object);
    }
}

impl<D: LeafDesign<M>, G: Geometry, M: Machine> Design<M> for Hybrid<D, G, M> {
    const INFO: DesignInfo = D::INFO;

    fn create(session: &mut Session<M>) -> Result<Self, IndexError> {
        Self::create_empty(session)
    }

    fn recover(
        session: &mut Session<M>,
        recovery: &Recovery<M>,
        root: u32,
        _threads: usize,
    ) -> Result<Self, IndexError> {
        Self::open(session, recovery, root)
    }

    fn root_value(&self) -> u32 {
        self.root_object.root_value()
    }

    fn mark(&self, _session: &mut Session<M>, used: &Recovery<M>) -> Result<(), AllocError> {
        self.mark_all(used)
    }
}
