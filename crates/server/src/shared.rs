//! What the threads of a server share.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use everleaf::{Store, human_size};
use mio::Waker;

use crate::Config;
use crate::acl::Acl;
use crate::client_memory::ClientMemory;
use crate::command::watched::Watching;
use crate::databases::{Database, Databases, MapNumber};
use crate::exclusion::Exclusion;
use crate::latency::Latency;
use crate::monitor::Monitors;
use crate::rate_limiter::RateLimiter;
use crate::registry::{Client, Registry};
use crate::resp::Request;
use crate::saver::Saver;
use crate::scan_table::ScanTable;
use crate::settings::Settings;
use crate::slow_log::SlowLog;
use crate::socket::{Listener, Socket};
use crate::statistics::{Counters, Tally};
use crate::tls::Tls;
use crate::turns::Turns;
use crate::types::{Collector, Types};
use crate::waiters::{Delivery, Waiters};

/// The switch that ends a server. Holds neither the store nor a connection, so a handle that is
/// kept for long keeps nothing else alive.
#[derive(Debug)]
pub struct Control {
    stopping: AtomicBool,
    /// One per event loop, then the acceptor's, then that of the metrics, if they are wanted.
    wakers: Vec<Waker>,
    /// Those on which no TLS is spoken.
    pub addresses: Vec<SocketAddr>,
    /// Those on which TLS is spoken.
    pub tls_addresses: Vec<SocketAddr>,
    /// The certificates, if TLS is spoken.
    pub tls: Option<Arc<Tls>>,
    /// Where metrics are told.
    pub metrics_address: Option<SocketAddr>,
}

impl Control {
    pub fn new(
        wakers: Vec<Waker>,
        listeners: &[Listener],
        tls: Option<Arc<Tls>>,
        metrics_address: Option<SocketAddr>,
    ) -> Self {
        let addresses = |is_tls: bool| {
            let wanted = listeners.iter().filter(|listener| listener.is_tls() == is_tls);
            wanted.filter_map(Listener::local_addr).collect()
        };
        let (plain, tls_addresses) = (addresses(false), addresses(true));
        let stopping = AtomicBool::new(false);
        Control { stopping, wakers, addresses: plain, tls_addresses, tls, metrics_address }
    }

    /// Asks every thread to finish.
    pub fn shutdown(&self) {
        // Release: a thread that sees the request also sees what led to it; pairs with `is_stopping`.
        if !self.stopping.swap(true, Ordering::Release) {
            // Once: each loop that ends asks for it, too, and there may be a thousand to be woken.
            self.wake_all();
        }
    }

    /// True once a shutdown was asked for.
    pub fn is_stopping(&self) -> bool {
        // Acquire: pairs with the store in `shutdown`.
        self.stopping.load(Ordering::Acquire)
    }

    /// Makes the event loop look at its inbox, its killed connections, and the settings.
    pub fn wake(&self, loop_index: usize) {
        let Some(waker) = self.wakers.get(loop_index) else { return };
        if let Err(error) = waker.wake() {
            tracing::error!("event loop {loop_index} cannot be woken: {error}");
        }
    }

    /// Wakes every thread of the server.
    pub fn wake_all(&self) {
        (0..self.wakers.len()).for_each(|index| self.wake(index));
    }
}

/// What others need to know of an event loop.
#[derive(Debug, Default)]
pub struct LoopState {
    pub counters: Counters,
    /// Connections handed over, from the hand-over to the close.
    connection_count: AtomicUsize,
    inbox: Mutex<Vec<(Socket, Arc<Client>)>>,
    /// Replies to clients that waited, of this loop.
    deliveries: Mutex<Vec<Delivery>>,
    /// The same of any loop, made by this one, to be sent when what they tell of is durable.
    outbox: Mutex<Vec<Delivery>>,
    /// What this loop has made that clients still wait for, because there was no room for their answers.
    made: Mutex<BTreeSet<(MapNumber, Vec<u8>)>>,
}

impl LoopState {
    /// Connections that were handed over and are not closed; a late value.
    pub fn connection_count(&self) -> usize {
        // Relaxed: only compared to spread connections evenly, so a late value does no harm.
        self.connection_count.load(Ordering::Relaxed)
    }

