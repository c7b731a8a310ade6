//! The ordered map behind a key of the server: packed while it is small, in the tree from then on.
//!
//! A map is packed up to [`PACKED_COUNT_MAX`] entries and [`PACKED_SIZE_MAX`] bytes, and again once it
//! has a quarter of both. Which it is shows in memory and time only.
//!
//! *Expiry.* Operations that look take the time `now`; at 0 nothing has expired. Entries stay in the map
//! until somebody removes them, so that a master and its replicas hold the same.
//!
//! *Cost.* O(log n) for one entry, and for each visited entry O(1), beside O(4096) for packed ones.

use std::cell::Cell;
use std::ops::Bound;

use everleaf_index::IndexError;

use crate::entry::{Entry, Removed};
use crate::packed::{self, Packed};
use crate::space::{self, Space};

/// The most entries of a packed map.
pub const PACKED_COUNT_MAX: usize = 128;
/// The most bytes of a packed map.
pub const PACKED_SIZE_MAX: usize = 4096;

/// An ordered map.
pub struct OrderedMap {
    /// Its number, of no other map in this process.
    number: u64,
    /// Entries that expire.
    volatile: u64,
    /// No entry expires before this time.
    next_due: Cell<u64>,
    entries: Entries,
}

enum Entries {
    Packed(Packed),
    Tree {
        count: u64,
        /// Bytes of names and values.
        size: u64,
        /// Bytes of their records.
        record_bytes: u64,
    },
}

/// Bounds of names.
pub type Bounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);
/// All names.
pub const ALL: Bounds<'static> = (Bound::Unbounded, Bound::Unbounded);

impl OrderedMap {
    /// An empty map.
    pub fn new() -> Self {
        OrderedMap {
            number: space::new_number(),
            volatile: 0,
            next_due: Cell::new(u64::MAX),
            entries: Entries::Packed(Packed::default()),
        }
    }

    /// Its number, of no other map in this process.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Entries, with those that have expired and were not removed yet.
    pub fn len(&self) -> u64 {
        match &self.entries {
            Entries::Packed(packed) => packed.len() as u64,
            Entries::Tree { count, .. } => *count,
        }
    }

    /// How many of its entries expire.
    pub fn volatile(&self) -> u64 {
        self.volatile
    }

    /// No entry expires before this time, in milliseconds since 1970.
    pub fn next_due(&self) -> u64 {
        if self.volatile == 0 { u64::MAX } else { self.next_due.get() }
    }

    /// Lets the map, and what it has from the allocator, be moved by what takes a block and gives it back elsewhere, or null. The
    /// tree is none of it: its pages are of a pool. Returns where the map is then.
    ///
    /// # Safety
    /// The map is one of `Box::into_raw`, and nobody else uses it. What is given back has the same bytes, is as long, and comes
    /// from the global allocator; it takes the place of what was taken.
    pub unsafe fn relocate(
        map: *mut OrderedMap,
        relocate: &mut dyn FnMut(*mut u8) -> *mut u8,
    ) -> *mut OrderedMap {
        let moved = relocate(map.cast());
        let map = if moved.is_null() { map } else { moved.cast() };
        // SAFETY: the caller's promise: it lies there now, and nobody else uses it.
        if let Entries::Packed(packed) = unsafe { &mut (*map).entries } {
            // SAFETY: the caller's promise.
            unsafe { packed.relocate(relocate) };
        }
        map
    }

