//! Starting, running and stopping a server.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use everleaf::Store;
use mio::{Poll, Waker};

use crate::acceptor::Acceptor;
use crate::acl::Acl;
use crate::event_loop::EventLoop;
use crate::metrics::Metrics;
use crate::shared::{Control, Shared};
use crate::socket::ListeningSocket;
use crate::tls::{ClientCertificates, Tls};
use crate::types::Collector;
use crate::{Config, ServerError, socket};

/// A server that is bound to its addresses, and serves while [`Server::run`] runs.
///
/// Send and Sync. See the crate's documentation for an example.
pub struct Server {
    shared: Arc<Shared>,
    /// Taken by `run`.
    parts: Mutex<Option<Parts>>,
}

struct Parts {
    acceptor: Acceptor,
    metrics: Option<Metrics>,
    polls: Vec<Poll>,
}

/// Stops a server from anywhere. Cheap to clone; keeps neither the server nor the store alive.
#[derive(Clone, Debug)]
pub struct Handle {
    control: Arc<Control>,
}

impl Handle {
    /// Asks the server to stop: it accepts no more connections, finishes the requests it has
    /// received, sends the replies (waiting at most [`Config::shutdown_grace`] for clients that do
    /// not read), closes all connections and returns from [`Server::run`]. Returns at once, and may
    /// be called at any time and any number of times.
    pub fn shutdown(&self) {
        self.control.shutdown();
    }

    /// The first TCP address the server listens on without TLS; `None` if it only has a Unix socket.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.control.addresses.first().copied()
    }

    /// Where metrics are told by HTTP, if they are.
    pub fn metrics_addr(&self) -> Option<SocketAddr> {
        self.control.metrics_address
    }

    /// The first address on which the server speaks TLS, if it does.
    pub fn tls_addr(&self) -> Option<SocketAddr> {
        self.control.tls_addresses.first().copied()
    }

    /// Reads the certificates of TLS again, for connections to come. Returns whether there is TLS.
    ///
    /// # Errors
    /// [`ServerError::Config`] if they cannot be used: then those that were used stay.
    pub fn reload_tls(&self) -> Result<bool, ServerError> {
        let Some(tls) = &self.control.tls else { return Ok(false) };
        tls.reload().map_err(ServerError::Config)?;
        Ok(true)
    }

    /// All TCP addresses the server listens on without TLS.
    pub fn local_addrs(&self) -> &[SocketAddr] {
        &self.control.addresses
    }
}

/// The sockets of a server that has no store yet; from [`Server::listen`].
pub struct Listening {
    config: Config,
    acl: Acl,
    acceptor: Acceptor,
    metrics: Option<Metrics>,
    polls: Vec<Poll>,
    control: Arc<Control>,
}

impl Listening {
    /// A server of this store on these sockets.
    ///
    /// # Errors
    /// [`ServerError::Config`] if the store has keys in a database that clients could not select
    /// ([`Config::databases`]); [`ServerError::Io`] if it cannot be read.
    pub fn serve(self, store: Arc<Store>) -> Result<Server, ServerError> {
        let Listening { config, acl, acceptor, metrics, polls, control } = self;
        let shared = Arc::new(Shared::new(config, acl, store, control));
        let opened = shared.types.open(&shared.store);
        opened.map_err(std::io::Error::other).map_err(io("cannot read what collections need"))?;
        if !shared.store.is_read_only() {
            // Before anybody changes a list that is there.
            let admitted = shared.types.admit_runs_or_owe(&shared.store);
            let admitted = admitted.map_err(std::io::Error::other);
            admitted.map_err(io("cannot note in the pool that lists may be stored as runs"))?;
        }
        shared.databases.open(&shared.store).map_err(|error| match error {
            everleaf::Error::Unsupported(why) => ServerError::Config(why),
            error => io("cannot read the databases of the pool")(std::io::Error::other(error)),
        })?;
        // Every client begins in it. Where databases were exchanged its map may be gone: a repair leaves out what is
        // damaged, and a program may have dropped it.
        let begun = shared.databases.begin(&shared.store, 0).map_err(std::io::Error::other);
        begun.map_err(io(
            "cannot make the map of database 0, which is gone (serve the pool once to be written)",
        ))?;
        Ok(Server { shared, parts: Mutex::new(Some(Parts { acceptor, metrics, polls })) })
    }
}

