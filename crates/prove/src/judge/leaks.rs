//! What is left over when a program has given everything back: what has leaked.
//!
//! The check of a tree tells what of the pool is neither in use nor free. What it cannot tell is which
//! volatile nodes are still wanted: only when the tree itself is gone, none may be left.

use everleaf_alloc::{Audit, Heap, Session};
use everleaf_index::{Geometry, Trees};
use everleaf_machine::Simulated;
use std::sync::Arc;

/// Removes all trees of a pool, and demands that nothing of them is left there.
///
/// # Errors
/// What is left, in words, or a tree that cannot be removed.
pub fn remove_trees<G: Geometry>(trees: &Trees<G, Simulated>) -> Result<(), String> {
    for name in trees.names() {
        let removed = trees.remove(&name).map_err(|error| error.to_string())?;
        assert!(removed, "a tree whose name was just told is gone");
    }
    // What opening had left of them is free, too.
    if !trees.finish_opening() {
        return Err(format!("{} leaves of no tree are left", trees.unrestored()));
    }
    let pooled = trees.sessions().enter_all(None).map_err(|error| error.to_string())?;
    demand_free(trees.heap(), pooled.iter().filter_map(|guard| guard.opened()).collect())
}

/// Demands that nothing of a heap is in use. Nobody has a session.
///
/// # Errors
/// What is in use, or free twice, in words.
pub fn all_is_free(heap: &Arc<Heap<Simulated>>) -> Result<(), String> {
    demand_free(heap, vec![])
}

/// The same where nobody has a session but those that are given, which a pool of sessions keeps.
fn demand_free(
    heap: &Arc<Heap<Simulated>>,
    pooled: Vec<&Session<Simulated>>,
) -> Result<(), String> {
    let mut session: Session<Simulated> = heap.session().map_err(|error| error.to_string())?;
    session.collect_all();
    let ended = heap.session_count() - 1 - pooled.len();
    if ended > 0 {
        return Err(format!("{ended} ended sessions still count"));
    }
    let mut audit = Audit::new(heap).map_err(|error| error.to_string())?;
    audit.add_session(&session);
    pooled.into_iter().for_each(|session| audit.add_session(session));
    let problems = audit.finish(heap);
    if problems.is_empty() { Ok(()) } else { Err(problems.join("; ")) }
}
