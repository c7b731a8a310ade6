//! Whether a store has had collections, and what they need since.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use everleaf::Store;

use super::header::{HEADER_SIZE, Header, MARK_SIZE};
use super::mend::highest_start;
use super::notes::{MARK_KEY, MEMBERS, START_KEY, mark_entry, mark_of};
use super::ready::{COUNTER_BITS, Ready, START_MAX};

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

    /// Notes durably that lists may have runs, for a caller that may change some: a server that does not know them
    /// would free these as what nobody has. The pool says so; and beside the mark it is in the log, too, of which a
    /// pool can be built anew.
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
        // Relaxed: a thread that still writes it with a list does no harm.
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

    /// Makes what collections need, for a caller that may make the first of this pool or process. Must not
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
            let used = highest_start(&members)?;
            let mut last = 0;
            members.update_with(START_KEY, |before| {
                let before =
                    before.and_then(|bytes| Some(u64::from_le_bytes(bytes.try_into().ok()?)));
                last = before.unwrap_or(0).max(used);
                match last < START_MAX {
                    true => everleaf::Action::Put((last + 1).to_le_bytes().to_vec()),
                    false => everleaf::Action::Keep,
                }
            })?;
            if last >= START_MAX {
                return Err(too_many_starts(last));
            }
            let start = last + 1;
            // Relaxed: a thread that takes numbers meanwhile takes the last of those before.
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
    use everleaf::Error::{DiskFull, LogFull, PoolFull};
    matches!(error, DiskFull(_) | LogFull(_) | PoolFull(_))
}

/// The error for members without the mark, which no header of theirs could be told by.
fn lacks_mark() -> everleaf::Error {
    everleaf::Error::Corrupt(format!(
        "the map {MEMBERS} has members, and lacks the mark with which the headers of collections begin, so that these \
         would be taken for strings: `everleaf repair` finds it again, unless it has said that it cannot; else \
         restore a backup"
    ))
}

/// The error for a pool in which more processes made collections than numbers were kept for: nobody has seen so many.
fn too_many_starts(count: u64) -> everleaf::Error {
    everleaf::Error::Corrupt(format!(
        "the map {MEMBERS} says that numbers for collections were begun {count} times, of {START_MAX} that there are: \
         none can be made; unless servers did that, the map is damaged: restore a backup"
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

#[cfg(test)]
mod tests {
    use everleaf::random::finish;

    use super::*;
    use crate::types::header::Kind;
    use crate::types::notes::LIVE;
    use crate::types::ready::ID_COUNT_MAX;

    fn store() -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().unwrap();
        let store = everleaf::Options::new().create(true).open(folder.path().join("p")).unwrap();
        (folder, store)
    }

    /// A log that has failed was taken for one without space: the server began, and said that space would do.
    #[test]
    fn a_log_that_has_failed_is_no_lack_of_space() {
        assert!(!is_lack_of_space(&everleaf::Error::LogFailed("its folder is gone".into())));
        assert!(is_lack_of_space(&everleaf::Error::LogFull("no space is left".into())));
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
        assert!(is_of_before(), "a server that only reads writes nothing");
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

    /// What ended the server: the numbers that were behind the greatest of these began anew at 0.
    #[test]
    fn a_count_of_starts_that_cannot_be_is_refused() {
        let (_folder, store) = store();
        Types::default().begin(&store).unwrap();
        let members = store.map(MEMBERS).unwrap();
        for count in [START_MAX, u64::MAX] {
            members.put(START_KEY, count.to_le_bytes()).unwrap();
            let types = Types::default();
            types.open(&store).unwrap();
            let error = types.begin(&store).unwrap_err().to_string();
            assert!(error.contains("numbers for collections were begun"), "{error}");
            assert_eq!(members.get(START_KEY).unwrap().unwrap(), count.to_le_bytes());
        }
        members.put(START_KEY, (START_MAX - 1).to_le_bytes()).unwrap();
        let types = Types::default();
        types.begin(&store).unwrap();
        assert_eq!(types.ready().unwrap().new_id() >> COUNTER_BITS, START_MAX);
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
