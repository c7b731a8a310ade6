//! The server that gets everything: commands are sent together, and each must be answered as done.

use super::super::ImportArgs;
use super::super::address::Address;
use super::super::client::{Client, Reply};
use super::super::live::log_in;
use super::replica::Command;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use std::io;
use std::time::Duration;

/// Bytes, and commands, that are sent before their replies are read: few enough that neither side waits for
/// the other to read.
const PENDING_SIZE_MAX: usize = 32 << 10;
const PENDING_COUNT_MAX: usize = 512;
/// What a source sends to its replicas and is no change.
const NO_CHANGES: [&[u8]; 5] = [b"PING", b"REPLCONF", b"PUBLISH", b"SPUBLISH", b"SCRIPT"];

/// A target.
pub struct Target {
    client: Client,
    place: String,
    database: u64,
    /// The names of the commands whose replies were not read.
    pending: Vec<String>,
    skips_unsupported: bool,
    left_away: u64,
}

impl Target {
    /// Connects.
    pub fn connect(address: &Address, args: &ImportArgs) -> Result<Self, Failure> {
        let place = address.place();
        let connected =
            Client::connect(address, args.cacert.as_deref(), Duration::from_secs(args.timeout));
        let mut client = connected.map_err(|error| fail(&place, &error))?;
        log_in(&mut client, address, &place)?;
        Ok(Target {
            client,
            place,
            database: 0,
            pending: Vec::new(),
            skips_unsupported: args.skip_unsupported,
            left_away: 0,
        })
    }

    /// Commands that the target does not know and that were left away.
    pub fn left_away(&self) -> u64 {
        self.left_away
    }

    /// Lets the next commands be for a database.
    pub fn select(&mut self, database: u64) -> Result<(), Failure> {
        if self.database == database {
            return Ok(());
        }
        self.database = database;
        self.add(&[b"SELECT", database.to_string().as_bytes()])
    }

    /// Sends a command, some time.
    pub fn add(&mut self, args: &[&[u8]]) -> Result<(), Failure> {
        self.client.add(args);
        let name = args.first().copied().unwrap_or_default();
        self.pending.push(String::from_utf8_lossy(name).to_ascii_uppercase());
        let is_much = self.client.pending_size() >= PENDING_SIZE_MAX;
        if is_much || self.pending.len() >= PENDING_COUNT_MAX { self.flush() } else { Ok(()) }
    }

    /// Sends a command of the source's stream, unless it is none for us. Returns whether it changes something.
    pub fn pass_on(&mut self, command: Command) -> Result<bool, Failure> {
        let name = command.first().map(Vec::as_slice).unwrap_or_default();
        if NO_CHANGES.iter().any(|other| name.eq_ignore_ascii_case(other)) {
            return Ok(false);
        }
        if name.eq_ignore_ascii_case(b"SELECT") {
            let number = command.get(1).and_then(|number| std::str::from_utf8(number).ok());
            self.database = number.and_then(|number| number.parse().ok()).unwrap_or(0);
        }
        let args: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
        self.add(&args)?;
        Ok(!name.eq_ignore_ascii_case(b"SELECT"))
    }

    /// Sends what was added, and reads that it was done.
    pub fn flush(&mut self) -> Result<(), Failure> {
        self.client.send().map_err(|error| fail(&self.place, &error))?;
        for name in std::mem::take(&mut self.pending) {
            let reply = self.client.reply().map_err(|error| fail(&self.place, &error))?;
            self.judge(&name, &reply)?;
        }
        Ok(())
    }

    fn judge(&mut self, name: &str, reply: &Reply) -> Result<(), Failure> {
        match reply {
            Reply::Error(error)
                if self.skips_unsupported && error.starts_with("ERR unknown command") =>
            {
                self.left_away += 1;
                Ok(())
            }
            Reply::Error(error) => Err(Failure::new(
                ExitCode::Io,
                format!(
                    "{} refuses {name}: {error}. Nothing more is passed on, and the target is no copy of the source",
                    self.place
                ),
            )),
            // What a transaction did, one by one.
            Reply::Array(replies) if name == "EXEC" => {
                replies.iter().try_for_each(|reply| self.judge("a command of a transaction", reply))
            }
            Reply::Null if name == "EXEC" => {
                self.judge(name, &Reply::Error("it was given up".into()))
            }
            _ => Ok(()),
        }
    }
}

fn fail(place: &str, error: &io::Error) -> Failure {
    Failure::new(ExitCode::Io, format!("{place} cannot be used: {error}"))
}
