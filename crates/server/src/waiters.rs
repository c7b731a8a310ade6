//! Clients that wait for a key to get members (`BLPOP` and its like), in the order in which they came.
//!
//! A client that waits costs an entry here and nothing else: no thread, and nobody looks at it until a
//! command makes a collection of a kind and key that it waits for. That command serves it in its own step
//! (`command/waiting/service.rs`), so nobody else ever sees the members.
//!
//! ```text
//!   a client that waits                        a command that makes a collection
//!   add to the table, count up                 write the collection
//!   fence                                      fence
//!   look at the keys once more                 look at the counts, and at the set
//! ```
//!
//! Either the client that waits sees the members, or the one that makes them sees that another waits. The counts are
//! by the hash of the key, and many keys have the same; behind a count that is not zero it is looked up whether a key
//! of this very hash is waited for, in a set that has many locks. So a command looks into the table, whose lock it
//! holds until it is written, only if a client waits for a key of its own, however many keys others wait for.
//!
//! Invariants, under the lock: each ticket is in the queue of each of its keys, and in no other (I1); a client
//! has at most one ticket (I2); the thread that takes a ticket out of the table answers the client (I3).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use everleaf::ranked::{Rank, RankedGuard, RankedMutex};

use crate::blocking_request::BlockingRequest;
use crate::databases::{Database, Databases, MapNumber};
use crate::registry::Client;
use crate::resp::Protocol;
use crate::types::Kind;

/// Counts of the clients that wait, by the hash of a key.
const COUNT_LENGTH: usize = 1024;
/// Parts of the set of hashes, each with a lock.
const PART_COUNT: usize = 64;

/// The place of a client among those that wait: the one that came first has the lowest.
pub type Ticket = u64;

/// A client that waits.
#[derive(Debug)]
pub struct Waiter {
    pub client: Arc<Client>,
    /// Where the keys lie that it waits for.
    pub place: MapNumber,
    /// The database that it has selected.
    pub database: Database,
    pub blocking: BlockingRequest,
    /// Its command, of which it is looked at again whether it may be run.
    pub args: Vec<Vec<u8>>,
    pub protocol: Protocol,
}

/// A reply to a client that waited, for its event loop.
#[derive(Debug)]
pub struct Delivery {
    pub client: Arc<Client>,
    pub ticket: Ticket,
    pub reply: Vec<u8>,
}

/// All clients that wait. Thread-safe; the lock comes before all of the store's.
#[derive(Debug)]
pub struct Waiters {
    /// How many there are.
    total: AtomicUsize,
    /// For how many keys of a hash somebody waits.
    counts: Box<[AtomicU32]>,
    /// The same by the whole hash, without those of nobody.
    wanted: Box<[Mutex<Wanted>]>,
    hasher: RandomState,
    table: RankedMutex<Table>,
    /// How often the next client was looked for.
    #[cfg(test)]
    look_count: AtomicUsize,
}

/// How many clients wait for a key of a hash.
type Wanted = HashMap<u64, u32>;

/// The clients that wait for each key of each database.
type Queues = HashMap<(MapNumber, Vec<u8>), BTreeSet<Ticket>>;

/// Which clients wait for what.
#[derive(Debug, Default)]
pub struct Table {
    last: Ticket,
    waiters: BTreeMap<Ticket, Waiter>,
    by_client: HashMap<u64, Ticket>,
    lists: Queues,
    sorted_sets: Queues,
}

/// The locked table.
pub struct Locked<'a> {
    waiters: &'a Waiters,
    table: RankedGuard<'a, Table>,
}

impl Waiters {
    pub fn new() -> Self {
        Waiters {
            total: AtomicUsize::new(0),
            counts: (0..COUNT_LENGTH).map(|_| AtomicU32::new(0)).collect(),
            wanted: (0..PART_COUNT).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
            table: RankedMutex::new(Rank::Waiters, Table::default()),
            #[cfg(test)]
            look_count: AtomicUsize::new(0),
        }
    }

    /// How often the next client was looked for.
    #[cfg(test)]
    pub fn look_count(&self) -> usize {
        // Relaxed: a statistic.
        self.look_count.load(Ordering::Relaxed)
    }

    /// How many clients wait.
    pub fn total(&self) -> usize {
        // Relaxed: a statistic here, and a hint for threads that look again behind a fence.
        self.total.load(Ordering::Relaxed)
    }

    /// Whether somebody may wait for a key. A thread that has written it and passed [`Self::fence`] is told of every
    /// client that did not find what was written.
    pub fn may_want(&self, place: MapNumber, key: &[u8]) -> bool {
        if self.total() == 0 {
            return false;
        }
        let hash = self.hash_of(place, key);
        // Relaxed: the fences order it (see the header of this file), and the lock behind it.
        self.count_of(hash).load(Ordering::Relaxed) > 0 && self.wanted(hash).contains_key(&hash)
    }

