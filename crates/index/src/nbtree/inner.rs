//! Inner nodes: building one, and finding the child for a key.
//!
//! A node's fences never change; a search compares the key with lines of eight heads at once and
//! never retries. Nodes right above the leaves, which seldom are in the cache, are small and asked
//! for whole. For byte-string keys the heads hold the
//! eight bytes behind the prefix that the node's fences share, so that records are read only when
//! heads tie.
//!
//! Writers lock a node to change a child pointer or to replace the node; readers ignore the lock.

use std::cmp::Ordering as Order;

use everleaf_alloc::{AllocError, Session};
use everleaf_machine::{Atomic, AtomicPointer, LINE_SIZE, Machine, Ordering, SortedLine};

use super::layout::{
    self, FIRSTS_OFFSET, GROUP_SIZE, INLINE_PREFIX_SIZE, Inner, children_offset, fences_offset,
    group_count, heads_offset,
};
use super::shared::Shared;
use crate::kind::Kind;
use crate::pool_trees::pool_base::PoolBase;

/// A lower fence and the child for the keys from there on.
pub(crate) type Child = (u64, *mut ());

const LOCKED: u32 = 1;
/// The node has been replaced and will never be written again.
const OBSOLETE: u32 = 2;

/// Bytes of an inner node of kind `K`.
pub(crate) fn inner_size<K: Kind<M>, M: Machine>(level: u16) -> usize {
    layout::inner_size(level, K::HAS_TAILS)
}

/// A new inner node over `children` (as many as its level admits, fences ascending), private to the
/// caller.
pub(crate) fn build<K: Kind<M>, M: Machine>(
    session: &mut Session<M>,
    level: u16,
    children: &[Child],
) -> Result<*mut Inner<M>, AllocError> {
    debug_assert!((1..=group_count(level) * GROUP_SIZE).contains(&children.len()));
    let base = PoolBase::of(session.heap());
    let node: *mut Inner<M> = session.allocate_node(inner_size::<K, M>(level))?.cast();
    let skip = shared_skip::<K, M>(base, children);
    let mut prefix = [0; INLINE_PREFIX_SIZE];
    if skip > 0 {
        let bytes = K::fence_prefix(base, children[1].0, skip.min(INLINE_PREFIX_SIZE));
        prefix[..bytes.len()].copy_from_slice(bytes);
    }
    let header = Inner {
        lock: Atomic::new(0),
        level,
        count: children.len() as u16,
        skip: skip as u32,
        prefix,
    };
    // SAFETY: the memory is ours, large enough for the level and aligned to 64.
    unsafe { node.write(header) };
    let bytes: *mut u8 = node.cast();
    for group in 0..group_count(level) {
        let entries = |slot: usize| children.get(group * GROUP_SIZE + slot);
        let head = |slot: usize| match entries(slot) {
            None => u64::MAX,
            Some(_) if group + slot == 0 && K::HAS_TAILS => 0,
            Some((fence, _)) => K::fence_head(base, *fence, skip),
        };
        let heads = SortedLine(std::array::from_fn(head));
        let pointers: [AtomicPointer<(), M>; GROUP_SIZE] = std::array::from_fn(|slot| {
            AtomicPointer::new(entries(slot).map_or(std::ptr::null_mut(), |child| child.1))
        });
        let fences =
            SortedLine(std::array::from_fn(|slot| entries(slot).map_or(0, |child| child.0)));
        let line = group * LINE_SIZE;
        let place = |offset: usize| bytes.wrapping_add(offset);
        let heads_place: *mut SortedLine = place(heads_offset(level) + line).cast();
        // SAFETY: a line of the node just allocated, at the place the layout gives it.
        unsafe { heads_place.write(heads) };
        let pointers_place: *mut [AtomicPointer<(), M>; GROUP_SIZE] =
            place(children_offset(level) + line).cast();
        // SAFETY: a line of the node just allocated, at the place of its pointers.
        unsafe { pointers_place.write(pointers) };
        if level > 1 {
            let first_place: *mut u64 = place(FIRSTS_OFFSET + group * size_of::<u64>()).cast();
            // SAFETY: a word of the node just allocated, at the place of its firsts.
            unsafe { first_place.write(heads.0[0]) };
        }
        if K::HAS_TAILS {
            let fences_place: *mut SortedLine = place(fences_offset(level) + line).cast();
            // SAFETY: a line of the node just allocated, at the place of its fences; nodes of kinds with tails have
            // fences.
            unsafe { fences_place.write(fences) };
        }
    }
    Ok(node)
}

