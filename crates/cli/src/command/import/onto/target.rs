//! The server that gets everything: commands are sent together, and each must be answered as done.

use super::super::arguments::ImportArgs;
use super::changes::{Command, Kind, kind_of};
use super::held::{Exchanges, Held};
use super::refusal::{NO_COPY, refused};
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::redis::address::Address;
use crate::redis::client::{Client, Reply};
use crate::redis::log_in;
use std::io;
use std::time::Duration;

/// Bytes, and commands, that are sent before their replies are read: few enough that neither side waits for
/// the other to read.
const PENDING_SIZE_MAX: usize = 32 << 10;
const PENDING_COUNT_MAX: usize = 512;
/// Keys that are asked for together.
const GROUP_LENGTH: usize = 64;

/// A target.
pub struct Target {
    client: Client,
    place: String,
    database: u64,
    /// The names of the commands whose replies were not read.
    pending: Vec<String>,
    /// A transaction of the source is begun, and not ended.
    is_in_transaction: bool,
    skips_unsupported: bool,
    left_away: u64,
    /// Times that are held back, while the source is followed and not reached.
    held: Option<Held>,
}

impl Target {
    /// Connects.
    pub fn connect(address: &Address, args: &ImportArgs) -> Result<Self, Failure> {
        let place = address.place();
        let connected =
            Client::connect(address, args.cacert.as_deref(), Duration::from_secs(args.timeout));
        let mut client = connected.map_err(|error| fail(&place, &error))?;
        log_in(&mut client, address)?;
        if args.follow.is_some() {
            demand_moments(&mut client, &place)?;
        }
        Ok(Target {
            client,
            place,
            database: 0,
            pending: Vec::new(),
            is_in_transaction: false,
            skips_unsupported: args.skip_unsupported,
            left_away: 0,
            held: args.follow.map(|_| Held::new()),
        })
    }

    /// Lets a key expire.
    pub fn expire(&mut self, key: &[u8], expiry_ms: Option<u64>) -> Result<(), Failure> {
        let Some(time) = expiry_ms else { return Ok(()) };
        let database = self.database;
        let time = self.held.as_mut().map_or(time, |held| held.hold(database, key, time));
        self.add(&[b"PEXPIREAT", key, time.to_string().as_bytes()])
    }

    /// Gives keys times that are a little later than those that were held back: the source is reached.
    pub fn let_go(&mut self) -> Result<(), Failure> {
        let times = self.held.as_mut().map(Held::reach);
        self.exchange(times.unwrap_or_default())
    }

    /// Holds times back that come soon: the target is behind. To be called again and again until it is not.
    pub fn hold_back(&mut self) -> Result<(), Failure> {
        let times = self.held.as_mut().map(Held::fall_behind);
        self.exchange(times.unwrap_or_default())
    }

    /// Gives keys the times that they have at the source, which is followed no more.
    pub fn give_times(&mut self) -> Result<(), Failure> {
        let times = self.held.take().map(|held| held.end());
        self.exchange(times.unwrap_or_default())
    }

    /// Gives those of some keys another time that have one: of each the key, the time that it has, and the other.
    fn exchange(&mut self, times: Exchanges) -> Result<(), Failure> {
        if times.is_empty() {
            return Ok(());
        }
        let database = self.database;
        for group in times.chunk_by(|((a, _), ..), ((b, _), ..)| a == b) {
            for group in group.chunks(GROUP_LENGTH) {
                let keys: Vec<&[u8]> = group.iter().map(|((_, key), ..)| &**key).collect();
                let found = self.times(group[0].0.0, &keys)?;
                for (((_, key), old, new), found) in group.iter().zip(found) {
                    // Others have got another time by now.
                    if found == *old as i64 {
                        self.add(&[b"PEXPIREAT", key, new.to_string().as_bytes()])?;
                    }
                }
            }
        }
        self.flush()?;
        self.select(database)?;
        self.flush()
    }

