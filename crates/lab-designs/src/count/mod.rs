//! Trees on the counting machine: what operations cost in lines, flushes and bytes, exactly.
//!
//! Nothing here looks at a clock. The trees are the ones that are measured elsewhere, generic over
//! the machine; on [`Simulated`] outside of a run their operations are the plain ones and are noted
//! on the way, so what is built for hardware pays nothing.
//!
//! ```text
//!   design by name --> Counted { tree, session, counting machine } --> count(operation, key) -> Tally
//!                        leaf::costs      single operations on leaves with room
//!                        load::random     random inserts with all splits
//!                        blocks::counted  the paper's tree on the allocators it is measured with
//!                        threads::contend  updates of the same keys by several threads
//! ```

pub mod blocks;
pub mod leaf;
pub mod load;
pub mod threads;

use std::sync::Arc;

use everleaf_bench::BenchError;
use everleaf_designs::catalogue::{self, DesignVisitor};
use everleaf_index::{
    Design, DesignInfo, Heap, IndexError, Intent, OrderedIndex, Pool, Reads, Session,
    SingleTreePool, Writes,
};
use everleaf_machine::Simulated;
use everleaf_machine::simulated::counting::{CacheShape, Counting, CountingConfig, Tally};

type M = Simulated;

/// An operation that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountedOperation {
    /// Adds a key that is absent.
    Insert,
    /// Replaces the value of a key that is there.
    Update,
    /// Removes a key that is there.
    Remove,
    /// Reads a key that is there.
    Get,
    /// Looks for a key that is absent.
    GetAbsent,
    /// Reads so many pairs from the key on.
    Scan(usize),
}

impl CountedOperation {
    /// The five of single keys, in the order of tables.
    pub const SINGLE: [CountedOperation; 5] = [
        CountedOperation::Insert,
        CountedOperation::Remove,
        CountedOperation::Update,
        CountedOperation::Get,
        CountedOperation::GetAbsent,
    ];

    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            CountedOperation::Insert => "insert",
            CountedOperation::Update => "update",
            CountedOperation::Remove => "remove",
            CountedOperation::Get => "get",
            CountedOperation::GetAbsent => "get absent",
            CountedOperation::Scan(_) => "scan",
        }
    }
}

/// The kind of inserts whose values are in records.
const LARGE: &str = "insert large";

/// A tree of any design in a pool of its own.
trait DesignPool: Sync {
    fn tree(&self) -> &dyn OrderedIndex<M>;
    fn heap(&self) -> &Arc<Heap<M>>;
}

impl<T: Design<M>> DesignPool for SingleTreePool<T, M> {
    fn tree(&self) -> &dyn OrderedIndex<M> {
        self.tree()
    }

    fn heap(&self) -> &Arc<Heap<M>> {
        self.heap()
    }
}

/// Opens or makes a tree whose design is known by name.
struct Open {
    pool: Pool<M>,
    is_new: bool,
}

impl DesignVisitor<M> for Open {
    type Output = Result<Box<dyn DesignPool>, IndexError>;
    fn visit<T: Design<M>>(self) -> Self::Output {
        let Open { pool, is_new } = self;
        let tree_pool = if is_new {
            SingleTreePool::<T, M>::create(pool)?
        } else {
            SingleTreePool::open(pool, 1)?
        };
        Ok(Box::new(tree_pool))
    }
}

/// A tree on a counting machine.
pub struct Counted {
    // The session before the tree, the tree before its memory.
    session: Session<M>,
    opened: Box<dyn DesignPool>,
    counting: Counting,
    pairs: Vec<(u64, u64)>,
}

impl Counted {
    /// An empty tree of the design `name`.
    ///
    /// # Errors
    /// There is no such design; no space.
    pub fn new(name: &str, config: CountingConfig, pool_bytes: usize) -> Result<Self, BenchError> {
        let counting = Counting::new(config, pool_bytes);
        let pool = Pool::new_simulated(counting.owned_memory())?;
        let opened = counting.set_up(|| catalogue::visit(name, Open { pool, is_new: true }));
        Self::assemble(counting, opened.ok_or_else(|| unknown(name))??)
    }

    /// An empty tree of a design that need not be in the catalogue.
    ///
    /// # Errors
    /// No space.
    pub fn of<T: Design<M>>(config: CountingConfig, pool_bytes: usize) -> Result<Self, BenchError> {
        let counting = Counting::new(config, pool_bytes);
        let pool = Pool::new_simulated(counting.owned_memory())?;
        let opened = counting.set_up(|| Open { pool, is_new: true }.visit::<T>())?;
        Self::assemble(counting, opened)
    }

    fn assemble(counting: Counting, opened: Box<dyn DesignPool>) -> Result<Self, BenchError> {
        let session = counting.set_up(|| opened.heap().session()).map_err(IndexError::from)?;
        Ok(Counted { session, opened, counting, pairs: Vec::new() })
    }

    /// Drops the tree as a crash does and recovers it, counted as the kind `recover`.
    ///
    /// # Errors
    /// The recovery's.
    pub fn crash_and_recover(self) -> Result<Self, BenchError> {
        let name = self.info().name;
        let Counted { session, opened, counting, .. } = self;
        counting.set_up(|| drop((session, opened)));
        counting.lose_memory();
        let pool = Pool::open_simulated(counting.owned_memory())?;
        let recover = || catalogue::visit(name, Open { pool, is_new: false });
        let opened = counting.operation("recover", recover).ok_or_else(|| unknown(name))??;
        Self::assemble(counting, opened)
    }

    /// What is known about the design.
    pub fn info(&self) -> DesignInfo {
        self.opened.tree().info()
    }

