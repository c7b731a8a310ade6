//! A small ordered map: all entries in one buffer, in the order of their names.
//!
//! ```text
//!   entry  | name length | value length * 2 + t | (t) 8 bytes of expiry | name | value |
//! ```
//!
//! Lengths are of 1 to 5 bytes, 7 bits each, the lowest first; the expiry is in milliseconds since
//! 1970, the lowest byte first. The same bytes are a block of the saved form ([`crate::format`]).
//! Everything costs O(bytes): a caller that has much keeps it in the tree.

use std::mem::ManuallyDrop;
use std::ops::Bound;

use crate::entry::{Entry, Removed};

/// The bytes of an entry's two lengths and its expiry, at most.
const HEADER_SIZE_MAX: usize = 5 + 5 + 8;

/// Entries in one buffer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packed {
    bytes: Vec<u8>,
    count: u32,
}

/// An entry and where its bytes begin.
struct Placed<'a> {
    start: usize,
    entry: Entry<'a>,
}

impl Packed {
    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// The buffer.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes of memory that the buffer takes.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Lets the buffer be moved by what takes it and gives it back elsewhere, or null.
    ///
    /// # Safety
    /// What is given back has the same bytes, is as long, and comes from the global allocator; it takes the place of what was
    /// taken.
    pub unsafe fn relocate(&mut self, relocate: &mut dyn FnMut(*mut u8) -> *mut u8) {
        if self.bytes.capacity() == 0 {
            return;
        }
        let mut old = ManuallyDrop::new(std::mem::take(&mut self.bytes));
        let (length, capacity, start) = (old.len(), old.capacity(), old.as_mut_ptr());
        let moved = relocate(start);
        let start = if moved.is_null() { start } else { moved };
        // SAFETY: the old buffer was given up, or is the same; that the new one is like it is the caller's promise.
        self.bytes = unsafe { Vec::from_raw_parts(start, length, capacity) };
    }

    /// The entry of this name.
    pub fn get(&self, name: &[u8]) -> Option<Entry<'_>> {
        self.placed().find(|placed| placed.entry.name >= name).and_then(|placed| {
            let entry = placed.entry;
            (entry.name == name).then_some(entry)
        })
    }

    /// Adds an entry, or replaces what its name has. Returns what was there.
    pub fn put(&mut self, entry: Entry<'_>) -> Option<Removed> {
        let (start, end, old) = self.find(entry.name);
        let mut header = [0; HEADER_SIZE_MAX];
        let header_size = write_header(&mut header, entry);
        let size = header_size + entry.name.len() + entry.value.len();
        self.resize_gap(start, end, size);
        let mut at = start;
        for part in [&header[..header_size], entry.name, entry.value] {
            self.bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        self.count += u32::from(old.is_none());
        old
    }

    /// Removes the entry of this name. Returns what was there.
    pub fn remove(&mut self, name: &[u8]) -> Option<Removed> {
        let (start, end, old) = self.find(name);
        if old.is_some() {
            self.resize_gap(start, end, 0);
            self.count -= 1;
            if self.bytes.capacity() > 64 && self.bytes.len() < self.bytes.capacity() / 4 {
                self.bytes.shrink_to(self.bytes.len() * 2);
            }
        }
        old
    }

    /// Adds an entry whose name is greater than all there are.
    pub fn push(&mut self, entry: Entry<'_>) {
        append(&mut self.bytes, entry);
        self.count += 1;
    }

    /// Visits the entries between two bounds until `visit` says no.
    pub fn walk(
        &self,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        reverse: bool,
        visit: &mut dyn FnMut(Entry<'_>) -> bool,
    ) {
        let inside = self
            .entries()
            .skip_while(|entry| match bounds.0 {
                Bound::Included(from) => entry.name < from,
                Bound::Excluded(from) => entry.name <= from,
                Bound::Unbounded => false,
            })
            .take_while(|entry| match bounds.1 {
                Bound::Included(to) => entry.name <= to,
                Bound::Excluded(to) => entry.name < to,
                Bound::Unbounded => true,
            });
        if reverse {
            let inside: Vec<Entry<'_>> = inside.collect();
            let _ = inside.into_iter().rev().all(visit);
        } else {
            let _ = { inside }.all(visit);
        }
    }

    /// The entries in ascending order.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        self.placed().map(|placed| placed.entry)
    }

    fn placed(&self) -> impl Iterator<Item = Placed<'_>> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let start = at;
            let entry = read(&self.bytes, &mut at).ok().flatten()?;
            Some(Placed { start, entry })
        })
    }

    /// The first and the next byte of the entry of this name and what it is; without one, where it
    /// would be.
    fn find(&self, name: &[u8]) -> (usize, usize, Option<Removed>) {
        for Placed { start, entry } in self.placed() {
            if entry.name == name {
                let end = start + size_of_entry(entry);
                return (start, end, Some(Removed::of(entry)));
            }
            if entry.name > name {
                return (start, start, None);
            }
        }
        (self.bytes.len(), self.bytes.len(), None)
    }

    /// Makes the bytes from `start` to `end` `size` bytes.
    fn resize_gap(&mut self, start: usize, end: usize, size: usize) {
        let (old_length, behind) = (self.bytes.len(), start + size);
        if behind > end {
            self.bytes.resize(old_length + (behind - end), 0);
        }
        self.bytes.copy_within(end..old_length, behind);
        self.bytes.truncate(old_length - end + behind);
    }
}

