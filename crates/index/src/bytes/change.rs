//! One change of a byte-string key, from the map that is asked for it to the tree that makes it. A batch
//! holds it, the journal writes it down, and the log makes its record from it.

/// A change of one key.
///
/// # Example
/// ```
/// use everleaf_index::{Change, What};
/// let change = Change::upsert(b"leaf", b"green").expiring(1_900_000_000_000);
/// assert_eq!(change.value(), Some(&b"green"[..]));
/// assert_eq!(Change::remove(b"leaf").what, What::Remove);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change<'a> {
    /// Of which key.
    pub key: &'a [u8],
    /// What is done with it.
    pub what: What<'a>,
    /// When the key expires then, in milliseconds since 1970-01-01 UTC; 0 for never. A removal has no use
    /// for it.
    pub expiry_ms: u64,
}

/// What is done with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What<'a> {
    /// It is added with this value unless it is there.
    Insert(&'a [u8]),
    /// Its value is replaced if it is there.
    Update(&'a [u8]),
    /// It is added, or its value replaced.
    Upsert(&'a [u8]),
    /// It is removed.
    Remove,
    /// Its value stays, and it expires at another time, if it is there.
    Expire,
}

impl<'a> Change<'a> {
    /// Adds a key, which never expires, unless it is there.
    #[inline(always)]
    pub const fn insert(key: &'a [u8], value: &'a [u8]) -> Self {
        Change { key, what: What::Insert(value), expiry_ms: 0 }
    }

    /// Replaces the value of a key, which then never expires, if it is there.
    #[inline(always)]
    pub const fn update(key: &'a [u8], value: &'a [u8]) -> Self {
        Change { key, what: What::Update(value), expiry_ms: 0 }
    }

    /// Adds a key or replaces its value; it then never expires.
    #[inline(always)]
    pub const fn upsert(key: &'a [u8], value: &'a [u8]) -> Self {
        Change { key, what: What::Upsert(value), expiry_ms: 0 }
    }

    /// Removes a key.
    #[inline(always)]
    pub const fn remove(key: &'a [u8]) -> Self {
        Change { key, what: What::Remove, expiry_ms: 0 }
    }

    /// Lets a key expire at this time (0: never), if it is there.
    #[inline(always)]
    pub const fn expire(key: &'a [u8], expiry_ms: u64) -> Self {
        Change { key, what: What::Expire, expiry_ms }
    }

    /// The same change, of a key that then expires at this time (0: never).
    #[must_use]
    #[inline(always)]
    pub const fn expiring(self, expiry_ms: u64) -> Self {
        Change { expiry_ms, ..self }
    }

    /// The value that it stores, if it stores one.
    #[inline(always)]
    pub const fn value(&self) -> Option<&'a [u8]> {
        match self.what {
            What::Insert(value) | What::Update(value) | What::Upsert(value) => Some(value),
            What::Remove | What::Expire => None,
        }
    }
}

/// What a change found and did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Whether anything is different now.
    pub changed: bool,
    /// The length of the value that the key had, if it was there.
    pub old_size: Option<usize>,
}

impl Answer {
    /// Whether the key was there.
    #[inline(always)]
    pub const fn was_there(&self) -> bool {
        self.old_size.is_some()
    }
}
