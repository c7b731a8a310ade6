//! Opening at once: leaves are found by their headers, and the volatile half of each is made when an operation
//! first comes to it, or in the background.
//!
//! Which blocks are live, and the order of the leaves, is decided as ever: one line of each block is read, and what
//! a crash left of a replacement is ended. But an inner node gets, in place of the leaf, what *stands in* for it:
//! the number of no leaf, [`NO_LEAF`](super::layout::NO_LEAF), with the leaf's number where its placement would be.
//! At that number is a leaf that holds nothing, has no free position and is replaced for ever. So an operation that
//! comes there looks again, as at any replaced leaf ([`HashedLeafTree::resolve`]), and only that cold path knows of
//! leaves that opening has left: a search of a leaf that is there has no instruction more.
//!
//! ```text
//!   inner node   stand-in of X --restore--> X        as at an installation, under the node's lock if it is free
//!   Cold(X)      0 --fences, fingerprints--> RESTORED        by any thread, any number of times
//! ```
//!
//! No thread waits, except one that counts all keys, until those of all leaves are counted, and those that come to a
//! leaf that a crash left frozen while another thread thaws it: the thread that comes to X makes it. All that do so
//! read the same entries, since none is changed before `RESTORED`, and store the same bytes;
//! one that reads later than that, and so perhaps a change, sees `RESTORED` behind its reads and stores nothing. What
//! is stored late is what was stored before:
//! - an entry that a crash left half done is mended by an exchange of what was read, which does not come back;
//! - a fingerprint that was not 0 at `RESTORED` is stored again at worst over the mark of a removal, which is a hint;
//! - fences and the prefix are exchanged for 0, once.
//!
//! What a crash left frozen would come back: it is thawed to what it was, and the next replacement freezes it to what
//! it is. So it is thawed by a thread that has a lock and finds the leaf not `RESTORED`. A thread without the lock that
//! finds a frozen position waits for it; one that finds none has seen all of them thawed, if there were any, and may
//! tell `RESTORED` before the one that has the lock: that one has no frozen position left to exchange.
//!
//! Invariants, besides those of `mod.rs`:
//! - HL9 entries, flags (but `RESTORED`) and successor of a leaf do not change before it is `RESTORED`; then it is as
//!   recovery would have made it (HL6);
//! - HL10 a leaf's place in the slab is zero before it is restored: no leaf had its number since the slab was made;
//! - HL11 the range of a leaf that is not restored is fixed: it is not merged, and what its neighbours do leaves their
//!   fences where they are.
//!
//! | operation | linearizes at | durable |
//! |---|---|---|
//! | restoration | no effect on contents | what was mended, when it returns; until then a crash has it mended again |

use std::sync::Arc;

use everleaf_alloc::{AllocError, LateMarks, Mark, Recovery, Session};
use everleaf_machine::{Atomic, LINE_SIZE, Machine, Ordering, Pair};

use super::layout::{DEAD, FREEZING, LeafId, LeafShape, NO_LEAF, REPLACED, RESTORED};
use super::placement::Placement;
use super::recover::{Survey, damaged};
use super::{HashedLeafTree, Slab};
use crate::kind::Kind;
use crate::nbtree::inner_tree::Path;
use crate::nbtree::layout::owner_parts;
use crate::nbtree::recover::{LiveBlocks, Task, sort_blocks};
use crate::nbtree::state::holds;

/// Leaves that are restored in one go when all are wanted.
const SHARE: usize = 256;

