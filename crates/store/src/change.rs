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
    /// Give the key this value.
    Put(Vec<u8>),
    /// Remove the key.
    Remove,
}
