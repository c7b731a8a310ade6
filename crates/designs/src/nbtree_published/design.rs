//! The tree as one of the designs: limits, sessions, and what is common to all calls.

use everleaf_alloc::{Recovery, Session};
use everleaf_index::build::{Change, Operations, Outcome, Way};
use everleaf_index::{
    CheckReport, Design, DesignInfo, Geometry, IndexError, Progress, Reads, Scans, TreeShape,
    Writes,
};
use everleaf_machine::Machine;

use super::NbPublished;
use super::state::VALUE_MAX;
use super::variant::Variant;

/// The largest key: 0 stands for no key, and the last number for none in inner nodes.
const KEY_MAX: u64 = u64::MAX - 1;

impl<V: Variant, G: Geometry, M: Machine> Operations for NbPublished<V, G, M> {
    type Machine = M;

    fn is_writable(&self) -> bool {
        self.is_writable
    }

    #[inline]
    fn read(&self, session: &mut Session<M>, key: u64) -> Result<Option<u64>, IndexError> {
        Ok(self.get(session, key))
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
        Ok(())
    }

    fn len(&self, _session: &mut Session<M>) -> Result<u64, IndexError> {
        Ok(self.keys.sum())
    }

    fn shape(&self, _session: &mut Session<M>) -> Result<TreeShape, IndexError> {
        let mut shape = TreeShape::default();
        shape.keys = self.keys.sum();
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
        Ok(self.check_all(used, report)?)
    }

    fn free_all(&self, session: &mut Session<M>) {
        self.free_everything(session);
    }
}

impl<V: Variant, G: Geometry, M: Machine> Design<M> for NbPublished<V, G, M> {
    const INFO: DesignInfo = DesignInfo {
        name: V::NAME,
        kind: V::KIND,
        keys: 1..=KEY_MAX,
        values: 0..=VALUE_MAX,
        progress: match (V::WRITERS_LOCK, V::READERS_LOCK) {
            (false, _) => Progress::LockFree,
            (true, false) => Progress::LockFreeReads,
            (true, true) => Progress::Blocking,
        },
        reads: if V::READERS_LOCK { Reads::Committed } else { Reads::Uncommitted },
        writes: Writes::Conditional,
        scans: Scans::BothWays,
    };

    const CAVEAT: Option<&'static str> = match V::WRITERS_LOCK {
        true => None,
        false => Some(
            "as published, its protocol loses writes when several threads use it: let one thread at \
             a time, or choose nbtree",
        ),
    };

    fn create(session: &mut Session<M>) -> Result<Self, IndexError> {
        Ok(match V::ALLOCATOR {
            Some((allocator, leaves)) => Self::create_on(session, allocator, leaves)?,
            None => Self::create_empty(session)?,
        })
    }

    fn recover(
        session: &mut Session<M>,
        recovery: &Recovery<M>,
        root: u32,
        _threads: usize,
    ) -> Result<Self, IndexError> {
        Ok(Self::open(session, recovery, root)?)
    }

    fn root_value(&self) -> u32 {
        self.root_object.root_value()
    }
}
