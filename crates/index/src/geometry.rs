//! Node capacities: large in production, tiny where rare paths are to be common.

/// How many slots and children nodes use. The layout of nodes is the same for all geometries.
pub trait Geometry: Copy + Default + Send + Sync + 'static {
    /// Slots of a leaf that are used, 2..=62.
    const SLOT_COUNT: usize;
    /// Children of an inner node above level 1 that are used, 3..=64.
    const CHILD_COUNT: usize;
    /// Children of a node right above the leaves that are used, 3..=16.
    const PARENT_CHILD_COUNT: usize;

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
}

/// A few slots and children: splits, merges and new roots after a handful of operations.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tiny<const SLOTS: usize = 3, const CHILDREN: usize = 3>;

impl<const SLOTS: usize, const CHILDREN: usize> Geometry for Tiny<SLOTS, CHILDREN> {
    const SLOT_COUNT: usize = SLOTS;
    const CHILD_COUNT: usize = CHILDREN;
    const PARENT_CHILD_COUNT: usize = CHILDREN;
}
