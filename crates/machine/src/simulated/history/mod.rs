//! Histories of a map and the judgement whether they are (durably) linearizable.
//!
//! Linearizability is local: a map of single-key operations is a product of independent objects, one
//! per key, and is judged key by key. Two judges:
//!
//! * [`Monitor`]: exact and on line. It follows a running history with crashes and reports the
//!   first response or recovered value that no order of the operations explains. Its cost grows
//!   exponentially with the number of operations concurrent *on one key*.
//! * [`zones`]: polynomial, for long recorded histories with a distinct value per write. It raises
//!   no false alarm and may miss exotic violations.
//!
//! The criterion across crashes is the strict one: an operation that was pending at a crash took
//! effect before the crash or never will.

mod call;
mod earlier;
mod monitor;
pub mod zones;

pub use call::{Call, Reply};
pub use monitor::{Monitor, THREADS_MAX, Violation};
