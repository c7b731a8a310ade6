//! A leaf whose entries are placed by the hash of their key.
//!
//! The candidate protocol of the flagship's second generation: the line of an entry follows from its
//! key, so that a lookup asks for the fingerprints and for the line at once.
//!
//! ```text
//!   position      EMPTY -> PENDING(k, v) -> LIVE(k, v) <-> TOMBSTONE(k)       one exchange each
//!                   |           |               |              |
//!                   v           v               v              v              freezing, for a copy
//!                 FROZEN-     FROZEN(k, v)    FROZEN(k, v)   FROZEN-
//!                 EMPTY                                      TOMBSTONE(k)
//!   fingerprint   0 -> fingerprint of k, stored between PENDING and LIVE      DRAM
//!   overflow bit  set before a key is claimed for behind its own chunk        DRAM
//! ```
//!
//! Invariants:
//! - H1 the key of a position never changes, and a position never becomes empty again;
//! - H2 a key has at most one position: its probe order is fixed, and a thread that inserts claims the first
//!   empty position of it behind none that is the key's own. So a thread that inserts the same key meets it;
//! - H3 a live entry has its fingerprint: the thread that makes it live has stored it before;
//! - H4 a key behind its own chunk has set the overflow bits of the chunks before it;
//! - H5 after a crash nothing before a key in its probe order is empty: recovery closes such gaps.
//!
//! What the model shows beside that (`tests.rs` has a program for each safeguard, and those that
//! nothing misses): lookups need not ask whether the leaf they read was replaced. A leaf is replaced
//! when the inner node names its successor, and a thread that got there before may still answer what was
//! frozen in it, or that a key is not in it: both were true after the call began. So freezing need not
//! touch fingerprints either. The overflow bit may be read before or after the fingerprints.
//!
//! What it leaves out: splits (a copy has the same range), reclamation (epochs: nothing is reused
//! while a thread may read it), scans. A line's stores become durable in their order, a flush waits.

mod explore;
mod insert;
mod judge;
mod leaf;
mod lookup;
mod place;
mod program;
mod replace;
mod step;
#[cfg(test)]
mod tests;

pub use explore::{Explored, Violation, explore};
pub use leaf::{Key, Shape, Value};
pub use program::{Answer, Event, Mutant, Operation, Program};