impl<K: Kind<M>, G: LeafShape, M: Machine> HashedLeafTree<K, G, M> {
    /// The tree with this id from its live blocks, whose leaves are restored later. `slab` was made for that
    /// ([`Slab::zeroed`]). What entries refer to is marked in `late`, of the same recovery; without it they refer to
    /// nothing.
    pub(crate) fn open_at_once(
        session: &mut Session<M>,
        recovery: &Recovery<M>,
        id: u32,
        live: LiveBlocks,
        slab: Arc<Slab<G, M>>,
        late: Option<Arc<LateMarks<M>>>,
    ) -> Result<Self, AllocError> {
        let heap = session.heap().clone();
        let mut tree = Self::assemble(heap.clone(), id, slab);
        tree.opened_at_once = true;
        tree.late = late;
        let tasks = sort_blocks::<K, M>(&heap, recovery, live)?;
        tree.make_no_leaf()?;
        let mut children = Vec::with_capacity(tasks.len());
        for Task { low, block, .. } in &tasks {
            let leaf = LeafId::of_block::<G>(*block, Placement::HASHED);
            // Later nobody can be refused memory for it.
            tree.slab.prepare(leaf)?;
            children.push((*low, LeafId::stand_in(leaf.number).as_child()));
        }
        tree.leaves.add(0, tasks.len() as i64);
        tree.unrestored.add(0, tasks.len() as i64);
        if let Some(late) = &tree.late {
            late.owe(tasks.len() as u64);
        }
        tree.inner.set_root(tree.inner.build_levels(session, children)?);
        Ok(tree)
    }

    /// What stand-ins lead to: nothing is there, nothing can be added, and a thread that is told so looks again.
    fn make_no_leaf(&self) -> Result<(), AllocError> {
        let none = LeafId::stand_in(NO_LEAF);
        self.slab.prepare(none)?;
        self.begin_leaf(none, 0, 0, 0, &[[DEAD; LINE_SIZE]; 4], REPLACED);
        Ok(())
    }

    /// Leaves that opening has left to be restored.
    pub(crate) fn unrestored_leaves(&self) -> u64 {
        self.unrestored.sum()
    }

    /// The leaf that a child of level 1 leads to or stands in for.
    pub(super) fn leaf_behind(&self, child: *mut ()) -> LeafId {
        let leaf = LeafId::of_child(child);
        match leaf.stands_in_for() {
            None => leaf,
            Some(number) => {
                let found = LeafId { number, placement: Placement::HASHED };
                self.kept_leaf(found.block::<G>())
            }
        }
    }

    /// Whether a leaf that opening has left was restored since.
    pub(super) fn is_restored(&self, leaf: LeafId) -> bool {
        // Acquire: its fingerprints and fences; pairs with the release in `restore_leaf`.
        self.cold(leaf).flags.load(Ordering::Acquire) & RESTORED != 0
    }

    /// The leaf that a path and its child lead to, restored.
    ///
    /// # Errors
    /// The leaf is damaged.
    #[inline(always)]
    pub(super) fn leaf_at(&self, path: &Path<M>, child: *mut ()) -> Result<LeafId, AllocError> {
        let leaf = LeafId::of_child(child);
        if leaf.stands_in_for().is_none() { Ok(leaf) } else { self.restore(path, child) }
    }

    #[cold]
    #[inline(never)]
    fn restore(&self, path: &Path<M>, child: *mut ()) -> Result<LeafId, AllocError> {
        let leaf = self.leaf_behind(child);
        let (low, high) = path.bounds::<K>();
        self.restore_leaf(leaf, low, high)?;
        // If the lock is not free, the next thread that comes tries again.
        let (parent, index) = path.step(path.len() - 1);
        if M::mutant("hashed.restore_unlocked") {
            parent.set_child(index, leaf.as_child());
        } else if parent.try_lock() {
            if parent.child(index) == child || M::mutant("hashed.restore_over_others") {
                parent.set_child(index, leaf.as_child());
            }
            parent.unlock();
        } else {
            M::mark("hashed.restore.busy");
        }
        Ok(leaf)
    }

