//! Values as bytes that other servers understand: the payload of `DUMP` and `RESTORE`, and files of Redis (`file.rs`).
//!
//! ```text
//!   type (1) | value | version (2) | check sum (8)      least significant bytes first
//! ```
//!
//! The format is that of the files of Redis 7.0, version 10. Plain encodings are written; the packed ones are read,
//! too, those of older versions, and of version 11 (Redis 7.2, Valkey 8). Source: the file format as its reader defines
//! it (`rdb.c`, `listpack.c`, `intset.c`, `ziplist.c`, `zipmap.c`, `t_stream.c`).
//!
//! A payload comes from anybody, and its check sum is no secret: every length is compared with what is there
//! before memory is taken for it, and all that one payload holds may take 512 MiB, with what items take besides
//! themselves.

mod check_sum;
mod file;
mod listpack;
mod lzf;
mod part;
mod read;
mod record;
mod skip;
mod unpacked;
mod unsupported;
mod write;
mod ziplist;

pub use file::{Rdb, RdbError};
#[cfg(test)]
pub use read::read_count;
pub use read::{SIZE_MAX, is_newer, read};
pub use record::RdbRecord;
pub use unsupported::unsupported_name;
pub use write::Writer;

/// The version that is written.
const VERSION: u16 = 10;
/// The newest that is read.
const VERSION_READ_MAX: u16 = 11;
/// Bytes behind the value.
const FOOTER_SIZE: usize = 10;

/// The types of values.
mod kind {
    pub const STRING: u8 = 0;
    pub const LIST: u8 = 1;
    pub const SET: u8 = 2;
    pub const SORTED_SET_OF_DIGITS: u8 = 3;
    pub const HASH: u8 = 4;
    pub const SORTED_SET: u8 = 5;
    pub const HASH_ZIPMAP: u8 = 9;
    pub const LIST_ZIPLIST: u8 = 10;
    pub const INTEGER_SET: u8 = 11;
    pub const SORTED_SET_ZIPLIST: u8 = 12;
    pub const HASH_ZIPLIST: u8 = 13;
    pub const LIST_OF_ZIPLISTS: u8 = 14;
    pub const HASH_LISTPACK: u8 = 16;
    pub const SORTED_SET_LISTPACK: u8 = 17;
    pub const LIST_OF_LISTPACKS: u8 = 18;
    pub const SET_LISTPACK: u8 = 20;

    /// Whether it is one of these.
    pub fn is_known(kind: u8) -> bool {
        const PLAIN: [u8; 6] = [STRING, LIST, SET, SORTED_SET_OF_DIGITS, HASH, SORTED_SET];
        matches!(kind, HASH_ZIPMAP..=LIST_OF_ZIPLISTS | HASH_LISTPACK..=LIST_OF_LISTPACKS)
            || kind == SET_LISTPACK
            || PLAIN.contains(&kind)
    }
}

/// Whether a value of this type is one that there is here.
pub fn is_known(kind: u8) -> bool {
    kind::is_known(kind)
}

/// What a key holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A string.
    String(Vec<u8>),
    /// The elements of a list, in order.
    List(Vec<Vec<u8>>),
    /// The members of a set, in any order.
    Set(Vec<Vec<u8>>),
    /// The fields of a hash and what they have, in any order.
    Hash(Vec<(Vec<u8>, Vec<u8>)>),
    /// The members of a sorted set and their scores, in any order.
    SortedSet(Vec<(Vec<u8>, f64)>),
}

impl Value {
    /// The same, whatever the order in which it came: two values are equal if they are so sorted.
    pub fn sorted(mut self) -> Self {
        match &mut self {
            Value::String(_) | Value::List(_) => {}
            Value::Set(members) => members.sort_unstable(),
            Value::Hash(fields) => fields.sort_unstable(),
            Value::SortedSet(members) => members.sort_unstable_by(|a, b| a.0.cmp(&b.0)),
        }
        self
    }

    /// Bytes of all that it holds, about.
    pub fn size(&self) -> usize {
        const ITEM_OVERHEAD: usize = 32;
        match self {
            Value::String(value) => value.len(),
            Value::List(items) | Value::Set(items) => {
                items.iter().map(|item| item.len() + ITEM_OVERHEAD).sum()
            }
            Value::Hash(fields) => {
                fields.iter().map(|(field, value)| field.len() + value.len() + ITEM_OVERHEAD).sum()
            }
            Value::SortedSet(members) => {
                members.iter().map(|(member, _)| member.len() + ITEM_OVERHEAD).sum()
            }
        }
    }

    /// How many members, fields or elements it has; none if it is a string.
    pub fn count(&self) -> u64 {
        match self {
            Value::String(_) => 0,
            Value::List(items) | Value::Set(items) => items.len() as u64,
            Value::Hash(fields) => fields.len() as u64,
            Value::SortedSet(members) => members.len() as u64,
        }
    }
}

/// Why a payload cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// It is of a newer version, or its check sum is wrong.
    Footer,
    /// All that it holds takes more than the longest value.
    TooLarge,
    /// It is not what the format says.
    Format,
}
