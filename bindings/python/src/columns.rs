//! Many keys and values in arrays, of NumPy or anything else with the buffer protocol, without an object
//! for each.
//!
//! The bytes are copied out of and into the arrays while the interpreter is held, because other threads
//! may write to them; the work is done without it.

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::map::Held;

/// The bytes of an array, and how many each of its rows has.
struct Column {
    bytes: Vec<u8>,
    row: usize,
}

fn buffer(array: &Bound<'_, PyAny>) -> PyResult<PyBuffer<u8>> {
    let buffer = PyBuffer::<u8>::get(array)?;
    if !buffer.is_c_contiguous() || buffer.dimensions() != 2 {
        return Err(PyValueError::new_err("a column is an array of bytes with a row for each key"));
    }
    Ok(buffer)
}

fn row_of(buffer: &PyBuffer<u8>) -> usize {
    buffer.shape().get(1).copied().unwrap_or(0)
}

fn column(py: Python<'_>, array: &Bound<'_, PyAny>) -> PyResult<Column> {
    let buffer = buffer(array)?;
    Ok(Column { row: row_of(&buffer), bytes: buffer.to_vec(py)? })
}

impl Column {
    /// The rows as keys.
    fn keys(&self) -> PyResult<Vec<&[u8]>> {
        match self.row {
            0 => Err(PyValueError::new_err("a key has at least one byte")),
            row => Ok(self.bytes.chunks_exact(row).collect()),
        }
    }
}

/// Puts a pair for each row.
pub fn put(
    py: Python<'_>,
    held: &Held,
    keys: &Bound<'_, PyAny>,
    values: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let (keys, values) = (column(py, keys)?, column(py, values)?);
    let rows = keys.keys()?;
    if rows.len().checked_mul(values.row) != Some(values.bytes.len()) {
        return Err(PyValueError::new_err("there is not one value for each key"));
    }
    py.detach(|| {
        held.with(|map| {
            for (index, key) in rows.iter().enumerate() {
                map.put(key, &values.bytes[index * values.row..][..values.row])?;
            }
            Ok(())
        })
    })
}

/// Fills a row of `values` and an item of `found` for each row of `keys`. Returns how many were found.
pub fn get(
    py: Python<'_>,
    held: &Held,
    keys: &Bound<'_, PyAny>,
    values: &Bound<'_, PyAny>,
    found: &Bound<'_, PyAny>,
) -> PyResult<usize> {
    let keys = column(py, keys)?;
    let rows = keys.keys()?;
    let (to_values, to_found) = (buffer(values)?, PyBuffer::<u8>::get(found)?);
    let row = row_of(&to_values);
    if to_values.item_count() != rows.len() * row || to_found.item_count() != rows.len() {
        return Err(PyValueError::new_err("the arrays do not have a row for each key"));
    }
    let (mut copies, mut marks) = (vec![0; rows.len() * row], vec![0; rows.len()]);
    let mut wrong = None;
    py.detach(|| {
        held.with(|map| {
            map.get_many(&rows, |index, value| match value {
                Some(value) if value.len() == row => {
                    copies[index * row..][..row].copy_from_slice(value);
                    marks[index] = 1;
                }
                Some(value) => wrong = Some(value.len()),
                None => {}
            })
        })
    })?;
    if let Some(size) = wrong {
        let text = format!("a value has {size} bytes, and the rows have {row}");
        return Err(PyValueError::new_err(text));
    }
    to_values.copy_from_slice(py, &copies)?;
    to_found.copy_from_slice(py, &marks)?;
    Ok(marks.iter().filter(|mark| **mark == 1).count())
}
