//! Benchmarks of a pool, from the laboratory crate. Not a command yet.
