//! The configurations of a tree, as types: what all have, and the macro that declares them.

/// The name of a configuration, and its number.
pub trait Named: Copy + Default + Send + Sync + 'static {
    /// Its name.
    const NAME: &'static str;
    /// Its number in the pool's directory.
    const KIND: u16;
}

/// Declares configurations: the type (with parameters, if it is one for tests), the name, the number, and what it
/// has of each trait.
///
/// ```text
/// variants! {
///     /// As published.
///     Standard "tree" 0x10 Variant { const LENGTH: usize = 64; }
///     /// For tests.
///     Small<PAIRS: usize = 2> "tree-small" 0x11 Variant { const LENGTH: usize = PAIRS; }
/// }
/// ```
macro_rules! variants {
    ($(
        $(#[$doc:meta])*
        $type:ident $(<$($parameter:ident: $of:ty = $default:literal),* $(,)?>)? $name:literal $kind:literal
        $($trait:ident { $($item:item)* }),+
    )*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $type $(<$(const $parameter: $of = $default),*>)?;

        impl $(<$(const $parameter: $of),*>)? $crate::node::variant::Named
            for $type $(<$($parameter),*>)?
        {
            const NAME: &'static str = $name;
            const KIND: u16 = $kind;
        }

        variants! { @traits $type [$($($parameter: $of),*)?] $($trait { $($item)* })+ }
    )*};
    (@traits $type:ident [$($parameter:ident: $of:ty),*]
        $trait:ident { $($item:item)* } $($rest:tt)*
    ) => {
        impl<$(const $parameter: $of),*> $trait for $type<$($parameter),*> { $($item)* }

        variants! { @traits $type [$($parameter: $of),*] $($rest)* }
    };
    (@traits $type:ident [$($parameter:ident: $of:ty),*]) => {};
}

pub(crate) use variants;
