//! A new tree, and recovery: changes that a crash cut are finished or taken back, and list and search
//! layer are walked, for the allocator. What the search layer has not learned stays in the log.

use std::marker::PhantomData;

use everleaf_alloc::{AllocError, Recovery, Session};
use everleaf_index::build::Tally;
use everleaf_index::{IndexError, PoolBase, RootObject};
use everleaf_machine::{LINE_SIZE, Machine};

use super::PacTree;
use super::layout::{HEAD_WORD, HIGH_MAX, LOG_WORD, NODE_SIZE, ROOT_WORD, TAG, VARIANT_WORD};
use super::log::Log;
use super::state::{Change, Kind};
use super::variant::Variant;
use crate::node::radix::RadixTree;

fn corrupt(offset: u64, what: impl Into<String>) -> AllocError {
    AllocError::Corrupt { offset, what: what.into() }
}

impl<V: Variant, const BITS: u32, M: Machine> PacTree<V, BITS, M> {
    const FITS: () = assert!(V::CAPACITY >= 2 && V::CAPACITY <= 64 && V::LAG < V::LOG_LENGTH);

    fn assemble(
        session: &Session<M>,
        root_object: RootObject<M>,
        head: u64,
        log: Log<M>,
    ) -> Result<Self, IndexError> {
        let () = Self::FITS;
        let heap = session.heap().clone();
        let is_writable = !heap.pool().is_read_only();
        // Nobody locks anything in a pool that is open read-only: all locks count as open.
        let generation = if is_writable { heap.pool().next_id()? } else { u32::MAX };
        Ok(PacTree {
            search: RadixTree::new(session, root_object, ROOT_WORD),
            log,
            medium: heap.medium(),
            base: PoolBase::of(&heap),
            root_object,
            head,
            generation,
            is_writable,
            keys: Tally::new(0),
            nodes: Tally::new(0),
            splits: Tally::new(0),
            _heap: heap,
            variant: PhantomData,
        })
    }

    pub(super) fn create_in(session: &mut Session<M>) -> Result<Self, IndexError> {
        let root_object = RootObject::create(session, TAG)?;
        let log = match Log::create(session, V::LOG_LENGTH) {
            Ok(log) => log,
            Err(error) => {
                root_object.free(session);
                return Err(error.into());
            }
        };
        let place = log.offset();
        let made = session.allocate_record(NODE_SIZE).map_err(IndexError::from).and_then(|head| {
            let tree = Self::assemble(session, root_object, head, log);
            tree.inspect_err(|_| session.free_record(head, NODE_SIZE))
        });
        let tree = match made {
            Ok(tree) => tree,
            Err(error) => {
                session.free_record(place, Log::<M>::size(V::LOG_LENGTH));
                root_object.free(session);
                return Err(error);
            }
        };
        let first = tree.node(tree.head);
        first.build(tree.medium, tree.generation, (0, HIGH_MAX), (0, 0), &[]);
        first.lock.unlock();
        root_object.word(VARIANT_WORD).write_private(u64::from(V::KIND));
        root_object.word(HEAD_WORD).write_private(tree.head);
        root_object.word(LOG_WORD).write_private(place);
        // A link of the root, without a node: that needs no space.
        tree.search.insert(session, &tree.search.seek(0), 0, tree.head)?;
        // Persist: the root object before the directory names the tree.
        tree.medium.persist(root_object.word(0).as_ptr(), 64);
        tree.nodes.add(session.stripe(), 1);
        Ok(tree)
    }

    pub(super) fn open_in(
        session: &mut Session<M>,
        recovery: &Recovery<M>,
        root: u32,
    ) -> Result<Self, IndexError> {
        let root_object = RootObject::open(session.heap(), recovery, root, TAG)?;
        let found = root_object.word(VARIANT_WORD).read_private();
        if found != u64::from(V::KIND) {
            let what = format!("the tree is of variant {found}, and this is {}", V::NAME);
            return Err(corrupt(0, what).into());
        }
        let log = root_object.word(LOG_WORD).read_private();
        recovery.mark_record(log, Log::<M>::size(V::LOG_LENGTH))?;
        let head = root_object.word(HEAD_WORD).read_private();
        let log = Log::at(session, log, V::LOG_LENGTH);
        let mut tree = Self::assemble(session, root_object, head, log)?;
        tree.replay(recovery)?;
        let mut nodes = 0;
        let keys = tree.walk(recovery, &mut |_| nodes += 1)?;
        tree.keys.add(0, keys as i64);
        tree.nodes.add(0, nodes);
        tree.mark_merged(recovery)?;
        tree.mark_search(recovery, &mut |_, _| {})?;
        Ok(tree)
    }