    /// Between writing and [`Self::may_want`].
    pub fn fence(&self) {
        // SeqCst: one order of the write before it and the count read behind it, with the count raised and
        // the key read by the client that waits; pairs with the fence in `Locked::add`.
        fence(Ordering::SeqCst);
    }

    /// Locks the table.
    pub fn lock(&self) -> Locked<'_> {
        Locked { waiters: self, table: self.table.lock() }
    }

    /// Takes a client out. Returns whether it still waited: if not, a reply is on its way.
    pub fn remove(&self, ticket: Ticket) -> bool {
        self.lock().take(ticket).is_some()
    }

    fn hash_of(&self, place: MapNumber, key: &[u8]) -> u64 {
        self.hasher.hash_one((place, key))
    }

    fn count_of(&self, hash: u64) -> &AtomicU32 {
        &self.counts[hash as usize % COUNT_LENGTH]
    }

    /// The part of the set for a hash. Nothing else is waited for with its lock, and nothing panics.
    fn wanted(&self, hash: u64) -> MutexGuard<'_, Wanted> {
        let part = &self.wanted[(hash >> 32) as usize % PART_COUNT];
        part.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says that one more client waits for a key.
    fn count_up(&self, place: MapNumber, key: &[u8]) {
        let hash = self.hash_of(place, key);
        *self.wanted(hash).entry(hash).or_default() += 1;
        // Relaxed: the fence of `Locked::add` orders it.
        self.count_of(hash).fetch_add(1, Ordering::Relaxed);
    }

    /// Says that one fewer waits for a key.
    fn count_down(&self, place: MapNumber, key: &[u8]) {
        let hash = self.hash_of(place, key);
        // Relaxed: a thread that sees it too late looks into the set, or the table, for nothing.
        self.count_of(hash).fetch_sub(1, Ordering::Relaxed);
        let mut wanted = self.wanted(hash);
        if let Some(count) = wanted.get_mut(&hash) {
            *count -= 1;
            if *count == 0 {
                wanted.remove(&hash);
            }
        }
    }
}

impl Locked<'_> {
    /// Adds a client behind all others. What its keys have must be looked at afterwards.
    pub fn add(&mut self, waiter: Waiter) -> Ticket {
        self.table.last += 1;
        let ticket = self.table.last;
        self.insert(ticket, waiter);
        // SeqCst: see `Waiters::fence`, which it pairs with.
        fence(Ordering::SeqCst);
        ticket
    }

    fn insert(&mut self, ticket: Ticket, waiter: Waiter) {
        let waiters = self.waiters;
        for key in &waiter.blocking.keys {
            let wanted = (waiter.place, key.clone());
            let queue = self.table.queues(waiter.blocking.kind).entry(wanted).or_default();
            if queue.insert(ticket) {
                waiters.count_up(waiter.place, key);
            }
        }
        self.table.by_client.insert(waiter.client.id, ticket);
        self.table.waiters.insert(ticket, waiter);
        // Relaxed: the fence of `add` orders it.
        waiters.total.fetch_add(1, Ordering::Relaxed);
    }

    /// Lets clients that wait in databases that were exchanged wait where these lie now, in the order in which they
    /// came. Returns what they wait for. The caller is alone (`exclusion.rs`), and has exchanged the databases.
    pub fn follow(
        &mut self,
        databases: &Databases,
        exchanged: &BTreeSet<Database>,
    ) -> Vec<(MapNumber, Vec<u8>)> {
        let mut waited = Vec::new();
        let tickets: Vec<Ticket> = self.table.waiters.keys().copied().collect();
        for ticket in tickets {
            let database = self.table.waiters.get(&ticket).map(|waiter| waiter.database);
            if !database.is_some_and(|database| exchanged.contains(&database)) {
                continue;
            }
            let Some(mut waiter) = self.take(ticket) else { continue };
            waiter.place = databases.place(waiter.database);
            waited.extend(waiter.blocking.keys.iter().map(|key| (waiter.place, key.clone())));
            self.insert(ticket, waiter);
        }
        waited
    }

    /// Takes a client out, if it is there.
    pub fn take(&mut self, ticket: Ticket) -> Option<Waiter> {
        let waiter = self.table.waiters.remove(&ticket)?;
        self.table.by_client.remove(&waiter.client.id);
        for key in &waiter.blocking.keys {
            let queues = self.table.queues(waiter.blocking.kind);
            let wanted = (waiter.place, key.clone());
            let Some(queue) = queues.get_mut(&wanted) else { continue };
            if queue.remove(&ticket) {
                self.waiters.count_down(waiter.place, key);
            }
            if queue.is_empty() {
                queues.remove(&wanted);
            }
        }
        // Relaxed: a client that sees it too late looks into the table for nothing.
        self.waiters.total.fetch_sub(1, Ordering::Relaxed);
        Some(waiter)
    }

    /// The first client behind a ticket that waits for a collection of this kind and place.
    pub fn next(
        &self,
        kind: Kind,
        place: &(MapNumber, Vec<u8>),
        behind: Ticket,
    ) -> Option<(Ticket, &Waiter)> {
        // Relaxed: a statistic.
        #[cfg(test)]
        self.waiters.look_count.fetch_add(1, Ordering::Relaxed);
        let queues = match kind {
            Kind::List => &self.table.lists,
            Kind::SortedSet => &self.table.sorted_sets,
            Kind::Hash | Kind::Set => return None,
        };
        let ticket = *queues.get(place)?.range(behind + 1..).next()?;
        Some((ticket, self.table.waiters.get(&ticket)?))
    }

    /// Takes out what a client waits with, if it does.
    pub fn take_client(&mut self, client_id: u64) -> Option<(Ticket, Waiter)> {
        let ticket = *self.table.by_client.get(&client_id)?;
        Some((ticket, self.take(ticket)?))
    }
}

