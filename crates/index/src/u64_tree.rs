//! The tree with 64-bit integer keys and values.

use std::sync::Arc;

use everleaf_alloc::{Heap, Recovery, Session};
use everleaf_machine::{Hardware, Machine};
use everleaf_pool::RootIndex;

use crate::api::change::{Change, Exchange, Intent, Outcome};
use crate::api::check_report::CheckReport;
use crate::api::error::IndexError;
use crate::api::ordered::{Design, DesignInfo, OrderedIndex, Progress, Reads, Scans, Writes};
use crate::geometry::{Geometry, Production};
use crate::kind::{Kind, U64Kind, u64_key};
use crate::nbtree::state::LIVE;
use crate::nbtree::write::Write;
use crate::nbtree::{BulkLoader, Extent, Run, TreeShape, find_live_blocks, group};
use crate::pool_trees::nodes::{Nodes, NodesDesign};
use crate::pool_trees::tree_cell::{CellTree, TreeCell};

/// An ordered map from `u64` to `u64`: all keys and all values are allowed.
///
/// *Thread safety*: shared by reference; each thread brings its own [`Session`]. *Blocking*: reads
/// and writes are lock-free except while the pool grows. *Durable*: a call that returned survives
/// what the pool's domain promises.
///
/// # Example
/// ```
/// use everleaf_index::{Domain, Pool, Trees};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let pool = Pool::in_memory(1 << 20, 1 << 30, Domain::Process)?;
/// let trees: Trees = Trees::create(pool)?;
/// let tree = trees.u64_tree("numbers")?;
/// let mut session = trees.heap().session()?;
/// assert_eq!(tree.insert(&mut session, 7, 70)?, None);
/// assert_eq!(tree.upsert(&mut session, 7, 71)?, Some(70));
/// assert_eq!(tree.get(&mut session, 7)?, Some(71));
/// assert_eq!(tree.remove(&mut session, 7)?, Some(71));
/// # Ok(())
/// # }
/// ```
pub struct U64Tree<G: Geometry = Production, M: Machine = Hardware> {
    cell: TreeCell<U64Nodes<G, M>, M>,
    info: DesignInfo,
}

/// The nodes of a tree of integers.
pub(crate) type U64Nodes<G, M> = Nodes<U64Kind, G, M>;

impl<G: Geometry, M: Machine> U64Tree<G, M> {
    pub(crate) fn new(heap: Arc<Heap<M>>, root: RootIndex, tree: U64Nodes<G, M>) -> Self {
        Self::in_place(heap, Some(root), tree)
    }

    fn in_place(heap: Arc<Heap<M>>, root: Option<RootIndex>, tree: U64Nodes<G, M>) -> Self {
        let mut info = <Self as Design<M>>::INFO;
        if let Nodes::HashedLeaf(tree) = &tree {
            info = DesignInfo { kind: <U64Kind as Kind<M>>::HASHED_CODE, ..tree.info() };
        }
        U64Tree { cell: TreeCell::new(heap, root, tree), info }
    }

    pub(crate) fn cell(&self) -> &TreeCell<U64Nodes<G, M>, M> {
        &self.cell
    }

    /// The value of `key`.
    ///
    /// # Errors
    /// [`IndexError::Removed`]; as all operations.
    #[inline]
    pub fn get(&self, session: &mut Session<M>, key: u64) -> Result<Option<u64>, IndexError> {
        Ok(self.cell.with(session, |tree, session| tree.get_payload(session, key))??)
    }

    /// The values of many keys, in order, with overlapping cache misses: `values[i]` for `keys[i]`.
    /// As separate gets in every other respect.
    ///
    /// # Errors
    /// As [`Self::get`].
    ///
    /// # Panics
    /// If `values` is shorter than `keys`.
    pub fn get_many(
        &self,
        session: &mut Session<M>,
        keys: &[u64],
        values: &mut [Option<u64>],
    ) -> Result<(), IndexError> {
        Ok(self.cell.with(session, |tree, session| {
            tree.get_many_payloads(session, keys, &mut Run::none(), Extent::Heads, values)
        })??)
    }

