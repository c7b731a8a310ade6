//! Node capacities: large in production, tiny where rare paths are to be common.

use everleaf_alloc::block_size;

/// How many slots and children nodes use. The layout of nodes is the same for all geometries.
pub trait Geometry: Copy + Default + Send + Sync + 'static {
    /// Slots of a leaf that are used, 2..=62.
    const SLOT_COUNT: usize;
    /// Children of an inner node above level 1 that are used, 3..=64.
    const CHILD_COUNT: usize;
    /// Children of a node right above the leaves that are used, 3..=16.
    const PARENT_CHILD_COUNT: usize;
    /// The shape of hashed leaves that goes with it.
    type Leaves: LeafShape;

    /// Children that a node of this level may have.
    fn child_count(level: u16) -> usize {
        if level == 1 { Self::PARENT_CHILD_COUNT } else { Self::CHILD_COUNT }
    }
}

/// 62 slots in blocks of 1 KiB; 64 children, 16 right above the leaves.
///
/// The upper nodes stay in the cache; a node right above the leaves is usually a miss, so it is
/// small enough to be fetched whole, at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Production;

impl Geometry for Production {
    const SLOT_COUNT: usize = 62;
    const CHILD_COUNT: usize = 64;
    const PARENT_CHILD_COUNT: usize = 16;
    type Leaves = Production;
}

/// A few slots and children: splits, merges and new roots after a handful of operations.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tiny<const SLOTS: usize = 3, const CHILDREN: usize = 3>;

impl<const SLOTS: usize, const CHILDREN: usize> Geometry for Tiny<SLOTS, CHILDREN> {
    const SLOT_COUNT: usize = SLOTS;
    const CHILD_COUNT: usize = CHILDREN;
    const PARENT_CHILD_COUNT: usize = CHILDREN;
    type Leaves = Self;
}

/// How large leaves are. The layout of a block is the same for all shapes.
pub trait LeafShape: Geometry {
    /// Class of the block in the allocator: 0 to 2 for 1 to 4 KiB.
    const BLOCK_CLASS: usize;
    /// Positions, those of the header included.
    const POSITIONS: usize;
    /// Positions at the beginning that are the header's.
    const HEADER_POSITIONS: usize;
    /// Positions in a line of the pool.
    const LINE: usize;
    /// Positions in the 256 bytes that a medium writes at once.
    const GROUP: usize;
    /// Positions whose fingerprints are in one line: at most 64.
    const CHUNK: usize;

    /// Entries that a leaf can hold.
    const CAPACITY: usize = Self::POSITIONS - Self::HEADER_POSITIONS;
    /// Lines of fingerprints.
    const CHUNKS: usize = Self::POSITIONS.div_ceil(Self::CHUNK);
    /// Bytes of a block.
    const BLOCK_BYTES: usize = block_size(Self::BLOCK_CLASS);
}

impl LeafShape for Production {
    const BLOCK_CLASS: usize = 2;
    const POSITIONS: usize = 256;
    const HEADER_POSITIONS: usize = 2;
    const LINE: usize = 4;
    const GROUP: usize = 16;
    const CHUNK: usize = 64;
}

/// Leaves of 2 KiB; otherwise as [`Production`].
#[derive(Clone, Copy, Debug, Default)]
pub struct HalfLeaves;

impl Geometry for HalfLeaves {
    const SLOT_COUNT: usize = Production::SLOT_COUNT;
    const CHILD_COUNT: usize = Production::CHILD_COUNT;
    const PARENT_CHILD_COUNT: usize = Production::PARENT_CHILD_COUNT;
    type Leaves = Self;
}

impl LeafShape for HalfLeaves {
    const BLOCK_CLASS: usize = 1;
    const POSITIONS: usize = 128;
    const HEADER_POSITIONS: usize = 2;
    const LINE: usize = 4;
    const GROUP: usize = 16;
    const CHUNK: usize = 64;
}

/// Chunks of two positions, so that keys overflow after two; of large leaves of four, which lie on two lines of the
/// pool, of which a crash may lose one.
impl<const SLOTS: usize, const CHILDREN: usize> LeafShape for Tiny<SLOTS, CHILDREN> {
    const BLOCK_CLASS: usize = 0;
    const POSITIONS: usize = SLOTS;
    const HEADER_POSITIONS: usize = 0;
    const LINE: usize = 1;
    const GROUP: usize = 2;
    const CHUNK: usize = if SLOTS > 4 { 4 } else { 2 };
}