/// The bytes that all fences but the first share.
fn shared_skip<K: Kind<M>, M: Machine>(base: PoolBase<M>, children: &[Child]) -> usize {
    match children {
        [] | [_] => 0,
        // A single fence shares all its bytes with itself; some are kept for the head.
        [_, only] => K::shared_prefix(base, only.0, only.0).saturating_sub(8),
        [_, first, .., last] => K::shared_prefix(base, first.0, last.0),
    }
}

impl<M: Machine> Shared<Inner<M>> {
    #[inline(always)]
    fn heads(&self, level: u16, group: usize) -> &SortedLine {
        let place =
            self.as_ptr().cast::<u8>().wrapping_add(heads_offset(level) + group * LINE_SIZE);
        // SAFETY: a node of this level has this line; it was written before the node was published
        // and never changes.
        unsafe { &*place.cast() }
    }

    #[inline(always)]
    fn pointers(&self, level: u16, group: usize) -> &[AtomicPointer<(), M>; GROUP_SIZE] {
        let offset = children_offset(level) + group * LINE_SIZE;
        // SAFETY: as in `heads`; the pointers are atomic.
        unsafe { &*self.as_ptr().cast::<u8>().wrapping_add(offset).cast() }
    }

    /// The lower fence of a child.
    #[inline]
    pub fn fence<K: Kind<M>>(self, index: usize) -> u64 {
        debug_assert!(index < usize::from(self.count));
        let (group, slot) = (index / GROUP_SIZE, index % GROUP_SIZE);
        if !K::HAS_TAILS {
            return self.heads(self.level, group).0[slot];
        }
        let offset = fences_offset(self.level) + group * LINE_SIZE;
        let line: *const SortedLine = self.as_ptr().cast::<u8>().wrapping_add(offset).cast();
        // SAFETY: nodes of kinds with tails are built with fences, which never change.
        unsafe { (*line).0[slot] }
    }

    /// A child.
    #[inline(always)]
    #[track_caller]
    pub fn child(self, index: usize) -> *mut () {
        self.child_at(self.level, index)
    }

    /// A child of a node whose level is known without reading it.
    #[inline(always)]
    #[track_caller]
    pub fn child_at(self, level: u16, index: usize) -> *mut () {
        debug_assert_eq!(level, self.level);
        // Acquire: the child is complete; pairs with the release in `set_child`, or with that which
        // published the node.
        self.pointers(level, index / GROUP_SIZE)[index % GROUP_SIZE].load(Ordering::Acquire)
    }

    /// Replaces a child by one of the same range. The caller holds the lock.
    pub fn set_child(self, index: usize, child: *mut ()) {
        // Release: the child is complete; pairs with the acquire in `child_at`.
        self.pointers(self.level, index / GROUP_SIZE)[index % GROUP_SIZE]
            .store(child, Ordering::Release);
    }

    /// All children with their fences. Stable only while the caller holds the lock.
    pub fn children<K: Kind<M>>(self) -> Vec<Child> {
        (0..usize::from(self.count))
            .map(|index| (self.fence::<K>(index), self.child(index)))
            .collect()
    }

    /// Asks for all lines that a search of a node of this level may read.
    #[inline(always)]
    pub fn prefetch<K: Kind<M>>(node: *mut (), level: u16) {
        let node = node.cast::<u8>().cast_const();
        if level != 1 {
            M::prefetch(node);
            return M::prefetch(node.wrapping_add(FIRSTS_OFFSET));
        }
        if K::HAS_TAILS {
            M::prefetch(node);
        }
        for line in 0..2 * group_count(1) {
            M::prefetch(node.wrapping_add(heads_offset(1) + line * LINE_SIZE));
        }
    }

    /// The last child whose fence is at most `key`; with `strict`, less than `key`. `level` is the
    /// node's.
    #[inline(always)]
    pub fn find<K: Kind<M>>(
        self,
        level: u16,
        base: PoolBase<M>,
        key: K::Key<'_>,
        strict: bool,
    ) -> usize {
        if !K::HAS_TAILS {
            let head = K::key_head(key, 0);
            return match head.checked_sub(u64::from(strict)) {
                Some(head) => self.find_head(level, head),
                None => 0,
            };
        }
        let skip = self.skip as usize;
        let head = match K::head_behind(&self.prefix, skip, key) {
            Some(head) => head,
            None => {
                if skip > 0 {
                    match self.compare_prefix::<K>(base, key) {
                        Order::Less => return 0,
                        Order::Greater => return usize::from(self.count) - 1,
                        Order::Equal => {}
                    }
                }
                K::key_head(key, skip)
            }
        };
        let index = self.find_head(level, head);
        if index > 0 && self.head(level, index) == head {
            return self.find_among_ties::<K>(base, key, strict, index);
        }
        index
    }

