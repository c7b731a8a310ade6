//! Records: a byte-string key and its value in the pool, written once. Only the expiry may change.
//!
//! ```text
//!   offset 0   header word   63        47 46         30 29 28            0
//!                           |  check sum | key field  | t| value length   |
//!   offset 8   key bytes, then value bytes, then (t) 8 bytes of expiry; no padding between
//!
//!   with an expiry word (key field above 2^16):
//!   offset 8   expiry word   63        48 47                             0
//!                           |  check     | milliseconds since 1970        |
//!   offset 16  key bytes, then value bytes
//! ```
//!
//! The key field holds the length of the key, up to 2^16; more than that says that there is an
//! expiry word, and the length is what exceeds 2^16 + 1. The expiry word is aligned and has a check
//! of its own, so that it can be changed by one store and the rest stays as it is; 0 milliseconds
//! say that the record does not expire. Records of values of 4096 bytes and more have it also if they
//! do not expire. An expiry from 2^48 on, one of a key too long for the field,
//! and one that an older version wrote, is behind the value instead (t): the value field, which
//! otherwise holds the length of the value, up to 2^29, then exceeds the length by 2^29 + 1. Such an
//! expiry is in milliseconds, too, and is a part of what the check sum covers.
//!
//! The check sum folds the CRC-32C of all bytes behind the header but the expiry word into 17 bits.
//! It is never 0 where both lengths are, so that no header is 0: a pool where an older program may have
//! written 0 has no feature bit that says so, and is mended when it is opened for writing. A damaged length covers
//! other bytes, so the sum finds it as it finds a damaged byte: but for one damage in 131,072. A search that comes
//! from an entry also compares the key, or 17 bits of its hash.
//!
//! A record that has expired stands for an absent key (`bytes/tree.rs`), until it is removed. A record
//! is private until an entry that refers to it is published, and is reclaimed by epochs after that
//! entry was durably replaced or removed; so it is read as plain bytes. A fence is a record without a
//! value: the lower bound of a leaf.

mod read;

use std::cell::Cell;

use everleaf_alloc::{AllocError, Heap, Session};
use everleaf_machine::check_sum::{crc32c, crc32c_append};
use everleaf_machine::{Atomic, LINE_SIZE, Machine, Ordering};
use everleaf_pool::{FEATURE_EXPIRY, FEATURE_EXPIRY_WORD};

use self::read::header;
pub use self::read::{Owned, read, read_checked, read_from, read_key};
pub(crate) use self::read::{ask_for_rest, read_plain_value, read_verified, size_at};
use crate::pool_trees::pool_base::PoolBase;

/// The longest key, in bytes.
pub const KEY_SIZE_MAX: usize = 64 << 10;
/// The longest value, in bytes.
pub const VALUE_SIZE_MAX: usize = 512 << 20;
/// The longest value of a record with its expiry behind the value, in bytes.
const TAIL_VALUE_SIZE_MAX: usize = VALUE_SIZE_MAX - EXPIRY_SIZE;

/// Bytes in front of the key, or of the expiry word.
const HEADER_SIZE: usize = 8;
const VALUE_BITS: u32 = 30;
const KEY_BITS: u32 = 17;
const SUM_SHIFT: u32 = VALUE_BITS + KEY_BITS;

/// Bytes of an expiry.
const EXPIRY_SIZE: usize = 8;
/// Added to the value field of a record whose expiry is behind the value.
const TAIL: u64 = VALUE_SIZE_MAX as u64 + 1;
/// Added to the key field of a record with an expiry word.
const WORD: u64 = KEY_SIZE_MAX as u64 + 1;
/// The longest key of a record with an expiry word.
const WORD_KEY_SIZE_MAX: usize = (1 << KEY_BITS) - 1 - WORD as usize;
/// Bits of the time in an expiry word.
const TIME_BITS: u32 = 48;

const _: () = assert!(TAIL + (TAIL_VALUE_SIZE_MAX as u64) < 1 << VALUE_BITS);

/// The shortest value whose record has an expiry word even if it does not expire, in bytes. What is
/// shorter is written again in less time than changing it in place takes.
pub const LONG_VALUE_SIZE: usize = 4096;

/// Bytes of a record with a key and a short value of these lengths that does not expire.
pub fn record_size(key_length: usize, value_length: usize) -> usize {
    debug_assert!(value_length < LONG_VALUE_SIZE, "{value_length}");
    HEADER_SIZE + key_length + value_length
}

