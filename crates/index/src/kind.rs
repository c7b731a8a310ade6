//! What a leaf's entries hold: the two kinds of keys.
//!
//! An entry is a pair of words, the key word and the value word, of which three bits are the slot's
//! state (`nbtree/state.rs`). Every change of a shared entry rewrites one of the two words.
//!
//! ```text
//!   U64Kind     key word   63 61 60                          0     value word 63            0
//!                         |state| key, low 61 bits           |               | value         |
//!
//!   BytesKind   key word   63                                0     value word 63 61 60 44 43 0
//!                         | 8 bytes of the key, big endian   |               |state| tag | ref|
//! ```
//!
//! *U64Kind*: the three top bits of a key are those of its leaf's low fence, because no leaf spans
//! a multiple of 2^61. All keys and values are allowed.
//!
//! *BytesKind*: the key word holds the eight bytes that follow the prefix all keys of the leaf
//! share (`skip` bytes), padded with zeros, so that most comparisons touch no record; the value
//! word refers to the record (offset / 16) and carries 17 bits of the key's hash, so that a lookup
//! reads a wrong record once in about 10^5 times. (Source of the idea: the 8-byte variant of the
//! NBTree protocol; leaf-wide prefix truncation as in prefix B-trees, Bayer and Unterauer, 1977.)
//!
//! In the pool's directory the kind of a tree is its [`CODE`](Kind::CODE): 1 for integers, 2 for byte
//! strings; in hashed leaves 5 and 4.
//!
//! A *fence* is one word: for `U64Kind` the key itself, for `BytesKind` the offset of a record that
//! holds the key. Zero is the lowest fence, and as an upper bound it means "no bound".

use std::cmp::Ordering;

use everleaf_alloc::{AllocError, Heap, Mark, Recovery, Session};
use everleaf_machine::{Machine, Pair};

use crate::nbtree::layout::INLINE_PREFIX_SIZE;
use crate::nbtree::state::State;
use crate::pool_trees::pool_base::PoolBase;

