//! Inner nodes: building one, and finding the child for a key.
//!
//! A node's fences never change; a search compares the key with one line of group heads and one
//! line inside the group, both at once, and never retries. For byte-string keys the heads hold the
//! eight bytes behind the prefix that the node's fences share, so that records are read only when
//! heads tie.
//!
//! Writers lock a node to change a child pointer or to replace the node; readers ignore the lock.

use std::cmp::Ordering as Order;

use everleaf_alloc::{AllocError, Session};
use everleaf_machine::{Atomic, AtomicPointer, Machine, Ordering, SortedLine};

use super::layout::{
    CHILD_COUNT_MAX, GROUP_SIZE, Group, INLINE_PREFIX_SIZE, Inner, InnerWithFences,
};
use super::shared::Shared;
use crate::kind::Kind;

/// A lower fence and the child for the keys from there on.
pub(super) type Child = (u64, *mut ());

const LOCKED: u32 = 1;
/// The node has been replaced and will never be written again.
const OBSOLETE: u32 = 2;

/// Bytes of an inner node of kind `K`.
pub(super) fn inner_size<K: Kind<M>, M: Machine>() -> usize {
    if K::HAS_TAILS { size_of::<InnerWithFences<M>>() } else { size_of::<Inner<M>>() }
}

/// A new inner node over `children` (1..=64, fences ascending), private to the caller.
pub(super) fn build<K: Kind<M>, M: Machine>(
    session: &mut Session<M>,
    level: u16,
    children: &[Child],
) -> Result<*mut Inner<M>, AllocError> {
    debug_assert!((1..=CHILD_COUNT_MAX).contains(&children.len()));
    let base = session.heap().base();
    let memory = session.allocate_node(inner_size::<K, M>())?;
    let skip = match children {
        [] | [_] => 0,
        [_, first, .., last] => K::shared_prefix(base, first.0, last.0),
        [_, only] => K::shared_prefix(base, only.0, only.0),
    };
    // A single fence shares all its bytes with itself; keep some for the head.
    let skip = if children.len() == 2 { skip.saturating_sub(8) } else { skip };
    let mut prefix = [0; INLINE_PREFIX_SIZE];
    if skip > 0 {
        let bytes = K::fence_prefix(base, children[1].0, skip.min(INLINE_PREFIX_SIZE));
        prefix[..bytes.len()].copy_from_slice(bytes);
    }
    let head = |index: usize| match children.get(index) {
        None => u64::MAX,
        Some(_) if index == 0 && K::HAS_TAILS => 0,
        Some((fence, _)) => K::fence_head(base, *fence, skip),
    };
    let child = |index: usize| children.get(index).map_or(std::ptr::null_mut(), |child| child.1);
    let group = |group: usize| Group {
        heads: SortedLine(std::array::from_fn(|slot| head(group * GROUP_SIZE + slot))),
        children: std::array::from_fn(|slot| AtomicPointer::new(child(group * GROUP_SIZE + slot))),
    };
    let node: *mut Inner<M> = memory.cast();
    let contents = Inner {
        lock: Atomic::new(0),
        level,
        count: children.len() as u16,
        skip: skip as u32,
        prefix,
        firsts: SortedLine(std::array::from_fn(|group| head(group * GROUP_SIZE))),
        groups: std::array::from_fn(group),
    };
    // SAFETY: the memory is ours, large enough and aligned to 64 (to 128 when the size, a multiple
    // of 128 for both layouts, asks for it).
    unsafe { node.write(contents) };
    if K::HAS_TAILS {
        let fences = std::array::from_fn(|index| children.get(index).map_or(0, |child| child.0));
        // SAFETY: nodes of kinds with tails have room for the fences.
        let place = unsafe { &raw mut (*node.cast::<InnerWithFences<M>>()).fences };
        // SAFETY: as above; the place is ours.
        unsafe { place.write(fences) };
    }
    Ok(node)
}

