//! Every bit of the protocol: which thread sets it, what it means to others.
//!
//! *Value*, in the pool; a value has 62 bits of its own:
//!
//! | bit | set by | others |
//! |---|---|---|
//! | [`COPIED`] | the copy phase, on the copy | the sync phase may still bring it up to date, once |
//! | [`SYNCED`] | the thread that brought the copy up to date | sync-on-write may do it again, the sync phase may not |
//! | none | a write to the leaf itself | nobody overwrites it from an older leaf |
//!
//! *Bitmap*, in the metadata: bits 0..=61 committed slots, and
//!
//! | bit | set by | others |
//! |---|---|---|
//! | [`SMO`] | the thread that finds the leaf full | no commit may follow; inserters help to replace the leaf |
//!
//! *Flag*, in the metadata:
//!
//! | bit | set by | others |
//! |---|---|---|
//! | [`SYNC`] | the end of the sync phase | searches answer from the copy alone |
//! | [`LINK`] | the end of the link phase, after the list leads durably to the copies | the leaf is out of the tree: a thread that comes anew goes on to its copies |

/// Value: made by the copy phase, and not touched since.
pub const COPIED: u64 = 1 << 63;
/// Value: brought up to date from the old leaf.
pub const SYNCED: u64 = 1 << 62;
/// The largest value.
pub const VALUE_MAX: u64 = SYNCED - 1;

/// A value without the bits of the protocol.
#[inline(always)]
pub const fn plain(value: u64) -> u64 {
    value & VALUE_MAX
}

/// Bitmap: the leaf is being replaced.
pub const SMO: u64 = 1 << 63;
/// Bitmap: the committed slots.
pub const COMMITTED: u64 = (1 << 62) - 1;

/// Flag: the copies have all that was written before they could be found.
pub const SYNC: u32 = 1;
/// Flag: the copies are in the tree, the leaf is not.
pub const LINK: u32 = 2;
