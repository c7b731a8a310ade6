//! Batches: many changes of many maps as one.
//!
//! This file collects changes and conditions, in one buffer; nothing is taken or locked for it. `batch/conditions.rs`
//! compares the conditions and `batch/write.rs` writes the batch, both behind the stripes of all its keys. The life of
//! a batch, step by step, is in `ARCHITECTURE.md`.

mod conditions;
mod removal;
mod write;

use std::borrow::Cow;

use everleaf_index::{BatchOp, Hardware, WriteOrder};

use crate::map::Map;
use crate::watch::Watch;
use crate::{Error, Expiry, Result, Store};

/// What became of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// All of it was done.
    All,
    /// Nothing was done: the condition of this number, counted from 0, did not hold.
    Refused(usize),
}

impl Written {
    /// Whether the batch was done.
    pub fn is_done(self) -> bool {
        self == Written::All
    }
}

/// A change or a condition, its bytes at `at` in the batch: the key, then the value.
#[derive(Clone, Copy)]
struct Entry {
    map: u32,
    key_size: u32,
    /// The hash of the key.
    hash: u64,
    at: usize,
    effect: Effect,
    expiry_ms: u64,
}

/// What a change makes of its key.
#[derive(Clone, Copy)]
enum Effect {
    /// It has a value of this length.
    Put(u32),
    /// It is absent.
    Remove,
    /// It keeps its value, if it is there, and expires at another time.
    Expire,
    /// The same, also if the time has come at which it was seen to expire.
    ExpireSeen,
}

impl Effect {
    fn keeps_value(self) -> bool {
        matches!(self, Effect::Expire | Effect::ExpireSeen)
    }
}

impl Entry {
    /// What the change and an earlier one of the same key do together.
    fn after(self, earlier: Entry) -> Entry {
        match (self.effect, earlier.effect) {
            (Effect::Put(_) | Effect::Remove, _) | (Effect::ExpireSeen, Effect::Expire) => self,
            (_, Effect::Remove) => earlier,
            _ => Entry { expiry_ms: self.expiry_ms, ..earlier },
        }
    }
}

/// One condition, laid out like a change; with a removal the key must be absent.
enum Condition {
    OfKey {
        what: Entry,
        must: Must,
    },
    /// So many batches have been rolled back so far.
    Rollbacks(u64),
}

/// What must be so of the key of a condition.
enum Must {
    /// It has the value.
    Value,
    /// It has the value, and expires when the condition says.
    ValueAndExpiry,
    /// It has a value that expires when the condition says, whether that time has come or not.
    Expiry,
    /// It was not written since this watch began.
    Unwritten(Watch),
}

/// Changes, and conditions on which they depend, to be done as one by [`Store::write`]: all or
/// nothing, for every thread that reads one key after another, and whenever the process dies.
///
/// A batch may hold changes of several maps of one store. Of several changes of one key the last
/// counts; one of its expiry alone goes with the one before it. A batch can be written several times, and
/// [cleared](Self::clear) to be filled again. What it holds keeps the store open.
///
/// # Example
/// ```
/// # fn main() -> everleaf::Result<()> {
/// # let folder = tempfile::tempdir().expect("a temporary folder");
/// # let store = everleaf::Options::new().create(true).open(folder.path().join("p"))?;
/// use everleaf::{WriteBatch, Written};
/// let accounts = store.map("accounts")?;
/// accounts.put(b"ann", b"100")?;
/// accounts.put(b"bob", b"0")?;
/// let mut transfer = WriteBatch::new();
/// transfer.expect(&accounts, b"ann", Some(b"100")).expect(&accounts, b"bob", Some(b"0"));
/// transfer.put(&accounts, b"ann", b"60").put(&accounts, b"bob", b"40");
/// assert_eq!(store.write(&transfer)?, Written::All);
/// assert_eq!(store.write(&transfer)?, Written::Refused(0), "ann has 60 by now");
/// # Ok(())
/// # }
/// ```
#[derive(Default)]
pub struct WriteBatch {
    maps: Vec<Map>,
    bytes: Vec<u8>,
    changes: Vec<Entry>,
    conditions: Vec<Condition>,
}

impl std::fmt::Debug for WriteBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WriteBatch")
            .field("changes", &self.changes.len())
            .field("conditions", &self.conditions.len())
            .field("size_bytes", &self.bytes.len())
            .finish_non_exhaustive()
    }
}

