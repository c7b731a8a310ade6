//! Values as bytes that other servers understand: the payload of `DUMP` and `RESTORE`.
//!
//! ```text
//!   type (1) | value | version (2) | check sum (8)      least significant bytes first
//! ```
//!
//! The format is that of the files of Redis 7.0, version 10. Plain encodings are written; the packed ones
//! that Redis 7.0 writes are read, too. Source: the file format as its reader defines it (`rdb.c`,
//! `listpack.c`, `intset.c`).
//!
//! A payload comes from anybody, and its check sum is no secret: every length is compared with what is there
//! before memory is taken for it, and all that one payload holds may take 512 MiB.

mod check_sum;
mod listpack;
mod lzf;
mod read;
mod write;

pub use read::read;
pub use write::Writer;

/// The version that is written, and the newest that is read.
const VERSION: u16 = 10;
/// Bytes behind the value.
const FOOTER_SIZE: usize = 10;

/// The types of values.
mod kind {
    pub const STRING: u8 = 0;
    pub const LIST: u8 = 1;
    pub const SET: u8 = 2;
    pub const HASH: u8 = 4;
    pub const SORTED_SET: u8 = 5;
    pub const INTEGER_SET: u8 = 11;
    pub const HASH_LISTPACK: u8 = 16;
    pub const SORTED_SET_LISTPACK: u8 = 17;
    pub const LIST_OF_LISTPACKS: u8 = 18;
}

/// What a payload holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    String(Vec<u8>),
    List(Vec<Vec<u8>>),
    Set(Vec<Vec<u8>>),
    Hash(Vec<(Vec<u8>, Vec<u8>)>),
    SortedSet(Vec<(Vec<u8>, f64)>),
}

/// Why a payload cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// It is of a newer version, or its check sum is wrong.
    Footer,
    /// It is not what the format says.
    Format,
}