    #[inline(always)]
    fn head(self, level: u16, index: usize) -> u64 {
        self.heads(level, index / GROUP_SIZE).0[index % GROUP_SIZE]
    }

    /// The first eight bytes of the fence of a child that is not the first, if the heads do not skip as many.
    #[inline(always)]
    pub fn whole_head(self, level: u16, index: usize) -> Option<u64> {
        debug_assert!((1..usize::from(self.count)).contains(&index));
        let skip = self.skip as usize;
        if skip >= size_of::<u64>() {
            return None;
        }
        let prefix = self.prefix.first_chunk().copied().map_or(0, u64::from_be_bytes);
        // Zeros follow the prefix.
        Some(prefix | self.head(level, index) >> (8 * skip))
    }

    /// The last child whose head is at most `head`, or the first child.
    #[inline(always)]
    fn find_head(self, level: u16, head: u64) -> usize {
        let index = if level == 1 {
            // Both lines at once: they come together.
            let count = self.heads(1, 0).count_le(head) + self.heads(1, 1).count_le(head);
            count.saturating_sub(1)
        } else {
            let place = self.as_ptr().cast::<u8>().wrapping_add(FIRSTS_OFFSET);
            // SAFETY: nodes above level 1 have the line of first heads, which never changes.
            let firsts: &SortedLine = unsafe { &*place.cast() };
            let group = firsts.count_le(head).saturating_sub(1);
            let within = self.heads(level, group).count_le(head).saturating_sub(1);
            group * GROUP_SIZE + within
        };
        // Only the highest head counts the padding behind the last child.
        if head == u64::MAX { index.min(usize::from(self.count) - 1) } else { index }
    }

    /// Among the children up to `last` whose heads equal the key's: the last one that qualifies, or
    /// the one before them all.
    fn find_among_ties<K: Kind<M>>(
        self,
        base: PoolBase<M>,
        key: K::Key<'_>,
        strict: bool,
        last: usize,
    ) -> usize {
        let level = self.level;
        let head = self.head(level, last);
        let mut low = last;
        while low > 1 && self.head(level, low - 1) == head {
            low -= 1;
        }
        let mut high = last + 1;
        // Invariant: children before `low` qualify, those from `high` on do not.
        while low < high {
            let middle = low + (high - low) / 2;
            let order = K::compare_fence(base, self.fence::<K>(middle), key);
            if order == Order::Less || (order == Order::Equal && !strict) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low - 1
    }

    /// How a key compares with all that start with the prefix that the fences but the first share.
    #[inline(always)]
    fn compare_prefix<K: Kind<M>>(self, base: PoolBase<M>, key: K::Key<'_>) -> Order {
        let skip = self.skip as usize;
        let order = K::compare_inline_prefix(&self.prefix, skip.min(INLINE_PREFIX_SIZE), key);
        if order != Order::Equal || skip <= INLINE_PREFIX_SIZE {
            return order;
        }
        self.compare_long_prefix::<K>(base, key)
    }

    #[cold]
    fn compare_long_prefix<K: Kind<M>>(self, base: PoolBase<M>, key: K::Key<'_>) -> Order {
        let skip = self.skip as usize;
        K::compare_prefix(K::fence_prefix(base, self.fence::<K>(1), skip), key)
    }

    /// Takes the node's lock, unless it is taken or the node is obsolete.
    pub fn try_lock(self) -> bool {
        // Acquire: sees what the last holder changed; pairs with the release in `unlock`. Relaxed
        // on failure: nothing is read.
        self.lock.compare_exchange(0, LOCKED, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Opens the lock.
    pub fn unlock(self) {
        // Release: pairs with the acquire in `try_lock`.
        self.lock.store(0, Ordering::Release);
    }

    /// Whether nobody holds the lock, and the node was not replaced. For checks, when nobody is active.
    pub fn is_open(self) -> bool {
        // Acquire: as in `try_lock`.
        self.lock.load(Ordering::Acquire) == 0
    }

    /// Marks a locked node as replaced: its lock never opens again.
    pub fn make_obsolete(self) {
        // Release: pairs with the acquire in `try_lock`, which fails from now on.
        self.lock.store(OBSOLETE, Ordering::Release);
    }
}
