//! What clients are told in place of a reply.

use everleaf::{Error, human_size};

use crate::failure::Failure;
use crate::resp::Reply;
use crate::shared::Shared;

impl Failure {
    /// Answers with this error.
    pub fn write(&self, reply: &mut Reply<'_>, shared: &Shared) {
        match self {
            Failure::Syntax => reply.error("ERR syntax error"),
            Failure::WrongType => {
                reply.error("WRONGTYPE Operation against a key holding the wrong kind of value")
            }
            Failure::NotInteger => reply.error("ERR value is not an integer or out of range"),
            Failure::WrongArity(name) => {
                reply.error(&format!("ERR wrong number of arguments for '{name}' command"));
            }
            Failure::ReplyTooLong => reply.error(&format!(
                "ERR the reply would have more than {}: ask for less at a time",
                human_size(shared.config.reply_size_max as u64)
            )),
            Failure::Text(text) => reply.error(text),
            Failure::Store(error) => write_store_error(error, reply, shared),
        }
    }
}

/// The code tells client libraries what to do; the sentence tells people.
fn write_store_error(error: &Error, reply: &mut Reply<'_>, shared: &Shared) {
    let code = match error {
        Error::DiskFull(_) | Error::PoolFull(_) => {
            shared.log_store_error(error);
            "OOM"
        }
        // What clients of Redis know for a server that cannot make writes durable.
        Error::LogFailed(_) | Error::LogFull(_) | Error::PoolGone(_) => {
            shared.log_store_error(error);
            "MISCONF"
        }
        Error::ReadOnly => "READONLY",
        Error::KeyTooLarge(_) | Error::ValueTooLarge(_) => "ERR",
        _ => {
            shared.log_store_error(error);
            "ERR"
        }
    };
    reply.error(&format!("{code} {error}"));
}

/// What a client is told in place of replies to writes of which nobody knows whether they will last.
pub fn write_maybe_lost(error: &Error, reply: &mut Reply<'_>, shared: &Shared) {
    shared.log_store_error(error);
    reply.error(&format!("MISCONF what was written since the last reply may be lost: {error}"));
}
