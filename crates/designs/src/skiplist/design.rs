//! The list as one of the designs: limits, sessions, and what is common to all calls.

use everleaf_alloc::{AllocError, Recovery, Session};
use everleaf_index::build::{Change, Operations, Outcome, Way};
use everleaf_index::{
    CheckReport, Design, DesignInfo, IndexError, Progress, Reads, Scans, TreeShape, Writes,
};
use everleaf_machine::Machine;

use super::PSkiplist;
use super::layout::VALUE_MAX;
use super::variant::Variant;

impl<V: Variant, M: Machine> Operations for PSkiplist<V, M> {
    type Machine = M;

    fn is_writable(&self) -> bool {
        self.is_writable
    }

    #[inline]
    fn read(&self, _session: &mut Session<M>, key: u64) -> Result<Option<u64>, IndexError> {
        Ok(if V::BUFFERED { self.read_buffered(key) } else { self.read(key) })
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

    fn persist_deferred(&self, session: &mut Session<M>) -> Result<(), IndexError> {
        if V::BUFFERED && !V::LOGGED {
            self.flush_buffers(session)?;
        }
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
        progress: if V::BUFFERED { Progress::Blocking } else { Progress::LockFreeReads },
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
        self.root_object.root_value()
    }

    fn mark(&self, _session: &mut Session<M>, used: &Recovery<M>) -> Result<(), AllocError> {
        self.root_object.mark(used)?;
        self.mark_logs(used)?;
        self.walk(used, true, &mut |_| true)
    }
}
