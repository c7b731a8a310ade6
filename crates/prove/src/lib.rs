//! The proof: programs that run Everleaf's structures on the simulated machine, and the searches
//! through their schedules and crashes.
//!
//! ```text
//!   Subject (a tree of numbers) --+
//!   BytesProgram (byte strings)   |     Program + Plan      Config
//!   AllocatorProgram              +---> scenarios, plans ---> Runner ---> Report | Failure
//! ```
//!
//! Folders, each of which uses only those above it:
//!
//! | folder | what it has |
//! |---|---|
//! | `machine` | which machine a number stands for, and pools on its memory, full or nearly full |
//! | `case` | what can be run, behind traits: a program with its plan, a step of a search, a structure |
//! | `judge` | what is demanded beside the judge of the machine: answers of one thread, no leaks, room in what is empty |
//! | `tree` | a tree as a program: of numbers or of byte strings; what a tree must offer to be proven |
//! | `programs` | what threads do to a tree: written, drawn, made, for planted bugs; all of it by name |
//! | `structures` | everything else as a program (allocator, batches, log, maps, pool, store ..), and the list of structures |
//! | `planted` | the planted bugs, by name |
//! | `search` | the search through programs, schedules and crashes; what it has covered; a failure as a file |
//! | `hunt` | how long planted bugs live; faults in every access; flushes that nobody misses |
//!
//! Everything here but `structures::store` runs on one OS thread and is decided by numbers: the same number gives the
//! same program, the same configuration the same schedules. A run of the store has threads of its own.

pub mod case;
pub mod hunt;
pub mod judge;
pub mod machine;
pub mod planted;
pub mod programs;
pub mod search;
pub mod structures;
pub mod tree;

pub use tree::design::Of;
pub use tree::nbtree::Nb;
pub use tree::subject::Subject;

pub use everleaf_machine::simulated::{
    Config, Domain, FAULT_KINDS, Failure, FailureKind, Fault, FaultKind, MemoryModel, Site,
    SiteKind, cpu_time,
};
