//! Trees made from sorted pairs.

use std::sync::Arc;

use everleaf_alloc::Session;
use everleaf_machine::Machine;

use super::{Named, Trees};
use crate::api::error::IndexError;
use crate::bytes::entry::BytesKind;
use crate::bytes::load::Sink;
use crate::bytes::tree::BytesTree;
use crate::geometry::Geometry;
use crate::kind::U64Kind;
use crate::pool_trees::nodes::BytesNodes;
use crate::pool_trees::tree_cell::CellTree;
use crate::u64_tree::U64Tree;

/// A tree of byte strings to which no name leads yet.
#[must_use = "it takes space and leads to nothing"]
pub struct BuiltTree<G: Geometry, M: Machine>(BytesNodes<G, M>);

impl<G: Geometry, M: Machine> Trees<G, M> {
    /// Makes an integer tree from pairs in strictly ascending key order; all or nothing, also
    /// across a crash.
    ///
    /// # Errors
    /// The name is taken, the input is not sorted, or there is no space; then there is no tree.
    pub fn load_u64_tree(
        &self,
        name: &str,
        pairs: impl IntoIterator<Item = (u64, u64)>,
    ) -> Result<Arc<U64Tree<G, M>>, IndexError> {
        let _loading = self.begin_load(None);
        let mut session = self.heap.session()?;
        let id = self.heap.pool().next_id()?;
        let design = self.new_design()?;
        let tree = U64Tree::load(&mut session, &design, id, pairs)?;
        let _busy = self.maintenance.lock();
        let mut named = self.named.lock();
        let root = self.publish(&mut session, name, design.code::<U64Kind>(), &tree)?;
        let tree = Arc::new(U64Tree::new(self.heap.clone(), root, tree));
        named.push((name.to_string(), Named::U64(tree.clone())));
        Ok(tree)
    }

    /// Makes a byte-string tree from pairs in strictly ascending key order; all or nothing, also
    /// across a crash.
    ///
    /// # Errors
    /// As [`Self::load_u64_tree`].
    pub fn load_bytes_tree<Key: AsRef<[u8]>, Value: AsRef<[u8]>>(
        &self,
        name: &str,
        pairs: impl IntoIterator<Item = (Key, Value)>,
    ) -> Result<Arc<BytesTree<G, M>>, IndexError> {
        self.load_expiring(name, pairs.into_iter().map(|(key, value)| (key, value, 0)))
    }

    /// As [`Self::load_bytes_tree`], with the time at which each key expires, in milliseconds since
    /// 1970-01-01 UTC; 0 for never.
    ///
    /// # Errors
    /// As [`Self::load_u64_tree`].
    pub fn load_expiring<Key: AsRef<[u8]>, Value: AsRef<[u8]>>(
        &self,
        name: &str,
        pairs: impl IntoIterator<Item = (Key, Value, u64)>,
    ) -> Result<Arc<BytesTree<G, M>>, IndexError> {
        let _loading = self.begin_load(None);
        let mut session = self.heap.session()?;
        let built = self.build_bytes_tree(&mut session, pairs)?;
        self.publish_bytes_tree(&mut session, name, built, |_| ())
    }

    /// Builds a tree from pairs as [`Self::load_expiring`] does, which has no name yet. Should the
    /// process die before it gets one, its space is free again. The caller has said that it loads
    /// ([`Self::begin_load`]), until the tree has its name and `session` is given back: a check would call
    /// the tree leaked.
    ///
    /// # Errors
    /// As [`Self::load_u64_tree`].
    pub fn build_bytes_tree<Key: AsRef<[u8]>, Value: AsRef<[u8]>>(
        &self,
        session: &mut Session<M>,
        pairs: impl IntoIterator<Item = (Key, Value, u64)>,
    ) -> Result<BuiltTree<G, M>, IndexError> {
        let id = self.heap.pool().next_id()?;
        let design = self.new_design()?;
        Ok(BuiltTree(BytesTree::load(session, &design, id, pairs)?))
    }

    /// Gives a tree that was built its name. `note` is shown the tree before anybody else can find it.
    ///
    /// # Errors
    /// The name is taken; then the tree is gone.
    pub fn publish_bytes_tree(
        &self,
        session: &mut Session<M>,
        name: &str,
        built: BuiltTree<G, M>,
        note: impl FnOnce(&Arc<BytesTree<G, M>>),
    ) -> Result<Arc<BytesTree<G, M>>, IndexError> {
        let _busy = self.maintenance.lock();
        let mut named = self.named.lock();
        let root = self.publish(session, name, built.0.design().code::<BytesKind>(), &built.0)?;
        let tree = Arc::new(BytesTree::new(self.heap.clone(), root, built.0));
        note(&tree);
        named.push((name.to_string(), Named::Bytes(tree.clone())));
        Ok(tree)
    }

    /// As [`Self::load_expiring`], by several threads at once: `feed(i, sink)` gives the sink the pairs
    /// of partition `i`, each with the time at which it expires. Partition 0 has the keys below `lows[0]`,
    /// partition `i` those from `lows[i - 1]` on and below `lows[i]`; `lows` ascend strictly.
    ///
    /// # Errors
    /// As [`Self::load_u64_tree`], and what `feed` answers.
    pub fn load_partitions<E: From<IndexError> + Send>(
        &self,
        name: &str,
        lows: &[Vec<u8>],
        threads: usize,
        feed: impl Fn(usize, &mut Sink<'_>) -> Result<(), E> + Sync,
    ) -> Result<Arc<BytesTree<G, M>>, E> {
        if let Some(position) = lows.windows(2).position(|pair| pair[0] >= pair[1]) {
            return Err(IndexError::NotSorted(position + 1).into());
        }
        let _loading = self.begin_load(None);
        let id = self.heap.pool().next_id().map_err(IndexError::from)?;
        let design = self.new_design().map_err(IndexError::from)?;
        let tree = BytesTree::load_partitions(&self.heap, &design, id, lows, threads, &feed)?;
        let mut session = self.heap.session().map_err(IndexError::from)?;
        Ok(self.publish_bytes_tree(&mut session, name, BuiltTree(tree), |_| ())?)
    }
}
