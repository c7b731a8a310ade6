//! The part of the configuration that `CONFIG SET` can change while the server runs.

use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::Config;

/// The longest time that a silent connection can be kept, in seconds: that of Redis.
pub const IDLE_TIMEOUT_MAX_S: u64 = i32::MAX as u64;

/// Live settings. Each is independent of everything else, and a reader may see a change late; so
/// all accesses are relaxed.
#[derive(Debug)]
pub struct Settings {
    client_count_max: AtomicUsize,
    bulk_size_max: AtomicUsize,
    /// `usize::MAX` = none.
    client_memory_max: AtomicUsize,
    /// 0 = none.
    idle_timeout_s: AtomicU64,
    /// Microseconds; negative = none.
    slow_log_us: AtomicI64,
    slow_log_len_max: AtomicUsize,
    acl_log_len_max: AtomicUsize,
    encodings: [AtomicI64; ENCODINGS.len()],
}

/// Settings of how small collections are packed, by their names and older names, each with its default. Here all
/// lie in the same way: they are kept for clients that set them, and have no effect.
pub const ENCODINGS: [(&str, &str, i64); 7] = [
    ("hash-max-listpack-entries", "hash-max-ziplist-entries", 512),
    ("hash-max-listpack-value", "hash-max-ziplist-value", 64),
    ("list-compress-depth", "list-compress-depth", 0),
    ("list-max-listpack-size", "list-max-ziplist-size", -2),
    ("set-max-intset-entries", "set-max-intset-entries", 512),
    ("zset-max-listpack-entries", "zset-max-ziplist-entries", 128),
    ("zset-max-listpack-value", "zset-max-ziplist-value", 64),
];

impl Settings {
    pub fn new(config: &Config) -> Self {
        Settings {
            client_count_max: AtomicUsize::new(config.client_count_max),
            bulk_size_max: AtomicUsize::new(config.bulk_size_max),
            client_memory_max: AtomicUsize::new(config.client_memory_max.unwrap_or(usize::MAX)),
            // A fraction of a second must not become "never".
            idle_timeout_s: AtomicU64::new(
                config
                    .idle_timeout
                    .map_or(0, |timeout| timeout.as_secs().clamp(1, IDLE_TIMEOUT_MAX_S)),
            ),
            slow_log_us: AtomicI64::new(config.slow_log_us),
            slow_log_len_max: AtomicUsize::new(config.slow_log_len_max),
            acl_log_len_max: AtomicUsize::new(config.acl_log_len_max),
            encodings: ENCODINGS.map(|(.., value)| AtomicI64::new(value)),
        }
    }

    /// The most connections at a time.
    pub fn client_count_max(&self) -> usize {
        // Relaxed: see the type.
        self.client_count_max.load(Ordering::Relaxed)
    }

    pub fn set_client_count_max(&self, count: usize) {
        // Relaxed: see the type.
        self.client_count_max.store(count, Ordering::Relaxed);
    }

    /// The longest argument, in bytes.
    pub fn bulk_size_max(&self) -> usize {
        // Relaxed: see the type.
        self.bulk_size_max.load(Ordering::Relaxed)
    }

    pub fn set_bulk_size_max(&self, size: usize) {
        // Relaxed: see the type.
        self.bulk_size_max.store(size, Ordering::Relaxed);
    }

    /// What all clients together may make the server hold, in bytes.
    pub fn client_memory_max(&self) -> Option<usize> {
        // Relaxed: see the type.
        Some(self.client_memory_max.load(Ordering::Relaxed)).filter(|&size| size != usize::MAX)
    }

    /// The limit is to be enforced after this.
    pub fn set_client_memory_max(&self, size: Option<usize>) {
        // Relaxed: see the type.
        self.client_memory_max.store(size.unwrap_or(usize::MAX), Ordering::Relaxed);
    }

    /// How long a connection may be silent.
    pub fn idle_timeout(&self) -> Option<Duration> {
        // Relaxed: see the type.
        match self.idle_timeout_s.load(Ordering::Relaxed) {
            0 => None,
            seconds => Some(Duration::from_secs(seconds)),
        }
    }

    /// 0 = for ever. The event loops must be woken to notice.
    pub fn set_idle_timeout_s(&self, seconds: u64) {
        // Relaxed: see the type.
        self.idle_timeout_s.store(seconds, Ordering::Relaxed);
    }

    /// From how long on a command is kept as slow.
    pub fn slow_log_after(&self) -> Option<Duration> {
        u64::try_from(self.slow_log_us()).ok().map(Duration::from_micros)
    }

    /// The same in microseconds; negative = never.
    pub fn slow_log_us(&self) -> i64 {
        // Relaxed: see the type.
        self.slow_log_us.load(Ordering::Relaxed)
    }

    pub fn set_slow_log_us(&self, microseconds: i64) {
        // Relaxed: see the type.
        self.slow_log_us.store(microseconds, Ordering::Relaxed);
    }

    /// How many slow commands are kept.
    pub fn slow_log_len_max(&self) -> usize {
        // Relaxed: see the type.
        self.slow_log_len_max.load(Ordering::Relaxed)
    }

    pub fn set_slow_log_len_max(&self, count: usize) {
        // Relaxed: see the type.
        self.slow_log_len_max.store(count, Ordering::Relaxed);
    }

    /// How many refusals are kept.
    pub fn acl_log_len_max(&self) -> usize {
        // Relaxed: see the type.
        self.acl_log_len_max.load(Ordering::Relaxed)
    }

    pub fn set_acl_log_len_max(&self, count: usize) {
        // Relaxed: see the type.
        self.acl_log_len_max.store(count, Ordering::Relaxed);
    }

    /// One of [`ENCODINGS`], by its index.
    pub fn encoding(&self, index: usize) -> i64 {
        // Relaxed: see the type.
        self.encodings.get(index).map_or(0, |value| value.load(Ordering::Relaxed))
    }

    pub fn set_encoding(&self, index: usize, value: i64) {
        if let Some(encoding) = self.encodings.get(index) {
            // Relaxed: see the type.
            encoding.store(value, Ordering::Relaxed);
        }
    }
}
