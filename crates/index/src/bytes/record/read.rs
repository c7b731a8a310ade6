//! Reading records, as closely as one is asked to.

use everleaf_alloc::{AllocError, Heap, Recovery};
use everleaf_machine::check_sum::crc32c;
use everleaf_machine::{Atomic, LINE_SIZE, Machine, Ordering};

use super::{
    Damage, ExpiryPlace, HEADER_SIZE, KEY_BITS, Record, SUM_SHIFT, Shape, TAIL, VALUE_BITS, Verify,
    WORD, WRONG_EXPIRY, WRONG_LENGTH, WRONG_SUM, expiry_of_word, fold_sum,
};
use crate::bytes::key_words::is_same;
use crate::pool_trees::pool_base::PoolBase;

/// The highest bit of both lengths in a header: where it is in neither, there is no expiry. (It may also be in the
/// greatest of lengths, without one.)
const HAS_EXPIRY: u64 = 1 << (VALUE_BITS - 1) | 1 << (VALUE_BITS + KEY_BITS - 1);
const _: () = assert!(TAIL > 1 << (VALUE_BITS - 1) && WORD > 1 << (KEY_BITS - 1));

/// The header of the record at `offset`.
///
/// # Safety
/// As for [`read`].
#[inline(always)]
pub(super) unsafe fn header<M: Machine>(base: PoolBase<M>, offset: u64) -> u64 {
    let start = base.start().wrapping_add(offset as usize);
    // SAFETY: a record starts with its header word, 16-byte aligned, inside the pool.
    unsafe { &*start.cast::<Atomic<u64, M>>() }.read_private()
}

/// Key and value of the record at `offset`. If its header is damaged, both are empty.
///
/// # Safety
/// `offset` refers to a record that is published (or private to the caller) and that cannot be
/// reclaimed during `'a`: the caller's session is pinned, or nobody else is active.
#[inline(always)]
pub unsafe fn read<'a, M: Machine>(base: PoolBase<M>, offset: u64) -> Record<'a> {
    // SAFETY: the caller's promise.
    let result = unsafe { read_verified(base, offset, Verify::Key) };
    result.unwrap_or(Record { key: &[], value: &[], expiry_ms: 0 })
}

/// The key of the record at `offset`; empty if its lengths are damaged. Nothing else of the record has to be whole:
/// where a key belongs is not to depend on it.
///
/// # Safety
/// As for [`read`].
#[inline(always)]
pub unsafe fn read_key<'a, M: Machine>(base: PoolBase<M>, offset: u64) -> &'a [u8] {
    // SAFETY: the caller's promise.
    let shape = Shape::of(unsafe { header(base, offset) });
    if !base.holds(offset, shape.size()) {
        return &[];
    }
    let start = base.start().wrapping_add(offset as usize).wrapping_add(shape.body());
    // SAFETY: the range is inside the pool.
    unsafe { M::read_bytes(start, shape.key_length) };
    // SAFETY: the range is inside the pool; its bytes do not change while the record is published, and the caller
    // promises that it stays so for 'a.
    unsafe { std::slice::from_raw_parts(start, shape.key_length) }
}

/// The record at `offset`, unless it is damaged.
///
/// # Safety
/// As for [`read`].
#[inline(always)]
pub(crate) unsafe fn read_verified<'a, M: Machine>(
    base: PoolBase<M>,
    offset: u64,
    verify: Verify,
) -> Result<Record<'a>, Damage> {
    // SAFETY: the caller's promise.
    let header = unsafe { header(base, offset) };
    let shape = Shape::of(header);
    if !base.holds(offset, shape.size()) {
        return Err(WRONG_LENGTH);
    }
    let start = base.start().wrapping_add(offset as usize);
    let body = start.wrapping_add(shape.body());
    // SAFETY: the range is inside the pool.
    unsafe { M::read_bytes(body, shape.body_length()) };
    // SAFETY: the range is inside the pool; its bytes do not change while the record is published,
    // and the caller promises that it stays so for 'a.
    let bytes: &'a [u8] = unsafe { std::slice::from_raw_parts(body, shape.body_length()) };
    let (key, rest) = bytes.split_at(shape.key_length);
    let (value, tail) = rest.split_at(shape.value_length);
    let expiry_ms = match shape.expiry {
        ExpiryPlace::None => 0,
        ExpiryPlace::Tail => tail.try_into().map_or(0, u64::from_le_bytes),
        ExpiryPlace::Word => {
            let word = start.wrapping_add(HEADER_SIZE).cast::<Atomic<u64, M>>();
            // SAFETY: the word is inside the pool and aligned, as the record is.
            // Relaxed: it stands for itself, whatever changes it.
            let word = unsafe { &*word }.load(Ordering::Relaxed);
            expiry_of_word(word).ok_or(WRONG_EXPIRY)?
        }
    };
    let trusts = M::mutant("record.trusts_sum");
    if verify == Verify::Sum && !trusts && fold_sum(crc32c(bytes), shape) != header >> SUM_SHIFT {
        return Err(WRONG_SUM);
    }
    Ok(Record { key, value, expiry_ms })
}

