//! Many keys in one call: lists and iterators of objects.

use std::sync::Arc;

use everleaf::{Map, MapView};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};

use crate::codec::Encoded;
use crate::failure::raised;
use crate::held::Held;
use crate::reader::{Codecs, Object};
use crate::room::copy_of;
use crate::turns;

/// Keys of which the cache misses overlap, before another thread may have the interpreter.
const BLOCK: usize = 512;

/// Where many keys are looked for.
pub enum Lookup {
    Map(Arc<Held>),
    View(MapView),
}

impl Lookup {
    /// As [`Map::get_many`], of either. A map that is closed between two blocks of keys is closed for the next.
    pub fn get_many(&self, keys: &[&[u8]], see: impl FnMut(usize, Option<&[u8]>)) -> PyResult<()> {
        match self {
            Lookup::Map(held) => held.with(|map| map.get_many(keys, see)),
            Lookup::View(view) => view.get_many(keys, see).map_err(raised),
        }
    }

    /// Whether rows of keys and values, with so many bytes each, are looked for in the order of the keys.
    pub fn are_near(&self, rows: usize, row_bytes: usize) -> PyResult<bool> {
        match self {
            Lookup::Map(held) => {
                turns::are_near(rows, row_bytes, || held.with(|map| Ok(map.len())))
            }
            Lookup::View(_) => Ok(false),
        }
    }

    /// As [`Map::get_rows`], of either.
    pub fn get_rows(
        &self,
        keys: &[u8],
        key_size: usize,
        value_size: usize,
        see: impl FnMut(usize, Option<&[u8]>),
    ) -> PyResult<()> {
        match self {
            Lookup::Map(held) => held.with(|map| map.get_rows(keys, key_size, value_size, see)),
            Lookup::View(_) => {
                let keys: Vec<&[u8]> = keys.chunks_exact(key_size).collect();
                self.get_many(&keys, see)
            }
        }
    }
}

/// The next objects of an iterator.
fn block<'py>(
    objects: &mut impl Iterator<Item = PyResult<Object<'py>>>,
) -> PyResult<Vec<Object<'py>>> {
    objects.take(BLOCK).collect()
}

/// The values of keys, in a list, None where there is none. `may_wait` says before each block whether the
/// lookup may have to.
pub fn find<'py>(
    lookup: &Lookup,
    may_wait: impl Fn() -> bool,
    codecs: &Codecs,
    keys: &Object<'py>,
) -> PyResult<Object<'py>> {
    let py = keys.py();
    let found = PyList::empty(py);
    let mut keys = keys.try_iter()?;
    loop {
        let objects = block(&mut keys)?;
        if objects.is_empty() {
            return Ok(found.into_any());
        }
        let encoded = objects.iter().map(|key| codecs.keys.encode(key));
        let encoded: Vec<Encoded<'_, '_>> = encoded.collect::<PyResult<_>>()?;
        for value in find_block(lookup, may_wait(), codecs, py, &encoded)? {
            match value {
                Some(value) => found.append(codecs.values.decoded(value)?)?,
                None => found.append(py.None())?,
            }
        }
        // A thread that waits for the interpreter has it now, and so has one that wants to end this.
        py.detach(|| ());
        py.check_signals()?;
    }
}

fn find_block<'py>(
    lookup: &Lookup,
    may_wait: bool,
    codecs: &Codecs,
    py: Python<'py>,
    keys: &[Encoded<'_, '_>],
) -> PyResult<Vec<Option<Object<'py>>>> {
    let keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
    let values = &codecs.values;
    let mut found = Vec::with_capacity(keys.len());
    if may_wait {
        let copies = py.detach(|| {
            let (mut copies, mut failed) = (vec![None; keys.len()], None);
            lookup.get_many(&keys, |at, value| match value.map(copy_of).transpose() {
                Ok(copy) => copies[at] = copy,
                Err(error) => failed = Some(error),
            })?;
            failed.map_or(Ok(copies), Err)
        });
        for value in copies? {
            found.push(value.map(|value| values.seen(py, &value)).transpose()?);
        }
        return Ok(found);
    }
    let mut failed = None;
    lookup.get_many(&keys, |_, value| {
        match value.map(|value| values.seen(py, value)).transpose() {
            Ok(value) => found.push(value),
            Err(error) => {
                found.push(None);
                failed = Some(error);
            }
        }
    })?;
    failed.map_or(Ok(found), Err)
}

