//! What is found behind an entry: a record, verified as closely as its reader wants.

use std::ops::Bound;

use everleaf_alloc::{AllocError, Heap};
use everleaf_machine::Machine;

use crate::api::error::IndexError;
use crate::bytes::entry::{record_offset, verified};
use crate::bytes::key_words::is_same;
use crate::bytes::record::{self, Damage, Moment, Record, Verify, WRONG_KEY};
use crate::pool_trees::pool_base::PoolBase;

/// The record that was found for `key`, while pinned.
///
/// # Errors
/// It is damaged.
#[inline(always)]
pub(crate) fn record_of<'a, M: Machine>(
    heap: &Heap<M>,
    payload: u64,
    key: &[u8],
    verify: Verify,
) -> Result<Record<'a>, IndexError> {
    let offset = record_offset(payload);
    // SAFETY: callers hold a pin since before they read the payload from the tree.
    match unsafe { record::read_verified(PoolBase::of(heap), offset, verify) } {
        Ok(record) if is_same(record.key, key) => Ok(record),
        Ok(_) => Err(damaged(offset, key, WRONG_KEY)),
        Err(damage) => Err(damaged(offset, key, damage)),
    }
}

/// [`record_of`], unless it is damaged or of another key. No more than that, so that a record stays in registers.
#[inline(always)]
pub(crate) fn sound_record_of<'a, M: Machine>(
    base: PoolBase<M>,
    payload: u64,
    key: &[u8],
    verify: Verify,
) -> Option<Record<'a>> {
    // SAFETY: as in `record_of`.
    let record = unsafe { record::read_verified(base, record_offset(payload), verify) }.ok()?;
    is_same(record.key, key).then_some(record)
}

/// The value of what was found for `key` by lengths and key alone, if that is nearly all there is to most records: it
/// is short, and does not expire. What else it is, or whether it is damaged, [`sound_record_of`] tells.
#[inline(always)]
pub(crate) fn plain_value_of<'a, M: Machine>(
    base: PoolBase<M>,
    payload: u64,
    key: &[u8],
) -> Option<&'a [u8]> {
    // SAFETY: as in `record_of`.
    unsafe { record::read_plain_value(base, record_offset(payload), key) }
}

/// Whether what was found for a key had expired at this moment, while pinned. What is damaged has not.
#[inline(always)]
pub(crate) fn had_expired<M: Machine>(heap: &Heap<M>, payload: u64, moment: &Moment) -> bool {
    // SAFETY: as in `record_of`.
    unsafe { record::read_verified::<M>(PoolBase::of(heap), record_offset(payload), Verify::Key) }
        .is_ok_and(|record| record.had_expired::<M>(moment))
}

/// Bytes of the record of a payload, as far as it can be told, while pinned or its only owner.
pub(crate) fn record_size_of<M: Machine>(heap: &Heap<M>, payload: u64) -> usize {
    // SAFETY: as in `record_of`; or the caller has written the record and is its only owner.
    unsafe { record::size_at(PoolBase::of(heap), record_offset(payload)) }
}

/// Bytes of a key that are shown in a message.
const SHOWN_KEY_SIZE: usize = 64;

/// What is said of a damaged record.
#[cold]
#[inline(never)]
fn damaged(offset: u64, key: &[u8], damage: Damage) -> IndexError {
    let shown = key[..key.len().min(SHOWN_KEY_SIZE)].escape_ascii();
    let more = if key.len() > SHOWN_KEY_SIZE { ".." } else { "" };
    let what = format!("the record of the key '{shown}{more}': {damage}");
    AllocError::Corrupt { offset, what }.into()
}

const WRONG_PLACE: Damage =
    "its key does not follow the one before: an entry is where it does not belong";

/// The pairs that a scan meets, verified one by one. Their records stay as long as it is pinned.
pub(crate) struct Ordered<'a, 'b> {
    pub last: Option<&'a [u8]>,
    pub bounds: (Bound<&'b [u8]>, Bound<&'b [u8]>),
    pub reverse: bool,
    pub verify: Verify,
    pub damage: Option<IndexError>,
}

impl<'a> Ordered<'a, '_> {
    /// The record of the next entry; `None` if it is damaged or out of order, which is noted.
    #[inline(always)]
    pub fn follow<M: Machine>(&mut self, base: PoolBase<M>, payload: u64) -> Option<Record<'a>> {
        let offset = record_offset(payload);
        if self.verify == Verify::Key {
            // SAFETY: as in `record_of`.
            return match unsafe { record::read_verified(base, offset, Verify::Key) } {
                Ok(record) => Some(record),
                Err(damage) => {
                    self.note(offset, damage);
                    None
                }
            };
        }
        let damage = match verified(base, payload, Verify::Sum) {
            Ok(record) => match self.last.replace(record.key) {
                Some(last) if !self.follows(last, record.key) => WRONG_PLACE,
                None if self.is_before(record.key) => WRONG_PLACE,
                _ => return Some(record),
            },
            Err(damage) => damage,
        };
        self.note(offset, damage);
        None
    }

    /// Whether a key is one that may come behind another.
    #[inline(always)]
    fn follows(&self, last: &[u8], key: &[u8]) -> bool {
        if self.reverse { is_less(key, last) } else { is_less(last, key) }
    }

    /// Whether the first key lies before all that the scan was to come to.
    fn is_before(&self, key: &[u8]) -> bool {
        if self.reverse { is_above(key, self.bounds.1) } else { is_below(key, self.bounds.0) }
    }

    #[cold]
    #[inline(never)]
    fn note(&mut self, offset: u64, damage: Damage) {
        let near = self.last.unwrap_or(b"");
        let shown = near[..near.len().min(SHOWN_KEY_SIZE)].escape_ascii();
        let what = format!("the record that a range comes to behind the key '{shown}': {damage}");
        self.damage = Some(AllocError::Corrupt { offset, what }.into());
    }
}

/// As `a < b`, without a call where the first eight bytes tell.
#[inline(always)]
fn is_less(a: &[u8], b: &[u8]) -> bool {
    match (a.first_chunk(), b.first_chunk()) {
        (Some(x), Some(y)) if x != y => u64::from_be_bytes(*x) < u64::from_be_bytes(*y),
        _ => a < b,
    }
}

pub(crate) fn is_below(key: &[u8], from: Bound<&[u8]>) -> bool {
    match from {
        Bound::Included(from) => key < from,
        Bound::Excluded(from) => key <= from,
        Bound::Unbounded => false,
    }
}

pub(crate) fn is_above(key: &[u8], to: Bound<&[u8]>) -> bool {
    match to {
        Bound::Included(to) => key > to,
        Bound::Excluded(to) => key >= to,
        Bound::Unbounded => false,
    }
}
