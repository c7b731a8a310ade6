//! Recovery: from a root object to a tree.
//!
//! The list of blocks is walked: every slot whose key is not 0 is an entry, and the metadata are
//! made from that. Then the inner nodes are built over the low fences. Nothing of the pool is
//! written that recovery reads, so it can be cut and repeated anywhere.
//!
//! That is all the paper asks for, and not enough: a slot that was filled and not committed when
//! the power failed is an entry now, also if its key is there a second time, or the insert had
//! turned to another leaf. With one writer at a time neither can be.

use everleaf_alloc::{AllocError, Recovery, Session};
use everleaf_index::{Geometry, PoolBase, RootObject};
use everleaf_machine::Machine;

use super::blocks::Blocks;
use super::inner::InnerNodes;
use super::layout::{Leaf, LeafStart};
use super::leaves::Opening;
use super::variant::Variant;
use super::{HEAD, NbPublished, TAG};

/// A block of the list.
struct Listed {
    low: u64,
    block: u64,
}

impl<V: Variant, G: Geometry, M: Machine> NbPublished<V, G, M> {
    /// The tree of this root value.
    pub(super) fn open(
        session: &mut Session<M>,
        recovery: &Recovery<M>,
        root: u32,
    ) -> Result<Self, AllocError> {
        let heap = session.heap().clone();
        let is_writable = !heap.pool().is_read_only();
        let base = PoolBase::of(&heap);
        let root_object = RootObject::open(&heap, recovery, root, TAG)?;
        let record_size = Self::RECORD_SIZE;
        let blocks = Blocks::open(session, root_object, recovery, record_size, V::AREA_USE)?;
        let opening = Opening { recovery, blocks, record_size };
        let listed = Self::walk(base, root_object, &opening)?;
        let mut leaves = Vec::with_capacity(listed.len());
        let mut keys = 0;
        for (index, this) in listed.iter().enumerate() {
            let high = listed.get(index + 1).map_or(0, |next| next.low);
            let (leaf, count) = Self::rebuild(session, base, is_writable, this, high)?;
            leaves.push((this.low, leaf));
            keys += count;
        }
        let blocks = listed.iter().map(|this| this.block);
        let space = opening.finish(session, root_object, blocks)?;
        let inner = InnerNodes::load(session, &leaves)?;
        let tree = Self::assemble(heap, root_object, space, inner);
        tree.keys.add(0, keys as i64);
        tree.leaves.add(0, leaves.len() as i64);
        Ok(tree)
    }

    /// All blocks of the list, each marked.
    fn walk(
        base: PoolBase<M>,
        root_object: RootObject<M>,
        opening: &Opening<'_, M>,
    ) -> Result<Vec<Listed>, AllocError> {
        let mut listed: Vec<Listed> = vec![];
        let mut block = root_object.word(HEAD).read_private();
        loop {
            let corrupt = |what: String| AllocError::Corrupt { offset: block, what };
            if !opening.mark(block)? {
                return Err(corrupt("a leaf was expected here".into()));
            }
            let contents = super::block_at(base, block);
            let low = contents.low.read_private();
            let follows = listed.last().map_or(low == 0, |last| low > last.low);
            if !follows {
                return Err(corrupt(format!("the leaf's low fence {low} is misplaced")));
            }
            listed.push(Listed { low, block });
            block = contents.next.read_private();
            if block == 0 {
                return Ok(listed);
            }
        }
    }

    /// The metadata of a block, and its number of keys.
    fn rebuild(
        session: &mut Session<M>,
        base: PoolBase<M>,
        is_writable: bool,
        this: &Listed,
        high: u64,
    ) -> Result<(*mut Leaf<M>, usize), AllocError> {
        let (low, block) = (this.low, this.block);
        let contents = super::block_at(base, block);
        let mut keys: Vec<u64> =
            contents.slots[..Self::CAPACITY].iter().map(|slot| slot.key.read_private()).collect();
        let fits = |key: u64| key == 0 || key >= low && (high == 0 || key < high);
        if let Some(key) = keys.iter().find(|key| !fits(**key)) {
            let what = format!("key {key} is outside its leaf, {low} to {high}");
            return Err(AllocError::Corrupt { offset: block, what });
        }
        while keys.last() == Some(&0) {
            keys.pop();
        }
        let start = LeafStart { keys: &keys, low, high, block, right: std::ptr::null_mut() };
        let leaf = Self::make_leaf(session, base, is_writable, &start)?;
        Ok((leaf, keys.iter().filter(|key| **key != 0).count()))
    }
}
