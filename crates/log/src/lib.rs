//! The write-ahead log and the snapshots that make a store survive the loss of power on an
//! ordinary disk.
//!
//! ```text
//!    place ---> buffers ---> leader: one write, one sync ---> segments     log-0000000000000001 ..
//!   (threads)   (no system call)                                  |
//!   scan of the store ---> blocks ---> index, footer ---> snapshot-0000000000000001 ..
//!                                                                 |
//!   recovery:   newest good snapshot, then the log behind it, in the order of the LSNs
//! ```
//!
//! A [`Log`] takes atomic groups of [`Record`]s and says when they are durable. A
//! [`SnapshotWriter`] takes all pairs of the store while it is written to; with the log of that
//! time they are consistent, and what the log has from before can go. [`Recovered`] gives both back.
//! All of it reaches the disk through the trait [`Disk`], so that a simulated disk can lose,
//! reorder, tear and refuse whatever a real one may. What is assumed of disks, and what is
//! promised, is in `docs/log.md`.

#![forbid(unsafe_code)]

mod buffers;
mod chunk;
mod disk;
mod error;
mod file_names;
pub mod layout;
mod log;
mod options;
mod owner;
mod real_disk;
mod record;
mod recovery;
mod salvage;
mod scan;
#[cfg(feature = "simulated")]
pub mod simulated;
mod snapshot;
mod walk;
mod writer;

pub use disk::{Disk, DiskFile, Portions};
#[doc(hidden)]
pub use error::descriptor_advice;
pub use error::{Error, Result};
pub use log::{Log, Place};
pub use options::{LogOptions, SyncMode};
pub use owner::{FileOwner, is_file_of_log, is_put_aside, is_put_aside_segment, owner_of};
pub use real_disk::RealDisk;
#[doc(hidden)]
pub use real_disk::link_to_nothing;
pub use record::{KEY_SIZE_MAX, Lsn, Record, RecordEffect};
pub use recovery::{Recovered, ReplayStart, Report};
pub use snapshot::{SnapshotBlock, SnapshotInfo, SnapshotReader, SnapshotWriter};

/// The check sum that all files of a log use, of bytes that its owner keeps beside it: CRC-32C.
pub fn checksum(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}
