//! A durable counter that never hands out the same number twice.
//!
//! The counter is one word with its checksum, in two copies. An id is returned only when both
//! copies that contain it are durable, so damage to one copy, or a crash in between, loses at most
//! an id that nobody has seen.

use std::path::Path;

use everleaf_machine::Machine;

use crate::layout::IDS_OFFSETS;
use crate::view::View;
use crate::{Pool, PoolError};

/// The greatest id. The number behind it is left to callers that need a word that is no id.
const LAST_ID: u32 = u32::MAX - 1;

impl<M: Machine> Pool<M> {
    /// The next id of a counter that starts at 1 and never repeats, also across crashes.
    ///
    /// # Errors
    /// `IdsExhausted` after 2^32 - 2 ids: `u32::MAX` is never one; `ReadOnly`.
    ///
    /// *Durable when* it returns. *Blocking:* takes a short lock.
    ///
    /// # Example
    /// ```
    /// use everleaf_pool::{Domain, Pool};
    /// let pool = Pool::in_memory(1 << 20, 1 << 20, Domain::Process)?;
    /// assert_eq!((pool.next_id()?, pool.next_id()?), (1, 2));
    /// # Ok::<(), everleaf_pool::PoolError>(())
    /// ```
    pub fn next_id(&self) -> Result<u32, PoolError> {
        self.writable("hand out an id")?;
        let _guard = (!M::mutant("pool.ids_unlocked")).then(|| self.directory_lock.lock());
        let last = last_id(self.view(), self.place())?;
        let id = last
            .checked_add(1)
            .filter(|id| *id <= LAST_ID)
            .ok_or_else(|| PoolError::IdsExhausted { path: self.place().into() })?;
        write(self.view(), id);
        Ok(id)
    }
}

/// Writes both copies, one after the other (I1, I4).
pub fn write<M: Machine>(view: View<M>, id: u32) {
    for offset in IDS_OFFSETS {
        view.replace(offset, encode(id));
    }
}

/// A planted bug: both copies, and neither is durable.
pub fn prepare<M: Machine>(view: View<M>, id: u32) {
    for offset in IDS_OFFSETS {
        view.prepare(offset, &[encode(id)]);
    }
}

/// The last id handed out: the larger of the two copies, since one may be a step behind.
///
/// # Errors
/// `Damaged` if neither copy is whole.
pub fn last_id<M: Machine>(view: View<M>, path: &Path) -> Result<u32, PoolError> {
    let copies = IDS_OFFSETS.map(|offset| decode(view.read::<1>(offset)[0]));
    copies.into_iter().flatten().max().ok_or_else(|| {
        let what = "neither copy of the id counter is whole".to_owned();
        PoolError::Damaged { path: path.into(), offset: IDS_OFFSETS[0], what }
    })
}

/// The copy with the larger id, if one is whole.
pub fn newer(copies: [u64; 2]) -> Option<usize> {
    let [a, b] = copies.map(decode);
    (a.is_some() || b.is_some()).then_some(usize::from(b > a))
}

/// Whether a copy has the id before that of the other: a crash has come in between.
pub fn is_a_step_behind(other: u64, whole: u64) -> bool {
    decode(other).and_then(|id| id.checked_add(1)) == decode(whole)
}

fn encode(id: u32) -> u64 {
    u64::from(crc32c::crc32c(&id.to_le_bytes())) << 32 | u64::from(id)
}

fn decode(word: u64) -> Option<u32> {
    let id = word as u32;
    (encode(id) == word).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Domain;

    #[test]
    fn a_word_that_was_never_written_is_no_counter() {
        assert_eq!(decode(0), None);
        assert_eq!(decode(encode(0)), Some(0));
        assert_eq!(decode(encode(u32::MAX)), Some(u32::MAX));
    }

    #[test]
    fn one_damaged_copy_is_replaced_and_two_are_refused() {
        let pool = Pool::in_memory(1 << 20, 1 << 20, Domain::Adr).unwrap();
        assert_eq!(pool.next_id().unwrap(), 1);
        pool.view().replace(IDS_OFFSETS[0], 99);
        assert_eq!(pool.next_id().unwrap(), 2);
        pool.view().replace(IDS_OFFSETS[1], 99);
        assert_eq!(pool.next_id().unwrap(), 3);
        pool.view().replace(IDS_OFFSETS[0], 1);
        pool.view().replace(IDS_OFFSETS[1], 1);
        assert!(matches!(pool.next_id(), Err(PoolError::Damaged { .. })));
    }

    #[test]
    fn the_last_id_is_not_followed_by_the_first() {
        let pool = Pool::in_memory(1 << 20, 1 << 20, Domain::Adr).unwrap();
        write(pool.view(), u32::MAX - 2);
        assert_eq!(pool.next_id().unwrap(), u32::MAX - 1);
        assert!(matches!(pool.next_id(), Err(PoolError::IdsExhausted { .. })));
        assert!(matches!(pool.next_id(), Err(PoolError::IdsExhausted { .. })));
    }
}
