//! Hashes, sets and their like: collections whose members lie in one ordered map.
//!
//! The key of a collection holds a *header* in the served map, among the strings: which type it is, how
//! many members it has, and the number of the collection. Its members lie in a second map, under that
//! number. No number is used twice, so a collection goes with its header, however large it is; what is
//! left of it is freed in the background (`collector.rs`). `docs/types.md` has all of it.
//!
//! A value is a header if it has a header's size and begins with the pool's mark: 128 random bits, made
//! with the second map. No command writes a string that is one (`strings.rs`), also if a client knows the mark.

pub mod check;
pub mod collection;
mod collector;
mod counts;
pub mod cursor;
mod headers;
pub mod list;
pub mod mend;
pub mod order;
pub mod overhead;
pub mod places;
mod relocation;
pub mod runs;
pub mod separators;
mod strings;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use everleaf::random::finish;
use everleaf::{Map, Store};

pub use collector::Collector;
pub use headers::CollectionHeaders;
pub use strings::would_be_header;

use self::cursor::Cursors;
use self::places::MIDDLE;
use self::separators::KeptSeparators;
use crate::databases::Place;

/// The map of the members.
pub const MEMBERS: &str = "server.members";
/// Size of a header.
pub const HEADER_SIZE: usize = 56;
/// Size of the mark that a header begins with.
const MARK_SIZE: usize = 16;
/// Keys of the map of the members that are not members: the number 0.
const MARK_KEY: &[u8] = b"\0\0\0\0\0\0\0\0mark";
/// What follows the mark since lists may have runs: a server that does not know them finds no mark, and refuses the
/// pool.
const WITH_RUNS: u8 = 1;
const START_KEY: &[u8] = b"\0\0\0\0\0\0\0\0start";
/// The number under which the key of every collection of the first place is noted; of another place it is its number
/// added to this base.
const LIVE: u64 = 1;
const LIVE_OTHERS: u64 = 0x100;
/// The number under which lists are noted that have elements outside of their bounds.
const TRIMMED: u64 = 2;
/// Bits of a number that count the collections of one process.
const COUNTER_BITS: u32 = 40;
/// So many numbers are given before others are begun with: the half, so that it can be done before a command that takes
/// some.
const ID_COUNT_MAX: u64 = 1 << (COUNTER_BITS - 1);

/// The kind of a list that was last changed when there were no runs: it may have elements outside of its bounds.
const LIST_WITHOUT_RUNS: u8 = 4;

/// What a collection is, and the byte for it in a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Hash = 1,
    Set = 2,
    SortedSet = 3,
    List = 5,
}

impl Kind {
    fn of(byte: u8) -> Option<Kind> {
        if byte == LIST_WITHOUT_RUNS {
            return Some(Kind::List);
        }
        [Kind::Hash, Kind::Set, Kind::SortedSet, Kind::List]
            .into_iter()
            .find(|kind| *kind as u8 == byte)
    }

    /// The name that `TYPE` tells.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Hash => "hash",
            Kind::Set => "set",
            Kind::SortedSet => "zset",
            Kind::List => "list",
        }
    }
}

/// What the key of a collection holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub kind: Kind,
    /// The number of the collection, which no other ever has.
    pub id: u64,
    /// Members.
    pub count: u64,
    /// Goes up with each change, so that equal headers mean equal members, unless a batch was rolled back in between.
    pub changes: u64,
    /// Of a sorted set: the levels of its order. Of a list: the index of its first element.
    pub extra: u64,
    /// Of a list: whether there may be elements outside of its bounds, which are in the way of those that are pushed
    /// there.
    pub has_outside: bool,
    /// Of a list: whether its first entry may begin before its first element, and its last one may end behind its last.
    /// Such elements are gone.
    pub reaches: [bool; 2],
}

/// In the header of a list: the bit that says that it may have elements outside of its bounds, and those of what may
/// reach out.
const OUTSIDE: u8 = 1;
const REACHES: [u8; 2] = [2, 4];

