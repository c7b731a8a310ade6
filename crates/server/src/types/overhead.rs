//! What the key of a member takes besides the member.

use super::header::Kind;

/// Bytes of the longest key of a member besides the member: the number of the collection and a place, and in the order
/// of a sorted set a level and a score.
pub fn member_overhead(kind: Kind) -> usize {
    match kind {
        Kind::SortedSet => 8 + 1 + 8,
        Kind::Set | Kind::Hash | Kind::List => 8 + 8,
    }
}
