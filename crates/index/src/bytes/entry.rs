//! Entries of byte-string keys: eight bytes of the key, and a record. The layout is in `kind.rs`.

use std::cmp::Ordering;

use everleaf_alloc::{AllocError, Heap, Mark, Recovery, Session};
use everleaf_machine::{Machine, Pair};

use crate::bytes::key_words::{head_at, head_behind, is_same, prefix_order};
use crate::bytes::record::{self, Damage, Record, Verify, WRONG_KEY};
use crate::kind::Kind;
use crate::nbtree::layout::INLINE_PREFIX_SIZE;
use crate::nbtree::state::State;
use crate::pool_trees::pool_base::PoolBase;

/// Keys are byte strings, payloads refer to records that hold key and value.
///
/// With `HEADS` false the key word holds nothing of the key, so that every comparison reads a
/// record: the other encoding that was weighed (a key word of hash and reference). It exists to be
/// measured against (`crates/lab/examples/encodings.rs`), not to be used.
#[derive(Clone, Copy, Debug, Default)]
pub struct BytesKind<const HEADS: bool = true>;

const REF_BITS: u32 = 44;
const TAG_BITS: u32 = 17;
const STATE_SHIFT: u32 = 61;
const PAYLOAD_MASK: u64 = (1 << STATE_SHIFT) - 1;

/// A byte-string key with its hash tag.
#[derive(Clone, Copy)]
pub struct BytesKey<'k> {
    /// The key.
    pub bytes: &'k [u8],
    tag: u64,
}

impl<'k> BytesKey<'k> {
    /// No key: what stands where none is yet.
    pub const NONE: BytesKey<'static> = BytesKey { bytes: &[], tag: 0 };

    /// A key, hashed.
    #[inline(always)]
    pub fn new(bytes: &'k [u8]) -> Self {
        Self::of_hash(bytes, record::hash(bytes))
    }

    /// A key whose hash is known.
    #[inline(always)]
    pub fn of_hash(bytes: &'k [u8], hash: u64) -> Self {
        BytesKey { bytes, tag: hash >> (64 - TAG_BITS) }
    }

    /// The payload of this key's entry if its record is at `offset`.
    #[inline(always)]
    pub fn payload(self, offset: u64) -> u64 {
        self.tag << REF_BITS | offset >> 4
    }
}

/// The offset of the record a payload refers to.
#[inline(always)]
pub fn record_offset(payload: u64) -> u64 {
    (payload & ((1 << REF_BITS) - 1)) << 4
}

#[inline(always)]
fn tag_fingerprint(payload: u64) -> u8 {
    ((payload >> REF_BITS) as u8).max(1)
}

/// The hash that places a key in a hashed leaf, of which an entry has 17 bits. The fingerprint, at the
/// top, takes eight of them; the other nine come where the line is taken from (`placement.rs`), so that
/// keys on one line have fingerprints of their own.
#[inline(always)]
fn tag_hash(tag: u64) -> u64 {
    (tag & 0xFF) << 56 | tag >> 8 << 40
}

/// What the key word of an entry holds.
#[inline(always)]
fn entry_head<const HEADS: bool>(key: &[u8], skip: usize) -> u64 {
    if HEADS { head_at(key, skip) } else { 0 }
}

/// The key of the record an entry refers to.
#[inline(always)]
fn entry_key<'a, M: Machine>(base: PoolBase<M>, entry: Pair) -> &'a [u8] {
    // SAFETY: the trait's contract: entries come from leaves that a pinned session can reach, and a
    // record outlives the pins of all sessions that can reach its entry.
    unsafe { record::read_key(base, record_offset(entry.second)) }
}

/// Whether the record of an entry that seems to be one of some key, but whose record has another, is
/// damaged: then the key must not pass for absent. It need not be: hashes collide.
#[cold]
#[inline(never)]
fn is_damaged<M: Machine>(base: PoolBase<M>, entry: Pair) -> bool {
    verified(base, entry.second, Verify::Sum).is_err()
}

/// The record of a payload, if its key is one of the payload's. The caller is pinned since before it
/// read the payload, or is the record's only owner.
#[inline(always)]
pub(crate) fn verified<'a, M: Machine>(
    base: PoolBase<M>,
    payload: u64,
    verify: Verify,
) -> Result<Record<'a>, Damage> {
    // SAFETY: the caller's promise, as in `entry_key`.
    let record = unsafe { record::read_verified(base, record_offset(payload), verify)? };
    let tag = payload >> REF_BITS & ((1 << TAG_BITS) - 1);
    if BytesKey::new(record.key).tag == tag { Ok(record) } else { Err(WRONG_KEY) }
}

/// The order of two entries with the same head.
#[cold]
#[inline(never)]
fn compare_keys<M: Machine>(base: PoolBase<M>, a: Pair, b: Pair) -> Ordering {
    entry_key::<M>(base, a).cmp(entry_key::<M>(base, b))
}

