//! The index as one of the designs: limits, sessions, and what is common to all calls.

use everleaf_alloc::{AllocError, Recovery, Session};
use everleaf_index::build::{Change, Operations, Outcome};
use everleaf_index::{
    CheckReport, Design, DesignInfo, IndexError, Progress, Reads, Scans, TreeShape, Writes,
};
use everleaf_machine::Machine;

use super::Cceh;
use super::directory_word::Directory;
use super::layout::{NO_KEY, Segment};
use super::variant::Variant;

impl<V: Variant, M: Machine> Operations for Cceh<V, M> {
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

    fn persist_deferred(&self, session: &mut Session<M>) -> Result<(), IndexError> {
        if V::BUFFERED && !V::LOGGED {
            self.flush_buffers(session)?;
        }
        Ok(())
    }

    /// Counts: O(n).
    fn len(&self, session: &mut Session<M>) -> Result<u64, IndexError> {
        let _pinned = session.pinned();
        Ok(self.count().0)
    }

    fn shape(&self, session: &mut Session<M>) -> Result<TreeShape, IndexError> {
        let _pinned = session.pinned();
        let mut shape = TreeShape::default();
        (shape.keys, shape.leaves) = self.count();
        // The directory, and the segments.
        shape.height = 2;
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

impl<V: Variant, M: Machine> Design<M> for Cceh<V, M> {
    const INFO: DesignInfo = DesignInfo {
        name: V::NAME,
        kind: V::KIND,
        keys: NO_KEY + 1..=u64::MAX,
        values: 0..=u64::MAX,
        progress: Progress::Blocking,
        reads: if V::BUFFERED && !V::LOGGED { Reads::Deferred } else { Reads::Committed },
        writes: Writes::Conditional,
        scans: Scans::Never,
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
        let directory = self.directory();
        used.mark_record(directory.offset, Directory::size(directory.depth))?;
        self.strides()
            .try_for_each(|stride| used.mark_record(stride?.segment, Segment::<V, M>::SIZE))
    }
}
