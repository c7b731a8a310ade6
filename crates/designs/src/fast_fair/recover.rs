//! Opening: nothing but the root object is read. What a crash left is mended by the threads that
//! come by.
//!
//! The allocator has to learn which records are nodes; that is a walk along the levels.

use everleaf_alloc::{AllocError, Recovery, Session};
use everleaf_index::{IndexError, RootObject};
use everleaf_machine::Machine;

use super::FastFair;
use super::layout::{VARIANT_WORD, tag};
use super::variant::Variant;
use crate::node::fast_node::Node;

impl<V: Variant, M: Machine> FastFair<V, M> {
    pub(super) fn open_in(
        session: &mut Session<M>,
        recovery: &Recovery<M>,
        root: u32,
    ) -> Result<Self, IndexError> {
        let heap = session.heap().clone();
        let root_object = RootObject::open(&heap, recovery, root, tag::<V>())?;
        let found = root_object.word(VARIANT_WORD).read_private();
        if found != u64::from(V::KIND) {
            let what =
                format!("the nodes are of variant {found}, and this is {} ({})", V::NAME, V::KIND);
            return Err(AllocError::Corrupt { offset: 0, what }.into());
        }
        let mut tree = Self::assemble(heap, root_object)?;
        if V::BUFFERED || V::CACHED {
            let built = tree.build_volatile(session, recovery);
            built.inspect_err(|_| tree.free_volatile(session))?;
        }
        Ok(tree)
    }

    /// Fills what is in DRAM. Marks what the tree uses.
    fn build_volatile(
        &mut self,
        session: &mut Session<M>,
        recovery: &Recovery<M>,
    ) -> Result<(), IndexError> {
        if V::OUT_OF_PLACE {
            self.unlink_moved()?;
        }
        let mut leaves = vec![];
        self.walk(|node, offset| {
            recovery.mark_record(offset, V::NODE_SIZE)?;
            if node.level() == 0 {
                self.adopt_leaf(session, node)?;
                leaves.push((self.nodes.low(node), offset));
            }
            Ok(())
        })?;
        if leaves.windows(2).any(|pair| pair[0].0 >= pair[1].0) {
            return Err(self.damage(self.root()?, "leaves of a tree are out of order").into());
        }
        self.leaves.add(0, leaves.len() as i64);
        self.load_cache(session, &leaves)?;
        Ok(self.restore_buffers(recovery)?)
    }

    /// Calls `visit` with every node and its level, level by level from the root, each level from
    /// left to right. `visit` is called before anything of the node but its place is relied on.
    /// Nobody else is active.
    pub(super) fn walk(
        &self,
        mut visit: impl FnMut(Node<V, M>, u64) -> Result<(), AllocError>,
    ) -> Result<(), AllocError> {
        let mut first = self.root()?;
        let mut level = None;
        loop {
            let mut next = Some(first);
            let expected = level;
            while let Some(node) = next {
                visit(node, self.nodes.offset(node))?;
                if expected.is_some_and(|expected| node.level() != expected) {
                    return Err(self.damage(node, "a node is on the wrong level"));
                }
                next = self.nodes.follow(node.sibling().read_private())?;
            }
            if first.level() == 0 {
                return Ok(());
            }
            level = Some(first.level() - 1);
            first = self.nodes.at(first.leftmost().read_private())?;
        }
    }

    pub(super) fn damage(&self, node: Node<V, M>, what: &str) -> AllocError {
        AllocError::Corrupt { offset: self.nodes.offset(node), what: what.to_string() }
    }

    /// Marks all nodes.
    pub(super) fn mark_nodes(&self, used: &Recovery<M>) -> Result<(), AllocError> {
        self.mark_logs(used)?;
        self.walk(|_, offset| used.mark_record(offset, V::NODE_SIZE))
    }

    /// Gives everything back; nobody can reach the tree any more.
    pub(super) fn free_nodes(&self, session: &mut Session<M>) {
        let mut found = vec![];
        // What damage cuts off is found free at the next open.
        let _ = self.walk(|_, offset| {
            found.push(offset);
            Ok(())
        });
        for offset in found {
            session.free_record(offset, V::NODE_SIZE);
        }
        self.free_logs(session);
        self.free_volatile(session);
        self.root_object.free(session);
    }
}
