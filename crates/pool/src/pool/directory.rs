//! The root directory: from names to what hangs on them.
//!
//! An entry is a name, written once, and a commit word that makes it exist and carries a 16-bit
//! kind and a 32-bit value. The commit word is replaced as a whole, so a crash leaves a root with
//! its old or its new value, or with none, and never a half of one (I3).
//!
//! ```text
//!   free -- create: name durable, then commit word --> live -- set value: commit word --> live
//!     ^                                                  |
//!     +------------- remove: commit word = 0 ------------+
//! ```
//!
//! *Thread safety.* All calls take one lock: the directory is read when a map is opened, not when
//! it is used.

use std::path::Path;

use everleaf_machine::Machine;

use crate::checksum::crc8;
use crate::layout::{ROOT_COUNT, ROOT_LIVE, ROOT_NAME_MAX, ROOT_OFFSET, ROOT_SIZE, ROOT_WORDS};
use crate::view::View;
use crate::{Pool, PoolError, RootIndex};

fn slots() -> std::ops::Range<u16> {
    0..ROOT_COUNT
}

fn offset_of(slot: u16) -> u64 {
    ROOT_OFFSET + u64::from(slot) * ROOT_SIZE
}

/// A named root as it was when it was looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// Its name: 1 to 40 bytes.
    pub name: String,
    /// What kind of thing hangs on it: a number the upper layers give.
    pub kind: u16,
    /// The value the upper layers keep in it.
    pub value: u32,
    /// Where it is.
    pub index: RootIndex,
}

impl<M: Machine> Pool<M> {
    /// All roots, in the order of their indexes.
    pub fn roots(&self) -> Vec<Root> {
        let _guard = self.directory_lock.lock();
        slots().filter_map(|slot| self.read_root(slot)).collect()
    }

    /// Names, and the numbers of their places, of which there is no root any more or not yet: they were
    /// removed, or their creation was cut short, or their commit word was lost.
    pub fn root_traces(&self) -> Vec<(u16, String)> {
        let _guard = self.directory_lock.lock();
        let view = self.view();
        let is_free = |slot: &u16| view.word(offset_of(*slot)).read_private() == 0;
        let trace = |slot| {
            let label = Label::decode(&view.read(offset_of(slot) + 8))?;
            Some((slot, label.name()?.to_owned()))
        };
        slots().filter(is_free).filter_map(trace).collect()
    }

    /// The root called `name`, if there is one.
    pub fn root(&self, name: &str) -> Option<Root> {
        let _guard = self.directory_lock.lock();
        self.find_root(name)
    }

    /// Creates a root called `name`.
    ///
    /// # Errors
    /// `RootName` unless the name has 1 to 40 bytes, `RootExists`, `RootsFull` (there are
    /// 1000), `ReadOnly`.
    ///
    /// *Linearizes at* the store of the commit word. *Durable when* it returns; a crash leaves all
    /// of the root or nothing. *Blocking:* takes a short lock.
    pub fn create_root(&self, name: &str, kind: u16, value: u32) -> Result<Root, PoolError> {
        self.writable("create a root")?;
        if name.is_empty() || name.len() > ROOT_NAME_MAX {
            return Err(PoolError::RootName { name: name.to_owned() });
        }
        let _guard = self.directory_lock.lock();
        if self.find_root(name).is_some() && !M::mutant("pool.exists_unchecked") {
            return Err(PoolError::RootExists { name: name.to_owned() });
        }
        let view = self.view();
        let free = |slot: &u16| view.word(offset_of(*slot)).read_private() == 0;
        let slot = slots()
            .find(free)
            .ok_or_else(|| PoolError::RootsFull { path: self.place().into(), count: ROOT_COUNT })?;
        let place = offset_of(slot);
        let again = u64::from(!M::mutant("pool.same_incarnation"));
        let incarnation = Label::incarnation_before(&view.read(place + 8)).wrapping_add(again);
        let label = Label::new(name, incarnation);
        // An entry is one line, and the stores to a line become durable in their order: the name is
        // not later than the commit word, which may follow at once (I3).
        let commit = Commit { kind, value }.encode(label.checksum());
        if M::mutant("pool.commit_before_name") {
            view.word(place).write_private(commit);
        }
        view.prepare(place + 8, &label.encode());
        if M::mutant("pool.root_commit_unflushed") {
            view.prepare(place, &[commit]);
        } else {
            view.replace(place, commit);
        }
        let index = RootIndex { slot, incarnation };
        Ok(Root { name: name.to_owned(), kind, value, index })
    }

