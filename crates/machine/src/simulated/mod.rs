//! The simulated machine: one OS thread plays many threads, their store buffers, cache lines that
//! lose what was not flushed, and power cuts, all decided by one seed.
//!
//! ```text
//!   Program + Plan --> Runner --> fibers run the unmodified code over `Simulated`
//!                        |            every access: scheduling point, checks, store buffer, line log
//!                        |            every crash point: images -> recovery on the side -> judge
//!                        +--> Failure = seed + choices, replayed exactly with a readable trace
//! ```
//!
//! * [`Program`] is what is tested, [`Plan`] what its threads do, [`Config`] how.
//! * [`history`] judges: linearizable while running, durably linearizable across crashes.
//! * [`counting`] tells what operations cost on a model of caches and media.
//! * [`Domain`] says what a crash keeps, [`MemoryModel`] what threads see of each other.
//!
//! Crashes do not end a schedule: images are computed from the line logs, recovered in a second copy
//! of the pool that is undone afterwards, and the schedule goes on.
//!
//! What is *not* modelled: media errors, words of 8 bytes that tear, and reorderings that a compiler
//! or a machine weaker than total store order may do, but for loads that are given an older value.

mod access;
mod clock;
mod config;
mod control;
mod core;
pub mod counting;
mod current;
mod end;
mod failure;
mod fault;
mod fibers;
pub mod history;
mod images;
mod kills;
mod line_store;
mod machine;
mod memo;
mod older;
mod panics;
mod parallel;
mod persistence;
mod program;
mod races;
mod random;
mod raw;
mod region;
mod report;
mod run;
mod runner;
mod scheduler;
mod search;
mod shadow;
mod shrink;
mod sites;
mod space;
mod state;
mod trace;
mod vector_clock;
mod weak;
mod words;

pub use clock::{cpu_time, process_cpu_time};
pub use config::{Abandon, Config, CrashConfig, Domain, MemoryModel, SchedulerKind};
pub use failure::{Failure, FailureKind};
pub use fault::{FAULT_KINDS, Fault, FaultKind};
pub use history::THREADS_MAX;
pub use machine::Simulated;
pub use program::{Plan, Program};
pub use random::{Random, mix};
pub use region::{Memory, OwnedMemory};
pub use report::{Counts, NESTED_LEVELS, Report};
pub use runner::{Replay, Runner};
pub use search::{Ablation, Found, ablate, search};
pub use shrink::{Shrunk, shrink};
pub use sites::{Site, SiteHits, SiteKind};
