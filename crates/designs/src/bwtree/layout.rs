//! The records that pages are made of. None changes once it can be reached.
//!
//! ```text
//!   delta  | meta | next | high | right | key | value | count | - |     one line
//!   base   | meta |  0   | high | right | low |   0   | count | - | count keys | count values |
//!
//!   meta   | depth 48 | level 8 | reserved 4 | has high 1 | kind 3 |
//! ```
//!
//! What is known of the whole page (its level, where it ends, its right neighbour, how many records are
//! above the base) is in every record, so that the topmost one tells it.

use std::marker::PhantomData;
use std::ops::Deref;

use everleaf_alloc::{AllocError, Session};
use everleaf_machine::{Atomic, AtomicPointer, Hardware, LINE_SIZE, Machine};

/// Pairs that a base has room for.
pub(super) const CAPACITY: usize = 500;

/// What a record says of its page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// All pairs of the page; nothing is below it.
    Base,
    /// A pair was added; in an inner page, a child.
    Insert,
    /// A pair got another value.
    Update,
    /// A pair was removed.
    Delete,
    /// Keys from the page's new end on are in its new right neighbour.
    Split,
}

const KINDS: [Kind; 5] = [Kind::Base, Kind::Insert, Kind::Update, Kind::Delete, Kind::Split];
const KIND_MASK: u64 = 7;
const HAS_HIGH: u64 = 1 << 3;
const LEVEL_SHIFT: u32 = 8;
const DEPTH_SHIFT: u32 = 16;

/// Where a page ends, and the page behind it; nothing for the last page of a level.
pub(super) type End = Option<(u64, u64)>;

/// See the module.
#[repr(C, align(64))]
pub(super) struct Record<M: Machine> {
    meta: Atomic<u64, M>,
    next: AtomicPointer<Record<M>, M>,
    high: Atomic<u64, M>,
    right: Atomic<u64, M>,
    key: Atomic<u64, M>,
    value: Atomic<u64, M>,
    count: Atomic<u64, M>,
    reserved: u64,
}

const _: () = assert!(size_of::<Record<Hardware>>() == LINE_SIZE);
const _: () = assert!(base_size(CAPACITY) <= 8192);

/// Bytes of a base of so many pairs.
const fn base_size(count: usize) -> usize {
    LINE_SIZE + 16 * count
}

/// A record that the caller, which is pinned, has reached. It is the pointer that the record was made with: a
/// reference to a header would not lead to the pairs behind it.
pub(super) struct RecordRef<'t, M: Machine> {
    place: *mut Record<M>,
    pin: PhantomData<&'t Record<M>>,
}

impl<M: Machine> Clone for RecordRef<'_, M> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<M: Machine> Copy for RecordRef<'_, M> {}

impl<M: Machine> Deref for RecordRef<'_, M> {
    type Target = Record<M>;

    #[inline(always)]
    fn deref(&self) -> &Record<M> {
        // SAFETY: complete and unchanged while the value is used, by the promise given to `new`.
        unsafe { &*self.place }
    }
}

impl<M: Machine> Record<M> {
    fn new(kind: Kind, level: u64, depth: u64, end: End) -> Self {
        let (high, right) = end.unwrap_or_default();
        let has_high = if end.is_some() { HAS_HIGH } else { 0 };
        let meta = kind as u64 | has_high | level << LEVEL_SHIFT | depth << DEPTH_SHIFT;
        Record {
            meta: Atomic::new(meta),
            next: AtomicPointer::new(std::ptr::null_mut()),
            high: Atomic::new(high),
            right: Atomic::new(right),
            key: Atomic::new(0),
            value: Atomic::new(0),
            count: Atomic::new(0),
            reserved: 0,
        }
    }

    /// A record to be put on `top`.
    pub fn make_delta(
        session: &mut Session<M>,
        kind: Kind,
        top: RecordRef<'_, M>,
        (key, value): (u64, u64),
    ) -> Result<*mut Self, AllocError> {
        let place: *mut Self = session.allocate_node(LINE_SIZE)?.cast();
        let end = if kind == Kind::Split { Some((key, value)) } else { top.end() };
        let record = Record {
            next: AtomicPointer::new(top.place),
            key: Atomic::new(key),
            value: Atomic::new(value),
            ..Record::new(kind, top.level(), top.depth() + 1, end)
        };
        // SAFETY: just allocated with this size, 64-byte aligned, and nobody else's.
        unsafe { place.write(record) };
        Ok(place)
    }

