//! How readers and the medium are kept from seeing half a slot array.

use everleaf_machine::LineStore;

use crate::node::variant::{Named, variants};

/// A variant of the tree.
pub trait Variant: Named {
    /// Whether readers follow the word `active`, which writers switch, instead of validating the
    /// version of the lock.
    const DUAL: bool = false;
    /// A way to change the slot array in place, at once. Where the machine does not have it, or gives
    /// up, the two lines take turns: what is in the pool is understood by all.
    const LINE_STORE: Option<LineStore> = None;
}

variants! {
    /// The two lines of the slot array take turns.
    Turns "rntree" 0x20 Variant {}
    /// The same, and they are the dual slot array for readers.
    Dual "rntree-dual" 0x21 Variant { const DUAL: bool = true; }
    /// One store of 64 bytes, in place. **No architecture promises that a crash keeps all of it**: to
    /// be measured, not to be relied on.
    Wide "rntree-wide" 0x28 Variant { const LINE_STORE: Option<LineStore> = Some(LineStore::Wide); }
    /// One direct store of 64 bytes, in place, which the architecture promises to be whole.
    Direct "rntree-direct" 0x29 Variant { const LINE_STORE: Option<LineStore> = Some(LineStore::Direct); }
    /// A hardware transaction, in place: as published.
    Transaction "rntree-rtm" 0x2A Variant {
        const LINE_STORE: Option<LineStore> = Some(LineStore::Transaction);
    }
}
