//! Changing the collection that was changed last (`current.rs`).

use super::Stage;
use super::current::Current;
use crate::databases::MapNumber;
use crate::types::Header;

impl Stage {
    /// The header that a key has, if it is that of the collection that was changed last.
    #[inline]
    pub fn current_header(&self, place: MapNumber, key: &[u8]) -> Option<Header> {
        let current = self.current.as_ref().filter(|current| current.is_of(place, key));
        current.map(|current| current.header)
    }

    /// Changes the header of the collection that was changed last, if it is that of the key. Returns whether it is.
    pub(super) fn change_current(&mut self, place: MapNumber, key: &[u8], header: &Header) -> bool {
        let current = self.current.as_mut().filter(|current| current.is_of(place, key));
        let Some(current) = current else { return false };
        current.header = *header;
        current.is_changed = true;
        true
    }

    /// Notes which collection was changed last, whose header was just written.
    pub(super) fn set_current(&mut self, place: MapNumber, key: &[u8], header: &Header) {
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
