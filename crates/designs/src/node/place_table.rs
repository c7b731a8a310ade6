//! What belongs to places of the pool and is in DRAM (middle nodes of leaves, buffers), found by the place:
//! no pointer leads to it, so all can be asked for at once.
//!
//! ```text
//!   place / stride = number:    | upper bits | 9 bits | 5 bits |
//!                           root[..] -> branch[..] -> page[..]
//! ```
//!
//! Places are at least a stride apart, so no two have the same number. Pages are made when a leaf is
//! first put where they are needed, and stay until the tree is freed.

use everleaf_alloc::{AllocError, Session};
use everleaf_machine::{AtomicPointer, Machine, SpinLock};

/// Entries of a page: few on a simulated machine, which initialises them one by one.
const fn page_length<M: Machine>() -> usize {
    if M::SIMULATED { 2 } else { 32 }
}

/// Pages of a branch, likewise.
const fn branch_length<M: Machine>() -> usize {
    if M::SIMULATED { 8 } else { 512 }
}

/// What a table is of: made of atomic words.
pub trait Cell: 'static {
    /// Makes memory that nobody else has seen one of no leaf.
    fn clear(&self);
}

type Branch<T, M> = AtomicPointer<T, M>;

/// See the module.
pub struct Table<T, M: Machine, const STRIDE: u64> {
    root: Box<[AtomicPointer<Branch<T, M>, M>]>,
    growth: SpinLock<(), M>,
}

impl<T: Cell, M: Machine, const STRIDE: u64> Table<T, M, STRIDE> {
    const BRANCH_SIZE: usize = branch_length::<M>() * 8;
    const PAGE_SIZE: usize = page_length::<M>() * size_of::<T>();

    /// An empty table, for places below `end`.
    pub fn new(end: u64) -> Self {
        let pages = end.div_ceil(STRIDE * page_length::<M>() as u64) as usize;
        let branches = pages.div_ceil(branch_length::<M>());
        let root = (0..branches).map(|_| AtomicPointer::new(std::ptr::null_mut())).collect();
        Table { root, growth: SpinLock::new(()) }
    }

    /// Root index, branch index and place in the page of a leaf.
    #[inline(always)]
    fn path(leaf: u64) -> (usize, usize, usize) {
        let number = (leaf / STRIDE) as usize;
        let page = number / page_length::<M>();
        (page / branch_length::<M>(), page % branch_length::<M>(), number % page_length::<M>())
    }

    /// What belongs to a leaf for which [`Self::make_room`] was called.
    #[inline(always)]
    pub fn at(&self, leaf: u64) -> &T {
        let (root, branch, place) = Self::path(leaf);
        // Written once, before the leaf could be reached.
        let branches = self.root[root].read_private();
        debug_assert!(!branches.is_null());
        // SAFETY: a branch has `branch_length` pointers, and lives as long as the tree.
        let page = unsafe { &*branches.wrapping_add(branch) }.read_private();
        debug_assert!(!page.is_null());
        // SAFETY: a page has `page_length` nodes, and lives as long as the tree; they are made of
        // atomic words.
        unsafe { &*page.wrapping_add(place) }
    }

    /// Makes sure that the leaf has its part.
    ///
    /// # Errors
    /// No memory.
    pub fn make_room(&self, session: &mut Session<M>, leaf: u64) -> Result<(), AllocError> {
        let (root, branch, _) = Self::path(leaf);
        let _growth = self.growth.lock();
        let mut branches = self.root[root].read_private();
        if branches.is_null() {
            branches = session.allocate_node(Self::BRANCH_SIZE)?.cast();
            for index in 0..branch_length::<M>() {
                // SAFETY: inside the branch just allocated; a pointer word is valid whatever its bits.
                unsafe { &*branches.wrapping_add(index) }.write_private(std::ptr::null_mut());
            }
            self.root[root].write_private(branches);
        }
        // SAFETY: a branch has `branch_length` pointers.
        let entry = unsafe { &*branches.wrapping_add(branch) };
        if entry.read_private().is_null() {
            let page: *mut T = session.allocate_node(Self::PAGE_SIZE)?.cast();
            for index in 0..page_length::<M>() {
                // SAFETY: inside the page just allocated; atomic words are valid whatever their bits.
                unsafe { &*page.wrapping_add(index) }.clear();
            }
            entry.write_private(page);
        }
        Ok(())
    }

    /// Gives all memory back. Nobody uses the tree any more.
    pub fn free(&self, session: &mut Session<M>) {
        for root in &self.root {
            let branches = root.read_private();
            if branches.is_null() {
                continue;
            }
            for index in 0..branch_length::<M>() {
                // SAFETY: a branch has so many pointers.
                let page = unsafe { &*branches.wrapping_add(index) }.read_private();
                if !page.is_null() {
                    // SAFETY: allocated with this size, and nobody can reach it.
                    unsafe { session.free_node(page.cast(), Self::PAGE_SIZE) };
                }
            }
            // SAFETY: allocated with this size, and nobody can reach it.
            unsafe { session.free_node(branches.cast(), Self::BRANCH_SIZE) };
            root.write_private(std::ptr::null_mut());
        }
    }
}