    /// Adds `key` unless it is there. Returns the value that was there, if any: then nothing was
    /// changed.
    ///
    /// # Errors
    /// No space; then nothing was changed.
    #[inline]
    pub fn insert(
        &self,
        session: &mut Session<M>,
        key: u64,
        value: u64,
    ) -> Result<Option<u64>, IndexError> {
        Ok(self.write(session, key, Intent::Insert, value)?.old)
    }

    /// Replaces the value of `key` if it is there. Returns the old value.
    ///
    /// # Errors
    /// As [`Self::insert`].
    #[inline]
    pub fn update(
        &self,
        session: &mut Session<M>,
        key: u64,
        value: u64,
    ) -> Result<Option<u64>, IndexError> {
        Ok(self.write(session, key, Intent::Update, value)?.old)
    }

    /// Sets the value of `key`. Returns the old value.
    ///
    /// # Errors
    /// As [`Self::insert`].
    #[inline]
    pub fn upsert(
        &self,
        session: &mut Session<M>,
        key: u64,
        value: u64,
    ) -> Result<Option<u64>, IndexError> {
        Ok(self.write(session, key, Intent::Upsert, value)?.old)
    }

    /// Removes `key`. Returns its value.
    ///
    /// # Errors
    /// As [`Self::insert`].
    #[inline]
    pub fn remove(&self, session: &mut Session<M>, key: u64) -> Result<Option<u64>, IndexError> {
        Ok(self.write(session, key, Intent::Remove, 0)?.old)
    }

    /// Replaces the value of `key` by `new` if it is `expected`.
    ///
    /// # Errors
    /// As [`Self::insert`].
    #[inline]
    pub fn compare_exchange(
        &self,
        session: &mut Session<M>,
        key: u64,
        expected: u64,
        new: u64,
    ) -> Result<Exchange, IndexError> {
        Ok(self.write(session, key, Intent::Exchange(expected), new)?.exchange())
    }

    #[inline(always)]
    fn write(
        &self,
        session: &mut Session<M>,
        key: u64,
        intent: Intent,
        payload: u64,
    ) -> Result<Outcome, IndexError> {
        if self.cell.heap().pool().is_read_only() {
            return Err(IndexError::ReadOnly);
        }
        self.cell.try_with(session, |tree, session| {
            let outcome = tree.write(session, key, intent, payload)?;
            let wrong = M::mutant("nbtree.count_misses_carry") && intent.removes();
            tree.count(session, if wrong { 0 } else { outcome.growth(intent) });
            Ok(outcome)
        })
    }

