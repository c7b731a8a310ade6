//! The tests of the pool that start no process. (A process that is being started has copies of all
//! descriptors, so that a pool which was just closed may still be locked: see `processes`.)

mod common;
mod damage;
mod open;
mod page_cache;