impl Server {
    /// Starts to listen, and serves this store. Connections wait in the kernel until [`Server::run`]
    /// accepts them.
    ///
    /// # Errors
    /// As [`Self::listen`] and [`Listening::serve`].
    pub fn bind(config: Config, store: Arc<Store>) -> Result<Server, ServerError> {
        Self::listen(config)?.serve(store)
    }

    /// Starts to listen, before there is a store: so that none is made, or recovered, for a server
    /// that cannot listen. Connections wait in the kernel until [`Server::run`] accepts them.
    ///
    /// # Errors
    /// [`ServerError::Config`] if the configuration contradicts itself, or the file of users cannot be read,
    /// [`ServerError::Bind`] if an address cannot be listened on (in use, not allowed, not of this machine), and
    /// [`ServerError::Io`] if the system refuses something else.
    pub fn listen(config: Config) -> Result<Listening, ServerError> {
        Self::listen_on(config, Vec::new())
    }

    /// The same on sockets that listen already, as a service manager hands them over; where there is one, the addresses
    /// and the path of the configuration are not used.
    ///
    /// # Errors
    /// As [`Self::listen`].
    pub fn listen_on(
        config: Config,
        sockets: Vec<ListeningSocket>,
    ) -> Result<Listening, ServerError> {
        config.check()?;
        let acl = Acl::open(&config)?;
        let tls = config.tls.as_ref().map(|wanted| Tls::load(wanted.files.clone())).transpose();
        let tls = tls.map_err(ServerError::Config)?.map(Arc::new);
        let listeners = socket::listen(&config, sockets, tls.as_ref())?;
        let mut polls = Vec::new();
        let mut wakers = Vec::new();
        for _ in 0..=config.thread_count() {
            let poll = Poll::new().map_err(io(NO_QUEUE))?;
            let waker =
                Waker::new(poll.registry(), crate::event_loop::WAKER).map_err(io(NO_QUEUE))?;
            polls.push(poll);
            wakers.push(waker);
        }
        let accept_poll = polls.pop().expect("one more than the number of threads was pushed");
        let metrics = config.metrics.as_deref().map(Metrics::bind).transpose()?;
        let (metrics, waker) = metrics.unzip();
        wakers.extend(waker);
        let metrics_address = metrics.as_ref().map(Metrics::address);
        let control = Arc::new(Control::new(wakers, &listeners, tls, metrics_address));
        let acceptor =
            Acceptor::new(accept_poll, listeners).map_err(io("cannot wait for connections"))?;
        Ok(Listening { config, acl, acceptor, metrics, polls, control })
    }

    /// Serves on this thread and the configured number of others, until a shutdown is asked for
    /// through the handle or by a client.
    ///
    /// # Errors
    /// [`ServerError::AlreadyRan`] at the second call; [`ServerError::Io`] if the system refuses a
    /// thread or the event queue; [`ServerError::ThreadPanicked`] if the server has a defect.
    pub fn run(&self) -> Result<(), ServerError> {
        self.run_and_tell(|| {})
    }

