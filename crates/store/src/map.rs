//! One ordered map of byte strings.
//!
//! All writes of one key come through `Map::write`: without order (`try_write`), or, while the gate is up, in the
//! steps of `ordered_write.rs`. A write that finds no space is tried twice, with what idle threads hold back reclaimed
//! in between. All reads of one key come through `Map::read`, which waits only for a batch that has the key's stripe,
//! and shows nothing of one that took it meanwhile.
//!
//! *Thread safety*: shared and cloned freely; each call takes a session for its length, and so does one that is made
//! from within another call.

mod at_once;
pub(crate) mod bulk;
pub(crate) mod change;
mod clearing;
mod conditional;
pub(crate) mod deciding;
pub(crate) mod expiry;
pub(crate) mod expiry_in_place;
pub(crate) mod key_range;
mod ordered;
pub(crate) mod own_writes;
pub(crate) mod pages;
pub(crate) mod range;
pub(crate) mod reserved;
pub(crate) mod scan;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use everleaf_index::{
    Answer, BytesTree, Change, Hardware, IndexError, Record, Session, SessionGuard, Verify, What,
};

use crate::conversion::copy_of;
use crate::lifecycle::Lifecycle;
use crate::ordered_write::{Attempt, InOrder, KeyWrite};
use crate::shared::Shared;
use crate::wal::{LogEffect, StoreLog};
use crate::{Error, KEY_SIZE_MAX, Result, VALUE_SIZE_MAX};

/// An ordered map from byte strings (keys up to 64 KiB) to byte strings (values up to 512 MiB).
///
/// Cheap to clone; clones are handles on the same map. All operations may run at once from any
/// threads. Every operation on one key is linearizable, and when it returns it survives what the
/// [`Durability`](crate::Durability) of the store says. Operations fail with [`Error::MapDropped`]
/// once the map was dropped.
///
/// # Example
/// ```
/// # fn main() -> everleaf::Result<()> {
/// # let folder = tempfile::tempdir().expect("a temporary folder");
/// # let store = everleaf::Options::new().create(true).open(folder.path().join("p"))?;
/// use everleaf::{Action, Exchange};
/// let map = store.map("counters")?;
/// assert!(map.insert(b"visits", b"1")?);
/// assert!(!map.insert(b"visits", b"9")?);
/// let done = map.compare_exchange(b"visits", Some(b"1"), Some(b"2"))?;
/// assert_eq!(done, Exchange::Done);
/// map.update_with(b"visits", |value| {
///     let count = value.map_or(0, |digits| String::from_utf8_lossy(digits).parse().unwrap_or(0));
///     Action::Put((count + 1).to_string().into_bytes())
/// })?;
/// assert_eq!(map.get(b"visits")?, Some(b"3".to_vec()));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Map {
    shared: Arc<Shared>,
    tree: Arc<BytesTree>,
    /// The number of the map in the log; 0 without one.
    number: Arc<AtomicU32>,
    /// Goes last: the last one closes the store, and says so when nobody has anything of the pool.
    life: Arc<Lifecycle>,
}

impl std::fmt::Debug for Map {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Map").field("keys", &self.len()).finish_non_exhaustive()
    }
}

impl Map {
    pub(crate) fn new(life: Arc<Lifecycle>, shared: Arc<Shared>, tree: Arc<BytesTree>) -> Self {
        let number = number_of(&shared, &tree);
        Map { shared, tree, number, life }
    }

    /// A handle on another map of the same store.
    pub(crate) fn another(&self, tree: Arc<BytesTree>) -> Self {
        let number = number_of(&self.shared, &tree);
        Map { tree, number, ..self.clone() }
    }

    /// What keeps the store open.
    pub(crate) fn into_lifecycle(self) -> Arc<Lifecycle> {
        self.life
    }

