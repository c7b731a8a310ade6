//! Records and atomic groups, and their bytes.

use crate::layout::{
    ENTRY_HEADER_SIZE, ENTRY_SIZE_MAX, RECORD_HEADER_SIZE, read_u32, read_u64, write_u32, write_u64,
};
use crate::{Error, Result};

/// The number of an atomic group in the log: 1 for the first, one more for each that follows.
pub type Lsn = u64;

/// The longest key, in bytes.
pub const KEY_SIZE_MAX: usize = (1 << 24) - 1;

const PUT: u8 = 1;
const DELETE: u8 = 2;
const EXPIRE: u8 = 3;
const HAS_EXPIRY: u8 = 0x80;

/// What a record says of the value of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordEffect<'a> {
    /// The key has this value from now on.
    Put(&'a [u8]),
    /// The key is deleted.
    Delete,
    /// The key keeps its value. Only when it expires changes.
    Expire,
}

/// One change of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The number of the map.
    pub map: u32,
    /// The key, up to [`KEY_SIZE_MAX`] bytes.
    pub key: &'a [u8],
    /// What becomes of its value.
    pub effect: RecordEffect<'a>,
    /// When the key expires from now on, in milliseconds since 1970-01-01 UTC; `None` for never.
    pub expiry: Option<u64>,
}

impl<'a> Record<'a> {
    /// The key gets this value, and does not expire.
    pub fn put(map: u32, key: &'a [u8], value: &'a [u8]) -> Record<'a> {
        Record { map, key, effect: RecordEffect::Put(value), expiry: None }
    }

    /// The key is deleted.
    pub fn delete(map: u32, key: &'a [u8]) -> Record<'a> {
        Record { map, key, effect: RecordEffect::Delete, expiry: None }
    }

    /// The key keeps its value, and expires then: in milliseconds since 1970-01-01 UTC, or never. The
    /// record is logged behind that of the value, so what replays both in the order of their LSNs needs
    /// no more. If a snapshot has the key as a later record leaves it, that record comes, too.
    pub fn expire(map: u32, key: &'a [u8], expiry: Option<u64>) -> Record<'a> {
        Record { map, key, effect: RecordEffect::Expire, expiry }
    }

    /// The value that the key has from now on, if the record says which.
    pub fn value(&self) -> Option<&'a [u8]> {
        match self.effect {
            RecordEffect::Put(value) => Some(value),
            RecordEffect::Delete | RecordEffect::Expire => None,
        }
    }

    /// Bytes of the record in the log.
    pub(crate) fn size(&self) -> usize {
        let expiry = if self.expiry.is_some() { 8 } else { 0 };
        RECORD_HEADER_SIZE + expiry + self.key.len() + self.value().map_or(0, <[u8]>::len)
    }

    /// Writes the record behind `bytes`. The key and the value must have been found short enough.
    pub(crate) fn encode(&self, bytes: &mut Vec<u8>) {
        let kind = match self.effect {
            RecordEffect::Put(_) => PUT,
            RecordEffect::Delete => DELETE,
            RecordEffect::Expire => EXPIRE,
        };
        let kind = kind | if self.expiry.is_some() { HAS_EXPIRY } else { 0 };
        let key_and_kind = self.key.len() as u32 | u32::from(kind) << 24;
        let value = self.value().unwrap_or_default();
        let mut header = [0; RECORD_HEADER_SIZE + 8];
        write_u32(&mut header, 0, self.map);
        write_u32(&mut header, 4, key_and_kind);
        write_u32(&mut header, 8, value.len() as u32);
        let mut size = RECORD_HEADER_SIZE;
        if let Some(expiry) = self.expiry {
            write_u64(&mut header, RECORD_HEADER_SIZE, expiry);
            size += 8;
        }
        bytes.extend_from_slice(&header[..size]);
        bytes.extend_from_slice(self.key);
        bytes.extend_from_slice(value);
    }
}