    /// Hands a connection over; the loop must be woken.
    pub fn hand_over(&self, socket: Socket, client: Arc<Client>) {
        // Relaxed: see `connection_count`.
        self.connection_count.fetch_add(1, Ordering::Relaxed);
        self.inbox().push((socket, client));
    }

    /// The connections handed over since the last call.
    pub fn take_inbox(&self) -> Vec<(Socket, Arc<Client>)> {
        std::mem::take(&mut self.inbox())
    }

    /// Notes that a connection is closed.
    pub fn connection_closed(&self) {
        // Relaxed: see `connection_count`.
        self.connection_count.fetch_sub(1, Ordering::Relaxed);
    }

    /// Leaves replies to the end of the turn of this loop, which makes them.
    pub fn send_later(&self, deliveries: impl Iterator<Item = Delivery>) {
        lock(&self.outbox).extend(deliveries);
    }

    /// The replies made since the last call.
    pub fn take_outbox(&self) -> Vec<Delivery> {
        std::mem::take(&mut lock(&self.outbox))
    }

    /// Leaves clients that wait for what this loop has made to its next turn, if it is woken, or to one after a pause.
    pub fn serve_later(&self, made: Vec<(MapNumber, Vec<u8>)>) {
        lock(&self.made).extend(made);
    }

    /// Whether clients were left for something since [`Self::take_made`].
    pub fn has_made(&self) -> bool {
        !lock(&self.made).is_empty()
    }

    /// What clients were left for since the last call.
    pub fn take_made(&self) -> Vec<(MapNumber, Vec<u8>)> {
        std::mem::take(&mut *lock(&self.made)).into_iter().collect()
    }

    /// Hands over a reply to a client of this loop, which must be woken.
    pub fn deliver(&self, delivery: Delivery) {
        lock(&self.deliveries).push(delivery);
    }

    /// The replies handed over since the last call.
    pub fn take_deliveries(&self) -> Vec<Delivery> {
        std::mem::take(&mut lock(&self.deliveries))
    }

    fn inbox(&self) -> MutexGuard<'_, Vec<(Socket, Arc<Client>)>> {
        lock(&self.inbox)
    }
}

/// A panic elsewhere cannot have left a list half changed.
fn lock<T>(list: &Mutex<T>) -> MutexGuard<'_, T> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the threads of a server share. Counters here are statistics: relaxed.
pub struct Shared {
    pub store: Arc<Store>,
    pub config: Config,
    pub settings: Settings,
    pub control: Arc<Control>,
    pub registry: Registry,
    pub acl: Acl,
    pub scans: ScanTable,
    pub saver: Saver,
    pub slow_log: SlowLog,
    /// How long commands took.
    pub latency: Latency,
    pub types: Types,
    pub databases: Databases,
    pub collector: Collector,
    pub waiters: Waiters,
    pub turns: Turns,
    pub exclusion: Exclusion,
    pub watching: Watching,
    pub monitors: Monitors,
    pub loops: Vec<LoopState>,
    /// Connections accepted so far.
    pub accepted_count: AtomicU64,
    /// Connections refused so far because there were too many.
    pub rejected_count: AtomicU64,
    /// Replies, in bytes, that wait for clients to read them.
    pub output_total: AtomicUsize,
    pub client_memory: ClientMemory,
    /// Forty hexadecimal digits that no other run of a server has.
    pub run_id: String,
    started: Instant,
    /// The counters when `CONFIG RESETSTAT` was last used.
    /// Held while the configuration file is written anew.
    pub rewriting: Mutex<()>,
    statistics_base: Mutex<Tally>,
    /// For lines about the store.
    store_errors: RateLimiter,
    /// For lines about clients that were refused or closed to protect the server.
    pub defences: RateLimiter,
    /// For lines about commands that took long.
    pub slow_commands: RateLimiter,
}

