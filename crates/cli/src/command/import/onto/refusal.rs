//! What a copy to a server says when it is refused.

use crate::exit_code::ExitCode;
use crate::failure::Failure;

/// What an error leaves behind.
pub const NO_COPY: &str = "nothing more is passed on, and the target is no copy of the source: empty it before the \
                           next attempt";

/// Why the source cannot be copied.
pub fn refused(why: String) -> Failure {
    Failure::new(ExitCode::Pool, format!("{why}; {NO_COPY}"))
}
