//! A new tree, and recovery: the list is walked, and the tree in DRAM built over it.

use everleaf_alloc::{AllocError, Recovery, Session};
use everleaf_index::build::Tally;
use everleaf_index::{Geometry, IndexError, PoolBase, RootObject};
use everleaf_machine::{Atomic, Machine};

use super::UTree;
use super::layout::{HEAD_KEY, HEAD_WORD, NODE_SIZE, TAG, leaf_of};
use crate::node::inner::InnerTree;

impl<G: Geometry, M: Machine> UTree<G, M> {
    /// A tree whose inner tree leads nowhere yet.
    fn assemble(session: &mut Session<M>, root_object: RootObject<M>) -> Result<Self, IndexError> {
        let heap = session.heap().clone();
        let is_writable = !heap.pool().is_read_only();
        // Nobody locks anything in a pool that is open read-only: all locks count as open.
        let generation = if is_writable { heap.pool().next_id()? } else { u32::MAX };
        Ok(UTree {
            inner: InnerTree::load(session, &[(0, 0)])?,
            base: PoolBase::of(&heap),
            medium: heap.medium(),
            root_object,
            generation,
            is_writable,
            keys: Tally::new(0),
            given: Atomic::new(0),
            _heap: heap,
        })
    }

    /// Builds the inner tree over the nodes with these keys.
    fn load(&mut self, session: &mut Session<M>, nodes: &[(u64, u64)]) -> Result<(), AllocError> {
        let end = leaf_of(session.heap().pool().max_size());
        let inner = InnerTree::load_up_to(session, end, nodes)?;
        self.inner.free(session);
        self.inner = inner;
        Ok(())
    }

    pub(super) fn create_in(session: &mut Session<M>) -> Result<Self, IndexError> {
        let root_object = RootObject::create(session, TAG)?;
        let mut tree = match Self::assemble(session, root_object) {
            Ok(tree) => tree,
            Err(error) => {
                root_object.free(session);
                return Err(error);
            }
        };
        let made = session.allocate_record(NODE_SIZE).and_then(|head| {
            let loaded = tree.load(session, &[(HEAD_KEY, leaf_of(head))]);
            loaded.inspect_err(|_| session.free_record(head, NODE_SIZE)).map(|()| head)
        });
        let head = match made {
            Ok(head) => head,
            Err(error) => {
                tree.inner.free(session);
                root_object.free(session);
                return Err(error.into());
            }
        };
        let first = tree.node(head);
        first.build(tree.generation, 0, HEAD_KEY, 0);
        first.lock.unlock();
        // Persist: the node before the root object names it.
        tree.medium.persist(first.as_ptr(), NODE_SIZE);
        root_object.word(HEAD_WORD).write_private(head);
        // Persist: the root object before the directory names the tree.
        tree.medium.persist(root_object.word(0).as_ptr(), 16);
        Ok(tree)
    }

    pub(super) fn open_in(
        session: &mut Session<M>,
        recovery: &Recovery<M>,
        root: u32,
    ) -> Result<Self, IndexError> {
        let root_object = RootObject::open(session.heap(), recovery, root, TAG)?;
        let mut tree = Self::assemble(session, root_object)?;
        let mut nodes = vec![];
        let opened = tree
            .walk(recovery, &mut |offset, key| nodes.push((key, leaf_of(offset))))
            .and_then(|()| tree.load(session, &nodes));
        if let Err(error) = opened {
            tree.inner.free(session);
            return Err(error.into());
        }
        tree.keys.add(0, nodes.len() as i64 - 1);
        Ok(tree)
    }

    /// Marks all nodes of the list, and calls `visit` with place and key of each. Nobody else is active.
    pub(super) fn walk(
        &self,
        used: &Recovery<M>,
        visit: &mut dyn FnMut(u64, u64),
    ) -> Result<(), AllocError> {
        let mut offset = self.root_object.word(HEAD_WORD).read_private();
        let mut before = None;
        while offset != 0 {
            // A node that is there twice is refused: no list goes round.
            used.mark_record(offset, NODE_SIZE)?;
            let node = self.node(offset);
            let key = node.key();
            if before.map_or(key != HEAD_KEY, |before| key <= before) {
                let what = format!("a node with key {key} is at the wrong place of its list");
                return Err(AllocError::Corrupt { offset, what });
            }
            visit(offset, key);
            before = Some(key);
            offset = node.next();
        }
        if before.is_none() {
            let what = "a tree's root object names no list".to_string();
            return Err(AllocError::Corrupt { offset, what });
        }
        Ok(())
    }

    /// Gives everything back; nobody can reach the tree any more.
    pub(super) fn free_everything(&self, session: &mut Session<M>) {
        let mut offset = self.root_object.word(HEAD_WORD).read_private();
        while offset != 0 {
            let next = self.node(offset).next();
            session.free_record(offset, NODE_SIZE);
            offset = next;
        }
        self.inner.free(session);
        self.root_object.free(session);
    }
}
