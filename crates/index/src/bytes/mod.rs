//! Trees of byte strings: records, and what is done to them beside a word in a leaf.

pub mod change;
pub mod deciding;
pub mod entry;
pub mod expiry_change;
pub mod found;
pub mod key_words;
pub mod load;
pub mod record;
pub mod staged_write;
pub mod tree;