/// The features that a pool needs for such a record.
#[inline(always)]
pub(crate) fn features_of(value_length: usize, expiry_ms: u64) -> u64 {
    match expiry_ms {
        0 if !may_have_word(value_length, 0) => 0,
        0 => FEATURE_EXPIRY_WORD,
        _ => FEATURE_EXPIRY | FEATURE_EXPIRY_WORD,
    }
}

/// Whether a record with a value of this length has an expiry word, or may have.
#[inline(always)]
pub(crate) fn may_have_word(value_length: usize, expiry_ms: u64) -> bool {
    expiry_ms != 0 || value_length >= LONG_VALUE_SIZE
}

/// Where a record has its expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExpiryPlace {
    None,
    Word,
    Tail,
}

/// The longest value of a key of this length that expires then (0 for never), in bytes.
#[inline(always)]
pub fn value_size_max(key_length: usize, expiry_ms: u64) -> usize {
    match Shape::new(key_length, 0, expiry_ms).expiry {
        ExpiryPlace::None | ExpiryPlace::Word => VALUE_SIZE_MAX,
        ExpiryPlace::Tail => TAIL_VALUE_SIZE_MAX,
    }
}

/// What a header word says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    key_length: usize,
    value_length: usize,
    expiry: ExpiryPlace,
}

impl Shape {
    /// The shape of a record to be written.
    fn new(key_length: usize, value_length: usize, expiry_ms: u64) -> Self {
        let fits = expiry_ms >> TIME_BITS == 0 && key_length <= WORD_KEY_SIZE_MAX;
        let expiry = match expiry_ms {
            _ if !may_have_word(value_length, expiry_ms) => ExpiryPlace::None,
            0 if !fits => ExpiryPlace::None,
            _ if fits => ExpiryPlace::Word,
            _ => ExpiryPlace::Tail,
        };
        Shape { key_length, value_length, expiry }
    }

    #[inline(always)]
    fn of(header: u64) -> Self {
        let value = header & ((1 << VALUE_BITS) - 1);
        let key = header >> VALUE_BITS & ((1 << KEY_BITS) - 1);
        if value < TAIL && key < WORD {
            return Shape {
                key_length: key as usize,
                value_length: value as usize,
                expiry: ExpiryPlace::None,
            };
        }
        if value >= TAIL {
            // Both at once is none of ours: then the sum is wrong, or one of another length.
            let key_length = (key.min(WORD - 1)) as usize;
            let value_length = (value - TAIL) as usize;
            return Shape { key_length, value_length, expiry: ExpiryPlace::Tail };
        }
        let key_length = (key - WORD) as usize;
        Shape { key_length, value_length: value as usize, expiry: ExpiryPlace::Word }
    }

    /// The header word, without the sum.
    fn encode(self) -> u64 {
        let key = self.key_length as u64 + if self.expiry == ExpiryPlace::Word { WORD } else { 0 };
        let value =
            self.value_length as u64 + if self.expiry == ExpiryPlace::Tail { TAIL } else { 0 };
        key << VALUE_BITS | value
    }

    /// Where the key begins.
    #[inline(always)]
    fn body(self) -> usize {
        HEADER_SIZE + if self.expiry == ExpiryPlace::Word { EXPIRY_SIZE } else { 0 }
    }

    /// Bytes that the check sum covers.
    #[inline(always)]
    fn body_length(self) -> usize {
        let tail = if self.expiry == ExpiryPlace::Tail { EXPIRY_SIZE } else { 0 };
        self.key_length + self.value_length + tail
    }

    /// Bytes of the record.
    #[inline(always)]
    fn size(self) -> usize {
        self.body() + self.body_length()
    }
}

/// Seventeen bits of check sum from the CRC-32C of a record's body.
#[inline(always)]
fn fold_sum(crc: u32, shape: Shape) -> u64 {
    let sum = u64::from(crc ^ crc >> 17) & 0x1_FFFF;
    // An empty body has the CRC 0, and zeros must not pass for a record.
    if shape.body_length() == 0 { 0x1_FFFF } else { sum }
}

/// The expiry word of a time below 2^48.
fn expiry_word(expiry_ms: u64) -> u64 {
    let crc = crc32c(&expiry_ms.to_le_bytes());
    u64::from(crc ^ crc >> 16) << TIME_BITS | expiry_ms
}