impl WriteBatch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes room for so many more changes, and so many bytes of their keys and values.
    pub fn reserve(&mut self, changes: usize, bytes: usize) {
        self.changes.reserve(changes);
        self.bytes.reserve(bytes);
    }

    /// As [`Self::reserve`]; where there is no memory for it, the program is told, and does not end. What follows
    /// within that room asks for none, but for one handle of each map.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; the batch is as it was.
    pub fn try_reserve(&mut self, changes: usize, bytes: usize) -> Result<()> {
        let reserved = self.bytes.try_reserve(bytes).and(self.changes.try_reserve(changes));
        let reserved = reserved.and_then(|()| self.conditions.try_reserve(changes));
        reserved.map_err(|_| Error::out_of_memory())
    }

    /// Sets the value of a key, which will not expire.
    pub fn put(&mut self, map: &Map, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> &mut Self {
        self.put_with_expiry(map, key, value, Expiry::Never)
    }

    /// Sets the value of a key, and when it expires: a [`SystemTime`](std::time::SystemTime), a
    /// [`Duration`](std::time::Duration) from now, or an [`Expiry`].
    pub fn put_with_expiry(
        &mut self,
        map: &Map,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        expiry: impl Into<Expiry>,
    ) -> &mut Self {
        let expiry_ms = expiry.into().as_unix_ms();
        let change = self.note(map, key.as_ref(), Some(value.as_ref()), expiry_ms);
        self.changes.push(change);
        self
    }

    /// Lets a key expire at this time, if it is there: a [`SystemTime`](std::time::SystemTime), a
    /// [`Duration`](std::time::Duration) from now, or an [`Expiry`]. Where the record has a place for the time and no
    /// view is open, the value is neither read nor written, however long it is, and one that is damaged keeps its
    /// damage.
    ///
    /// For an open view the value is read and copied to memory, as for any change; if it is damaged, that view says so,
    /// and the batch is done all the same. A record that has no place for the time (a value below 4 KiB that did not
    /// expire, a key of 64 KiB less two bytes, a time after the year 10,000) is written again, which reads it: if it is
    /// damaged, the batch fails with [`Error::Corrupt`](crate::Error::Corrupt), and nothing is changed.
    ///
    /// A program that is too old to finish such a batch refuses a pool in which there was one of several changes.
    ///
    /// # Example
    /// ```
    /// # fn main() -> everleaf::Result<()> {
    /// # let folder = tempfile::tempdir().expect("a temporary folder");
    /// # let store = everleaf::Options::new().create(true).open(folder.path().join("p"))?;
    /// use std::time::Duration;
    /// use everleaf::{Expiry, WriteBatch};
    /// let sessions = store.map("sessions")?;
    /// sessions.put("ann", "1")?;
    /// let mut batch = WriteBatch::new();
    /// batch.expire(&sessions, "ann", Duration::from_secs(60)).expire(&sessions, "bob", Expiry::Never);
    /// assert!(store.write(&batch)?.is_done());
    /// assert!(matches!(sessions.expiry("ann")?, Some(Expiry::At(_))));
    /// assert_eq!(sessions.expiry("bob")?, None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn expire(
        &mut self,
        map: &Map,
        key: impl AsRef<[u8]>,
        expiry: impl Into<Expiry>,
    ) -> &mut Self {
        self.note_change(map, key.as_ref(), Effect::Expire, expiry.into().as_unix_ms())
    }

    /// As [`Self::expire`], of a key that was seen to expire at `seen`, also if that time has come since. Makes the
    /// whole batch depend on the key having this expiry just before it.
    pub fn expire_seen(
        &mut self,
        map: &Map,
        key: impl AsRef<[u8]>,
        seen: Expiry,
        expiry: impl Into<Expiry>,
    ) -> &mut Self {
        let key = key.as_ref();
        let what = self.note(map, key, None, seen.as_unix_ms());
        self.conditions.push(Condition::OfKey { what, must: Must::Expiry });
        self.note_change(map, key, Effect::ExpireSeen, expiry.into().as_unix_ms())
    }

    fn note_change(&mut self, map: &Map, key: &[u8], effect: Effect, expiry_ms: u64) -> &mut Self {
        let change = self.note(map, key, None, expiry_ms);
        self.changes.push(Entry { effect, ..change });
        self
    }

    /// Removes a key, if it is there.
    pub fn remove(&mut self, map: &Map, key: impl AsRef<[u8]>) -> &mut Self {
        let change = self.note(map, key.as_ref(), None, 0);
        self.changes.push(change);
        self
    }

    /// Makes the whole batch depend on the value a key has just before it; `None`: on its absence.
    pub fn expect(&mut self, map: &Map, key: impl AsRef<[u8]>, value: Option<&[u8]>) -> &mut Self {
        let what = self.note(map, key.as_ref(), value, 0);
        self.conditions.push(Condition::OfKey { what, must: Must::Value });
        self
    }

    /// Makes the whole batch depend on the value a key has just before it and on when it expires.
    pub fn expect_with_expiry(
        &mut self,
        map: &Map,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        expiry: Expiry,
    ) -> &mut Self {
        let expiry_ms = expiry.as_unix_ms();
        let what = self.note(map, key.as_ref(), Some(value.as_ref()), expiry_ms);
        self.conditions.push(Condition::OfKey { what, must: Must::ValueAndExpiry });
        self
    }

    /// Makes the whole batch depend on the key of a [watch](Map::watch) not having been written since.
    pub fn expect_unwritten(&mut self, watch: &Watch) -> &mut Self {
        let what = self.note(watch.map(), watch.key(), None, 0);
        self.conditions.push(Condition::OfKey { what, must: Must::Unwritten(watch.clone()) });
        self
    }

    /// Makes the whole batch depend on no batch having been rolled back since [`Store::rollback_count`]
    /// returned this number, before the first read that the batch comes of.
    ///
    /// A batch that fails for lack of space can be seen by scans, in part, until it is rolled back. A program
    /// that decides by what a scan has shown may protect itself with a condition on one key that every change
    /// of the others changes as well. It needs this condition, too: after a rollback that key is as it was.
    pub fn expect_no_rollback(&mut self, rollback_count: u64) -> &mut Self {
        self.conditions.push(Condition::Rollbacks(rollback_count));
        self
    }

    /// How many changes it holds.
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Whether it holds no changes.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Bytes of all keys and values it holds.
    pub fn size_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Takes everything out; its memory is kept for what comes next.
    pub fn clear(&mut self) {
        self.maps.clear();
        self.bytes.clear();
        self.changes.clear();
        self.conditions.clear();
    }

    fn note(&mut self, map: &Map, key: &[u8], value: Option<&[u8]>, expiry_ms: u64) -> Entry {
        // Lengths that do not fit are far above the limits, which `write` checks.
        let size = |bytes: &[u8]| bytes.len().min(u32::MAX as usize) as u32;
        let at = self.bytes.len();
        self.bytes.extend_from_slice(&key[..size(key) as usize]);
        if let Some(value) = value {
            self.bytes.extend_from_slice(&value[..size(value) as usize]);
        }
        let hash = map.shared().order.hash_of(key);
        let map = self.map_number(map);
        let effect = value.map_or(Effect::Remove, |value| Effect::Put(size(value)));
        Entry { map, key_size: size(key), hash, at, effect, expiry_ms }
    }

    fn map_number(&mut self, map: &Map) -> u32 {
        // The last one first: batches mostly stay with one map.
        let known = self.maps.iter().rposition(|known| known.is_same(map));
        known.unwrap_or_else(|| {
            self.maps.push(map.clone());
            self.maps.len() - 1
        }) as u32
    }

    fn key(&self, change: &Entry) -> &[u8] {
        &self.bytes[change.at..][..change.key_size as usize]
    }

    fn value(&self, change: &Entry) -> Option<&[u8]> {
        let start = change.at + change.key_size as usize;
        match change.effect {
            Effect::Put(size) => Some(&self.bytes[start..][..size as usize]),
            _ => None,
        }
    }

    fn map(&self, change: &Entry) -> &Map {
        &self.maps[change.map as usize]
    }

    /// The keys of its changes, with their maps.
    pub(crate) fn changed_keys(&self) -> impl Iterator<Item = (&Map, &[u8])> {
        self.changes.iter().map(|change| (self.map(change), self.key(change)))
    }

    /// What the changes of each key do together: each key once.
    pub(crate) fn last_changes(&self) -> LastChanges<'_> {
        if !self.has_equal_hashes() {
            return LastChanges(Cow::Borrowed(&self.changes));
        }
        // Two keys have one hash: most likely they are one key.
        let place = |change: &Entry| (change.map, self.key(change));
        let mut last = self.changes.clone();
        // Those of a key stay in their order.
        last.sort_by(|a, b| place(a).cmp(&place(b)));
        last.dedup_by(|later, earlier| {
            let is_same = place(later) == place(earlier);
            if is_same {
                *earlier = later.after(*earlier);
            }
            is_same
        });
        LastChanges(Cow::Owned(last))
    }

    /// Whether the keys of two changes have one hash, but for its lowest bit.
    fn has_equal_hashes(&self) -> bool {
        // Open addressing, at most half full. Zero: free.
        let mut table = vec![0; (2 * self.changes.len()).next_power_of_two()];
        let mask = table.len() - 1;
        self.changes.iter().any(|change| {
            let hash = change.hash | 1;
            let mut place = (hash >> 1) as usize & mask;
            while table[place] != 0 && table[place] != hash {
                place = (place + 1) & mask;
            }
            std::mem::replace(&mut table[place], hash) == hash
        })
    }

    /// The changes that count, as the journal wants them.
    fn operations(&self, last: &[Entry]) -> Vec<BatchOp<'_>> {
        let operation = |change: &Entry| {
            let (tree, key) = (self.map(change).tree(), self.key(change));
            let operation = match self.value(change) {
                Some(value) => BatchOp::put(tree, key, value, change.expiry_ms),
                None if change.effect.keeps_value() => BatchOp::expire(tree, key, change.expiry_ms),
                None => BatchOp::remove(tree, key),
            };
            operation.hashed(change.hash)
        };
        last.iter().map(operation).collect()
    }

    /// The numbers in the log of the maps of the changes that count. Behind their stripes.
    fn log_numbers(&self, last: &[Entry]) -> impl Iterator<Item = u32> {
        last.iter().map(|change| self.map(change).number())
    }

    /// The stripes of all keys that it changes or depends on; without `all` is the planted bug.
    fn stripes<'a>(
        &'a self,
        order: &'a WriteOrder<Hardware>,
        all: bool,
    ) -> impl Iterator<Item = u32> + 'a {
        let conditions = self.conditions.iter().filter_map(|condition| match condition {
            Condition::OfKey { what, .. } => Some(what),
            Condition::Rollbacks(_) => None,
        });
        let conditions = conditions.filter(move |_| all);
        self.changes.iter().chain(conditions).map(|change| order.stripe_of_hash(change.hash))
    }
}

