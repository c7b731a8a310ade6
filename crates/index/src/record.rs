//! Records: a byte-string key and its value in the pool, written once, never changed.
//!
//! ```text
//!   offset 0   header word   63        47 46         30 29 28            0
//!                           |  check sum | key length  | e| value length   |
//!   offset 8   key bytes, then value bytes, then (e) 8 bytes of expiry; no padding between
//! ```
//!
//! The value field holds the length of the value, up to 2^29; more than that says that the record
//! expires, and the length is what exceeds 2^29 + 1. The expiry is in milliseconds since 1970-01-01
//! UTC. A record that has expired stands for an absent key (`bytes_tree.rs`), until it is removed.
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
/// The longest value of a key that expires, in bytes.
pub const EXPIRING_VALUE_SIZE_MAX: usize = VALUE_SIZE_MAX - EXPIRY_SIZE;

/// Bytes in front of the key.
const HEADER_SIZE: usize = 8;
const VALUE_BITS: u32 = 30;
const KEY_BITS: u32 = 17;

/// Bytes of an expiry, behind the value.
const EXPIRY_SIZE: usize = 8;
/// Added to the value field of a record that expires.
const EXPIRES: u64 = VALUE_SIZE_MAX as u64 + 1;

const _: () = assert!(EXPIRES + (EXPIRING_VALUE_SIZE_MAX as u64) < 1 << VALUE_BITS);

/// Bytes of a record with a key and a value of these lengths that does not expire.
pub fn record_size(key_length: usize, value_length: usize) -> usize {
    HEADER_SIZE + key_length + value_length
}

/// What a header word says.
struct Shape {
    key_length: usize,
    value_length: usize,
    expires: bool,
}

impl Shape {
    #[inline(always)]
    fn of(header: u64) -> Self {
        let field = header & ((1 << VALUE_BITS) - 1);
        let expires = field >= EXPIRES;
        Shape {
            key_length: (header >> VALUE_BITS & ((1 << KEY_BITS) - 1)) as usize,
            value_length: (if expires { field - EXPIRES } else { field }) as usize,
            expires,
        }
    }

    /// Bytes of the record.
    #[inline(always)]
    fn size(&self) -> usize {
        let expiry = if self.expires { EXPIRY_SIZE } else { 0 };
        record_size(self.key_length, self.value_length) + expiry
    }
}

/// Seventeen bits over key, value and, if there is one, expiry.
fn check_sum(key: &[u8], value: &[u8], expiry_ms: u64) -> u64 {
    let mut sum = crc32c::crc32c_append(crc32c::crc32c(key), value);
    if expiry_ms != 0 {
        sum = crc32c::crc32c_append(sum, &expiry_ms.to_le_bytes());
    }
    u64::from(sum ^ sum >> 17) & 0x1_FFFF
}

/// Writes a record that does not expire; see [`create_expiring`].
pub fn create<M: Machine>(
    session: &mut Session<M>,
    key: &[u8],
    value: &[u8],
) -> Result<u64, AllocError> {
    create_expiring(session, key, value, 0)
}

/// Writes a record and makes it durable. It is private to the caller until published. An expiry of
/// 0 is none.
#[inline]
pub fn create_expiring<M: Machine>(
    session: &mut Session<M>,
    key: &[u8],
    value: &[u8],
    expiry_ms: u64,
) -> Result<u64, AllocError> {
    let (tail, mark) = if expiry_ms == 0 { (0, 0) } else { (EXPIRY_SIZE, EXPIRES) };
    let size = record_size(key.len(), value.len()) + tail;
    let offset = session.allocate_record(size)?;
    let header = check_sum(key, value, expiry_ms) << (VALUE_BITS + KEY_BITS)
        | (key.len() as u64) << VALUE_BITS
        | (value.len() as u64 + mark);
    let heap = session.heap();
    let start = heap.base().wrapping_add(offset as usize);
    heap.pool().word(offset).write_private(header);
    let body = start.wrapping_add(HEADER_SIZE);
    if expiry_ms == 0 {
        write_body::<M>(body, key, value);
    } else {
        write_body::<M>(body, key, &[value, &expiry_ms.to_le_bytes()].concat());
    }
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
    /// When it expires, in milliseconds since 1970-01-01 UTC; 0 for never.
    pub expiry_ms: u64,
}

