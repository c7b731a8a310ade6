//! An embedded ordered key-value store whose operations survive the death of the process.
//!
//! A [`Store`] is a pool file mapped into memory, with an ordered map of byte strings in it, and
//! any number of further named [`Map`]s. There is no log and nothing is replayed at start: every
//! operation leaves the pool consistent at each instruction, and an operation that returned is
//! there after `kill -9`. Reads and writes from many threads are lock-free.
//!
//! ```
//! # fn main() -> everleaf::Result<()> {
//! # let folder = tempfile::tempdir().expect("a temporary folder");
//! # let path = folder.path().join("trees.pool");
//! let store = everleaf::Options::new().create(true).open(&path)?;
//! let trees = store.default_map();
//! trees.put("oak", "Quercus")?;
//! trees.put("ash", "Fraxinus")?;
//! assert_eq!(trees.get("oak")?, Some(b"Quercus".to_vec()));
//! for pair in trees.range("a".."b") {
//!     let (key, value) = pair?;
//!     assert_eq!((&key[..], &value[..]), (&b"ash"[..], &b"Fraxinus"[..]));
//! }
//! drop(store);
//! let store = everleaf::Options::new().open(&path)?;
//! assert_eq!(store.default_map().len(), 2);
//! # Ok(())
//! # }
//! ```
//!
//! # Consistency
//! Each operation on one key is linearizable, also across a crash of the process (strict durable
//! linearizability). Ranges are sorted, contain no key twice, and each pair was current at some
//! moment of the iteration; they are not snapshots. Several keys are changed as one by a
//! [`WriteBatch`], and read as of one moment in a [`View`].
//!
//! # Durability
//! `Process` (any file system): nothing acknowledged is lost when the process dies. A power cut or
//! kernel crash is detected at the next open, which then refuses unless told otherwise. On
//! persistent memory (`Line`, `Visible`) an acknowledged operation survives power cuts as well. The
//! assumptions about the medium are numbered in `docs/persistency.md`.
//!
//! # Limits
//! Keys up to 64 KiB, values up to 512 MiB, names of maps up to 40 bytes, about 1000 maps, pools up
//! to 1 TiB, one writing process at a time.

#![forbid(unsafe_code)]

mod alone;
mod batch;
mod change;
mod conversion;
mod copy;
mod error;
mod expiry;
mod key_range;
mod life;
mod map;
#[doc(hidden)]
pub mod new_file;
mod opening;
mod options;
mod power;
mod range;
mod ranked;
mod repair;
mod reserved;
mod scan;
mod statistics;
mod store;
mod versions;
mod view;
mod watch;

pub use alone::Alone;
pub use batch::{WriteBatch, Written};
pub use change::{Action, Exchange};
pub use copy::Copied;
pub use error::{Error, KEY_SIZE_MAX, VALUE_SIZE_MAX};
pub use everleaf_index::{CheckReport, Domain};
pub use expiry::Expiry;
pub use key_range::KeyRange;
pub use map::Map;
pub use options::Options;
pub use power::{Durability, Rebuilt};
pub use range::Range;
pub use repair::Repaired;
pub use scan::Scan;
pub use statistics::Statistics;
pub use store::{DEFAULT_MAP, Store};
pub use view::{MapView, View};
pub use watch::Watch;

/// The result of a store operation.
pub type Result<T> = std::result::Result<T, Error>;
