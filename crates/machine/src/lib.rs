//! The machine that Everleaf runs on: shared words, cache lines, persistence, threads, clocks.
//!
//! Everything a tree shares between threads is a type of this crate ([`Atomic`], [`AtomicPointer`],
//! [`AtomicPair`], [`AtomicLine`], [`FingerprintLine`]), generic over one type parameter, the [`Machine`]. On
//! [`Hardware`] these are transparent wrappers that compile to exactly the plain instructions. On a
//! simulated machine the same types make each access a scheduling point, a cache-model event and a
//! possible crash point, so the very same tree code is proven, counted and priced.
//!
//! ```text
//!   tree code ──uses──► Atomic<u64, M> ──calls──► M: Machine ──┬─ Hardware   plain instructions
//!                                                             └─ Simulated  scheduler, power cuts
//! ```
//!
//! The simulated side is compiled with the feature `simulated` only; the product is built without.
//! Code that is generic over the machine does not know the feature.
//!
//! The crates of a tree (`pool`, `alloc`, `index`, `designs`) use no standard atomic, lock, thread or clock, no
//! intrinsic, and no allocation of memory but through this crate: it is their one seam (`cargo xtask tidy` checks it).
//! The log, the store and what is above them may: they do not run on the simulated machine.

pub mod ascending;
mod atomic;
pub mod check_sum;
pub mod cpu;
mod descriptor;
pub mod fingerprint;
pub mod hardware;
pub mod keys;
mod line_store;
pub mod lock_rank;
pub mod mapping;
mod process;
pub mod random;
pub mod ranked_mutex;
mod seam;
pub mod search;
#[cfg(feature = "simulated")]
pub mod simulated;
mod spin_lock;
mod standard_streams;
pub mod topology;

pub use atomic::{Atomic, AtomicLine, AtomicPair, AtomicPointer, FingerprintLine};
pub use descriptor::above_standard_streams;
pub use hardware::{Hardware, prefetch_write, thread_time};
pub use line_store::{LINE_SIZE, LineStore};
pub use process::OwnerProcess;
pub use seam::{Integer, Machine, Pair, PairCell, Word};
pub use search::SortedLine;
#[cfg(feature = "simulated")]
pub use simulated::Simulated;
pub use spin_lock::{SpinGuard, SpinLock};
pub use standard_streams::{standard_input_was_closed, standard_output_was_closed};
pub use std::sync::atomic::Ordering;