impl Shared {
    /// Shows a command that was run, by its index in the table, to all monitors.
    pub fn show_to_monitors(
        &self,
        client: &Client,
        database: Database,
        request: &Request<'_>,
        index: usize,
    ) {
        let size_max = self.settings.client_memory_max().unwrap_or(usize::MAX);
        self.monitors.show(size_max, (client, database), request, index, |monitor, is_closed| {
            if is_closed && self.defences.allows(self.now_ms()) {
                tracing::warn!(
                    "client {} from {} is closed: it does not read what MONITOR shows as fast as it comes",
                    monitor.id,
                    monitor.peer
                );
            }
            self.control.wake(monitor.loop_index);
        });
    }
}

impl Shared {
    pub fn new(config: Config, acl: Acl, store: Arc<Store>, control: Arc<Control>) -> Self {
        let loop_count = config.thread_count();
        let loops = (0..loop_count).map(|_| LoopState::default()).collect();
        Shared {
            databases: Databases::new(&store, config.databases),
            store,
            settings: Settings::new(&config),
            config,
            control,
            registry: Registry::new(),
            acl,
            scans: ScanTable::new(),
            saver: Saver::new(),
            slow_log: SlowLog::default(),
            latency: Latency::default(),
            types: Types::default(),
            collector: Collector::default(),
            waiters: Waiters::new(),
            turns: Turns::new(),
            exclusion: Exclusion::new(loop_count),
            watching: Watching::default(),
            monitors: Monitors::default(),
            loops,
            accepted_count: AtomicU64::new(0),
            rejected_count: AtomicU64::new(0),
            output_total: AtomicUsize::new(0),
            client_memory: ClientMemory::default(),
            run_id: new_run_id(),
            started: Instant::now(),
            rewriting: Mutex::default(),
            statistics_base: Mutex::default(),
            store_errors: RateLimiter::default(),
            defences: RateLimiter::default(),
            slow_commands: RateLimiter::default(),
        }
    }

    /// Milliseconds since the server started.
    pub fn now_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    /// What happened since the start or the last reset.
    pub fn statistics(&self) -> Tally {
        self.total().since(*self.base())
    }

    /// Counts from zero again.
    pub fn reset_statistics(&self) {
        let total = self.total();
        *self.base() = total;
        self.latency.reset_records();
    }

    /// What happened since the start.
    pub fn total(&self) -> Tally {
        self.loops.iter().map(|state| state.counters.read()).fold(Tally::default(), Tally::plus)
    }

    fn base(&self) -> MutexGuard<'_, Tally> {
        self.statistics_base.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the clients that hold most, if all of them together hold more than the limit.
    pub fn enforce_client_memory(&self) {
        let Some(limit) = self.settings.client_memory_max() else { return };
        if !self.client_memory.exceeds(limit) {
            return;
        }
        for client in self.client_memory.choose(&self.registry, limit) {
            if self.defences.allows(self.now_ms()) {
                tracing::warn!(
                    "client {} from {} is closed: it holds {} of the {} that clients may hold \
                     together; raise --client-memory, or let clients read their replies and send \
                     less at a time",
                    client.id,
                    client.peer,
                    human_size(client.memory() as u64),
                    human_size(limit as u64),
                );
            }
            self.control.wake(client.loop_index);
        }
    }

    /// Tells the operator, but not once per request, that the store fails.
    pub fn log_store_error(&self, error: &everleaf::Error) {
        if self.store_errors.allows(self.now_ms()) {
            tracing::error!("the store refused an operation: {error}");
        }
    }
}

/// Random digits, from what seeds the hash maps of this process.
fn new_run_id() -> String {
    let word = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}{:08x}", word(), word(), word() as u32)
}

#[cfg(test)]
mod tests {
    use mio::{Events, Poll, Token};

    use super::*;

    /// What was slow: each of a thousand loops that ended woke all the others.
    #[test]
    fn a_shutdown_wakes_everybody_once() {
        let (mut poll, mut events) = (Poll::new().unwrap(), Events::with_capacity(4));
        let wakers = vec![Waker::new(poll.registry(), Token(0)).unwrap()];
        let control = Control::new(wakers, &[], None, None);
        for is_first in [true, false] {
            control.shutdown();
            assert!(control.is_stopping());
            poll.poll(&mut events, Some(std::time::Duration::ZERO)).unwrap();
            assert_eq!(events.is_empty(), !is_first);
        }
    }
}