/// The time in an expiry word; `None` if the word is damaged.
#[inline(always)]
fn expiry_of_word(word: u64) -> Option<u64> {
    let expiry_ms = word & ((1 << TIME_BITS) - 1);
    (expiry_word(expiry_ms) == word).then_some(expiry_ms)
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
    let shape = Shape::new(key.len(), value.len(), expiry_ms);
    let size = shape.size();
    let offset = session.allocate_record(size)?;
    let tail = expiry_ms.to_le_bytes();
    let mut crc = crc32c_append(crc32c(key), value);
    if shape.expiry == ExpiryPlace::Tail && !M::mutant("record.tail_unsummed") {
        crc = crc32c_append(crc, &tail);
    }
    let header = fold_sum(crc, shape) << SUM_SHIFT | shape.encode();
    let heap = session.heap();
    let start = heap.base().wrapping_add(offset as usize);
    heap.pool().word(offset).write_private(header);
    if shape.expiry == ExpiryPlace::Word {
        let word = heap.pool().word(offset + HEADER_SIZE as u64);
        word.write_private(expiry_word(expiry_ms));
    }
    let body = start.wrapping_add(shape.body());
    if shape.expiry == ExpiryPlace::Tail {
        write_body::<M>(body, key, &[value, &tail].concat());
    } else {
        write_body::<M>(body, key, value);
    }
    if !M::mutant("record.no_persist") {
        // Persist: the record before the entry that refers to it, or recovery would find an entry
        // without its key (R1).
        let short = M::mutant("record.persist_short");
        let most = if M::mutant("record.persists_two_lines") { 2 * LINE_SIZE } else { size };
        heap.medium().persist(start, if short { HEADER_SIZE } else { size.min(most) });
    }
    Ok(offset)
}

/// Changes the expiry of a published record by one durable store. False if it has no place for this
/// expiry: then it has to be written again.
///
/// # Safety
/// As for [`read`]; and nobody else changes the key of the record, or decides by its expiry what
/// becomes of it, until this returns.
pub(crate) unsafe fn change_expiry<M: Machine>(
    heap: &Heap<M>,
    offset: u64,
    expiry_ms: u64,
) -> bool {
    // SAFETY: the caller's promise.
    let Some(word) = (unsafe { store_expiry(heap, offset, expiry_ms) }) else { return false };
    if !M::mutant("record.expiry_no_persist") {
        // Persist: the new time before the change is acknowledged or anybody else can read the key, or
        // a crash would bring back the time before (R2).
        heap.medium().persist(word.as_ptr(), 8);
    }
    true
}

/// As [`change_expiry`], but for the flush, which is left to the caller: of the word that it returns.
///
/// # Safety
/// As for [`change_expiry`].
pub(crate) unsafe fn store_expiry<M: Machine>(
    heap: &Heap<M>,
    offset: u64,
    expiry_ms: u64,
) -> Option<&Atomic<u64, M>> {
    // SAFETY: the caller's promise.
    if !unsafe { has_place_for(heap, offset, expiry_ms) } {
        return None;
    }
    let word = heap.pool().word(offset + HEADER_SIZE as u64);
    if M::mutant("record.expiry_without_check") {
        let check = word.read_private() >> TIME_BITS << TIME_BITS;
        // Relaxed: a planted bug, which changes time and check one after the other.
        word.store(check | expiry_ms, Ordering::Relaxed);
        // Persist: the time before its check, or (as it is a planted bug) a crash leaves both as they
        // belong together.
        heap.medium().persist(word.as_ptr(), 8);
    }
    // Release: a thread that reads several keys and has read this finds the stripe taken or counted; pairs with the
    // fence in `Look::is_unchanged`, and with the one in `get_many_unchanged`. To others time and check are one word.
    word.store(expiry_word(expiry_ms), Ordering::Release);
    Some(word)
}

/// Whether [`change_expiry`] has a place for this expiry.
///
/// # Safety
/// As for [`read`].
pub(crate) unsafe fn has_place_for<M: Machine>(
    heap: &Heap<M>,
    offset: u64,
    expiry_ms: u64,
) -> bool {
    // SAFETY: the caller's promise.
    let shape = Shape::of(unsafe { header(PoolBase::of(heap), offset) });
    shape.expiry == ExpiryPlace::Word && expiry_ms >> TIME_BITS == 0
}

