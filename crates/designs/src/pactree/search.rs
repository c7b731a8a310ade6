//! From a key to its data node, and lookups.

use everleaf_machine::Machine;

use super::PacTree;
use super::layout::Node;
use super::variant::Variant;
use crate::node::version_lock::{Retry, Version};

/// How a search goes on that did not find the data node for its key.
#[derive(Clone, Copy, Debug)]
pub(super) enum Elsewhere {
    /// At the data node there: the search layer is behind.
    At(u64),
    /// Where it is, when that has changed.
    Here(Retry),
}

impl<V: Variant, const BITS: u32, M: Machine> PacTree<V, BITS, M> {
    /// The data node at an offset: one that the search layer or the list led to, or a new one.
    #[inline(always)]
    pub(super) fn node(&self, offset: u64) -> &Node<M> {
        let start = self.base.start().wrapping_add(offset as usize).cast();
        // SAFETY: offsets come from the search layer, the list and the log, which recovery has checked
        // and the running tree writes, and from the allocator: a record of a node's size, 64-byte
        // aligned, inside the pool, made of atomic words. One that was reclaimed meanwhile is still
        // memory of the pool.
        unsafe { &*start }
    }

    /// The data node for a key, as the search layer knows it; its first lines are asked for.
    #[inline(always)]
    pub(super) fn seek(&self, key: u64) -> u64 {
        let offset = self.search.find_le(key).unwrap_or(self.head);
        let start = self.node(offset).as_ptr();
        M::prefetch(start);
        M::prefetch(start.wrapping_add(64));
        offset
    }

    /// A view of a data node, if it is the one for the key: good as long as the version is current.
    #[inline(always)]
    pub(super) fn view(&self, node: &Node<M>, key: u64) -> Result<Version, Elsewhere> {
        let version = match node.lock.stable_or_wait(self.generation) {
            Ok(version) => version,
            // Merged away: its left neighbour has the keys.
            Err(Retry::Now) => return Err(Elsewhere::At(node.prev())),
            Err(retry) => return Err(Elsewhere::Here(retry)),
        };
        match self.check_range(node, key) {
            None => Ok(version),
            Some(at) if self.is_current(node, version) => Err(Elsewhere::At(at)),
            Some(_) => Err(Elsewhere::Here(Retry::Now)),
        }
    }

    /// The neighbour to look at if the key is not in a data node's range, as far as a view of it says.
    #[inline(always)]
    pub(super) fn check_range(&self, node: &Node<M>, key: u64) -> Option<u64> {
        let (low, high) = (node.low(), node.high());
        if low <= key && key < high || M::mutant("pactree.no_range_check") {
            None
        } else if key < low || high <= low {
            Some(node.prev())
        } else {
            Some(node.next())
        }
    }

    #[inline(always)]
    pub(super) fn is_current(&self, node: &Node<M>, version: Version) -> bool {
        node.lock.validate(self.generation, version)
    }

    /// Goes where a search has to go on.
    #[inline(always)]
    pub(super) fn go(&self, elsewhere: Elsewhere, key: u64, offset: &mut u64, attempt: &mut u32) {
        match elsewhere {
            // No neighbour: what led here was torn.
            Elsewhere::At(0) => *offset = self.seek(key),
            Elsewhere::At(at) => {
                M::mark("pactree.hop");
                *offset = at;
            }
            Elsewhere::Here(retry) => {
                M::mark("pactree.read_again");
                retry.pause::<M>(attempt);
            }
        }
    }

    /// The value of `key`.
    ///
    /// *Linearizes at* the last load before the version is found unchanged.
    #[inline(always)]
    pub(super) fn read(&self, key: u64) -> Option<u64> {
        let mut attempt = 0;
        let mut offset = self.seek(key);
        loop {
            match self.try_read(self.node(offset), key) {
                Ok(value) => return value,
                Err(elsewhere) => self.go(elsewhere, key, &mut offset, &mut attempt),
            }
        }
    }

    #[inline(always)]
    fn try_read(&self, node: &Node<M>, key: u64) -> Result<Option<u64>, Elsewhere> {
        let version = self.view(node, key)?;
        let value = node.find(key).map(|slot| node.value(slot));
        let is_current = self.is_current(node, version);
        if is_current { Ok(value) } else { Err(Elsewhere::Here(Retry::Now)) }
    }
}