/// How keys and payloads are laid out in entries, fences and inner nodes.
///
/// `base` is always that of the pool the tree is in. Functions that follow references require
/// what `record::read` requires: the caller's session is pinned, or nobody else is active.
pub trait Kind<M: Machine>: Copy + Default + Send + Sync + 'static {
    /// A key as callers pass it.
    type Key<'k>: Copy;
    /// The kind's number in the pool's directory.
    const CODE: u16;
    /// Its number in trees with hashed leaves.
    const HASHED_CODE: u16;
    /// The low fences of a new tree's leaves.
    const FIRST_LOWS: &'static [u64];
    /// Whether two keys with the same head can differ.
    const HAS_TAILS: bool;

    /// The fingerprint of a key: 1..=255.
    fn fingerprint(key: Self::Key<'_>) -> u8;
    /// The fingerprint of an entry's key in a leaf with this low fence; equals that of the key.
    fn entry_fingerprint(low: u64, entry: Pair) -> u8;
    /// The hash that places a key within a leaf: bits 56 to 63 become its fingerprint, and bits 40 to 55, as a
    /// number modulo the lines of a leaf, its line. The upper eight, and the lowest six at least of the others,
    /// are different bits of the key's hash; the rest may be 0.
    fn hash(key: Self::Key<'_>) -> u64;
    /// The hash of an entry's key in a leaf with this low fence; equals that of the key.
    fn entry_hash(low: u64, entry: Pair) -> u64;
    /// Whether keys are numbers in the order of the keys; if not, [`Self::number`] is 0.
    const HAS_NUMBERS: bool;
    /// The key as a number.
    fn number(key: Self::Key<'_>) -> u64;
    /// The key of an entry as a number, in a leaf with this low fence.
    fn entry_number(low: u64, entry: Pair) -> u64;
    /// The entry of `key` with this payload and state, in a leaf that skips `skip` bytes.
    fn entry(key: Self::Key<'_>, skip: usize, payload: u64, state: State) -> Pair;
    /// The state bits of an entry.
    fn state(entry: Pair) -> State;
    /// The entry with other state bits.
    fn with_state(entry: Pair, state: State) -> Pair;
    /// What the entry holds for its key: a value, or tag and reference.
    fn payload(entry: Pair) -> u64;
    /// The entry with another payload.
    fn with_payload(entry: Pair, payload: u64) -> Pair;
    /// An entry without its state, for sorting: equal heads may still be different keys.
    fn head(entry: Pair) -> u64;
    /// Whether the entry is one of `key`, or its record is damaged and it may be one.
    fn is_of(base: PoolBase<M>, key: Self::Key<'_>, skip: usize, entry: Pair) -> bool;
    /// Whether the entry may be one of `key` by what it says of the key's hash: a collision is rare.
    fn may_be_of(key: Self::Key<'_>, entry: Pair) -> bool;
    /// The order of two entries of a leaf.
    fn compare(base: PoolBase<M>, a: Pair, b: Pair) -> Ordering;
    /// The order of an entry's key and `key`, in a leaf whose range holds both.
    fn compare_to(base: PoolBase<M>, entry: Pair, skip: usize, key: Self::Key<'_>) -> Ordering;

    /// The order of a lower bound and a key.
    fn compare_fence(base: PoolBase<M>, fence: u64, key: Self::Key<'_>) -> Ordering;
    /// A lower bound as a key, to search for it.
    fn fence_as_key<'a>(base: PoolBase<M>, fence: u64) -> Self::Key<'a>;
    /// A lower bound that is kept while nobody is pinned.
    type Kept: Clone + Send;
    /// A copy of a lower bound: what a fence refers to goes when its leaves are merged.
    fn keep_fence(base: PoolBase<M>, fence: u64) -> Self::Kept;
    /// A lower bound that was kept, as a key.
    fn kept_as_key(kept: &Self::Kept) -> Self::Key<'_>;
    /// The order of two lower bounds.
    fn compare_fences(base: PoolBase<M>, a: u64, b: u64) -> Ordering;
    /// A fence between two neighbouring entries of a leaf: greater than `below`'s key, not greater
    /// than `at`'s.
    fn make_fence(
        session: &mut Session<M>,
        low: u64,
        below: Pair,
        at: Pair,
    ) -> Result<u64, AllocError>;
    /// Gives up a fence that no other thread has seen.
    fn free_fence(session: &mut Session<M>, fence: u64);
    /// Gives up a fence that is unlinked from everything.
    fn retire_fence(session: &mut Session<M>, fence: u64);
    /// The bytes that all keys between two fences share.
    fn shared_prefix(base: PoolBase<M>, low: u64, high: u64) -> usize;
    /// The entry as a leaf with another `skip` has it.
    fn rekey(base: PoolBase<M>, entry: Pair, skip: usize) -> Pair;

    /// Eight bytes of a fence after `skip` bytes, as a number that sorts like them.
    fn fence_head(base: PoolBase<M>, fence: u64, skip: usize) -> u64;
    /// Eight bytes of a key after `skip` bytes, as a number that sorts like them.
    fn key_head(key: Self::Key<'_>, skip: usize) -> u64;
    /// [`Self::key_head`] behind the first `length` bytes of `prefix`, zeros after them, if the key starts with
    /// those and all of them are told by one word; else `None`.
    fn head_behind(
        prefix: &[u8; INLINE_PREFIX_SIZE],
        length: usize,
        key: Self::Key<'_>,
    ) -> Option<u64>;
    /// As [`Self::compare_prefix`], of the first `length` bytes of `prefix`; zeros follow them.
    fn compare_inline_prefix(
        prefix: &[u8; INLINE_PREFIX_SIZE],
        length: usize,
        key: Self::Key<'_>,
    ) -> Ordering;
    /// Where a key lies relative to all keys that start with `prefix`: inside is `Equal`.
    fn compare_prefix(prefix: &[u8], key: Self::Key<'_>) -> Ordering;
    /// The first `length` bytes of a fence.
    fn fence_prefix<'a>(base: PoolBase<M>, fence: u64, length: usize) -> &'a [u8];
    /// The mark of what an entry refers to, if it refers to anything.
    ///
    /// # Errors
    /// The reference cannot be right.
    fn entry_mark(recovery: &Recovery<M>, entry: Pair) -> Result<Option<Mark<'_, M>>, AllocError>;
    /// Marks what a fence refers to as in use, having checked that it can be read.
    ///
    /// # Errors
    /// The reference cannot be right.
    fn mark_fence(heap: &Heap<M>, recovery: &Recovery<M>, fence: u64) -> Result<(), AllocError>;
    /// Checks what an entry refers to, deeply, without trusting it.
    ///
    /// # Errors
    /// What is wrong.
    fn verify_entry(
        heap: &Heap<M>,
        recovery: &Recovery<M>,
        entry: Pair,
        skip: usize,
    ) -> Result<(), AllocError>;
    /// The order of a bound and an entry's key.
    fn compare_fence_to_entry(base: PoolBase<M>, fence: u64, low: u64, entry: Pair) -> Ordering;
    /// Gives back what an entry refers to, when nobody can reach it any more.
    fn free_entry(session: &mut Session<M>, entry: Pair);
    /// What an entry refers to, for prefetching; null if nothing.
    fn reference(base: PoolBase<M>, entry: Pair) -> *const u8;
    /// Asks for what the payload of an entry that holds a key refers to, but its first line.
    fn ask_for_rest(base: PoolBase<M>, payload: u64);
    /// Whether the range that starts at this fence must not be joined with the one before.
    fn is_boundary(low: u64) -> bool;
}

/// Keys are 64-bit integers, values too.
#[derive(Clone, Copy, Debug, Default)]
pub struct U64Kind;

const KEY_MASK: u64 = (1 << 61) - 1;
const CLASS_MASK: u64 = !KEY_MASK;

/// The whole key of an entry in a leaf with this low fence.
#[inline(always)]
pub fn u64_key(low: u64, entry: Pair) -> u64 {
    low & CLASS_MASK | entry.first & KEY_MASK
}

#[inline(always)]
fn u64_hash(key: u64) -> u64 {
    key.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

#[inline(always)]
fn u64_fingerprint(key: u64) -> u8 {
    ((u64_hash(key) >> 56) as u8).max(1)
}

/// Sorts entries by their keys: compiled once for each kind, and not for each shape of leaves.
pub(crate) fn sort_entries<K: Kind<M>, M: Machine>(base: PoolBase<M>, entries: &mut [Pair]) {
    entries.sort_unstable_by(|a, b| K::compare(base, *a, *b));
}

/// Brings the entry there that has this place in their order, and those below it before it: compiled once, too.
pub(crate) fn halve_entries<K: Kind<M>, M: Machine>(
    base: PoolBase<M>,
    entries: &mut [Pair],
    at: usize,
) {
    entries.select_nth_unstable_by(at, |a, b| K::compare(base, *a, *b));
}

/// Sorts places in a leaf by the keys of their entries, which `load` reads: compiled once, too.
pub(crate) fn sort_places<K: Kind<M>, M: Machine, T>(
    base: PoolBase<M>,
    places: &mut [T],
    load: &dyn Fn(&T) -> Pair,
) {
    places.sort_unstable_by(|a, b| K::compare(base, load(a), load(b)));
}

impl<M: Machine> Kind<M> for U64Kind {
    type Key<'k> = u64;
    const CODE: u16 = 1;
    const HASHED_CODE: u16 = 5;
    const FIRST_LOWS: &'static [u64] =
        &[0, 1 << 61, 2 << 61, 3 << 61, 4 << 61, 5 << 61, 6 << 61, 7 << 61];
    const HAS_TAILS: bool = false;

    #[inline(always)]
    fn fingerprint(key: u64) -> u8 {
        u64_fingerprint(key)
    }
    #[inline(always)]
    fn entry_fingerprint(low: u64, entry: Pair) -> u8 {
        u64_fingerprint(u64_key(low, entry))
    }
    #[inline(always)]
    fn hash(key: u64) -> u64 {
        u64_hash(key)
    }
    #[inline(always)]
    fn entry_hash(low: u64, entry: Pair) -> u64 {
        u64_hash(u64_key(low, entry))
    }
    const HAS_NUMBERS: bool = true;
    #[inline(always)]
    fn number(key: u64) -> u64 {
        key
    }
    #[inline(always)]
    fn entry_number(low: u64, entry: Pair) -> u64 {
        u64_key(low, entry)
    }
    #[inline(always)]
    fn entry(key: u64, _skip: usize, payload: u64, state: State) -> Pair {
        Pair { first: u64::from(state) << 61 | key & KEY_MASK, second: payload }
    }
    #[inline(always)]
    fn state(entry: Pair) -> State {
        (entry.first >> 61) as State
    }
    #[inline(always)]
    fn with_state(entry: Pair, state: State) -> Pair {
        Pair { first: u64::from(state) << 61 | entry.first & KEY_MASK, ..entry }
    }
    #[inline(always)]
    fn payload(entry: Pair) -> u64 {
        entry.second
    }
    #[inline(always)]
    fn with_payload(entry: Pair, payload: u64) -> Pair {
        Pair { second: payload, ..entry }
    }
    #[inline(always)]
    fn head(entry: Pair) -> u64 {
        entry.first & KEY_MASK
    }
    #[inline(always)]
    fn is_of(_base: PoolBase<M>, key: u64, _skip: usize, entry: Pair) -> bool {
        (entry.first ^ key) & KEY_MASK == 0
    }
    #[inline(always)]
    fn may_be_of(key: u64, entry: Pair) -> bool {
        (entry.first ^ key) & KEY_MASK == 0
    }
    #[inline(always)]
    fn compare(_base: PoolBase<M>, a: Pair, b: Pair) -> Ordering {
        (a.first & KEY_MASK).cmp(&(b.first & KEY_MASK))
    }
    #[inline(always)]
    fn compare_to(_base: PoolBase<M>, entry: Pair, _skip: usize, key: u64) -> Ordering {
        (entry.first & KEY_MASK).cmp(&(key & KEY_MASK))
    }
    #[inline(always)]
    fn compare_fence(_base: PoolBase<M>, fence: u64, key: u64) -> Ordering {
        fence.cmp(&key)
    }
    #[inline(always)]
    fn fence_as_key<'a>(_base: PoolBase<M>, fence: u64) -> Self::Key<'a> {
        fence
    }
    type Kept = u64;
    fn keep_fence(_base: PoolBase<M>, fence: u64) -> u64 {
        fence
    }
    fn kept_as_key(kept: &u64) -> u64 {
        *kept
    }
    fn compare_fences(_base: PoolBase<M>, a: u64, b: u64) -> Ordering {
        a.cmp(&b)
    }
    fn make_fence(
        _session: &mut Session<M>,
        low: u64,
        _below: Pair,
        at: Pair,
    ) -> Result<u64, AllocError> {
        Ok(u64_key(low, at))
    }
    fn free_fence(_session: &mut Session<M>, _fence: u64) {}
    fn retire_fence(_session: &mut Session<M>, _fence: u64) {}
    fn shared_prefix(_base: PoolBase<M>, _low: u64, _high: u64) -> usize {
        0
    }
    fn rekey(_base: PoolBase<M>, entry: Pair, _skip: usize) -> Pair {
        entry
    }
    #[inline(always)]
    fn fence_head(_base: PoolBase<M>, fence: u64, _skip: usize) -> u64 {
        fence
    }
    #[inline(always)]
    fn key_head(key: u64, _skip: usize) -> u64 {
        key
    }
    #[inline(always)]
    fn head_behind(_prefix: &[u8; INLINE_PREFIX_SIZE], _length: usize, key: u64) -> Option<u64> {
        Some(key)
    }
    #[inline(always)]
    fn compare_inline_prefix(
        _prefix: &[u8; INLINE_PREFIX_SIZE],
        _length: usize,
        _key: u64,
    ) -> Ordering {
        Ordering::Equal
    }
    #[inline(always)]
    fn compare_prefix(_prefix: &[u8], _key: u64) -> Ordering {
        Ordering::Equal
    }
    fn fence_prefix<'a>(_base: PoolBase<M>, _fence: u64, _length: usize) -> &'a [u8] {
        &[]
    }
    fn entry_mark(
        _recovery: &Recovery<M>,
        _entry: Pair,
    ) -> Result<Option<Mark<'_, M>>, AllocError> {
        Ok(None)
    }
    fn mark_fence(_heap: &Heap<M>, _recovery: &Recovery<M>, _fence: u64) -> Result<(), AllocError> {
        Ok(())
    }
    fn verify_entry(
        _heap: &Heap<M>,
        _recovery: &Recovery<M>,
        _entry: Pair,
        _skip: usize,
    ) -> Result<(), AllocError> {
        Ok(())
    }
    fn compare_fence_to_entry(_base: PoolBase<M>, fence: u64, low: u64, entry: Pair) -> Ordering {
        fence.cmp(&u64_key(low, entry))
    }
    fn free_entry(_session: &mut Session<M>, _entry: Pair) {}
    fn reference(_base: PoolBase<M>, _entry: Pair) -> *const u8 {
        std::ptr::null()
    }
    fn ask_for_rest(_base: PoolBase<M>, _payload: u64) {}
    fn is_boundary(low: u64) -> bool {
        low & KEY_MASK == 0
    }
}
