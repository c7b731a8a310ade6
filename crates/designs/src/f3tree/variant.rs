//! How many future objects a tree may have, and whether its writes look before they store.

use crate::fast_fair::variant as fast_fair;

/// A configuration of the tree.
pub trait Variant: Copy + Default + Send + Sync + 'static {
    /// Its name.
    const NAME: &'static str;
    /// Its number in the pool's directory.
    const KIND: u16;
    /// The nodes of the global tree.
    type Global: fast_fair::Variant;
    /// Future objects of all fronts together. When they are full, writers evaluate before they go on.
    const OBJECTS_MAX: usize;
    /// Entries of a future object that are used, 1..=14.
    const ENTRIES: usize = 14;
    /// Lists of future objects: sessions share them by their number.
    const FRONTS: usize = 16;
    /// Parts of the table of pending keys, each with a lock.
    const SHARDS: usize = 32;
    /// Whether insert, update, upsert and remove store without looking, as published.
    const BLIND: bool = false;
}

macro_rules! variants {
    ($($(#[$doc:meta])* $type:ident $name:literal $kind:literal $objects:expr, $blind:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $type;
        impl Variant for $type {
            const NAME: &'static str = $name;
            const KIND: u16 = $kind;
            type Global = fast_fair::Standard;
            const OBJECTS_MAX: usize = $objects;
            const BLIND: bool = $blind;
        }
    )*};
}

variants! {
    /// 500 future objects.
    Objects500 "f3-tree" 64 500, false;
    /// 100 future objects.
    Objects100 "f3-tree-100" 65 100, false;
    /// 1000 future objects.
    Objects1000 "f3-tree-1000" 66 1000, false;
    /// As many future objects as the pool has room for.
    Unlimited "f3-tree-unlimited" 67 usize::MAX, false;
    /// 500 future objects; writes do not look at what is there.
    Blind "f3-tree-blind" 68 500, true;
}

/// A few entries, objects and records a node: for tests. `LOOKS` is 0 for writes that do not look.
#[derive(Clone, Copy, Debug, Default)]
pub struct Small<const ENTRIES: usize = 2, const OBJECTS: usize = 2, const LOOKS: u8 = 1>;

impl<const ENTRIES: usize, const OBJECTS: usize, const LOOKS: u8> Variant
    for Small<ENTRIES, OBJECTS, LOOKS>
{
    const NAME: &'static str = "f3-tree-small";
    const KIND: u16 = 69;
    type Global = fast_fair::Small<3>;
    const OBJECTS_MAX: usize = OBJECTS;
    const ENTRIES: usize = ENTRIES;
    const FRONTS: usize = 2;
    const SHARDS: usize = 2;
    const BLIND: bool = LOOKS == 0;
}
