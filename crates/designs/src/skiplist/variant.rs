//! How high the list is, and sizes for tests.

/// A configuration of the list.
pub trait Variant: Copy + Default + Send + Sync + 'static {
    /// Its name.
    const NAME: &'static str;
    /// Its number in the pool's directory.
    const KIND: u16;
    /// Levels, [`LEVEL_COUNT_MAX`] at most.
    const LEVEL_COUNT: usize;
    /// Binary logarithm of how many nodes of a level have one on the next level.
    const BRANCHING_SHIFT: u32;
}

/// The most levels that a list can have.
pub const LEVEL_COUNT_MAX: usize = 12;

/// As published: 12 levels, and every fourth node of a level is on the next one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Standard;

impl Variant for Standard {
    const NAME: &'static str = "p-skiplist";
    const KIND: u16 = 0x98;
    const LEVEL_COUNT: usize = 12;
    const BRANCHING_SHIFT: u32 = 2;
}

/// Few levels, and half of the nodes of a level on the next one: for tests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Small<const LEVELS: usize = 2>;

impl<const LEVELS: usize> Variant for Small<LEVELS> {
    const NAME: &'static str = "p-skiplist-small";
    const KIND: u16 = 0x99;
    const LEVEL_COUNT: usize = LEVELS;
    const BRANCHING_SHIFT: u32 = 1;
}
