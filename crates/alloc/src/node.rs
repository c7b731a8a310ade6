//! Memory for volatile nodes: leaf metadata, inner nodes, descriptors.
//!
//! Each session carves nodes from regions that are aligned and large enough for huge pages, so that
//! a descent meets few TLB misses, and keeps what is freed in lists by size. On a simulated machine
//! every node is a separate allocation, so that the machine can tell a use after free.

use std::alloc::Layout;

use everleaf_machine::Machine;

use crate::error::AllocError;

/// Nodes are multiples of this many bytes, and so aligned.
pub const NODE_GRAIN: usize = 64;
/// The largest node, in bytes.
pub const NODE_SIZE_MAX: usize = 8192;
/// Size and alignment of a full-grown region.
const REGION_SIZE: usize = 2 << 20;
/// Size of a session's first region, so that a small store stays small.
const REGION_SIZE_MIN: usize = 64 << 10;

/// Free nodes of a size that a session keeps; with twice as many it gives some to others.
const KEEP_COUNT: usize = 1024;

/// A region obtained from the machine, returned when the heap is dropped.
pub struct Region {
    start: *mut u8,
    layout: Layout,
}

// SAFETY: a region is plain memory; the thread that holds the value owns it.
unsafe impl Send for Region {}

impl Region {
    /// Returns the region to the machine.
    ///
    /// # Safety
    /// No node of the region is used any more.
    pub unsafe fn release<M: Machine>(self) {
        // SAFETY: the region came from `M::allocate` with this layout and, by the caller's
        // promise, is not used any more.
        unsafe { M::deallocate(self.start, self.layout) }
    }
}

/// One session's node memory.
#[derive(Default)]
pub struct NodeArena {
    /// Freed nodes by size in grains.
    free: Vec<Vec<*mut u8>>,
    /// What is left, in the last region (A1).
    next: usize,
    end: usize,
    region_size: usize,
    /// Regions to be returned when the heap goes.
    pub(crate) regions: Vec<Region>,
    /// Bytes handed out and not returned to this arena (may be negative: nodes move between
    /// sessions).
    pub(crate) live_bytes: i64,
}

// SAFETY: the pointers are to memory the arena owns; no other thread holds a freed node.
unsafe impl Send for NodeArena {}

/// The layout of a node of `size` bytes.
fn node_layout(size: usize) -> Layout {
    let rounded = size.next_multiple_of(NODE_GRAIN);
    let align = if rounded.is_multiple_of(2 * NODE_GRAIN) { 2 * NODE_GRAIN } else { NODE_GRAIN };
    Layout::from_size_align(rounded, align).expect("a small multiple of a power of two")
}

impl NodeArena {
    /// Memory for a node of `size` bytes, aligned to 64 (and to 128 if the size is a multiple).
    /// Uninitialised.
    pub fn allocate<M: Machine>(&mut self, size: usize) -> Result<*mut u8, AllocError> {
        debug_assert!(size <= NODE_SIZE_MAX);
        let layout = node_layout(size);
        let node = self.place::<M>(layout)?;
        self.live_bytes += layout.size() as i64;
        Ok(node)
    }

    fn place<M: Machine>(&mut self, layout: Layout) -> Result<*mut u8, AllocError> {
        if M::SIMULATED {
            return non_null(M::allocate(layout));
        }
        if let Some(node) = self.free.get_mut(layout.size() / NODE_GRAIN).and_then(Vec::pop) {
            return Ok(node);
        }
        let mut start = self.next.next_multiple_of(layout.align());
        if start + layout.size() > self.end {
            self.add_region::<M>()?;
            start = self.next;
        }
        self.next = start + layout.size();
        let region = self.regions.last().expect("a region was just found or added");
        Ok(region.start.with_addr(start))
    }

    /// Takes back a node.
    ///
    /// # Safety
    /// `node` came from [`Self::allocate`] of some session of the same heap with the same size, and
    /// no thread uses it any more.
    pub unsafe fn free<M: Machine>(&mut self, node: *mut u8, size: usize) {
        let layout = node_layout(size);
        self.live_bytes -= layout.size() as i64;
        if M::SIMULATED {
            // SAFETY: by the caller's promise.
            return unsafe { M::deallocate(node, layout) };
        }
        let grains = layout.size() / NODE_GRAIN;
        if self.free.len() <= grains {
            self.free.resize_with(grains + 1, Vec::new);
        }
        self.free[grains].push(node);
    }

    /// Whether a node of `size` bytes can be had without asking anybody.
    #[inline]
    pub fn has_room(&self, size: usize) -> bool {
        let layout = node_layout(size);
        let is_freed = |nodes: &Vec<*mut u8>| !nodes.is_empty();
        self.free.get(layout.size() / NODE_GRAIN).is_some_and(is_freed)
            || self.next.next_multiple_of(layout.align()) + layout.size() <= self.end
    }

    /// Takes free nodes of `size` bytes from `other`, if it has some.
    pub fn take_from(&mut self, other: &mut NodeArena, size: usize) {
        let grains = node_layout(size).size() / NODE_GRAIN;
        if let Some(theirs) = other.free.get_mut(grains) {
            let rest = theirs.len().saturating_sub(KEEP_COUNT);
            move_nodes(theirs, rest, &mut self.free, grains);
        }
    }

