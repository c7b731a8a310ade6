//! Servers of Redis's protocol as a client sees them: where they are, a connection, and which server of a cluster has a
//! key.

pub(crate) mod address;
pub(crate) mod client;
pub(crate) mod cluster;
pub(crate) mod layout;
mod slot;

use crate::exit_code::ExitCode;
use crate::failure::Failure;
use address::Address;
use client::{Client, Reply};
use std::io;
use std::path::Path;
use std::time::Duration;

/// What servers say that have no password, of Redis 6 and later, and before.
const NEEDS_NO_PASSWORD: [&str; 2] = ["without any password configured", "no password is set"];

/// Connects, and says who we are if the address does.
pub(crate) fn connect(
    address: &Address,
    cacert: Option<&Path>,
    patience: Duration,
) -> Result<Client, Failure> {
    let connected = Client::connect(address, cacert, patience);
    let mut client = connected.map_err(|error| unusable(&address.place(), &error))?;
    log_in(&mut client, address)?;
    Ok(client)
}

/// Says who we are, if the address does.
pub(crate) fn log_in(client: &mut Client, address: &Address) -> Result<(), Failure> {
    let place = address.place();
    match try_log_in(client, address).map_err(|error| unusable(&place, &error))? {
        Ok(()) => Ok(()),
        Err(refusal) => Err(Failure::new(ExitCode::Io, format!("{place} refuses AUTH: {refusal}"))),
    }
}

/// The same; returns what the server says if it refuses that.
///
/// *Errors:* it does not answer.
pub(crate) fn try_log_in(client: &mut Client, address: &Address) -> io::Result<Result<(), String>> {
    let reply = match (&address.user, &address.password) {
        (Some(user), password) => {
            let password = password.as_deref().unwrap_or_default();
            client.ask(&[b"AUTH", user.as_bytes(), password.as_bytes()])
        }
        (None, Some(password)) => client.ask(&[b"AUTH", password.as_bytes()]),
        (None, None) => return Ok(Ok(())),
    };
    Ok(match reply? {
        // One password of the environment may be meant for another server.
        Reply::Error(error)
            if address.user.is_none()
                && NEEDS_NO_PASSWORD.iter().any(|text| error.contains(text)) =>
        {
            Ok(())
        }
        Reply::Error(error) => Err(error),
        _ => Ok(()),
    })
}

/// A connection that failed.
pub(crate) fn unusable(place: &str, error: &io::Error) -> Failure {
    Failure::new(ExitCode::Io, format!("{place} cannot be used: {error}"))
}
