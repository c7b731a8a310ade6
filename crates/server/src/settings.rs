//! The part of the configuration that `CONFIG SET` can change while the server runs.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::Config;

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
}

impl Settings {
    pub fn new(config: &Config) -> Self {
        Settings {
            client_count_max: AtomicUsize::new(config.client_count_max),
            bulk_size_max: AtomicUsize::new(config.bulk_size_max),
            client_memory_max: AtomicUsize::new(config.client_memory_max.unwrap_or(usize::MAX)),
            // A fraction of a second must not become "never".
            idle_timeout_s: AtomicU64::new(
                config.idle_timeout.map_or(0, |timeout| timeout.as_secs().max(1)),
            ),
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
}
