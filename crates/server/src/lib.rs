//! A multi-threaded Redis-protocol server on an Everleaf store.
//!
//! ```text
//!                    +-> event loop 0 --+
//!   accept thread ---+-> event loop 1 --+--> one store
//!                    +-> event loop n --+
//! ```
//!
//! One thread accepts connections and hands each to the event loop that has the fewest; from then
//! on the connection lives on that loop's thread alone. A loop waits in the kernel until a socket
//! is ready, reads it once, runs every complete request of what it read, and answers them all with
//! one write. An idle server uses no CPU at all: no loop spins, and no timer runs unless an idle
//! timeout was configured.
//!
//! A write is acknowledged after the store made it durable in the store's own sense, so whatever
//! a client has seen acknowledged survives the death of the process.
//!
//! What is served is the store's default map as database 0, and further maps as the others. Each command is atomic on
//! one key, and those of several keys (`MGET`, `EXISTS`, `TOUCH`, `DEL`, `UNLINK`, `MSET`, `MSETNX`, `RENAME`, `COPY`
//! and others) are one step for all of them; only in a full pool, on a full disk or without memory do `DEL` and
//! `UNLINK` remove one key after the other. `docs/redis-differences.md` (*Many keys*) has what is no single step.
//!
//! What a client may do is said of its user (`ACL`, [`Config::acl_file`]); metrics are told by HTTP
//! ([`Config::metrics`]).
//!
//! # Example
//! ```
//! use std::io::{Read, Write};
//! use std::sync::Arc;
//! use everleaf_server::{Config, Server};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = std::env::temp_dir().join(format!("everleaf-server-doc-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder)?;
//! # let path = folder.join("doc.pool");
//! let store = Arc::new(everleaf::Options::new().create(true).open(&path)?);
//! let config = Config { port: 0, threads: 1, ..Config::default() };
//! let server = Server::bind(config, store)?;
//! let handle = server.handle();
//! let address = handle.local_addr().expect("a TCP address was asked for");
//! let thread = std::thread::spawn(move || server.run());
//!
//! let mut client = std::net::TcpStream::connect(address)?;
//! client.write_all(b"PING\r\n")?;
//! let mut reply = [0; 7];
//! client.read_exact(&mut reply)?;
//! assert_eq!(&reply, b"+PONG\r\n");
//!
//! handle.shutdown();
//! thread.join().expect("the server does not panic")?;
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod acceptor;
mod acl;
mod batch;
mod blocked_clients;
mod blocking_request;
mod client_memory;
mod client_state;
mod command;
mod config;
mod connection;
mod connection_gauges;
mod databases;
mod decimal;
mod error;
mod event_loop;
mod exclusion;
mod failure;
mod gathered;
mod glob;
mod latency;
mod metrics;
mod monitor;
mod password;
mod process_memory;
mod rate_limiter;
mod rdb;
mod read_size;
mod registry;
pub mod resp;
mod saver;
mod scan_table;
mod score;
mod scratch;
mod secrets;
mod server;
mod settings;
mod shared;
mod short_bytes;
mod shown;
mod slice;
mod slow_log;
mod socket;
mod statistics;
mod texts;
mod tls;
pub mod transfer;
mod turns;
mod types;
mod waiters;
mod wall_clock;

pub use config::{Config, ConfigFile, DebugCommand, Rewrite, Setting};
pub use error::ServerError;
pub use server::{Handle, Listening, Server};
pub use socket::ListeningSocket;
pub use tls::{ClientCertificates, TlsConfig, TlsFiles};
pub use types::CollectionHeaders;
pub use types::check::{CollectionReport, check_collections};
pub use types::mend::mend_mark;
