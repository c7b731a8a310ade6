//! How large nodes are, and how many descriptors there are.

/// A configuration of the tree.
pub trait Variant: Copy + Default + Send + Sync + 'static {
    /// Its name.
    const NAME: &'static str;
    /// Its number in the pool's directory.
    const KIND: u16;
    /// Pairs of a leaf, at least 2 and at most [`SLOT_COUNT_MAX`].
    const SLOT_COUNT: usize;
    /// Children of an inner node, at least 3.
    const CHILD_COUNT: usize;
    /// Descriptors.
    const DESCRIPTOR_COUNT: usize;
    /// Words of an entry of a descriptor: 3, or more that are not used.
    const ENTRY_WORDS: usize;
}

/// The most pairs that a leaf can have: a word says which of them are reserved.
pub const SLOT_COUNT_MAX: usize = 64;

/// Nodes of 1 KiB, as in the comparison of the NBTree paper, and descriptors of 256 bytes, as published.
#[derive(Clone, Copy, Debug, Default)]
pub struct Standard;

impl Variant for Standard {
    const NAME: &'static str = "bztree";
    const KIND: u16 = 0xA8;
    const SLOT_COUNT: usize = 42;
    const CHILD_COUNT: usize = 63;
    const DESCRIPTOR_COUNT: usize = 1024;
    const ENTRY_WORDS: usize = 7;
}

/// The same with descriptors of 128 bytes, without what the published ones have for managing memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct Compact;

impl Variant for Compact {
    const NAME: &'static str = "bztree-compact";
    const KIND: u16 = 0xA9;
    const SLOT_COUNT: usize = 42;
    const CHILD_COUNT: usize = 63;
    const DESCRIPTOR_COUNT: usize = 1024;
    const ENTRY_WORDS: usize = 3;
}

/// Small nodes, and few descriptors: for tests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Small<const SLOTS: usize = 2, const DESCRIPTORS: usize = 16>;

impl<const SLOTS: usize, const DESCRIPTORS: usize> Variant for Small<SLOTS, DESCRIPTORS> {
    const NAME: &'static str = "bztree-small";
    const KIND: u16 = 0xAA;
    const SLOT_COUNT: usize = SLOTS;
    const CHILD_COUNT: usize = 3;
    const DESCRIPTOR_COUNT: usize = DESCRIPTORS;
    const ENTRY_WORDS: usize = 3;
}