impl Header {
    /// That of a collection with nothing in it.
    pub fn of_new(kind: Kind, id: u64) -> Self {
        let extra = if kind == Kind::List { MIDDLE } else { 0 };
        Header { kind, id, count: 0, changes: 0, extra, has_outside: false, reaches: [false; 2] }
    }

    /// Writes all but the mark to a value that holds a header.
    pub fn write_to(&self, value: &mut [u8; HEADER_SIZE]) {
        value[MARK_SIZE] = self.kind as u8;
        value[MARK_SIZE + 1] = (u8::from(self.has_outside) * OUTSIDE)
            | (u8::from(self.reaches[0]) * REACHES[0])
            | (u8::from(self.reaches[1]) * REACHES[1]);
        value[24..32].copy_from_slice(&self.id.to_le_bytes());
        value[32..40].copy_from_slice(&self.count.to_le_bytes());
        value[40..48].copy_from_slice(&self.changes.to_le_bytes());
        value[48..].copy_from_slice(&self.extra.to_le_bytes());
    }
}

/// What collections need; present once a pool has had one.
pub struct Ready {
    /// The map of the members.
    pub members: Map,
    mark: [u8; MARK_SIZE],
    /// The next number: that of this process among those that made collections, above [`COUNTER_BITS`] of how many it
    /// has made. 0 until it has begun.
    next_id: AtomicU64,
    /// What is known of the orders of sorted sets.
    pub separators: KeptSeparators,
    /// What cursors of scans are made with.
    pub cursors: Cursors,
}

impl Ready {
    fn new(members: Map, mark: [u8; MARK_SIZE]) -> Self {
        let (next_id, separators) = (AtomicU64::new(0), KeptSeparators::default());
        Ready { members, mark, next_id, separators, cursors: Cursors::of(&mark) }
    }

    /// Whether a value begins with the mark of the pool.
    pub fn has_mark(&self, value: &[u8]) -> bool {
        value.starts_with(&self.mark)
    }

    /// The header in a value, if it is one.
    pub fn header(&self, value: &[u8]) -> Option<Header> {
        if value.len() != HEADER_SIZE || !self.has_mark(value) {
            return None;
        }
        let word = |at: usize| {
            u64::from_le_bytes(value[at..at + 8].try_into().expect("eight bytes are eight bytes"))
        };
        let kind = Kind::of(value[MARK_SIZE])?;
        let bits = value[MARK_SIZE + 1];
        let has_outside = value[MARK_SIZE] == LIST_WITHOUT_RUNS || bits & OUTSIDE != 0;
        let reaches = REACHES.map(|bit| bits & bit != 0);
        let (id, count, changes, extra) = (word(24), word(32), word(40), word(48));
        Some(Header { kind, id, count, changes, extra, has_outside, reaches })
    }

    /// The value that holds a header.
    pub fn encode(&self, header: &Header) -> [u8; HEADER_SIZE] {
        let mut value = [0; HEADER_SIZE];
        value[..MARK_SIZE].copy_from_slice(&self.mark);
        header.write_to(&mut value);
        value
    }

    /// A number for a new collection.
    pub fn new_id(&self) -> u64 {
        // Relaxed: only that no number comes twice.
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        assert!(id >= 1 << COUNTER_BITS, "a command that makes collections calls `begin` before");
        id
    }

    /// Whether numbers may be given, and so many are left that what runs now cannot come to the end of them.
    fn has_ids(&self) -> bool {
        // Relaxed: a number that is behind by a few does not matter.
        let next = self.next_id.load(Ordering::Relaxed);
        next != 0 && next % (1 << COUNTER_BITS) < ID_COUNT_MAX
    }

    /// Where the members of a hash or set lie: in the order of this, so that a place can be drawn, and
    /// a scan goes on where it was. Nobody can choose members with equal ones who does not know the mark: a reply
    /// shows members in the order of this, and nothing else of it (`cursor.rs`).
    pub fn hash_of(&self, member: &[u8]) -> u64 {
        let word = |bytes: &[u8]| {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            u64::from_le_bytes(word)
        };
        let (first, second) = (word(&self.mark[..8]), word(&self.mark[8..]));
        let mut state = first ^ member.len() as u64;
        let (words, rest) = member.as_chunks();
        for word in words {
            state = finish(state ^ u64::from_le_bytes(*word)).wrapping_add(second);
        }
        if !rest.is_empty() {
            state = finish(state ^ word(rest)).wrapping_add(second);
        }
        finish(state)
    }
}