/// Gives an empty key with an empty value its check sum if it is one that an older program wrote, by one
/// durable store.
///
/// # Safety
/// As for [`read`], and nobody else is active.
pub(crate) unsafe fn mend_empty<M: Machine>(heap: &Heap<M>, offset: u64) {
    let header = heap.pool().word(offset);
    if header.read_private() == 0 {
        let shape = Shape::of(0);
        header.write_private(fold_sum(0, shape) << SUM_SHIFT | shape.encode());
        // Persist: the sum before the pool says that all are there, or what the older program wrote would
        // pass for damage.
        heap.medium().persist(header.as_ptr(), HEADER_SIZE);
    }
}

/// Writes key and value behind the header. Small bodies go through one buffer, so that the words
/// they share are written once.
fn write_body<M: Machine>(body: *mut u8, key: &[u8], value: &[u8]) {
    if !M::SIMULATED || key.len().is_multiple_of(8) {
        // SAFETY: the record was allocated with room for both and is not published.
        unsafe { M::write_bytes(body, key) };
        // SAFETY: the record was allocated with room for both and is not published.
        unsafe { M::write_bytes(body.wrapping_add(key.len()), value) };
        return;
    }
    let whole = [key, value].concat();
    // SAFETY: the record was allocated with room for both and is not published.
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
    /// Whether its time has come. Looks at the clock only if it expires at all.
    #[inline(always)]
    pub fn has_expired<M: Machine>(&self) -> bool {
        self.expiry_ms != 0 && self.expiry_ms <= M::wall_clock_ms()
    }
}

/// The time at which an operation looks at a record: asked for when it is first needed, and the same from then on, so
/// that all of the operation agrees on whether that record has expired.
#[derive(Default)]
pub(crate) struct Moment(Cell<Option<u64>>);

impl Moment {
    /// A record is looked at that may be younger than this moment.
    pub fn renew(&self) {
        self.0.set(None);
    }

    #[inline(always)]
    fn ms<M: Machine>(&self) -> u64 {
        if let Some(ms) = self.0.get() {
            return ms;
        }
        let ms = M::wall_clock_ms();
        self.0.set(Some(ms));
        ms
    }

    /// Whether this time had come, which is 0 for never.
    #[inline(always)]
    pub fn is_behind<M: Machine>(&self, expiry_ms: u64) -> bool {
        expiry_ms != 0 && expiry_ms <= self.ms::<M>()
    }
}

impl Record<'_> {
    /// Whether its time had come at this moment.
    #[inline(always)]
    pub(crate) fn had_expired<M: Machine>(&self, moment: &Moment) -> bool {
        moment.is_behind::<M>(self.expiry_ms)
    }
}

/// How closely a record is looked at when it is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verify {
    /// Its lengths fit the pool, and its key is the one that was looked for.
    #[default]
    Key,
    /// All of it: its check sum, too.
    Sum,
}

/// What is wrong with a record.
pub(crate) type Damage = &'static str;

pub(crate) const WRONG_LENGTH: Damage = "its lengths reach out of the pool";
pub(crate) const WRONG_EXPIRY: Damage = "the check of its expiry is wrong: the time has changed";
pub(crate) const WRONG_SUM: Damage = "its check sum is wrong: its bytes have changed";
pub(crate) const WRONG_KEY: Damage = "its key is not the one that its entry stands for";

