//! What conditional writes are told and tell.

/// What [`crate::Map::compare_exchange`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exchange {
    /// The value was as expected, and the change was made.
    Done,
    /// The value was another (`None`: absent); nothing was changed.
    Mismatch(Option<Vec<u8>>),
}

/// What the function given to [`crate::Map::update_with`] wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Leave the key as it is.
    Keep,
    /// Give the key this value. When it expires, if ever, stays as it is.
    Put(Vec<u8>),
    /// Give the key this value, to expire at this time, in milliseconds since 1970-01-01 UTC; 0 for
    /// never.
    PutWithExpiry(Vec<u8>, u64),
    /// Leave the value and let it expire at this time, as above.
    Expire(u64),
    /// Remove the key.
    Remove,
}