/// The collections of a store.
#[derive(Default)]
pub struct Types {
    ready: OnceLock<Ready>,
    making: Mutex<()>,
    /// Whether the mark does not say yet that lists may have runs, for lack of space.
    owes_mark: AtomicBool,
}

impl Types {
    /// Finds out whether the store has had collections. Nothing is served before.
    pub fn open(&self, store: &Store) -> everleaf::Result<()> {
        let Some(members) = store.existing_map(MEMBERS)? else { return Ok(()) };
        match mark_of(&members)? {
            Some(mark) => drop(self.ready.get_or_init(|| Ready::new(members, mark))),
            None if members.is_empty() => {}
            None => return Err(lacks_mark()),
        }
        Ok(())
    }

    /// Notes durably that lists may have runs, for one who may change some: a server that does not know them would free
    /// these as what nobody has. The pool says so; and beside the mark it is in the log, too, of which a pool can be
    /// built anew.
    pub fn admit_runs(&self, store: &Store) -> everleaf::Result<()> {
        let Some(ready) = self.ready.get() else { return Ok(()) };
        store.note_runs_of_lists()?;
        let entry = mark_entry(&ready.mark);
        if ready.members.get(MARK_KEY)?.is_none_or(|there| there != entry) {
            ready.members.put(MARK_KEY, entry)?;
        }
        Ok(())
    }

    /// As [`Self::admit_runs`]. If there is no space for what is beside the mark, it is written later: with the first
    /// change of a list, or before that by [`Self::write_owed_mark`].
    pub fn admit_runs_or_owe(&self, store: &Store) -> everleaf::Result<()> {
        match self.admit_runs(store) {
            Err(error) if is_lack_of_space(&error) => {
                tracing::warn!("no list can be changed before there is space: {error}");
                // Relaxed: nobody else serves yet.
                self.owes_mark.store(true, Ordering::Relaxed);
                Ok(())
            }
            done => done,
        }
    }

    /// Writes what is owed beside the mark, if there is space for it now.
    pub fn write_owed_mark(&self, store: &Store) {
        // Relaxed: who still writes it with a list does no harm.
        if self.owes_mark.load(Ordering::Relaxed) && self.admit_runs(store).is_ok() {
            self.owes_mark.store(false, Ordering::Relaxed);
        }
    }

    /// What is to be written with a list that changes: what is owed beside the mark.
    pub fn owed_mark(&self) -> Option<(&'static [u8], [u8; MARK_SIZE + 1])> {
        // Relaxed: as in `write_owed_mark`.
        let ready = self.ready.get().filter(|_| self.owes_mark.load(Ordering::Relaxed))?;
        Some((MARK_KEY, mark_entry(&ready.mark)))
    }

    /// What collections need, if there has been one.
    pub fn ready(&self) -> Option<&Ready> {
        self.ready.get()
    }

