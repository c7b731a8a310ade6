//! Every state bit of the protocol: which thread sets it, what others must then do, what recovery does.
//!
//! *Slot state*, three bits in an entry (in the pool):
//!
//! ```text
//!   EMPTY --claim--> PENDING --commit--> LIVE --remove--> TOMB
//!                       |                 |
//!                       +---- freeze -----+--> FROZEN
//! ```
//!
//! | state | set by | others | recovery |
//! |---|---|---|---|
//! | `EMPTY` | the builder of the block | ignore | free slot if behind the last used one |
//! | `PENDING` | the thread that claimed the slot, alone | committed in `meta`: inserters help it to `LIVE`, the freezer to `FROZEN`, readers treat it as absent | dropped: the insert never happened |
//! | `LIVE` | owner or helper of a committed insert | read, update, remove | kept |
//! | `TOMB` | remove | final; the key is absent here | dropped |
//! | `FROZEN` | the freezer of a leaf that is being replaced | read until the leaf is replaced; writers help the replacement | kept, as `LIVE`; in a pool that was sealed, or is only read, the leaf is frozen again |
//!
//! *Leaf `meta`*, one word in DRAM: bits 0..=61 committed slots, and
//!
//! | bit | set by | others |
//! |---|---|---|
//! | [`FREEZING`] | the thread that starts to replace the leaf | no commit may follow; writers help |
//! | [`REPLACED`] | any thread that finds the replacement durably committed | the leaf is no authority any more: go to its successor |
//!
//! *Block state*, one word in the pool: see [`BlockState`].

use everleaf_machine::Pair;

/// The three state bits of a slot.
pub type State = u8;

/// Never used since the block was built.
pub const EMPTY: State = 0b000;
/// Claimed and written, not yet linearized.
pub const PENDING: State = 0b001;
/// Holds its key.
pub const LIVE: State = 0b010;
/// Removed. Final.
pub const TOMB: State = 0b011;
/// Holds its key, and will not change any more.
pub const FROZEN: State = 0b110;

/// Whether a slot in this state holds its key.
#[inline(always)]
pub fn holds(state: State) -> bool {
    // LIVE and FROZEN differ only in the top bit.
    state & 0b011 == LIVE
}

/// `meta`: the committed slots.
pub const COMMITTED: u64 = (1 << 62) - 1;
/// `meta`: the committed set is final.
pub const FREEZING: u64 = 1 << 62;
/// `meta`: the successor is the authority.
pub const REPLACED: u64 = 1 << 63;

/// The state word of a block: the allocation record and the commit word of every replacement.
///
/// ```text
///   63  61 60                 31 30               1 0
///  |  tag  |         a          |        b        |0|
/// ```
///
/// A block N is *live* iff it is `Live`; or `New(o)` while `o` is `Replaced` by N; or `Merging(a, t)`
/// while `a` is not `Replaced` by `t` alone. Both ways the numbers must match exactly, so neither a
/// loser's stale `New` nor a recycled origin can be taken for live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockState {
    /// Not in use.
    Free,
    /// Built to replace `origin` (with others perhaps); live once the origin says so.
    New {
        /// The block it was built from.
        origin: u32,
    },
    /// In use.
    Live,
    /// Its contents have moved to `left` and, if not [`NO_BLOCK`], `right`.
    Replaced {
        /// The block with the lower keys, or the only one.
        left: u32,
        /// The block with the higher keys, or [`NO_BLOCK`].
        right: u32,
    },
    /// Its contents move, together with `partner`'s, to `target`; in force once the partner is
    /// `Replaced` by the target.
    Merging {
        /// The left one of the two.
        partner: u32,
        /// The block that holds both contents.
        target: u32,
    },
}

/// Stands for "no block".
pub const NO_BLOCK: u32 = (1 << 30) - 1;

impl BlockState {
    /// The state as its persistent word.
    pub fn encode(self) -> u64 {
        let (tag, a, b) = match self {
            BlockState::Free => return 0,
            BlockState::New { origin } => (1u64, origin, NO_BLOCK),
            BlockState::Live => (2, NO_BLOCK, NO_BLOCK),
            BlockState::Replaced { left, right } => (3, left, right),
            BlockState::Merging { partner, target } => (4, partner, target),
        };
        tag << 61 | u64::from(a) << 31 | u64::from(b) << 1
    }

    /// The state from its word; `None` if the word cannot be one.
    pub fn decode(word: u64) -> Option<Self> {
        let a = (word >> 31) as u32 & NO_BLOCK;
        let b = (word >> 1) as u32 & NO_BLOCK;
        let state = match word >> 61 {
            0 => BlockState::Free,
            1 => BlockState::New { origin: a },
            2 => BlockState::Live,
            3 => BlockState::Replaced { left: a, right: b },
            4 => BlockState::Merging { partner: a, target: b },
            _ => return None,
        };
        // A replaced block always names a block: else one flipped bit would turn `Live` into it,
        // and all keys of the block would be gone without a word.
        let named = !matches!(state, BlockState::Replaced { left: NO_BLOCK, .. });
        (named && state.encode() == word).then_some(state)
    }
}

/// An entry that is all zeros: an empty slot of either kind.
pub const EMPTY_ENTRY: Pair = Pair { first: 0, second: 0 };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_states_survive_encoding() {
        let states = [
            BlockState::Free,
            BlockState::New { origin: 0 },
            BlockState::New { origin: NO_BLOCK - 1 },
            BlockState::Live,
            BlockState::Replaced { left: 5, right: NO_BLOCK },
            BlockState::Replaced { left: NO_BLOCK - 1, right: 0 },
            BlockState::Merging { partner: 1, target: 2 },
        ];
        for state in states {
            assert_eq!(BlockState::decode(state.encode()), Some(state));
        }
        for word in [1, u64::MAX, 7 << 61, 5 << 61, 2 << 61] {
            assert_eq!(BlockState::decode(word), None, "{word:#x}");
        }
        for bit in 0..64 {
            let word = BlockState::Live.encode() ^ 1 << bit;
            assert_eq!(BlockState::decode(word), None, "bit {bit} of a live block flipped");
        }
    }
}
