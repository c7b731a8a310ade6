//! Writing payloads, in the plain encodings.

use super::check_sum::crc64;
use super::{VERSION, kind};
use crate::types::Kind;

/// A payload that is being written.
#[derive(Debug)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// Of a string.
    pub fn string(value: &[u8]) -> Self {
        let mut writer = Writer { bytes: vec![kind::STRING] };
        writer.push(value);
        writer
    }

    /// Of a collection of so many members, each of which must be pushed.
    pub fn collection(of: Kind, count: u64) -> Self {
        let kind = match of {
            Kind::Hash => kind::HASH,
            Kind::Set => kind::SET,
            Kind::SortedSet => kind::SORTED_SET,
            Kind::List => kind::LIST,
        };
        let mut writer = Writer { bytes: vec![kind] };
        writer.push_length(count);
        writer
    }

    /// Appends a string.
    pub fn push(&mut self, value: &[u8]) {
        self.push_length(value.len() as u64);
        self.bytes.extend_from_slice(value);
    }

    /// Appends a score.
    pub fn push_score(&mut self, score: f64) {
        self.bytes.extend_from_slice(&score.to_le_bytes());
    }

    /// The bytes so far.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// The payload.
    pub fn finish(mut self) -> Vec<u8> {
        self.bytes.extend_from_slice(&VERSION.to_le_bytes());
        let sum = crc64(&self.bytes);
        self.bytes.extend_from_slice(&sum.to_le_bytes());
        self.bytes
    }

    fn push_length(&mut self, length: u64) {
        match length {
            0..64 => self.bytes.push(length as u8),
            64..16_384 => self.bytes.extend([0x40 | (length >> 8) as u8, length as u8]),
            _ => {
                self.bytes.push(0x81);
                self.bytes.extend_from_slice(&length.to_be_bytes());
            }
        }
    }
}