    /// A base with these pairs, at most [`CAPACITY`], which ascend.
    pub fn make_base(
        session: &mut Session<M>,
        level: u64,
        low: u64,
        end: End,
        pairs: &[(u64, u64)],
    ) -> Result<*mut Self, AllocError> {
        assert!(pairs.len() <= CAPACITY, "more pairs than a base has room for");
        let place: *mut Self = session.allocate_node(base_size(pairs.len()))?.cast();
        let record = Record {
            key: Atomic::new(low),
            count: Atomic::new(pairs.len() as u64),
            ..Record::new(Kind::Base, level, 0, end)
        };
        // SAFETY: as in `make_delta`.
        unsafe { place.write(record) };
        let words: *mut Atomic<u64, M> = place.wrapping_add(1).cast();
        for (index, (key, value)) in pairs.iter().enumerate() {
            // SAFETY: behind the header there is room for two words a pair.
            unsafe { words.wrapping_add(index).write(Atomic::new(*key)) };
            // SAFETY: likewise.
            unsafe { words.wrapping_add(pairs.len() + index).write(Atomic::new(*value)) };
        }
        Ok(place)
    }

    /// What the record says.
    #[inline(always)]
    pub fn kind(&self) -> Kind {
        KINDS[(self.meta.read_private() & KIND_MASK) as usize]
    }

    /// Levels below the page: 0 for a leaf.
    #[inline(always)]
    pub fn level(&self) -> u64 {
        self.meta.read_private() >> LEVEL_SHIFT & 0xFF
    }

    /// Records between this one and the base, it included.
    #[inline(always)]
    pub fn depth(&self) -> u64 {
        self.meta.read_private() >> DEPTH_SHIFT
    }

    /// Where the page ends.
    #[inline(always)]
    pub fn end(&self) -> End {
        let has_high = self.meta.read_private() & HAS_HIGH != 0;
        has_high.then(|| (self.high.read_private(), self.right.read_private()))
    }

    /// The record below; nothing below a base.
    #[inline(always)]
    pub fn next(&self) -> *mut Record<M> {
        self.next.read_private()
    }

    /// The key of a delta, or the smallest key that belongs to the page of a base.
    #[inline(always)]
    pub fn key(&self) -> u64 {
        self.key.read_private()
    }

    /// The value of a delta.
    #[inline(always)]
    pub fn value(&self) -> u64 {
        self.value.read_private()
    }

    /// Pairs of a base.
    #[inline(always)]
    pub fn count(&self) -> usize {
        self.count.read_private() as usize
    }

    /// Bytes of the record.
    pub fn size(&self) -> usize {
        if self.kind() == Kind::Base { base_size(self.count()) } else { LINE_SIZE }
    }
}

impl<M: Machine> RecordRef<'_, M> {
    /// # Safety
    /// The record was complete before it could be reached, was made by one of the functions above, and is not
    /// freed while the value is used.
    #[inline(always)]
    pub unsafe fn new(place: *mut Record<M>) -> Self {
        debug_assert!(!place.is_null());
        RecordRef { place, pin: PhantomData }
    }

    /// Where it is.
    #[inline(always)]
    pub fn place(self) -> *mut Record<M> {
        self.place
    }

    #[inline(always)]
    fn word(self, index: usize) -> u64 {
        debug_assert!(self.kind() == Kind::Base && index < 2 * self.count());
        let words: *const Atomic<u64, M> = self.place.wrapping_add(1).cast();
        // SAFETY: a base was made with two words a pair behind its header, and callers stay below its
        // count of pairs.
        unsafe { &*words.wrapping_add(index) }.read_private()
    }

    /// The key of pair `index` of a base.
    #[inline(always)]
    pub fn key_at(self, index: usize) -> u64 {
        assert!(index < self.count());
        self.word(index)
    }

    /// The value of pair `index` of a base.
    #[inline(always)]
    pub fn value_at(self, index: usize) -> u64 {
        assert!(index < self.count());
        self.word(self.count() + index)
    }

    /// How many pairs of a base have keys up to `key`.
    #[inline(always)]
    pub fn rank(self, key: u64) -> usize {
        let (mut low, mut high) = (0, self.count());
        while low < high {
            let middle = usize::midpoint(low, high);
            if self.key_at(middle) <= key {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}
