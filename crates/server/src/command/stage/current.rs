//! The collection that a stage has changed last: the next command of a pipeline mostly changes it, too.
//!
//! So its header is kept as it is, without being written to its value and read from it with every command.
//!
//! Invariant: while a collection is the current one, the stage has a value with a header for its key, that never
//! expires and is what the current header becomes written. A command that looks at the value, or replaces it, has it
//! written before, and ends that it is the current one. With something to roll back there is none.

use super::Stage;
use crate::databases::Place;
use crate::types::Header;

/// The collection that was changed last.
pub struct Current {
    place: Place,
    key: Vec<u8>,
    header: Header,
    /// Whether the value on the stage is an older one.
    is_changed: bool,
}

impl Current {
    fn is_of(&self, place: Place, key: &[u8]) -> bool {
        self.place == place && self.key == key
    }
}

impl Stage {
    /// The header that a key has, if it is that of the collection that was changed last.
    #[inline]
    pub fn current_header(&self, place: Place, key: &[u8]) -> Option<Header> {
        let current = self.current.as_ref().filter(|current| current.is_of(place, key));
        current.map(|current| current.header)
    }

    /// Changes the header of the collection that was changed last, if it is that of the key. Returns whether it is.
    pub(super) fn change_current(&mut self, place: Place, key: &[u8], header: &Header) -> bool {
        let current = self.current.as_mut().filter(|current| current.is_of(place, key));
        let Some(current) = current else { return false };
        current.header = *header;
        current.is_changed = true;
        true
    }

    /// Notes which collection was changed last, whose header was just written.
    pub(super) fn set_current(&mut self, place: Place, key: &[u8], header: &Header) {
        self.current =
            Some(Current { place, key: key.to_vec(), header: *header, is_changed: false });
    }

    /// Writes the header of the collection that was changed last, if that was not done.
    #[inline]
    pub(super) fn write_current(&mut self) {
        let Some(Current { place, key, header, is_changed }) = self.current.take() else { return };
        if is_changed
            && let Some(Some((value, _))) = self.written_mut(place, &key)
            && let Ok(value) = value.as_mut_slice().try_into()
        {
            header.write_to(value);
        }
    }
}
