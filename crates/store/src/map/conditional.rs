//! Writes that look at the value before: it is verified before anything is changed.

use everleaf_index::Decision;

use super::{Map, Sees};
use crate::power::Left;
use crate::{Action, Exchange, Result};

impl Map {
    /// Sets the value of `key`. Returns the old value.
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
        let mut old = None;
        self.decide(key, Sees::Value, |found| {
            old = found.map(|record| record.value.to_vec());
            Decision::PutExpiring(value.to_vec(), 0)
        })?;
        Ok(old)
    }

    /// Removes `key`. Returns the value it had.
    ///
    /// # Errors
    /// As [`Self::replace`].
    pub fn take(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let key = key.as_ref();
        let mut old = None;
        self.decide(key, Sees::Value, |found| {
            old = found.map(|record| record.value.to_vec());
            Decision::Remove
        })?;
        Ok(old)
    }

    /// Changes `key` to `new` if its value is `expected`, atomically; `None` stands for absent on
    /// both sides.
    ///
    /// # Errors
    /// As [`Self::replace`].
    pub fn compare_exchange(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<Exchange> {
        let key = key.as_ref();
        self.write(key, |tree, session| {
            tree.exchange(session, key, expected, new, |changed, found| match changed {
                true => (Exchange::Done, Left::ToBeRead),
                false => (Exchange::Mismatch(found.map(<[u8]>::to_vec)), Left::AsItWas),
            })
        })
    }

    /// Reads, decides and writes one key as one atomic step. `decide` may run several times, when
    /// other threads interfere; its last answer counts. Returns the value before. What
    /// [`Action::Put`] stores expires when the value before would have.
    ///
    /// # Errors
    /// As [`Self::replace`].
    pub fn update_with(
        &self,
        key: impl AsRef<[u8]>,
        mut decide: impl FnMut(Option<&[u8]>) -> Action,
    ) -> Result<Option<Vec<u8>>> {
        let key = key.as_ref();
        let mut before = None;
        self.decide(key, Sees::Value, |found| {
            before = found.map(|record| record.value.to_vec());
            decide(found.map(|record| record.value)).into()
        })?;
        Ok(before)
    }
}
