//! The time by which keys expire.

/// Whether a time has come.
pub fn has_expired(expiry_ms: Option<u64>) -> bool {
    expiry_ms.is_some_and(|time| time <= now_ms())
}

/// The same by a time that may be off by so much.
pub fn may_have_expired(expiry_ms: Option<u64>, slack_ms: u64) -> bool {
    has_expired(expiry_ms.map(|time| time.saturating_sub(slack_ms)))
}

/// Milliseconds since 1970-01-01 UTC.
pub fn now_ms() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |since| since.as_millis() as u64)
}
