//! Objects as bytes: bytes, text and numbers here, everything else by functions in Python.
//!
//! The same encodings are in `everleaf/codecs.py`, one function at a time; a test compares them.

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyFloat, PyInt, PyString};

/// How objects become bytes, and bytes objects.
pub enum Codec {
    Bytes,
    Text,
    Integer,
    Real,
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

impl Codec {
    /// The codec that a `everleaf.codecs.Codec` describes.
    pub fn of(described: &Bound<'_, PyAny>) -> PyResult<Codec> {
        let native: String = described.getattr("native")?.extract()?;
        Ok(match native.as_str() {
            "bytes" => Codec::Bytes,
            "str" => Codec::Text,
            "int" => Codec::Integer,
            "float" => Codec::Real,
            _ => Codec::Own {
                encode: described.getattr("encode")?.unbind(),
                decode: described.getattr("decode")?.unbind(),
            },
        })
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
            Codec::Integer => integer(object).map(|bits| Encoded::Number(bits.to_be_bytes())),
            Codec::Real => real(object).map(|bits| Encoded::Number(bits.to_be_bytes())),
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
            Codec::Bytes | Codec::Own { .. } => Ok(PyBytes::new(py, bytes).into_any()),
            Codec::Text => match std::str::from_utf8(bytes) {
                Ok(text) => Ok(PyString::new(py, text).into_any()),
                Err(_) => Err(PyValueError::new_err("what is stored is no str")),
            },
            Codec::Integer => match int_of(bytes) {
                Some(number) => Ok(PyInt::new(py, number).into_any()),
                None => Err(PyValueError::new_err("what is stored is no int")),
            },
            Codec::Real => {
                let bits = bits(bytes, "float")?;
                let bits = if bits & SIGN == 0 { !bits } else { bits ^ SIGN };
                Ok(PyFloat::new(py, f64::from_bits(bits)).into_any())
            }
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

/// The bytes of a number.
fn bits(bytes: &[u8], what: &str) -> PyResult<u64> {
    match bytes.try_into() {
        Ok(bytes) => Ok(u64::from_be_bytes(bytes)),
        Err(_) => Err(PyValueError::new_err(format!("what is stored is no {what}"))),
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

/// A number whose bytes, the highest first, are in the order of integers.
fn integer(object: &Bound<'_, PyAny>) -> PyResult<u64> {
    let Ok(number) = object.cast::<PyInt>() else { return Err(wrong("an int is", object)) };
    match number.extract::<i64>() {
        Ok(number) => Ok(u64::from_be_bytes(int_bytes(number))),
        Err(error) if error.is_instance_of::<PyOverflowError>(object.py()) => {
            Err(PyOverflowError::new_err("an int key has 64 bits"))
        }
        Err(error) => Err(error),
    }
}

/// A number whose bytes, the highest first, are in the order of floating-point numbers.
fn real(object: &Bound<'_, PyAny>) -> PyResult<u64> {
    let number: f64 = object.extract()?;
    if number.is_nan() {
        return Err(PyValueError::new_err("what is not a number has no place in an order"));
    }
    // One zero for both.
    let bits = (number + 0.0).to_bits();
    // Negative numbers the other way round, and before the positive ones.
    Ok(if bits & SIGN == 0 { bits ^ SIGN } else { !bits })
}

/// The bytes of what is not `bytes` but as good.
#[cold]
fn copied<'a, 'py>(object: &'a Bound<'py, PyAny>) -> PyResult<Encoded<'a, 'py>> {
    let py = object.py();
    let builtins = py.import("builtins")?;
    for name in ["bytearray", "memoryview"] {
        if object.is_instance(&builtins.getattr(name)?)? {
            return match PyBuffer::<u8>::get(object) {
                Ok(buffer) => Ok(Encoded::Owned(buffer.to_vec(py)?)),
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
