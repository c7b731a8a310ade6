//! What strings that pack many short ones are unpacked to.

/// Bytes that an item takes besides itself.
pub const ITEM_OVERHEAD: usize = 32;

/// What is unpacked, which may take so many bytes.
#[derive(Debug, Default)]
pub struct Unpacked {
    pub entries: Vec<Vec<u8>>,
    /// Bytes that may still be taken.
    pub room: usize,
    /// More was to be kept than may be.
    pub is_over: bool,
}

impl Unpacked {
    pub fn push(&mut self, entry: Vec<u8>) -> Option<()> {
        let left = self.room.checked_sub(entry.len() + ITEM_OVERHEAD);
        self.is_over |= left.is_none();
        self.room = left?;
        self.entries.push(entry);
        Some(())
    }
}
