//! What the names of tests say of when they are run.

/// How the name of a test begins that guards a landing, and is not run sooner.
pub const LANDING_PREFIX: &str = "landing_";
/// How the name of a test begins that no command of ours runs: it measures, writes into the sources, or needs
/// rights that a test does not have.
pub const BY_HAND_PREFIX: &str = "by_hand_";
/// What the names of the tests have, one of them, that `cargo xtask long` runs.
pub const LONG_NAMES: [&str; 2] = ["very_many", "_5000_"];
