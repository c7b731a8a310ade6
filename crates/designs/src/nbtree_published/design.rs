//! The tree as one of the designs: limits, sessions, and what is common to all calls.

use everleaf_alloc::{Recovery, Session};
use everleaf_index::build::{Change, Intent, Outcome};
use everleaf_index::{
    CheckReport, Design, DesignInfo, Geometry, IndexError, OrderedIndex, Progress, Reads, Scans,
    TreeShape, Writes,
};
use everleaf_machine::Machine;

use super::NbPublished;
use super::state::VALUE_MAX;
use super::variant::Variant;

/// The largest key: 0 stands for no key, and the last number for none in inner nodes.
const KEY_MAX: u64 = u64::MAX - 1;

impl<V: Variant, G: Geometry, M: Machine> OrderedIndex<M> for NbPublished<V, G, M> {
    fn info(&self) -> DesignInfo {
        <Self as Design<M>>::INFO
    }

    #[inline]
    fn get(&self, session: &mut Session<M>, key: u64) -> Result<Option<u64>, IndexError> {
        Self::INFO.check_key(key)?;
        let mut session = session.pinned();
        Ok(NbPublished::get(self, &mut session, key))
    }

    #[inline]
    fn change(
        &self,
        session: &mut Session<M>,
        key: u64,
        intent: Intent,
        value: u64,
    ) -> Result<Outcome, IndexError> {
        if !self.is_writable {
            return Err(IndexError::ReadOnly);
        }
        Self::INFO.check_key(key)?;
        if !intent.removes() {
            Self::INFO.check_value(value)?;
        }
        let mut session = session.pinned();
        let outcome = self.write(&mut session, &Change { key, intent, value })?;
        match outcome {
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
        let mut session = session.pinned();
        if from <= KEY_MAX {
            self.scan_forward(&mut session, from, limit, pairs);
        }
        Ok(())
    }

    fn scan_back(
        &self,
        session: &mut Session<M>,
        from: u64,
        limit: usize,
        pairs: &mut Vec<(u64, u64)>,
    ) -> Result<(), IndexError> {
        let mut session = session.pinned();
        self.scan_backward(&mut session, from.min(KEY_MAX), limit, pairs);
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
        self.anchor.root_value()
    }
}
