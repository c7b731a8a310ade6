//! Serves a pool file: `serve PATH [PORT [THREADS]]`. A client stops it with `SHUTDOWN`.
//!
//! For trying things out; the command line of Everleaf does it properly.

#![forbid(unsafe_code)]

use std::error::Error;
use std::sync::Arc;

use everleaf_server::{Config, DebugCommand, Server};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("usage: serve PATH [PORT [THREADS]]")?;
    let port = args.next().map_or(Ok(6399), |port| port.parse())?;
    let threads = args.next().map_or(Ok(0), |threads| threads.parse())?;
    let store = Arc::new(everleaf::Options::new().create(true).open(path)?);
    // Redis's own tests, which run against this, try what users may do with it.
    let debug_command = DebugCommand::Local;
    Server::bind(Config { port, threads, debug_command, ..Config::default() }, store)?.run()?;
    Ok(())
}
