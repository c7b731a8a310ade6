//! The pool: one mapped file that holds everything Everleaf keeps.
//!
//! A [`Pool`] is a file (or plain memory, or simulated persistent memory) mapped at an address that
//! never changes while it is open. It knows its own format, which process has it open, how far it has grown,
//! when a store to it is durable ([`Domain`], [`Medium`]), whether the last session ended well, and
//! a small directory of named roots. What lies behind [`DATA_START`] belongs to the allocator.
//!
//! ```text
//!   0          4 KiB       8 KiB                  72 KiB                      size()      max_size()
//!   +-----------+-----------+----------------------+-----------------------------+- - - - - -+
//!   | header A  | header B  | root directory       | chunks of the allocator     | addresses |
//!   | session A | session B | 1000 x 64 B          |                             | reserved  |
//!   | ids A     | ids B     |                      |                             |           |
//!   | seal A    | seal B    |                      |                             |           |
//!   | holder    |           |                      |                             |           |
//!   +-----------+-----------+----------------------+-----------------------------+- - - - - -+
//! ```
//!
//! *Thread safety.* A [`Pool`] is shared freely; its rare operations (growth, roots, ids) take a
//! short lock, its common ones (base, size, medium) are plain reads.
//!
//! *Crashes.* Every change of the pool's own bytes is made durable before it is relied on, and a
//! crash between any two stores leaves a pool that opens:
//!
//! - I1: at every instant at least one copy of each pair (header, session, ids) is whole. (A seal that is not whole,
//!   or not of the session's generation, counts as none.)
//! - I2: the space of the file up to the recorded size is allocated before the size is recorded,
//!   and the size is durable before other threads see it.
//! - I3: a root is on durable bytes before its commit word makes it exist.
//! - I4: an id is durable before it is handed out.
//! - I5: the clean mark is set after all data is durable, and removed durably before any is changed, be it one of two
//!   copies: those of header and ids are equal behind the mark.
//!
//! *Limits.* A file that another program truncates while it is mapped kills the process with
//! `SIGBUS` on the next access: the kernel leaves no other answer. A full disk does not: space is
//! allocated before it is used.

#[cfg(not(target_endian = "little"))]
compile_error!("the pool format is little-endian and its words are used in place");

#[cfg(not(target_pointer_width = "64"))]
compile_error!("a pool needs an address space of 64 bits");

mod backing;
mod checksum;
mod domain;
mod error;
mod grow;
mod header;
mod human_size;
pub mod layout;
mod medium;
mod offset;
mod open;
mod pool;
mod root_index;
mod session_record;
mod uuid;
mod view;

pub use backing::{Backing, Environment, FileName};
#[cfg(feature = "simulated")]
pub use backing::{PagesLeft, SimulatedBacking, domain_of};
pub use domain::{Domain, UnknownDomain};
pub use error::{Holder, PoolError};
pub use header::LogNote;
pub use human_size::human_size;
pub use layout::{
    DATA_START, FEATURE_BATCHES, FEATURE_EXPIRY, FEATURE_EXPIRY_IN_BATCHES, FEATURE_EXPIRY_WORD,
    FEATURE_HASHED_LEAVES, FEATURE_LOG_NOTE, FEATURE_RUNS_OF_LISTS, FEATURE_SUM_OF_EMPTY,
    KNOWN_FEATURES,
};
pub use medium::Medium;
pub use offset::Offset;
pub use open::{CreateMode, PoolOptions};
pub use pool::{Pool, Root, Seal, is_root_whole};
pub use root_index::RootIndex;
pub use uuid::{log_note_of, uuid_of};
