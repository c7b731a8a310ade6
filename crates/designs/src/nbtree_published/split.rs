//! Replacing a leaf: the three phases of Algorithm 2, and the first of them.

use everleaf_alloc::{AllocError, Session};
use everleaf_index::Geometry;
use everleaf_machine::{Machine, Ordering};

use super::NbPublished;
use super::calloc::{Logged, New};
use super::layout::{BLOCK_SIZE, Leaf, LeafStart};
use super::state::{COMMITTED, COPIED, SYNC, plain};
use super::variant::Variant;

/// Pairs of a copy, in the order of the old leaf's slots.
type Pairs = Vec<(u64, u64)>;

impl<V: Variant, G: Geometry, M: Machine> NbPublished<V, G, M> {
    /// Replaces a leaf whose `smo_bit` is set, or helps to.
    ///
    /// # Errors
    /// No space; then the leaf stays as it is and can be replaced later.
    #[cold]
    pub(super) fn replace(
        &self,
        session: &mut Session<M>,
        leaf: &Leaf<M>,
    ) -> Result<(), AllocError> {
        let mut logged = None;
        if self.copy_of(leaf).is_none() {
            logged = Some(self.copy(session, leaf)?);
        }
        let done = self.finish(session, leaf, &mut logged);
        if let Some(logged) = logged {
            self.space.end(logged);
        }
        done
    }

    /// The phases after the first.
    fn finish(
        &self,
        session: &mut Session<M>,
        leaf: &Leaf<M>,
        logged: &mut Option<Logged>,
    ) -> Result<(), AllocError> {
        let left = self.copy_of(leaf).expect("the copy phase leaves copies");
        // Acquire: pairs with the release in `synchronize`. With locks nobody has written to the
        // leaf since it was copied.
        let is_synced = V::WRITERS_LOCK || leaf.flag.load(Ordering::Acquire) & SYNC != 0;
        let skips = is_synced || M::mutant("nbtree_published.no_sync");
        if !skips && !self.synchronize(leaf, left) {
            return Ok(());
        }
        self.link(session, leaf, left, logged)
    }

    /// The copy phase: builds one or two leaves from what the leaf has; of several threads that do,
    /// one succeeds, and the others take theirs back.
    fn copy(&self, session: &mut Session<M>, leaf: &Leaf<M>) -> Result<Logged, AllocError> {
        let block = self.block(leaf);
        // Acquire: the committed slots are written, and final since the leaf is being replaced.
        let mut rest = leaf.bitmap.load(Ordering::Acquire) & COMMITTED;
        let mut pairs = Pairs::new();
        while rest != 0 {
            let slot = &block.slots[rest.trailing_zeros() as usize];
            rest &= rest - 1;
            // Acquire: pairs with the exchange in `remove`.
            let key = slot.key.load(Ordering::Acquire);
            // Acquire: pairs with the exchanges of values.
            let value = slot.value.load(Ordering::Acquire);
            if key != 0 {
                pairs.push((key, plain(value) | COPIED));
            }
        }
        let split = split_key(&pairs, Self::CAPACITY);
        let count = 1 + usize::from(split.is_some());
        let New { blocks, logged } = self.space.begin(session, leaf.block(), count)?;
        let left = match self.build_all(session, leaf, split, &pairs, &blocks) {
            Ok(left) => left,
            Err(error) => {
                blocks.iter().for_each(|block| self.space.give_back(session, *block));
                self.space.end(logged);
                return Err(error);
            }
        };
        // AcqRel: publishes the copies; pairs with the load in `copy_of`. Relaxed on failure:
        // nothing is read.
        let null = std::ptr::null_mut();
        if leaf.copy.compare_exchange(null, left, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            M::mark("nbtree_published.copy_lost");
            let right = self.leaf(left).right();
            Self::unmake_leaf(session, self.is_writable, left);
            if !right.is_null() {
                Self::unmake_leaf(session, self.is_writable, right);
            }
            if !M::mutant("nbtree_published.keeps_lost_copy") {
                blocks.iter().for_each(|block| self.space.give_back(session, *block));
            }
        }
        Ok(logged)
    }

    /// One or two leaves with these pairs, private; gives the first.
    fn build_all(
        &self,
        session: &mut Session<M>,
        leaf: &Leaf<M>,
        split: Option<u64>,
        pairs: &[(u64, u64)],
        blocks: &[u64],
    ) -> Result<*mut Leaf<M>, AllocError> {
        let null = std::ptr::null_mut();
        let next = self.block(leaf).next();
        let Some(split) = split else {
            let range = (leaf.low(), leaf.high());
            return self.build(session, range, (blocks[0], next), pairs, null);
        };
        let (low, high): (Pairs, Pairs) = pairs.iter().partition(|pair| pair.0 < split);
        let right = self.build(session, (split, leaf.high()), (blocks[1], next), &high, null)?;
        self.build(session, (leaf.low(), split), (blocks[0], blocks[1]), &low, right)
            .inspect_err(|_| Self::unmake_leaf(session, self.is_writable, right))
    }

    /// A leaf with these pairs and this range, private, its block durable.
    fn build(
        &self,
        session: &mut Session<M>,
        (low, high): (u64, u64),
        (block, next): (u64, u64),
        pairs: &[(u64, u64)],
        right: *mut Leaf<M>,
    ) -> Result<*mut Leaf<M>, AllocError> {
        let contents = super::block_at(self.base, block);
        contents.fill(low, next, pairs);
        if !M::mutant("nbtree_published.no_copy_flush") {
            // Persist: the block before anything links to it, or recovery would find garbage (NP1).
            self.medium.persist(contents.next.as_ptr(), BLOCK_SIZE);
        }
        let keys: Vec<u64> = pairs.iter().map(|pair| pair.0).collect();
        let start = LeafStart { keys: &keys, low, high, block, right };
        Self::make_leaf(session, self.base, self.is_writable, &start)
    }
}

/// The first key of the upper half; `None` if one leaf is enough, or if no key divides them.
fn split_key(pairs: &[(u64, u64)], capacity: usize) -> Option<u64> {
    if pairs.len() <= capacity / 2 {
        return None;
    }
    let mut keys: Vec<u64> = pairs.iter().map(|pair| pair.0).collect();
    keys.sort_unstable();
    let first = keys[0];
    keys[keys.len() / 2..].iter().copied().find(|key| *key > first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_split_key_has_keys_on_both_sides() {
        let pairs = |keys: &[u64]| keys.iter().map(|key| (*key, 0)).collect::<Vec<_>>();
        assert_eq!(split_key(&pairs(&[]), 4), None);
        assert_eq!(split_key(&pairs(&[7, 3]), 4), None);
        assert_eq!(split_key(&pairs(&[7]), 1), None);
        assert_eq!(split_key(&pairs(&[9, 3, 7]), 4), Some(7));
        assert_eq!(split_key(&pairs(&[9, 3, 7, 1]), 4), Some(7));
        assert_eq!(split_key(&pairs(&[5, 5, 5, 8]), 4), Some(8));
        assert_eq!(split_key(&pairs(&[5, 5, 5, 5]), 4), None);
    }
}
