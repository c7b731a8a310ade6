//! Any subject behind one type, so that programs, searches and shrinking are compiled once and not
//! once per tree and size of leaf.

use std::sync::Arc;

use everleaf_alloc::{Heap, Session};
use everleaf_index::{IndexError, OrderedIndex};
use everleaf_machine::Simulated;
use everleaf_pool::Pool;

use crate::tree::operation::Operation;
use crate::tree::subject::{Pairs, Subject};

/// An opened tree of numbers, whatever its type.
pub trait Living {
    /// Where the tree lives.
    fn heap(&self) -> &Arc<Heap<Simulated>>;

    /// The tree.
    fn tree(&self) -> &dyn OrderedIndex<Simulated>;

    /// As [`Subject::scan_back`].
    ///
    /// # Errors
    /// As the tree's.
    fn scan_back(
        &self,
        session: &mut Session<Simulated>,
        from: u64,
        limit: usize,
        pairs: &mut Pairs,
    ) -> Result<(), IndexError>;

    /// As [`Subject::clear`].
    ///
    /// # Errors
    /// As the tree's.
    fn clear(&self, session: &mut Session<Simulated>, keys: &[u64]) -> Result<(), IndexError>;

    /// As [`Subject::give_back`].
    ///
    /// # Errors
    /// As the tree's.
    fn give_back(&self, session: &mut Session<Simulated>) -> Result<(), IndexError>;

    /// As [`Subject::close`].
    ///
    /// # Errors
    /// The mark cannot be written.
    fn close(&self) -> Result<(), IndexError>;

    /// As [`Subject::check`].
    ///
    /// # Errors
    /// The check itself could not be made.
    fn check(&self) -> Result<Vec<String>, IndexError>;
}

/// The session of a thread. One that was refused when it was to be taken anew is asked for again.
///
/// # Errors
/// It is refused again.
pub(crate) fn session_of<'s>(
    slot: &'s mut Option<Session<Simulated>>,
    heap: &Arc<Heap<Simulated>>,
) -> Result<&'s mut Session<Simulated>, IndexError> {
    if slot.is_none() {
        *slot = Some(heap.session()?);
    }
    Ok(slot.as_mut().expect("it was just taken"))
}

type Create = fn(Pool<Simulated>, u32) -> Result<Box<dyn Living>, IndexError>;
type Open = fn(Pool<Simulated>) -> Result<Box<dyn Living>, String>;

/// What a [`Subject`] says and does, as values.
#[derive(Clone, Copy, Debug)]
pub struct AnyTree {
    /// [`Subject::LOCK_FREE`].
    pub lock_free: bool,
    /// [`Subject::READS_COMMITTED`].
    pub reads_committed: bool,
    /// [`Subject::DEFERS`].
    pub defers: bool,
    /// [`Subject::VOLATILE`].
    pub volatile: bool,
    /// [`Subject::LEAVES_SPACE`].
    pub leaves_space: bool,
    /// [`Subject::WRITES_BLINDLY`].
    pub writes_blindly: bool,
    /// [`Subject::ORDERED`].
    pub ordered: bool,
    /// The smallest and the largest key the tree takes.
    pub keys: (u64, u64),
    /// The smallest and the largest value the tree takes.
    pub values: (u64, u64),
    /// [`Subject::create`].
    pub create: Create,
    /// [`Subject::open`].
    pub open: Open,
}

impl AnyTree {
    /// The values of a subject.
    pub const fn of<S: Subject>() -> AnyTree {
        AnyTree {
            lock_free: S::LOCK_FREE,
            reads_committed: S::READS_COMMITTED,
            defers: S::DEFERS,
            volatile: S::VOLATILE,
            leaves_space: S::LEAVES_SPACE,
            writes_blindly: S::WRITES_BLINDLY,
            ordered: S::ORDERED,
            keys: (S::KEY_MIN, S::KEY_MAX),
            values: (S::VALUE_MIN, S::VALUE_MAX),
            create: |pool, chunk_shift| Ok(Box::new(Live::<S>(S::create(pool, chunk_shift)?))),
            open: |pool| Ok(Box::new(Live::<S>(S::open(pool)?))),
        }
    }

    /// The key, or the nearest one that the tree takes.
    pub fn fit_key(&self, key: u64) -> u64 {
        key.clamp(self.keys.0, self.keys.1)
    }

    /// The operation with keys and values that the tree takes. Of a tree without order, instead of a scan of
    /// some pairs a get of the first key, instead of one of all pairs gets of all keys.
    pub fn fit(&self, operation: &Operation) -> Operation {
        if !self.ordered {
            match *operation {
                Operation::Scan(from, limit) | Operation::ScanBack(from, limit)
                    if limit < usize::MAX =>
                {
                    return Operation::Get(self.fit_key(from));
                }
                Operation::Scan(..) | Operation::ScanBack(..) | Operation::Range(_) => {
                    return Operation::GetMany;
                }
                _ => {}
            }
        }
        let (least, greatest) = self.values;
        operation.map(|key| self.fit_key(key), |value| value.clamp(least, greatest))
    }
}

struct Live<S: Subject>(S::OpenTree);

impl<S: Subject> Living for Live<S> {
    fn heap(&self) -> &Arc<Heap<Simulated>> {
        S::heap(&self.0)
    }

    fn tree(&self) -> &dyn OrderedIndex<Simulated> {
        S::tree(&self.0)
    }

    fn scan_back(
        &self,
        session: &mut Session<Simulated>,
        from: u64,
        limit: usize,
        pairs: &mut Pairs,
    ) -> Result<(), IndexError> {
        S::scan_back(&self.0, session, from, limit, pairs)
    }

    fn clear(&self, session: &mut Session<Simulated>, keys: &[u64]) -> Result<(), IndexError> {
        S::clear(&self.0, session, keys)
    }

    fn give_back(&self, session: &mut Session<Simulated>) -> Result<(), IndexError> {
        S::give_back(&self.0, session)
    }

    fn close(&self) -> Result<(), IndexError> {
        S::close(&self.0)
    }

    fn check(&self) -> Result<Vec<String>, IndexError> {
        S::check(&self.0)
    }
}
