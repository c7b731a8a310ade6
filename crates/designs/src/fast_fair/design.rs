//! The tree as one of the designs: limits, sessions, and what is common to all calls.

use everleaf_alloc::{AllocError, Recovery, Session};
use everleaf_index::build::{Change, Operations, Outcome, Way};
use everleaf_index::{
    CheckReport, Design, DesignInfo, IndexError, Progress, Reads, Scans, TreeShape, Writes,
};
use everleaf_machine::Machine;

use super::FastFair;
use super::layout::VALUE_MAX;
use super::variant::Variant;
use crate::node::fast_node::NONCE_BITS;

impl<V: Variant, M: Machine> Operations for FastFair<V, M> {
    type Machine = M;

    fn is_writable(&self) -> bool {
        !self.heap.pool().is_read_only()
    }

    #[inline]
    fn read(&self, _session: &mut Session<M>, key: u64) -> Result<Option<u64>, IndexError> {
        Ok(self.get_word(key)?.map(|word| word >> NONCE_BITS))
    }

    #[inline]
    fn write(&self, session: &mut Session<M>, change: &Change) -> Result<Outcome, IndexError> {
        Ok(self.write(session, change)?)
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
            Way::Up => {
                // A short scan allocates once; a long one grows as it goes.
                pairs.reserve(limit.min(256) + V::NODE_SIZE / 16);
                self.scan_forward(from, limit, pairs)?;
            }
            Way::Down => self.scan_backward(from, limit, pairs)?,
        }
        Ok(())
    }

    fn persist_deferred(&self, session: &mut Session<M>) -> Result<(), IndexError> {
        if V::BUFFERED && !V::LOGGED {
            self.flush_buffers(session)?;
        }
        Ok(())
    }

    /// Counts: the tree keeps no number of its keys, which a crash could make wrong.
    fn len(&self, session: &mut Session<M>) -> Result<u64, IndexError> {
        Ok(self.shape(session)?.keys)
    }

    /// Walks all leaves.
    fn shape(&self, session: &mut Session<M>) -> Result<TreeShape, IndexError> {
        let _session = session.pinned();
        Ok(self.count_leaves()?)
    }

    fn check(
        &self,
        session: &mut Session<M>,
        used: &Recovery<M>,
        report: &mut CheckReport,
    ) -> Result<(), IndexError> {
        let _session = session.pinned();
        Ok(self.check_nodes(used, report)?)
    }

    fn free_all(&self, session: &mut Session<M>) {
        self.free_nodes(session);
    }
}

impl<V: Variant, M: Machine> Design<M> for FastFair<V, M> {
    const INFO: DesignInfo = DesignInfo {
        name: V::NAME,
        kind: V::KIND,
        keys: 0..=u64::MAX,
        values: 0..=VALUE_MAX,
        progress: if V::LEAF_LOCKS || V::BINARY {
            Progress::Blocking
        } else {
            Progress::LockFreeReads
        },
        reads: if V::BUFFERED && !V::LOGGED {
            Reads::Deferred
        } else if V::LEAF_LOCKS {
            Reads::Committed
        } else {
            Reads::Uncommitted
        },
        writes: Writes::Conditional,
        scans: if V::LOW_FENCE { Scans::BothWays } else { Scans::Upwards },
    };

    const CAVEAT: Option<&'static str> = if V::BUFFERED && !V::LOGGED {
        Some(
            "what was written last is lost when the process or the machine stops before the pool is closed",
        )
    } else {
        None
    };

    const MARKS_LATER: bool = !(V::BUFFERED || V::CACHED);

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
        self.mark_nodes(used)
    }
}
