//! Memory of which the interpreter is told if there is none.

use pyo3::PyResult;
use pyo3::exceptions::PyMemoryError;

/// So many bytes or numbers, or `MemoryError`: an allocation that fails would end the interpreter.
pub fn room<T: Clone + Default>(size: usize) -> PyResult<Vec<T>> {
    let mut room = Vec::new();
    room.try_reserve_exact(size).map_err(|error| PyMemoryError::new_err(error.to_string()))?;
    room.resize(size, T::default());
    Ok(room)
}

/// A copy of bytes, or `MemoryError`.
pub fn copy_of(bytes: &[u8]) -> PyResult<Vec<u8>> {
    let mut copy = room(bytes.len())?;
    copy.copy_from_slice(bytes);
    Ok(copy)
}
