//! PMwCAS: several words of the pool exchanged as one, durably, without locks.
//!
//! ```text
//!            a word of an operation                       its descriptor
//!   old -> marker -> pointer -> new, or old again          UNDECIDED -> SUCCEEDED or FAILED
//!          (if it    (durable in all words                 (the first is durable before
//!           is un-    before the decision)                  any word has a new value)
//!           decided)
//! ```
//!
//! An operation is written to a *descriptor* in the pool, durably. In the order of their addresses each word
//! that has its old value gets a pointer to the descriptor; when all pointers are durable the descriptor is
//! decided by one exchange, that is made durable, and the pointers become new values. A thread that meets a
//! pointer or a marker helps: nobody waits for anybody.
//!
//! *Source*: Tianzheng Wang, Justin Levandoski, Per-Ake Larson, "Easy Lock-Free Indexing in Non-Volatile
//! Memory", ICDE 2018. *Departures*: pointers have the descriptor's life, and markers are all different
//! (W3, W4). Words have no dirty bit: a value that can be seen is that of a descriptor that is durably
//! decided, and a crash rolls it forward (W2, W5). What recovery looks at are the words that can be
//! reached, not descriptors: one that is done may have addresses of memory that has other uses by now.
//!
//! Invariants:
//! - W1 a descriptor is durable before a word leads to it;
//! - W2 all words have durable pointers before the descriptor has succeeded, and that is durable before a
//!   word has its new value. So a value that was read is not lost: recovery does what was decided;
//! - W3 each pointer has the descriptor's *life*, the number of its operations so far, and comes to a word at
//!   most once: so an exchange of a pointer or a marker for a value cannot meet a later one of the same bits;
//! - W4 a marker is in one word once, ever. It becomes a pointer only if the descriptor was undecided while the
//!   marker was there. So a helper that comes late cannot begin what is decided. (That takes three threads, two
//!   of which stop at one place each: `crates/models/src/pmwcas.rs` tries all orders);
//! - W5 a thread that has seen a descriptor undecided ends with all its words free of its pointers and markers,
//!   durably, before its pin ends; and a descriptor is used again when all pins that were there at its decision have
//!   ended. So a word, also after a crash, leads to a descriptor that is as it was;
//! - W6 all words of one operation are in one node (or the root object) in which the threads that come upon them are
//!   pinned.
//!
//! Words have [`VALUE_MAX`] as their largest value.

mod descriptor;
mod help;
mod pool;

pub(crate) use descriptor::{Entry, VALUE_MAX};
pub(crate) use pool::Pmwcas;