    /// Runs a write of `key`, which also says whether it changed anything; if there is no space,
    /// reclaims what idle threads hold back and tries again.
    #[inline]
    pub(crate) fn write<'v, R>(
        &self,
        key: &[u8],
        mut write: impl FnMut(&BytesTree, &mut Session<Hardware>) -> Attempt<'v, R>,
    ) -> Result<R> {
        self.check_own_write(key)?;
        match self.try_write(key, &mut write) {
            Err(error) if error.lacks_space() => {
                self.shared.with_room(|| self.try_write(key, &mut write))
            }
            result => result,
        }
    }

    #[inline]
    fn try_write<'v, R>(
        &self,
        key: &[u8],
        write: &mut impl FnMut(&BytesTree, &mut Session<Hardware>) -> Attempt<'v, R>,
    ) -> Result<R> {
        let mut session = self.shared.session()?;
        // With a log, order matters for good: there is no need to look.
        if self.shared.log.is_none() {
            let mut pinned = session.pinned();
            if self.shared.order.is_free() {
                return Ok(write(&self.tree, &mut pinned)?.0);
            }
        }
        self.write_in_order(key, session, write)
    }

    /// A write while somebody needs order among writers.
    #[cold]
    #[inline(never)]
    fn write_in_order<'v, R>(
        &self,
        key: &[u8],
        session: SessionGuard<'_, Hardware>,
        write: &mut impl FnMut(&BytesTree, &mut Session<Hardware>) -> Attempt<'v, R>,
    ) -> Result<R> {
        let mut ordered = self.begin(self.shared.in_order(session, key), key)?;
        let made = write(&self.tree, ordered.session());
        ordered.finish(made)
    }

    /// Begins to change a key whose stripe the caller has.
    pub(crate) fn begin<'a, H>(
        &'a self,
        in_order: InOrder<'a, H>,
        key: &'a [u8],
    ) -> Result<KeyWrite<'a, H>> {
        KeyWrite::begin(in_order, &self.tree, self.number(), key)
    }

    /// Whether a change would change nothing, so that reading the key is all that is to be done. It is
    /// asked where there is a log, in which a write that turns out to change nothing has a place.
    #[inline(always)]
    fn changes_nothing(&self, change: &Change<'_>) -> Result<bool> {
        match (&self.shared.log, change.what) {
            (None, _) | (_, What::Upsert(_)) => Ok(false),
            (Some(log), _) => self.changes_nothing_in(log, change),
        }
    }

    /// [`Self::changes_nothing`] of a store with a log.
    #[inline(never)]
    fn changes_nothing_in(&self, log: &StoreLog, change: &Change<'_>) -> Result<bool> {
        let key = change.key;
        let needs = match change.what {
            What::Upsert(_) => return Ok(false),
            What::Insert(_) => false,
            What::Update(_) | What::Remove | What::Expire => true,
        };
        if key.len() > KEY_SIZE_MAX || change.value().is_some_and(|it| it.len() > VALUE_SIZE_MAX) {
            // It says so.
            return Ok(false);
        }
        log.check()?;
        match self.read(key, Verify::Key, |_| ()) {
            Ok(None) if change.what == What::Remove => {
                // It may have expired, and is not counted any more then.
                self.purge(key)?;
                Ok(true)
            }
            Ok(found) => Ok(found.is_some() != needs),
            // A write does not look at what it replaces.
            Err(Error::Corrupt(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Makes a change of a key. All writes that do not look at the value before come through here. Not
    /// generic, so that a write is compiled once, and not for every type of keys and values.
    pub(crate) fn change(&self, change: Change<'_>) -> Result<Answer> {
        if self.changes_nothing(&change)? {
            return Ok(Answer::default());
        }
        self.write(change.key, |tree, session| {
            let answer = tree.change(session, &change)?;
            Ok((answer, LogEffect::of(change, answer.changed)))
        })
    }

    /// Runs `see` on the record of `key`, as no batch that is under way has it.
    #[inline]
    pub(crate) fn read<R>(
        &self,
        key: &[u8],
        verify: Verify,
        see: impl FnOnce(Record<'_>) -> R,
    ) -> Result<Option<R>> {
        let mut session = self.shared.session()?;
        let mut see = Some(see);
        Ok(self.shared.order.read(&mut session, key, |session, single| {
            let seen = self.tree.get_verified(session, key, verify, |record| {
                if single.may_be_shown() { see.take().map(|see| see(record)) } else { None }
            });
            seen.map(Option::flatten)
        })?)
    }

    /// The value of `key`. O(log n) in DRAM, one or two cache misses in the pool.
    ///
    /// # Errors
    /// As all operations: the map was dropped; [`Error::Corrupt`] if what is there is damaged, as far
    /// as it is looked at ([`Options::verify_reads`](crate::Options::verify_reads)). More than 128
    /// threads in the store at once take turns; of operations inside of others there can be 320, and one more
    /// is [`Error::TooManySessions`].
    #[inline]
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.copied(key.as_ref())
    }

    /// As [`Self::get`], compiled once.
    fn copied(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.get_with(key, copy_of)?.transpose()
    }

    /// Runs `see` on the value of `key` in place, without a copy. `see` must be quick, because it
    /// holds back the reuse of space. It may use the store, but not ask for a check, which would wait
    /// for it and is refused; nor for the first batch or view after a pause, which are, too.
    ///
    /// # Errors
    /// As [`Self::get`].
    #[inline]
    pub fn get_with<R>(
        &self,
        key: impl AsRef<[u8]>,
        see: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        let (key, verify) = (key.as_ref(), self.shared.verify);
        self.read(key, verify, |record| see(record.value))
    }

    /// Runs `see(i, value)` for each of `keys`, in order, with overlapping cache misses: several
    /// times the speed of separate gets. Keys are looked up some at a time before `see` is called for them: what
    /// is written or expires in between is not seen. In a store with a log, and while batches are written, 32 at
    /// a time are what they are at one moment, or looked up one by one if others write one of them.
    ///
    /// # Errors
    /// As [`Self::get`]; `see` was not called for the keys whose values are damaged, and perhaps not
    /// for others.
    pub fn get_many<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        see: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        self.get_each(keys.iter().map(K::as_ref), 0, to_the_end(see))
    }

    /// As [`Self::get_many`], for the server: until `see` breaks; of the values behind nothing is summed.
    ///
    /// # Errors
    /// As [`Self::get_many`].
    #[doc(hidden)]
    pub fn get_many_until(
        &self,
        keys: &[&[u8]],
        see: impl FnMut(usize, Option<&[u8]>) -> ControlFlow<()>,
    ) -> Result<()> {
        self.get_each(keys.iter().copied(), 0, see)
    }

    /// As [`Self::get_many`], of keys that lie one after another, each of `key_size` bytes: what is left at the
    /// end is no key. `value_size` is how many bytes most values have, or 0 if that is not known: values of
    /// more than a cache line come the faster. Any other value is shown as well.
    ///
    /// ```
    /// # fn main() -> everleaf::Result<()> {
    /// # let folder = tempfile::tempdir().expect("a temporary folder");
    /// # let store = everleaf::Options::new().create(true).open(folder.path().join("p"))?;
    /// let trees = store.map("trees")?;
    /// trees.put("oak", "Quercus")?;
    /// trees.put("ash", "Fraxinus")?;
    /// let mut sizes = [None; 3];
    /// trees.get_rows(b"oakelmash", 3, 8, |index, value| sizes[index] = value.map(<[u8]>::len))?;
    /// assert_eq!(sizes, [Some(7), None, Some(8)]);
    /// assert!(trees.get_rows(b"", 0, 8, |_, _| {}).is_err());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Self::get_many`]; [`Error::Unsupported`] if `key_size` is 0, since nobody could tell how many keys there
    /// are.
    pub fn get_rows(
        &self,
        keys: &[u8],
        key_size: usize,
        value_size: usize,
        see: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        if key_size == 0 {
            return Err(Error::Unsupported("keys of no bytes cannot lie one after another".into()));
        }
        self.get_each(keys.chunks_exact(key_size), value_size, to_the_end(see))
    }

    fn get_each<'k>(
        &self,
        mut keys: impl Iterator<Item = &'k [u8]>,
        value_size: usize,
        mut see: impl FnMut(usize, Option<&[u8]>) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut session = self.shared.session()?;
        let mut pinned = session.pinned();
        if self.shared.order.is_free() {
            let verify = self.shared.verify;
            return Ok(self.tree.get_many_until(&mut pinned, keys, verify, value_size, see)?);
        }
        drop(pinned);
        drop(session);
        self.get_groups(&mut keys, &mut see)
    }

    /// Brings what is known of `keys` into the cache, with overlapping cache misses, for writes that
    /// follow. Of what is damaged, they tell.
    ///
    /// # Errors
    /// The map was dropped.
    pub fn prefetch<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<()> {
        match self.peek(&mut keys.iter().map(K::as_ref), Verify::Key, &mut to_the_end(|_, _| {}))? {
            Err(IndexError::Removed) => Err(IndexError::Removed.into()),
            _ => Ok(()),
        }
    }

    /// Runs `see(i, value)` for each of `keys`, in order, until it breaks, with overlapping cache misses, also while
    /// batches are written: it waits for none, so that part of one may be seen, as by a [scan](Self::scan). Only for a
    /// batch that depends on a key which all those change, read before, and on
    /// [no rollback](crate::WriteBatch::expect_no_rollback).
    ///
    /// # Errors
    /// As [`Self::get_many`].
    #[doc(hidden)]
    pub fn peek_many<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        mut see: impl FnMut(usize, Option<&[u8]>) -> ControlFlow<()>,
    ) -> Result<()> {
        let keys = &mut keys.iter().map(K::as_ref);
        Ok(self.peek(keys, self.shared.verify, &mut see)??)
    }

    /// As [`Self::peek_many`], compiled once.
    fn peek(
        &self,
        keys: &mut dyn Iterator<Item = &[u8]>,
        verify: Verify,
        see: &mut SeeValue<'_>,
    ) -> Result<std::result::Result<(), IndexError>> {
        let mut session = self.shared.session()?;
        Ok(self.tree.get_many_until(&mut session.pinned(), keys, verify, 0, see))
    }

    /// Whether `key` is there.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn contains(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.has(key.as_ref())
    }

    /// As [`Self::contains`], compiled once.
    fn has(&self, key: &[u8]) -> Result<bool> {
        Ok(self.get_with(key, |_| ())?.is_some())
    }

    /// Sets the value of `key`. Returns whether a value was replaced. The key then never expires;
    /// [`Self::put_with_expiry`] sets a time, and [`Action::Put`](crate::Action::Put) keeps it.
    ///
    /// # Errors
    /// The key or value is too large, the store is read-only, the pool or the disk is full, or [`Error::PoolGone`];
    /// then nothing was changed. [`Error::LogFailed`] and [`Error::LogFull`]: the change may have been made, and be
    /// read from then on, and whether it is there when the store is opened again is open. Otherwise as [`Self::get`].
    #[inline]
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.change(Change::upsert(key.as_ref(), value.as_ref()))?.was_there())
    }

    /// Adds `key` unless it is there. Returns whether it was added. It then never expires.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub fn insert(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.change(Change::insert(key.as_ref(), value.as_ref()))?.changed)
    }

    /// Replaces the value of `key` if it is there. Returns whether it was. The key then never expires, as with
    /// [`Self::put`].
    ///
    /// # Errors
    /// As [`Self::put`].
    pub fn update(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.change(Change::update(key.as_ref(), value.as_ref()))?.changed)
    }

    /// Removes `key`. Returns whether it was there. Needs no space, so a full pool can be emptied (with a log: as
    /// long as the log's disk has room).
    ///
    /// # Errors
    /// As [`Self::put`].
    pub fn remove(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.change(Change::remove(key.as_ref()))?.changed)
    }

    /// Number of keys, O(1); those that have expired and were not removed yet are counted. Exact when no writer is
    /// active. 0 if it cannot be asked: the map was dropped, the store was inherited by a fork, or there is no
    /// session ([`Error::TooManySessions`](crate::Error::TooManySessions)). Reads first what [opening at
    /// once](crate::Options::open_at_once) has left of the map; keys in leaves of that which are damaged are not
    /// counted.
    pub fn len(&self) -> u64 {
        let count = |mut session: SessionGuard<'_, Hardware>| self.len_in(&mut session);
        self.shared.session().and_then(count).unwrap_or(0)
    }

    /// As [`Self::len`], in a session.
    pub(crate) fn len_in(&self, session: &mut Session<Hardware>) -> Result<u64> {
        match self.tree.len(session) {
            Err(IndexError::Alloc(_)) => Ok(self.tree.shape_so_far(session)?.keys),
            counted => Ok(counted?),
        }
    }

    /// Whether there are no keys. As [`Self::len`].
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether two handles are of one map.
    pub(crate) fn is_same(&self, other: &Map) -> bool {
        Arc::ptr_eq(&self.tree, &other.tree)
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(crate) fn tree(&self) -> &BytesTree {
        &self.tree
    }

    /// The number of the map in the log. Behind a stripe.
    pub(crate) fn number(&self) -> u32 {
        // Relaxed: changed only by a thread that has all stripes.
        self.number.load(Ordering::Relaxed)
    }

    pub(crate) fn tree_arc(&self) -> &Arc<BytesTree> {
        &self.tree
    }
}

/// What is told of a key by its place, and whether more is wanted.
pub(crate) type SeeValue<'a> = dyn FnMut(usize, Option<&[u8]>) -> ControlFlow<()> + 'a;

/// Sees all values, however many they are.
fn to_the_end(
    mut see: impl FnMut(usize, Option<&[u8]>),
) -> impl FnMut(usize, Option<&[u8]>) -> ControlFlow<()> {
    move |index, value| {
        see(index, value);
        ControlFlow::Continue(())
    }
}

/// The number of a map in the log.
fn number_of(shared: &Shared, tree: &Arc<BytesTree>) -> Arc<AtomicU32> {
    shared.log.as_ref().map(|log| log.number_of(tree)).unwrap_or_default()
}