    /// Makes the volatile half of a leaf for keys from `low` to `high`, unless it is there.
    ///
    /// # Errors
    /// The leaf is damaged.
    pub(super) fn restore_leaf(&self, leaf: LeafId, low: u64, high: u64) -> Result<(), AllocError> {
        if self.is_restored(leaf) {
            return Ok(());
        }
        M::mark("hashed.restore");
        if self.make_restored(leaf, low, high, false)? {
            return Ok(());
        }
        let _alone = self.thawing.lock();
        if !self.is_restored(leaf) {
            self.make_restored(leaf, low, high, true)?;
        }
        Ok(())
    }

    /// [`Self::restore_leaf`] of one that is not restored, unless it is to be thawed first: then it returns false, but
    /// for the thread that `thaws`, and has the lock for it.
    ///
    /// # Errors
    /// The leaf is damaged.
    fn make_restored(
        &self,
        leaf: LeafId,
        low: u64,
        high: u64,
        thaws: bool,
    ) -> Result<bool, AllocError> {
        let early = M::mutant("hashed.restore_tells_first");
        if early {
            // AcqRel: a planted bug.
            self.cold(leaf).flags.fetch_or(RESTORED, Ordering::AcqRel);
        }
        let mut survey = Survey::<G>::new(thaws);
        let (mut damage, mut wrong) = (None, None);
        // Position, what it has, what it gets.
        let mut mends: Vec<(usize, Pair, Pair)> = vec![];
        let mut marks = vec![];
        let writable = !self.heap.pool().is_read_only();
        for position in G::HEADER_POSITIONS..G::POSITIONS {
            let entry = self.entry(leaf, position).load();
            if damage.is_none() {
                damage = self.damage(low, high, entry);
            }
            if let Some(mended) = survey.take(self, leaf, low, position, entry)
                && writable
            {
                mends.push((position, entry, mended));
            }
            match self.late_mark(entry) {
                Ok(mark) => marks.extend(mark),
                Err(wild) => wrong = wrong.or(Some(wild)),
            }
        }
        let is_twice = marks.iter().any(Mark::is_set) || Mark::are_twice(&marks);
        if is_twice {
            // Acquire: `RESTORED` of the leaf behind which the mark was set; pairs with the release fence in
            // `publish_restored`. If ours is not restored even then, it was another, and both lead to the record.
            M::fence(Ordering::Acquire);
        }
        // What was changed since it was restored is told by it.
        if !early && self.is_restored(leaf) && !M::mutant("hashed.restore_looks_once") {
            M::mark("hashed.restore.late");
            return Ok(true);
        }
        if survey.is_frozen() && writable && !M::mutant("hashed.restore_keeps_frozen") {
            return Ok(false);
        }
        let (owner, skip) = owner_parts(self.header(leaf).owner.read_private());
        let is_skip = K::HAS_TAILS || skip == 0;
        if self.header(leaf).low.read_private() != low || owner != self.id || !is_skip {
            damage = Some("its low fence or its tree is not that of its place");
        }
        if let Some(what) = damage {
            return Err(damaged::<G>(leaf, what));
        }
        if is_twice && wrong.is_none() {
            wrong = Some(damaged::<G>(leaf, "a record is in use twice"));
        }
        if let Some(wrong) = wrong {
            return Err(wrong);
        }
        for (position, entry, mended) in &mends {
            let cell = self.entry(leaf, *position);
            if M::mutant("hashed.restore_mends_blindly") {
                cell.store(*mended);
            } else {
                // It fails if somebody else has mended it, perhaps not yet durably.
                let _ = cell.claim(*entry, *mended);
            }
            if !M::mutant("hashed.restore_no_flush") {
                self.medium.flush(cell.as_ptr(), 16);
            }
        }
        if !mends.is_empty() {
            // Persist: what was mended, before the pool is sealed, whose sums have it; that waits for our return. Not
            // before others act on it: one that restores beside us may have read what we exchanged, and tell `RESTORED`
            // first. They need it not: a crash brings back what was half done, to be mended again as it was here; and
            // a thread that claims such a position flushes the line that it shares with what we wrote.
            self.medium.drain();
        }
        let (keys, frozen) = (survey.keys(), survey.is_frozen());
        let bytes = survey.fingerprints::<M>();
        self.publish_restored(leaf, (low, high, skip as u64), &bytes, frozen, (keys, marks))?;
        Ok(true)
    }