    /// When keys of a database expire, as the target tells it.
    pub fn times(&mut self, database: u64, keys: &[&[u8]]) -> Result<Vec<i64>, Failure> {
        self.select(database)?;
        self.flush()?;
        keys.iter().for_each(|key| self.client.add(&[b"PEXPIRETIME", key]));
        self.client.send().map_err(|error| fail(&self.place, &error))?;
        let mut times = Vec::new();
        for _ in keys {
            match self.client.reply().map_err(|error| fail(&self.place, &error))? {
                Reply::Number(time) => times.push(time),
                // Without it no time is given back: nothing of this can be left away.
                Reply::Error(error) => return Err(self.refusal("PEXPIRETIME", &error)),
                _ => times.push(-1),
            }
        }
        Ok(times)
    }

    /// Whether a transaction of the source is begun here, and not ended: its commands are only taken down.
    pub fn is_in_transaction(&self) -> bool {
        self.is_in_transaction
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
        // A long one goes alone: nothing is to be read while it is sent.
        let size = args.iter().map(|arg| arg.len()).sum::<usize>();
        if !self.pending.is_empty() && self.client.pending_size() + size > PENDING_SIZE_MAX {
            self.flush()?;
        }
        self.client.add(args);
        let name = args.first().copied().unwrap_or_default();
        self.pending.push(String::from_utf8_lossy(name).to_ascii_uppercase());
        let is_much = self.client.pending_size() >= PENDING_SIZE_MAX;
        if is_much || self.pending.len() >= PENDING_COUNT_MAX { self.flush() } else { Ok(()) }
    }

    /// Sends a command of the source's stream, unless it is none for us. Returns whether it changes something.
    pub fn pass_on(&mut self, mut command: Command) -> Result<bool, Failure> {
        let name = command.first().map(Vec::as_slice).unwrap_or_default();
        let kind = kind_of(name);
        match kind {
            Kind::Other => return Ok(false),
            // Of a transaction with what is not known the rest is done one by one.
            Kind::Frame if self.skips_unsupported => return Ok(false),
            Kind::Unknown if self.skips_unsupported => {
                self.left_away += 1;
                return Ok(false);
            }
            Kind::Unknown => {
                let name = String::from_utf8_lossy(name).to_ascii_uppercase();
                return Err(refused(format!(
                    "the source sends {name:.40}, which is no change of a key that is known here: --skip-unsupported \
                     leaves it away"
                )));
            }
            Kind::Select => {
                let number = command.get(1).and_then(|number| std::str::from_utf8(number).ok());
                self.database = number.and_then(|number| number.parse().ok()).unwrap_or(0);
            }
            Kind::Frame => self.is_in_transaction = name.eq_ignore_ascii_case(b"MULTI"),
            Kind::Change => {}
        }
        if let Some(held) = &mut self.held {
            held.look_at(self.database, &mut command);
        }
        let args: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
        self.add(&args)?;
        Ok(kind == Kind::Change)
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
                if self.skips_unsupported
                    && (error.starts_with("ERR unknown command")
                        || name.starts_with("RENAME") && error.starts_with("ERR no such key")) =>
            {
                self.left_away += 1;
                Ok(())
            }
            Reply::Error(error) => Err(self.refusal(name, error)),
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

    fn refusal(&self, name: &str, error: &str) -> Failure {
        let message = format!("{} refuses {name}: {error}; {NO_COPY}", self.place);
        Failure::new(ExitCode::Io, message)
    }
}

/// Refuses a target that does not tell when a key expires: times that were held back could not be exchanged.
fn demand_moments(client: &mut Client, place: &str) -> Result<(), Failure> {
    let told = client.ask(&[b"PEXPIRETIME", b"everleaf-import-asks"]);
    match told.map_err(|error| fail(place, &error))? {
        Reply::Error(error) => Err(Failure::new(
            ExitCode::Io,
            format!(
                "{place} refuses PEXPIRETIME, by which --follow gives keys their times (Redis 7.0 and later know it): \
                 {error}; nothing was copied"
            ),
        )),
        _ => Ok(()),
    }
}

fn fail(place: &str, error: &io::Error) -> Failure {
    Failure::new(ExitCode::Io, format!("{place} cannot be used: {error}"))
}