/// Bytes that an entry takes in a buffer.
pub fn size_of_entry(entry: Entry<'_>) -> usize {
    write_header(&mut [0; HEADER_SIZE_MAX], entry) + entry.name.len() + entry.value.len()
}

/// Appends an entry to a buffer.
pub fn append(bytes: &mut Vec<u8>, entry: Entry<'_>) {
    let mut header = [0; HEADER_SIZE_MAX];
    let header_size = write_header(&mut header, entry);
    bytes.extend_from_slice(&header[..header_size]);
    bytes.extend_from_slice(entry.name);
    bytes.extend_from_slice(entry.value);
}

/// Reads the entry that begins at `at`, which moves behind it; `None` at the end.
///
/// # Errors
/// What is wrong with the bytes at `at`, which then did not move.
pub fn read<'a>(bytes: &'a [u8], at: &mut usize) -> Result<Option<Entry<'a>>, &'static str> {
    if *at == bytes.len() {
        return Ok(None);
    }
    let mut rest = &bytes[*at..];
    let name_length = read_length(&mut rest)?;
    let value_field = read_length(&mut rest)?;
    let expiry_ms = if value_field & 1 == 1 {
        let (time, behind) =
            rest.split_first_chunk().ok_or("an expiry reaches out of its block")?;
        rest = behind;
        u64::from_le_bytes(*time)
    } else {
        0
    };
    let (name, rest) =
        rest.split_at_checked(name_length).ok_or("a name reaches out of its block")?;
    let (value, rest) =
        rest.split_at_checked(value_field >> 1).ok_or("a value reaches out of its block")?;
    *at = bytes.len() - rest.len();
    Ok(Some(Entry { name, value, expiry_ms }))
}

fn write_header(header: &mut [u8; HEADER_SIZE_MAX], entry: Entry<'_>) -> usize {
    let mut size = 0;
    let expires = usize::from(entry.expiry_ms != 0);
    for mut length in [entry.name.len(), entry.value.len() << 1 | expires] {
        while length >= 0x80 {
            header[size] = length as u8 | 0x80;
            length >>= 7;
            size += 1;
        }
        header[size] = length as u8;
        size += 1;
    }
    if expires == 1 {
        header[size..size + 8].copy_from_slice(&entry.expiry_ms.to_le_bytes());
        size += 8;
    }
    size
}

fn read_length(rest: &mut &[u8]) -> Result<usize, &'static str> {
    let mut length = 0;
    for place in 0..5 {
        let (byte, behind) = rest.split_first().ok_or("a length reaches out of its block")?;
        *rest = behind;
        length |= usize::from(byte & 0x7F) << (7 * place);
        if byte & 0x80 == 0 {
            return Ok(length);
        }
    }
    Err("a length has more than five bytes")
}
