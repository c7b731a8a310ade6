//! The types of values that there are not here.

const MODULE_OF_OLD: u8 = 6;
pub(super) const MODULE: u8 = 7;
pub(super) const STREAM: u8 = 15;
pub(super) const STREAM_2: u8 = 19;
pub(super) const STREAM_3: u8 = 21;

/// What a type of values is called that there is not here.
pub fn unsupported_name(kind: u8) -> Option<&'static str> {
    match kind {
        MODULE_OF_OLD | MODULE => Some("a value of a module"),
        STREAM | STREAM_2 | STREAM_3 => Some("a stream"),
        _ => None,
    }
}
