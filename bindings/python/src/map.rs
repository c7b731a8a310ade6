//! Maps: one key at a time, and many.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use everleaf::{Action, Expiry, Map};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::{PySlice, PyTuple, PyType};

use crate::codec::{Codec, int_bytes, int_of};
use crate::held::Held;
use crate::many::Lookup;
use crate::open_store::RawStore;
use crate::pairs::{Ends, Pairs, Source, What};
use crate::reader::{Codecs, Object, Reader, missing, what};
use crate::{columns, many};

/// An ordered map. What it has in common with a dictionary, and what is fast, is here; `everleaf.Map` is
/// its subclass.
#[pyclass(frozen, subclass, mapping, module = "everleaf._everleaf")]
pub struct RawMap {
    pub held: Arc<Held>,
    pub codecs: Codecs,
}

impl Reader for RawMap {
    fn codecs(&self) -> &Codecs {
        &self.codecs
    }

    fn pairs(&self, py: Python<'_>, ends: Ends, reverse: bool, what: What) -> PyResult<Pairs> {
        let source = Source::of_map(self.held.map()?, ends);
        Ok(Pairs::new(source, reverse, what, self.codecs.clone_ref(py), self.held.waits.clone()))
    }
}

impl RawMap {
    fn lookup(&self) -> PyResult<Lookup> {
        // So that a closed map is told of also where there are no keys.
        self.held.with(|_| Ok(Lookup::Map(self.held.clone())))
    }

    /// The value of a key.
    #[inline]
    fn find<'py>(&self, key: &Object<'py>) -> PyResult<Option<Object<'py>>> {
        let py = key.py();
        let (key, values) = (self.codecs.keys.encode(key)?, &self.codecs.values);
        let key = key.as_ref();
        let seen = if self.held.may_wait() {
            let found = py.detach(|| self.held.with(|map| map.get(key)))?;
            found.map(|value| values.seen(py, &value))
        } else {
            self.held.with(|map| map.get_with(key, |value| values.seen(py, value)))?
        };
        match seen {
            Some(seen) => values.decoded(seen?).map(Some),
            None => Ok(None),
        }
    }

    /// Removes a key, and returns its value. What is no value of this map is an error, and stays.
    fn taken<'py>(&self, key: &Object<'py>) -> PyResult<Option<Object<'py>>> {
        let (py, key) = (key.py(), self.codecs.keys.encode(key)?);
        let (key, values) = (key.as_ref(), &self.codecs.values);
        if matches!(*values, Codec::Bytes) {
            let taken = self.held.write(py, 0, |map| map.take(key))?;
            return taken.map(|value| values.seen(py, &value)).transpose();
        }
        loop {
            let found = self.held.write(py, 0, |map| map.get(key))?;
            let Some(found) = found else { return Ok(None) };
            // Before it is removed: it may be no such value.
            let value = values.decoded(values.seen(py, &found)?)?;
            let write = |map: &Map| map.exchange_if(key, Some(&found), None);
            if self.held.write(py, found.len(), write)? {
                return Ok(Some(value));
            }
        }
    }

    /// Runs a write of a pair.
    #[inline]
    fn write<R: Send>(
        &self,
        key: &Object<'_>,
        value: &Object<'_>,
        run: impl FnOnce(&Map, &[u8], &[u8]) -> everleaf::Result<R> + Send,
    ) -> PyResult<R> {
        let py = key.py();
        let (key, value) = (self.codecs.keys.encode(key)?, self.codecs.values.encode(value)?);
        let (key, value) = (key.as_ref(), value.as_ref());
        self.held.write(py, value.len(), |map| run(map, key, value))
    }
}

/// The time so many seconds from now; of an infinite number there is none.
pub fn expiry_in(seconds: f64) -> PyResult<Expiry> {
    if seconds.is_nan() {
        return Err(PyValueError::new_err("a ttl is a number of seconds, and this is none (NaN)"));
    }
    if seconds == f64::INFINITY {
        return Ok(Expiry::Never);
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |now| now.as_secs_f64());
    Ok(Expiry::from_unix_ms((((now + seconds) * 1000.0) as u64).max(1)))
}

/// As [`Map::fetch_add`], of numbers in the encoding that keeps their order.
fn add_encoded(map: &Map, key: &[u8], amount: i64) -> everleaf::Result<i64> {
    let mut before = Ok(0);
    // The function may run several times; the last run is the one that counts.
    map.update_with(key, |found| {
        let sum = found.map_or(Ok(0), stored_int).and_then(|old| {
            before = Ok(old);
            old.checked_add(amount).ok_or(everleaf::Error::Overflow)
        });
        match sum {
            Ok(sum) => Action::Put(int_bytes(sum).to_vec()),
            Err(error) => {
                before = Err(error);
                Action::Keep
            }
        }
    })?;
    before
}

fn stored_int(bytes: &[u8]) -> everleaf::Result<i64> {
    int_of(bytes).ok_or(everleaf::Error::NotAnInteger)
}

