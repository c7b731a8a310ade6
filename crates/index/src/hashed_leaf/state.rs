//! The states of a position: those of `nbtree`, and one more.
//!
//! ```text
//!   EMPTY --claim--> PENDING --count--> LIVE --remove--> TOMB
//!     |                 |                |
//!   freeze              +---- freeze ----+--> FROZEN
//!     +--> FROZEN_EMPTY
//! ```
//!
//! | state | set by | others | recovery |
//! |---|---|---|---|
//! | `EMPTY` | the builder of the block | claim it | free, unless a key has passed it |
//! | `PENDING` | the thread that claimed the position | inserters of the same key help it to `LIVE`, freezers to `FROZEN`; absent for readers | becomes `TOMB`: the insert never happened |
//! | `LIVE` | owner or helper | read, update, remove | kept |
//! | `TOMB` | remove | final | not used again while the block lives |
//! | `FROZEN` | the freezer of a leaf that is being replaced | read until the leaf is replaced; writers help the replacement | kept, as `LIVE` |
//! | `FROZEN_EMPTY` | likewise, at an `EMPTY` position | nobody claims it; inserters help the replacement | as `EMPTY` |
//!
//! In a pool that was sealed, or is only read, a leaf with a frozen position is frozen again instead, and the first
//! writer replaces it.

use crate::nbtree::state::State;

/// An empty position of a leaf that is being replaced: nobody may claim it.
pub const FROZEN_EMPTY: State = 0b100;