    /// `packed` or `tree`.
    pub fn encoding(&self) -> &'static str {
        match self.entries {
            Entries::Packed(_) => "packed",
            Entries::Tree { .. } => "tree",
        }
    }

    /// Bytes of memory, of which those of the tree are its share of the leaves.
    pub fn memory(&self) -> u64 {
        let own = size_of::<Self>() as u64;
        own + match &self.entries {
            Entries::Packed(packed) => packed.capacity() as u64,
            Entries::Tree { count, record_bytes, .. } => {
                let share = space::with(Space::bytes_per_key).unwrap_or(0);
                record_bytes + (count + self.volatile) * share
            }
        }
    }

    /// Runs `see` on the entry of this name, if it has one that has not expired.
    ///
    /// # Errors
    /// The memory is damaged.
    pub fn get<R>(
        &self,
        name: &[u8],
        now: u64,
        see: impl FnOnce(Entry<'_>) -> R,
    ) -> Result<Option<R>, IndexError> {
        let alive = |entry: Entry<'_>| !entry.has_expired(now);
        match &self.entries {
            Entries::Packed(packed) => Ok(packed.get(name).filter(|entry| alive(*entry)).map(see)),
            Entries::Tree { .. } => space::with(|space, session| {
                let key = self.key(name);
                let found = space.get(session, &key, |value, expiry_ms| {
                    let entry = Entry { name, value, expiry_ms };
                    alive(entry).then(|| see(entry))
                })?;
                Ok(found.flatten())
            }),
        }
    }

    /// Adds an entry, or replaces what its name has. Returns what was there, expired or not.
    ///
    /// # Errors
    /// A limit; no memory. Then nothing was changed.
    pub fn put(&mut self, entry: Entry<'_>) -> Result<Option<Removed>, IndexError> {
        if let Entries::Packed(packed) = &self.entries {
            let size = packed.bytes().len() + packed::size_of_entry(entry);
            if packed.len() >= PACKED_COUNT_MAX || size > PACKED_SIZE_MAX {
                self.unpack()?;
            }
        }
        let old = match &mut self.entries {
            Entries::Packed(packed) => packed.put(entry),
            Entries::Tree { .. } => {
                let old = self.replace(Some(entry), entry.name)?;
                let Entries::Tree { count, size, record_bytes } = &mut self.entries else {
                    return Ok(old);
                };
                *count += 1;
                *size += (entry.name.len() + entry.value.len()) as u64;
                *record_bytes += record_size(entry.name, entry.value.len(), entry.expiry_ms);
                self.uncount(entry.name, old);
                old
            }
        };
        let due = self.next_due();
        self.volatile += u64::from(entry.expiry_ms != 0);
        self.volatile -= u64::from(old.is_some_and(|old| old.expiry_ms != 0));
        if entry.expiry_ms != 0 {
            self.next_due.set(due.min(entry.expiry_ms));
        }
        Ok(old)
    }

    /// Removes the entry of this name. Returns what was there, expired or not.
    ///
    /// # Errors
    /// No memory (a removal may have to split a leaf). Then nothing was changed.
    pub fn remove(&mut self, name: &[u8]) -> Result<Option<Removed>, IndexError> {
        let old = match &mut self.entries {
            Entries::Packed(packed) => packed.remove(name),
            Entries::Tree { .. } => {
                let old = self.replace(None, name)?;
                self.uncount(name, old);
                old
            }
        };
        self.volatile -= u64::from(old.is_some_and(|old| old.expiry_ms != 0));
        if old.is_some() {
            self.pack_if_small();
        }
        Ok(old)
    }

    /// Visits the entries between two bounds until `visit` says no, with those that have expired.
    ///
    /// # Errors
    /// The memory is damaged.
    pub fn walk(
        &self,
        bounds: Bounds<'_>,
        reverse: bool,
        visit: &mut dyn FnMut(Entry<'_>) -> bool,
    ) -> Result<(), IndexError> {
        let Entries::Tree { .. } = self.entries else {
            if let Entries::Packed(packed) = &self.entries {
                packed.walk(bounds, reverse, visit);
            }
            return Ok(());
        };
        let from = bounds.0.map(|name| self.key(name));
        let to = bounds.1.map(|name| self.key(name));
        let (first, end) = (self.prefix(space::ENTRIES), self.prefix(space::ENTRIES + 1));
        let from = match &from {
            Bound::Unbounded => Bound::Included(first.as_slice()),
            other => other.as_ref().map(Vec::as_slice),
        };
        let to = match &to {
            Bound::Unbounded => Bound::Excluded(end.as_slice()),
            other => other.as_ref().map(Vec::as_slice),
        };
        space::with(|space, session| {
            space.walk(session, (from, to), reverse, |key, value, expiry_ms| {
                visit(Entry { name: &key[space::PREFIX_SIZE..], value, expiry_ms })
            })
        })
    }

    /// Up to `limit` names of entries that have expired at `now`, the earliest first as a rule. Moves
    /// [`Self::next_due`] on if there are fewer.
    ///
    /// # Errors
    /// The memory is damaged.
    pub fn expired(&self, now: u64, limit: usize) -> Result<Vec<Vec<u8>>, IndexError> {
        let mut names = vec![];
        if self.next_due() > now {
            return Ok(names);
        }
        let mut next = u64::MAX;
        match &self.entries {
            Entries::Packed(packed) => {
                for entry in packed.entries().filter(|entry| entry.expiry_ms != 0) {
                    if entry.has_expired(now) && names.len() < limit {
                        names.push(entry.name.to_vec());
                    } else {
                        next = next.min(entry.expiry_ms);
                    }
                }
            }
            Entries::Tree { .. } => (names, next) = self.expired_in_tree(now, limit)?,
        }
        // What is removed next leaves nothing before `next`; until then the bound holds as it was.
        if names.is_empty() {
            self.next_due.set(next);
        }
        Ok(names)
    }

    /// The same of the tree, with the time of the first note that was not looked at.
    fn expired_in_tree(&self, now: u64, limit: usize) -> Result<(Vec<Vec<u8>>, u64), IndexError> {
        let (from, to) = (self.prefix(space::EXPIRIES), self.prefix(space::EXPIRIES + 1));
        let bounds = (Bound::Included(from.as_slice()), Bound::Excluded(to.as_slice()));
        let (mut due, mut names, mut next) = (vec![], vec![], u64::MAX);
        space::with(|space, session| {
            space.walk(session, bounds, false, |key, _, _| {
                let Some((time, name)) = split_expiry(key) else { return true };
                if time <= now && due.len() < limit {
                    due.push((time, name.to_vec()));
                    return true;
                }
                next = time;
                false
            })?;
            for (time, name) in due {
                let own = space.get(session, &self.key(&name), |_, expiry_ms| expiry_ms)?;
                if own == Some(time) {
                    names.push(name);
                } else {
                    // A note that could not be removed with the time that it is of.
                    let mut note = vec![];
                    space::expiry_key(&mut note, self.number, time, &name);
                    let _ = space.remove(session, &note);
                }
            }
            Ok(())
        })?;
        Ok((names, next))
    }

    /// How many entries have not expired at `now`. O(1) beside O(those that have).
    ///
    /// # Errors
    /// The memory is damaged.
    pub fn live_len(&self, now: u64) -> Result<u64, IndexError> {
        Ok(self.len() - self.expired(now, usize::MAX)?.len() as u64)
    }

    /// A copy with a number of its own.
    ///
    /// # Errors
    /// No memory; then there is none.
    pub fn copy(&self) -> Result<OrderedMap, IndexError> {
        let mut copy = OrderedMap::new();
        if let Entries::Packed(packed) = &self.entries {
            copy.entries = Entries::Packed(packed.clone());
            copy.volatile = self.volatile;
            copy.next_due = self.next_due.clone();
            return Ok(copy);
        }
        let mut after: Option<Vec<u8>> = None;
        loop {
            let from = after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            let mut piece = Packed::default();
            self.walk((from, Bound::Unbounded), false, &mut |entry| {
                piece.push(entry);
                piece.bytes().len() < PACKED_SIZE_MAX
            })?;
            let Some(last) = piece.entries().last() else { return Ok(copy) };
            after = Some(last.name.to_vec());
            for entry in piece.entries() {
                copy.put(entry)?;
            }
        }
    }

    fn key(&self, name: &[u8]) -> Vec<u8> {
        let mut key = Vec::with_capacity(space::PREFIX_SIZE + name.len());
        space::entry_key(&mut key, self.number, name);
        key
    }

    fn prefix(&self, kind: u8) -> Vec<u8> {
        let mut key = self.number.to_be_bytes().to_vec();
        key.push(kind);
        key
    }

    /// In the tree: gives a name this entry, or none. Returns what was there. An error has changed nothing but, perhaps, left
    /// the note of a time that the entry has not got; [`Self::expired`] compares the two.
    fn replace(
        &self,
        entry: Option<Entry<'_>>,
        name: &[u8],
    ) -> Result<Option<Removed>, IndexError> {
        space::with(|space, session| {
            let key = self.key(name);
            let old = space.get(session, &key, |value, expiry_ms| Removed {
                value_size: value.len(),
                expiry_ms,
            })?;
            let new_expiry = entry.map_or(0, |entry| entry.expiry_ms);
            let old_expiry = old.map_or(0, |old| old.expiry_ms);
            let mut note = vec![];
            if new_expiry != 0 && new_expiry != old_expiry {
                space::expiry_key(&mut note, self.number, new_expiry, name);
                space.put(session, &note, &[], 0)?;
            }
            let done = match entry {
                Some(entry) => space.put(session, &key, entry.value, entry.expiry_ms).map(|_| ()),
                None if old.is_some() => space.remove(session, &key).map(|_| ()),
                None => Ok(()),
            };
            if let Err(error) = done {
                if !note.is_empty() {
                    let _ = space.remove(session, &note);
                }
                return Err(error);
            }
            if old_expiry != 0 && old_expiry != new_expiry {
                space::expiry_key(&mut note, self.number, old_expiry, name);
                // What was asked for is done, and has to be counted.
                let _ = space.remove(session, &note);
            }
            Ok(old)
        })
    }

    /// In the tree: takes what was there out of the sums.
    fn uncount(&mut self, name: &[u8], old: Option<Removed>) {
        if let (Entries::Tree { count, size, record_bytes }, Some(old)) = (&mut self.entries, old) {
            *count -= 1;
            *size -= (name.len() + old.value_size) as u64;
            *record_bytes -= record_size(name, old.value_size, old.expiry_ms);
        }
    }

    /// Moves a packed map into the tree, under a new number: the one that it had there may still have entries that
    /// there was no memory to remove, and that are removed later.
    fn unpack(&mut self) -> Result<(), IndexError> {
        let Entries::Packed(packed) = &self.entries else { return Ok(()) };
        let before = std::mem::replace(&mut self.number, space::new_number());
        let (mut size, mut record_bytes) = (0, 0);
        for entry in packed.entries() {
            if let Err(error) = self.replace(Some(entry), entry.name) {
                space::free(self.number);
                self.number = before;
                return Err(error);
            }
            size += (entry.name.len() + entry.value.len()) as u64;
            record_bytes += record_size(entry.name, entry.value.len(), entry.expiry_ms);
        }
        self.entries = Entries::Tree { count: packed.len() as u64, size, record_bytes };
        Ok(())
    }

    /// Moves a map that became small out of the tree.
    fn pack_if_small(&mut self) {
        let Entries::Tree { count, size, .. } = self.entries else { return };
        if count as usize > PACKED_COUNT_MAX / 4 || size as usize > PACKED_SIZE_MAX / 4 {
            return;
        }
        let mut packed = Packed::default();
        let walked = self.walk(ALL, false, &mut |entry| {
            packed.push(entry);
            true
        });
        if walked.is_ok() {
            self.entries = Entries::Packed(packed);
            space::free(self.number);
        }
    }
}

impl Drop for OrderedMap {
    fn drop(&mut self) {
        if let Entries::Tree { .. } = self.entries {
            space::free(self.number);
        }
    }
}

/// Bytes that the tree takes for a record.
fn record_size(name: &[u8], value_size: usize, expiry_ms: u64) -> u64 {
    let has_word = expiry_ms != 0 || value_size >= everleaf_index::LONG_VALUE_SIZE;
    let header = if has_word { 16 } else { 8 };
    let size = header + space::PREFIX_SIZE + name.len() + value_size;
    let note = match expiry_ms {
        0 => 0,
        _ => size_in_memory(8 + 8 + space::PREFIX_SIZE + name.len()),
    };
    size_in_memory(size) + note
}

/// Bytes that the allocator takes for a record of `size` bytes.
fn size_in_memory(size: usize) -> u64 {
    use everleaf_alloc::{layout, size_class};
    match size_class::class_of(size) {
        Some(class) => size_class::class_size(class) as u64,
        None => size.next_multiple_of(1 << layout::CHUNK_SHIFT) as u64,
    }
}

/// The time and the name of the key of an expiry.
fn split_expiry(key: &[u8]) -> Option<(u64, &[u8])> {
    let (time, name) = key.get(space::PREFIX_SIZE..)?.split_first_chunk()?;
    Some((u64::from_be_bytes(*time), name))
}
