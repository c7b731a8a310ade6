//! Recovery and check: every node and record once, in order, with what is wrong about it.

use everleaf_alloc::{AllocError, Recovery};
use everleaf_machine::{Atomic, Machine, Ordering};

use super::{DIRTY, Header, Link, Links, RadixTree};

/// What is called for each record: marks it, and gives its key.
pub type MarkLeaf<'v> = dyn FnMut(u64) -> Result<u64, AllocError> + 'v;

impl<const BITS: u32, M: Machine> RadixTree<BITS, M> {
    /// Marks all nodes as in use, calls `leaf` for each record in order, and cleans the links. Nobody
    /// else is active.
    ///
    /// # Errors
    /// Damage: a node or record that cannot be one or is there twice, keys that are not below their
    /// node.
    pub fn mark(&self, used: &Recovery<M>, leaf: &mut MarkLeaf<'_>) -> Result<(), AllocError> {
        self.mark_links(used, self.root(), None, leaf)
    }

    fn mark_links(
        &self,
        used: &Recovery<M>,
        links: &Links<M>,
        above: Option<Header>,
        leaf: &mut MarkLeaf<'_>,
    ) -> Result<(), AllocError> {
        for (index, link) in links.iter().enumerate() {
            match self.clean(link) {
                Link::Empty => {}
                Link::Leaf(record) => {
                    let key = leaf(record)?;
                    Self::check_place(record, key, above, index)?;
                }
                Link::Node(node) => {
                    used.mark_record(node, Self::NODE_SIZE)?;
                    let header = self.header(node);
                    Self::check_place(node, header.0, above, index)?;
                    self.check_node(node, header, above)?;
                    self.mark_links(used, self.links(node), Some(header), leaf)?;
                }
            }
        }
        Ok(())
    }

    /// What a link says; it is not dirty any more.
    fn clean(&self, link: &Atomic<u64, M>) -> Link {
        let word = link.read_private();
        if word & DIRTY != 0 && self.is_writable {
            // Relaxed: nobody else is active. What a crash left is durable.
            link.store(word & !DIRTY, Ordering::Relaxed);
        }
        Link::of(word)
    }

    /// Refuses bits that a search would not look for behind this link.
    fn check_place(
        offset: u64,
        bits: u64,
        above: Option<Header>,
        index: usize,
    ) -> Result<(), AllocError> {
        let at = above.map_or(0, Header::at);
        let is_found =
            above.is_none_or(|header| header.covers(bits)) && Self::chunk(bits, at) == index;
        if is_found { Ok(()) } else { Err(corrupt(offset, "it is below the wrong node")) }
    }

    /// Refuses a node with a header that nobody wrote, or with one link (R3).
    fn check_node(
        &self,
        node: u64,
        header: Header,
        above: Option<Header>,
    ) -> Result<(), AllocError> {
        let least = above.map_or(BITS, |above| above.at() + BITS);
        if header.0 == 0 || !header.at().is_multiple_of(BITS) || header.at() < least {
            return Err(corrupt(node, "a node of a radix tree has no such header"));
        }
        let is_used = |link: &&Atomic<u64, M>| Link::of(link.read_private()) != Link::Empty;
        if self.links(node).iter().filter(is_used).count() < 2 {
            return Err(corrupt(node, "a node of a radix tree has fewer than two links"));
        }
        Ok(())
    }
}

fn corrupt(offset: u64, what: &str) -> AllocError {
    AllocError::Corrupt { offset, what: what.into() }
}
