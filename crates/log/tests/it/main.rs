//! Tests of the log, in one program.

mod crafted;
mod crashes;
mod failures;
mod fork;
mod format;
mod interval;
mod owed;
mod real_disk;
mod salvage;
mod unreadable;