impl Table {
    fn queues(&mut self, kind: Kind) -> &mut Queues {
        if kind == Kind::List { &mut self.lists } else { &mut self.sorted_sets }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocking_request::What;
    use crate::registry::Registry;
    use crate::types::list::Side;

    fn waiter(registry: &Registry, keys: &[&[u8]], kind: Kind) -> Waiter {
        let client = registry.add(("a:1".into(), "b:2".into()), 0, 5);
        let keys = keys.iter().map(|key| key.to_vec()).collect();
        let blocking = BlockingRequest { kind, keys, what: What::Pop(Side::Left) };
        Waiter {
            client,
            place: MapNumber::default(),
            database: 0,
            blocking,
            args: Vec::new(),
            protocol: Protocol::Resp2,
        }
    }

    #[test]
    fn clients_are_found_by_kind_and_key_in_order_of_arrival() {
        let (waiters, registry) = (Waiters::new(), Registry::new());
        let mut locked = waiters.lock();
        let first = locked.add(waiter(&registry, &[b"a", b"b", b"a"], Kind::List));
        let second = locked.add(waiter(&registry, &[b"a"], Kind::List));
        let third = locked.add(waiter(&registry, &[b"a"], Kind::SortedSet));
        let order = |locked: &Locked<'_>, kind, key: &[u8]| {
            let (mut found, mut last) = (Vec::new(), 0);
            while let Some((ticket, _)) =
                locked.next(kind, &(MapNumber::default(), key.to_vec()), last)
            {
                found.push(ticket);
                last = ticket;
            }
            found
        };
        assert_eq!(order(&locked, Kind::List, b"a"), [first, second]);
        assert_eq!(order(&locked, Kind::List, b"b"), [first]);
        assert_eq!(order(&locked, Kind::SortedSet, b"a"), [third]);
        assert_eq!(order(&locked, Kind::Hash, b"a"), []);
        assert!(locked.take(first).is_some() && locked.take(first).is_none());
        assert_eq!(order(&locked, Kind::List, b"a"), [second]);
        assert_eq!(order(&locked, Kind::List, b"b"), []);
        drop(locked);
        assert_eq!(waiters.total(), 2);
        assert!(waiters.may_want(MapNumber::default(), b"a"));
    }

    #[test]
    fn nothing_is_left_of_clients_that_are_gone() {
        let (waiters, registry) = (Waiters::new(), Registry::new());
        let keys = [&b"a"[..], b"b", b"a"];
        let tickets = [Kind::List, Kind::SortedSet]
            .map(|kind| waiters.lock().add(waiter(&registry, &keys, kind)));
        assert!(waiters.remove(tickets[0]));
        let client_id = registry.all()[1].id;
        assert_eq!(waiters.lock().take_client(client_id).map(|taken| taken.0), Some(tickets[1]));
        assert!(waiters.lock().take_client(client_id).is_none());
        let locked = waiters.lock();
        assert!(locked.table.lists.is_empty() && locked.table.sorted_sets.is_empty());
        assert!(locked.table.waiters.is_empty() && locked.table.by_client.is_empty());
        // Relaxed: no other thread is there.
        assert!(waiters.counts.iter().all(|count| count.load(Ordering::Relaxed) == 0));
        assert!(waiters.wanted.iter().all(|part| part.lock().unwrap().is_empty()));
        assert!(!waiters.may_want(MapNumber::default(), b"a"));
    }

    /// What was wrong: with a client that waited for 8,000 keys nearly every other key counted as waited for.
    #[test]
    fn a_client_that_waits_for_many_keys_wants_no_other() {
        let (waiters, registry) = (Waiters::new(), Registry::new());
        let names: Vec<String> = (0..8_000).map(|number| format!("queue{number}")).collect();
        let keys: Vec<&[u8]> = names.iter().map(String::as_bytes).collect();
        let ticket = waiters.lock().add(waiter(&registry, &keys, Kind::List));
        let place = MapNumber::default();
        assert!(keys.iter().all(|key| waiters.may_want(place, key)));
        let others = (0..8_000).map(|number| format!("other{number}"));
        assert_eq!(others.filter(|key| waiters.may_want(place, key.as_bytes())).count(), 0);
        assert!(waiters.remove(ticket));
        assert!(!keys.iter().any(|key| waiters.may_want(place, key)));
    }
}
