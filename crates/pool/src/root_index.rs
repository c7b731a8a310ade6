//! The place of a named root in the directory of a pool.

use std::fmt;

/// The place of a root in the directory; it keeps it until the root is removed, and no other root
/// is ever mistaken for it, even if it gets the same place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RootIndex {
    pub(crate) slot: u16,
    /// Which of the roots that had the slot, in order.
    pub(crate) incarnation: u64,
}

impl RootIndex {
    /// The index as a number, below 1000. A root created after the removal of this one may have the
    /// same number.
    pub fn get(self) -> u16 {
        self.slot
    }
}

impl fmt::Display for RootIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.slot.fmt(f)
    }
}
