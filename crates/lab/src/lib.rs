//! The laboratory: the experiments of the papers, by name, counted on the simulated machine or
//! timed with the bench, with verdicts, comparison and a report.
//!
//! It measures the published designs beside the flagship: [`designs`] are those that the bench can
//! be given, [`add_index`] puts a tree of one into a pool, [`check_pool`] checks such a pool.

#![forbid(unsafe_code)]

pub mod experiment;
mod loopback;
mod replay;
pub mod report;

pub use everleaf_lab_designs::{add_index, check_pool, design, designs};