impl<M: Machine> Shared<Inner<M>> {
    /// The lower fence of a child.
    #[inline]
    pub fn fence<K: Kind<M>>(self, index: usize) -> u64 {
        debug_assert!(index < usize::from(self.count));
        if K::HAS_TAILS {
            let node: *mut InnerWithFences<M> = self.as_ptr().cast();
            // SAFETY: nodes of kinds with tails are built with fences, which never change.
            unsafe { (&raw const (*node).fences[index]).read() }
        } else {
            self.groups[index / GROUP_SIZE].heads.0[index % GROUP_SIZE]
        }
    }

    /// A child.
    #[inline(always)]
    #[track_caller]
    pub fn child(self, index: usize) -> *mut () {
        // Acquire: the child is complete; pairs with the release in `set_child`, or with that which
        // published the node.
        self.groups[index / GROUP_SIZE].children[index % GROUP_SIZE].load(Ordering::Acquire)
    }

    /// Replaces a child by one of the same range. The caller holds the lock.
    pub fn set_child(self, index: usize, child: *mut ()) {
        // Release: the child is complete; pairs with the acquire in `child`.
        self.groups[index / GROUP_SIZE].children[index % GROUP_SIZE]
            .store(child, Ordering::Release);
    }

    /// All children with their fences. Stable only while the caller holds the lock.
    pub fn children<K: Kind<M>>(self) -> Vec<Child> {
        (0..usize::from(self.count)).map(|index| (self.fence::<K>(index), self.child(index))).collect()
    }

    /// The last child whose fence is at most `key`; with `strict`, less than `key`.
    #[inline(always)]
    pub fn find<K: Kind<M>>(self, base: *mut u8, key: K::Key<'_>, strict: bool) -> usize {
        let last = usize::from(self.count) - 1;
        let skip = self.skip as usize;
        if K::HAS_TAILS && skip > 0 {
            match self.compare_prefix::<K>(base, key) {
                Order::Less => return 0,
                Order::Greater => return last,
                Order::Equal => {}
            }
        }
        let head = K::key_head(key, skip);
        if !K::HAS_TAILS && strict {
            return if head == 0 { 0 } else { self.find_head(head - 1) };
        }
        let index = self.find_head(head);
        if K::HAS_TAILS && index > 0 && self.head(index) == head {
            return self.find_among_ties::<K>(base, key, strict, index);
        }
        index
    }

    #[inline(always)]
    fn head(self, index: usize) -> u64 {
        self.groups[index / GROUP_SIZE].heads.0[index % GROUP_SIZE]
    }

    /// The last child whose head is at most `head`, or the first child.
    #[inline(always)]
    fn find_head(self, head: u64) -> usize {
        let last = usize::from(self.count) - 1;
        let group = self.firsts.count_le(head).saturating_sub(1).min(last / GROUP_SIZE);
        let within = self.groups[group].heads.count_le(head).saturating_sub(1);
        (group * GROUP_SIZE + within).min(last)
    }

    /// Among the children up to `last` whose heads equal the key's: the last one that qualifies, or
    /// the one before them all.
    fn find_among_ties<K: Kind<M>>(
        self,
        base: *mut u8,
        key: K::Key<'_>,
        strict: bool,
        last: usize,
    ) -> usize {
        let head = self.head(last);
        let mut low = last;
        while low > 1 && self.head(low - 1) == head {
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

    #[inline]
    fn compare_prefix<K: Kind<M>>(self, base: *mut u8, key: K::Key<'_>) -> Order {
        let skip = self.skip as usize;
        let inline = &self.prefix[..skip.min(INLINE_PREFIX_SIZE)];
        let order = K::compare_prefix(inline, key);
        if order != Order::Equal || skip <= INLINE_PREFIX_SIZE {
            return order;
        }
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

    /// Marks a locked node as replaced: its lock never opens again.
    pub fn make_obsolete(self) {
        // Release: pairs with the acquire in `try_lock`, which fails from now on.
        self.lock.store(OBSOLETE, Ordering::Release);
    }
}
