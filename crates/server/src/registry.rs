//! The clients that are connected: what `CLIENT LIST` shows and `CLIENT KILL` acts on.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::acl::user::User;
use crate::connection_gauges::ConnectionGauges;
use crate::databases::Database;
use crate::resp::Protocol;

/// One connection, as others see it. The event loop that serves it writes, anybody may read.
#[derive(Debug)]
pub struct Client {
    /// Never used twice while the server runs.
    pub id: u64,
    /// Address of the peer.
    pub peer: String,
    /// Address of this side.
    pub local: String,
    /// Index of the event loop that serves it.
    pub loop_index: usize,
    /// When it connected, in milliseconds since the server started.
    pub created_ms: u64,
    last_active_ms: AtomicU64,
    last_command: AtomicUsize,
    killed: AtomicBool,
    waiting: AtomicBool,
    /// Bytes it makes the server hold.
    memory: AtomicUsize,
    /// Of it, what it held when it was chosen to be closed for that.
    condemned_size: AtomicUsize,
    /// Bytes of `details`.
    details_size: AtomicUsize,
    details: Mutex<Details>,
    /// Of its socket, buffers and transaction.
    pub gauges: ConnectionGauges,
}

/// What a client told about itself. Its texts may be long, so a copy of all shares them.
#[derive(Clone, Debug, Default)]
pub struct Details {
    pub name: Arc<str>,
    pub library_name: Arc<str>,
    pub library_version: Arc<str>,
    pub protocol: Protocol,
    /// The database that it has selected.
    pub database: Database,
    /// It is shown what others do (`MONITOR`).
    pub is_monitor: bool,
    /// Never closed for what it holds (`CLIENT NO-EVICT`).
    pub no_evict: bool,
    /// It asked for what it reads to count as not used (`CLIENT NO-TOUCH`).
    pub no_touch: bool,
    /// Its user, once it is served.
    pub user: Option<Arc<User>>,
}

/// What is kept of a text that a client chose where it is kept for longer than the client: the memory of that counts
/// for nobody.
pub fn shortened(text: &str, size_max: usize) -> String {
    text[..text.floor_char_boundary(size_max)].to_string()
}

impl Client {
    /// When it last sent or took something, for statistics.
    pub fn set_last_active(&self, now_ms: u64) {
        // Relaxed: statistics, of which a reader may be a batch behind.
        self.last_active_ms.store(now_ms, Ordering::Relaxed);
    }

    /// When it last sent or took something, in milliseconds since the server started.
    pub fn last_active_ms(&self) -> u64 {
        // Relaxed: statistics, see `set_last_active`.
        self.last_active_ms.load(Ordering::Relaxed)
    }

    /// Notes the last command by its number in the table, subcommand included.
    pub fn set_last_command(&self, number: usize) {
        // Relaxed: statistics.
        self.last_command.store(number, Ordering::Relaxed);
    }

    /// The last command's number in the table.
    pub fn last_command(&self) -> usize {
        // Relaxed: statistics.
        self.last_command.load(Ordering::Relaxed)
    }

    /// Asks for the connection to be closed; its event loop must be woken to notice.
    pub fn kill(&self) {
        // Relaxed: the flag carries no other data, and waking the loop orders it.
        self.killed.store(true, Ordering::Relaxed);
    }

    /// True if the connection is to be closed.
    pub fn is_killed(&self) -> bool {
        // Relaxed: see `kill`.
        self.killed.load(Ordering::Relaxed)
    }

    /// Notes whether a command of it waits.
    pub fn set_waiting(&self, waiting: bool) {
        // Relaxed: what others see of it is a statistic.
        self.waiting.store(waiting, Ordering::Relaxed);
    }

    /// Whether a command of it waits.
    pub fn is_waiting(&self) -> bool {
        // Relaxed: see `set_waiting`.
        self.waiting.load(Ordering::Relaxed)
    }

    /// Bytes it makes the server hold, as counted last.
    pub fn memory(&self) -> usize {
        // Relaxed: a statistic, see `ClientMemory`.
        self.memory.load(Ordering::Relaxed)
    }

    /// Notes what it holds; for `ClientMemory` alone.
    pub fn set_memory(&self, size: usize) {
        // Relaxed: a statistic, see `ClientMemory`.
        self.memory.store(size, Ordering::Relaxed);
    }

