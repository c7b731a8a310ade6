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

/// What is told of a collection that counts members, and has none where they belong.
const DAMAGED: &str = "ERR a member is missing that the collection counts: it is damaged, and `everleaf check` \
                       on the pool tells more";
/// The same of one that has more, or less, than it counts.
const MISCOUNTED: &str = "ERR the collection has other members than it counts: it is damaged, and `everleaf check` \
                          on the pool tells more";

/// What comes of reading and writing keys.
pub type Result<T> = std::result::Result<T, Failure>;

/// What every command returns. It has written its reply, or nothing that counts.
pub type CommandResult = Result<()>;

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

    /// What is told of members that are stored, and are more than can be held at once: there is no reply.
    pub fn of_what_is_stored(self) -> Self {
        match self {
            Failure::ReplyTooLong => {
                Failure::text("OOM the members of what is stored are more than can be held at once")
            }
            failure => failure,
        }
    }

    /// The failure of what wants a member that is not there.
    pub fn damaged() -> Self {
        Failure::text(DAMAGED)
    }

    /// The failure of what wants all members of a collection that has others than it counts.
    pub fn miscounted() -> Self {
        Failure::text(MISCOUNTED)
    }
}

/// Whether a batch of several commands was refused and nothing of it is there, so that each may be done by itself: as a
/// whole, or because one of them touches what is damaged. That nothing is changed then promises
/// [`Store::write`](everleaf::Store::write).
pub fn is_undone(error: &Error) -> bool {
    is_refused_whole(error) || matches!(error, Error::Corrupt(_))
}

/// Whether a batch was refused as a whole because of its size, because there was no space or memory for it, or because
/// nothing is written at all: each command says by itself whether it can be done.
pub fn is_refused_whole(error: &Error) -> bool {
    error.lacks_space()
        || matches!(
            error,
            Error::OutOfMemory(_)
                | Error::ReadOnly
                | Error::BatchTooLarge(_)
                | Error::KeyTooLarge(_)
                | Error::ValueTooLarge(_)
        )
}
