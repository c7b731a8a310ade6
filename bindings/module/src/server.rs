//! The server's functions and strings.

use valkey_module::raw;

/// Calls a function of the server, which the loading of the module made sure is there.
macro_rules! server {
    ($name:ident($($argument:expr),* $(,)?)) => {
        valkey_module::raw::$name.expect("loading checked that the server has it")($($argument),*)
    };
}
pub(crate) use server;

/// The bytes of a string of the server.
///
/// # Safety
/// The string lives, unchanged, as long as the bytes are used.
pub unsafe fn bytes_of<'a>(string: *const raw::RedisModuleString) -> &'a [u8] {
    let mut length = 0;
    // SAFETY: the caller's promise.
    let start = unsafe { server!(RedisModule_StringPtrLen(string, &mut length)) };
    if start.is_null() {
        return &[];
    }
    // SAFETY: the server says that so many bytes are there.
    unsafe { std::slice::from_raw_parts(start.cast(), length) }
}

/// A string of the server that we made.
pub struct Str(*mut raw::RedisModuleString);

impl Str {
    /// With these bytes.
    pub fn new(bytes: &[u8]) -> Self {
        let (start, length) = (bytes.as_ptr().cast(), bytes.len());
        // SAFETY: without a context the string is ours; the server copies the bytes.
        Str(unsafe { server!(RedisModule_CreateString(std::ptr::null_mut(), start, length)) })
    }

    /// For the server's functions; lives as long as `self`.
    pub fn raw(&self) -> *mut raw::RedisModuleString {
        self.0
    }
}

impl Drop for Str {
    fn drop(&mut self) {
        // SAFETY: made by us without a context, and given up once.
        unsafe { server!(RedisModule_FreeString(std::ptr::null_mut(), self.0)) };
    }
}
