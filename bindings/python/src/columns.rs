//! Many keys and values in arrays, of NumPy or anything else with the buffer protocol, without an object
//! for each.
//!
//! A block of keys is copied out of the array, and worked on by a detached thread; blocks are small enough
//! to stay in the cache. Where an array of short keys and values asks for a good part of a map, its rows are looked for
//! in the order of their keys (`turns.rs`), in larger blocks. Values are copied from their records into the array.
//! Other threads may write to an array meanwhile, and then it is open which of its bytes are used; they are copied
//! exactly once.

use std::ptr::NonNull;

use everleaf::{KEY_SIZE_MAX, Map, VALUE_SIZE_MAX};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::codec::{int_bytes, int_of, real_bytes, real_key_bytes, real_of};
use crate::failure::raised;
use crate::held::Held;
use crate::many::{Lookup, put_block};
use crate::room::room;
use crate::turns::{self, Turns, row_of};

/// Bytes of keys and values in a block, and rows at most.
const BLOCK_BYTES: usize = 128 << 10;
const BLOCK_ROWS: usize = 1024;

/// What the rows of an array are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The bytes of keys or values.
    Bytes,
    /// Integers of 64 bits, as the machine has them.
    Int,
    /// Floating-point numbers of 64 bits, as the machine has them.
    Float,
}

impl Form {
    /// From its name, with the bytes that a row has.
    fn of(name: &str, row: usize) -> PyResult<Form> {
        match (name, row) {
            ("bytes", _) => Ok(Form::Bytes),
            ("int", 8) => Ok(Form::Int),
            ("float", 8) => Ok(Form::Float),
            _ => Err(PyValueError::new_err("rows are 'bytes', or eight of them 'int' or 'float'")),
        }
    }

    /// Makes rows those of keys, in place.
    fn encode_keys(self, rows: &mut [u8]) -> PyResult<()> {
        if self != Form::Float {
            self.encode_values(rows);
            return Ok(());
        }
        for row in rows.as_chunks_mut().0 {
            *row = real_key_bytes(f64::from_ne_bytes(*row))?;
        }
        Ok(())
    }

    /// Makes rows those of values, in place.
    fn encode_values(self, rows: &mut [u8]) {
        let (rows, _) = rows.as_chunks_mut();
        match self {
            Form::Bytes => {}
            Form::Int => rows.iter_mut().for_each(|row| *row = int_bytes(i64::from_ne_bytes(*row))),
            Form::Float => {
                rows.iter_mut().for_each(|row| *row = real_bytes(f64::from_ne_bytes(*row)));
            }
        }
    }
}

/// An array of bytes, with rows of one size.
struct Column {
    buffer: PyBuffer<u8>,
    row: usize,
    rows: usize,
}

impl Column {
    fn of(array: &Bound<'_, PyAny>) -> PyResult<Self> {
        let buffer = PyBuffer::<u8>::get(array)?;
        if !buffer.is_c_contiguous() || buffer.dimensions() != 2 {
            return Err(PyValueError::new_err(
                "a column is an array of bytes with a row for each key",
            ));
        }
        let [rows, row] = buffer.shape() else {
            return Err(PyValueError::new_err("a column has rows"));
        };
        Ok(Column { row: *row, rows: *rows, buffer })
    }

    fn of_keys(array: &Bound<'_, PyAny>) -> PyResult<Self> {
        let column = Column::of(array)?;
        match column.row {
            0 => Err(PyValueError::new_err("a key has at least one byte")),
            1..=KEY_SIZE_MAX => Ok(column),
            row => Err(raised(everleaf::Error::KeyTooLarge(row))),
        }
    }

    fn of_values(array: &Bound<'_, PyAny>) -> PyResult<Self> {
        let column = Column::of(array)?;
        match column.row {
            0..=VALUE_SIZE_MAX => Ok(column),
            row => Err(raised(everleaf::Error::ValueTooLarge(row))),
        }
    }

    /// Copies rows, from number `first` on, as many as fit, to `block`.
    fn read(&self, first: usize, block: &mut [u8]) {
        read(&self.buffer, first * self.row, block);
    }
}

/// Refuses arrays that cannot be written to.
fn writable(buffer: &PyBuffer<u8>) -> PyResult<()> {
    match buffer.readonly() || !buffer.is_c_contiguous() {
        true => {
            Err(PyValueError::new_err("an array for results is contiguous and can be written to"))
        }
        false => Ok(()),
    }
}

/// Copies bytes of an array, from `from` on.
#[allow(unsafe_code, reason = "a part of a buffer cannot be copied in safe code")]
fn read(buffer: &PyBuffer<u8>, from: usize, to: &mut [u8]) {
    let Some(bytes) = buffer.as_slice_ptr() else { return };
    assert!(
        from.checked_add(to.len()).is_some_and(|end| end <= bytes.len()),
        "a part of the array"
    );
    // SAFETY: `from` is within the array: just compared.
    let start = unsafe { bytes.cast::<u8>().add(from) };
    // SAFETY: the array is C-contiguous (`as_slice_ptr`), keeps its memory as long as `buffer` is there, and
    // so many bytes of it follow `start`: just compared. `to` is memory of ours, and no part of it. The
    // bytes are copied whatever they are, once, as by any user of the buffer protocol; a thread that writes
    // to the array meanwhile decides what they are.
    unsafe { start.as_ptr().copy_to_nonoverlapping(to.as_mut_ptr(), to.len()) };
}

