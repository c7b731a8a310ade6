//! What a design is built with, besides the public types of this crate: what it has to do in a call, one write as
//! a tree sees it, and a count that many threads add to.

pub use crate::api::change::{Change, Effect, Intent, Outcome};
pub use crate::api::operations::{Operations, Way};
pub use crate::nbtree::tally::Tally;
