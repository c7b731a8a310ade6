//! The tests of the server, in one program: its library is linked once.

mod access;
mod acl;
mod administration;
mod claims;
mod client_library;
mod client_memory;
mod commands;
mod descriptors;
mod differential;
mod durability;
mod gathered;
mod hostile;
mod kills;
mod latency;
mod load;
mod metrics;
mod parser_properties;
mod pipelines;
mod power;
mod replies;
mod steps;
mod support;
mod transactions;
mod types;

/// Not a test of its own: see [`support::ServerProcess`].
#[test]
fn server_process() {
    support::ServerProcess::play();
}
