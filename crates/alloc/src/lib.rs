//! Space in a pool, and when it may be used again.
//!
//! *Two layers*, as in Calloc (Bowen Zhang and others, "NBTree", TPDS 2024, section III-C): a
//! global one that hands out chunks, and per-thread lists that hand out blocks and records without
//! touching anything shared. *What is persistent* is only what each chunk is for, one word per
//! chunk. Which blocks and records are in use is not recorded at all: a leaf block says so itself
//! by its state word, and a record is in use exactly while a live leaf refers to it. So an
//! allocation persists nothing, no crash can leak or hand out twice, and recovery derives the free
//! lists from the trees.
//!
//! *What is held back.* A session keeps up to 256 free records of each size class and 256 free blocks of each class,
//! and what it has retired for some epochs: three bags, if nobody is pinned for long, each of up to 128 items, or of 1
//! MiB and the last item. Others get that when the session ends or gives it back, which a [`SessionPool`] makes those
//! that are idle do when somebody has found no space ([`SessionPool::collect_idle`]). The session itself is refused
//! space only when all that it holds back, but for blocks that were promised to it and what is retired too lately, has
//! gone to the depot, and no chunk there is empty. A chunk with one block or record in use serves for nothing but its
//! class.
//!
//! Departures from the paper: no allocation bitmap, reclaimed ring or recyclable log (they record
//! what reachability already says); size classes for records; chunks are returned when empty.
//!
//! | file | what it decides |
//! |---|---|
//! | `layout` | bytes of chunk headers |
//! | `space` | which chunk is whose |
//! | `runs` | runs of chunks, by place and by length |
//! | `depot` | free blocks and records in bulk |
//! | `chunks` | which chunks sessions get when their lists are empty |
//! | `refill` | what a session does when its lists are empty |
//! | `session` | one thread's lists, pins and retired things |
//! | `session_pool` | which session a thread uses |
//! | `epoch` | when something retired may be reused |
//! | `node` | volatile nodes |
//! | `recover` | what is in use after a crash |
//! | `late` | marks that are made after opening |
//! | `audit` | whether everything is in use or free, exactly once |

mod audit;
mod bag;
mod chunks;
mod depot;
pub mod epoch;
mod error;
mod finish;
mod heap;
mod holes;
mod late;
pub mod layout;
mod node;
mod recover;
mod refill;
mod reserve;
mod runs;
mod session;
mod session_pool;
pub mod size_class;
mod space;

pub use audit::Audit;
pub use error::AllocError;
pub use heap::Heap;
pub use late::LateMarks;
pub use layout::{BLOCK_SIZE, block_size};
pub use node::NODE_SIZE_MAX;
pub use recover::{Mark, Recovery};
pub use session::{Pinned, Session};
pub use session_pool::{SessionGuard, SessionPool};