    /// Performs many writes, in order, with overlapping cache misses: `outcomes[i]` is that of
    /// `changes[i]`. As separate writes in every other respect.
    ///
    /// # Errors
    /// As [`Self::insert`]. Then all writes before the one that failed were made and have their
    /// outcomes, and none behind it was.
    ///
    /// # Panics
    /// If `outcomes` is shorter than `changes`.
    pub fn write_many(
        &self,
        session: &mut Session<M>,
        changes: &[Change],
        outcomes: &mut [Outcome],
    ) -> Result<(), IndexError> {
        if self.cell.heap().pool().is_read_only() {
            return Err(IndexError::ReadOnly);
        }
        let outcomes = &mut outcomes[..changes.len()];
        for (changes, outcomes) in
            changes.chunks(group::<M>()).zip(outcomes.chunks_mut(group::<M>()))
        {
            let write = |change: &Change| Write {
                key: change.key,
                intent: change.intent,
                payload: change.value,
            };
            let writes: Vec<Write<'_, U64Kind, M>> = changes.iter().map(write).collect();
            let mut done = 0;
            let made = self.cell.with(session, |tree, session| {
                let mut growth = 0;
                let note = |write: &Write<'_, U64Kind, M>, outcome: Outcome| {
                    growth += outcome.growth(write.intent);
                    outcomes[done] = outcome;
                    done += 1;
                };
                let made = tree.write_many(session, &writes, |write| write, note);
                tree.count(session, growth);
                made
            })?;
            match made {
                // While we were pinned, leaves that we have replaced could not be used again.
                Err(error) if error.lacks_space() && done > 0 => {
                    for (change, outcome) in changes[done..].iter().zip(&mut outcomes[done..]) {
                        *outcome = self.write(session, change.key, change.intent, change.value)?;
                    }
                }
                made => made?,
            }
        }
        Ok(())
    }

    /// Up to `limit` pairs from `from` (inclusive) on, ascending, appended to `pairs`. See
    /// `nbtree/scan.rs` for what a scan promises.
    ///
    /// # Errors
    /// As [`Self::get`].
    #[inline]
    pub fn scan(
        &self,
        session: &mut Session<M>,
        from: u64,
        limit: usize,
        pairs: &mut Vec<(u64, u64)>,
    ) -> Result<(), IndexError> {
        if limit == 0 {
            return Ok(());
        }
        // A short scan allocates once; a long one grows as it goes.
        pairs.reserve(limit.min(256));
        let end = pairs.len().saturating_add(limit);
        Ok(self.cell.with(session, |tree, session| {
            tree.scan_forward(session, from, limit, Extent::Heads, |low, entry| {
                pairs.push((u64_key(low, entry), <U64Kind as Kind<M>>::payload(entry)));
                pairs.len() < end
            })
        })??)
    }

    /// Up to `limit` pairs from `from` (inclusive) on, descending, appended to `pairs`.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn scan_back(
        &self,
        session: &mut Session<M>,
        from: u64,
        limit: usize,
        pairs: &mut Vec<(u64, u64)>,
    ) -> Result<(), IndexError> {
        if limit == 0 {
            return Ok(());
        }
        let end = pairs.len().saturating_add(limit);
        Ok(self.cell.with(session, |tree, session| {
            tree.scan_backward(session, from.checked_add(1), Extent::Heads, |low, entry| {
                pairs.push((u64_key(low, entry), <U64Kind as Kind<M>>::payload(entry)));
                pairs.len() < end
            })
        })??)
    }

    /// Number of keys. O(1); exact when no writer is active. Restores first what [`crate::Trees::open_at_once`] has
    /// left.
    ///
    /// # Errors
    /// As [`Self::get`]; a leaf that was left is damaged.
    pub fn len(&self, session: &mut Session<M>) -> Result<u64, IndexError> {
        self.cell.whole(session, |tree, _| tree.counted())
    }

    /// How the tree is built.
    ///
    /// # Errors
    /// As [`Self::len`].
    pub fn shape(&self, session: &mut Session<M>) -> Result<TreeShape, IndexError> {
        self.cell.whole(session, |tree, session| tree.shape(session))
    }

    /// Removes everything, atomically, also across a crash.
    ///
    /// # Errors
    /// No space for an empty tree; then nothing was changed.
    pub fn clear(&self, session: &mut Session<M>) -> Result<(), IndexError> {
        self.cell.clear(session)?;
        self.cell.tidy(session);
        Ok(())
    }

    /// Makes a new tree from pairs in strictly ascending key order.
    pub(crate) fn load(
        session: &mut Session<M>,
        design: &NodesDesign<G, M>,
        id: u32,
        pairs: impl IntoIterator<Item = (u64, u64)>,
    ) -> Result<U64Nodes<G, M>, IndexError> {
        let tree = U64Nodes::without_leaves(design, &session.heap().clone(), id);
        let mut loader = BulkLoader::<U64Kind, _, M>::new(session, tree);
        Self::load_into(&mut loader, pairs)?;
        Ok(loader.finish()?)
    }

    fn load_into(
        loader: &mut BulkLoader<'_, U64Kind, U64Nodes<G, M>, M>,
        pairs: impl IntoIterator<Item = (u64, u64)>,
    ) -> Result<(), IndexError> {
        let mut last = None;
        for (position, (key, value)) in pairs.into_iter().enumerate() {
            if last.is_some_and(|last| last >= key) {
                return Err(IndexError::NotSorted(position));
            }
            last = Some(key);
            loader.push(key, <U64Kind as Kind<M>>::entry(key, 0, value, LIVE))?;
        }
        Ok(())
    }
}

