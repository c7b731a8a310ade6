//! An entry of an ordered map, and its limits.

/// The longest name of an entry, in bytes: the longest key of the tree, less what the module puts
/// in front of it.
pub const NAME_SIZE_MAX: usize = everleaf_index::KEY_SIZE_MAX - 17;
/// The longest value, in bytes: the longest of the tree with an expiry.
pub const VALUE_SIZE_MAX: usize = everleaf_index::VALUE_SIZE_MAX - 8;
/// The latest expiry, in milliseconds since 1970: the year 4199.
pub const EXPIRY_MAX: u64 = 1 << 46;

/// An entry: a name, its value, and when it expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The name, which orders the entries byte by byte.
    pub name: &'a [u8],
    /// The value.
    pub value: &'a [u8],
    /// When it expires, in milliseconds since 1970-01-01 UTC; 0 for never.
    pub expiry_ms: u64,
}

impl Entry<'_> {
    /// Whether its time has come at `now`; nothing has at 0.
    pub fn has_expired(&self, now: u64) -> bool {
        self.expiry_ms != 0 && self.expiry_ms <= now
    }

    /// What cannot be stored.
    ///
    /// # Errors
    /// Which limit it is above.
    pub fn check(&self) -> Result<(), &'static str> {
        if self.name.len() > NAME_SIZE_MAX {
            return Err("the name of an entry is longer than 65519 bytes");
        }
        if self.value.len() > VALUE_SIZE_MAX {
            return Err("a value is longer than 512 MiB less 8 bytes");
        }
        if self.expiry_ms > EXPIRY_MAX {
            return Err("an expiry is later than the year 4199");
        }
        Ok(())
    }
}

/// What an entry that is gone was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removed {
    /// Bytes of its value.
    pub value_size: usize,
    /// When it would have expired; 0 for never.
    pub expiry_ms: u64,
}

impl Removed {
    /// Of this entry.
    pub fn of(entry: Entry<'_>) -> Self {
        Removed { value_size: entry.value.len(), expiry_ms: entry.expiry_ms }
    }
}

const _: () = assert!(NAME_SIZE_MAX == 65_519);
