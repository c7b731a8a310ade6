//! Objects as bytes: bytes, text and numbers here, everything else by functions in Python.
//!
//! The same encodings are in `everleaf/codecs.py`, one function at a time, with that of floats as it is for keys; a
//! test compares them.

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::{PyBytes, PyFloat, PyInt, PyString};

use crate::room::room;

/// How objects become bytes, and bytes objects.
pub enum Codec {
    Bytes,
    Text,
    Integer,
    /// Of keys: what is not a number has no place among them, and there is one zero.
    RealKey,
    /// Of values, which have no order: any float, as it is.
    RealValue,
    /// By functions in Python.
    Own {
        encode: Py<PyAny>,
        decode: Py<PyAny>,
    },
}

/// The bytes of an object.
pub enum Encoded<'a, 'py> {
    /// Those of the object itself.
    Borrowed(&'a [u8]),
    Number([u8; 8]),
    Owned(Vec<u8>),
    Made(Bound<'py, PyBytes>),
}

impl AsRef<[u8]> for Encoded<'_, '_> {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        match self {
            Encoded::Borrowed(bytes) => bytes,
            Encoded::Number(bytes) => bytes,
            Encoded::Owned(bytes) => bytes,
            Encoded::Made(bytes) => bytes.as_bytes(),
        }
    }
}

const SIGN: u64 = 1 << 63;

/// Objects that are made of bytes, with a `MemoryError` where there is no memory for them: PyO3's functions panic then.
mod made {
    use pyo3::ffi::{Py_ssize_t, PyBytes_FromStringAndSize, PyObject, PyUnicode_FromStringAndSize};
    use pyo3::{Bound, PyAny, PyResult, Python};

    #[inline]
    #[allow(unsafe_code, reason = "a function of Python's C interface")]
    pub fn bytes<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        // SAFETY: so many bytes are there, whatever they are; they are copied.
        owned(py, unsafe { PyBytes_FromStringAndSize(bytes.as_ptr().cast(), size_of(bytes)) })
    }

    #[inline]
    #[allow(unsafe_code, reason = "a function of Python's C interface")]
    pub fn text<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyAny>> {
        let bytes = text.as_bytes();
        // SAFETY: as in `bytes`.
        owned(py, unsafe { PyUnicode_FromStringAndSize(bytes.as_ptr().cast(), size_of(bytes)) })
    }

    #[inline(always)]
    fn size_of(bytes: &[u8]) -> Py_ssize_t {
        // No slice has more than `isize::MAX` bytes.
        bytes.len().cast_signed()
    }

    #[inline(always)]
    #[allow(unsafe_code, reason = "what a function of Python's C interface returns")]
    fn owned(py: Python<'_>, made: *mut PyObject) -> PyResult<Bound<'_, PyAny>> {
        // SAFETY: it is a new reference, or NULL with an exception set.
        unsafe { Bound::from_owned_ptr_or_err(py, made) }
    }
}

impl Codec {
    /// The codec that a `everleaf.codecs.Codec` describes, for keys or for values.
    pub fn of(described: &Bound<'_, PyAny>, is_of_keys: bool) -> PyResult<Codec> {
        let native: String = described.getattr("native")?.extract()?;
        Ok(match native.as_str() {
            "bytes" => Codec::Bytes,
            "str" => Codec::Text,
            "int" => Codec::Integer,
            "float" if is_of_keys => Codec::RealKey,
            "float" => Codec::RealValue,
            _ => Codec::Own {
                encode: described.getattr("encode")?.unbind(),
                decode: described.getattr("decode")?.unbind(),
            },
        })
    }

    /// The same codec, with references of its own to its functions: the collector of cycles counts those of each
    /// object.
    pub fn clone_ref(&self, py: Python<'_>) -> Codec {
        match self {
            Codec::Bytes => Codec::Bytes,
            Codec::Text => Codec::Text,
            Codec::Integer => Codec::Integer,
            Codec::RealKey => Codec::RealKey,
            Codec::RealValue => Codec::RealValue,
            Codec::Own { encode, decode } => {
                Codec::Own { encode: encode.clone_ref(py), decode: decode.clone_ref(py) }
            }
        }
    }

    /// Shows the collector of cycles what it refers to.
    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        let Codec::Own { encode, decode } = self else { return Ok(()) };
        visit.call(encode)?;
        visit.call(decode)
    }

    /// The bytes of an object.
    #[inline]
    pub fn encode<'a, 'py>(&self, object: &'a Bound<'py, PyAny>) -> PyResult<Encoded<'a, 'py>> {
        match self {
            Codec::Bytes => match object.cast::<PyBytes>() {
                Ok(bytes) => Ok(Encoded::Borrowed(bytes.as_bytes())),
                Err(_) => copied(object),
            },
            Codec::Text => match object.cast::<PyString>() {
                Ok(text) => Ok(Encoded::Borrowed(text.to_str()?.as_bytes())),
                Err(_) => Err(wrong("a str is", object)),
            },
            Codec::Integer => integer(object).map(Encoded::Number),
            Codec::RealKey => real_key_bytes(real(object)?).map(Encoded::Number),
            Codec::RealValue => Ok(Encoded::Number(real_bytes(real(object)?))),
            Codec::Own { encode, .. } => {
                let made = encode.bind(object.py()).call1((object,))?;
                match made.cast_into::<PyBytes>() {
                    Ok(made) => Ok(Encoded::Made(made)),
                    Err(error) => {
                        Err(wrong("the codec makes no bytes: they are", &error.into_inner()))
                    }
                }
            }
        }
    }