    /// Makes what collections need, for one who may make the first of this pool or process. Must not
    /// be called within an operation of the store.
    pub fn begin(&self, store: &Store) -> everleaf::Result<()> {
        if self.ready.get().is_some_and(Ready::has_ids) {
            return Ok(());
        }
        let _making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        let members = store.map(MEMBERS)?;
        if !members.is_empty() && mark_of(&members)?.is_none() {
            // With another one the headers that there are would be strings for ever.
            return Err(lacks_mark());
        }
        store.note_runs_of_lists()?;
        members.insert(MARK_KEY, mark_entry(&new_mark()))?;
        self.open(store)?;
        self.admit_runs(store)?;
        let Some(ready) = self.ready.get() else { return Ok(()) };
        if !ready.has_ids() {
            let mut start = 1;
            let used = mend::highest_start(&members)?;
            members.update_with(START_KEY, |before| {
                let before =
                    before.and_then(|bytes| Some(u64::from_le_bytes(bytes.try_into().ok()?)));
                start = before.unwrap_or(0).max(used) + 1;
                everleaf::Action::Put(start.to_le_bytes().to_vec())
            })?;
            // Relaxed: who takes numbers meanwhile takes the last of those before.
            ready.next_id.store(start << COUNTER_BITS, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Whether a value is a header: a command that wants a string has the wrong key.
    #[inline]
    pub fn is_header(&self, value: &[u8]) -> bool {
        value.len() == HEADER_SIZE && self.header(value).is_some()
    }

    /// The header in a value, if it is one.
    pub fn header(&self, value: &[u8]) -> Option<Header> {
        self.ready.get()?.header(value)
    }
}

fn is_lack_of_space(error: &everleaf::Error) -> bool {
    use everleaf::Error::{DiskFull, LogFailed, LogFull, PoolFull};
    matches!(error, DiskFull(_) | LogFailed(_) | LogFull(_) | PoolFull(_))
}

/// The mark with which headers begin, if it is there.
fn mark_of(members: &Map) -> everleaf::Result<Option<[u8; MARK_SIZE]>> {
    Ok(members.get(MARK_KEY)?.and_then(|entry| match entry.split_first_chunk() {
        Some((mark, [] | [WITH_RUNS])) => Some(*mark),
        _ => None,
    }))
}

/// What the map of the members has under the key of the mark.
fn mark_entry(mark: &[u8; MARK_SIZE]) -> [u8; MARK_SIZE + 1] {
    let mut entry = [WITH_RUNS; MARK_SIZE + 1];
    entry[..MARK_SIZE].copy_from_slice(mark);
    entry
}

/// The error for members without the mark, which no header of theirs could be told by.
fn lacks_mark() -> everleaf::Error {
    everleaf::Error::Corrupt(format!(
        "the map {MEMBERS} has members, and lacks the mark with which the headers of collections begin, so that these \
         would be taken for strings: `everleaf repair` finds it again, unless it has said that it cannot; else \
         restore a backup"
    ))
}

/// Random bits.
fn new_mark() -> [u8; MARK_SIZE] {
    let mut mark = [0; MARK_SIZE];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut mark));
    if read.is_err() {
        // What seeds the hash maps of this process.
        for half in mark.chunks_mut(8) {
            half.copy_from_slice(&RandomState::new().build_hasher().finish().to_le_bytes());
        }
    }
    mark
}

/// The number under which the collections of a place note their keys.
fn live_number(place: Place) -> u64 {
    if place.0 == 0 { LIVE } else { LIVE_OTHERS + place.0 as u64 }
}

/// The key under which a collection of a place notes its own key.
fn live_key(place: Place, id: u64) -> [u8; 16] {
    note_key(live_number(place), id)
}

/// The key that a list has beside it while elements outside of its bounds are still to be freed.
fn trimmed_key(id: u64) -> [u8; 16] {
    note_key(TRIMMED, id)
}

fn note_key(kind: u64, id: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&kind.to_be_bytes());
    key[8..].copy_from_slice(&id.to_be_bytes());
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store() -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().unwrap();
        let store = everleaf::Options::new().create(true).open(folder.path().join("p")).unwrap();
        (folder, store)
    }

    #[test]
    fn a_pool_of_strings_stays_one_until_there_is_a_collection() {
        let (_folder, store) = store();
        let types = Types::default();
        types.open(&store).unwrap();
        assert!(types.ready().is_none());
        assert_eq!(store.existing_map(MEMBERS).unwrap().map(|_| ()), None);
        types.begin(&store).unwrap();
        assert!(types.ready().is_some());
    }

    /// What was lost: the elements of lists, which a server that knew no runs freed as what nobody had.
    #[test]
    fn a_pool_whose_lists_may_have_runs_says_so_twice() {
        let (folder, store) = store();
        let types = Types::default();
        types.begin(&store).unwrap();
        let members = store.map(MEMBERS).unwrap();
        let is_of_before = || {
            let mark: Result<[u8; MARK_SIZE], _> =
                members.get(MARK_KEY).unwrap().unwrap().try_into();
            mark.is_ok()
        };
        assert!(!is_of_before(), "to an older server the mark is missing");
        // A pool from before runs, and one that was built of its log.
        let mark = types.ready().unwrap().mark;
        members.put(MARK_KEY, mark).unwrap();
        drop(types);
        let types = Types::default();
        types.open(&store).unwrap();
        assert!(is_of_before(), "who only reads writes nothing");
        types.admit_runs(&store).unwrap();
        assert!(!is_of_before());
        drop(types);
        let types = Types::default();
        types.open(&store).unwrap();
        assert_eq!(types.ready().unwrap().mark, mark);
        drop((types, members, store));
        // The copy is as the pool itself: what an upgrade has to tell is not this.
        let path = folder.path().join("p");
        let says = |path: &std::path::Path| {
            !everleaf::Options::new().upgrade(path).unwrap().contains(&"runs of elements in lists")
        };
        everleaf::Options::new().compact(&path, |_| {}).unwrap();
        assert!(says(&path));
        let strings = folder.path().join("strings");
        drop(everleaf::Options::new().create(true).open(&strings).unwrap());
        assert!(!says(&strings), "a pool of strings stays one for all servers");
    }

    #[test]
    fn numbers_of_collections_are_never_used_twice() {
        let (_folder, store) = store();
        let mut ids = Vec::new();
        for _ in 0..3 {
            let types = Types::default();
            types.open(&store).unwrap();
            types.begin(&store).unwrap();
            types.begin(&store).unwrap();
            let ready = types.ready().unwrap();
            ids.extend([ready.new_id(), ready.new_id()]);
        }
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count);
        assert!(ids.iter().all(|id| *id > LIVE));
    }

    /// What was mixed: behind 2^40 numbers of one process came those that the first or the next one was given, so that
    /// two collections had the same members.
    #[test]
    fn numbers_are_not_given_again_by_a_process_that_lives_long() {
        let (_folder, store) = store();
        let types = Types::default();
        types.begin(&store).unwrap();
        let ready = types.ready().unwrap();
        let mut ids = vec![ready.new_id()];
        for _ in 0..3 {
            // Years later; each command that may make a collection begins.
            ready.next_id.fetch_add(ID_COUNT_MAX - 1, Ordering::Relaxed);
            types.begin(&store).unwrap();
            ids.extend([ready.new_id(), ready.new_id()]);
            let later = Types::default();
            later.begin(&store).unwrap();
            ids.extend((0..8).map(|_| later.ready().unwrap().new_id()));
        }
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count, "{ids:x?}");
    }

    /// The places of members are in the pools that there are.
    #[test]
    fn the_hash_of_a_member_stays_what_it_is() {
        let (_folder, store) = store();
        let members = store.map(MEMBERS).unwrap();
        members.insert(MARK_KEY, *b"0123456789abcdef").unwrap();
        let types = Types::default();
        types.begin(&store).unwrap();
        let ready = types.ready().unwrap();
        let member = b"a member of some words and a rest";
        let step = |state: u64, chunk: &[u8]| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            finish(state ^ u64::from_le_bytes(word)).wrapping_add(u64::from_le_bytes(*b"89abcdef"))
        };
        for length in 0..member.len() {
            let first = u64::from_le_bytes(*b"01234567") ^ length as u64;
            let wanted = finish(member[..length].chunks(8).fold(first, step));
            assert_eq!(ready.hash_of(&member[..length]), wanted, "{length}");
        }
    }

    #[test]
    fn only_what_has_the_mark_of_the_pool_is_a_header() {
        let (_folder, store) = store();
        let types = Types::default();
        types.begin(&store).unwrap();
        let ready = types.ready().unwrap();
        let header = Header {
            kind: Kind::Set,
            id: 77,
            count: 5,
            changes: 9,
            extra: 2,
            has_outside: false,
            reaches: [false; 2],
        };
        let mut value = ready.encode(&header);
        assert_eq!(types.header(&value), Some(header));
        assert!(types.is_header(&value) && !types.is_header(&value[1..]));
        value[3] ^= 1;
        assert!(!types.is_header(&value));
    }
}