/// Sixty-four bits of hash of a key: the source of tags and fingerprints in entries, so part of the
/// format. Folded 64 x 64 -> 128 bit products of eight bytes at a time.
#[inline]
pub fn hash(key: &[u8]) -> u64 {
    const SEEDS: [u64; 3] = [0xA076_1D64_78BD_642F, 0xE703_7ED1_A0B4_28DB, 0x8EBC_6AF0_9C88_C6E3];
    let mut state = SEEDS[0] ^ key.len() as u64;
    if let Ok(word) = key.try_into() {
        // Numbers are keys often, and need no loop.
        state = fold(state ^ u64::from_le_bytes(word), SEEDS[1]);
        return fold(state, SEEDS[1] ^ SEEDS[2]);
    }
    let (words, rest) = key.as_chunks();
    for word in words {
        state = fold(state ^ u64::from_le_bytes(*word), SEEDS[1]);
    }
    if !rest.is_empty() {
        // What is left, with zeros behind it: of a longer key, its last eight bytes without those before.
        let last = key.last_chunk().map(|last| u64::from_le_bytes(*last) >> (8 * (8 - rest.len())));
        let last = last.unwrap_or_else(|| {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            u64::from_le_bytes(last)
        });
        state = fold(state ^ last, SEEDS[2]);
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

    fn heap() -> std::sync::Arc<Heap<Hardware>> {
        let pool = Pool::in_memory(1 << 20, 1 << 24, Domain::Process).expect("memory");
        Heap::<Hardware>::create(pool).expect("room")
    }

    /// It is a part of the format: keys of all lengths have the hash of these.
    #[test]
    fn a_key_has_the_hash_that_pools_have() {
        let by_pieces = |key: &[u8]| {
            let mut state = 0xA076_1D64_78BD_642F ^ key.len() as u64;
            for piece in key.chunks(8) {
                let mut word = [0; 8];
                word[..piece.len()].copy_from_slice(piece);
                let whole = piece.len() == 8;
                let seed = if whole { 0xE703_7ED1_A0B4_28DB } else { 0x8EBC_6AF0_9C88_C6E3 };
                state = fold(state ^ u64::from_le_bytes(word), seed);
            }
            fold(state, 0xE703_7ED1_A0B4_28DB ^ 0x8EBC_6AF0_9C88_C6E3)
        };
        let key: Vec<u8> = (0..50_u8).map(|at| at.wrapping_mul(83) | 1).collect();
        for length in 0..=key.len() {
            assert_eq!(hash(&key[..length]), by_pieces(&key[..length]), "{length}");
        }
        let known: [(&[u8], u64); 4] = [
            (b"", 0xF919_2AEB_C956_DAE2),
            (b"oak", 0x4AAE_41A7_42FB_190B),
            (b"everleaf", 0x2EC0_FFA9_2E74_F377),
            (b"everleaf index", 0x0567_9F20_A69D_A72F),
        ];
        for (key, expected) in known {
            assert_eq!(hash(key), expected, "{}", key.escape_ascii());
        }
    }

    #[test]
    fn a_record_is_read_as_it_was_written_with_and_without_expiry() {
        let heap = heap();
        let mut session = heap.session().expect("a session");
        for key_length in [0, 1, 7, 8, WORD_KEY_SIZE_MAX, KEY_SIZE_MAX] {
            for (value_length, expiry_ms) in
                [(0, 0), (0, 1), (5, 0), (5, u64::MAX), (5, (1 << 48) - 1), (3000, 77)]
            {
                let (key, value) = (vec![b'k'; key_length], vec![b'v'; value_length]);
                let offset = create_expiring(&mut session, &key, &value, expiry_ms).expect("room");
                // SAFETY: private to us.
                let record = unsafe { read_verified(PoolBase::of(&heap), offset, Verify::Sum) };
                let record = record.expect("sound");
                assert_eq!((record.key, record.value), (&key[..], &value[..]));
                assert_eq!(record.expiry_ms, expiry_ms);
                // SAFETY: private to us.
                let plain =
                    |key: &[u8]| unsafe { read_plain_value(PoolBase::of(&heap), offset, key) };
                let is_plain = expiry_ms == 0 && key_length < KEY_SIZE_MAX;
                assert_eq!(plain(&key), is_plain.then_some(&value[..]));
                let longer = [&key[..], b"k"].concat();
                let others = [&longer[..], &key[..key_length.saturating_sub(1)], &longer[..1]];
                for other in others.into_iter().filter(|other| *other != key) {
                    assert_eq!(plain(other), None, "{} of {key_length}", other.len());
                }
                if let Some(last) = key.split_last().map(|(_, rest)| [rest, b"x"].concat()) {
                    assert_eq!(plain(&last), None, "{key_length}");
                }
                // SAFETY: private to us.
                let size = unsafe { size_at(PoolBase::of(&heap), offset) };
                assert_eq!(size, 8 + key_length + value_length + 8 * usize::from(expiry_ms != 0));
                session.free_record(offset, size);
            }
        }
    }

    /// Reads were not verified, and a damaged length read as an empty key and value: a changed byte
    /// was served, and a changed header made a key absent.
    #[test]
    fn a_changed_bit_of_a_record_is_told_wherever_it_is() {
        let heap = heap();
        let mut session = heap.session().expect("a session");
        for expiry_ms in [0, 1_700_000_000_000, u64::MAX] {
            let made = create_expiring(&mut session, b"a key", b"and its value", expiry_ms);
            let offset = made.expect("room");
            // SAFETY: private to us.
            let size = unsafe { size_at(PoolBase::of(&heap), offset) };
            for bit in 0..size * 8 {
                let word = heap.pool().word(offset + bit as u64 / 64 * 8);
                word.write_private(word.read_private() ^ 1 << (bit % 64));
                // SAFETY: private to us.
                let found = unsafe { read_verified(PoolBase::of(&heap), offset, Verify::Sum) };
                assert!(found.is_err(), "bit {bit}, expiry {expiry_ms}");
                // What is read in fewer steps is no more than what is read with all of them.
                // SAFETY: private to us.
                let plain = unsafe { read_plain_value(PoolBase::of(&heap), offset, b"a key") };
                // SAFETY: private to us.
                let found = unsafe { read_verified(PoolBase::of(&heap), offset, Verify::Key) };
                let found = found.ok().filter(|record| record.key == b"a key");
                let found = found.filter(|record| record.expiry_ms == 0);
                assert!(
                    plain.is_none_or(|value| found.is_some_and(|record| record.value == value))
                );
                word.write_private(word.read_private() ^ 1 << (bit % 64));
            }
        }
    }

    #[test]
    fn an_expiry_is_changed_where_there_is_a_word_for_it() {
        let heap = heap();
        let mut session = heap.session().expect("a session");
        let long = vec![7; LONG_VALUE_SIZE];
        for (value, first, has_word) in [
            (&b"short"[..], 0, false),
            (b"short", 5, true),
            (b"short", 1 << 48, false),
            (&long, 0, true),
            (&long, u64::MAX, false),
        ] {
            let offset = create_expiring(&mut session, b"key", value, first).expect("room");
            for (expiry_ms, fits) in [(9, true), (0, true), (1 << 48, false), ((1 << 48) - 1, true)]
            {
                // SAFETY: private to us.
                let changed = unsafe { change_expiry(&heap, offset, expiry_ms) };
                assert_eq!(changed, has_word && fits, "{first} to {expiry_ms}");
                // SAFETY: private to us.
                let found = unsafe { read_verified(PoolBase::of(&heap), offset, Verify::Sum) };
                let found = found.expect("sound");
                assert_eq!((found.key, found.value), (&b"key"[..], value));
                assert!(!changed || found.expiry_ms == expiry_ms);
                assert!(has_word || found.expiry_ms == first);
            }
        }
    }

    #[test]
    fn zeros_are_no_record() {
        let heap = heap();
        let mut session = heap.session().expect("a session");
        let offset = create(&mut session, b"", b"").expect("room");
        // SAFETY: private to us.
        let read = || unsafe { read_verified(PoolBase::of(&heap), offset, Verify::Sum) };
        assert!(read().is_ok());
        heap.pool().word(offset).write_private(0);
        assert!(read().is_err());
    }

    #[test]
    fn every_length_has_a_header_of_its_own() {
        let longest = VALUE_SIZE_MAX;
        let tail = TAIL_VALUE_SIZE_MAX;
        let lengths = [(5, 0), (0, 0), (5, longest), (KEY_SIZE_MAX, longest), (5, tail)];
        for (key_length, value_length) in lengths {
            for expiry_ms in [0, 1, u64::MAX] {
                if value_length > value_size_max(key_length, expiry_ms) {
                    continue;
                }
                let shape = Shape::new(key_length, value_length, expiry_ms);
                assert_eq!(Shape::of(shape.encode()), shape);
            }
        }
        assert_eq!(Shape::new(5, 5, 1).expiry, ExpiryPlace::Word);
        assert_eq!(Shape::new(5, LONG_VALUE_SIZE - 1, 0).expiry, ExpiryPlace::None);
        assert_eq!(Shape::new(5, LONG_VALUE_SIZE, 0).expiry, ExpiryPlace::Word);
        assert_eq!(Shape::new(KEY_SIZE_MAX, LONG_VALUE_SIZE, 0).expiry, ExpiryPlace::None);
        assert_eq!(Shape::new(5, 5, 1 << 48).expiry, ExpiryPlace::Tail);
        assert_eq!(Shape::new(KEY_SIZE_MAX, 5, 1).expiry, ExpiryPlace::Tail);
    }
}
