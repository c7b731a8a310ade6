//! Wrong passwords: from one address only so many a minute are looked at, so that none is found by trying.
//!
//! Of version 6 of the Internet protocol the first half of an address counts, because a client that has one address
//! has all of such a network. Unix sockets are not limited: the path's permissions are. So many lines of the log are
//! written about all of them together that the log does not grow with what somebody tries.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How long a wrong password counts.
const WINDOW_MS: u64 = 60_000;
/// Wrong passwords of which a line is written within that time.
const LINE_COUNT_MAX: u64 = 100;
/// Addresses that are remembered.
const ADDRESS_COUNT_MAX: usize = 4096;

/// Wrong passwords by address.
#[derive(Debug, Default)]
pub struct Attempts {
    failed: Mutex<HashMap<IpAddr, Failed>>,
    /// Those of all addresses.
    all: Mutex<Failed>,
}

/// What the log is to say of a wrong password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// That it was given.
    Own,
    /// That of the next ones nothing will be said.
    Last,
    /// Nothing.
    None,
}

#[derive(Clone, Copy, Debug, Default)]
struct Failed {
    since_ms: u64,
    count: u64,
}

impl Attempts {
    /// Whether a password from this address (with its port) is looked at. `limit` 0 is none.
    pub fn allows(&self, peer: &str, limit: u64, now_ms: u64) -> bool {
        let Some(address) = network(peer).filter(|_| limit > 0) else { return true };
        let failed = self.lock();
        let recent = failed.get(&address).filter(|failed| failed.is_recent(now_ms));
        recent.is_none_or(|failed| failed.count < limit)
    }

    /// Notes a wrong password. Returns what the log is to say.
    pub fn failed(&self, peer: &str, now_ms: u64) -> Line {
        self.count(peer, now_ms);
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.add(now_ms);
        match all.count {
            ..=LINE_COUNT_MAX => Line::Own,
            count if count == LINE_COUNT_MAX + 1 => Line::Last,
            _ => Line::None,
        }
    }

    fn count(&self, peer: &str, now_ms: u64) {
        let Some(address) = network(peer) else { return };
        let mut failed = self.lock();
        if failed.len() >= ADDRESS_COUNT_MAX && !failed.contains_key(&address) {
            failed.retain(|_, failed| failed.is_recent(now_ms));
        }
        if failed.len() >= ADDRESS_COUNT_MAX && !failed.contains_key(&address) {
            // The one that tried least often may start anew.
            let least =
                failed.iter().min_by_key(|(_, failed)| failed.count).map(|(least, _)| *least);
            least.and_then(|least| failed.remove(&least));
        }
        failed.entry(address).or_default().add(now_ms);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, Failed>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Failed {
    fn add(&mut self, now_ms: u64) {
        if self.count == 0 || !self.is_recent(now_ms) {
            *self = Failed { since_ms: now_ms, count: 0 };
        }
        self.count += 1;
    }

    fn is_recent(self, now_ms: u64) -> bool {
        now_ms.saturating_sub(self.since_ms) < WINDOW_MS
    }
}

/// What counts as one address.
fn network(peer: &str) -> Option<IpAddr> {
    let address = peer.parse::<SocketAddr>().ok()?.ip().to_canonical();
    Some(match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => {
            let mut octets = address.octets();
            octets[8..].fill(0);
            IpAddr::from(octets)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Over a Unix socket, or from many addresses, a line was written for each.
    #[test]
    fn lines_about_wrong_passwords_have_a_limit() {
        let attempts = Attempts::default();
        let lines = |count: u64, now_ms: u64| {
            let told = (0..count).map(|_| attempts.failed("/run/everleaf.sock:0", now_ms));
            let told: Vec<Line> = told.collect();
            let of = |line: Line| told.iter().filter(|it| **it == line).count();
            (of(Line::Own), of(Line::Last))
        };
        assert_eq!(lines(99, 5), (99, 0));
        assert_eq!(lines(1_000, 59_000), (1, 1));
        assert_eq!(lines(1_000, 60_004), (0, 0));
        assert_eq!(lines(1_000, 60_005), (100, 1), "the next minute begins");
    }

    #[test]
    fn an_address_that_guesses_is_not_looked_at_for_a_while() {
        let attempts = Attempts::default();
        for _ in 0..3 {
            assert!(attempts.allows("10.0.0.1:5", 3, 1000));
            attempts.failed("10.0.0.1:5", 1000);
        }
        assert!(!attempts.allows("10.0.0.1:6", 3, 60_999));
        assert!(!attempts.allows("[::ffff:10.0.0.1]:6", 3, 60_999));
        assert!(attempts.allows("10.0.0.2:5", 3, 1000) && attempts.allows("/run/x:0", 3, 1000));
        assert!(attempts.allows("10.0.0.1:5", 0, 1000));
        assert!(attempts.allows("10.0.0.1:5", 3, 61_000));
    }

    #[test]
    fn a_network_of_version_6_is_one_address_and_memory_is_bounded() {
        let attempts = Attempts::default();
        for host in 0..3 {
            attempts.failed(&format!("[2001:db8::{host}]:1"), 0);
        }
        assert!(!attempts.allows("[2001:db8::ffff]:1", 3, 0));
        for net in 0..2 * ADDRESS_COUNT_MAX {
            attempts.failed(&format!("10.1.{}.{}:1", net / 256, net % 256), 0);
        }
        assert_eq!(attempts.lock().len(), ADDRESS_COUNT_MAX);
        assert!(!attempts.allows("[2001:db8::1]:1", 3, 0), "it tried most often");
    }
}
