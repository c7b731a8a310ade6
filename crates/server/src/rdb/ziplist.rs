//! Ziplists and zipmaps: what versions before 7.0 packed short values in.
//!
//! ```text
//!   ziplist   size (4) | last (4) | count (2) | entries | 0xff      entry: size of the one before | encoding | data
//!   zipmap    count (1) | key size, key, value size, unused, value, unused bytes .. | 0xff
//! ```

use super::listpack::{little_endian, signed};
use super::unpacked::Unpacked;

/// In front of the entries of a ziplist.
const HEADER_SIZE: usize = 10;
/// The count that says that the entries must be counted.
const COUNT_UNKNOWN: usize = u16::MAX as usize;
const END: u8 = 0xff;
/// Says that a size of four bytes follows.
const LONG: u8 = 0xfe;

/// Unpacks the entries of a ziplist; `None` if it is damaged.
pub fn ziplist(bytes: &[u8], unpacked: &mut Unpacked) -> Option<()> {
    if bytes.len() <= HEADER_SIZE || little_endian(&bytes[..4]) != bytes.len() as u64 {
        return None;
    }
    let (&end, mut rest) = bytes[HEADER_SIZE..].split_last()?;
    let count = little_endian(&bytes[8..HEADER_SIZE]) as usize;
    while !rest.is_empty() {
        unpacked.push(entry(&mut rest)?)?;
    }
    let is_counted = count == unpacked.len() || count == COUNT_UNKNOWN;
    (end == END && is_counted).then_some(())
}

fn take<'a>(rest: &mut &'a [u8], size: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(size)?;
    *rest = left;
    Some(taken)
}

fn byte(rest: &mut &[u8]) -> Option<u8> {
    take(rest, 1).map(|taken| taken[0])
}

fn entry(rest: &mut &[u8]) -> Option<Vec<u8>> {
    // The size of the one before is for going back.
    if byte(rest)? == LONG {
        take(rest, 4)?;
    }
    let first = byte(rest)?;
    let mut integer = |size: usize| {
        let number = signed(little_endian(take(rest, size)?), 8 * size as u32);
        Some(number.to_string().into_bytes())
    };
    match first {
        0xc0 => return integer(2),
        0xd0 => return integer(4),
        0xe0 => return integer(8),
        0xf0 => return integer(3),
        0xfe => return integer(1),
        0xf1..=0xfd => return Some((i32::from(first & 0x0f) - 1).to_string().into_bytes()),
        _ => {}
    }
    let size = match first >> 6 {
        0 => usize::from(first & 0x3f),
        1 => usize::from(first & 0x3f) << 8 | usize::from(byte(rest)?),
        2 => u32::from_be_bytes(take(rest, 4)?.try_into().ok()?) as usize,
        _ => return None,
    };
    take(rest, size).map(<[u8]>::to_vec)
}

/// Unpacks fields, each followed by what it has; `None` if it is damaged.
pub fn zipmap(bytes: &[u8], unpacked: &mut Unpacked) -> Option<()> {
    let mut rest = bytes.get(1..)?;
    let size = |rest: &mut &[u8]| match byte(rest)? {
        LONG => Some(little_endian(take(rest, 4)?) as usize),
        size => Some(usize::from(size)),
    };
    while rest.first() != Some(&END) {
        let field_size = size(&mut rest)?;
        unpacked.push(take(&mut rest, field_size)?.to_vec())?;
        let value_size = size(&mut rest)?;
        let unused = usize::from(byte(&mut rest)?);
        unpacked.push(take(&mut rest, value_size)?.to_vec())?;
        take(&mut rest, unused)?;
    }
    (rest.len() == 1).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ziplist(bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
        let mut unpacked = Unpacked { room: 1 << 20, ..Unpacked::default() };
        super::ziplist(bytes, &mut unpacked).map(|()| unpacked.entries)
    }

    fn zipmap(bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
        let mut unpacked = Unpacked { room: 1 << 20, ..Unpacked::default() };
        super::zipmap(bytes, &mut unpacked).map(|()| unpacked.entries)
    }

    fn packed(count: u16, entries: &[u8]) -> Vec<u8> {
        let size = (HEADER_SIZE + entries.len() + 1) as u32;
        [&size.to_le_bytes()[..], &[0; 4], &count.to_le_bytes(), entries, &[END]].concat()
    }

    #[test]
    fn every_encoding_is_read() {
        let all = b"\x00\x02ab\x04\xf1\x02\xfd\x02\xfe\xff\x03\xc0\x00\x80\x04\xf0\xff\xff\x7f\xfe\0\0\0\0\x40\x01c";
        let expected: [&[u8]; 7] = [b"ab", b"0", b"12", b"-1", b"-32768", b"8388607", b"c"];
        assert_eq!(ziplist(&packed(7, all)).unwrap(), expected);
        assert_eq!(ziplist(&packed(u16::MAX, all)).unwrap(), expected);
        let fields: [&[u8]; 4] = [b"f", b"12", b"g", b""];
        assert_eq!(zipmap(b"\x02\x01f\x02\x0112x\x01g\x00\x00\xff").unwrap(), fields);
    }

    #[test]
    fn what_is_damaged_is_refused() {
        assert_eq!(ziplist(&packed(2, b"\x00\x01a")), None);
        assert_eq!(ziplist(&packed(1, b"\x00\x80\xff\xff\xff\xff")), None);
        assert_eq!(ziplist(&packed(1, b"\x00\xff")), None);
        assert_eq!(ziplist(b""), None);
        assert_eq!(zipmap(b""), None);
        assert_eq!(zipmap(b"\x01\x05ab"), None);
        assert_eq!(zipmap(b"\x00\xff\xff"), None);
    }
}
