//! Writes that look at the value before: it is verified before anything is changed.

use everleaf_index::Decision;

use super::Map;
use super::deciding::Sees;
use crate::conversion::copy_of;
use crate::wal::LogEffect;
use crate::{Action, Error, Exchange, Result};

impl Map {
    /// Sets the value of `key`. Returns the old value. The key then never expires, as with [`Self::put`].
    ///
    /// # Errors
    /// As [`Self::put`]; [`Error::Corrupt`](crate::Error::Corrupt) if the old value is damaged: then
    /// nothing was changed.
    pub fn replace(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<Option<Vec<u8>>> {
        let (key, value) = (key.as_ref(), value.as_ref());
        self.change_taking(key, &|| Ok(Decision::PutExpiring(copy_of(value)?, 0)))
    }

    /// Removes `key`. Returns the value it had.
    ///
    /// # Errors
    /// As [`Self::replace`].
    pub fn take(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.change_taking(key.as_ref(), &|| Ok(Decision::Remove))
    }

    /// Changes `key`. Returns the value it had; nothing is changed if there is no memory for that.
    fn change_taking(
        &self,
        key: &[u8],
        decide: &dyn Fn() -> Result<Decision>,
    ) -> Result<Option<Vec<u8>>> {
        let mut old = Ok(None);
        self.decide_at_last(key, &mut |found| {
            let copied = found.map(|record| copy_of(record.value)).transpose();
            let (taken, decision) = match copied.and_then(|value| Ok((value, decide()?))) {
                Ok((value, decision)) => (Ok(value), decision),
                Err(error) => (Err(error), Decision::Keep),
            };
            old = taken;
            decision
        })?;
        old
    }

    /// Adds `amount` to the integer that is the value of `key`, as one atomic step; an absent key counts
    /// as 0. Returns the value before. When the key expires stays as it is.
    ///
    /// The integer is kept in decimal digits, as the server's `INCR` keeps it.
    ///
    /// # Example
    /// ```
    /// # fn main() -> everleaf::Result<()> {
    /// # let folder = tempfile::tempdir().expect("a temporary folder");
    /// # let store = everleaf::Options::new().create(true).open(folder.path().join("p"))?;
    /// let visits = store.map("visits")?;
    /// assert_eq!(visits.fetch_add("/index", 1)?, 0);
    /// assert_eq!(visits.fetch_add("/index", 41)?, 1);
    /// assert_eq!(visits.get("/index")?, Some(b"42".to_vec()));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::NotAnInteger`] and [`Error::Overflow`]: nothing was changed. Otherwise as
    /// [`Self::replace`].
    pub fn fetch_add(&self, key: impl AsRef<[u8]>, amount: i64) -> Result<i64> {
        // The function may run several times; the last run is the one that counts.
        let mut before = Ok(0);
        self.decide_at_last(key.as_ref(), &mut |found| {
            let sum = found.map_or(Ok(0), |record| integer(record.value)).and_then(|old| {
                before = Ok(old);
                old.checked_add(amount).ok_or(Error::Overflow)
            });
            match sum {
                Ok(sum) => Decision::Put(sum.to_string().into_bytes()),
                Err(error) => {
                    before = Err(error);
                    Decision::Keep
                }
            }
        })?;
        before
    }

    /// Changes `key` to `new` if its value is `expected`, atomically; `None` stands for absent on
    /// both sides. (Slices, unlike elsewhere, so that `None` need not say of which type it is not.) When the
    /// key expires stays as it is.
    ///
    /// # Errors
    /// As [`Self::replace`].
    pub fn compare_exchange(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<Exchange> {
        self.exchange(key.as_ref(), expected, new)
    }

    /// As [`Self::compare_exchange`], compiled once.
    fn exchange(
        &self,
        key: &[u8],
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<Exchange> {
        self.write(key, |tree, session| {
            tree.exchange(session, key, expected, new, |changed, found| match changed {
                true => (Ok(Exchange::Done), effect_of(expected, new)),
                false => {
                    let found = found.map(copy_of).transpose();
                    (found.map(Exchange::Mismatch), LogEffect::Unchanged)
                }
            })
        })?
    }

    /// As [`Self::compare_exchange`], but says only whether it was done: what is not as expected may be long, and is
    /// not copied.
    ///
    /// # Errors
    /// As [`Self::replace`].
    #[doc(hidden)]
    pub fn exchange_if(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<bool> {
        let key = key.as_ref();
        self.write(key, |tree, session| {
            tree.exchange(session, key, expected, new, |changed, _| match changed {
                true => (true, effect_of(expected, new)),
                false => (false, LogEffect::Unchanged),
            })
        })
    }

    /// Reads, decides and writes one key as one atomic step. `decide` may run several times, when
    /// other threads interfere; its last answer counts. Returns the value before. What
    /// [`Action::Put`] stores expires when the value before would have. `decide` runs inside the operation: it
    /// must be quick, and may use the store as the function of [`Self::get_with`] may; but it must not write this key.
    ///
    /// # Errors
    /// As [`Self::replace`]; [`Error::Nested`]: `decide` has written this key, and was asked again for it.
    pub fn update_with(
        &self,
        key: impl AsRef<[u8]>,
        mut decide: impl FnMut(Option<&[u8]>) -> Action,
    ) -> Result<Option<Vec<u8>>> {
        let key = key.as_ref();
        let mut before = Ok(None);
        self.decide(key, Sees::Value, &mut |found| {
            before = found.map(|record| copy_of(record.value)).transpose();
            match before {
                Ok(_) => decide(found.map(|record| record.value)).into(),
                Err(_) => Decision::Keep,
            }
        })?;
        before
    }
}

/// An integer in the only way in which it is written.
fn integer(digits: &[u8]) -> Result<i64> {
    let number = std::str::from_utf8(digits).ok().and_then(|text| text.parse::<i64>().ok());
    number.filter(|number| number.to_string().as_bytes() == digits).ok_or(Error::NotAnInteger)
}

/// What an exchange that was done is to the log: of nothing for nothing, none.
fn effect_of(expected: Option<&[u8]>, new: Option<&[u8]>) -> LogEffect<'static> {
    LogEffect::if_changed(expected.is_some() || new.is_some())
}