/// Puts pairs, each for itself.
pub fn put(held: &Held, codecs: &Codecs, pairs: &Object<'_>) -> PyResult<()> {
    let py = pairs.py();
    let mut pairs = pairs.try_iter()?;
    // Told of also where there are no pairs.
    held.with(|_| Ok(()))?;
    loop {
        let block = block(&mut pairs)?;
        if block.is_empty() {
            return Ok(());
        }
        let parts = block.iter().map(parts).collect::<PyResult<Vec<_>>>()?;
        let encoded = parts
            .iter()
            .map(|(key, value)| Ok((codecs.keys.encode(key)?, codecs.values.encode(value)?)));
        let encoded = encoded.collect::<PyResult<Vec<_>>>()?;
        let bytes = encoded.iter().map(|(key, value)| (key.as_ref(), value.as_ref()));
        let bytes: Vec<(&[u8], &[u8])> = bytes.collect();
        // Each block for itself: a store that is closed meanwhile is closed then, and not when the pairs end.
        py.detach(|| held.with(|map| put_block(map, bytes.iter().copied())))?;
        py.check_signals()?;
    }
}

/// The bytes of pairs, all of them: they are taken out of their objects before a detached thread has them.
pub fn collect(codecs: &Codecs, pairs: &Object<'_>) -> PyResult<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut found = vec![];
    for (count, pair) in pairs.try_iter()?.enumerate() {
        if count.is_multiple_of(BLOCK) {
            // A thread that waits for the interpreter has it now, and so has one that wants to end this.
            pairs.py().detach(|| ());
            pairs.py().check_signals()?;
        }
        let (key, value) = parts(&pair?)?;
        let (key, value) = (codecs.keys.encode(&key)?, codecs.values.encode(&value)?);
        found.push((copy_of(key.as_ref())?, copy_of(value.as_ref())?));
    }
    Ok(found)
}

/// A key and its value.
fn parts<'py>(pair: &Object<'py>) -> PyResult<(Object<'py>, Object<'py>)> {
    match pair.cast_exact::<PyTuple>() {
        Ok(tuple) if tuple.len() == 2 => Ok((tuple.get_item(0)?, tuple.get_item(1)?)),
        _ => parts_of_other(pair),
    }
}

/// [`parts`] of what is no tuple of two: anything that yields two objects, as a dictionary takes it. But text and bytes
/// are none: then a mapping was meant, and its keys were passed.
#[inline(never)]
fn parts_of_other<'py>(pair: &Object<'py>) -> PyResult<(Object<'py>, Object<'py>)> {
    if pair.is_instance_of::<PyString>() || pair.is_instance_of::<PyBytes>() {
        let name = pair.get_type().name()?;
        return Err(PyTypeError::new_err(format!("pairs are wanted, not {name}")));
    }
    let mut parts = pair.try_iter()?;
    match (parts.next().transpose()?, parts.next().transpose()?, parts.next().transpose()?) {
        (Some(key), Some(value), None) => Ok((key, value)),
        _ => Err(PyValueError::new_err("a pair has a key and a value, and nothing else")),
    }
}

/// Puts pairs whose leaves are brought into the cache first, together.
pub fn put_block<'a>(
    map: &Map,
    pairs: impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone,
) -> everleaf::Result<()> {
    let keys: Vec<&[u8]> = pairs.clone().map(|(key, _)| key).collect();
    map.prefetch(&keys)?;
    for (key, value) in pairs {
        map.put(key, value)?;
    }
    Ok(())
}
