//! Strings as rows of bits: `SETBIT`, `BITCOUNT`, `BITOP`, `BITFIELD` and their like.
//!
//! Bit 0 is the highest of the first byte. Behind the end of a string there are zeros.

mod combine;
mod count;
mod field;
mod single;

pub use combine::bitop;
pub use count::{bitcount, bitpos};
pub use field::{bitfield, bitfield_ro};
pub use single::{getbit, setbit};

use super::integer::parse_integer;
use crate::failure::{Failure, Result};
use crate::shared::Shared;

/// Where a bit lies. With a `width`, `#n` is the place of the n-th field of so many bits.
fn offset_arg(arg: &[u8], width: Option<u32>, shared: &Shared) -> Result<u64> {
    let (arg, factor) = match (arg.strip_prefix(b"#"), width) {
        (Some(number), Some(width)) => (number, i64::from(width)),
        _ => (arg, 1),
    };
    let offset = parse_integer(arg).and_then(|number| number.checked_mul(factor));
    let offset = offset.and_then(|offset| u64::try_from(offset).ok());
    offset
        .filter(|offset| offset >> 3 < shared.settings.bulk_size_max() as u64)
        .ok_or(Failure::text("ERR bit offset is not an integer or out of range"))
}

/// A copy of a string that has so many bytes at least.
fn grown(value: Option<&[u8]>, size: usize) -> Vec<u8> {
    let value = value.unwrap_or(b"");
    let mut grown = Vec::with_capacity(size.max(value.len()));
    grown.extend_from_slice(value);
    grown.resize(size.max(value.len()), 0);
    grown
}
