//! What was retired and waits until nobody can reach it.

use crate::layout::block_size;

/// Something unlinked that nobody may use yet.
pub(crate) enum Retired {
    /// A volatile node and its size.
    Node(*mut u8, usize),
    /// A leaf block and its class.
    Block(u32, usize),
    /// A record: offset and size in bytes.
    Record(u64, usize),
}

impl Retired {
    /// Bytes of the pool that it has.
    pub fn pool_bytes(&self) -> usize {
        match *self {
            Retired::Node(..) => 0,
            Retired::Block(_, class) => block_size(class),
            Retired::Record(_, size) => size,
        }
    }
}

// SAFETY: a retired node has no owner but the bag it is in.
unsafe impl Send for Retired {}

/// Things retired under one epoch.
pub(crate) struct Bag {
    pub epoch: u64,
    pub items: Vec<Retired>,
}
