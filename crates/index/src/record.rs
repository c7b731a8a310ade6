//! Records: a byte-string key and its value in the pool, written once, never changed.
//!
//! ```text
//!   offset 0   header word   63        47 46         30 29 28            0
//!                           |  check sum | key length  | 0| value length   |
//!   offset 8   key bytes, then value bytes, no padding between
//! ```
//!
//! A record is private until an entry that refers to it is published, and is reclaimed by epochs
//! after that entry was durably replaced or removed; so it is read as plain bytes. A fence is a
//! record without a value: the lower bound of a leaf.

use everleaf_alloc::{AllocError, Heap, Recovery, Session};
use everleaf_machine::{Atomic, Machine};

use crate::base::Base;

/// The longest key, in bytes.
pub const KEY_SIZE_MAX: usize = 64 << 10;
/// The longest value, in bytes.
pub const VALUE_SIZE_MAX: usize = 512 << 20;

/// Bytes in front of the key.
const HEADER_SIZE: usize = 8;
const VALUE_BITS: u32 = 30;
const KEY_BITS: u32 = 17;

/// Bytes of a record with a key and a value of these lengths.
pub fn record_size(key_length: usize, value_length: usize) -> usize {
    HEADER_SIZE + key_length + value_length
}

/// Key length and value length of a header word.
fn lengths(header: u64) -> (usize, usize) {
    let value = header & ((1 << VALUE_BITS) - 1);
    let key = header >> VALUE_BITS & ((1 << KEY_BITS) - 1);
    (key as usize, value as usize)
}

/// Seventeen bits over key and value.
fn check_sum(key: &[u8], value: &[u8]) -> u64 {
    let sum = crc32c::crc32c_append(crc32c::crc32c(key), value);
    u64::from(sum ^ sum >> 17) & 0x1_FFFF
}

/// Writes a record and makes it durable. It is private to the caller until published.
pub fn create<M: Machine>(
    session: &mut Session<M>,
    key: &[u8],
    value: &[u8],
) -> Result<u64, AllocError> {
    let size = record_size(key.len(), value.len());
    let offset = session.allocate_record(size)?;
    let header = check_sum(key, value) << (VALUE_BITS + KEY_BITS)
        | (key.len() as u64) << VALUE_BITS
        | value.len() as u64;
    let heap = session.heap();
    let start = heap.base().wrapping_add(offset as usize);
    heap.pool().word(offset).write_private(header);
    write_body::<M>(start.wrapping_add(HEADER_SIZE), key, value);
    if !M::mutant("record.no_persist") {
        // Persist: the record before the entry that refers to it, or recovery would find an entry
        // without its key (R1).
        heap.medium().persist(start, size);
    }
    Ok(offset)
}

/// Writes key and value behind the header. Small bodies go through one buffer, so that the words
/// they share are written once.
fn write_body<M: Machine>(body: *mut u8, key: &[u8], value: &[u8]) {
    if !M::SIMULATED || key.len().is_multiple_of(8) {
        // SAFETY: the record was allocated with room for both and is not published.
        unsafe { M::write_bytes(body, key) };
        // SAFETY: as above.
        unsafe { M::write_bytes(body.wrapping_add(key.len()), value) };
        return;
    }
    let whole = [key, value].concat();
    // SAFETY: as above.
    unsafe { M::write_bytes(body, &whole) };
}

/// A published record, or one private to the caller.
#[derive(Clone, Copy)]
pub struct Record<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
}

impl Record<'_> {
    /// Bytes of the record in the pool.
    pub fn size(&self) -> usize {
        record_size(self.key.len(), self.value.len())
    }
}

/// The record at `offset`.
///
/// # Safety
/// `offset` refers to a record that is published (or private to the caller) and that cannot be
/// reclaimed during `'a`: the caller's session is pinned, or nobody else is active.
#[inline(always)]
pub unsafe fn read<'a, M: Machine>(base: Base<M>, offset: u64) -> Record<'a> {
    let start = base.start().wrapping_add(offset as usize);
    // SAFETY: a record starts with its header word, 16-byte aligned, inside the pool.
    let header = unsafe { &*start.cast::<Atomic<u64, M>>() }.read_private();
    let (mut key_length, mut value_length) = lengths(header);
    if !base.holds(offset, record_size(key_length, value_length)) {
        // The header is damaged, as a check will say. Whatever is returned is wrong; this is safe.
        (key_length, value_length) = (0, 0);
    }
    // SAFETY: the range is inside the pool.
    unsafe { M::read_bytes(start, record_size(key_length, value_length)) };
    let key = start.wrapping_add(HEADER_SIZE);
    Record {
        // SAFETY: the lengths were written with the record; its bytes do not change while it is
        // published, and the caller promises that it stays so for 'a.
        key: unsafe { std::slice::from_raw_parts(key, key_length) },
        // SAFETY: as above.
        value: unsafe { std::slice::from_raw_parts(key.wrapping_add(key_length), value_length) },
    }
}

/// The record at an offset that may be damaged: checked against the chunk it is in before any
/// byte is read. Marks it as in use.
pub fn read_checked<'a, M: Machine>(
    heap: &'a Heap<M>,
    recovery: &Recovery<M>,
    offset: u64,
    verify_sum: bool,
) -> Result<Record<'a>, AllocError> {
    let corrupt = |what: String| AllocError::Corrupt { offset, what };
    let room = recovery
        .record_room(offset)
        .ok_or_else(|| corrupt("an entry refers to a place where no record can be".into()))?;
    let header = heap.pool().word(offset).read_private();
    let (key_length, value_length) = lengths(header);
    let size = record_size(key_length, value_length);
    if size > room {
        return Err(corrupt(format!("a record claims {size} bytes where {room} fit")));
    }
    // SAFETY: the size was just checked against the chunk, which is inside the pool; nobody changes
    // published records.
    let record = unsafe { read(Base::of(heap), offset) };
    if verify_sum && check_sum(record.key, record.value) != header >> (VALUE_BITS + KEY_BITS) {
        return Err(corrupt("a record's check sum is wrong: its bytes have changed".into()));
    }
    Ok(record)
}

/// Sixty-four bits of hash of a key: the source of tags and fingerprints in entries, so part of the
/// format. Folded 64 x 64 -> 128 bit products of eight bytes at a time.
#[inline]
pub fn hash(key: &[u8]) -> u64 {
    const SEEDS: [u64; 3] = [0xA076_1D64_78BD_642F, 0xE703_7ED1_A0B4_28DB, 0x8EBC_6AF0_9C88_C6E3];
    let mut state = SEEDS[0] ^ key.len() as u64;
    let mut chunks = key.chunks_exact(8);
    for chunk in &mut chunks {
        let word = u64::from_le_bytes(chunk.try_into().expect("eight bytes"));
        state = fold(state ^ word, SEEDS[1]);
    }
    let rest = chunks.remainder();
    if !rest.is_empty() {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        state = fold(state ^ u64::from_le_bytes(last), SEEDS[2]);
    }
    fold(state, SEEDS[1] ^ SEEDS[2])
}

#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}
