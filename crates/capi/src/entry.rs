//! Every function of the interface runs in [`entry`].
//!
//! The last error is the only state of this crate outside of handles, and each thread has its own. The library below
//! knows by thread what is deferred (`el_store_defer_sync`).

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::code::{EL_ABI_VERSION, EL_INTERNAL, EL_INVALID, Failure, meaning};

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::new(CString::default());
}

/// What an entry does: a code that is no error, or a failure.
pub type EntryResult = Result<c_int, Failure>;

/// Runs a function of the interface: a failure becomes its code, and its text the last error of the
/// thread; so does a panic, which goes no further.
#[inline]
pub fn entry(run: impl FnOnce() -> EntryResult) -> c_int {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(code)) => code,
        Ok(Err(failure)) => note(failure),
        Err(panic) => note_panic(panic),
    }
}

#[cold]
fn note(failure: Failure) -> c_int {
    let text = CString::new(failure.text().replace('\0', " ")).unwrap_or_default();
    // A thread that is ending has no last error any more.
    let _ = LAST_ERROR.try_with(|last| {
        if let Ok(mut last) = last.try_borrow_mut() {
            *last = text;
        }
    });
    failure.code()
}

#[cold]
fn note_panic(panic: Box<dyn Any + Send>) -> c_int {
    let told = match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => (*text).to_string(),
        (_, Some(text)) => text.clone(),
        _ => "a panic without a text".to_string(),
    };
    // What was thrown may panic when it is dropped.
    std::mem::forget(panic);
    note(Failure::new(EL_INTERNAL, format!("a bug in Everleaf, please report it: {told}")))
}

/// The number of the binary interface of the library. It must equal `EL_ABI_VERSION` of the header
/// the program was compiled with.
#[unsafe(no_mangle)]
pub extern "C" fn el_abi_version() -> u32 {
    EL_ABI_VERSION
}

/// The version of Everleaf, such as "1.2.3". Never freed.
#[unsafe(no_mangle)]
pub extern "C" fn el_version() -> *const c_char {
    const VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(version) => version,
            Err(_) => c"unknown",
        };
    VERSION.as_ptr()
}

/// What a code means, in a few words. Never NULL, never freed.
#[unsafe(no_mangle)]
pub extern "C" fn el_strerror(code: c_int) -> *const c_char {
    meaning(code).as_ptr()
}

/// The text of the last error of the calling thread: what is wrong, and what to do. Never NULL; empty
/// if there was none. It stays valid until the next function fails in this thread.
#[unsafe(no_mangle)]
pub extern "C" fn el_last_error() -> *const c_char {
    let text = LAST_ERROR.try_with(|last| last.try_borrow().map(|last| last.as_ptr()));
    text.ok().and_then(Result::ok).unwrap_or(c"".as_ptr())
}

/// A failure because of an argument.
pub fn invalid(what: &str) -> Failure {
    Failure::new(EL_INVALID, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::EL_OK;

    fn last() -> String {
        LAST_ERROR.with_borrow(|last| last.to_string_lossy().into_owned())
    }

    #[test]
    fn a_panic_becomes_a_code_and_a_text() {
        assert_eq!(entry(|| panic!("planted {}", 7)), EL_INTERNAL);
        assert!(last().ends_with("planted 7"), "{}", last());
        struct Bomb;
        impl Drop for Bomb {
            fn drop(&mut self) {
                panic!("a second one");
            }
        }
        assert_eq!(entry(|| std::panic::panic_any(Bomb)), EL_INTERNAL);
        assert!(last().ends_with("without a text"), "{}", last());
    }

    #[test]
    fn each_thread_has_its_own_last_error() {
        assert_eq!(entry(|| Err(invalid("mine\0 and more"))), EL_INVALID);
        let other = std::thread::spawn(|| {
            assert_eq!(last(), "");
            entry(|| Err(invalid("theirs")))
        });
        assert_eq!(other.join().unwrap(), EL_INVALID);
        assert_eq!(entry(|| Ok(EL_OK)), EL_OK);
        assert_eq!(last(), "mine  and more", "success leaves it as it was");
    }
}
