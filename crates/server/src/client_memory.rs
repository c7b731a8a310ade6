//! The memory that clients make the server hold, and its one limit.
//!
//! Counted are the buffers of unfinished requests and of unsent replies as they are allocated, the
//! commands kept for `EXEC`, watched keys, and what a client tells about itself. Buffers grow with
//! what was received, so nothing is held because it was claimed. When all clients together hold more
//! than the limit, the one that holds most is closed, then the next, until the rest is within it. What
//! clients hold that asked not to be closed for it (`CLIENT NO-EVICT ON`) counts as well.
//!
//! Thread-safe. Event loops add and subtract only what changes, so a client that holds nothing costs
//! nothing. Between the decision and the close of a connection, what it holds counts as gone, or its
//! neighbours would be closed for it.
//!
//! Invariants: `total` is the sum of what the connections in the registry hold, each as its event loop
//! last counted it (I1); `condemned` is the part of it that belongs to those chosen to be closed (I2).

use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::registry::{Client, Registry};

/// What clients hold. Relaxed throughout: statistics that are also a limit; they guard no other data,
/// and which client is chosen is decided under the lock of the registry.
#[derive(Debug, Default)]
pub struct ClientMemory {
    total: AtomicUsize,
    condemned: AtomicUsize,
    evicted_count: AtomicU64,
}

impl ClientMemory {
    /// Bytes that clients hold.
    pub fn total(&self) -> usize {
        self.total.load(Ordering::Relaxed)
    }

    /// Clients closed because of what they held.
    pub fn evicted_count(&self) -> u64 {
        self.evicted_count.load(Ordering::Relaxed)
    }

    /// Notes what a client holds now. Only its event loop calls this.
    pub fn set(&self, client: &Client, size: usize) {
        let before = client.memory();
        client.set_memory(size);
        self.total.fetch_add(size.wrapping_sub(before), Ordering::Relaxed);
    }

    /// Forgets a client that was removed from the registry.
    pub fn forget(&self, client: &Client) {
        self.set(client, 0);
        self.condemned.fetch_sub(client.condemned_size(), Ordering::Relaxed);
    }

    /// Whether clients hold more than a limit, those that are about to be closed left out.
    pub fn exceeds(&self, limit: usize) -> bool {
        let condemned = self.condemned.load(Ordering::Relaxed);
        self.total().saturating_sub(condemned) > limit
    }

    /// Chooses the clients to be closed, greediest first, and marks them. Their event loops must be
    /// woken to notice.
    pub fn choose(&self, registry: &Registry, limit: usize) -> Vec<Arc<Client>> {
        registry.with_all(|clients| {
            let mut greediest = BinaryHeap::new();
            // Of those that stay: one that is about to be closed may hold more by now than when it was chosen, and its
            // neighbours would be closed for that.
            let mut held: usize = 0;
            for client in clients.values().filter(|client| !client.is_killed()) {
                let size = client.memory();
                held = held.saturating_add(size);
                if size > 0 && !client.is_exempt() {
                    greediest.push((size, client.id));
                }
            }
            let mut chosen = Vec::new();
            while held > limit
                && let Some((size, id)) = greediest.pop()
            {
                held = held.saturating_sub(size);
                let client = &clients[&id];
                client.condemn(size);
                self.condemned.fetch_add(size, Ordering::Relaxed);
                self.evicted_count.fetch_add(1, Ordering::Relaxed);
                chosen.push(Arc::clone(client));
            }
            chosen
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(registry: &Registry) -> Arc<Client> {
        registry.add(("a:1".into(), "b:2".into()), 0, 5)
    }

    #[test]
    fn the_greediest_go_until_the_rest_is_within_the_limit() {
        let (registry, memory) = (Registry::new(), ClientMemory::default());
        let clients: Vec<_> = (0..5).map(|_| add(&registry)).collect();
        for (client, size) in clients.iter().zip([10, 50, 20, 40, 30]) {
            memory.set(client, size);
        }
        assert!(memory.choose(&registry, 150).is_empty());
        let chosen: Vec<u64> =
            memory.choose(&registry, 70).iter().map(|client| client.id).collect();
        assert_eq!(chosen, [2, 4]);
        assert!(!memory.exceeds(70), "those to be closed do not count twice");
        assert!(memory.choose(&registry, 70).is_empty());
        assert_eq!((memory.total(), memory.evicted_count()), (150, 2));
        for client in &clients[..] {
            registry.remove(client.id);
            memory.forget(client);
        }
        assert_eq!(memory.total(), 0);
        let late = add(&registry);
        memory.set(&late, 71);
        assert!(memory.exceeds(70), "nothing is left of those that were closed");
    }

    /// What was wrong: it read on until it was closed, and its neighbour was closed for what it held by then.
    #[test]
    fn one_that_is_to_be_closed_may_hold_more_at_the_cost_of_nobody() {
        let (registry, memory) = (Registry::new(), ClientMemory::default());
        let (greedy, other) = (add(&registry), add(&registry));
        memory.set(&greedy, 50);
        memory.set(&other, 10);
        assert_eq!(memory.choose(&registry, 20).len(), 1);
        memory.set(&greedy, 90);
        assert!(memory.choose(&registry, 20).is_empty() && !other.is_killed());
        registry.remove(greedy.id);
        memory.forget(&greedy);
        assert!(!memory.exceeds(20));
        assert_eq!(memory.total(), 10);
    }

    #[test]
    fn clients_that_are_exempt_stay_whatever_they_hold() {
        let (registry, memory) = (Registry::new(), ClientMemory::default());
        let (exempt, other) = (add(&registry), add(&registry));
        exempt.change(|details| details.no_evict = true);
        memory.set(&exempt, 100);
        memory.set(&other, 10);
        let chosen = memory.choose(&registry, 50);
        assert_eq!(chosen.iter().map(|client| client.id).collect::<Vec<_>>(), [other.id]);
        assert!(!exempt.is_killed());
        exempt.change(|details| details.no_evict = false);
        assert_eq!(memory.choose(&registry, 50).len(), 1);
    }

    #[test]
    fn clients_that_hold_nothing_are_never_chosen() {
        let (registry, memory) = (Registry::new(), ClientMemory::default());
        let (idle, gone) = (add(&registry), add(&registry));
        memory.set(&gone, 100);
        registry.remove(gone.id);
        assert!(memory.choose(&registry, 10).is_empty());
        assert!(!idle.is_killed());
    }
}