    /// Leaves there are.
    ///
    /// # Errors
    /// The design's.
    pub fn leaves(&mut self) -> Result<u64, BenchError> {
        Ok(self.opened.tree().shape(&mut self.session)?.leaves)
    }

    /// Levels there are, leaves included.
    ///
    /// # Errors
    /// The design's.
    pub fn height(&mut self) -> Result<u64, BenchError> {
        Ok(self.opened.tree().shape(&mut self.session)?.height)
    }

    /// Inserts a key without counting it, but seen by the caches.
    ///
    /// # Errors
    /// The design's.
    pub fn fill(&mut self, key: u64) -> Result<(), BenchError> {
        let Counted { session, opened, counting, .. } = self;
        let (key, value) = fitting(&opened.tree().info(), key);
        counting.warm_up(|| opened.tree().insert(session, key, value))?;
        Ok(())
    }

    /// Carries out an operation and counts it as one of its kind.
    ///
    /// # Errors
    /// The tree's, and that the operation did not do what its kind says.
    pub fn count(&mut self, operation: CountedOperation, key: u64) -> Result<(), BenchError> {
        let Counted { session, opened, counting, pairs } = self;
        let tree = opened.tree();
        let (key, value) = fitting(&tree.info(), key);
        pairs.clear();
        let is_done = counting.operation(operation.name(), || {
            Ok::<bool, IndexError>(match operation {
                CountedOperation::Insert => {
                    tree.change(session, key, Intent::Insert, value)?.changed
                }
                CountedOperation::Update => {
                    tree.change(session, key, Intent::Update, value ^ 1)?.changed
                }
                CountedOperation::Remove => tree.change(session, key, Intent::Remove, 0)?.changed,
                CountedOperation::Get => tree.get(session, key)?.is_some(),
                CountedOperation::GetAbsent => tree.get(session, key)?.is_none(),
                CountedOperation::Scan(length) => {
                    tree.scan(session, key, length, pairs)?;
                    true
                }
            })
        })?;
        let (what, name) = (operation.name(), tree.info().name);
        let wrong =
            || format!("{name}: {what} of key {key:#x} found the opposite of what is there");
        if is_done { Ok(()) } else { Err(BenchError::Wrong(wrong())) }
    }

    /// Inserts a key whose value is in a record of its own of `bytes` bytes, a multiple of 8, durable
    /// before; counted apart.
    ///
    /// # Errors
    /// The design's, and that the key was there.
    pub fn insert_large(&mut self, key: u64, bytes: usize) -> Result<(), BenchError> {
        let Counted { session, opened, counting, .. } = self;
        let (key, _) = fitting(&opened.tree().info(), key);
        let changed = counting.operation(LARGE, || {
            let offset = session.allocate_record(bytes)?;
            let pool = opened.heap().pool();
            for at in (0..bytes as u64).step_by(8) {
                pool.word(offset + at).write_private(key ^ at);
            }
            // Persist: the record before the tree names it.
            session.medium().persist(pool.word(offset).as_ptr(), bytes);
            Ok::<bool, IndexError>(
                opened.tree().change(session, key, Intent::Insert, offset)?.changed,
            )
        })?;
        if changed { Ok(()) } else { Err(BenchError::Wrong(format!("key {key:#x} was there"))) }
    }

    /// The sums of inserts of large values.
    pub fn tally_large(&self) -> Tally {
        self.counting.tally(LARGE)
    }

    /// The sums of a kind of operation so far.
    pub fn tally(&self, operation: CountedOperation) -> Tally {
        self.counting.tally(operation.name())
    }

    /// Writes the caches back to the medium; gives the bytes that it took.
    pub fn write_back_all(&self) -> u64 {
        self.counting.write_back_all().1
    }

    /// The sums of recoveries.
    pub fn recovery(&self) -> Tally {
        self.counting.tally("recover")
    }

    /// The coverage marks met, with counts.
    pub fn marks(&self) -> Vec<(&'static str, u64)> {
        self.counting.marks()
    }
}

/// The designs whose writes look at what is there, and that have it in the pool when they answer: those that
/// are measured alike.
pub fn conditional_designs() -> Vec<&'static str> {
    let all = catalogue::designs().into_iter();
    let is_alike = |info: &DesignInfo| {
        info.writes == Writes::Conditional
            && !matches!(info.reads, Reads::Volatile | Reads::Deferred)
    };
    all.filter(is_alike).map(|info| info.name).collect()
}

/// The key and a value for it, in the limits of the design.
fn fitting(info: &DesignInfo, key: u64) -> (u64, u64) {
    // Even, so that the value with its last bit turned is another one in the limits.
    let value = 2 + (key >> 40 & 0xfffe);
    (key.clamp(*info.keys.start(), *info.keys.end()), value)
}

fn unknown(name: &str) -> BenchError {
    IndexError::UnknownDesign(name.to_string()).into()
}

/// Bytes of a pool that `keys` keys fit into, whatever the design.
pub fn pool_bytes(keys: u64) -> usize {
    ((32 << 20) + keys as usize * 160).next_multiple_of(2 << 20)
}

/// The caches of a server as much smaller as a tree of `keys` keys is than one of `reference` keys,
/// so that about as much of it stays in them.
pub fn scaled_caches(keys: u64, reference: f64) -> CountingConfig {
    let scale = |bytes: f64, granule: usize| {
        ((bytes * keys as f64 / reference) as usize / granule).max(1) * granule
    };
    CountingConfig {
        l1: CacheShape { bytes: 4096, ways: 8 },
        l2: CacheShape { bytes: scale(1.25e6, 4096).max(8192), ways: 8 },
        l3: CacheShape { bytes: scale(42e6, 12288).max(24576), ways: 12 },
        ..CountingConfig::default()
    }
}
