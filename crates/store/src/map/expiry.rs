//! Keys that expire.
//!
//! The time is a part of the record of a pair, so value and time change as one and survive together.
//! It is compared with the clock of the system whenever the record is read: a key is absent from the
//! millisecond on that was given. The [sweep](crate::Options::sweep) only frees the space.

use std::time::{Duration, SystemTime};

use everleaf_index::{Change, Decision, Hardware, Session, Verify};

use crate::map::Map;
use crate::map::deciding::Sees;
use crate::ordered_write::{Attempt, KeyWrite};
use crate::wal::LogEffect;
use crate::{Action, Result};

/// When a key expires. A [`SystemTime`] converts to it, and so does a [`Duration`] from now on.
/// Times are kept in milliseconds, rounded up.
///
/// # Example
/// ```
/// use std::time::{Duration, SystemTime};
/// use everleaf::Expiry;
/// let soon = Expiry::from(Duration::from_secs(60));
/// assert!(soon.time_to_live().is_some_and(|rest| rest <= Duration::from_secs(60)));
/// assert_eq!(Expiry::Never.time_to_live(), None);
/// assert_eq!(Expiry::At(SystemTime::UNIX_EPOCH).time_to_live(), Some(Duration::ZERO));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Expiry {
    /// At this time.
    At(SystemTime),
    /// Never.
    #[default]
    Never,
}

impl Expiry {
    /// This long from now; never, if the clock cannot count that far.
    pub fn after(time_to_live: Duration) -> Self {
        SystemTime::now().checked_add(time_to_live).map_or(Expiry::Never, Expiry::At)
    }

    /// How long from now it is: zero if the time has come, `None` for never.
    pub fn time_to_live(self) -> Option<Duration> {
        match self {
            Expiry::At(time) => Some(time.duration_since(SystemTime::now()).unwrap_or_default()),
            Expiry::Never => None,
        }
    }

    /// At so many milliseconds since 1970-01-01 UTC; 0 for never.
    pub fn from_unix_ms(expiry_ms: u64) -> Self {
        match expiry_ms {
            0 => Expiry::Never,
            _ => Expiry::At(SystemTime::UNIX_EPOCH + Duration::from_millis(expiry_ms)),
        }
    }

    /// In milliseconds since 1970-01-01 UTC, at least 1; 0 for never.
    pub fn as_unix_ms(self) -> u64 {
        let Expiry::At(time) = self else { return 0 };
        let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX).max(1)
    }
}

impl From<SystemTime> for Expiry {
    fn from(time: SystemTime) -> Self {
        Expiry::At(time)
    }
}

impl From<Duration> for Expiry {
    fn from(time_to_live: Duration) -> Self {
        Expiry::after(time_to_live)
    }
}

impl Map {
    /// Sets the value of `key`, which expires at a [`SystemTime`], after a [`Duration`], or as an
    /// [`Expiry`] says: from then on it is absent. Value and time are one atomic, durable change.
    /// Returns whether a value was replaced.
    ///
    /// # Example
    /// ```
    /// # fn main() -> everleaf::Result<()> {
    /// # let folder = tempfile::tempdir().expect("a temporary folder");
    /// # let store = everleaf::Options::new().create(true).open(folder.path().join("p"))?;
    /// use std::time::{Duration, SystemTime};
    /// use everleaf::Expiry;
    /// let sessions = store.map("sessions")?;
    /// sessions.put_with_expiry("past", "1", SystemTime::UNIX_EPOCH)?;
    /// assert_eq!(sessions.get("past")?, None);
    /// sessions.put_with_expiry("soon", "2", Duration::from_secs(3600))?;
    /// assert!(matches!(sessions.expiry("soon")?, Some(Expiry::At(_))));
    /// assert!(sessions.persist("soon")?);
    /// assert_eq!(sessions.expiry("soon")?, Some(Expiry::Never));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Self::put`]. Beside a key of 64 KiB less two bytes or more, or a time after the year 10,000,
    /// the longest value is 8 bytes shorter.
    pub fn put_with_expiry(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        expiry: impl Into<Expiry>,
    ) -> Result<bool> {
        let put = Change::upsert(key.as_ref(), value.as_ref());
        Ok(self.change(put.expiring(expiry.into().as_unix_ms()))?.was_there())
    }