/// Checks that a group fits into the log; returns the bytes of its records.
///
/// # Errors
/// [`Error::TooLarge`].
pub(crate) fn group_size(records: &[Record<'_>]) -> Result<usize> {
    let mut size = 0usize;
    for record in records {
        if record.key.len() > KEY_SIZE_MAX {
            return Err(Error::TooLarge(format!(
                "a key has {} bytes and the log takes {KEY_SIZE_MAX}: use a shorter key",
                record.key.len()
            )));
        }
        size = size.saturating_add(record.size());
    }
    if size > ENTRY_SIZE_MAX {
        return Err(Error::TooLarge(format!(
            "an atomic group has {size} bytes and the log takes {ENTRY_SIZE_MAX}: split it"
        )));
    }
    Ok(size)
}

/// Writes a group of `size` bytes (from [`group_size`]) behind `bytes`.
pub(crate) fn encode_entry(bytes: &mut Vec<u8>, lsn: Lsn, size: usize, records: &[Record<'_>]) {
    let mut header = [0; ENTRY_HEADER_SIZE];
    write_u64(&mut header, 0, lsn);
    write_u32(&mut header, 8, size as u32);
    write_u32(&mut header, 12, records.len() as u32);
    bytes.reserve(ENTRY_HEADER_SIZE + size);
    bytes.extend_from_slice(&header);
    for record in records {
        record.encode(bytes);
    }
}

/// The records of an encoded run, in order; ends early at bytes that are none.
pub(crate) struct Records<'a> {
    bytes: &'a [u8],
}

impl<'a> Records<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Records { bytes }
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        let header = self.bytes.get(..RECORD_HEADER_SIZE)?;
        let map = read_u32(header, 0);
        let key_and_kind = read_u32(header, 4);
        let key_size = (key_and_kind & 0xFF_FFFF) as usize;
        let kind = (key_and_kind >> 24) as u8;
        let value_size = read_u32(header, 8) as usize;
        let mut at = RECORD_HEADER_SIZE;
        let mut expiry = None;
        if kind & HAS_EXPIRY != 0 {
            expiry = Some(u64::from_le_bytes(self.bytes.get(at..at + 8)?.try_into().ok()?));
            at += 8;
        }
        let key = self.bytes.get(at..at + key_size)?;
        at += key_size;
        let value = self.bytes.get(at..at + value_size)?;
        at += value_size;
        let effect = match kind & !HAS_EXPIRY {
            PUT => RecordEffect::Put(value),
            DELETE if value.is_empty() => RecordEffect::Delete,
            EXPIRE if value.is_empty() => RecordEffect::Expire,
            _ => return None,
        };
        self.bytes = &self.bytes[at..];
        Some(Record { map, key, effect, expiry })
    }
}

/// One encoded group.
#[derive(Clone, Copy)]
pub(crate) struct Entry<'a> {
    pub(crate) lsn: Lsn,
    pub(crate) record_count: usize,
    pub(crate) records: &'a [u8],
}

/// The groups in `bytes`, in the order in which they lie there; `None` if the bytes are not groups
/// and nothing else.
pub(crate) fn decode_entries(mut bytes: &[u8]) -> Option<Vec<Entry<'_>>> {
    let mut entries = Vec::new();
    while !bytes.is_empty() {
        let header = bytes.get(..ENTRY_HEADER_SIZE)?;
        let end = ENTRY_HEADER_SIZE + read_u32(header, 8) as usize;
        entries.push(Entry {
            lsn: read_u64(header, 0),
            record_count: read_u32(header, 12) as usize,
            records: bytes.get(ENTRY_HEADER_SIZE..end)?,
        });
        bytes = &bytes[end..];
    }
    Some(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some_records() -> [Record<'static>; 6] {
        [
            Record::put(1, b"key", b"value"),
            Record::delete(u32::MAX, b"gone"),
            Record { expiry: Some(7), ..Record::put(0, b"", b"") },
            Record::expire(1, b"key", Some(9)),
            Record::expire(1, b"key", None),
            Record::put(2, b"last", &[7; 300]),
        ]
    }

    fn encoded() -> Vec<u8> {
        let mut bytes = Vec::new();
        let records = some_records();
        encode_entry(&mut bytes, 9, group_size(&records).unwrap(), &records);
        encode_entry(&mut bytes, 8, 0, &[]);
        bytes
    }

    #[test]
    fn groups_are_read_back() {
        let bytes = encoded();
        let entries = decode_entries(&bytes).unwrap();
        assert_eq!(entries.iter().map(|entry| entry.lsn).collect::<Vec<_>>(), [9, 8]);
        assert_eq!(entries[0].record_count, 6);
        let records: Vec<_> = Records::new(entries[0].records).collect();
        assert_eq!(records, some_records());
    }

    #[test]
    fn bytes_that_are_no_groups_are_refused_and_never_read_past() {
        let bytes = encoded();
        let whole = bytes.len() - ENTRY_HEADER_SIZE;
        for end in (0..bytes.len()).filter(|&end| end != 0 && end != whole) {
            assert!(decode_entries(&bytes[..end]).is_none(), "cut at {end}");
        }
        let entries = decode_entries(&bytes).unwrap();
        for end in 0..entries[0].records.len() {
            assert!(Records::new(&entries[0].records[..end]).count() < 6);
        }
    }

    #[test]
    fn what_is_too_large_is_refused() {
        let key = vec![0; KEY_SIZE_MAX + 1];
        let refused = group_size(&[Record::delete(0, &key)]);
        assert!(matches!(refused, Err(Error::TooLarge(_))));
        assert!(group_size(&[Record::delete(0, &key[1..])]).is_ok());
    }
}
