//! The wire protocol, with no store in sight.
//!
//! Clients only ever send arrays of bulk strings or inline lines, never the other dozen types of
//! the protocol. So the request side is a small parser of just these two that yields slices into
//! the receive buffer, and the reply side writes bytes straight into the send buffer. A general
//! codec would build a tree of owned frames for every command in both directions; doing without
//! it is what makes a GET free of allocations.

mod encode;
mod inline;
mod parse;

pub(crate) use encode::integer_bytes;
pub use encode::{OpenArray, Protocol, Reply};
pub(crate) use inline::words;
pub use parse::{KeptRequests, Limits, Parser, ProtocolError, Request, Series};
