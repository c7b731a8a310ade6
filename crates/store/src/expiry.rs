//! Keys that expire.
//!
//! The time is a part of the record of a pair, so value and time change as one and survive together.
//! It is compared with the clock of the system whenever the record is read: a key is absent from the
//! millisecond on that was given. The [sweep](crate::Options::sweep) only frees the space.

use everleaf_index::{Change, Decision};

use crate::map::{Map, Sees};
use crate::power::Left;
use crate::{Action, Result};

/// When a key expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Expiry {
    /// At this time, in milliseconds since 1970-01-01 UTC.
    At(u64),
    /// Never.
    Never,
}

impl Expiry {
    pub(crate) fn of(expiry_ms: u64) -> Self {
        if expiry_ms == 0 { Expiry::Never } else { Expiry::At(expiry_ms) }
    }

    /// In milliseconds since 1970-01-01 UTC; 0 for never.
    pub fn as_ms(self) -> u64 {
        match self {
            Expiry::At(expiry_ms) => expiry_ms,
            Expiry::Never => 0,
        }
    }
}

impl Map {
    /// Sets the value of `key`, which expires at `expiry_ms`, in milliseconds since 1970-01-01 UTC (0
    /// for never): from then on it is absent. Value and time are one atomic, durable change. Returns
    /// whether a value was replaced.
    ///
    /// # Example
    /// ```
    /// # fn main() -> everleaf::Result<()> {
    /// # let folder = tempfile::tempdir().expect("a temporary folder");
    /// # let store = everleaf::Options::new().create(true).open(folder.path().join("p"))?;
    /// use everleaf::Expiry;
    /// store.put_with_expiry(b"past", b"1", 1)?;
    /// assert_eq!(store.get(b"past")?, None);
    /// store.put_with_expiry(b"later", b"2", 4_000_000_000_000)?;
    /// assert_eq!(store.expiry(b"later")?, Some(Expiry::At(4_000_000_000_000)));
    /// assert!(store.persist(b"later")?);
    /// assert_eq!(store.expiry(b"later")?, Some(Expiry::Never));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Self::put`]. Beside a key of 64 KiB less two bytes or more, or a time after the year 10,000,
    /// the longest value is 8 bytes shorter.
    pub fn put_with_expiry(&self, key: &[u8], value: &[u8], expiry_ms: u64) -> Result<bool> {
        self.write(key, |tree, session| {
            let change = Change::Upsert(value);
            let see = |changed, old: Option<&[u8]>| (old.is_some(), Left::if_changed(changed));
            tree.change_expiring(session, key, change, expiry_ms, see)
        })
    }

    /// Lets `key` expire at `expiry_ms`, in milliseconds since 1970-01-01 UTC (0 for never). Returns
    /// whether it is there.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub fn expire_at(&self, key: &[u8], expiry_ms: u64) -> Result<bool> {
        let mut found = false;
        self.decide(key, Sees::Expiry, |record| {
            found = record.is_some();
            Decision::Expire(expiry_ms)
        })?;
        Ok(found)
    }

    /// Lets `key` never expire. Returns whether it would have.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub fn persist(&self, key: &[u8]) -> Result<bool> {
        let mut found = false;
        self.decide(key, Sees::Expiry, |record| {
            found = record.is_some_and(|record| record.expiry_ms != 0);
            if found { Decision::Expire(0) } else { Decision::Keep }
        })?;
        Ok(found)
    }

    /// When `key` expires; `None` if it is not there.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn expiry(&self, key: &[u8]) -> Result<Option<Expiry>> {
        self.read(key, |tree, session| {
            tree.get_record(session, key, |record| Expiry::of(record.expiry_ms))
        })
    }

    /// As [`Self::get_with`], and `see` is told when the key expires.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn get_with_expiry<R>(
        &self,
        key: &[u8],
        see: impl FnOnce(&[u8], Expiry) -> R,
    ) -> Result<Option<R>> {
        let verify = self.shared().verify;
        self.read(key, |tree, session| {
            tree.get_verified(session, key, verify, |record| {
                see(record.value, Expiry::of(record.expiry_ms))
            })
        })
    }

    /// As [`Self::update_with`], and `decide` is told when the key expires.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub fn update_with_expiry(
        &self,
        key: &[u8],
        mut decide: impl FnMut(Option<(&[u8], Expiry)>) -> Action,
    ) -> Result<()> {
        self.decide(key, Sees::Value, |found| {
            decide(found.map(|record| (record.value, Expiry::of(record.expiry_ms)))).into()
        })?;
        Ok(())
    }
}

impl Map {
    /// As [`Self::update_with_expiry`] for those who need not see the value, which may be long: it is
    /// not copied into memory to be shown. `None`: the key is not there.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub fn update_expiry_with(
        &self,
        key: &[u8],
        mut decide: impl FnMut(Option<Expiry>) -> Action,
    ) -> Result<()> {
        self.decide(key, Sees::Expiry, |found| {
            decide(found.map(|record| Expiry::of(record.expiry_ms))).into()
        })?;
        Ok(())
    }
}

impl From<Action> for Decision {
    fn from(action: Action) -> Self {
        match action {
            Action::Keep => Decision::Keep,
            Action::Put(value) => Decision::Put(value),
            Action::PutWithExpiry(value, expiry_ms) => Decision::PutExpiring(value, expiry_ms),
            Action::Expire(expiry_ms) => Decision::Expire(expiry_ms),
            Action::Remove => Decision::Remove,
        }
    }
}
