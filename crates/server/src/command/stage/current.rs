//! The collection that a stage has changed last: the next command of a pipeline mostly changes it, too.
//!
//! So its header is kept as it is, without being written to its value and read from it with every command.
//!
//! Invariant: while a collection is the current one, the stage has a value with a header for its key, that never
//! expires and is what the current header becomes written. A command that looks at the value, or replaces it, has it
//! written before, and ends that it is the current one. With something to roll back there is none.

use crate::databases::MapNumber;
use crate::types::Header;

/// The collection that was changed last.
pub struct Current {
    pub place: MapNumber,
    pub key: Vec<u8>,
    pub header: Header,
    /// Whether the value on the stage is an older one.
    pub is_changed: bool,
}

impl Current {
    /// Whether it is the collection of a key.
    pub fn is_of(&self, place: MapNumber, key: &[u8]) -> bool {
        self.place == place && self.key == key
    }
}