impl Record<'_> {
    /// Bytes of the record in the pool.
    pub fn size(&self) -> usize {
        let expiry = if self.expiry_ms == 0 { 0 } else { EXPIRY_SIZE };
        record_size(self.key.len(), self.value.len()) + expiry
    }

    /// Whether its time has come. Looks at the clock only if it expires at all.
    #[inline(always)]
    pub fn has_expired<M: Machine>(&self) -> bool {
        self.expiry_ms != 0 && self.expiry_ms <= M::wall_clock_ms()
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
    let mut shape = Shape::of(header);
    if !base.holds(offset, shape.size()) {
        // The header is damaged, as a check will say. Whatever is returned is wrong; this is safe.
        shape = Shape::of(0);
    }
    let (key_length, value_length) = (shape.key_length, shape.value_length);
    // SAFETY: the range is inside the pool.
    unsafe { M::read_bytes(start, shape.size()) };
    let key = start.wrapping_add(HEADER_SIZE);
    let value = key.wrapping_add(key_length);
    Record {
        // SAFETY: the lengths were written with the record; its bytes do not change while it is
        // published, and the caller promises that it stays so for 'a.
        key: unsafe { std::slice::from_raw_parts(key, key_length) },
        // SAFETY: as above.
        value: unsafe { std::slice::from_raw_parts(value, value_length) },
        expiry_ms: if shape.expires {
            // SAFETY: as above: the expiry is a part of the record.
            unsafe { value.wrapping_add(value_length).cast::<u64>().read_unaligned() }
        } else {
            0
        },
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
    let size = Shape::of(header).size();
    if size > room {
        return Err(corrupt(format!("a record claims {size} bytes where {room} fit")));
    }
    // SAFETY: the size was just checked against the chunk, which is inside the pool; nobody changes
    // published records.
    let record = unsafe { read(Base::of(heap), offset) };
    if verify_sum
        && check_sum(record.key, record.value, record.expiry_ms)
            != header >> (VALUE_BITS + KEY_BITS)
    {
        return Err(corrupt("a record's check sum is wrong: its bytes have changed".into()));
    }
    Ok(record)
}

/// Key, value and expiry of a record.
pub type Owned = (Vec<u8>, Vec<u8>, u64);

/// The record at an offset of a file of `size` bytes, if all of it can be proven.
pub fn read_from(
    read: &dyn Fn(u64, &mut [u8]) -> bool,
    size: u64,
    offset: u64,
) -> Result<Owned, String> {
    let mut header = [0; HEADER_SIZE];
    if offset == 0 || !read(offset, &mut header) {
        return Err(format!("it refers to {offset}, where no record can be"));
    }
    let header = u64::from_le_bytes(header);
    let shape = Shape::of(header);
    let length = shape.size() - HEADER_SIZE;
    let start = offset + HEADER_SIZE as u64;
    if size.saturating_sub(start) < length as u64 {
        return Err(format!("the record at {offset} claims {length} bytes, which are not there"));
    }
    let mut key = vec![0; length];
    if !read(start, &mut key) {
        return Err(format!("the record at {offset} cannot be read"));
    }
    let mut value = key.split_off(shape.key_length);
    let tail = value.split_off(shape.value_length);
    let expiry_ms = tail.try_into().map_or(0, u64::from_le_bytes);
    if check_sum(&key, &value, expiry_ms) != header >> (VALUE_BITS + KEY_BITS) {
        return Err(format!("the check sum of the record at {offset} is wrong"));
    }
    Ok((key, value, expiry_ms))
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

#[cfg(test)]
mod tests {
    use super::*;
    use everleaf_machine::Hardware;
    use everleaf_pool::{Domain, Pool};

    #[test]
    fn a_record_is_read_as_it_was_written_with_and_without_expiry() {
        let pool = Pool::in_memory(1 << 20, 1 << 24, Domain::Process).expect("memory");
        let heap = Heap::<Hardware>::create(pool).expect("room");
        let mut session = heap.session().expect("a session");
        for key_length in [0, 1, 7, 8, KEY_SIZE_MAX] {
            for (value_length, expiry_ms) in [(0, 0), (0, 1), (5, 0), (5, u64::MAX), (3000, 77)] {
                let (key, value) = (vec![b'k'; key_length], vec![b'v'; value_length]);
                let offset = create_expiring(&mut session, &key, &value, expiry_ms).expect("room");
                // SAFETY: private to us.
                let record = unsafe { read(Base::of(&heap), offset) };
                assert_eq!((record.key, record.value), (&key[..], &value[..]));
                assert_eq!(record.expiry_ms, expiry_ms);
                let size = record.size();
                assert_eq!(size, 8 + key_length + value_length + 8 * usize::from(expiry_ms != 0));
                session.free_record(offset, size);
            }
        }
    }

    #[test]
    fn every_length_has_a_header_of_its_own() {
        let shape = |field: u64| {
            let shape = Shape::of(field | 5 << VALUE_BITS);
            (shape.key_length, shape.value_length, shape.expires)
        };
        assert_eq!(shape(0), (5, 0, false));
        assert_eq!(shape(VALUE_SIZE_MAX as u64), (5, VALUE_SIZE_MAX, false));
        assert_eq!(shape(EXPIRES), (5, 0, true));
        let longest = EXPIRING_VALUE_SIZE_MAX;
        assert_eq!(shape(EXPIRES + longest as u64), (5, longest, true));
    }
}
