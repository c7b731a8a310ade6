//! What is demanded of a tree in a full pool, when the threads have ended: that it can be emptied, and has room then.
//!
//! A program whose operations may find no space says nothing of how often they do: a tree that refuses what needs none
//! would pass. So at the end of each such run all keys are removed, which nothing may refuse; where a number says how
//! much space there is, with none at all. Where the tree itself has filled the pool, and left what it must leave, a key
//! is put after that.

use std::fmt::Display;
use std::sync::Arc;

use everleaf_alloc::{Heap, Session};
use everleaf_machine::Simulated;

use crate::machine::hoard::Hoard;
use crate::machine::space::Space;

/// Published designs whose removals need space.
const APPENDS: [&str; 1] = [
    // A removal is one more entry of an append-only leaf, and a full leaf is written anew first.
    "nvtree",
];

/// Whether a full tree of this design can be emptied.
pub(crate) fn can_be_emptied(design: &str) -> bool {
    !APPENDS.contains(&design)
}

/// Empties a tree by `remove`, which does not answer for want of space, key by key of so many; then `put` puts
/// one of them.
///
/// # Errors
/// What was refused, in words.
pub(crate) fn demand_room<E: Display>(
    heap: &Arc<Heap<Simulated>>,
    space: &Space,
    keys: usize,
    mut remove: impl FnMut(&mut Session<Simulated>, usize) -> Result<(), E>,
    put: impl FnOnce(&mut Session<Simulated>) -> Result<(), E>,
) -> Result<(), String> {
    let hoard = space.blocks_left.map(|_| Hoard::take(heap, 0)).transpose();
    let hoard = hoard.map_err(|error| error.to_string())?;
    let mut session = heap.session().map_err(|error| error.to_string())?;
    for key in 0..keys {
        remove(&mut session, key)
            .map_err(|error| format!("a removal from a full pool is refused: {error}"))?;
    }
    if let Some(hoard) = hoard {
        hoard.give_back();
        return Ok(());
    }
    session.collect_all();
    put(&mut session).map_err(|error| format!("an emptied pool has no room: {error}"))
}