    /// An object of bytes that may be gone soon. It runs no function of Python: [`Self::decoded`] does.
    #[inline]
    pub fn seen<'py>(&self, py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Codec::Bytes | Codec::Own { .. } => made::bytes(py, bytes),
            Codec::Text => match std::str::from_utf8(bytes) {
                Ok(text) => made::text(py, text),
                Err(_) => Err(PyValueError::new_err("what is stored is no str")),
            },
            Codec::Integer => match int_of(bytes) {
                Some(number) => Ok(PyInt::new(py, number).into_any()),
                None => Err(PyValueError::new_err("what is stored is no int")),
            },
            Codec::RealKey | Codec::RealValue => match real_of(bytes) {
                Some(number) => Ok(PyFloat::new(py, number).into_any()),
                None => Err(PyValueError::new_err("what is stored is no float")),
            },
        }
    }

    /// The object that [`Self::seen`] has begun.
    #[inline]
    pub fn decoded<'py>(&self, seen: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Codec::Own { decode, .. } => decode.bind(seen.py()).call1((seen,)),
            _ => Ok(seen),
        }
    }
}

/// The bytes of an integer, in the order of integers.
pub fn int_bytes(number: i64) -> [u8; 8] {
    (number.cast_unsigned() ^ SIGN).to_be_bytes()
}

/// What [`int_bytes`] has made bytes of.
pub fn int_of(bytes: &[u8]) -> Option<i64> {
    Some((u64::from_be_bytes(bytes.try_into().ok()?) ^ SIGN).cast_signed())
}

/// The bytes of an object that is an integer.
fn integer(object: &Bound<'_, PyAny>) -> PyResult<[u8; 8]> {
    let number = match object.cast::<PyInt>() {
        Ok(number) => number.extract::<i64>(),
        Err(_) => index_of(object),
    };
    match number {
        Ok(number) => Ok(int_bytes(number)),
        Err(error) if error.is_instance_of::<PyOverflowError>(object.py()) => {
            Err(PyOverflowError::new_err("an int has 64 bits"))
        }
        Err(error) => Err(error),
    }
}

/// What is an integer without being an `int`, as those of NumPy.
#[inline(never)]
fn index_of(object: &Bound<'_, PyAny>) -> PyResult<i64> {
    match object.hasattr("__index__")? {
        true => object.extract(),
        false => Err(wrong("an int is", object)),
    }
}

/// An object as a floating-point number. An integer must be one: two keys that differ would become one.
#[inline]
fn real(object: &Bound<'_, PyAny>) -> PyResult<f64> {
    match object.cast::<PyFloat>() {
        Ok(number) => Ok(number.value()),
        Err(_) => real_of_other(object),
    }
}

/// [`real`] of what is no `float`.
#[inline(never)]
fn real_of_other(object: &Bound<'_, PyAny>) -> PyResult<f64> {
    let number: f64 = object.extract()?;
    let integer = match object.is_instance_of::<PyInt>() {
        true => Some(object.clone()),
        // Those of NumPy: their own comparison would round them as well.
        false if object.hasattr("__index__")? => Some(object.call_method0("__index__")?),
        false => None,
    };
    match integer {
        Some(integer) if !integer.eq(number)? => {
            Err(PyOverflowError::new_err("a float of 64 bits does not hold this int"))
        }
        _ => Ok(number),
    }
}

/// The bytes of a floating-point number that is a key, in the order of such numbers.
pub fn real_key_bytes(number: f64) -> PyResult<[u8; 8]> {
    if number.is_nan() {
        return Err(PyValueError::new_err("what is not a number has no place in an order"));
    }
    // One zero for both.
    Ok(real_bytes(number + 0.0))
}

/// The bytes of any floating-point number.
pub fn real_bytes(number: f64) -> [u8; 8] {
    let bits = number.to_bits();
    // Negative numbers the other way round, and before the positive ones.
    if bits & SIGN == 0 { bits ^ SIGN } else { !bits }.to_be_bytes()
}

/// What [`real_bytes`] has made bytes of.
pub fn real_of(bytes: &[u8]) -> Option<f64> {
    let bits = u64::from_be_bytes(bytes.try_into().ok()?);
    Some(f64::from_bits(if bits & SIGN == 0 { !bits } else { bits ^ SIGN }))
}

/// The bytes of what is not `bytes` but as good.
#[cold]
fn copied<'a, 'py>(object: &'a Bound<'py, PyAny>) -> PyResult<Encoded<'a, 'py>> {
    let py = object.py();
    let builtins = py.import("builtins")?;
    for name in ["bytearray", "memoryview"] {
        if object.is_instance(&builtins.getattr(name)?)? {
            return match PyBuffer::<u8>::get(object) {
                Ok(buffer) => {
                    let mut copy = room(buffer.item_count())?;
                    buffer.copy_to_slice(py, &mut copy)?;
                    Ok(Encoded::Owned(copy))
                }
                // Of other items than bytes.
                Err(_) => {
                    let made = builtins.getattr("bytes")?.call1((object,))?;
                    Ok(Encoded::Made(made.cast_into::<PyBytes>()?))
                }
            };
        }
    }
    let name = object.get_type().name()?;
    let text = format!("bytes are wanted, not {name}: open the map with a codec");
    Err(PyTypeError::new_err(text))
}

#[cold]
fn wrong(wanted: &str, object: &Bound<'_, PyAny>) -> PyErr {
    match object.get_type().name() {
        Ok(name) => PyTypeError::new_err(format!("{wanted} wanted, not {name}")),
        Err(error) => error,
    }
}
