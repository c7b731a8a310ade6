//! The variants, as types.

/// A configuration of the tree.
pub trait Variant: Copy + Default + Send + Sync + 'static {
    /// Its name.
    const NAME: &'static str;
    /// Its number in the pool's directory.
    const KIND: u16;
    /// Whether a filter says which keys a leaf does not have.
    const FILTER: bool = true;
    /// Whether writes are gathered in buffers, with a log.
    const BUFFERED: bool = false;
    /// Whether what is in buffers is in a log too. If not, a crash takes it back.
    const LOGGED: bool = true;
    /// Whether opening restores all buffers, not each when its leaf is touched.
    const EAGER: bool = false;
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
    /// Writes are gathered in buffers, whose log is linked: buffers are restored when they are touched.
    Buffered "sptree-buffered" 0x62 { const BUFFERED: bool = true; }
    /// As [`Buffered`]; opening restores all buffers, as with a plain log.
    Plain "sptree-plain" 0x63 {
        const BUFFERED: bool = true;
        const EAGER: bool = true;
    }
    /// As [`Buffered`], without a log.
    Unlogged "sptree-unlogged" 0x65 {
        const BUFFERED: bool = true;
        const LOGGED: bool = false;
    }
    /// As [`Buffered`], without filters.
    BufferedUnfiltered "sptree-buffered-unfiltered" 0x64 {
        const BUFFERED: bool = true;
        const FILTER: bool = false;
    }
}
