//! What `SORT` says when what it holds is too much.

use crate::command::copy_budget::CopyBudget;
use crate::failure::{Failure, Result};

/// Counts what is about to be kept.
pub fn spend(budget: &mut CopyBudget, size: usize) -> Result<()> {
    budget.spend(size).map_err(|_| too_many())
}

/// The members, weights and results are more than may be held at once.
pub fn too_many() -> Failure {
    Failure::text("OOM so many members cannot be sorted at once")
}