    /// Replaces the value `old` of a root by `new`, at once.
    ///
    /// # Errors
    /// `RootChanged` if the value is not `old`, `NoSuchRoot`, `ReadOnly`.
    ///
    /// *Linearizes at* the store of the commit word. *Durable when* it returns. *Blocking:* takes a
    /// short lock.
    pub fn set_root_value(&self, index: RootIndex, old: u32, new: u32) -> Result<(), PoolError> {
        self.writable("change a root")?;
        let _guard = self.directory_lock.lock();
        let root = self.live_root(index)?;
        if root.value != old && !M::mutant("pool.set_unchecked") {
            return Err(PoolError::RootChanged { index, expected: old, found: root.value });
        }
        let commit = Commit { kind: root.kind, value: new };
        let label = Label::new(&root.name, index.incarnation);
        self.view().replace(offset_of(index.slot), commit.encode(label.checksum()));
        Ok(())
    }

    /// Removes a root; its index may be given to another afterwards.
    ///
    /// # Errors
    /// `NoSuchRoot`, `ReadOnly`.
    ///
    /// *Linearizes at* the store of the commit word. *Durable when* it returns. *Blocking:* takes a
    /// short lock.
    pub fn remove_root(&self, index: RootIndex) -> Result<(), PoolError> {
        self.writable("remove a root")?;
        let _guard = self.directory_lock.lock();
        self.live_root(index)?;
        self.view().replace(offset_of(index.slot), 0);
        Ok(())
    }

    /// The root of a name; the directory lock is held.
    fn find_root(&self, name: &str) -> Option<Root> {
        slots().filter_map(|slot| self.read_root(slot)).find(|root| root.name == name)
    }

    /// The root of an index; the directory lock is held.
    fn live_root(&self, index: RootIndex) -> Result<Root, PoolError> {
        let root = self.read_root(index.slot).filter(|root| root.index == index);
        root.ok_or(PoolError::NoSuchRoot { index })
    }

    /// The root in a slot; the directory lock is held. Entries were checked when the pool was
    /// opened.
    fn read_root(&self, slot: u16) -> Option<Root> {
        decode(self.view(), slot).ok().flatten()
    }
}

/// Reads every entry.
///
/// # Errors
/// `Damaged` for the first that is neither free nor whole.
pub fn check<M: Machine>(view: View<M>, path: &Path) -> Result<(), PoolError> {
    // Most are free, and a search on the simulated machine opens very many pools.
    let is_used = |slot: &u16| view.word(offset_of(*slot)).read_private() != 0;
    for slot in slots().filter(is_used) {
        decode(view, slot).map_err(|what| PoolError::Damaged {
            path: path.into(),
            offset: offset_of(slot),
            what: format!("root {slot}: {what}"),
        })?;
    }
    Ok(())
}

/// The entry in a slot: `None` if free, or what is wrong with it. Nobody changes it now: the
/// directory lock is held, or the pool is being opened.
fn decode<M: Machine>(view: View<M>, slot: u16) -> Result<Option<Root>, &'static str> {
    let place = offset_of(slot);
    let commit_word = view.word(place).read_private();
    if commit_word == 0 {
        return Ok(None);
    }
    let label = Label::decode(&view.read(place + 8)).ok_or("the name does not fit its checksum")?;
    let name = label.name().ok_or("the name is not UTF-8")?.to_owned();
    let commit = Commit::decode(commit_word, label.checksum())
        .ok_or("kind and value do not fit their checksum")?;
    let index = RootIndex { slot, incarnation: label.incarnation };
    Ok(Some(Root { name, kind: commit.kind, value: commit.value, index }))
}

