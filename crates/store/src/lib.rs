//! An embedded ordered key-value store whose operations survive the death of the process.
//!
//! A [`Store`] is a pool file mapped into memory, with named ordered [`Map`]s of byte strings in it.
//! After `kill -9` nothing is replayed: every operation leaves the pool consistent at each
//! instruction, and an operation that returned is there. Reads and writes from many threads are
//! lock-free while no more than 128 threads are in the store at once and nothing needs an order among
//! writers. A log always does, and for a while a batch, [`Store::write_alone`], an open view, a watch, a
//! backup or a change of the expiry of a long value: then a write takes the lock of its key's stripe, one of
//! 1024 (`docs/store.md`). A log beside the pool, if wanted, also survives a crash of the machine.
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
//! # The first hour
//! **A counter service.** Counters are added to by many threads, and a rate limit is a counter that
//! expires:
//!
//! ```
//! # fn main() -> everleaf::Result<()> {
//! # let folder = tempfile::tempdir().expect("a temporary folder");
//! # let path = folder.path().join("counters.pool");
//! use std::time::Duration;
//! use everleaf::Expiry;
//! let store = everleaf::Options::new().create(true).open(&path)?;
//! let visits = store.map("visits")?;
//! std::thread::scope(|scope| {
//!     for _ in 0..4 {
//!         scope.spawn(|| (0..100).try_for_each(|_| visits.fetch_add("/index", 1).map(drop)));
//!     }
//! });
//! assert_eq!(visits.get("/index")?, Some(b"400".to_vec()));
//! let limits = store.map("limits")?;
//! if limits.fetch_add("ann", 1)? == 0 {
//!     limits.expire("ann", Duration::from_secs(60))?;
//! }
//! assert!(matches!(limits.expiry("ann")?, Some(Expiry::At(_))));
//! # Ok(())
//! # }
//! ```
//!
//! **An inverted index.** A key is a word and the number of a text; the texts of a word are those with
//! its prefix. A batch adds a text as a whole, and a view searches one state of it all:
//!
//! ```
//! # fn main() -> everleaf::Result<()> {
//! # let folder = tempfile::tempdir().expect("a temporary folder");
//! # let path = folder.path().join("texts.pool");
//! use everleaf::WriteBatch;
//! let store = everleaf::Options::new().create(true).open(&path)?;
//! let (texts, words) = (store.map("texts")?, store.map("words")?);
//! for (number, text) in ["an oak is a tree", "a tree of pages"].iter().enumerate() {
//!     let number = (number as u32).to_be_bytes();
//!     let mut batch = WriteBatch::new();
//!     batch.put(&texts, number, text);
//!     for word in text.split(' ') {
//!         batch.put(&words, [word.as_bytes(), &[0], &number].concat(), "");
//!     }
//!     assert!(store.write(&batch)?.is_done());
//! }
//! let view = store.view()?;
//! let mut found = vec![];
//! for entry in view.map(&words).prefix("tree\0") {
//!     let (key, _) = entry?;
//!     found.extend(view.map(&texts).get(&key[key.len() - 4..])?);
//! }
//! assert_eq!(found, [b"an oak is a tree".to_vec(), b"a tree of pages".to_vec()]);
//! # Ok(())
//! # }
//! ```
//!
//! **A time series.** A key is a sensor and a time, so that a range is a span of time; the last value
//! before a time is a floor, and what is old expires or is popped:
//!
//! ```
//! # fn main() -> everleaf::Result<()> {
//! # let folder = tempfile::tempdir().expect("a temporary folder");
//! # let path = folder.path().join("series.pool");
//! let store = everleaf::Options::new().create(true).open(&path)?;
//! let key = |seconds: u64| [&b"roof/"[..], &seconds.to_be_bytes()].concat();
//! let history = (0..1000).map(|minute| (key(minute * 60), format!("{} degrees", minute % 30)));
//! let series = store.load_map("temperatures", history)?;
//! series.put(key(60_000), "31 degrees")?;
//! assert_eq!(series.range(key(600)..key(1200)).count(), 10);
//! let (_, value) = series.floor(key(659))?.expect("there is one before");
//! assert_eq!(value, b"10 degrees");
//! let mut newest = vec![];
//! series.scan(..).reverse().limit(2).for_each(|_, value| newest.push(value.to_vec()))?;
//! assert_eq!(newest, [b"31 degrees".to_vec(), b"9 degrees".to_vec()]);
//! assert_eq!(series.pop_first()?.expect("the oldest").0, key(0));
//! # Ok(())
//! # }
//! ```
//!
//! # Consistency
//! Each operation on one key is linearizable, also across a crash of the process (strict durable
//! linearizability). Ranges are sorted, contain no key twice, and each pair was current at some
//! moment of the iteration; for a snapshot, use a [`View`]. Several keys are changed as one by a
//! [`WriteBatch`].
//!
//! # Durability
//! An operation that returned survives the death of the process. [`Durability`] says what a crash of
//! the machine costs on an ordinary disk: with `Process` (no log) the crash is detected at the next
//! open, and the pool refused; with `Interval` the last moment is lost ([`Durability::Interval`] says
//! when more is); with `Power` nothing is. On persistent memory nothing is lost either. The assumptions
//! about the medium are numbered in `docs/persistency.md`.
//!
//! # Limits
//! Keys up to 64 KiB, values up to 512 MiB, names of maps up to 40 bytes, about 1000 maps, pools up
//! to 1 TiB, one writing process at a time.

#![forbid(unsafe_code)]
#![warn(missing_debug_implementations)]

// First, so that the documentation of a store begins with how to open one.
mod store;

mod alone;
mod batch;
mod conversion;
mod durability;
mod error;
mod event;
mod lifecycle;
mod maintenance;
mod map;
mod opening;
mod options;
mod ordered_write;
mod pool_name;
mod pool_watch;
#[doc(hidden)]
pub mod ranked;
mod rebuilt;
mod shared;
mod statistics;
mod versions;
mod view;
mod wal;
mod watch;
mod watches;

pub use alone::Alone;
pub use batch::{WriteBatch, Written};
pub use durability::Durability;
pub use error::{Error, KEY_SIZE_MAX, Result, VALUE_SIZE_MAX};
pub use event::Event;
pub use everleaf_index::{CheckReport, Domain, human_size};
#[doc(hidden)]
pub use everleaf_index::{random, standard_input_was_closed, standard_output_was_closed};
#[doc(hidden)]
pub use everleaf_log::descriptor_advice;
pub use maintenance::copy::Copied;
pub use maintenance::repair::Repaired;
#[doc(hidden)]
pub use maintenance::{behind_damage, new_file, regular_file};
pub use map::Map;
pub use map::change::{Action, Exchange};
pub use map::expiry::Expiry;
pub use map::key_range::KeyRange;
#[doc(hidden)]
pub use map::key_range::{are_crossed, behind_prefix};
#[doc(hidden)]
pub use map::pages::{PageLimit, Pages};
pub use map::range::Range;
pub use map::reserved::DEFAULT_MAP;
pub use map::scan::Scan;
#[doc(hidden)]
pub use opening::refuse_log_beside;
pub use options::{Options, Tree};
pub use rebuilt::Rebuilt;
pub use statistics::{MapStatistics, Statistics};
pub use store::Store;
pub use view::{MapView, View};
#[cfg(feature = "simulated")]
#[doc(hidden)]
pub use wal::simulated::crashes as simulated;
pub use watch::Watch;
