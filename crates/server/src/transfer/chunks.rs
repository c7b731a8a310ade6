//! Collections that are too large to be one value: put, and compared, some members at a time.

use everleaf::{Action, Expiry};

use super::{Entry, Keyspace, TransferError, WRITE_COUNT, WRITE_SIZE, text_of};
use crate::command::dump::check_member;
use crate::command::stage::Staged;
use crate::failure::Failure;
use crate::rdb::Value;
use crate::types::Kind;
use crate::types::collection::Collection;
use crate::types::list::Side;
use crate::wall_clock::now_ms;

/// How many members a collection has, and when it expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Its members, fields or elements.
    pub count: u64,
    /// In milliseconds since 1970-01-01 UTC.
    pub expiry_ms: Option<u64>,
}

/// Bytes, about, of the members that are added at once of a collection that is there as a whole.
const RUN_SIZE: usize = 1 << 20;
/// What a member takes on the stage besides itself.
const MEMBER_OVERHEAD: usize = 200;

impl Keyspace<'_> {
    /// Puts a collection in place of what was there, some members at a time.
    pub(super) fn put_chunks(
        &mut self,
        database: u64,
        key: &[u8],
        entry: &Entry,
    ) -> Result<bool, TransferError> {
        self.remove(database, key)?;
        let mut add = |chunk: Value| self.add_chunk(database, key, &chunk);
        match &entry.value {
            Value::String(_) => {}
            Value::List(elements) => {
                runs(elements, Vec::len).try_for_each(|run| add(Value::List(run.to_vec())))?;
            }
            Value::Set(members) => {
                runs(members, Vec::len).try_for_each(|run| add(Value::Set(run.to_vec())))?;
            }
            Value::Hash(fields) => runs(fields, |(field, value)| field.len() + value.len())
                .try_for_each(|run| add(Value::Hash(run.to_vec())))?,
            Value::SortedSet(members) => runs(members, |(member, _)| member.len())
                .try_for_each(|run| add(Value::SortedSet(run.to_vec())))?,
        }
        self.end_chunks(database, key, entry.expiry_ms)
    }

    /// Adds members to what a key holds, elements of a list at its end; members that are there get what the chunk
    /// says of them. [`Self::flush`] must follow.
    ///
    /// # Errors
    /// Why they cannot be added. A string has no members.
    pub fn add_chunk(
        &mut self,
        database: u64,
        key: &[u8],
        chunk: &Value,
    ) -> Result<(), TransferError> {
        if self.stage.size() + chunk.size() > WRITE_SIZE {
            self.flush()?;
        }
        let place = self.begin(database, key)?;
        self.types.begin(self.store)?;
        self.staged(place, |staged| add(staged, key, chunk))?;
        match self.stage.change_count() > WRITE_COUNT {
            true => self.flush(),
            false => Ok(()),
        }
    }

    /// Ends a collection that was added in chunks: from now on it has this time. Returns whether it is there: one that
    /// has expired is removed. [`Self::flush`] must follow.
    ///
    /// # Errors
    /// Why it cannot be written.
    pub fn end_chunks(
        &mut self,
        database: u64,
        key: &[u8],
        expiry_ms: Option<u64>,
    ) -> Result<bool, TransferError> {
        if expiry_ms.is_some_and(|time| time <= now_ms()) {
            self.remove(database, key)?;
            return Ok(false);
        }
        let Some(place) = self.existing(database) else { return Ok(false) };
        let ended = self.staged(place, |staged| {
            if let Some(time) = expiry_ms {
                let expiry = Expiry::from_unix_ms(time);
                staged.update_with(key, &mut |_| Action::Expire(expiry))?;
            }
            staged.contains(key)
        });
        Ok(ended?)
    }

    /// Whether all members of a chunk are there as it says; those of a list from an index on.
    ///
    /// # Errors
    /// The store cannot be read: in words.
    pub fn has_chunk(
        &mut self,
        database: u64,
        key: &[u8],
        first: u64,
        chunk: &Value,
    ) -> Result<bool, String> {
        let Some(place) = self.existing(database) else { return Ok(false) };
        let result = self.staged(place, |staged| has(staged, key, first, chunk));
        self.forget_read();
        match result {
            // It is another type here.
            Err(Failure::WrongType) => Ok(false),
            result => result.map_err(|failure| text_of(&failure)),
        }
    }

    /// How large a collection is; `None` if the key holds none.
    ///
    /// # Errors
    /// The store cannot be read: in words.
    pub fn extent(&mut self, database: u64, key: &[u8]) -> Result<Option<Extent>, String> {
        let Some(place) = self.existing(database) else { return Ok(None) };
        let result = self.staged(place, |staged| {
            let types = staged.types;
            staged
                .see(key, |value, expiry| types.header(value).map(|header| (header.count, expiry)))
        });
        self.forget_read();
        let found = result.map_err(|failure| text_of(&failure))?.flatten();
        Ok(found.map(|(count, expiry)| Extent {
            count,
            expiry_ms: (expiry != Expiry::Never).then(|| expiry.as_unix_ms()),
        }))
    }
}