/// The part of an entry that is replaced as a whole.
struct Commit {
    kind: u16,
    value: u32,
}

impl Commit {
    fn encode(&self, name_checksum: u32) -> u64 {
        let mut covered = [0; 11];
        covered[0] = ROOT_LIVE;
        covered[1..3].copy_from_slice(&self.kind.to_le_bytes());
        covered[3..7].copy_from_slice(&self.value.to_le_bytes());
        covered[7..11].copy_from_slice(&name_checksum.to_le_bytes());
        u64::from(ROOT_LIVE)
            | u64::from(crc8(&covered)) << 8
            | u64::from(self.kind) << 16
            | u64::from(self.value) << 32
    }

    fn decode(word: u64, name_checksum: u32) -> Option<Self> {
        let commit = Commit { kind: (word >> 16) as u16, value: (word >> 32) as u32 };
        (commit.encode(name_checksum) == word).then_some(commit)
    }
}

/// Whether the commit word of a root with this name checksum is whole: kind and value are then what was written.
pub fn is_root_whole(commit_word: u64, name_checksum: u32) -> bool {
    Commit::decode(commit_word, name_checksum).is_some()
}

/// The part of an entry that is written before the root exists, and then never.
struct Label {
    bytes: [u8; ROOT_NAME_MAX],
    length: u32,
    incarnation: u64,
}

/// The words of a label.
type LabelWords = [u64; ROOT_WORDS - 1];
/// The word of a label behind the name: checksum and length.
const LENGTH_WORD: usize = ROOT_NAME_MAX / 8;

impl Label {
    /// The label of a name of at most [`ROOT_NAME_MAX`] bytes.
    fn new(name: &str, incarnation: u64) -> Self {
        let mut bytes = [0; ROOT_NAME_MAX];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        Label { bytes, length: name.len() as u32, incarnation }
    }

    fn checksum(&self) -> u32 {
        let name = crc32c::crc32c(&self.bytes);
        let length = crc32c::crc32c_append(name, &self.length.to_le_bytes());
        crc32c::crc32c_append(length, &self.incarnation.to_le_bytes())
    }