/// The key of a fence; empty for the lowest.
#[inline(always)]
fn fence_key<'a, M: Machine>(base: PoolBase<M>, fence: u64) -> &'a [u8] {
    if fence == 0 {
        return &[];
    }
    // SAFETY: as for entries: fences are retired only when no leaf or inner node has them.
    unsafe { record::read_key(base, fence) }
}

/// How many leading bytes two strings share.
fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(x, y)| x == y).count()
}

impl<const HEADS: bool, M: Machine> Kind<M> for BytesKind<HEADS> {
    type Key<'k> = BytesKey<'k>;
    const CODE: u16 = if HEADS { 2 } else { 3 };
    // Without heads they are only in trees that no directory names.
    const HASHED_CODE: u16 = 4;
    const FIRST_LOWS: &'static [u64] = &[0];
    const HAS_TAILS: bool = true;

    #[inline(always)]
    fn fingerprint(key: BytesKey<'_>) -> u8 {
        (key.tag as u8).max(1)
    }
    #[inline(always)]
    fn entry_fingerprint(_low: u64, entry: Pair) -> u8 {
        tag_fingerprint(entry.second)
    }
    #[inline(always)]
    fn hash(key: BytesKey<'_>) -> u64 {
        tag_hash(key.tag)
    }
    #[inline(always)]
    fn entry_hash(_low: u64, entry: Pair) -> u64 {
        tag_hash(entry.second >> REF_BITS & ((1 << TAG_BITS) - 1))
    }
    const HAS_NUMBERS: bool = false;
    fn number(_key: BytesKey<'_>) -> u64 {
        0
    }
    fn entry_number(_low: u64, _entry: Pair) -> u64 {
        0
    }
    #[inline(always)]
    fn entry(key: BytesKey<'_>, skip: usize, payload: u64, state: State) -> Pair {
        let second = u64::from(state) << STATE_SHIFT | payload & PAYLOAD_MASK;
        Pair { first: entry_head::<HEADS>(key.bytes, skip), second }
    }
    #[inline(always)]
    fn state(entry: Pair) -> State {
        (entry.second >> STATE_SHIFT) as State
    }
    #[inline(always)]
    fn with_state(entry: Pair, state: State) -> Pair {
        Pair { second: u64::from(state) << STATE_SHIFT | entry.second & PAYLOAD_MASK, ..entry }
    }
    #[inline(always)]
    fn payload(entry: Pair) -> u64 {
        entry.second & PAYLOAD_MASK
    }
    #[inline(always)]
    fn with_payload(entry: Pair, payload: u64) -> Pair {
        Pair { second: entry.second & !PAYLOAD_MASK | payload, ..entry }
    }
    #[inline(always)]
    fn head(entry: Pair) -> u64 {
        entry.first
    }
    #[inline(always)]
    fn is_of(base: PoolBase<M>, key: BytesKey<'_>, skip: usize, entry: Pair) -> bool {
        // The record can be read. In a leaf of `nbtree` also if the slot is a tombstone: the thread that removed the
        // key cleared the fingerprint that led here before retiring the record. In a hashed leaf a late
        // helper may store that fingerprint again, so the caller has looked at the state first (HL8).
        entry.first == entry_head::<HEADS>(key.bytes, skip)
            && <Self as Kind<M>>::may_be_of(key, entry)
            && (is_same(entry_key::<M>(base, entry), key.bytes) || is_damaged::<M>(base, entry))
    }
    #[inline(always)]
    fn may_be_of(key: BytesKey<'_>, entry: Pair) -> bool {
        (entry.second >> REF_BITS) & ((1 << TAG_BITS) - 1) == key.tag
    }
    // A split asks several times for each of its entries, and the heads nearly always differ.
    #[inline(always)]
    fn compare(base: PoolBase<M>, a: Pair, b: Pair) -> Ordering {
        match a.first.cmp(&b.first) {
            Ordering::Equal => compare_keys(base, a, b),
            order => order,
        }
    }
    fn compare_to(base: PoolBase<M>, entry: Pair, skip: usize, key: BytesKey<'_>) -> Ordering {
        entry
            .first
            .cmp(&entry_head::<HEADS>(key.bytes, skip))
            .then_with(|| entry_key::<M>(base, entry).cmp(key.bytes))
    }
    fn compare_fence(base: PoolBase<M>, fence: u64, key: BytesKey<'_>) -> Ordering {
        fence_key::<M>(base, fence).cmp(key.bytes)
    }
    fn fence_as_key<'a>(base: PoolBase<M>, fence: u64) -> Self::Key<'a> {
        BytesKey::new(fence_key::<M>(base, fence))
    }
    type Kept = Vec<u8>;
    fn keep_fence(base: PoolBase<M>, fence: u64) -> Vec<u8> {
        fence_key::<M>(base, fence).to_vec()
    }
    fn kept_as_key(kept: &Vec<u8>) -> BytesKey<'_> {
        BytesKey::new(kept)
    }
    fn compare_fences(base: PoolBase<M>, a: u64, b: u64) -> Ordering {
        fence_key::<M>(base, a).cmp(fence_key::<M>(base, b))
    }
    fn make_fence(
        session: &mut Session<M>,
        _low: u64,
        below: Pair,
        at: Pair,
    ) -> Result<u64, AllocError> {
        let base = PoolBase::of(session.heap());
        let (below, at) = (entry_key::<M>(base, below), entry_key::<M>(base, at));
        // The shortest prefix of `at` that is greater than `below`.
        // (In a damaged leaf `at` need not be the greater one.)
        let length = (common_prefix(below, at) + 1).min(at.len());
        record::create(session, &at[..length], &[])
    }
    fn free_fence(session: &mut Session<M>, fence: u64) {
        if fence != 0 {
            let key = fence_key::<M>(PoolBase::of(session.heap()), fence);
            session.free_record(fence, record::record_size(key.len(), 0));
        }
    }
    fn retire_fence(session: &mut Session<M>, fence: u64) {
        if fence != 0 {
            let key = fence_key::<M>(PoolBase::of(session.heap()), fence);
            session.retire_record(fence, record::record_size(key.len(), 0));
        }
    }
    fn shared_prefix(base: PoolBase<M>, low: u64, high: u64) -> usize {
        if high == 0 {
            return 0;
        }
        common_prefix(fence_key::<M>(base, low), fence_key::<M>(base, high))
    }
    fn rekey(base: PoolBase<M>, entry: Pair, skip: usize) -> Pair {
        Pair { first: entry_head::<HEADS>(entry_key::<M>(base, entry), skip), ..entry }
    }
    fn fence_head(base: PoolBase<M>, fence: u64, skip: usize) -> u64 {
        head_at(fence_key::<M>(base, fence), skip)
    }
    #[inline(always)]
    fn key_head(key: BytesKey<'_>, skip: usize) -> u64 {
        head_at(key.bytes, skip)
    }
    #[inline(always)]
    fn head_behind(
        prefix: &[u8; INLINE_PREFIX_SIZE],
        length: usize,
        key: BytesKey<'_>,
    ) -> Option<u64> {
        head_behind(prefix, length, key.bytes)
    }
    #[inline(always)]
    fn compare_inline_prefix(
        prefix: &[u8; INLINE_PREFIX_SIZE],
        length: usize,
        key: BytesKey<'_>,
    ) -> Ordering {
        prefix_order(prefix, length, key.bytes)
    }
    fn compare_prefix(prefix: &[u8], key: BytesKey<'_>) -> Ordering {
        // A key that ends inside the prefix is less than everything that starts with it.
        key.bytes[..key.bytes.len().min(prefix.len())].cmp(prefix)
    }
    fn fence_prefix<'a>(base: PoolBase<M>, fence: u64, length: usize) -> &'a [u8] {
        &fence_key::<M>(base, fence)[..length]
    }
    fn entry_mark(recovery: &Recovery<M>, entry: Pair) -> Result<Option<Mark<'_, M>>, AllocError> {
        // The size is not looked at: that would read every record at every open.
        recovery.record_mark(record_offset(entry.second), 1).map(Some)
    }
    fn mark_fence(heap: &Heap<M>, recovery: &Recovery<M>, fence: u64) -> Result<(), AllocError> {
        if fence == 0 {
            return Ok(());
        }
        let (_, size) = record::read_checked(heap, recovery, fence)?;
        recovery.mark_record(fence, size)
    }
    fn verify_entry(
        heap: &Heap<M>,
        recovery: &Recovery<M>,
        entry: Pair,
        skip: usize,
    ) -> Result<(), AllocError> {
        let offset = record_offset(entry.second);
        let (record, _) = record::read_checked(heap, recovery, offset)?;
        let key = BytesKey::new(record.key);
        let expected = <Self as Kind<M>>::entry(key, skip, key.payload(offset), 0);
        if <Self as Kind<M>>::with_state(entry, 0) != expected {
            let what = "an entry does not match the key of its record".to_string();
            return Err(AllocError::Corrupt { offset, what });
        }
        Ok(())
    }
    fn compare_fence_to_entry(base: PoolBase<M>, fence: u64, _low: u64, entry: Pair) -> Ordering {
        fence_key::<M>(base, fence).cmp(entry_key::<M>(base, entry))
    }
    fn free_entry(session: &mut Session<M>, entry: Pair) {
        let offset = record_offset(entry.second);
        // SAFETY: the caller is the last one that can reach the entry.
        let size = unsafe { record::size_at::<M>(PoolBase::of(session.heap()), offset) };
        session.free_record(offset, size);
    }
    #[inline(always)]
    fn reference(base: PoolBase<M>, entry: Pair) -> *const u8 {
        base.start().wrapping_add(record_offset(entry.second) as usize)
    }
    #[inline(always)]
    fn ask_for_rest(base: PoolBase<M>, payload: u64) {
        // SAFETY: as in `entry_key`.
        unsafe { record::ask_for_rest(base, record_offset(payload)) }
    }
    fn is_boundary(low: u64) -> bool {
        low == 0
    }
}
