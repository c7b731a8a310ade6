//! That no string is a header: what is written as a string is looked at before.
//!
//! A client that could write one would have the collection whose number it has, of whatever key and database, and a
//! number is found by counting. The mark is no secret to rest on: a backup has it, and so has every dump of the pool's
//! file. Headers themselves are written where collections are ([`Stage::write`](crate::command::stage::Stage::write)),
//! past this.

use everleaf::Action;

use super::header::HEADER_SIZE;
use super::state::Types;
use crate::failure::{Failure, Result};

impl Types {
    /// Refuses a string that would be a header of this pool. It costs one comparison, of the length, but for strings of
    /// just that.
    #[inline]
    pub fn check_string(&self, string: &[u8]) -> Result<()> {
        if self.would_be_header(string) { Err(would_be_header()) } else { Ok(()) }
    }

    /// Whether a string would be a header of this pool, of whatever kind: those that there will be as well.
    #[inline]
    pub fn would_be_header(&self, string: &[u8]) -> bool {
        string.len() == HEADER_SIZE && self.ready().is_some_and(|ready| ready.has_mark(string))
    }

    /// What was decided about a string; that nothing is done if it would be a header, which is noted.
    #[inline]
    pub fn check_action(&self, action: Action, is_refused: &mut bool) -> Action {
        *is_refused = match &action {
            Action::Put(string) | Action::PutWithExpiry(string, _) => self.would_be_header(string),
            _ => false,
        };
        if *is_refused { Action::Keep } else { action }
    }
}

/// What is answered to a client that writes a header as a string.
#[cold]
pub fn would_be_header() -> Failure {
    Failure::text(
        "ERR this string cannot be stored: its 56 bytes begin with the mark by which this pool recognises a \
         collection",
    )
}
