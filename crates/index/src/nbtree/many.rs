//! Looking up many keys at once, so that their cache misses overlap.
//!
//! All keys go down the tree together, one level at a time: while the line of one is on its way, the
//! next one's is asked for. The answers are those of separate gets.

use everleaf_alloc::Session;
use everleaf_machine::{LINE_SIZE, Machine, Ordering};

use super::NbTree;
use super::layout::{BLOCK_HEADER_SIZE, Inner, Leaf};
use super::shared::Shared;
use super::state::{COMMITTED, REPLACED};
use crate::geometry::Geometry;
use crate::kind::Kind;

/// Keys that travel together: as many misses as a core has in flight, and some.
const GROUP: usize = 32;

impl<K: Kind<M>, G: Geometry, M: Machine> NbTree<K, G, M> {
    /// Calls `found(i, payload)` for each of `keys`, in order.
    pub(crate) fn get_many_payloads(
        &self,
        session: &mut Session<M>,
        keys: &[K::Key<'_>],
        mut found: impl FnMut(&mut Session<M>, usize, Option<u64>),
    ) {
        for (group, keys) in keys.chunks(GROUP).enumerate() {
            let mut payloads = [None; GROUP];
            self.get_group(session, keys, &mut payloads);
            for (index, payload) in payloads[..keys.len()].iter().enumerate() {
                found(session, group * GROUP + index, *payload);
            }
        }
    }

    fn get_group(
        &self,
        session: &mut Session<M>,
        keys: &[K::Key<'_>],
        payloads: &mut [Option<u64>; GROUP],
    ) {
        let leaves = self.descend_group(keys);
        let mut places = [(leaves[0], 0); GROUP];
        for (index, key) in keys.iter().enumerate() {
            // Acquire: as in `resolve`.
            let meta = leaves[index].meta.load(Ordering::Acquire);
            places[index] = if meta & REPLACED == 0 {
                (leaves[index], meta)
            } else {
                self.resolve(session, *key)
            };
            let (leaf, meta) = places[index];
            let hits = leaf.fingerprints.matches(K::fingerprint(*key)) & meta & COMMITTED;
            if hits != 0 {
                let slot = hits.trailing_zeros() as usize;
                let block = self.block(leaf).as_ptr().cast::<u8>();
                M::prefetch(block.wrapping_add(BLOCK_HEADER_SIZE + slot * 16));
            }
        }
        for (index, key) in keys.iter().enumerate() {
            let (leaf, meta) = places[index];
            payloads[index] = self.get_in_leaf(leaf, meta, *key);
        }
    }

    /// The leaves that the inner nodes give for the keys, their lines asked for.
    fn descend_group(&self, keys: &[K::Key<'_>]) -> [Shared<Leaf<M>>; GROUP] {
        let root = self.root();
        let mut nodes: [*mut (); GROUP] = [root.as_ptr().cast(); GROUP];
        // Levels may differ between keys only while a new root is being installed, and then all
        // start from the root read above: they are on one level at all times.
        for level in (1..=root.level).rev() {
            for (index, key) in keys.iter().enumerate() {
                // SAFETY: nodes on levels above 0 are inner nodes, read while pinned.
                let node: Shared<Inner<M>> = unsafe { Shared::new(nodes[index].cast()) };
                debug_assert_eq!(node.level, level);
                nodes[index] = node.child_at(level, node.find::<K>(level, self.base, *key, false));
                if level > 1 {
                    Shared::<Inner<M>>::prefetch::<K>(nodes[index], level - 1);
                } else {
                    let leaf = nodes[index].cast::<u8>().cast_const();
                    M::prefetch(leaf);
                    M::prefetch(leaf.wrapping_add(LINE_SIZE));
                }
            }
        }
        // SAFETY: children of level 1 are leaves, read while pinned; unused places are given the
        // first key's leaf.
        std::array::from_fn(|index| unsafe {
            Shared::new(nodes[if index < keys.len() { index } else { 0 }].cast())
        })
    }
}