    /// Whether some size has so many free nodes that others should have them.
    pub fn has_surplus(&self) -> bool {
        self.free.iter().any(|nodes| nodes.len() > 2 * KEEP_COUNT)
    }

    /// Gives what it has too much of to `other`.
    pub fn give_surplus(&mut self, other: &mut NodeArena) {
        for (grains, nodes) in self.free.iter_mut().enumerate() {
            if nodes.len() > 2 * KEEP_COUNT {
                move_nodes(nodes, KEEP_COUNT, &mut other.free, grains);
            }
        }
    }

    /// Takes over everything another session left.
    pub fn absorb(&mut self, mut other: NodeArena) {
        self.live_bytes += other.live_bytes;
        if self.free.len() < other.free.len() {
            self.free.resize_with(other.free.len(), Vec::new);
        }
        for (mine, theirs) in self.free.iter_mut().zip(&mut other.free) {
            mine.append(theirs);
        }
        // The one with more room goes last, because what it has left lies in its last region (A1).
        if other.end - other.next > self.end - self.next {
            (self.next, self.end) = (other.next, other.end);
            std::mem::swap(&mut self.regions, &mut other.regions);
        }
        other.regions.append(&mut self.regions);
        self.regions = other.regions;
    }

    fn add_region<M: Machine>(&mut self) -> Result<(), AllocError> {
        self.region_size = (self.region_size * 4).clamp(REGION_SIZE_MIN, REGION_SIZE);
        let layout = Layout::from_size_align(self.region_size, self.region_size)
            .expect("a power of two is a valid alignment and size");
        let start = non_null(M::allocate(layout))?;
        self.next = start.addr();
        self.end = start.addr() + layout.size();
        self.regions.push(Region { start, layout });
        Ok(())
    }
}

/// Moves the free nodes from index `rest` on into another arena's list of the same size.
fn move_nodes(from: &mut Vec<*mut u8>, rest: usize, to: &mut Vec<Vec<*mut u8>>, grains: usize) {
    if to.len() <= grains {
        to.resize_with(grains + 1, Vec::new);
    }
    to[grains].extend(from.drain(rest..));
}

fn non_null(pointer: *mut u8) -> Result<*mut u8, AllocError> {
    if pointer.is_null() { Err(AllocError::OutOfMemory) } else { Ok(pointer) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everleaf_machine::Hardware;

    #[test]
    fn what_one_only_frees_another_can_allocate() {
        let (mut maker, mut freer) = (NodeArena::default(), NodeArena::default());
        let mut shared = NodeArena::default();
        for _ in 0..100_000 {
            if !maker.has_room(128) {
                maker.take_from(&mut shared, 128);
            }
            let node = maker.allocate::<Hardware>(128).expect("memory");
            // SAFETY: nothing uses the node.
            unsafe { freer.free::<Hardware>(node, 128) };
            if freer.has_surplus() {
                freer.give_surplus(&mut shared);
            }
        }
        let bytes: usize = maker.regions.iter().map(|region| region.layout.size()).sum();
        assert!(bytes <= 2 * REGION_SIZE, "{bytes} bytes for a few thousand nodes of 128");
        for region in maker.regions {
            // SAFETY: nothing uses the nodes any more.
            unsafe { region.release::<Hardware>() };
        }
    }

    /// A pointer was derived from the region of the other arena, whose memory it does not lie in.
    #[test]
    fn what_is_left_lies_in_the_last_region_whoever_has_more() {
        for (mine, theirs) in [(1, 3), (3, 1), (0, 2), (2, 0)] {
            let (mut arena, mut other) = (NodeArena::default(), NodeArena::default());
            for (arena, count) in [(&mut arena, mine), (&mut other, theirs)] {
                for _ in 0..count {
                    let _ = arena.allocate::<Hardware>(1216).expect("memory");
                }
            }
            arena.absorb(other);
            let last = arena.regions.last().expect("one of them has some");
            let memory = last.start.addr()..last.start.addr() + last.layout.size();
            assert!(memory.contains(&arena.next) && arena.end == memory.end, "{mine} {theirs}");
            for region in arena.regions {
                // SAFETY: nothing uses the nodes any more.
                unsafe { region.release::<Hardware>() };
            }
        }
    }

    #[test]
    fn nodes_are_aligned_apart_and_reused() {
        let mut arena = NodeArena::default();
        let mut nodes = vec![];
        for index in 0..20_000 {
            let size = if index % 2 == 0 { 128 } else { 1216 };
            let node = arena.allocate::<Hardware>(size).expect("memory");
            assert_eq!(node.addr() % if index % 2 == 0 { 128 } else { 64 }, 0);
            nodes.push((node, size));
        }
        nodes.sort_by_key(|(node, _)| node.addr());
        assert!(nodes.windows(2).all(|pair| pair[0].0.addr() + pair[0].1 <= pair[1].0.addr()));
        let (node, size) = nodes[0];
        // SAFETY: nothing uses the node.
        unsafe { arena.free::<Hardware>(node, size) };
        assert_eq!(arena.allocate::<Hardware>(size).expect("memory"), node);
        for region in arena.regions {
            // SAFETY: nothing uses the nodes any more.
            unsafe { region.release::<Hardware>() };
        }
    }
}
