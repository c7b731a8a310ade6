//! What a repair may have lost of collections, and what is left says.
//!
//! Two entries of the map of the members are of all collections: the mark with which headers begin, and the number of
//! the process that makes some. Each may lie in what a repair cannot keep.

use std::ops::{Bound, ControlFlow};

use everleaf::{Error, Map, Result, Store};

use super::header::{HEADER_SIZE, Kind, MARK_SIZE};
use super::notes::{MARK_KEY, MEMBERS, live_number, mark_entry, mark_of};
use super::ready::COUNTER_BITS;
use crate::command::walk::{Bounds, walk};
use crate::databases::maps_of;

/// The highest number of a process in the numbers of collections that there are: none may be given again, whatever the
/// entry that counts them says. A few lookups.
///
/// # Errors
/// The store cannot be read.
pub fn highest_start(members: &Map) -> Result<u64> {
    let (mut highest, mut end) = (0, Bound::Unbounded);
    loop {
        let (mut last, bounds) = (None, Bounds { start: Bound::Unbounded, end });
        walk(members, &bounds, true, |key, _| {
            last = Some(key.to_vec());
            ControlFlow::Break(())
        })?;
        let word = |key: &[u8], at: usize| {
            let bytes = key.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
            bytes.map(u64::from_be_bytes)
        };
        let Some((key, number)) = last.and_then(|key| Some((word(&key, 8), word(&key, 0)?))) else {
            return Ok(highest);
        };
        // Below the first number that is given are notes, each of which has the number behind that of its kind.
        let first = 1 << COUNTER_BITS;
        let id = if number < first { key.unwrap_or(0) } else { number };
        highest = highest.max(id >> COUNTER_BITS);
        end = Bound::Excluded(number.min(first).to_be_bytes().to_vec());
    }
}

/// Finds the mark of a store that has lost it, and puts it back: it is the beginning of each value whose number a note
/// of its key has. Returns whether it was missing.
///
/// # Errors
/// The store cannot be read or written; [`Error::Corrupt`] if nothing says what the mark was.
pub fn mend_mark(store: &Store) -> Result<bool> {
    let Some(members) = store.existing_map(MEMBERS)? else { return Ok(false) };
    if members.is_empty() || mark_of(&members)?.is_some() {
        return Ok(false);
    }
    for (place, map) in maps_of(store)? {
        if let Some(mark) = find_mark(&members, &live_number(place).to_be_bytes(), &map)? {
            members.put(MARK_KEY, mark_entry(&mark))?;
            return Ok(true);
        }
    }
    Err(Error::Corrupt(format!(
        "the map {MEMBERS} has lost the mark with which the headers of collections begin, and none of the headers that \
         are left is named by a note, so that nothing tells what it was: only a backup brings it back"
    )))
}

/// The mark of the first header of a map that a note with this prefix names.
fn find_mark(members: &Map, prefix: &[u8], map: &Map) -> Result<Option<[u8; MARK_SIZE]>> {
    let mut bounds = Bounds::of_prefix(prefix);
    loop {
        let mut note = None;
        walk(members, &bounds, false, |name, key| {
            note = Some((name.to_vec(), key.to_vec()));
            ControlFlow::Break(())
        })?;
        let Some((name, key)) = note else { return Ok(None) };
        let found = map.get_with(&key, |value| mark_in(value, &name))?.flatten();
        if found.is_some() {
            return Ok(found);
        }
        bounds.skip_to_after(name);
    }
}

/// The mark in a value, if that is the header of the collection that a note is about.
fn mark_in(value: &[u8], note: &[u8]) -> Option<[u8; MARK_SIZE]> {
    let (mark, rest) = value.split_first_chunk::<MARK_SIZE>()?;
    let number = rest.get(8..16)?.try_into().ok().map(u64::from_le_bytes)?;
    let is_header = value.len() == HEADER_SIZE && Kind::of(rest[0]).is_some();
    (is_header && note.get(8..)? == number.to_be_bytes()).then_some(*mark)
}

#[cfg(test)]
mod tests {
    use super::super::notes::START_KEY;
    use super::super::state::Types;
    use super::*;
    use crate::types::header::Header;
    use crate::types::notes::live_key;