    /// The mark of what an entry refers to, if it holds a key and refers to anything that opening has not marked.
    ///
    /// # Errors
    /// There cannot be what it refers to. (Nobody follows the reference before the leaf is `RESTORED`.)
    fn late_mark(&self, entry: Pair) -> Result<Option<Mark<'_, M>>, AllocError> {
        match &self.late {
            Some(late) if holds(K::state(entry)) => K::entry_mark(late.recovery(), entry),
            _ => Ok(None),
        }
    }

    /// Stores the volatile half of a leaf, and says that it is there. The first thread that does so counts its
    /// keys, and marks what they refer to.
    ///
    /// # Errors
    /// Some of that was marked since it was read: another leaf that was restored at the same time refers to it, too.
    /// This one is restored all the same, and what has no mark is never given out.
    fn publish_restored(
        &self,
        leaf: LeafId,
        (low, high, skip): (u64, u64, u64),
        fingerprints: &[[u8; LINE_SIZE]; 4],
        frozen: bool,
        (keys, marks): (u64, Vec<Mark<'_, M>>),
    ) -> Result<(), AllocError> {
        let cold = self.cold(leaf);
        self.slab.note_use(leaf);
        for (chunk, bytes) in fingerprints.iter().enumerate().take(G::CHUNKS) {
            let line = self.fingerprints(leaf, chunk);
            for (within, byte) in bytes.iter().enumerate().filter(|(_, byte)| **byte != 0) {
                // Relaxed: before the release below.
                line.store(within, *byte, Ordering::Relaxed);
            }
        }
        let set_once = |word: &Atomic<u64, M>, value: u64| {
            if value == 0 && !M::mutant("hashed.restore_sets_zero") {
                return;
            }
            // Release, acquire on failure: a thread that was faster has stored the same, and one that comes behind the
            // release below comes behind that store, too.
            let _ = word.compare_exchange(0, value, Ordering::Release, Ordering::Acquire);
        };
        set_once(&cold.low, low);
        set_once(&cold.high, if M::mutant("hashed.restore_without_high") { 0 } else { high });
        set_once(&cold.skip, skip);
        let flags = RESTORED | if frozen { FREEZING } else { 0 };
        let relaxed = M::mutant("hashed.restored_relaxed");
        // AcqRel: as said below. Relaxed: a planted bug.
        let order = if relaxed { Ordering::Relaxed } else { Ordering::AcqRel };
        // AcqRel: what was stored above; pairs with `is_restored`, and through the inner node's child with
        // all that come to the leaf. One of all that get here counts it.
        let before = cold.flags.fetch_or(flags, order);
        if before & RESTORED != 0 && !M::mutant("hashed.restore_counts_all") {
            M::mark("hashed.restore.together");
            return Ok(());
        }
        self.keys.add(usize::MAX, keys as i64);
        // Release: `RESTORED` before the marks; pairs with the acquire fence in `restore_leaf`.
        M::fence(Ordering::Release);
        // These were read before anybody could change the leaf. By now a record may have been freed, and be in use
        // again: it is marked all the same, for it is in somebody's list or leaf (`LateMarks`).
        let skips = M::mutant("hashed.restore_marks_nothing");
        let marked = marks.into_iter().filter(|_| !skips).map(Mark::set).fold(Ok(()), Result::and);
        if let (Some(late), Ok(())) = (&self.late, &marked) {
            late.note_marked(1);
        }
        // Release: a thread that reads the second finds the first; pairs with the fence in `restore_all`.
        M::fence(Ordering::Release);
        self.unrestored.add(usize::MAX, -1);
        marked
    }

    /// The leaf that a child of level 1 stands in for, if that is not restored, and taken off those that are owed:
    /// for the thread that frees it when none can reach the tree any more. What its entries refer to has no mark, and
    /// is free when all marks are there: no other may free it.
    pub(super) fn give_up_unrestored(&self, child: *mut ()) -> Option<LeafId> {
        LeafId::of_child(child).stands_in_for()?;
        let leaf = self.leaf_behind(child);
        if self.is_restored(leaf) {
            return None;
        }
        M::mark("hashed.restore.never");
        self.unrestored.add(usize::MAX, -1);
        if let Some(late) = &self.late {
            late.note_marked(1);
        }
        Some(leaf)
    }

    /// Restores the next `leaves` leaves from that of the fence or key `from` on, or from the first; gives the fence
    /// to go on with, if there are more. For threads in the background: others may be at work, and
    /// [`Self::unrestored_leaves`] says how far it has come. Leaves that are damaged are passed, and told.
    pub(crate) fn restore_leaves(
        &self,
        session: &mut Session<M>,
        from: Option<&K::Kept>,
        leaves: usize,
        damaged: &mut Vec<AllocError>,
    ) -> Option<K::Kept> {
        if !self.opened_at_once || self.unrestored.sum() == 0 {
            return None;
        }
        let mut next = None;
        for _ in 0..leaves {
            // Pinned for one leaf: what others give up meanwhile can be used again soon.
            let _pinned = session.pinned();
            let (path, child) = match next.as_ref().or(from) {
                Some(kept) => self.inner.descend_path(K::kept_as_key(kept), false),
                None => self.inner.descend_first(),
            };
            self.ask_for_next(&path);
            if let Err(damage) = self.leaf_at(&path, child) {
                damaged.push(damage);
            }
            match path.bounds::<K>() {
                (_, 0) => return None,
                // Before the pin ends: then the fence may be gone.
                (_, high) => next = Some(K::keep_fence(self.base, high)),
            }
        }
        next.or_else(|| from.cloned())
    }

    /// Asks for the entries of the leaf behind the one that a path leads to, if it will have to be restored.
    fn ask_for_next(&self, path: &Path<M>) {
        if M::SIMULATED {
            return;
        }
        let (parent, index) = path.step(path.len() - 1);
        if index + 1 < usize::from(parent.count) {
            let next = LeafId::of_child(parent.child(index + 1));
            if let Some(number) = next.stands_in_for() {
                self.prefetch_entries(LeafId { number, placement: Placement::HASHED });
            }
        }
    }

    /// Restores all leaves that opening has left. Others may be at work.
    ///
    /// # Errors
    /// A leaf is damaged; all others are restored.
    pub(crate) fn restore_all(&self, session: &mut Session<M>) -> Result<(), AllocError> {
        let mut damaged = vec![];
        let mut next = self.restore_leaves(session, None, SHARE, &mut damaged);
        while let Some(fence) = next {
            next = self.restore_leaves(session, Some(&fence), SHARE, &mut damaged);
        }
        if let Some(first) = damaged.into_iter().next() {
            return Err(first);
        }
        // Others may have restored some, and be about to count their keys.
        let mut turns = 0;
        while self.unrestored.sum() != 0 {
            M::spin(turns);
            turns += 1;
        }
        // Acquire: the keys of all are counted; pairs with the fence in `publish_restored`.
        M::fence(Ordering::Acquire);
        Ok(())
    }

    /// Restores the leaves beside that of a path, and that one: what a merge looks at.
    ///
    /// # Errors
    /// A leaf is damaged.
    pub(super) fn restore_beside(&self, path: &Path<M>) -> Result<(), AllocError> {
        if !self.opened_at_once {
            return Ok(());
        }
        let (parent, index) = path.step(path.len() - 1);
        let last = usize::from(parent.count) - 1;
        for at in index.saturating_sub(1)..=last.min(index + 1) {
            self.leaf_at(&path.beside(at), parent.child(at))?;
        }
        Ok(())
    }
}