    /// Deals with the records of the log.
    fn replay(&mut self, recovery: &Recovery<M>) -> Result<(), IndexError> {
        for (place, stage, change) in self.log.left_over(V::LOG_LENGTH) {
            self.check_place(recovery, change.left)?;
            self.check_place(recovery, change.right)?;
            if stage.is_linked {
                self.log.adopt(place);
                continue;
            }
            if !self.is_writable {
                return Err(IndexError::ReadOnly);
            }
            let is_done = match change.kind {
                Kind::Split => self.finish_split(change),
                Kind::Merge => self.finish_merge(recovery, change)?,
            };
            if is_done {
                self.log.set_linked(place);
                self.log.adopt(place);
            } else {
                self.log.erase(place);
            }
        }
        Ok(())
    }

    /// Ends a split that was begun, if the list has the new node; otherwise nothing has happened.
    fn finish_split(&self, change: Change) -> bool {
        let (old, new) = (self.node(change.left), self.node(change.right));
        if old.next() != change.right || M::mutant("pactree.no_redo") {
            return false;
        }
        M::mark("pactree.finished_split");
        old.set_high(new.low());
        old.commit(old.slots_below(new.low()));
        self.link_back(new.next(), change.right);
        // Persist: line 0 before the record is linked (PT4).
        old.persist_heading(self.medium);
        true
    }

    /// Ends a merge that was begun, if the list goes past the right node; otherwise takes it back.
    fn finish_merge(&self, recovery: &Recovery<M>, change: Change) -> Result<bool, AllocError> {
        let (into, from) = (self.node(change.left), self.node(change.right));
        let is_done = into.next() != change.right;
        if is_done {
            M::mark("pactree.finished_merge");
            if into.next() != 0 {
                self.check_place(recovery, into.next())?;
            }
            self.link_back(into.next(), change.left);
            self.end_node(change.right);
        } else {
            M::mark("pactree.merge_rolled_back");
            into.commit(into.slots_below(from.low()));
            into.set_high(from.low());
        }
        // Persist: line 0 before the record is linked or erased (PT4).
        into.persist_heading(self.medium);
        Ok(is_done)
    }

    /// Refuses a place where no data node can be.
    fn check_place(&self, recovery: &Recovery<M>, offset: u64) -> Result<(), AllocError> {
        let room = recovery.record_room(offset).filter(|_| offset.is_multiple_of(LINE_SIZE as u64));
        if room.is_some_and(|room| room >= NODE_SIZE) {
            Ok(())
        } else {
            Err(corrupt(offset, "a data node was expected here"))
        }
    }

    /// Marks the nodes of the list, counts them, and calls `visit` with the place of each. Returns the
    /// number of keys. Nobody else is active.
    pub(super) fn walk(
        &self,
        used: &Recovery<M>,
        visit: &mut dyn FnMut(u64),
    ) -> Result<u64, AllocError> {
        let (mut keys, mut low, mut before) = (0, 0, 0);
        let mut offset = self.head;
        while offset != 0 {
            self.check_place(used, offset)?;
            used.mark_record(offset, NODE_SIZE)?;
            let node = self.node(offset);
            let (next, high) = (node.next(), node.high());
            if node.low() != low || high <= low || node.prev() != before {
                let what = format!("a data node for {} to {high} stands at {low}", node.low());
                return Err(corrupt(offset, what));
            }
            keys += node.count() as u64;
            visit(offset);
            (low, before, offset) = (high, offset, next);
        }
        if low != HIGH_MAX {
            return Err(corrupt(before, format!("the list of data nodes ends at {low}")));
        }
        Ok(keys)
    }

    /// Marks the nodes that were merged away and that the search layer may still lead to.
    pub(super) fn mark_merged(&self, used: &Recovery<M>) -> Result<(), AllocError> {
        let merged = self.log.all_linked().into_iter().filter(|change| change.kind == Kind::Merge);
        merged.into_iter().try_for_each(|change| used.mark_record(change.right, NODE_SIZE))
    }

    /// Marks the search layer, and calls `visit` with what it leads to.
    pub(super) fn mark_search(
        &self,
        used: &Recovery<M>,
        visit: &mut dyn FnMut(u64, u64),
    ) -> Result<(), AllocError> {
        self.search.mark(used, &mut |offset| {
            self.check_place(used, offset)?;
            let low = self.node(offset).low();
            visit(low, offset);
            Ok(low)
        })
    }

    /// Gives everything back; nobody can reach the tree any more.
    pub(super) fn free_everything(&self, session: &mut Session<M>) {
        for change in self.log.all_linked() {
            if change.kind == Kind::Merge {
                session.free_record(change.right, NODE_SIZE);
            }
        }
        let mut offset = self.head;
        while offset != 0 {
            let next = self.node(offset).next();
            session.free_record(offset, NODE_SIZE);
            offset = next;
        }
        self.search.free_nodes(session, &mut |_, _| {});
        session.free_record(self.log.offset(), Log::<M>::size(V::LOG_LENGTH));
        self.root_object.free(session);
    }
}
