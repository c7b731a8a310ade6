//! What was refused, and to whom: `ACL LOG`.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::registry::shortened;

/// Entries that are alike within this time are one.
const GROUPING_MS: u64 = 60_000;
/// Among so many of the last entries one that is alike is looked for.
const LOOKED_AT: usize = 10;
/// Bytes that are kept of an object and of a name.
const SIZE_MAX: usize = 512;
/// Bytes that are kept of a line of `CLIENT LIST`.
const CLIENT_SIZE_MAX: usize = 2048;

/// Something that was refused.
#[derive(Clone, Debug)]
pub struct Entry {
    pub count: u64,
    /// `command`, `key` or `auth`.
    pub reason: &'static str,
    /// `toplevel` or `multi`.
    pub context: &'static str,
    /// The command or the key.
    pub object: Vec<u8>,
    pub user: Vec<u8>,
    /// Milliseconds since the server started.
    pub at_ms: u64,
    /// A line of `CLIENT LIST`.
    pub client: String,
}

/// The last of them, the newest first.
#[derive(Debug, Default)]
pub struct AclLog {
    entries: Mutex<VecDeque<Entry>>,
}

impl AclLog {
    /// Adds an entry, or counts it to one that is alike; forgets the oldest beyond `count_max`.
    pub fn add(&self, mut entry: Entry, count_max: usize) {
        entry.object.truncate(SIZE_MAX);
        entry.user.truncate(SIZE_MAX);
        if entry.client.len() > CLIENT_SIZE_MAX {
            entry.client = shortened(&entry.client, CLIENT_SIZE_MAX);
        }
        let mut entries = self.lock();
        let alike = entries.iter().take(LOOKED_AT).position(|known| known.is_like(&entry));
        if let Some(known) = alike.and_then(|index| entries.remove(index)) {
            entry.count += known.count;
        }
        entries.push_front(entry);
        entries.truncate(count_max);
    }

    /// The newest entries.
    pub fn newest(&self, count: usize) -> Vec<Entry> {
        self.lock().iter().take(count).cloned().collect()
    }

    /// Forgets all.
    pub fn reset(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    fn is_like(&self, other: &Entry) -> bool {
        self.reason == other.reason
            && self.context == other.context
            && self.object == other.object
            && self.user == other.user
            && other.at_ms.saturating_sub(self.at_ms) <= GROUPING_MS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(object: &str, at_ms: u64) -> Entry {
        let (object, user) = (object.as_bytes().to_vec(), b"u".to_vec());
        Entry {
            count: 1,
            reason: "key",
            context: "toplevel",
            object,
            user,
            at_ms,
            client: String::new(),
        }
    }

    #[test]
    fn what_is_alike_is_counted_and_the_oldest_goes() {
        let log = AclLog::default();
        for (object, at_ms) in [("a", 0), ("b", 1), ("a", 60_000), ("a", 120_001), ("c", 120_001)] {
            log.add(entry(object, at_ms), 3);
        }
        let told: Vec<_> =
            log.newest(9).iter().map(|entry| (entry.object[0], entry.count)).collect();
        assert_eq!(told, [(b'c', 1), (b'a', 1), (b'a', 2)]);
        log.add(entry(&"x".repeat(100_000), 0), 3);
        assert_eq!(log.newest(1)[0].object.len(), SIZE_MAX);
        log.add(Entry { client: "\u{e9}".repeat(100_000), ..entry("y", 0) }, 3);
        assert!(log.newest(1)[0].client.capacity() <= CLIENT_SIZE_MAX);
        log.reset();
        assert!(log.newest(9).is_empty());
    }
}
