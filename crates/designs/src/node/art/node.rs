//! One node: its bytes, the search in it, and its changes.

use std::marker::PhantomData;

use everleaf_alloc::{AllocError, Session};
use everleaf_index::Geometry;
use everleaf_machine::{Atomic, AtomicPointer, Machine, Ordering};

use super::shape::{
    GENERATION, HEAD_SIZE, INDEXED, SPARSE_WORDS, Shape, byte_of, bytes_of, count_at_most, word_of,
};
use crate::node::radix::Header;
use crate::node::version_lock::VersionLock;

/// The beginning of a node; words and children follow it.
#[repr(C)]
pub(super) struct Head<M: Machine> {
    pub lock: VersionLock<M>,
    /// Never changes.
    header: Header,
    count: Atomic<u32, M>,
    /// Never changes.
    kind: u8,
}

const _: () = assert!(size_of::<Head<everleaf_machine::Hardware>>() == HEAD_SIZE);

/// A place that leads to a node or a value.
pub(super) type Slot<M> = AtomicPointer<Head<M>, M>;

/// What a place leads to.
pub(super) enum Child<M: Machine> {
    /// Nothing.
    Empty,
    /// A value.
    Value(u64),
    /// A node.
    Node(*mut Head<M>),
}

impl<M: Machine> Clone for Child<M> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine> Copy for Child<M> {}

impl<M: Machine> Child<M> {
    /// What is said by a word.
    #[inline(always)]
    pub fn of(word: *mut Head<M>) -> Self {
        match word.addr() {
            0 => Child::Empty,
            number if number & 1 != 0 => Child::Value(number as u64 & !1),
            _ => Child::Node(word),
        }
    }

    /// The word that says it.
    pub fn word(self) -> *mut Head<M> {
        match self {
            Child::Empty => std::ptr::null_mut(),
            Child::Value(value) => {
                debug_assert!(value & 1 == 0, "values are even");
                std::ptr::without_provenance_mut(value as usize | 1)
            }
            Child::Node(node) => node,
        }
    }
}

/// A node, with its parts.
pub(super) struct Node<'t, G, M: Machine> {
    pub pointer: *mut Head<M>,
    head: &'t Head<M>,
    /// Digits in order, one byte each; or which digits there are, and behind that the place of each, from 1 on.
    words: &'t [Atomic<u64, M>],
    children: &'t [Slot<M>],
    geometry: PhantomData<G>,
}

impl<G, M: Machine> Clone for Node<'_, G, M> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<G, M: Machine> Copy for Node<'_, G, M> {}

impl<'t, G: Geometry, M: Machine> Node<'t, G, M> {
    const SHAPE: Shape = Shape::of::<G>();

    /// The node at a pointer.
    ///
    /// # Safety
    /// One of [`Self::build`] with this geometry, which is not reclaimed during `'t`.
    #[inline(always)]
    pub unsafe fn of(pointer: *mut Head<M>) -> Self {
        // SAFETY: by the caller's promise; all that changes is atomic.
        let head = unsafe { &*pointer };
        let kind = usize::from(head.kind);
        let words: *const Atomic<u64, M> = pointer.wrapping_add(1).cast();
        let count = Self::SHAPE.words(kind);
        let children = words.wrapping_add(count).cast();
        // SAFETY: a node of this kind has so many words behind its head, all of them atomic.
        let words = unsafe { std::slice::from_raw_parts(words, count) };
        // SAFETY: and so many children behind those.
        let children = unsafe { std::slice::from_raw_parts(children, Self::SHAPE.room[kind]) };
        Node { pointer, head, words, children, geometry: PhantomData }
    }

    /// A new node with these children, ascending, of the smallest kind that has room; private to the caller.
    pub fn build(
        session: &mut Session<M>,
        header: Header,
        children: &[(usize, Child<M>)],
    ) -> Result<*mut Head<M>, AllocError> {
        debug_assert!(children.len() >= 2);
        let kind = Self::SHAPE.kind_of(children.len());
        let pointer: *mut Head<M> = session.allocate_node(Self::SHAPE.size(kind))?.cast();
        let lock = VersionLock::new(GENERATION);
        let head = Head { lock, header, count: Atomic::new(0), kind: kind as u8 };
        // SAFETY: the memory is ours, large enough and aligned.
        unsafe { pointer.write(head) };
        let empty = if kind < INDEXED { u64::MAX } else { 0 };
        let words: *mut Atomic<u64, M> = pointer.wrapping_add(1).cast();
        let count = Self::SHAPE.words(kind);
        for index in 0..count {
            // SAFETY: the memory is ours, and so many words follow the head.
            unsafe { words.wrapping_add(index).write(Atomic::new(empty)) };
        }
        let places: *mut Slot<M> = words.wrapping_add(count).cast();
        for index in 0..Self::SHAPE.room[kind] {
            // SAFETY: the memory is ours, and so many children follow the words.
            unsafe { places.wrapping_add(index).write(AtomicPointer::new(std::ptr::null_mut())) };
        }
        // SAFETY: made just now.
        unsafe { Node::<G, M>::of(pointer) }.fill(children);
        Ok(pointer)
    }

