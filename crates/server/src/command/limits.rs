//! Limits of what is made as one step.

/// What a batch takes at most.
pub const BATCH_SIZE_MAX: usize = everleaf::VALUE_SIZE_MAX;
/// How often a transaction is run while others write.
pub const ATTEMPT_COUNT_MAX: usize = 8;
