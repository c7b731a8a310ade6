//! What a write tells the log.

/// What a write has left of its key, for the log.
#[derive(Clone, Copy)]
pub enum Left<'v> {
    /// What was there before: nothing to tell.
    AsItWas,
    /// This value, which never expires.
    Value(&'v [u8]),
    /// Nothing.
    Nothing,
    /// Something else, which the tree knows.
    ToBeRead,
}

impl Left<'_> {
    /// What the tree knows, if it `changed`.
    pub fn if_changed(changed: bool) -> Self {
        if changed { Left::ToBeRead } else { Left::AsItWas }
    }
}