/// The bytes of an array that can be written to.
struct Room<'a> {
    bytes: NonNull<[u8]>,
    _buffer: &'a PyBuffer<u8>,
}

impl<'a> Room<'a> {
    /// `None`: it is not contiguous.
    fn of(buffer: &'a PyBuffer<u8>) -> Option<Self> {
        assert!(!buffer.readonly(), "an array that can be written to");
        Some(Room { bytes: buffer.as_slice_ptr()?, _buffer: buffer })
    }

    /// Copies bytes into it, from `to` on.
    #[allow(unsafe_code, reason = "a part of a buffer cannot be copied in safe code")]
    fn write(&self, to: usize, from: &[u8]) {
        assert!(
            to.checked_add(from.len()).is_some_and(|end| end <= self.bytes.len()),
            "a part of the array"
        );
        // SAFETY: `to` is within the array: just compared.
        let start = unsafe { self.bytes.cast::<u8>().add(to) };
        // SAFETY: as in `read`, the other way round: so many bytes follow `start`, and the array can be written
        // to and keeps its memory as long as the buffer is there, which is borrowed (`of`).
        unsafe { start.as_ptr().copy_from_nonoverlapping(from.as_ptr(), from.len()) };
    }
}

/// Rows in a block.
fn rows_of_block(row: usize) -> usize {
    (BLOCK_BYTES / row.max(1)).clamp(1, BLOCK_ROWS)
}

/// The turns of rows that are looked for as they come.
static IN_TURN: [u32; BLOCK_ROWS] = {
    let mut turns = [0; BLOCK_ROWS];
    let mut row = 0;
    while row < BLOCK_ROWS {
        turns[row] = row as u32;
        row += 1;
    }
    turns
};

/// Puts a pair for each row.
pub fn put(
    py: Python<'_>,
    held: &Held,
    keys: &Bound<'_, PyAny>,
    values: &Bound<'_, PyAny>,
    forms: (&str, &str),
) -> PyResult<()> {
    let (keys, values) = (Column::of_keys(keys)?, Column::of_values(values)?);
    let forms = (Form::of(forms.0, keys.row)?, Form::of(forms.1, values.row)?);
    if keys.rows != values.rows {
        return Err(PyValueError::new_err("there is not one value for each key"));
    }
    // Told of also where there are no rows.
    held.with(|_| Ok(()))?;
    let size = rows_of_block(keys.row + values.row);
    let size = size.min(keys.rows);
    let (mut key_bytes, mut value_bytes) = (room(size * keys.row)?, room(size * values.row)?);
    for first in (0..keys.rows).step_by(size.max(1)) {
        let count = size.min(keys.rows - first);
        let key_bytes = &mut key_bytes[..count * keys.row];
        let value_bytes = &mut value_bytes[..count * values.row];
        keys.read(first, key_bytes);
        values.read(first, value_bytes);
        forms.0.encode_keys(key_bytes)?;
        forms.1.encode_values(value_bytes);
        let row = (keys.row, values.row);
        py.detach(|| held.with(|map| put_rows(map, key_bytes, value_bytes, row)))?;
        py.check_signals()?;
    }
    Ok(())
}

fn put_rows(map: &Map, keys: &[u8], values: &[u8], row: (usize, usize)) -> everleaf::Result<()> {
    let value = |at: usize| &values[at * row.1..][..row.1];
    put_block(map, keys.chunks_exact(row.0).enumerate().map(|(at, key)| (key, value(at))))
}

/// Where what is found goes: the rows of `values` and the items of `found` from `first` on.
struct Target<'a> {
    values: &'a Column,
    found: &'a PyBuffer<u8>,
    first: usize,
    form: Form,
}

/// What became of a block of keys.
#[derive(Default)]
struct BlockResult {
    hits: usize,
    /// The size of a value that is none of a row.
    wrong: Option<usize>,
}