/// Members in runs of about [`RUN_SIZE`] bytes.
fn runs<T>(members: &[T], size_of: impl Fn(&T) -> usize) -> impl Iterator<Item = &[T]> {
    let mut size = 0;
    members.chunk_by(move |member, _| {
        size += size_of(member) + MEMBER_OVERHEAD;
        let is_full = size > RUN_SIZE;
        if is_full {
            size = 0;
        }
        !is_full
    })
}

fn kind_of(chunk: &Value) -> Result<Kind, Failure> {
    match chunk {
        Value::String(_) => Err(Failure::WrongType),
        Value::List(_) => Ok(Kind::List),
        Value::Set(_) => Ok(Kind::Set),
        Value::Hash(_) => Ok(Kind::Hash),
        Value::SortedSet(_) => Ok(Kind::SortedSet),
    }
}

fn add(staged: &mut Staged<'_>, key: &[u8], chunk: &Value) -> Result<(), Failure> {
    match chunk {
        Value::Set(members) => members.iter().try_for_each(|it| check_member(Kind::Set, it))?,
        Value::Hash(fields) => {
            fields.iter().try_for_each(|(it, _)| check_member(Kind::Hash, it))?
        }
        Value::SortedSet(members) => {
            members.iter().try_for_each(|(it, _)| check_member(Kind::SortedSet, it))?;
        }
        Value::String(_) | Value::List(_) => {}
    }
    let mut collection = Collection::open(staged, key, kind_of(chunk)?)?;
    match chunk {
        Value::String(_) => {}
        Value::List(elements) => {
            elements.iter().try_for_each(|element| collection.push(Side::Right, element))?;
        }
        Value::Set(members) => {
            members.iter().try_for_each(|member| collection.add(member).map(drop))?;
        }
        Value::Hash(fields) => {
            fields.iter().try_for_each(|(field, value)| collection.set(field, value).map(drop))?;
        }
        Value::SortedSet(members) => {
            for (member, score) in members {
                let old = collection.score(member)?;
                if old != Some(*score) {
                    collection.set_score(member, *score, old)?;
                }
            }
        }
    }
    collection.finish()
}

