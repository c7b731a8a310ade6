//! The search through programs, schedules and crashes.
//!
//! `campaign` runs it as `settings` ask: small programs first (`small_passes`), then steps by chance, some of which go
//! back to programs that came to new places (`corpus`). `coverage` counts what was covered; `record` is a failure as a
//! file.

pub mod campaign;
pub mod corpus;
pub mod coverage;
pub mod record;
mod settings;
mod small_passes;
