//! The tree as one of the designs: limits, sessions, and what is common to all calls.

use everleaf_alloc::{AllocError, Recovery, Session};
use everleaf_index::build::{Change, Operations, Outcome, Way};
use everleaf_index::{
    CheckReport, Design, DesignInfo, IndexError, Progress, Reads, Scans, TreeShape, Writes,
};
use everleaf_machine::Machine;

use super::BzTree;
use super::recover::Walk;
use super::variant::Variant;
use super::write::{Done, Stop};
use crate::node::pmwcas::VALUE_MAX;

/// How often a write looks for a descriptor, or for room of the thread that has frozen its leaf, its pin ended in
/// between, before it gives up.
pub(super) const fn tries<M: Machine>() -> u32 {
    if M::SIMULATED { 200 } else { 20_000 }
}

/// How often a write that found no room looks again.
const ROOMS: u32 = 2;
/// A thread that waits for room of others reclaims what its session has retired in one of so many rounds: that takes
/// longer than a look.
pub(super) const fn collects_every<M: Machine>() -> u32 {
    if M::SIMULATED { 2 } else { 16 }
}

impl<V: Variant, M: Machine> BzTree<V, M> {
    /// One write, again and again while no descriptor is free; and again when it found no room, for what the
    /// session has retired inside of its pin can be used when that has ended.
    fn write_or_give_up(
        &self,
        session: &mut Session<M>,
        change: &Change,
    ) -> Result<Outcome, IndexError> {
        let (mut rooms, mut waits) = (0, 0);
        for attempt in 0..tries::<M>() {
            let mut pinned = session.pinned();
            let done = self.write(&mut pinned, change);
            drop(pinned);
            match done {
                Ok(Done { outcome, is_thin }) => {
                    if is_thin {
                        self.merge_thin(session, change.key);
                    }
                    return Ok(outcome);
                }
                Err(Stop::Alloc(error)) if error.lacks_space() && rooms < ROOMS => {
                    M::mark("bztree.no_room");
                    session.collect_all();
                    rooms += 1;
                }
                // The thread that has frozen the leaf has room to replace it, and may itself wait for a descriptor.
                Err(Stop::Frozen(_)) if attempt + 1 < tries::<M>() => {
                    M::mark("bztree.no_room_to_help");
                    // First what the own pin has kept back: it may be enough, and need nobody.
                    if waits % collects_every::<M>() == 0 {
                        session.collect_all();
                    } else {
                        M::spin(waits);
                    }
                    waits += 1;
                }
                Err(Stop::Alloc(error) | Stop::Frozen(error)) => return Err(error.into()),
                Err(Stop::NoDescriptor) => {
                    M::mark("bztree.no_descriptor");
                    session.heap().advance_epoch();
                    if !self.words.has_free() {
                        // Others have to end their calls first.
                        M::spin(attempt);
                    }
                }
            }
        }
        Err(AllocError::DescriptorsInUse(self.words.count()).into())
    }
}

impl<V: Variant, M: Machine> Operations for BzTree<V, M> {
    type Machine = M;
    const PINS_ITSELF: bool = true;

    fn is_writable(&self) -> bool {
        self.is_writable
    }

    #[inline]
    fn read(&self, session: &mut Session<M>, key: u64) -> Result<Option<u64>, IndexError> {
        let session = session.pinned();
        Ok(self.get_value(session.stripe(), key))
    }

    #[inline]
    fn write(&self, session: &mut Session<M>, change: &Change) -> Result<Outcome, IndexError> {
        self.write_or_give_up(session, change)
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

    fn shape(&self, session: &mut Session<M>) -> Result<TreeShape, IndexError> {
        let mut shape = TreeShape::default();
        shape.keys = self.keys.sum();
        let pinned = session.pinned();
        shape.height = self.find_path(pinned.stripe(), 0).len() as u64;
        drop(pinned);
        let mut next = Some(0);
        while let Some(key) = next {
            // A pin for each leaf, as in scans.
            let pinned = session.pinned();
            next = self.find_place(pinned.stripe(), key).high;
            shape.leaves += 1;
        }
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

impl<V: Variant, M: Machine> Design<M> for BzTree<V, M> {
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
        self.root_object.root_value()
    }

    fn mark(&self, _session: &mut Session<M>, used: &Recovery<M>) -> Result<(), AllocError> {
        self.root_object.mark(used)?;
        self.words.mark(used)?;
        self.walk(used, Walk::Mark).map(|_| ())
    }
}
