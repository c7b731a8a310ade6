//! A pool with one tree of one design, without dispatch: for measuring and proving.

use std::sync::Arc;

use everleaf_alloc::{AllocError, Audit, Heap, Recovery, Session, SessionPool};
use everleaf_machine::{Hardware, Machine};
use everleaf_pool::{Pool, Root};

use crate::api::check_report::CheckReport;
use crate::api::error::IndexError;
use crate::api::ordered::{Design, Reads};

/// The name of the tree in the pool's directory.
const NAME: &str = "index";
/// What the directory keeps beside the name while the tree is made: no root value. No root object of 256 bytes lies
/// so far behind in the largest pool, and ids end before it.
const BEING_MADE: u32 = u32::MAX;
/// Sessions that threads share by hints.
const SESSION_COUNT: usize = 128;

/// A pool with one tree. Shared by reference between threads.
///
/// # Example
/// ```
/// use everleaf_index::{Domain, OrderedIndex, Pool, SingleTreePool, U64Tree};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let pool = Pool::in_memory(1 << 20, 1 << 30, Domain::Process)?;
/// let tree_pool: SingleTreePool<U64Tree> = SingleTreePool::create(pool)?;
/// let mut session = tree_pool.heap().session()?;
/// tree_pool.tree().insert(&mut session, 7, 70)?;
/// drop(session);
/// assert_eq!(tree_pool.check()?.keys, 1);
/// # Ok(())
/// # }
/// ```
pub struct SingleTreePool<T, M: Machine = Hardware> {
    tree: T,
    sessions: SessionPool<M>,
    heap: Arc<Heap<M>>,
}

impl<T: Design<M>, M: Machine> SingleTreePool<T, M> {
    /// Makes the tree in a new pool.
    ///
    /// # Errors
    /// The pool has no room; [`IndexError::OtherContents`] if it is not new.
    pub fn create(pool: Pool<M>) -> Result<Self, IndexError> {
        refuse_contents(&pool)?;
        Self::on_heap(Heap::create(pool)?)
    }

    /// As [`Self::create`] with chunks of `1 << shift` bytes: for small simulated pools.
    ///
    /// # Errors
    /// As [`Self::create`].
    pub fn create_with_chunks(pool: Pool<M>, shift: u32) -> Result<Self, IndexError> {
        refuse_contents(&pool)?;
        Self::on_heap(Heap::create_with_chunks(pool, shift)?)
    }

    /// Makes the tree in a heap of which nothing was taken yet.
    fn on_heap(heap: Arc<Heap<M>>) -> Result<Self, IndexError> {
        // The name is durable before anything is taken: so where something is and no name, it was lost.
        let root = heap.pool().create_root(NAME, T::INFO.kind, BEING_MADE)?;
        Self::under_root(heap, &root)
    }

    /// Makes the tree under a root that says that it is being made. If this fails, the next opening tries again.
    fn under_root(heap: Arc<Heap<M>>, root: &Root) -> Result<Self, IndexError> {
        let mut session = heap.session()?;
        let mut tree = T::create(&mut session)?;
        // Persist: the tree, by `create`, before its root value.
        match heap.pool().set_root_value(root.index, BEING_MADE, tree.root_value()) {
            Ok(()) => tree.attach(root.index),
            Err(error) => {
                tree.free_all(&mut session);
                return Err(error.into());
            }
        }
        drop(session);
        Ok(Self::assemble(heap, tree))
    }

    fn assemble(heap: Arc<Heap<M>>, tree: T) -> Self {
        SingleTreePool { tree, sessions: SessionPool::new(heap.clone(), SESSION_COUNT), heap }
    }

    /// Opens a pool that [`Self::create`] made, recovering on up to `threads` threads; most designs of papers take one
    /// only. A pool whose making was cut short is rebuilt.
    ///
    /// # Errors
    /// Damage; [`IndexError::OtherContents`] for a pool with something else in it, of which nothing is changed.
    pub fn open(pool: Pool<M>, threads: usize) -> Result<Self, IndexError> {
        Self::open_with(pool, threads, false)
    }

