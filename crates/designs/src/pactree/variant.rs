//! How far the search layer may be behind, and sizes for tests.

/// A configuration of the tree.
pub trait Variant: Copy + Default + Send + Sync + 'static {
    /// Its name.
    const NAME: &'static str;
    /// Its number in the pool's directory.
    const KIND: u16;
    /// Pairs that a data node may have, up to 64.
    const CAPACITY: usize;
    /// Structure changes that may be on their way to the search layer, 2 at least.
    const LOG_LENGTH: usize;
    /// Structure changes that writers leave to later ones, below `LOG_LENGTH`.
    const LAG: usize;
}

/// As published: 64 pairs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Standard;

impl Variant for Standard {
    const NAME: &'static str = "pactree";
    const KIND: u16 = 0x78;
    const CAPACITY: usize = 64;
    const LOG_LENGTH: usize = 64;
    const LAG: usize = 8;
}

/// A few pairs a node, and a short log: for tests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Small<const PAIRS: usize = 2, const LAG: usize = 1>;

impl<const PAIRS: usize, const LAG: usize> Variant for Small<PAIRS, LAG> {
    const NAME: &'static str = "pactree-small";
    const KIND: u16 = 0x79;
    const CAPACITY: usize = PAIRS;
    const LOG_LENGTH: usize = LAG + 2;
    const LAG: usize = LAG;
}
