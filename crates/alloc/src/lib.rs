//! Everleaf.
