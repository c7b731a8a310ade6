//! The operations that every design has, as the other layers call them.

use everleaf_alloc::{AllocError, Recovery, Session};
use everleaf_index::build::{Change, Intent, Outcome};
use everleaf_index::{
    CheckReport, Design, DesignInfo, Geometry, IndexError, OrderedIndex, TreeShape, Writes,
};
use everleaf_machine::Machine;

use super::Hybrid;
use super::leaf::LeafDesign;

impl<D: LeafDesign<M>, G: Geometry, M: Machine> Hybrid<D, G, M> {
    /// Whether writes do not look, so that keys cannot be counted as they come and go.
    pub(super) const IS_BLIND: bool = matches!(D::INFO.writes, Writes::Blind);
}

impl<D: LeafDesign<M>, G: Geometry, M: Machine> OrderedIndex<M> for Hybrid<D, G, M> {
    fn info(&self) -> DesignInfo {
        D::INFO
    }

    #[inline]
    fn get(&self, session: &mut Session<M>, key: u64) -> Result<Option<u64>, IndexError> {
        D::INFO.check_key(key)?;
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
        if !self.frame.is_writable {
            return Err(IndexError::ReadOnly);
        }
        D::INFO.check_key(key)?;
        if !intent.removes() {
            D::INFO.check_value(value)?;
        }
        let mut session = session.pinned();
        let outcome = D::write(self, &mut session, &Change { key, intent, value })?;
        match outcome {
            // Nobody knows whether the key was there.
            _ if Self::IS_BLIND => {}
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
        // The first leaf, the images and the anchor.
        Self::free_parts(session, self.anchor);
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
        self.anchor.root_value()
    }

    fn mark(&self, _session: &mut Session<M>, used: &Recovery<M>) -> Result<(), AllocError> {
        self.mark_all(used)
    }
}