/// The value of the record at `offset`, if by its header it has no expiry and is `key`'s: what [`Verify::Key`] looks
/// at, in as few steps as it takes of most records. Others, and damaged ones, are those of [`read_verified`].
///
/// # Safety
/// As for [`read`].
#[inline(always)]
pub(crate) unsafe fn read_plain_value<'a, M: Machine>(
    base: PoolBase<M>,
    offset: u64,
    key: &[u8],
) -> Option<&'a [u8]> {
    // SAFETY: the caller's promise.
    let header = unsafe { header(base, offset) };
    let key_length = (header >> VALUE_BITS) as usize & ((1 << (KEY_BITS - 1)) - 1);
    if header & HAS_EXPIRY != 0 || key_length != key.len() {
        return None;
    }
    let length = key_length + (header as usize & ((1 << (VALUE_BITS - 1)) - 1));
    if !base.holds(offset, HEADER_SIZE + length) {
        return None;
    }
    let body = base.start().wrapping_add(offset as usize + HEADER_SIZE);
    // SAFETY: the range is inside the pool.
    unsafe { M::read_bytes(body, length) };
    // SAFETY: the range is inside the pool; its bytes do not change while the record is published,
    // and the caller promises that it stays so for 'a.
    let bytes: &'a [u8] = unsafe { std::slice::from_raw_parts(body, length) };
    let (found, value) = bytes.split_at(key_length);
    is_same(found, key).then_some(value)
}

/// Lines of a record that are asked for ahead of its use; the CPU follows from there by itself.
const ASKED_LINES_MAX: usize = 16;

/// Asks for the lines of a record but its first, which should have come by now.
///
/// # Safety
/// As for [`read`].
#[inline(always)]
pub(crate) unsafe fn ask_for_rest<M: Machine>(base: PoolBase<M>, offset: u64) {
    if M::SIMULATED {
        return;
    }
    // SAFETY: the caller's promise.
    let size = Shape::of(unsafe { header(base, offset) }).size().min(ASKED_LINES_MAX * LINE_SIZE);
    let start = base.start().wrapping_add(offset as usize);
    let first = start.align_offset(LINE_SIZE);
    let first = if first == 0 { LINE_SIZE } else { first };
    for ahead in (first..size).step_by(LINE_SIZE) {
        M::prefetch(start.wrapping_add(ahead));
    }
}

/// Bytes of the record at `offset` in the pool, as its header says.
///
/// # Safety
/// As for [`read`].
pub(crate) unsafe fn size_at<M: Machine>(base: PoolBase<M>, offset: u64) -> usize {
    // SAFETY: the caller's promise.
    Shape::of(unsafe { header(base, offset) }).size()
}

/// The record at an offset that may be damaged, with its size: checked against the chunk it is in
/// before any byte is read. Marks it as in use.
pub fn read_checked<'a, M: Machine>(
    heap: &'a Heap<M>,
    recovery: &Recovery<M>,
    offset: u64,
) -> Result<(Record<'a>, usize), AllocError> {
    let corrupt = |what: String| AllocError::Corrupt { offset, what };
    let room = recovery
        .record_room(offset)
        .ok_or_else(|| corrupt("an entry refers to a place where no record can be".into()))?;
    let size = Shape::of(heap.pool().word(offset).read_private()).size();
    if size > room {
        return Err(corrupt(format!("a record claims {size} bytes where {room} fit")));
    }
    // SAFETY: the size was just checked against the chunk, which is inside the pool; nobody changes
    // published records.
    let record = unsafe { read_verified(PoolBase::of(heap), offset, Verify::Sum) };
    let record = record.map_err(|damage| corrupt(format!("a record is damaged: {damage}")))?;
    Ok((record, size))
}

/// Key, value and expiry of a record.
pub type Owned = (Vec<u8>, Vec<u8>, u64);

/// The record at an offset of a file of `size` bytes, if all of it can be proven.
pub fn read_from(
    read: &dyn Fn(u64, &mut [u8]) -> bool,
    size: u64,
    offset: u64,
) -> Result<Owned, String> {
    let word = |offset: u64| {
        let mut word = [0; 8];
        read(offset, &mut word).then_some(u64::from_le_bytes(word))
    };
    let nowhere = || format!("it refers to {offset}, where no record can be");
    let header = word(offset).filter(|_| offset != 0).ok_or_else(nowhere)?;
    let shape = Shape::of(header);
    let (start, length) = (offset + shape.body() as u64, shape.body_length());
    if size.saturating_sub(start) < length as u64 {
        return Err(format!("the record at {offset} claims {length} bytes, which are not there"));
    }
    let mut key = vec![0; length];
    if !read(start, &mut key) {
        return Err(format!("the record at {offset} cannot be read"));
    }
    if fold_sum(crc32c(&key), shape) != header >> SUM_SHIFT {
        return Err(format!("the check sum of the record at {offset} is wrong"));
    }
    let mut value = key.split_off(shape.key_length);
    let tail = value.split_off(shape.value_length);
    let expiry_ms = match shape.expiry {
        ExpiryPlace::None => Some(0),
        ExpiryPlace::Tail => tail.try_into().ok().map(u64::from_le_bytes),
        ExpiryPlace::Word => word(offset + HEADER_SIZE as u64).and_then(expiry_of_word),
    };
    let expiry_ms =
        expiry_ms.ok_or_else(|| format!("the expiry of the record at {offset} is damaged"))?;
    Ok((key, value, expiry_ms))
}