    /// As [`Self::run`], and calls a function when all threads are there, before the first connection is accepted.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn run_and_tell(&self, serves: impl FnOnce()) -> Result<(), ServerError> {
        let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Parts { mut acceptor, metrics, polls } = parts.ok_or(ServerError::AlreadyRan)?;
        let shared = &*self.shared;
        warn_if_open(shared);
        for address in &shared.control.addresses {
            tracing::info!("listening on {address} with {} threads", shared.loops.len());
        }
        for address in &shared.control.tls_addresses {
            tracing::info!("listening on {address} with TLS, {} threads", shared.loops.len());
        }
        let result = std::thread::scope(|scope| {
            let collector = std::thread::Builder::new().name("everleaf-collector".to_string());
            let _collector = StopCollector(&shared.collector);
            if !shared.store.is_read_only() {
                collector.spawn_scoped(scope, || collect(shared)).map_err(io(NO_THREAD))?;
            }
            serve_metrics(scope, metrics, shared)?;
            let mut threads = Vec::new();
            for (index, poll) in polls.into_iter().enumerate() {
                let event_loop = EventLoop::new(index, poll, shared);
                let builder = std::thread::Builder::new().name(format!("everleaf-loop-{index}"));
                let thread = builder.spawn_scoped(scope, move || {
                    // Also if the loop panics or fails: a server with a thread less is worse.
                    let _stop = StopOnDrop(&shared.control);
                    event_loop.run()
                });
                match thread.map_err(io(NO_THREAD)) {
                    Ok(thread) => threads.push(thread),
                    Err(error) => {
                        shared.control.shutdown();
                        return Err(error);
                    }
                }
            }
            serves();
            let accepted = acceptor.run(shared);
            shared.control.shutdown();
            drop(acceptor);
            let mut result = accepted.map_err(io("cannot wait for connections"));
            for thread in threads {
                let served = match thread.join() {
                    Ok(served) => served.map_err(io("cannot wait for requests")),
                    Err(_) => Err(ServerError::ThreadPanicked),
                };
                result = result.and(served);
            }
            result
        });
        tracing::info!("stopped");
        result
    }

    /// A handle that can stop this server.
    pub fn handle(&self) -> Handle {
        Handle { control: Arc::clone(&self.shared.control) }
    }

    /// The first TCP address the server listens on without TLS; `None` if it only has a Unix socket.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.shared.control.addresses.first().copied()
    }
}

/// Behind them the answer of the system is told.
const NO_QUEUE: &str =
    "cannot create an event queue (raise the limit on open files, `ulimit -n`, or lower --threads)";
const NO_THREAD: &str = "cannot start a thread (raise the limit on threads, or lower --threads)";

/// Starts the thread of the metrics, if they are wanted. It ends when the server is stopping.
fn serve_metrics<'scope>(
    scope: &'scope std::thread::Scope<'scope, '_>,
    metrics: Option<Metrics>,
    shared: &'scope Shared,
) -> Result<(), ServerError> {
    let Some(mut metrics) = metrics else { return Ok(()) };
    tracing::info!("telling metrics on {}", metrics.address());
    let serve = move || {
        if let Err(error) = metrics.run(shared) {
            // Clients go on being served.
            tracing::error!("metrics are told no more: {error}");
        }
    };
    let builder = std::thread::Builder::new().name("everleaf-metrics".to_string());
    builder.spawn_scoped(scope, serve).map_err(io(NO_THREAD))?;
    Ok(())
}

/// Frees what is left of removed collections, until it is stopped.
fn collect(shared: &Shared) {
    let activity = || shared.total().commands;
    shared.collector.run(&shared.types, &shared.databases, &shared.store, activity);
}

struct StopCollector<'a>(&'a Collector);

impl Drop for StopCollector<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

struct StopOnDrop<'a>(&'a Control);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.shutdown();
    }
}

fn io(what: &'static str) -> impl Fn(std::io::Error) -> ServerError {
    move |error| ServerError::Io(what, error)
}

fn warn_if_open(shared: &Shared) {
    let asks_for_certificates = shared
        .control
        .tls
        .as_ref()
        .is_some_and(|tls| tls.files().wanted() == ClientCertificates::Required);
    let tls_addresses = shared.control.tls_addresses.iter().filter(|_| !asks_for_certificates);
    let mut addresses = shared.control.addresses.iter().chain(tls_addresses);
    let open = addresses.find(|address| !address.ip().is_loopback());
    if let Some(address) = open.filter(|_| shared.acl.is_open()) {
        tracing::warn!(
            "{address} can be reached from other machines and there is no password: anybody there \
             can read and remove everything; set a password (--requirepass-file, --aclfile) or listen on 127.0.0.1 \
             (--bind)"
        );
    }
}
