//! Workloads and measurements: what an operation costs, in time and in memory misses.
//!
//! [`measure::run`] fills an index, runs workloads on it in rounds and returns a [`report::Report`].
//! Times of one machine say little about another, so besides nanoseconds each figure is given in
//! *dependent misses* (dm): the time of one read of ordinary memory whose address is known only
//! when the read before it has finished. It is measured in the same run, before and after every
//! workload (see [`calibrate`]).
//!
//! ```text
//!   settings --> measure --> draw stream --> driver (threads, clock) --> report --> table
//!                  |                          |
//!                  +-- calibrate (dm)         +-- target: an integer tree, the store, or another's index
//! ```
//!
//! How a measurement is made:
//! - keys are a bijective mix of 0, 1, 2, ...; absent keys come from the same mix, further on;
//! - every operation of a thread is drawn before the clock starts;
//! - threads are pinned, and warm up before they start together;
//! - one operation in many is timed by itself, so that the timing does not distort the rest;
//! - costs count the time that threads are on a CPU, throughput the time that passes: on a machine
//!   with nothing else to do they are the same;
//! - each round runs every workload once, so that a disturbance hits all of them alike; reported
//!   are the median of the rounds and the spread;
//! - what the operations return is checked: a wrong or missing value ends the run with an error.
//!
//! # Example
//! ```
//! use everleaf_bench::measure::{self, Case, Settings};
//! use everleaf_bench::{Distribution, Workload};
//! # fn main() -> Result<(), everleaf_bench::BenchError> {
//! let case = Case { workload: Workload::Get, distribution: Distribution::Uniform, threads: 1 };
//! let settings = Settings { keys: 1000, rounds: 1, cases: vec![case], ..Settings::default() };
//! let report = measure::run(&settings, &mut |_| {})?;
//! assert_eq!(report.rows[0].workload, "get");
//! # Ok(())
//! # }
//! ```

//! The published designs are none of this crate's affair: a program that has them passes them on as
//! [`MeasuredDesign`]s.

#![forbid(unsafe_code)]

mod arrivals;
pub mod calibrate;
pub mod clock;
mod distribution;
mod driver;
mod error;
pub mod flagship;
mod keys;
mod latency;
pub mod measure;
mod medium;
pub mod presets;
mod program;
pub mod random;
pub mod report;
mod shares;
pub mod statistics;
mod stream;
pub mod table;
pub mod target;
mod tpcc;
mod trace;
mod workload;

pub use arrivals::Arrivals;
pub use clock::thread_time;
pub use distribution::{Distribution, Sampler};
pub use error::BenchError;
pub use keys::KEY_SIZE_MIN;
pub use measure::index_kind::{IndexKind, MeasuredDesign};
pub use medium::{Medium, remove_pools};
pub use program::checksum as program_checksum;
pub use shares::Shares;
pub use target::Footprint;
pub use tpcc::TpccMix;
pub use trace::Trace;
pub use workload::{Unit, Workload};