    /// Kills it for what it holds; for `ClientMemory` alone, under the registry's lock.
    pub fn condemn(&self, size: usize) {
        // Relaxed: read after the client was removed, under the lock that the writer held.
        self.condemned_size.store(size, Ordering::Relaxed);
        self.kill();
    }

    /// What it held when it was killed for that.
    pub fn condemned_size(&self) -> usize {
        // Relaxed: see `condemn`.
        self.condemned_size.load(Ordering::Relaxed)
    }

    /// Bytes of what it told about itself.
    pub fn details_size(&self) -> usize {
        // Relaxed: a statistic, written by the event loop that reads it.
        self.details_size.load(Ordering::Relaxed)
    }

    /// Its user.
    pub fn user(&self) -> Option<Arc<User>> {
        self.lock().user.clone()
    }

    /// Whether it asked not to be closed for what it holds.
    pub fn is_exempt(&self) -> bool {
        self.lock().no_evict
    }

    /// A copy of what the client told about itself.
    pub fn details(&self) -> Details {
        self.lock().clone()
    }

    /// Changes what is known about the client.
    pub fn change(&self, change: impl FnOnce(&mut Details)) {
        let mut details = self.lock();
        change(&mut details);
        let Details { name, library_name, library_version, .. } = &*details;
        let size = name.len() + library_name.len() + library_version.len();
        // Relaxed: see `details_size`.
        self.details_size.store(size, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Details> {
        self.details.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All connections. Thread-safe.
#[derive(Debug)]
pub struct Registry {
    state: Mutex<State>,
    /// How often all were asked for.
    #[cfg(test)]
    pub all_count: AtomicUsize,
}

#[derive(Debug)]
struct State {
    next_id: u64,
    clients: BTreeMap<u64, Arc<Client>>,
}

impl Registry {
    pub fn new() -> Self {
        Registry {
            state: Mutex::new(State { next_id: 1, clients: BTreeMap::new() }),
            #[cfg(test)]
            all_count: AtomicUsize::new(0),
        }
    }

    /// Adds a connection.
    pub fn add(&self, addresses: (String, String), loop_index: usize, now_ms: u64) -> Arc<Client> {
        let (peer, local) = addresses;
        let mut state = self.lock();
        let client = Arc::new(Client {
            id: state.next_id,
            peer,
            local,
            loop_index,
            created_ms: now_ms,
            last_active_ms: AtomicU64::new(now_ms),
            last_command: AtomicUsize::new(usize::MAX),
            killed: AtomicBool::new(false),
            waiting: AtomicBool::new(false),
            memory: AtomicUsize::new(0),
            condemned_size: AtomicUsize::new(0),
            details_size: AtomicUsize::new(0),
            details: Mutex::default(),
            gauges: ConnectionGauges::default(),
        });
        state.next_id += 1;
        state.clients.insert(client.id, Arc::clone(&client));
        client
    }

    /// Removes a connection that is closed.
    pub fn remove(&self, id: u64) {
        self.lock().clients.remove(&id);
    }

    /// The number of connections.
    pub fn count(&self) -> usize {
        self.lock().clients.len()
    }

    /// Shows all connections, by number. None comes or goes meanwhile.
    pub fn with_all<R>(&self, see: impl FnOnce(&BTreeMap<u64, Arc<Client>>) -> R) -> R {
        // Relaxed: a statistic.
        #[cfg(test)]
        self.all_count.fetch_add(1, Ordering::Relaxed);
        see(&self.lock().clients)
    }

    /// The connection of this number.
    pub fn get(&self, id: u64) -> Option<Arc<Client>> {
        self.lock().clients.get(&id).cloned()
    }

    /// All connections, oldest first.
    pub fn all(&self) -> Vec<Arc<Client>> {
        self.with_all(|all| all.values().cloned().collect())
    }

    /// A panic elsewhere cannot have left the table half changed: nothing in it panics.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_come_and_go_and_ids_are_never_reused() {
        let registry = Registry::new();
        let add = || registry.add(("a:1".into(), "b:2".into()), 0, 5);
        let (first, second) = (add(), add());
        assert_eq!((first.id, second.id), (1, 2));
        registry.remove(second.id);
        assert_eq!(add().id, 3);
        let ids: Vec<u64> = registry.all().iter().map(|client| client.id).collect();
        assert_eq!(ids, [1, 3]);
        assert_eq!(registry.count(), 2);
    }
}
