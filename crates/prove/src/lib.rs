//! The proof: programs that run Everleaf's structures on the simulated machine, and the searches
//! through their schedules and crashes.
//!
//! ```text
//!   Subject (a tree of numbers) --+
//!   BytesProgram (byte strings)   |     Program + Plan      Config
//!   AllocatorProgram              +---> scenarios, plans ---> Runner ---> Report | Failure
//! ```
//!
//! | file | what it has |
//! |---|---|
//! | `subject` | what a tree of numbers must offer to be proven: implement it, add one line to the list |
//! | `u64_program`, `bytes_program`, `allocator_program` | programs: trees of numbers, of byte strings, the allocator |
//! | `allocator_plans` | what the threads of a program for the allocator do, by chance |
//! | `scenarios`, `plans`, `exhaustion` | what the threads of a program do: by name, by chance, with too little space |
//! | `meetings` | small programs for searches that end by time |
//! | `settings` | what a search is asked to do |
//! | `small_passes` | what such a search does with small programs |
//! | `made` | programs that are made: a walk to a far state, then a few operations of a few threads |
//! | `tiny` | programs that are made so small that every order is run |
//! | `long` | long walks of one thread through trees with many keys, and wide nodes |
//! | `expected` | a map that such walks are held against |
//! | `hoard` | nearly all space of a pool, held back |
//! | `leaks` | what is left when a program has given everything back |
//! | `living` | any subject behind one type |
//! | `maps` | the trees of a pool: made, loaded, emptied, removed, sealed |
//! | `log_program` | the log and its recovery, on the simulated disk |
//! | `store_program` | the whole store with its log, on the simulated disk |
//! | `corpus` | programs that came to new places, gone back to |
//! | `dimensions` | what a step of a random search is drawn of |
//! | `anomalies` | what the published protocols of the other trees lose, each in a program |
//! | `safeguards` | programs made for planted bugs that few others miss |
//! | `published` | NBTree as published: programs of one thread, and those that show what it loses |
//! | `directed_case` | a safeguard with a program that misses it |
//! | `case` | a program with its plan, behind one trait |
//! | `step` | one step of a search, and what can be run of a structure |
//! | `trees`, `structure` | all programs by name, the product's structures by name |
//! | `configure` | which machine a number stands for |
//! | `planted`, `plain`, `mutants` | planted bugs, and the hunt for them |
//! | `mutation` | mutants by rule: a fault in every access in turn |
//! | `arguments` | why nobody can miss some of them |
//!
//! Everything here but `store_program` runs on one OS thread and is decided by numbers: the same number gives the same
//! program, the same configuration the same schedules. A run of the store has threads of its own.

pub mod ablation;
mod allocator_plans;
pub mod allocator_program;
pub mod anomalies;
pub mod arguments;
pub mod backing;
pub mod batches;
pub mod bytes_program;
pub mod campaign;
pub mod case;
pub mod configure;
pub mod corpus;
pub mod coverage;
pub mod creation;
mod damage;
mod design;
pub mod dimensions;
pub mod directed_case;
pub mod directory;
mod emptied;
pub mod epochs;
pub mod exhaustion;
pub mod expected;
pub mod expiries;
mod hoard;
pub mod leaks;
pub mod living;
mod loads;
mod log_program;
pub mod long;
pub mod made;
mod map_names;
mod map_programs;
pub mod maps;
mod meetings;
pub mod mutants;
pub mod mutation;
mod nbtree;
pub mod operation;
pub mod plain;
pub mod plans;
pub mod planted;
pub mod published;
pub mod record;
pub mod safeguards;
pub mod scenarios;
mod settings;
mod small_passes;
pub mod step;
mod store_program;
pub mod structure;
pub mod subject;
pub mod tiny;
pub mod trees;
pub mod u64_program;
mod unjudged;
mod vanishing;

pub use design::Of;
pub use nbtree::Nb;
pub use subject::Subject;

pub use everleaf_machine::simulated::{
    Config, Domain, FAULT_KINDS, Failure, FailureKind, Fault, FaultKind, MemoryModel, Site,
    SiteKind, cpu_time,
};