    /// Gives a new node, without any, its children.
    fn fill(&self, children: &[(usize, Child<M>)]) {
        let mut digits = [u8::MAX; 8 * SPARSE_WORDS];
        for (place, (digit, child)) in children.iter().enumerate() {
            let place = match self.kind() {
                0 | 1 => {
                    digits[place] = *digit as u8;
                    place
                }
                INDEXED => {
                    let (word, shift) = self.index_of(*digit);
                    word.write_private(word.read_private() | (place as u64 + 1) << shift);
                    place
                }
                _ => *digit,
            };
            if self.kind() >= INDEXED {
                let word = &self.words[digit / 64];
                word.write_private(word.read_private() | 1 << (digit % 64));
            }
            self.children[place].write_private(child.word());
        }
        if self.kind() < INDEXED {
            for (word, digits) in self.words.iter().zip(digits.chunks(8)) {
                word.write_private(word_of(digits));
            }
        }
        self.head.count.write_private(children.len() as u32);
    }

    /// Bytes of the node.
    pub fn size(&self) -> usize {
        Self::SHAPE.size(self.kind())
    }

    #[inline(always)]
    fn kind(&self) -> usize {
        usize::from(self.head.kind)
    }

    /// The lock.
    #[inline(always)]
    pub fn lock(&self) -> &'t VersionLock<M> {
        &self.head.lock
    }

    /// The bits of all keys below.
    #[inline(always)]
    pub fn header(&self) -> Header {
        self.head.header
    }

    /// The digit of a key below.
    #[inline(always)]
    pub fn digit(&self, key: u64) -> usize {
        Self::SHAPE.digit(key, self.head.header.at())
    }

    /// Children.
    #[inline(always)]
    pub fn count(&self) -> usize {
        // Relaxed: validated by the version, or the caller holds the lock.
        self.head.count.load(Ordering::Relaxed) as usize
    }

    fn set_count(&self, count: usize) {
        // Relaxed: readers validate the version.
        self.head.count.store(count as u32, Ordering::Relaxed);
    }

    /// Children that the node has room for.
    pub fn room(&self) -> usize {
        self.children.len()
    }

    /// Whether so many children are few enough for the kind before.
    pub fn is_few(&self, count: usize) -> bool {
        count <= Self::SHAPE.few[self.kind()]
    }

    /// The greatest digit that is at most `digit`, and its place. Any digit and place while the node changes.
    #[inline(always)]
    pub fn at_most(&self, digit: usize) -> Option<(usize, &'t Slot<M>)> {
        let (found, place) = if self.kind() < INDEXED {
            let digits = self.digit_words();
            let passed: usize = digits.iter().map(|word| count_at_most(*word, digit)).sum();
            // Behind the last digit all are the greatest byte, which may be a digit.
            let place = passed.min(self.count()).checked_sub(1)?;
            (usize::from(byte_of(&digits, place)), place)
        } else {
            let found = self.last_of(digit)?;
            let place = if self.kind() == INDEXED { self.place_of(found)? } else { found };
            (found, place)
        };
        Some((found, self.children.get(place)?))
    }

    /// The greatest digit before `digit`, and its place; as [`Self::at_most`].
    #[inline(always)]
    pub fn below(&self, digit: usize) -> Option<(usize, &'t Slot<M>)> {
        self.at_most(digit.checked_sub(1)?)
    }

    /// The place of the greatest digit.
    #[inline(always)]
    pub fn last(&self) -> Option<&'t Slot<M>> {
        self.at_most(Self::SHAPE.last()).map(|(_, place)| place)
    }

    /// The words of digits of the first two kinds.
    #[inline(always)]
    fn digit_words(&self) -> [u64; SPARSE_WORDS] {
        let mut digits = [u64::MAX; SPARSE_WORDS];
        for (word, from) in digits.iter_mut().zip(self.words) {
            // Relaxed: as in `count`.
            *word = from.load(Ordering::Relaxed);
        }
        digits
    }

    /// The greatest digit that there is, up to `digit`, of the two large kinds.
    #[inline(always)]
    fn last_of(&self, digit: usize) -> Option<usize> {
        let mut mask = u64::MAX >> (63 - digit % 64);
        for index in (0..=digit / 64).rev() {
            // Relaxed: as in `count`.
            let bits = self.words[index].load(Ordering::Relaxed) & mask;
            if bits != 0 {
                return Some(index * 64 + 63 - bits.leading_zeros() as usize);
            }
            mask = u64::MAX;
        }
        None
    }

    /// Where the number of a digit's place stands, plus one.
    #[inline(always)]
    fn index_of(&self, digit: usize) -> (&'t Atomic<u64, M>, usize) {
        (&self.words[Self::SHAPE.bitmap_words() + digit / 8], digit % 8 * 8)
    }

    #[inline(always)]
    fn place_of(&self, digit: usize) -> Option<usize> {
        let (word, shift) = self.index_of(digit);
        // Relaxed: as in `count`.
        let place = word.load(Ordering::Relaxed) >> shift & 0xFF;
        (place as usize).checked_sub(1)
    }

    /// What a place leads to.
    #[inline(always)]
    pub fn child(place: &Slot<M>) -> Child<M> {
        // Acquire: the child is complete; pairs with the release in `set_child` and in `ChildSlot::put`.
        Child::of(place.load(Ordering::Acquire))
    }

    fn set_child(&self, place: usize, child: Child<M>) {
        // Release: the child is complete; pairs with the acquire in `child`.
        self.children[place].store(child.word(), Ordering::Release);
    }

    /// All children with their digits, ascending. The caller holds the lock, or nobody changes the node.
    pub fn entries(&self) -> Vec<(usize, Child<M>)> {
        let mut entries = vec![];
        let mut next = Some(Self::SHAPE.last());
        while let Some((digit, place)) = next.and_then(|digit| self.at_most(digit)) {
            entries.push((digit, Self::child(place)));
            next = digit.checked_sub(1);
        }
        entries.reverse();
        entries
    }

    /// Adds a child at a digit that has none. The caller holds the lock; there is room.
    pub fn insert(&self, digit: usize, child: Child<M>) {
        let count = self.count();
        match self.kind() {
            0 | 1 => {
                let mut digits = bytes_of(self.digit_words());
                let place = digits[..count].iter().filter(|one| usize::from(**one) < digit).count();
                for from in (place..count).rev() {
                    self.set_child(from + 1, Self::child(&self.children[from]));
                }
                self.set_child(place, child);
                digits.copy_within(place..count, place + 1);
                digits[place] = digit as u8;
                self.set_digits(&digits);
            }
            INDEXED => {
                // Most often the one behind all.
                let mut places = (count..self.children.len()).chain(0..count);
                let is_empty =
                    |place: &usize| matches!(Self::child(&self.children[*place]), Child::Empty);
                let place = places.find(is_empty).expect("there is room");
                self.set_child(place, child);
                self.set_index(digit, place + 1);
                self.set_bit(digit, true);
            }
            _ => {
                self.set_child(digit, child);
                self.set_bit(digit, true);
            }
        }
        self.set_count(count + 1);
    }

    /// Takes the child at a digit out. The caller holds the lock; the digit has one.
    pub fn remove(&self, digit: usize) {
        let count = self.count();
        match self.kind() {
            0 | 1 => {
                let mut digits = bytes_of(self.digit_words());
                let place = digits[..count].iter().filter(|one| usize::from(**one) < digit).count();
                for from in place + 1..count {
                    self.set_child(from - 1, Self::child(&self.children[from]));
                }
                // A5: else it would lead to the last child when that is gone.
                self.set_child(count - 1, Child::Empty);
                digits.copy_within(place + 1..count, place);
                digits[count - 1] = u8::MAX;
                self.set_digits(&digits);
            }
            INDEXED => {
                self.set_bit(digit, false);
                let place = self.place_of(digit).expect("the digit has a child");
                self.set_index(digit, 0);
                self.set_child(place, Child::Empty);
            }
            _ => {
                self.set_bit(digit, false);
                self.set_child(digit, Child::Empty);
            }
        }
        self.set_count(count - 1);
    }

    fn set_digits(&self, digits: &[u8]) {
        for (word, digits) in self.words.iter().zip(digits.chunks(8)) {
            // Relaxed: readers validate the version.
            word.store(word_of(digits), Ordering::Relaxed);
        }
    }

    /// Says whether a digit has a child.
    fn set_bit(&self, digit: usize, is_there: bool) {
        let (word, bit) = (&self.words[digit / 64], 1 << (digit % 64));
        // Relaxed: only the holder of the lock writes it.
        let others = word.load(Ordering::Relaxed) & !bit;
        // Relaxed: readers validate the version.
        word.store(if is_there { others | bit } else { others }, Ordering::Relaxed);
    }

    /// Notes the place of a digit, plus one; 0 for none.
    fn set_index(&self, digit: usize, number: usize) {
        let (word, shift) = self.index_of(digit);
        // Relaxed: only the holder of the lock writes it.
        let others = word.load(Ordering::Relaxed) & !(0xFF << shift);
        // Relaxed: readers validate the version.
        word.store(others | (number as u64) << shift, Ordering::Relaxed);
    }

    /// Reports what contradicts the invariants. Nobody changes the node meanwhile.
    pub fn check(&self, problems: &mut Vec<String>) {
        let (count, header) = (self.count(), self.header());
        if self.lock().stable(GENERATION).is_none() {
            problems.push(format!("the node {header:?} is left locked, or is dead (A1)"));
        }
        if count < 2 || count > self.children.len() {
            problems.push(format!("the node {header:?} has {count} children (A3)"));
        }
        let entries = self.entries().len();
        let is_empty = |place: &&Slot<M>| matches!(Self::child(place), Child::Empty);
        let filled = self.children.len() - self.children.iter().filter(is_empty).count();
        if (entries, filled) != (count, count) {
            problems.push(format!(
                "the node {header:?} has {entries} digits and {filled} places of {count} children (A5)"
            ));
        }
    }
}