    fn store() -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().unwrap();
        let store = everleaf::Options::new().create(true).open(folder.path().join("p")).unwrap();
        (folder, store)
    }

    fn begun(store: &Store) -> Types {
        let types = Types::default();
        types.begin(store).unwrap();
        types
    }

    /// What was mixed: without the entry that counts processes the first numbers were given again, and two collections
    /// had the same members.
    #[test]
    fn no_number_is_given_twice_whatever_was_lost() {
        let (_folder, store) = store();
        let mut given = Vec::new();
        for round in 0..4_u64 {
            let types = begun(&store);
            let ready = types.ready().unwrap();
            let id = ready.new_id();
            assert!(!given.contains(&id), "{round}: {id}");
            given.push(id);
            let member = match round % 2 {
                // A member, or a note alone.
                0 => [id.to_be_bytes(), round.to_be_bytes()].concat(),
                _ => live_key(Default::default(), id).to_vec(),
            };
            ready.members.put(&member, b"key").unwrap();
            assert!(ready.members.remove(START_KEY).unwrap());
        }
    }

    /// What was served: headers as strings of 56 bytes, and the next collection had another mark for ever.
    #[test]
    fn members_without_their_mark_are_refused_until_it_is_found() {
        let (_folder, store) = store();
        let types = begun(&store);
        let ready = types.ready().unwrap();
        let header = Header {
            kind: Kind::Set,
            id: ready.new_id(),
            count: 1,
            changes: 1,
            extra: 0,
            has_outside: false,
            reaches: [false; 2],
        };
        store.default_map().put(b"set", ready.encode(&header)).unwrap();
        store.default_map().put(b"text", vec![7; HEADER_SIZE]).unwrap();
        assert!(!mend_mark(&store).unwrap());
        ready.members.put([header.id.to_be_bytes(), [7; 8]].concat(), b"").unwrap();
        ready.members.put(live_key(Default::default(), 5), b"text").unwrap();
        let mark = ready.members.get(MARK_KEY).unwrap().unwrap();
        assert!(ready.members.remove(MARK_KEY).unwrap());
        for opened in [Types::default().open(&store), Types::default().begin(&store)] {
            assert!(matches!(opened, Err(everleaf::Error::Corrupt(_))));
        }
        let error = mend_mark(&store).unwrap_err().to_string();
        assert!(error.contains("only a backup") && !error.contains("repair"), "{error}");
        ready.members.put(live_key(Default::default(), header.id), b"set").unwrap();
        assert!(mend_mark(&store).unwrap());
        assert_eq!(ready.members.get(MARK_KEY).unwrap(), Some(mark));
        Types::default().open(&store).unwrap();
    }

    /// What was lost: a mark that only collections of other databases tell, or only those behind very many that are
    /// gone.
    #[test]
    fn the_mark_is_found_by_collections_of_any_database() {
        let (_folder, store) = store();
        let types = begun(&store);
        let ready = types.ready().unwrap();
        let id = ready.new_id();
        let header = Header {
            kind: Kind::Hash,
            id,
            count: 1,
            changes: 1,
            extra: 0,
            has_outside: false,
            reaches: [false; 2],
        };
        let other = store.map("server.db3").unwrap();
        other.put(b"hash", ready.encode(&header)).unwrap();
        let mark = ready.members.get(MARK_KEY).unwrap().unwrap();
        let place = crate::databases::MapNumber(3);
        let mut gone = everleaf::WriteBatch::new();
        for number in 1..=100_001 {
            gone.put(&ready.members, live_key(place, number), b"gone");
        }
        store.write(&gone).unwrap();
        assert!(ready.members.remove(MARK_KEY).unwrap());
        ready.members.put(live_key(Default::default(), id), b"hash").unwrap();
        assert!(mend_mark(&store).is_err(), "the note is of another database");
        ready.members.put(live_key(place, id), b"hash").unwrap();
        assert!(mend_mark(&store).unwrap());
        assert_eq!(ready.members.get(MARK_KEY).unwrap(), Some(mark));
    }
}
