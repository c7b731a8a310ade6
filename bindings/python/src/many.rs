//! Many keys in one call: lists and iterators of objects.

use everleaf::Map;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::codec::Encoded;
use crate::failure::raised;
use crate::held::Held;
use crate::reader::{Codecs, Object};

/// Keys of which the cache misses overlap, before another thread may have the interpreter.
const BLOCK: usize = 512;

/// The next objects of an iterator.
fn block<'py>(
    objects: &mut impl Iterator<Item = PyResult<Object<'py>>>,
) -> PyResult<Vec<Object<'py>>> {
    objects.take(BLOCK).collect()
}

/// The values of keys, in a list, None where there is none.
pub fn find<'py>(held: &Held, codecs: &Codecs, keys: &Object<'py>) -> PyResult<Object<'py>> {
    let (py, map) = (keys.py(), held.map()?);
    let found = PyList::empty(py);
    let mut keys = keys.try_iter()?;
    loop {
        let objects = block(&mut keys)?;
        if objects.is_empty() {
            return Ok(found.into_any());
        }
        let encoded = objects.iter().map(|key| codecs.keys.encode(key));
        let encoded: Vec<Encoded<'_, '_>> = encoded.collect::<PyResult<_>>()?;
        for value in find_block(held, &map, codecs, py, &encoded)? {
            match value {
                Some(value) => found.append(codecs.values.decoded(value)?)?,
                None => found.append(py.None())?,
            }
        }
        // Whoever waits for the interpreter has it now.
        py.detach(|| ());
    }
}

fn find_block<'py>(
    held: &Held,
    map: &Map,
    codecs: &Codecs,
    py: Python<'py>,
    keys: &[Encoded<'_, '_>],
) -> PyResult<Vec<Option<Object<'py>>>> {
    let keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
    let values = &codecs.values;
    let mut found = Vec::with_capacity(keys.len());
    if held.may_wait() {
        let copies = py.detach(|| {
            let mut copies = vec![None; keys.len()];
            map.get_many(&keys, |at, value| copies[at] = value.map(<[u8]>::to_vec)).map(|()| copies)
        });
        for value in copies.map_err(raised)? {
            found.push(value.map(|value| values.seen(py, &value)).transpose()?);
        }
        return Ok(found);
    }
    let mut failed = None;
    map.get_many(&keys, |_, value| match value.map(|value| values.seen(py, value)).transpose() {
        Ok(value) => found.push(value),
        Err(error) => {
            found.push(None);
            failed = Some(error);
        }
    })
    .map_err(raised)?;
    failed.map_or(Ok(found), Err)
}

/// Puts pairs, each for itself.
pub fn put(held: &Held, codecs: &Codecs, pairs: &Object<'_>) -> PyResult<()> {
    let (py, map) = (pairs.py(), held.map()?);
    let mut pairs = pairs.try_iter()?;
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
        py.detach(|| put_block(&map, bytes.iter().copied())).map_err(raised)?;
    }
}

/// A key and its value.
fn parts<'py>(pair: &Object<'py>) -> PyResult<(Object<'py>, Object<'py>)> {
    match pair.cast_exact::<PyTuple>() {
        Ok(tuple) if tuple.len() == 2 => Ok((tuple.get_item(0)?, tuple.get_item(1)?)),
        _ => pair.extract(),
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