pub(super) fn has(
    staged: &mut Staged<'_>,
    key: &[u8],
    first: u64,
    chunk: &Value,
) -> Result<bool, Failure> {
    let found = Collection::find(staged, key, kind_of(chunk)?)?;
    let Some(mut collection) = found else { return Ok(false) };
    match chunk {
        Value::String(_) => {}
        Value::List(elements) => {
            for (at, element) in (first..).zip(elements) {
                if collection.element(at, |found| found == element)? != Some(true) {
                    return Ok(false);
                }
            }
        }
        Value::Set(members) => {
            for member in members {
                if !collection.contains(member)? {
                    return Ok(false);
                }
            }
        }
        Value::Hash(fields) => {
            for (field, value) in fields {
                if collection.see(field, |found| found == value)? != Some(true) {
                    return Ok(false);
                }
            }
        }
        Value::SortedSet(members) => {
            for (member, score) in members {
                if collection.score(member)? != Some(*score) {
                    return Ok(false);
                }
            }
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::Part;

    fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
        texts.iter().map(|text| text.as_bytes().to_vec()).collect()
    }

    #[test]
    fn chunks_make_the_value_that_they_are_chunks_of() {
        let folder = tempfile::tempdir().unwrap();
        let store = everleaf::Options::new().create(true).open(folder.path().join("p")).unwrap();
        let mut keys = Keyspace::new(&store).unwrap();
        let pairs = |all: &[(&str, &str)]| -> Vec<(Vec<u8>, Vec<u8>)> {
            all.iter().map(|(a, b)| (a.as_bytes().to_vec(), b.as_bytes().to_vec())).collect()
        };
        let scored = |all: &[(&str, f64)]| -> Vec<(Vec<u8>, f64)> {
            all.iter().map(|(member, score)| (member.as_bytes().to_vec(), *score)).collect()
        };
        let cases = [
            [
                Value::List(texts(&["a", "b"])),
                Value::List(texts(&["c"])),
                Value::List(texts(&["a", "b", "c"])),
            ],
            [
                Value::Set(texts(&["a", "b"])),
                Value::Set(texts(&["b", "c"])),
                Value::Set(texts(&["a", "b", "c"])),
            ],
            [
                Value::Hash(pairs(&[("f", "1"), ("g", "2")])),
                Value::Hash(pairs(&[("g", "3")])),
                Value::Hash(pairs(&[("f", "1"), ("g", "3")])),
            ],
            [
                Value::SortedSet(scored(&[("m", 1.0), ("n", 2.0)])),
                Value::SortedSet(scored(&[("n", 3.0), ("o", -1.0)])),
                Value::SortedSet(scored(&[("m", 1.0), ("n", 3.0), ("o", -1.0)])),
            ],
        ];
        let far = 4_102_444_800_000;
        for (number, [one, other, whole]) in cases.iter().enumerate() {
            let key = [number as u8];
            keys.add_chunk(3, &key, one).unwrap();
            if number.is_multiple_of(2) {
                keys.flush().unwrap();
            }
            keys.add_chunk(3, &key, other).unwrap();
            assert!(keys.end_chunks(3, &key, Some(far)).unwrap());
            keys.flush().unwrap();
            let entry = Entry { value: whole.clone(), expiry_ms: Some(far) };
            assert!(keys.holds(3, &key, &entry).unwrap());
            assert!(!keys.holds(3, &key, &Entry { expiry_ms: None, ..entry.clone() }).unwrap());
            assert!(!keys.holds(3, &key, &Entry { value: other.clone(), ..entry }).unwrap());
            assert!(keys.has_chunk(3, &key, 0, whole).unwrap());
            let first = if number == 0 { 2 } else { 0 };
            assert!(keys.has_chunk(3, &key, first, other).unwrap());
            assert!(!keys.has_chunk(3, &key, 1, &cases[(number + 1) % 4][2]).unwrap(), "type");
            assert!(!keys.has_chunk(2, &key, 0, other).unwrap(), "database");
            let count = if number == 2 { 2 } else { 3 };
            let extent = Extent { count, expiry_ms: Some(far) };
            assert_eq!(keys.extent(3, &key).unwrap(), Some(extent));
        }
        for (chunk, number) in [
            (Value::List(texts(&["b", "a"])), 0),
            (Value::List(texts(&["a", "b", "c", "d"])), 0),
            (Value::Set(texts(&["d"])), 1),
            (Value::Hash(pairs(&[("g", "2")])), 2),
            (Value::SortedSet(scored(&[("n", 2.0)])), 3),
        ] {
            assert!(!keys.has_chunk(3, &[number], 0, &chunk).unwrap(), "{chunk:?}");
        }
        assert!(!keys.end_chunks(3, &[0], Some(1)).unwrap());
        keys.flush().unwrap();
        assert_eq!(keys.extent(3, &[0]).unwrap(), None);
    }

    /// All that a database shows, put together.
    fn shown(keys: &mut Keyspace<'_>, database: u64) -> Vec<(Vec<u8>, Entry)> {
        let (mut all, mut value) = (Vec::new(), None);
        let mut see = |key: &[u8], part: Part<'_>| -> Result<(), String> {
            match (part, &mut value) {
                (Part::String(text), None) => value = Some(Value::String(text.to_vec())),
                (Part::Begin, None) => {}
                (Part::Members(members), None) => value = Some(members.clone()),
                (Part::Members(Value::List(next)), Some(Value::List(all)))
                | (Part::Members(Value::Set(next)), Some(Value::Set(all))) => {
                    all.extend_from_slice(next);
                }
                (Part::Members(Value::Hash(next)), Some(Value::Hash(all))) => {
                    all.extend_from_slice(next);
                }
                (Part::Members(Value::SortedSet(next)), Some(Value::SortedSet(all))) => {
                    all.extend_from_slice(next);
                }
                (Part::End(expiry_ms), Some(_)) => {
                    let value = value.take().unwrap().sorted();
                    all.push((key.to_vec(), Entry { value, expiry_ms }));
                }
                (part, value) => panic!("{part:?} behind {value:?}"),
            }
            Ok(())
        };
        keys.each(database, &mut see).unwrap();
        all
    }

    /// Collections were staged as a whole, which took a hundred bytes a member: above two million members of a sorted
    /// set, and four of others, they could be neither imported nor exported. They go in and out in parts now, which
    /// here are many because the members are long.
    #[test]
    fn what_is_large_is_put_and_shown_in_parts() {
        let folder = tempfile::tempdir().unwrap();
        let store = everleaf::Options::new().create(true).open(folder.path().join("p")).unwrap();
        let mut keys = Keyspace::new(&store).unwrap();
        let text = |number: u32| [&number.to_be_bytes()[..], &[b'x'; 1000]].concat();
        let all = || (0..30_000).map(text);
        let values = [
            Value::List(all().collect()),
            Value::Set(all().collect()),
            Value::Hash(all().map(|text| (text, b"v".to_vec())).collect()),
            Value::SortedSet(all().map(|text| (text, -2.5)).collect()),
            Value::String(vec![b's'; 3 * super::WRITE_SIZE]),
        ];
        let mut expected = Vec::new();
        for (number, value) in (0_u8..).zip(values) {
            let key = vec![number];
            let expiry_ms = (number == 2).then_some(4_102_444_800_000);
            // Something of another type is in its place.
            let other = Entry { value: Value::Set(vec![b"other".to_vec()]), expiry_ms: None };
            assert!(keys.put(0, &key, &other).unwrap());
            let entry = Entry { value, expiry_ms };
            assert!(keys.put(0, &key, &entry).unwrap());
            assert!(keys.stage.size() < 4 * super::WRITE_SIZE, "{}", keys.stage.size());
            assert!(!keys.put(0, &key, &Entry { expiry_ms: Some(1), ..entry.clone() }).unwrap());
            assert!(keys.holds(0, &key, &entry).unwrap());
            expected.push((key, Entry { value: entry.value.sorted(), ..entry }));
        }
        keys.flush().unwrap();
        assert!(shown(&mut keys, 0) == expected);
    }

    /// The longest value did not fit into the batch in which it was put with its key: a string of 512 MiB, or an
    /// element of that length, could be imported from no file, and no string could be exported.
    #[test]
    fn the_longest_value_is_put_and_shown() {
        let folder = tempfile::tempdir().unwrap();
        let store = everleaf::Options::new().create(true).open(folder.path().join("p")).unwrap();
        let mut keys = Keyspace::new(&store).unwrap();
        let longest = || vec![b'x'; everleaf::VALUE_SIZE_MAX];
        for value in [Value::String(longest()), Value::List(vec![longest()])] {
            let entry = Entry { value, expiry_ms: Some(4_102_444_800_000) };
            assert!(keys.put(0, b"key", &entry).unwrap());
            keys.flush().unwrap();
            assert!(keys.holds(0, b"key", &entry).unwrap());
            assert!(shown(&mut keys, 0) == [(b"key".to_vec(), entry)]);
        }
    }

    /// A collection that has lost a member was shown without it, as if that were all, and so exported with code 0.
    #[test]
    fn a_collection_with_less_than_it_counts_is_not_shown_as_whole() {
        let folder = tempfile::tempdir().unwrap();
        let store = everleaf::Options::new().create(true).open(folder.path().join("p")).unwrap();
        let mut keys = Keyspace::new(&store).unwrap();
        let pairs = [("f", "1"), ("g", "2"), ("h", "lost")];
        let pairs = pairs.map(|(field, value)| (field.into(), value.into()));
        let value = Value::Hash(pairs.into());
        assert!(keys.put(0, b"key", &Entry { value, expiry_ms: None }).unwrap());
        keys.flush().unwrap();
        let mut see = |_: &[u8], _: Part<'_>| -> Result<(), String> { Ok(()) };
        assert_eq!(keys.each(0, &mut see), Ok(()));
        let members = store.existing_map(crate::types::notes::MEMBERS).unwrap().unwrap();
        let lost = members.iter().map(|pair| pair.unwrap()).find(|(_, value)| value == b"lost");
        assert!(members.remove(&lost.unwrap().0).unwrap());
        let error = keys.each(0, &mut see).unwrap_err();
        assert!(error.contains("\"key\" counts 3 members and has 2"), "{error}");
    }
}
