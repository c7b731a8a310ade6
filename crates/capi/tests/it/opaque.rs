//! What the compiler may take from a reference to a handle.

use std::panic::RefUnwindSafe;

use everleaf_capi::batch::el_batch;
use everleaf_capi::cursor::el_iter;
use everleaf_capi::map::el_map;
use everleaf_capi::options::el_options;
use everleaf_capi::store::el_store;
use everleaf_capi::view::el_view;
use everleaf_capi::watch::el_watch;

/// Whether a type has a trait.
macro_rules! is {
    ($type:ty, $trait:path) => {{
        #[allow(dead_code, reason = "a type that has the trait does not need it")]
        trait Otherwise {
            const IS: bool = false;
        }
        impl<T> Otherwise for T {}
        #[allow(dead_code, reason = "it is not for every type")]
        struct Of<T>(T);
        #[allow(dead_code, reason = "it is not for every type")]
        impl<T: $trait> Of<T> {
            const IS: bool = true;
        }
        Of::<$type>::IS
    }};
}

/// A store that was closed was closed once more when it was freed, in libraries that are optimized: a reference to a
/// type without bytes had promised that nothing is written there.
#[test]
fn a_reference_to_a_handle_promises_nothing() {
    macro_rules! check {
        ($($kind:ty),*) => {$(
            assert!(!is!($kind, RefUnwindSafe), "nothing is written through {}", stringify!($kind));
            assert!(!is!($kind, Unpin), "nobody else writes behind {}", stringify!($kind));
        )*};
    }
    assert!(is!(u8, RefUnwindSafe) && is!(u8, Unpin), "others have both");
    check!(el_store, el_map, el_view, el_watch, el_batch, el_options, el_iter);
}