/// The changes of a batch that count: each key once.
pub(crate) struct LastChanges<'a>(Cow<'a, [Entry]>);

impl Store {
    /// Does all of a batch or nothing.
    ///
    /// *Atomic*: a thread that has read a change of the batch will read no key of it as it was before,
    /// nor will any that hears of it. (A [range](Map::range) reads at many moments: use a
    /// [view](Store::view) to see one state of all keys.) After a crash at any instruction the next
    /// opening finds all of it or nothing. *Durable* as a [put](Map::put), when it returns.
    ///
    /// *Cost*: a batch of several changes is written twice, once as a whole; one of a single change needs no more
    /// space than that change alone. The first after a pause waits until the
    /// operations that are running at that moment have ended; from within a function that the store
    /// calls it is then refused. Operations on other keys go on; for some time after a batch,
    /// other writes cost a few dozen nanoseconds more.
    ///
    /// # Errors
    /// As [`Map::put`], and [`Error::BatchTooLarge`](crate::Error::BatchTooLarge) beyond 512 MiB; then nothing was
    /// changed. So too with [`Error::Corrupt`](crate::Error::Corrupt): a condition or a change needs what is damaged.
    /// Without the others the rest may be written.
    pub fn write(&self, batch: &WriteBatch) -> Result<Written> {
        self.shared().write_batch(batch)
    }

    /// How many batches were rolled back since the store was opened, because space ran out while they were
    /// written; see [`WriteBatch::expect_no_rollback`].
    pub fn rollback_count(&self) -> u64 {
        self.shared().rollback_count()
    }
}