#[pymethods]
impl RawMap {
    /// The map of this name, made if it is missing. `_path` is for a subclass.
    #[new]
    #[pyo3(signature = (store, name, keys, values, _path=None))]
    fn new(
        py: Python<'_>,
        store: &RawStore,
        name: &str,
        keys: &Object<'_>,
        values: &Object<'_>,
        _path: Option<&Object<'_>>,
    ) -> PyResult<Self> {
        let codecs = Codecs::of(keys, values)?;
        Ok(RawMap { held: store.open_map(py, name)?, codecs })
    }

    /// For annotations.
    #[classmethod]
    fn __class_getitem__<'py>(
        class: &pyo3::Bound<'py, PyType>,
        _of: &Object<'py>,
    ) -> pyo3::Bound<'py, PyType> {
        class.clone()
    }

    fn __getitem__<'py>(&self, key: &Object<'py>) -> PyResult<Object<'py>> {
        if let Ok(slice) = key.cast::<PySlice>() {
            return self.sliced(key.py(), slice);
        }
        self.find(key)?.ok_or_else(|| missing(key))
    }

    fn __setitem__(&self, key: &Object<'_>, value: &Object<'_>) -> PyResult<()> {
        self.write(key, value, |map, key, value| map.put(key, value).map(|_| ()))
    }

    fn __delitem__(&self, key: &Object<'_>) -> PyResult<()> {
        let (py, encoded) = (key.py(), self.codecs.keys.encode(key)?);
        let encoded = encoded.as_ref();
        match self.held.write(py, 0, |map| map.remove(encoded))? {
            true => Ok(()),
            false => Err(missing(key)),
        }
    }

    fn __contains__(&self, key: &Object<'_>) -> PyResult<bool> {
        let py = key.py();
        self.codecs.has(key, |key| {
            if self.held.may_wait() {
                return py.detach(|| self.held.with(|map| map.contains(key)));
            }
            self.held.with(|map| map.contains(key))
        })
    }

    fn __len__(&self) -> PyResult<usize> {
        // None is also what a map says that cannot be asked; the numbers say why.
        self.held.with(|map| match map.len() {
            0 => Ok(map.statistics()?.keys as usize),
            keys => Ok(keys as usize),
        })
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Pairs> {
        self.all(py, false, What::Keys)
    }

    fn __reversed__(&self, py: Python<'_>) -> PyResult<Pairs> {
        self.all(py, true, What::Keys)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.codecs.traverse(&visit)
    }

    /// The value of a key, or a default.
    #[pyo3(signature = (key, default=None, /))]
    fn get<'py>(
        &self,
        key: &Object<'py>,
        default: Option<Object<'py>>,
    ) -> PyResult<Option<Object<'py>>> {
        Ok(self.find(key)?.or(default))
    }

    /// Removes a key, and returns its value, in one atomic step; or the default.
    #[pyo3(signature = (key, /, *default))]
    fn pop<'py>(
        &self,
        key: &Object<'py>,
        default: &pyo3::Bound<'py, PyTuple>,
    ) -> PyResult<Object<'py>> {
        if default.len() > 1 {
            let text = format!("pop takes a key and one default, not {}", default.len());
            return Err(PyTypeError::new_err(text));
        }
        match self.taken(key)? {
            Some(value) => Ok(value),
            None => default.get_item(0).map_err(|_| missing(key)),
        }
    }

    /// The value of a key, which is added with the default if it is not there; one atomic step.
    #[pyo3(signature = (key, default=None))]
    fn setdefault<'py>(
        &self,
        py: Python<'py>,
        key: &Object<'py>,
        default: Option<Object<'py>>,
    ) -> PyResult<Object<'py>> {
        let default = default.unwrap_or_else(|| py.None().into_bound(py));
        let mut made = None;
        loop {
            if let Some(found) = self.find(key)? {
                return Ok(found);
            }
            let values = &self.codecs.values;
            // Once: a codec of the program need not make the same bytes again.
            let (key, value) = match &mut made {
                Some(made) => &*made,
                none => &*none.insert((self.codecs.keys.encode(key)?, values.encode(&default)?)),
            };
            let (key, value) = (key.as_ref(), value.as_ref());
            if self.held.write(py, value.len(), |map| map.insert(key, value))? {
                return values.decoded(values.seen(py, value)?);
            }
        }
    }

    /// Adds a key unless it is there; says whether it was added.
    fn insert(&self, key: &Object<'_>, value: &Object<'_>) -> PyResult<bool> {
        self.write(key, value, |map, key, value| map.insert(key, value))
    }

    /// Sets a value, for so many seconds if `ttl` is given.
    #[pyo3(signature = (key, value, ttl=None))]
    fn put(&self, key: &Object<'_>, value: &Object<'_>, ttl: Option<f64>) -> PyResult<()> {
        let Some(ttl) = ttl else { return self.__setitem__(key, value) };
        let expiry = expiry_in(ttl)?;
        self.write(key, value, |map, key, value| {
            map.put_with_expiry(key, value, expiry).map(|_| ())
        })
    }

    /// Lets a key expire in so many seconds, or never (None). Says whether it is there.
    fn expire(&self, key: &Object<'_>, ttl: Option<f64>) -> PyResult<bool> {
        let expiry = ttl.map_or(Ok(Expiry::from_unix_ms(0)), expiry_in)?;
        let (py, key) = (key.py(), self.codecs.keys.encode(key)?);
        let key = key.as_ref();
        self.held.write(py, 0, |map| map.expire(key, expiry))
    }

    /// In how many seconds a key expires, or None for never. KeyError if it is not there.
    fn ttl(&self, key: &Object<'_>) -> PyResult<Option<f64>> {
        let encoded = self.codecs.keys.encode(key)?;
        let encoded = encoded.as_ref();
        let found = key.py().detach(|| self.held.with(|map| map.expiry(encoded)))?;
        let at_ms = found.ok_or_else(|| missing(key))?.as_unix_ms();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |now| now.as_secs_f64());
        // Its time may have come since it was looked for.
        Ok((at_ms != 0).then(|| (at_ms as f64 / 1000.0 - now).max(0.0)))
    }

    /// Changes a key if its value is as expected, in one atomic step; None stands for absent.
    fn compare_exchange(
        &self,
        key: &Object<'_>,
        expected: Option<Object<'_>>,
        value: Option<Object<'_>>,
    ) -> PyResult<bool> {
        let (py, key, values) = (key.py(), self.codecs.keys.encode(key)?, &self.codecs.values);
        let expected = expected.as_ref().map(|value| values.encode(value)).transpose()?;
        let value = value.as_ref().map(|value| values.encode(value)).transpose()?;
        let (key, expected) = (key.as_ref(), expected.as_ref().map(AsRef::as_ref));
        let value: Option<&[u8]> = value.as_ref().map(AsRef::as_ref);
        let size = value.map_or(0, <[u8]>::len);
        self.held.write(py, size, |map| map.exchange_if(key, expected, value))
    }

    /// Adds to the number that a key has, in one atomic step; an absent key counts as 0. Returns the number before.
    #[pyo3(signature = (key, amount=1))]
    fn add(&self, key: &Object<'_>, amount: i64) -> PyResult<i64> {
        let (py, key) = (key.py(), self.codecs.keys.encode(key)?);
        let key = key.as_ref();
        match self.codecs.values {
            Codec::Bytes | Codec::Text => self.held.write(py, 0, |map| map.fetch_add(key, amount)),
            Codec::Integer => self.held.write(py, 0, |map| add_encoded(map, key, amount)),
            _ => Err(PyTypeError::new_err("values of bytes, str and int are added to, not these")),
        }
    }

    /// Removes all keys, as one change.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        self.held.waits.during(py, || self.held.with(Map::clear))
    }

    /// An iterator over the 'keys', 'values' or 'pairs' of a range, in order, or from its end.
    fn pairs(
        &self,
        py: Python<'_>,
        low: Option<Object<'_>>,
        high: Option<Object<'_>>,
        inclusive: (bool, bool),
        reverse: bool,
        of: &str,
    ) -> PyResult<Pairs> {
        let ends = self.ends(low.as_ref(), high.as_ref(), inclusive)?;
        Reader::pairs(self, py, ends, reverse, what(of)?)
    }

    /// The number of keys of a range, by looking at them.
    fn count_range(
        &self,
        py: Python<'_>,
        low: Option<Object<'_>>,
        high: Option<Object<'_>>,
        inclusive: (bool, bool),
    ) -> PyResult<usize> {
        let ends = self.ends(low.as_ref(), high.as_ref(), inclusive)?;
        py.detach(|| {
            self.held.with(|map| {
                let mut count = 0;
                map.scan(ends).for_each(|_, _| count += 1)?;
                Ok(count)
            })
        })
    }

    /// The values of many keys, None where there is none.
    fn find_many<'py>(&self, keys: &Object<'py>) -> PyResult<Object<'py>> {
        many::find(&self.lookup()?, || self.held.may_wait(), &self.codecs, keys)
    }

    /// Puts many pairs, each for itself.
    fn put_pairs(&self, pairs: &Object<'_>) -> PyResult<()> {
        many::put(&self.held, &self.codecs, pairs)
    }

    /// Looks for the keys that are rows of a buffer, and fills the rows of another and bytes that say whether it was
    /// found; returns how many were. `forms`: what the rows of keys and values are, 'bytes', 'int' or 'float'.
    #[pyo3(signature = (keys, values, found, forms=("bytes", "bytes")))]
    fn get_columns(
        &self,
        py: Python<'_>,
        keys: &Object<'_>,
        values: &Object<'_>,
        found: &Object<'_>,
        forms: (&str, &str),
    ) -> PyResult<usize> {
        columns::get(py, &self.lookup()?, keys, values, found, forms)
    }

    /// Puts the pairs that are rows of two buffers. `forms` as in `get_columns`.
    #[pyo3(signature = (keys, values, forms=("bytes", "bytes")))]
    fn put_columns(
        &self,
        py: Python<'_>,
        keys: &Object<'_>,
        values: &Object<'_>,
        forms: (&str, &str),
    ) -> PyResult<()> {
        columns::put(py, &self.held, keys, values, forms)
    }
}