    /// As [`Self::open`], and soon done, if the design can:
    /// - one whose walk through the tree can wait ([`Design::MARKS_LATER`]) reads only the header of each chunk of
    ///   the pool. Space that was free is not used before [`Self::sweep`]; until then a check calls it leaked. One that
    ///   had to walk all the same knows what is free ([`Design::has_marked`]);
    /// - one whose leaves can ([`Design::recover_at_once`]) reads only the header of each leaf, and restores a leaf
    ///   when it is first touched, or by [`restore_next`](crate::OrderedIndex::restore_next). That saves what
    ///   reading memory costs. Of a file that is not in memory a header brings its page from the disk, which is all of
    ///   a leaf of 4 KiB: then little is saved, as after a restart of the machine with a file on a disk.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_at_once(pool: Pool<M>) -> Result<Self, IndexError> {
        Self::open_at_once_on(pool, 1)
    }

    /// As [`Self::open_at_once`], on up to `threads` threads. They read the headers; one thread sorts them and builds
    /// the inner nodes, O(n log n) in the leaves.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_at_once_on(pool: Pool<M>, threads: usize) -> Result<Self, IndexError> {
        Self::open_with(pool, threads, true)
    }

    fn open_with(pool: Pool<M>, threads: usize, at_once: bool) -> Result<Self, IndexError> {
        let (heap, recovery, root) = match begin_opening(pool, T::INFO.kind)? {
            Beginning::Unmade(heap) => return Self::on_heap(heap),
            Beginning::HalfMade(heap, root) => return Self::under_root(heap, &root),
            Beginning::Made(heap, recovery, root) => (heap, recovery, root),
        };
        let mut session = heap.session()?;
        let recover = if at_once { T::recover_at_once } else { T::recover };
        let mut tree = recover(&mut session, &recovery, root.value, threads)?;
        tree.attach(root.index);
        if at_once && !tree.has_marked() {
            recovery.finish_unmarked(&heap);
        } else {
            if !tree.has_marked() {
                tree.mark(&mut session, &recovery)?;
            }
            recovery.finish(&heap);
        }
        drop(session);
        Ok(Self::assemble(heap, tree))
    }

    /// The tree.
    #[inline(always)]
    pub fn tree(&self) -> &T {
        &self.tree
    }

    /// The heap the tree lives in.
    pub fn heap(&self) -> &Arc<Heap<M>> {
        &self.heap
    }

    /// Sessions for threads that come and go.
    pub fn sessions(&self) -> &SessionPool<M> {
        &self.sessions
    }

    /// Checks the tree and the allocator: invariants, and that everything is in use or free, exactly
    /// once. Nobody has a session of the heap but this value's own, nor a thread that restores leaves in the
    /// background: it ends before, or the check may tell keys that are not counted yet. O(everything). Restores all
    /// that opening has left.
    ///
    /// # Errors
    /// The check itself could not be made.
    pub fn check(&self) -> Result<CheckReport, IndexError> {
        let tree = &self.tree;
        check(&self.heap, &self.sessions, &mut |session, used, report| {
            tree.check(session, used, report)
        })
    }

    /// Finds the space that was free when [`Self::open_at_once`] opened the pool. Returns how many
    /// places were found, or `None` if somebody has a session of the heap besides this value's own:
    /// then nothing was done.
    ///
    /// # Errors
    /// Damage.
    pub fn sweep(&self) -> Result<Option<u64>, IndexError> {
        let mut session = self.heap.session()?;
        let guards = self.sessions.enter_all(None)?;
        // From here on nobody gets a session, so what is counted now stays all there is.
        let _door = self.heap.block_new_sessions();
        let opened = guards.iter().filter(|guard| guard.opened().is_some()).count();
        if self.heap.session_count() != opened + 1 {
            return Ok(None);
        }
        session.collect_all();
        let mut audit = Audit::new(&self.heap)?;
        let mut report = CheckReport::default();
        self.tree.check(&mut session, audit.used(), &mut report)?;
        if !report.is_clean() {
            // What is damaged may be in use though the check could not reach it.
            let what = report.problems.join("; ");
            return Err(AllocError::Corrupt { offset: 0, what }.into());
        }
        for guard in &guards {
            if let Some(session) = guard.opened() {
                audit.add_session(session);
            }
        }
        audit.add_session(&session);
        Ok(Some(audit.sweep(&self.heap)))
    }

    /// Makes what the tree defers durable, and marks the pool cleanly closed. The caller makes sure that nobody
    /// writes any more.
    ///
    /// # Errors
    /// The mark cannot be written; of a tree that defers also: no space, or no free session.
    pub fn close(&self) -> Result<(), IndexError> {
        if self.heap.pool().is_read_only() {
            return Ok(());
        }
        // Else no session is needed, and all may be taken.
        if T::INFO.reads == Reads::Deferred && !M::mutant("single_tree_pool.closes_deferred") {
            let mut session = self.heap.session()?;
            // Persist: what the tree defers before the mark of a clean end, or the next opening would trust what
            // was never written.
            self.tree.persist_deferred(&mut session)?;
        }
        Ok(self.heap.pool().set_clean()?)
    }
}

/// What an opening finds in a pool.
enum Beginning<M: Machine> {
    /// Nothing.
    Unmade(Arc<Heap<M>>),
    /// A root without its tree.
    HalfMade(Arc<Heap<M>>, Root),
    /// A tree.
    Made(Arc<Heap<M>>, Recovery<M>, Root),
}

