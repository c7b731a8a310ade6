//! What collections need, once there are some: the mark of headers, and numbers for new ones.

use std::sync::atomic::{AtomicU64, Ordering};

use everleaf::Map;
use everleaf::random::finish;

use super::cursor::Cursors;
use super::header::{HEADER_SIZE, Header, MARK_SIZE};
use super::separators::KeptSeparators;

/// Bits of a number that count the collections of one process.
pub const COUNTER_BITS: u32 = 40;
/// How many processes can make collections in a pool, each with numbers of its own.
pub const START_MAX: u64 = u64::MAX >> COUNTER_BITS;
/// So many numbers are given before others are begun with: the half, so that it can be done before a command that takes
/// some.
pub const ID_COUNT_MAX: u64 = 1 << (COUNTER_BITS - 1);

/// What collections need; present once a pool has had one.
pub struct Ready {
    /// The map of the members.
    pub members: Map,
    pub(super) mark: [u8; MARK_SIZE],
    /// The next number: that of this process among those that made collections, above [`COUNTER_BITS`] of how many it
    /// has made. 0 until it has begun.
    pub(super) next_id: AtomicU64,
    /// What is known of the orders of sorted sets.
    pub separators: KeptSeparators,
    /// What cursors of scans are made with.
    pub cursors: Cursors,
}

impl Ready {
    pub(super) fn new(members: Map, mark: [u8; MARK_SIZE]) -> Self {
        let (next_id, separators) = (AtomicU64::new(0), KeptSeparators::default());
        Ready { members, mark, next_id, separators, cursors: Cursors::of(&mark) }
    }

    /// Whether a value begins with the mark of the pool.
    pub fn has_mark(&self, value: &[u8]) -> bool {
        value.starts_with(&self.mark)
    }

    /// The header in a value, if it is one.
    pub fn header(&self, value: &[u8]) -> Option<Header> {
        let value: &[u8; HEADER_SIZE] = value.try_into().ok()?;
        if self.has_mark(value) { Header::read_from(value) } else { None }
    }

    /// The value that holds a header.
    pub fn encode(&self, header: &Header) -> [u8; HEADER_SIZE] {
        let mut value = [0; HEADER_SIZE];
        value[..MARK_SIZE].copy_from_slice(&self.mark);
        header.write_to(&mut value);
        value
    }

    /// A number for a new collection.
    pub fn new_id(&self) -> u64 {
        // Relaxed: only that no number comes twice.
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        assert!(id >= 1 << COUNTER_BITS, "a command that makes collections calls `begin` before");
        id
    }

    /// Whether numbers may be given, and so many are left that what runs now cannot come to the end of them.
    pub(super) fn has_ids(&self) -> bool {
        // Relaxed: a number that is behind by a few does not matter.
        let next = self.next_id.load(Ordering::Relaxed);
        next != 0 && next % (1 << COUNTER_BITS) < ID_COUNT_MAX
    }

    /// Where the members of a hash or set lie: in the order of this, so that a place can be drawn, and
    /// a scan goes on where it was. A client that does not know the mark cannot choose members with equal ones: a reply
    /// shows members in the order of this, and nothing else of it (`cursor.rs`).
    pub fn hash_of(&self, member: &[u8]) -> u64 {
        let word = |bytes: &[u8]| {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            u64::from_le_bytes(word)
        };
        let (first, second) = (word(&self.mark[..8]), word(&self.mark[8..]));
        let mut state = first ^ member.len() as u64;
        let (words, rest) = member.as_chunks();
        for word in words {
            state = finish(state ^ u64::from_le_bytes(*word)).wrapping_add(second);
        }
        if !rest.is_empty() {
            state = finish(state ^ word(rest)).wrapping_add(second);
        }
        finish(state)
    }
}