impl<G: Geometry, M: Machine> OrderedIndex<M> for U64Tree<G, M> {
    fn info(&self) -> DesignInfo {
        self.info.clone()
    }
    #[inline]
    fn get(&self, session: &mut Session<M>, key: u64) -> Result<Option<u64>, IndexError> {
        self.get(session, key)
    }
    #[inline]
    fn change(
        &self,
        session: &mut Session<M>,
        key: u64,
        intent: Intent,
        value: u64,
    ) -> Result<Outcome, IndexError> {
        self.write(session, key, intent, value)
    }
    #[inline]
    fn scan(
        &self,
        session: &mut Session<M>,
        from: u64,
        limit: usize,
        pairs: &mut Vec<(u64, u64)>,
    ) -> Result<(), IndexError> {
        self.scan(session, from, limit, pairs)
    }
    fn scan_back(
        &self,
        session: &mut Session<M>,
        from: u64,
        limit: usize,
        pairs: &mut Vec<(u64, u64)>,
    ) -> Result<(), IndexError> {
        self.scan_back(session, from, limit, pairs)
    }
    #[inline]
    fn get_many(
        &self,
        session: &mut Session<M>,
        keys: &[u64],
        values: &mut [Option<u64>],
    ) -> Result<(), IndexError> {
        self.get_many(session, keys, values)
    }
    fn write_many(
        &self,
        session: &mut Session<M>,
        changes: &[Change],
        outcomes: &mut [Outcome],
    ) -> Result<(), IndexError> {
        self.write_many(session, changes, outcomes)
    }
    fn len(&self, session: &mut Session<M>) -> Result<u64, IndexError> {
        self.len(session)
    }
    fn shape(&self, session: &mut Session<M>) -> Result<TreeShape, IndexError> {
        self.shape(session)
    }
    fn check(
        &self,
        session: &mut Session<M>,
        used: &Recovery<M>,
        report: &mut CheckReport,
    ) -> Result<(), IndexError> {
        self.cell.tidy(session);
        self.cell.with(session, |tree, session| tree.check(session, used, report))
    }
    fn free_all(&self, session: &mut Session<M>) {
        // A tree that was removed has nothing left to give back.
        let _ = self.cell.with(session, |tree, session| tree.free_all(session));
    }
}

impl<G: Geometry, M: Machine> Design<M> for U64Tree<G, M> {
    const INFO: DesignInfo = DesignInfo {
        name: "nbtree",
        kind: <U64Kind as Kind<M>>::CODE,
        keys: 0..=u64::MAX,
        values: 0..=u64::MAX,
        progress: Progress::LockFree,
        reads: Reads::Committed,
        writes: Writes::Conditional,
        scans: Scans::BothWays,
    };

    fn create(session: &mut Session<M>) -> Result<Self, IndexError> {
        let heap = session.heap().clone();
        let id = heap.pool().next_id()?;
        let tree = U64Nodes::create(&NodesDesign::NbTree, session, id)?;
        Ok(Self::in_place(heap, None, tree))
    }

    fn recover(
        session: &mut Session<M>,
        recovery: &Recovery<M>,
        root: u32,
        threads: usize,
    ) -> Result<Self, IndexError> {
        let heap = session.heap().clone();
        let live = find_live_blocks(&heap, recovery, &[root], 0, threads)?.remove(0);
        let tree =
            NodesDesign::NbTree.recover(session, (recovery, None), root, live, threads, None)?;
        Ok(Self::in_place(heap, None, tree))
    }

    fn root_value(&self) -> u32 {
        self.cell.first_id()
    }

    fn attach(&mut self, place: RootIndex) {
        self.cell.attach(place);
    }
}
