//! What strings that pack many short ones are unpacked to.

/// Bytes that an item takes besides itself: its place in a vector, and the shortest block of memory.
pub const ITEM_OVERHEAD: usize = 64;

/// What is unpacked, which may take so many bytes.
#[derive(Debug, Default)]
pub struct Unpacked {
    pub entries: Vec<Vec<u8>>,
    /// Whether every two entries are kept as one of these.
    pub is_paired: bool,
    pub pairs: Vec<(Vec<u8>, Vec<u8>)>,
    /// Bytes that may still be taken.
    pub room: usize,
    /// More was to be kept than may be.
    pub is_over: bool,
}

impl Unpacked {
    /// How many entries are kept.
    pub fn len(&self) -> usize {
        self.entries.len() + 2 * self.pairs.len()
    }

    pub fn push(&mut self, entry: Vec<u8>) -> Option<()> {
        let left = self.room.checked_sub(entry.len() + ITEM_OVERHEAD);
        self.is_over |= left.is_none();
        self.room = left?;
        match self.entries.pop_if(|_| self.is_paired) {
            Some(first) => self.pairs.push((first, entry)),
            None => self.entries.push(entry),
        }
        Some(())
    }
}
