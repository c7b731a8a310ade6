//! The trees of one pool: opening them all, finding one by name, checking them.
//!
//! The pool's directory maps a name to the kind of its tree and to the tree's id; every block
//! carries the id of its tree. Recovery runs once for the whole pool, because the free space is what
//! no tree uses.

mod design;
mod load;
mod loads;
mod opening;
mod removal;
mod restoring;
mod seal;
mod thin;

use std::sync::Arc;

use everleaf_alloc::{Audit, Heap, LateMarks, Session, SessionPool};
use everleaf_machine::lock_rank::Rank;
use everleaf_machine::{Atomic, Hardware, Machine, Ordering, SpinLock};
use everleaf_pool::{Pool, RootIndex};

use crate::api::check_report::CheckReport;
use crate::api::error::IndexError;
use crate::api::ordered::{Design, OrderedIndex};
use crate::bytes::entry::BytesKind;
use crate::bytes::tree::BytesTree;
use crate::geometry::{Geometry, Production};
use crate::hashed_leaf::Slab;
use crate::kind::U64Kind;
use crate::pool_trees::nodes::{BytesNodes, NodesDesign};
use crate::pool_trees::registry::Registry;
use crate::pool_trees::single_tree_pool::refuse_contents;
use crate::pool_trees::tree_cell::CellTree;
use crate::u64_tree::{U64Nodes, U64Tree};
pub use load::BuiltTree;
pub use loads::LoadGuard;
use loads::Loads;
pub use restoring::RestorePlace;

/// Sessions that threads share by hints.
const SESSION_COUNT: usize = 128;

/// One named tree.
#[derive(Clone)]
enum Named<G: Geometry, M: Machine> {
    U64(Arc<U64Tree<G, M>>),
    Bytes(Arc<BytesTree<G, M>>),
    /// A tree of another design, and its entry in the pool's directory.
    Other(Arc<dyn OrderedIndex<M>>, RootIndex),
}

/// The trees by name, in no order.
type Directory<G, M> = SpinLock<Vec<(String, Named<G, M>)>, M>;

/// The place for the volatile half of hashed leaves, if some tree has them.
type MaybeSlab<G, M> = Option<Arc<Slab<<G as Geometry>::Leaves, M>>>;

/// All trees of an open pool. Shared by reference between threads.
///
/// # Example
/// ```
/// use everleaf_index::{Domain, Pool, Trees};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let trees: Trees = Trees::create(Pool::in_memory(1 << 20, 1 << 30, Domain::Process)?)?;
/// trees.bytes_tree("words")?;
/// trees.u64_tree("numbers")?;
/// assert_eq!(trees.names(), ["numbers", "words"]);
/// assert!(trees.check()?.problems.is_empty());
/// # Ok(())
/// # }
/// ```
pub struct Trees<G: Geometry = Production, M: Machine = Hardware> {
    heap: Arc<Heap<M>>,
    sessions: SessionPool<M>,
    /// The other designs there may be trees of.
    designs: Registry<M>,
    named: Directory<G, M>,
    /// Removed trees whose space some pinned operation still kept from being reused.
    removed: SpinLock<Vec<Named<G, M>>, M>,
    /// Threads that work on all of it may use.
    threads: usize,
    /// Whether nothing was missing when it was opened.
    is_complete: bool,
    /// Held while space is in nobody's books, and while trees come and go: a check waits for it. Taken
    /// before `named`, and after all sessions of `sessions` if those are taken.
    maintenance: SpinLock<(), M>,
    /// Whether a thread is merging thin leaves.
    merging: Atomic<u64, M>,
    /// Trees that are being built and have no name yet. None is added while `maintenance` is held.
    loads: Loads<M>,
    /// What trees with hashed leaves keep in DRAM, once there is one.
    slab: SpinLock<MaybeSlab<G, M>, M>,
    /// What opening at once has left, if it was opened so.
    late: Option<Arc<LateMarks<M>>>,
}

impl<G: Geometry, M: Machine> Named<G, M> {
    /// Frees what clearing and removing had to leave; returns whether anything is still left.
    fn tidy(&self, session: &mut Session<M>) -> bool {
        match self {
            Named::U64(tree) => tree.cell().tidy(session),
            Named::Bytes(tree) => tree.cell().tidy(session),
            Named::Other(..) => false,
        }
    }

