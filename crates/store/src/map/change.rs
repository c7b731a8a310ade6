//! What conditional writes are told and tell.

use crate::Expiry;

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
    /// Give the key this value, and let it expire then.
    PutWithExpiry(Vec<u8>, Expiry),
    /// Leave the value, and let it expire then.
    Expire(Expiry),
    /// Remove the key.
    Remove,
}
