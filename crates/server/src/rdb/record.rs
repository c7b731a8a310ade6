//! What a file of Redis has, record by record.

use super::Value;

/// What a file has.
#[derive(Clone, Debug, PartialEq)]
pub enum RdbRecord {
    /// A key.
    Key {
        /// Of which database.
        database: u64,
        /// The key.
        key: Vec<u8>,
        /// When it expires, in milliseconds since 1970-01-01 UTC.
        expiry_ms: Option<u64>,
        /// What it holds.
        value: Value,
    },
    /// A key with a collection that comes in pieces: they follow, then its end.
    Begin {
        /// Of which database.
        database: u64,
        /// The key.
        key: Vec<u8>,
    },
    /// Some members of that collection.
    Members {
        /// Of which database.
        database: u64,
        /// The key.
        key: Vec<u8>,
        /// How many were before these.
        first: u64,
        /// They, as a collection.
        members: Value,
    },
    /// That collection was shown.
    End {
        /// Of which database.
        database: u64,
        /// The key.
        key: Vec<u8>,
        /// When it expires, in milliseconds since 1970-01-01 UTC.
        expiry_ms: Option<u64>,
        /// How many members there were.
        count: u64,
    },
    /// A key with a collection that has no members, as older servers could write it. It is no key to any.
    Empty,
    /// What there is not here.
    Unsupported {
        /// Of which database.
        database: u64,
        /// The key, if it is one.
        key: Option<Vec<u8>>,
        /// What it holds, in words.
        what: &'static str,
    },
}