    fn encode(&self) -> LabelWords {
        let mut words = [0; ROOT_WORDS - 1];
        for (word, bytes) in words.iter_mut().zip(self.bytes.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        words[LENGTH_WORD] = u64::from(self.checksum()) | u64::from(self.length) << 32;
        words[LENGTH_WORD + 1] = self.incarnation;
        words
    }

    fn decode(words: &LabelWords) -> Option<Self> {
        let mut bytes = [0; ROOT_NAME_MAX];
        for (chunk, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *chunk = word.to_le_bytes();
        }
        let length = (words[LENGTH_WORD] >> 32) as u32;
        let label = Label { bytes, length, incarnation: words[LENGTH_WORD + 1] };
        (label.encode() == *words).then_some(label)
    }

    /// The incarnation of the root that last had a slot that is free now; of no meaning, but no
    /// harm, if the creation of a root was cut off there.
    fn incarnation_before(words: &LabelWords) -> u64 {
        words[LENGTH_WORD + 1]
    }

    fn name(&self) -> Option<&str> {
        let bytes = self.bytes.get(..self.length as usize).filter(|bytes| !bytes.is_empty())?;
        std::str::from_utf8(bytes).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Domain;

    fn pool() -> Pool<everleaf_machine::Hardware> {
        Pool::in_memory(1 << 20, 1 << 20, Domain::Adr).unwrap()
    }

    #[test]
    fn roots_are_created_found_changed_and_removed() {
        let pool = pool();
        let users = pool.create_root("users", 3, 70).unwrap();
        let orders = pool.create_root("orders", 0, 0).unwrap();
        assert_eq!(pool.root("users"), Some(users.clone()));
        assert_eq!(pool.roots(), [users.clone(), orders.clone()]);
        pool.set_root_value(orders.index, 0, u32::MAX).unwrap();
        assert_eq!(pool.root("orders").unwrap().value, u32::MAX);
        assert_eq!(pool.root_traces(), []);
        pool.remove_root(users.index).unwrap();
        assert_eq!(pool.root("users"), None);
        assert_eq!(pool.root_traces(), [(users.index.get(), "users".to_owned())]);
        let again = pool.create_root("customers", u16::MAX, 1).unwrap();
        assert_eq!(again.index.get(), users.index.get());
        assert_eq!(pool.roots().len(), 2);
    }

    #[test]
    fn a_value_is_replaced_only_if_it_is_the_expected_one() {
        let pool = pool();
        let root = pool.create_root("a", 1, 5).unwrap();
        let error = pool.set_root_value(root.index, 4, 6).unwrap_err();
        assert!(matches!(error, PoolError::RootChanged { expected: 4, found: 5, .. }), "{error}");
        assert_eq!(pool.root("a").unwrap().value, 5);
    }

    #[test]
    fn names_have_one_to_forty_bytes_and_occur_once() {
        let pool = pool();
        for name in ["", &"x".repeat(41), &"\u{e9}".repeat(21)] {
            assert!(matches!(pool.create_root(name, 1, 1), Err(PoolError::RootName { .. })));
        }
        for name in ["x".repeat(40), "\u{e9}".repeat(20), "a\0".to_owned(), "a".to_owned()] {
            pool.create_root(&name, 1, 1).unwrap();
            assert_eq!(pool.root(&name).unwrap().name, name);
            assert!(matches!(pool.create_root(&name, 1, 1), Err(PoolError::RootExists { .. })));
        }
    }

    #[test]
    fn a_thousand_roots_fit_and_no_more() {
        let pool = pool();
        for number in 0..u32::from(ROOT_COUNT) {
            pool.create_root(&format!("map {number}"), 1, number).unwrap();
        }
        assert!(matches!(pool.create_root("more", 1, 1), Err(PoolError::RootsFull { .. })));
        assert_eq!(pool.roots().len(), 1000);
        assert_eq!(pool.root("map 999").unwrap().value, 999);
    }

    #[test]
    fn a_removed_root_cannot_be_changed_or_removed() {
        let pool = pool();
        let index = pool.create_root("a", 1, 5).unwrap().index;
        pool.remove_root(index).unwrap();
        assert!(matches!(pool.remove_root(index), Err(PoolError::NoSuchRoot { .. })));
        assert!(matches!(pool.set_root_value(index, 5, 6), Err(PoolError::NoSuchRoot { .. })));
        // Nor is its successor mistaken for it.
        let next = pool.create_root("a", 1, 5).unwrap().index;
        assert_eq!(next.get(), index.get());
        assert!(matches!(pool.remove_root(index), Err(PoolError::NoSuchRoot { .. })));
        assert!(matches!(pool.set_root_value(index, 5, 6), Err(PoolError::NoSuchRoot { .. })));
        pool.remove_root(next).unwrap();
    }

    #[test]
    fn every_damaged_byte_of_an_entry_is_found() {
        let pool = pool();
        let offset = pool.create_root("accounts", 0x0102, 0x0304_0506).unwrap();
        let offset = offset_of(offset.index.slot);
        check(pool.view(), pool.place()).unwrap();
        for byte in 0..ROOT_SIZE {
            let word = offset + (byte & !7);
            let old: [u64; 1] = pool.view().read(word);
            for change in [0x01, 0x80, 0xFF] {
                pool.view().replace(word, old[0] ^ change << (8 * (byte % 8)));
                let result = check(pool.view(), pool.place());
                assert!(matches!(result, Err(PoolError::Damaged { .. })), "byte {byte}");
            }
            pool.view().replace(word, old[0]);
        }
    }
}
