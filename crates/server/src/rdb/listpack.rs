//! Listpacks and sets of integers: many short values in one string.
//!
//! ```text
//!   listpack       size (4) | count (2) | entries | 0xff      entry: encoding | data | its length, reversed
//!   integer set    width (4) | count (4) | integers of so many bytes
//! ```

use super::unpacked::Unpacked;

/// In front of the entries of a listpack, and of the integers of a set.
const LISTPACK_HEADER_SIZE: usize = 6;
const INTEGERS_HEADER_SIZE: usize = 8;
/// The count that says that the entries must be counted.
const COUNT_UNKNOWN: usize = u16::MAX as usize;
const END: u8 = 0xff;

pub(super) fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// A number of so many bits, with its sign.
pub(super) fn signed(bits: u64, width: u32) -> i64 {
    let unused = 64 - width;
    ((bits << unused) as i64) >> unused
}

/// Unpacks the entries of a listpack; `None` if it is damaged.
pub fn entries(bytes: &[u8], unpacked: &mut Unpacked) -> Option<()> {
    if bytes.len() <= LISTPACK_HEADER_SIZE || little_endian(&bytes[..4]) != bytes.len() as u64 {
        return None;
    }
    let (&end, mut rest) = bytes[LISTPACK_HEADER_SIZE..].split_last()?;
    let count = little_endian(&bytes[4..LISTPACK_HEADER_SIZE]) as usize;
    while !rest.is_empty() {
        let (entry, size) = entry(rest)?;
        unpacked.push(entry)?;
        rest = rest.get(size + length_size(size)..)?;
    }
    let is_counted = count == unpacked.len() || count == COUNT_UNKNOWN;
    (end == END && is_counted).then_some(())
}

/// How many bytes the length of an entry takes behind it.
fn length_size(size: usize) -> usize {
    match size {
        0..=127 => 1,
        128..16_383 => 2,
        16_383..2_097_151 => 3,
        2_097_151..268_435_455 => 4,
        _ => 5,
    }
}

/// The first entry, and how many bytes its encoding and data take.
fn entry(bytes: &[u8]) -> Option<(Vec<u8>, usize)> {
    let &[first, ref rest @ ..] = bytes else { return None };
    let string = |header: usize, size: u64| {
        let end = header.checked_add(usize::try_from(size).ok()?)?;
        Some((bytes.get(header..end)?.to_vec(), end))
    };
    let integer = |size: usize, width: u32| {
        let number = signed(little_endian(rest.get(..size)?), width);
        Some((number.to_string().into_bytes(), 1 + size))
    };
    let low = u64::from(first);
    match first {
        0x00..=0x7f => Some((first.to_string().into_bytes(), 1)),
        0x80..=0xbf => string(1, low & 0x3f),
        0xc0..=0xdf => {
            let number = signed((low & 0x1f) << 8 | u64::from(*rest.first()?), 13);
            Some((number.to_string().into_bytes(), 2))
        }
        0xe0..=0xef => string(2, (low & 0x0f) << 8 | u64::from(*rest.first()?)),
        0xf0 => string(5, little_endian(rest.get(..4)?)),
        0xf1 => integer(2, 16),
        0xf2 => integer(3, 24),
        0xf3 => integer(4, 32),
        0xf4 => integer(8, 64),
        _ => None,
    }
}

/// Unpacks the members of a set of integers; `None` if it is damaged.
pub fn integers(bytes: &[u8], unpacked: &mut Unpacked) -> Option<()> {
    let (header, integers) = bytes.split_at_checked(INTEGERS_HEADER_SIZE)?;
    let width = little_endian(&header[..4]) as usize;
    let count = little_endian(&header[4..]) as usize;
    if !matches!(width, 2 | 4 | 8) || width.checked_mul(count) != Some(integers.len()) {
        return None;
    }
    let number = |bytes: &[u8]| signed(little_endian(bytes), 8 * width as u32);
    let mut numbers = integers.chunks(width).map(|bytes| number(bytes).to_string().into_bytes());
    numbers.try_for_each(|number| unpacked.push(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
        let mut unpacked = Unpacked { room: 1 << 20, ..Unpacked::default() };
        super::entries(bytes, &mut unpacked).map(|()| unpacked.entries)
    }

    fn integers(bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
        let mut unpacked = Unpacked { room: 1 << 20, ..Unpacked::default() };
        super::integers(bytes, &mut unpacked).map(|()| unpacked.entries)
    }

    fn listpack(count: u16, entries: &[u8]) -> Vec<u8> {
        let size = (LISTPACK_HEADER_SIZE + entries.len() + 1) as u32;
        [&size.to_le_bytes()[..], &count.to_le_bytes(), entries, &[END]].concat()
    }

    #[test]
    fn every_encoding_is_read() {
        let all = b"\x05\x01\x82ab\x03\xdf\xff\x02\xf1\x00\x80\x03\xf4\xff\xff\xff\xff\xff\xff\xff\x7f\x09";
        let expected: [&[u8]; 5] = [b"5", b"ab", b"-1", b"-32768", b"9223372036854775807"];
        assert_eq!(entries(&listpack(5, all)).unwrap(), expected);
        assert_eq!(entries(&listpack(u16::MAX, all)).unwrap(), expected);
        let members = b"\x02\0\0\0\x02\0\0\0\xff\xff\x07\x00";
        assert_eq!(integers(members).unwrap(), [&b"-1"[..], b"7"]);
    }

    #[test]
    fn what_is_damaged_is_refused() {
        assert_eq!(entries(&listpack(2, b"\x05\x01")), None);
        assert_eq!(entries(&listpack(1, b"\x85ab\x03")), None);
        assert_eq!(entries(&listpack(1, b"\xf0\xff\xff\xff\xff\x01")), None);
        assert_eq!(entries(b""), None);
        assert_eq!(integers(b"\x03\0\0\0\x01\0\0\0abc"), None);
        assert_eq!(integers(b"\x08\0\0\0\xff\xff\xff\xff"), None);
    }
}