    /// Lets `key` expire at a [`SystemTime`], after a [`Duration`], or as an [`Expiry`] says. Returns
    /// whether it is there.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub fn expire(&self, key: impl AsRef<[u8]>, expiry: impl Into<Expiry>) -> Result<bool> {
        let (mut found, expiry_ms) = (false, expiry.into().as_unix_ms());
        self.decide(key.as_ref(), Sees::Expiry, &mut |record| {
            found = record.is_some();
            Decision::Expire(expiry_ms)
        })?;
        Ok(found)
    }

    /// Lets `key` never expire. Returns whether it would have.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub fn persist(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        let mut found = false;
        self.decide(key.as_ref(), Sees::Expiry, &mut |record| {
            found = record.is_some_and(|record| record.expiry_ms != 0);
            if found { Decision::Expire(0) } else { Decision::Keep }
        })?;
        Ok(found)
    }

    /// When `key` expires; `None` if it is not there.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn expiry(&self, key: impl AsRef<[u8]>) -> Result<Option<Expiry>> {
        let key = key.as_ref();
        self.read(key, Verify::Key, |record| Expiry::from_unix_ms(record.expiry_ms))
    }

    /// As [`Self::get_with`], and `see` is told when the key expires.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn get_with_expiry<R>(
        &self,
        key: impl AsRef<[u8]>,
        see: impl FnOnce(&[u8], Expiry) -> R,
    ) -> Result<Option<R>> {
        let (key, verify) = (key.as_ref(), self.shared().verify);
        self.read(key, verify, |record| see(record.value, Expiry::from_unix_ms(record.expiry_ms)))
    }

    /// As [`Self::update_with`], and `decide` is told when the key expires; the value before is not returned.
    ///
    /// # Errors
    /// As [`Self::replace`].
    pub fn update_with_expiry(
        &self,
        key: impl AsRef<[u8]>,
        mut decide: impl FnMut(Option<(&[u8], Expiry)>) -> Action,
    ) -> Result<()> {
        self.decide(key.as_ref(), Sees::Value, &mut |found| {
            decide(found.map(|record| (record.value, Expiry::from_unix_ms(record.expiry_ms))))
                .into()
        })?;
        Ok(())
    }

    /// As [`Self::update_with_expiry`], for the server: with a function that does not use the store, and does not
    /// panic. So other writes of the key wait until it is done if they have come in between often enough.
    ///
    /// # Errors
    /// As [`Self::replace`].
    #[doc(hidden)]
    pub fn update_at_last(
        &self,
        key: impl AsRef<[u8]>,
        mut decide: impl FnMut(Option<(&[u8], Expiry)>) -> Action,
    ) -> Result<()> {
        self.decide_at_last(key.as_ref(), &mut |found| {
            decide(found.map(|record| (record.value, Expiry::from_unix_ms(record.expiry_ms))))
                .into()
        })?;
        Ok(())
    }

    /// As [`Self::update_with_expiry`], for the server: with a function that does not use the store, and does not
    /// panic. It runs once for each attempt while other writes of the key wait, so that the key need not be read
    /// before, nor what was read be compared. A function that uses the store could wait for itself for ever; debug
    /// builds panic.
    ///
    /// # Errors
    /// As [`Self::replace`].
    #[doc(hidden)]
    pub fn update_apart(
        &self,
        key: impl AsRef<[u8]>,
        mut decide: impl FnMut(Option<(&[u8], Expiry)>) -> Action,
    ) -> Result<()> {
        self.decide_apart(key.as_ref(), &mut |found| {
            decide(found.map(|record| (record.value, Expiry::from_unix_ms(record.expiry_ms))))
                .into()
        })
    }
}

impl Map {
    /// Makes it last that a key is absent: if it has expired, it is removed as by [`Map::remove`], so that no clock
    /// that is set back shows it again, nor a pool that is rebuilt from the log. Returns whether it is absent.
    ///
    /// To [watches](Map::watch) this is no write: nobody sees a difference.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub fn remove_expired(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        let (key, shared) = (key.as_ref(), self.shared());
        let mut session = shared.session()?;
        let purge = |session: &mut Session<Hardware>| -> Attempt<'_, bool> {
            self.tree().purge(session, key)?;
            // By what is there, not by another look at the clock: the log is not told of what stays in the pool.
            let is_absent = self.tree().get_stored(session, key, Verify::Key, |_| ())?.is_none();
            // Also if the sweep was here before, which tells the log nothing.
            let is_logged = is_absent && !shared.mutant("store.removes_expired_unlogged");
            Ok((is_absent, LogEffect::of(Change::remove(key), is_logged)))
        };
        if shared.log.is_none() {
            let mut pinned = session.pinned();
            if shared.order.is_free() {
                return Ok(purge(&mut pinned)?.0);
            }
        }
        let in_order = shared.in_order(session, key);
        let mut write = KeyWrite::begin_unseen(in_order, self.tree_arc(), self.number(), key)?;
        let made = purge(write.session());
        write.finish(made)
    }

    /// For the server: frees a key that has expired, as the sweep does, so that it is not counted any more. Returns
    /// whether it did. The log is told nothing: see [`Self::remove_expired`].
    ///
    /// # Errors
    /// As [`Self::put`].
    #[doc(hidden)]
    pub fn purge(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        let shared = self.shared();
        if !self.tree().may_expire() || shared.trees.heap().pool().is_read_only() {
            return Ok(false);
        }
        let mut session = shared.session()?;
        shared.purge(self.tree(), &mut session, key.as_ref())
    }

    /// As [`Self::update_with_expiry`] for callers that need not see the value, which may be long: it is
    /// not copied into memory to be shown. `None`: the key is not there.
    ///
    /// # Errors
    /// As [`Self::put`]. A value is not verified: one that is damaged keeps its damage.
    pub fn update_expiry_with(
        &self,
        key: impl AsRef<[u8]>,
        mut decide: impl FnMut(Option<Expiry>) -> Action,
    ) -> Result<()> {
        self.decide(key.as_ref(), Sees::Expiry, &mut |found| {
            decide(found.map(|record| Expiry::from_unix_ms(record.expiry_ms))).into()
        })?;
        Ok(())
    }
}

impl From<Action> for Decision {
    fn from(action: Action) -> Self {
        match action {
            Action::Keep => Decision::Keep,
            Action::Put(value) => Decision::Put(value),
            Action::PutWithExpiry(value, expiry) => {
                Decision::PutExpiring(value, expiry.as_unix_ms())
            }
            Action::Expire(expiry) => Decision::Expire(expiry.as_unix_ms()),
            Action::Remove => Decision::Remove,
        }
    }
}
