//! How readers and the medium are kept from seeing half a slot array.

use everleaf_machine::LineStore;

/// A variant of the tree.
pub trait Variant: Copy + Default + Send + Sync + 'static {
    /// Its name.
    const NAME: &'static str;
    /// Its number in the pool's directory.
    const KIND: u16;
    /// Whether readers follow the word `active`, which writers switch, instead of validating the
    /// version of the lock.
    const DUAL: bool = false;
    /// A way to change the slot array in place, at once. Where the machine does not have it, or gives
    /// up, the two lines take turns: what is in the pool is understood by all.
    const LINE_STORE: Option<LineStore> = None;
}

macro_rules! variants {
    ($($(#[$doc:meta])* $type:ident $name:literal $kind:literal { $($option:item)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $type;
        impl Variant for $type {
            const NAME: &'static str = $name;
            const KIND: u16 = $kind;
            $($option)*
        }
    )*};
}

variants! {
    /// The two lines of the slot array take turns.
    Turns "rntree" 0x20 {}
    /// The same, and they are the dual slot array for readers.
    Dual "rntree-dual" 0x21 { const DUAL: bool = true; }
    /// One store of 64 bytes, in place. **No architecture promises that a crash keeps all of it**: to
    /// be measured, not to be relied on.
    Wide "rntree-wide" 0x28 { const LINE_STORE: Option<LineStore> = Some(LineStore::Wide); }
    /// One direct store of 64 bytes, in place, which the architecture promises to be whole.
    Direct "rntree-direct" 0x29 { const LINE_STORE: Option<LineStore> = Some(LineStore::Direct); }
    /// A hardware transaction, in place: as published.
    Transaction "rntree-rtm" 0x2A {
        const LINE_STORE: Option<LineStore> = Some(LineStore::Transaction);
    }
}