/// Opens the heap of a pool that may have a tree of this kind. Compiled once and not for each design.
///
/// # Errors
/// As [`SingleTreePool::open`].
fn begin_opening<M: Machine>(pool: Pool<M>, kind: u16) -> Result<Beginning<M>, IndexError> {
    let found = match find::<M>(&pool, kind) {
        Ok(found) => found,
        Err(error) => {
            // Nothing was changed. Without its mark the pool would count as not closed.
            let _ = pool.leave_as_found();
            return Err(error);
        }
    };
    if found.is_none() && !Heap::exists(&pool) {
        return Ok(Beginning::Unmade(Heap::create(pool)?));
    }
    let (heap, recovery) = Heap::open(pool)?;
    let Some(root) = found else {
        if recovery.has_chunks() {
            let _ = heap.pool().leave_as_found();
            let offset = heap.pool().data_start();
            let what = format!("there is no name '{NAME}', and something was allocated");
            return Err(AllocError::Corrupt { offset, what }.into());
        }
        recovery.finish(&heap);
        return Ok(Beginning::Unmade(heap));
    };
    if root.value == BEING_MADE {
        // Whatever was allocated for it is free.
        recovery.finish(&heap);
        return Ok(Beginning::HalfMade(heap, root));
    }
    Ok(Beginning::Made(heap, recovery, root))
}

/// Refuses a pool that is not new: what is in it would be free space.
///
/// # Errors
/// [`IndexError::OtherContents`].
pub(super) fn refuse_contents<M: Machine>(pool: &Pool<M>) -> Result<(), IndexError> {
    let what = match pool.roots().first() {
        Some(root) => format!("'{}' (kind {})", root.name, root.kind),
        None if Heap::exists(pool) => "a heap without names".to_owned(),
        None => return Ok(()),
    };
    let _ = pool.leave_as_found();
    Err(IndexError::OtherContents(what))
}

/// The root of the tree, of this kind, if there is one; before anything is done to the pool.
///
/// # Errors
/// [`IndexError::OtherContents`]; the pool had a heap; a pool without a tree cannot be written.
fn find<M: Machine>(pool: &Pool<M>, kind: u16) -> Result<Option<Root>, IndexError> {
    let roots = pool.roots();
    let mut others = roots.iter().filter(|root| root.name != NAME || root.kind != kind);
    if let Some(other) = others.next() {
        let more = match others.count() {
            0 => String::new(),
            count => format!(", and {count} more"),
        };
        let what = format!("'{}' (kind {}){more}", other.name, other.kind);
        return Err(IndexError::OtherContents(what));
    }
    let root = roots.into_iter().next();
    if pool.is_read_only() && root.as_ref().is_none_or(|root| root.value == BEING_MADE) {
        return Err(IndexError::ReadOnly);
    }
    if root.is_some() && !Heap::exists(pool) {
        // Never made anew over what is there: a flipped bit would cost everything.
        let what = format!("the heap header is damaged, and there is a tree '{NAME}'");
        return Err(AllocError::Corrupt { offset: pool.data_start(), what }.into());
    }
    Ok(root)
}

/// Checks the tree itself.
type CheckTree<'a, M> =
    dyn FnMut(&mut Session<M>, &Recovery<M>, &mut CheckReport) -> Result<(), IndexError> + 'a;

/// [`SingleTreePool::check`], compiled once and not for each design.
fn check<M: Machine>(
    heap: &Arc<Heap<M>>,
    sessions: &SessionPool<M>,
    check_tree: &mut CheckTree<'_, M>,
) -> Result<CheckReport, IndexError> {
    let mut session = heap.session()?;
    let guards = sessions.enter_all(None)?;
    session.collect_all();
    let mut audit = Audit::new(heap)?;
    let mut report = CheckReport::default();
    check_tree(&mut session, audit.used(), &mut report)?;
    for guard in &guards {
        if let Some(session) = guard.opened() {
            audit.add_session(session);
        }
    }
    audit.add_session(&session);
    report.problems.extend(audit.finish(heap));
    report.damaged_copies = heap.pool().copy_problems();
    Ok(report)
}

#[cfg(test)]
mod tests {
    use everleaf_pool::Domain;

    use super::*;
    use crate::u64_tree::U64Tree;

    /// Closing asked for a session although this tree has nothing to make durable, and failed.
    #[test]
    fn a_pool_whose_sessions_are_all_taken_is_closed() {
        let pool = Pool::in_memory(1 << 20, 1 << 30, Domain::Process).expect("memory");
        let tree_pool: SingleTreePool<U64Tree> = SingleTreePool::create(pool).expect("room");
        let mut sessions = vec![];
        let refusal = loop {
            match tree_pool.heap().session() {
                Ok(session) => sessions.push(session),
                Err(error) => break error,
            }
        };
        assert!(matches!(refusal, AllocError::TooManySessions(_)), "{refusal}");
        assert!(sessions.len() > 100, "only {} were to be had", sessions.len());
        tree_pool.close().expect("nothing is deferred");
    }
}
