//! Hashes, sets and their like: collections whose members lie in one ordered map.
//!
//! The key of a collection holds a *header* in the served map, among the strings: which type it is, how
//! many members it has, and the number of the collection. Its members lie in a second map, under that
//! number. No number is used twice, so a collection goes with its header, however large it is; what is
//! left of it is freed in the background (`collector.rs`). `docs/types.md` has all of it.
//!
//! A value is a header if it has a header's size and begins with the pool's mark: 128 random bits, made
//! with the second map. No command writes a string that is one (`strings.rs`), also if a client knows the mark.

pub mod check;
pub mod collection;
mod collector;
mod counts;
pub mod cursor;
mod header;
mod headers;
pub mod list;
pub mod mend;
pub mod notes;
pub mod order;
pub mod overhead;
pub mod places;
mod ready;
mod relocation;
pub mod runs;
pub mod separators;
mod state;
mod strings;

pub use self::collector::Collector;
pub use self::header::{HEADER_SIZE, Header, Kind, MARK_SIZE};
pub use self::headers::CollectionHeaders;
pub use self::ready::Ready;
pub use self::state::Types;
pub use self::strings::would_be_header;