    /// As [`Self::tidy`], without waiting for another thread that is at it.
    fn tidy_at_once(&self, session: &mut Session<M>) -> bool {
        match self {
            Named::U64(tree) => tree.cell().tidy_at_once(session),
            Named::Bytes(tree) => tree.cell().tidy_at_once(session),
            Named::Other(..) => false,
        }
    }

    /// Whether it is the same tree, of a design of this crate.
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Named::U64(one), Named::U64(other)) => Arc::ptr_eq(one, other),
            (Named::Bytes(one), Named::Bytes(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    /// As [`Self::tidy`] for a tree whose name was removed and that is in no list any more.
    fn retire(&self, session: &mut Session<M>) -> bool {
        match self {
            Named::Other(tree, _) => {
                // A thread that still has the tree may use it; with the last handle it goes.
                let last = Arc::strong_count(tree) == 1;
                if last {
                    // Acquire: what the others did before they let go; pairs with the release of
                    // their drops.
                    M::fence(Ordering::Acquire);
                    tree.free_all(session);
                }
                !last
            }
            _ => self.tidy(session),
        }
    }
}

impl<G: Geometry, M: Machine> Trees<G, M> {
    /// Makes a new pool ready for trees.
    ///
    /// # Errors
    /// The pool has no room; [`IndexError::OtherContents`] if it is not new.
    pub fn create(pool: Pool<M>) -> Result<Self, IndexError> {
        Self::create_with(pool, Registry::NONE)
    }

    /// As [`Self::create`], for trees of further designs.
    ///
    /// # Errors
    /// As [`Self::create`].
    pub fn create_with(pool: Pool<M>, designs: Registry<M>) -> Result<Self, IndexError> {
        refuse_contents(&pool)?;
        Ok(Self::on_heap(Heap::create(pool)?, designs, 1, true))
    }

    /// As [`Self::create`] with chunks of `1 << shift` bytes: for small simulated pools.
    ///
    /// # Errors
    /// As [`Self::create`].
    pub fn create_with_chunks(pool: Pool<M>, shift: u32) -> Result<Self, IndexError> {
        refuse_contents(&pool)?;
        let heap = Heap::create_with_chunks(pool, shift)?;
        Ok(Self::on_heap(heap, Registry::NONE, 1, true))
    }

    fn on_heap(
        heap: Arc<Heap<M>>,
        designs: Registry<M>,
        threads: usize,
        is_complete: bool,
    ) -> Self {
        let sessions = SessionPool::new(heap.clone(), SESSION_COUNT);
        Trees {
            heap,
            sessions,
            designs,
            named: SpinLock::ranked(Rank::TreeNames, vec![]),
            removed: SpinLock::ranked(Rank::RemovedTrees, vec![]),
            threads,
            is_complete,
            maintenance: SpinLock::ranked(Rank::Maintenance, ()),
            merging: Atomic::new(0),
            loads: Loads::new(),
            slab: SpinLock::new(None),
            late: None,
        }
    }

    /// The heap the trees live in.
    pub fn heap(&self) -> &Arc<Heap<M>> {
        &self.heap
    }

    /// Sessions for threads that come and go.
    pub fn sessions(&self) -> &SessionPool<M> {
        &self.sessions
    }

    /// The names of all trees, sorted.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> =
            self.named.lock().iter().map(|(name, _)| name.clone()).collect();
        names.sort();
        names
    }

    /// The byte-string tree of that name, if there is one.
    ///
    /// # Errors
    /// The name belongs to a tree of another kind.
    pub fn find_bytes_tree(&self, name: &str) -> Result<Option<Arc<BytesTree<G, M>>>, IndexError> {
        match self.named.lock().iter().find(|(other, _)| other == name) {
            Some((_, Named::Bytes(tree))) => Ok(Some(tree.clone())),
            Some(_) => Err(IndexError::OtherKind(name.to_string())),
            None => Ok(None),
        }
    }

    /// The byte-string tree with this id, if there is one.
    pub(crate) fn bytes_tree_of_id(
        &self,
        session: &mut Session<M>,
        id: u32,
    ) -> Option<Arc<BytesTree<G, M>>> {
        let bytes = |(_, tree): &(String, Named<G, M>)| match tree {
            Named::Bytes(tree) => Some(tree.clone()),
            _ => None,
        };
        let trees: Vec<_> = self.named.lock().iter().filter_map(bytes).collect();
        trees.into_iter().find(|tree| tree.id(session).is_ok_and(|found| found == id))
    }

    /// The integer tree of that name, if there is one.
    ///
    /// # Errors
    /// The name belongs to a tree of another kind.
    pub fn find_u64_tree(&self, name: &str) -> Result<Option<Arc<U64Tree<G, M>>>, IndexError> {
        match self.named.lock().iter().find(|(other, _)| other == name) {
            Some((_, Named::U64(tree))) => Ok(Some(tree.clone())),
            Some(_) => Err(IndexError::OtherKind(name.to_string())),
            None => Ok(None),
        }
    }

    /// The byte-string tree of that name, made if absent.
    ///
    /// # Errors
    /// A bad name, a name of a tree of another kind, or no space.
    pub fn bytes_tree(&self, name: &str) -> Result<Arc<BytesTree<G, M>>, IndexError> {
        if let Some(tree) = self.find_bytes_tree(name)? {
            return Ok(tree);
        }
        let mut session = self.heap.session()?;
        let _busy = self.maintenance.lock();
        let mut named = self.named.lock();
        if let Some((_, Named::Bytes(tree))) = named.iter().find(|(other, _)| other == name) {
            return Ok(tree.clone());
        }
        let id = self.heap.pool().next_id()?;
        let tree = BytesNodes::create(&self.new_design()?, &mut session, id)?;
        let root = self.publish(&mut session, name, tree.design().code::<BytesKind>(), &tree)?;
        let tree = Arc::new(BytesTree::new(self.heap.clone(), root, tree));
        named.push((name.to_string(), Named::Bytes(tree.clone())));
        Ok(tree)
    }

    /// The integer tree of that name, made if absent.
    ///
    /// # Errors
    /// As [`Self::bytes_tree`].
    pub fn u64_tree(&self, name: &str) -> Result<Arc<U64Tree<G, M>>, IndexError> {
        match self.find_u64_tree(name)? {
            Some(tree) => Ok(tree),
            None => self.make_u64_tree(name, &self.new_design()?),
        }
    }

    /// The integer tree of that name, made by a design if absent.
    fn make_u64_tree(
        &self,
        name: &str,
        design: &NodesDesign<G, M>,
    ) -> Result<Arc<U64Tree<G, M>>, IndexError> {
        let mut session = self.heap.session()?;
        let _busy = self.maintenance.lock();
        let mut named = self.named.lock();
        if let Some((_, Named::U64(tree))) = named.iter().find(|(other, _)| other == name) {
            return Ok(tree.clone());
        }
        let id = self.heap.pool().next_id()?;
        let tree = U64Nodes::create(design, &mut session, id)?;
        let root = self.publish(&mut session, name, design.code::<U64Kind>(), &tree)?;
        let tree = Arc::new(U64Tree::new(self.heap.clone(), root, tree));
        named.push((name.to_string(), Named::U64(tree.clone())));
        Ok(tree)
    }

    /// The integer tree of that name, of whatever design, if there is one.
    ///
    /// # Errors
    /// The name belongs to a tree of byte strings.
    pub fn find_index(&self, name: &str) -> Result<Option<Arc<dyn OrderedIndex<M>>>, IndexError> {
        match self.named.lock().iter().find(|(other, _)| other == name) {
            Some((_, Named::U64(tree))) => Ok(Some(tree.clone())),
            Some((_, Named::Other(tree, _))) => Ok(Some(tree.clone())),
            Some((_, Named::Bytes(_))) => Err(IndexError::OtherKind(name.to_string())),
            None => Ok(None),
        }
    }

    /// Makes an integer tree of a design by its name.
    ///
    /// # Errors
    /// No such design, a name that is bad or taken, or no space.
    pub fn create_index(
        &self,
        name: &str,
        design: &str,
    ) -> Result<Arc<dyn OrderedIndex<M>>, IndexError> {
        if design == <U64Tree<Production, M> as Design<M>>::INFO.name {
            if self.find_index(name)?.is_some() {
                return Err(IndexError::OtherKind(name.to_string()));
            }
            return Ok(self.make_u64_tree(name, &NodesDesign::NbTree)?);
        }
        let mut session = self.heap.session()?;
        let unknown = || IndexError::UnknownDesign(design.to_string());
        let design = self.designs.of_name(design).ok_or_else(unknown)?;
        let _busy = self.maintenance.lock();
        let made = (design.create)(&mut session)?;
        let mut named = self.named.lock();
        match self.heap.pool().create_root(name, design.info.kind, made.root) {
            Ok(root) => {
                named.push((name.to_string(), Named::Other(made.tree.clone(), root.index)));
                Ok(made.tree)
            }
            Err(error) => {
                made.tree.free_all(&mut session);
                Err(error.into())
            }
        }
    }

    /// Enters a finished tree in the pool's directory: from now on it survives.
    fn publish(
        &self,
        session: &mut Session<M>,
        name: &str,
        code: u16,
        tree: &impl CellTree<M>,
    ) -> Result<RootIndex, IndexError> {
        match self.heap.pool().create_root(name, code, tree.id()) {
            Ok(root) => Ok(root.index),
            Err(error) => {
                tree.free_all(session);
                Err(error.into())
            }
        }
    }

    /// Checks all trees and the allocator: invariants, records, and that every block and record is
    /// in use or free, exactly once. Waits for operations in progress, among them loads, and holds up
    /// new ones; but nobody is held up while it waits for a load. Restores first what opening at once has left.
    ///
    /// # Errors
    /// The check itself could not be made.
    pub fn check(&self) -> Result<CheckReport, IndexError> {
        self.check_by(None)
    }

    /// As [`Self::check`], by the thread that gives this hint to [`Self::sessions`]: inside of an
    /// operation it is refused instead of waiting for itself.
    ///
    /// # Errors
    /// [`AllocError::Nested`](everleaf_alloc::AllocError::Nested), or the check itself could not be made.
    pub fn check_by(&self, hint: Option<usize>) -> Result<CheckReport, IndexError> {
        if self.is_opening() {
            // What is damaged is found again.
            let _ = self.restore_all(&mut self.heap.session()?)?;
        }
        loop {
            if let Some(report) = self.check_unless_loading(hint)? {
                return Ok(report);
            }
            self.loads.wait(hint)?;
        }
    }

    /// The check, unless a tree is being built.
    fn check_unless_loading(&self, hint: Option<usize>) -> Result<Option<CheckReport>, IndexError> {
        // First the sessions: a thread that holds one may still want the locks, in a callback. And one of its own
        // only then: threads that wait here would leave none for others.
        let guards = self.sessions.enter_all(hint)?;
        let mut session = self.heap.session()?;
        let _quiet = self.maintenance.lock();
        if self.loads.is_any() {
            // What they have taken is in nobody's books, and none of it may move now. None begins before
            // the lock is let go.
            return Ok(None);
        }
        // A copy: names are asked for also by callers that need no session. Nobody adds or removes one.
        let named = self.named.lock().clone();
        // Nobody is pinned any more: all that was left for later can be freed.
        for (_, tree) in named.iter() {
            tree.tidy(&mut session);
        }
        self.tidy_removed_quietly(&mut session);
        session.collect_all();
        let lacks_marks = self.late().is_some_and(|late| !late.finish(&self.heap));
        let mut audit = Audit::new(&self.heap)?;
        if lacks_marks {
            audit.lacks_marks();
        }
        let mut report = CheckReport { is_complete: self.is_complete, ..Default::default() };
        for (name, tree) in named.iter() {
            let mut found = CheckReport::default();
            match tree {
                Named::U64(tree) => tree.cell().with(&mut session, |tree, session| {
                    tree.check(session, audit.used(), &mut found);
                })?,
                Named::Bytes(tree) => tree.cell().with(&mut session, |tree, session| {
                    tree.check(session, audit.used(), &mut found);
                })?,
                Named::Other(tree, _) => {
                    tree.check(&mut session, audit.used(), &mut found)?;
                    // Other designs are not sealed.
                    found.unproven_leaves = 0;
                }
            }
            report.keys += found.keys;
            report.leaves += found.leaves;
            report.unproven_leaves += found.unproven_leaves;
            report
                .problems
                .extend(found.problems.into_iter().map(|text| format!("{name}: {text}")));
        }
        if self.is_complete {
            // What was written since was written by us.
            report.unproven_leaves = 0;
        }
        for guard in &guards {
            if let Some(session) = guard.opened() {
                audit.add_session(session);
            }
        }
        audit.add_session(&session);
        report.problems.extend(audit.finish(&self.heap));
        report.damaged_copies = self.heap.pool().copy_problems();
        Ok(Some(report))
    }
}
