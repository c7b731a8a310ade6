//! Why a command answers with an error.

use std::borrow::Cow;

use everleaf::Error;

/// Why a command answers with an error.
#[derive(Debug)]
pub enum Failure {
    /// Arguments that make no sense together.
    Syntax,
    /// An argument or a value should be an integer.
    NotInteger,
    /// The number of arguments does not suit the command of this name.
    WrongArity(&'static str),
    /// The reply grew above the limit.
    ReplyTooLong,
    /// The key holds something else.
    WrongType,
    /// The store refused.
    Store(Error),
    /// Anything else: code and sentence.
    Text(Cow<'static, str>),
}

/// What comes of reading and writing keys.
pub type Result<T> = std::result::Result<T, Failure>;

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Store(error)
    }
}

impl Failure {
    /// A failure in the given words, which start with a code.
    pub fn text(text: impl Into<Cow<'static, str>>) -> Self {
        Failure::Text(text.into())
    }
}
