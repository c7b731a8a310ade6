//! What a client wants to do with a collection once it has members.

use crate::types::Kind;
use crate::types::list::Side;

/// What a client waits for.
#[derive(Clone, Debug)]
pub struct BlockingRequest {
    /// A collection of this kind,
    pub kind: Kind,
    /// with one of these keys,
    pub keys: Vec<Vec<u8>>,
    /// to do this with it.
    pub what: What,
}

/// What is done with a collection that has members.
#[derive(Clone, Debug)]
pub enum What {
    /// Removes an element.
    Pop(Side),
    /// Removes so many elements at most.
    PopMany(Side, u64),
    /// Moves an element.
    Move { destination: Vec<u8>, from: Side, to: Side },
    /// Removes the first member, or the last.
    PopMember { reverse: bool },
    /// Removes so many members at most.
    PopMembers { reverse: bool, count: u64 },
}