impl Target<'_> {
    /// Looks for a block of keys, and writes the values where they go, each copied once: out of its record. `marks` has
    /// room for one of each.
    fn find(
        &self,
        lookup: &Lookup,
        keys: &[u8],
        key_row: usize,
        marks: &mut [u8],
        turns: Option<&mut Turns>,
    ) -> PyResult<BlockResult> {
        let marks = &mut marks[..keys.len() / key_row];
        marks.fill(0);
        let mut outcome = BlockResult::default();
        let Some(found) = Room::of(self.found) else { return Ok(outcome) };
        match turns {
            None => self.find_rows(lookup, (keys, key_row), &IN_TURN, marks, &mut outcome)?,
            Some(turns) => {
                let mut near = [0; BLOCK_ROWS * turns::ROW_BYTES];
                for turns in turns.sorted(keys, key_row).chunks(BLOCK_ROWS) {
                    let near = &mut near[..turns.len() * key_row];
                    gather(near, keys, key_row, turns);
                    self.find_rows(lookup, (near, key_row), turns, marks, &mut outcome)?;
                }
            }
        }
        found.write(self.first, marks);
        Ok(outcome)
    }

    /// Looks for keys, each of them that of the row of its turn.
    fn find_rows(
        &self,
        lookup: &Lookup,
        keys: (&[u8], usize),
        turns: &[u32],
        marks: &mut [u8],
        outcome: &mut BlockResult,
    ) -> PyResult<()> {
        let row = self.values.row;
        match self.form {
            Form::Bytes => self.find_by(lookup, keys, turns, marks, outcome, |room, to, value| {
                let fits = value.len() == row;
                if fits {
                    room.write(to, value);
                }
                fits
            }),
            Form::Int => self.find_by(lookup, keys, turns, marks, outcome, |room, to, value| {
                let number = int_of(value);
                number.inspect(|number| room.write(to, &number.to_ne_bytes())).is_some()
            }),
            Form::Float => self.find_by(lookup, keys, turns, marks, outcome, |room, to, value| {
                let number = real_of(value);
                number.inspect(|number| room.write(to, &number.to_ne_bytes())).is_some()
            }),
        }
    }

    /// `write` writes a value to its place, if it is one of such a row, and says whether it is.
    #[inline(always)]
    fn find_by(
        &self,
        lookup: &Lookup,
        (keys, key_row): (&[u8], usize),
        turns: &[u32],
        marks: &mut [u8],
        outcome: &mut BlockResult,
        write: impl Fn(&Room<'_>, usize, &[u8]) -> bool,
    ) -> PyResult<()> {
        let row = self.values.row;
        let Some(room) = Room::of(&self.values.buffer) else { return Ok(()) };
        lookup.get_rows(keys, key_row, row, |at, value| {
            let Some(value) = value else { return };
            let number = row_of(turns[at]);
            if write(&room, (self.first + number) * row, value) {
                marks[number] = 1;
                outcome.hits += 1;
            } else {
                outcome.wrong = Some(value.len());
            }
        })
    }
}

/// Copies the keys of some turns.
fn gather(near: &mut [u8], keys: &[u8], size: usize, turns: &[u32]) {
    const WORD: usize = size_of::<u64>();
    if size == WORD {
        let ((near, _), (keys, _)) = (near.as_chunks_mut::<WORD>(), keys.as_chunks::<WORD>());
        near.iter_mut().zip(turns).for_each(|(key, turn)| *key = keys[row_of(*turn)]);
        return;
    }
    for (key, turn) in near.chunks_exact_mut(size).zip(turns) {
        key.copy_from_slice(&keys[row_of(*turn) * size..][..size]);
    }
}

/// Fills a row of `values` and an item of `found` for each row of `keys`; rows of keys that are not there
/// stay as they are. Returns how many were found.
pub fn get(
    py: Python<'_>,
    lookup: &Lookup,
    keys: &Bound<'_, PyAny>,
    values: &Bound<'_, PyAny>,
    found: &Bound<'_, PyAny>,
    forms: (&str, &str),
) -> PyResult<usize> {
    let (keys, values) = (Column::of_keys(keys)?, Column::of_values(values)?);
    let (key_form, form) = (Form::of(forms.0, keys.row)?, Form::of(forms.1, values.row)?);
    let marks = PyBuffer::<u8>::get(found)?;
    if values.rows != keys.rows || marks.item_count() != keys.rows {
        return Err(PyValueError::new_err("the arrays do not have a row for each key"));
    }
    writable(&values.buffer)?;
    writable(&marks)?;
    let are_near = lookup.are_near(keys.rows, keys.row + values.row)?;
    let size = if are_near { turns::ROWS_MAX } else { rows_of_block(keys.row + values.row) };
    let size = size.min(keys.rows);
    let mut turns = are_near.then(|| Turns::new(size)).transpose()?;
    let (mut block, mut marks_of, mut hits) = (room(size * keys.row)?, room(size)?, 0);
    for first in (0..keys.rows).step_by(size.max(1)) {
        let block = &mut block[..size.min(keys.rows - first) * keys.row];
        keys.read(first, block);
        key_form.encode_keys(block)?;
        let target = Target { values: &values, found: &marks, first, form };
        let (turns, marks) = (turns.as_mut(), &mut marks_of);
        let outcome = py.detach(|| target.find(lookup, block, keys.row, marks, turns))?;
        if let Some(size) = outcome.wrong {
            let text = format!("a value has {size} bytes, and the rows have {}", values.row);
            return Err(PyValueError::new_err(text));
        }
        hits += outcome.hits;
        py.check_signals()?;
    }
    Ok(hits)
}
