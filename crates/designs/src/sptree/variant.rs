//! The variants, as types.

/// A configuration of the tree.
pub trait Variant: Copy + Default + Send + Sync + 'static {
    /// Its name.
    const NAME: &'static str;
    /// Its number in the pool's directory.
    const KIND: u16;
    /// Whether a filter says which keys a leaf does not have.
    const FILTER: bool = true;
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
    /// Every write goes to its leaf.
    Unbuffered "sptree" 0x60 {}
    /// As [`Unbuffered`], without filters.
    Unfiltered "sptree-unfiltered" 0x61 { const FILTER: bool = false; }
}
