//! One inner node: its bytes, the search in it, and what its writer does.

use everleaf_alloc::{AllocError, Session};
use everleaf_machine::{Atomic, AtomicPointer, LINE_SIZE, Machine, Ordering};

/// Children that a node has room for.
pub(super) const CHILD_COUNT_MAX: usize = 31;
/// The key of an unused place: no key of the tree is as large.
const UNUSED: u64 = u64::MAX;

/// See the module above.
#[repr(C, align(64))]
pub(super) struct Node<M: Machine> {
    /// Keys from here on are the sibling's; 0 means none.
    high: Atomic<u64, M>,
    /// The right neighbour; null if there is none.
    sibling: AtomicPointer<Node<M>, M>,
    /// 1 above leaves. Never changes.
    pub level: u32,
    /// Children. Only the writer reads it.
    count: Atomic<u32, M>,
    keys: [Atomic<u64, M>; CHILD_COUNT_MAX + 1],
    children: [AtomicPointer<(), M>; CHILD_COUNT_MAX + 1],
}

const _: () = assert!(size_of::<Node<everleaf_machine::Hardware>>() == 9 * LINE_SIZE);

/// A low fence and what is below it: a node or a leaf.
pub(super) type Child = (u64, *mut ());

impl<M: Machine> Node<M> {
    /// A new node over `children`, private to the caller; what is beyond it is the sibling's.
    pub fn build(
        session: &mut Session<M>,
        level: u32,
        (high, sibling): (u64, *mut Node<M>),
        children: &[Child],
    ) -> Result<*mut Self, AllocError> {
        let place: *mut Self = session.allocate_node(size_of::<Self>())?.cast();
        let child = |index: usize| children.get(index).copied();
        let node = Node {
            high: Atomic::new(high),
            sibling: AtomicPointer::new(sibling),
            level,
            count: Atomic::new(children.len() as u32),
            keys: std::array::from_fn(|index| Atomic::new(child(index).map_or(UNUSED, |it| it.0))),
            children: std::array::from_fn(|index| {
                AtomicPointer::new(child(index).map_or(std::ptr::null_mut(), |it| it.1))
            }),
        };
        // SAFETY: the memory is ours, large enough and aligned.
        unsafe { place.write(node) };
        Ok(place)
    }

    /// Children. Only the writer asks.
    pub fn count(&self) -> usize {
        self.count.read_private() as usize
    }

    /// Asks for the lines that a search reads first.
    #[inline(always)]
    pub fn prefetch(node: *const Self) {
        for line in 0..size_of::<Self>() / LINE_SIZE {
            M::prefetch(node.cast::<u8>().wrapping_add(line * LINE_SIZE));
        }
    }

    /// One step down, or to the sibling: the paper's shift-aware search.
    #[inline(always)]
    pub fn step(&self, key: u64) -> Step<M> {
        let mut index = 0;
        let child = loop {
            // Acquire: what the writer did before it put this key here is seen; pairs with the
            // releases in `insert`.
            let mut next = self.keys[index + 1].load(Ordering::Acquire);
            while next <= key {
                index += 1;
                // Acquire: what the writer did before it put this key here is seen; pairs with `insert`.
                next = self.keys[index + 1].load(Ordering::Acquire);
            }
            // Acquire: the child is complete, and a thread that shifted it here shifted its neighbour
            // before; pairs with the releases in `insert` and `replace`.
            let child = self.children[index].load(Ordering::Acquire);
            // Acquire: pairs with the releases in `insert`, behind the load of the child.
            let again = self.keys[index + 1].load(Ordering::Acquire);
            if again == next || M::mutant("nbtree_published.no_key_check") {
                break child;
            }
            M::mark("nbtree_published.shifted");
        };
        // Acquire: if the entries that were given away are missing, this says so; pairs with the
        // release in `split`.
        let high = self.high.load(Ordering::Acquire);
        if high != 0 && key >= high && !M::mutant("nbtree_published.no_high_key") {
            M::mark("nbtree_published.sibling");
            // Acquire: the sibling is complete; pairs with the release in `split`.
            return Step::Right(self.sibling.load(Ordering::Acquire));
        }
        Step::Down(child)
    }

    /// The place of the last child whose fence is at most `key`. Only the writer asks.
    pub fn place(&self, key: u64) -> usize {
        let mut index = 0;
        while self.keys[index + 1].read_private() <= key {
            index += 1;
        }
        index
    }

    /// Puts a child at a place. Child before key, or readers of the key would take the child that
    /// was there before.
    fn set(&self, index: usize, (key, child): Child) {
        // Release: the child is complete, and what was here before is one place further; pairs with
        // the loads in `step`.
        self.children[index].store(child, Ordering::Release);
        // Release: pairs with the loads in `step`; behind the child.
        self.keys[index].store(key, Ordering::Release);
    }

    /// A child with its fence. Only the writer asks.
    pub fn entry(&self, index: usize) -> Child {
        (self.keys[index].read_private(), self.children[index].read_private())
    }

    /// Adds a child; there is room. Only the writer.
    pub fn insert(&self, child: Child) {
        let (place, count) = (self.place(child.0) + 1, self.count());
        for index in (place..count).rev() {
            self.set(index + 1, self.entry(index));
        }
        self.set(place, child);
        self.count.write_private(count as u32 + 1);
    }

    /// Puts another child in the place of one. Only the writer.
    pub fn replace(&self, index: usize, child: *mut ()) {
        // Release: the child is complete; pairs with the load in `step`.
        self.children[index].store(child, Ordering::Release);
    }

    /// Where the sibling's keys begin, and the sibling. Only the writer asks.
    pub fn beyond(&self) -> (u64, *mut Node<M>) {
        (self.high.read_private(), self.sibling.read_private())
    }

    /// Gives the entries from `half` on to a new sibling that has them. Only the writer.
    pub fn give_away(&self, half: usize, right: *mut Node<M>) {
        let (split, count) = (self.entry(half).0, self.count());
        // Release: the sibling is complete; pairs with the load in `step`.
        self.sibling.store(right, Ordering::Release);
        // Release: the sibling is there; pairs with the load in `step`. Before anything goes (N2).
        self.high.store(split, Ordering::Release);
        for index in half..count {
            // Release: `high` excludes the entry; pairs with the loads of keys in `step`.
            self.keys[index].store(UNUSED, Ordering::Release);
        }
        self.count.write_private(half as u32);
    }

    /// Whether no key follows the last one.
    pub fn ends_clean(&self) -> bool {
        self.keys[self.count()].read_private() == UNUSED
    }
}

/// Where a search goes on.
pub(super) enum Step<M: Machine> {
    /// The child.
    Down(*mut ()),
    /// The sibling.
    Right(*mut Node<M>),
}
