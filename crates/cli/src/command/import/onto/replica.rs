//! A source as one of its replicas: a snapshot of its keys, and every command behind it that changes one.

use super::super::{Item, each_record};
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::redis::address::Address;
use crate::redis::client::{Client, Reply};
use crate::redis::log_in;
use std::io::{self, BufRead, ErrorKind, Read};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a source may be silent: it says something every ten seconds unless it was told otherwise.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often the source is told how far we are, if it does not ask.
const ACKNOWLEDGE_EVERY: Duration = Duration::from_secs(1);
/// The longest line, and the most parts of a command.
const LINE_SIZE_MAX: u64 = 1 << 16;
const PART_COUNT_MAX: u64 = 1 << 20;
/// The longest part of a command.
const PART_SIZE_MAX: u64 = 1 << 30;

/// A source that sends its stream.
pub struct Replica {
    client: Client,
    place: String,
    /// Where in the source's stream we are, in bytes.
    offset: u64,
    acknowledged_at: Instant,
}

/// A command of the stream.
pub type Command = Vec<Vec<u8>>;

/// Whether a command is the source's question how far we are.
pub fn asks_for_offset(command: &Command) -> bool {
    let is = |part: usize, name: &[u8]| {
        command.get(part).is_some_and(|part| part.eq_ignore_ascii_case(name))
    };
    is(0, b"REPLCONF") && is(1, b"GETACK")
}

impl Replica {
    /// Connects, and asks for everything.
    pub fn connect(address: &Address, cacert: Option<&Path>) -> Result<Self, Failure> {
        let place = address.place();
        let mut client =
            Client::connect(address, cacert, PATIENCE).map_err(|error| fail(&place, &error))?;
        log_in(&mut client, address)?;
        let mut replica = Replica { client, place, offset: 0, acknowledged_at: Instant::now() };
        let known = replica.client.ask(&[b"REPLCONF", b"capa", b"psync2"]);
        if let Reply::Error(error) = known.map_err(|error| replica.fail(&error))? {
            return Err(replica.refusal(&error));
        }
        replica.client.add(&[b"PSYNC", b"?", b"-1"]);
        replica.client.send().map_err(|error| replica.fail(&error))?;
        let line = replica.line_behind_signs_of_life()?;
        let offset = line.strip_prefix("+FULLRESYNC ").and_then(|rest| rest.split_once(' '));
        match offset.and_then(|(_, offset)| offset.trim().parse().ok()) {
            Some(offset) => replica.offset = offset,
            None => return Err(replica.refusal(line.trim_start_matches('-'))),
        }
        Ok(replica)
    }

    /// Where in the source's stream we are, in bytes.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Shows all keys as they were when the stream began. Returns the database that the stream is in.
    pub fn snapshot(
        &mut self,
        see: &mut dyn FnMut(Item) -> Result<(), Failure>,
    ) -> Result<u64, Failure> {
        let line = self.line_behind_signs_of_life()?;
        let size = line.strip_prefix('$').and_then(|size| size.parse().ok());
        let size: u64 = size.ok_or_else(|| self.strange("its snapshot"))?;
        let place = self.place.clone();
        let mut body = self.client.input().take(size);
        let database = each_record(&mut body, &place, see)?.unwrap_or(0);
        match io::copy(&mut body, &mut io::sink()) {
            Ok(_) if body.limit() == 0 => Ok(database),
            Ok(_) => Err(fail(&place, &ErrorKind::UnexpectedEof.into())),
            Err(error) => Err(fail(&place, &error)),
        }
    }

    /// Waits for the stream; returns whether something came.
    pub fn wait(&mut self, patience: Duration) -> Result<bool, Failure> {
        if self.has_more() {
            return Ok(true);
        }
        self.client.set_patience(patience).map_err(|error| self.fail(&error))?;
        let came = match self.client.input().fill_buf() {
            Ok([]) => Err(self.fail(&ErrorKind::UnexpectedEof.into())),
            Ok(_) => Ok(true),
            // Interrupted: we were stopped, and go on.
            Err(error) if is_patience_over(&error) || error.kind() == ErrorKind::Interrupted => {
                Ok(false)
            }
            Err(error) => Err(self.fail(&error)),
        };
        self.client.set_patience(PATIENCE).map_err(|error| self.fail(&error))?;
        if came.is_err() || self.acknowledged_at.elapsed() < ACKNOWLEDGE_EVERY {
            return came;
        }
        self.acknowledge(true)?;
        came
    }

    /// Whether a part of a command is here.
    pub fn has_more(&mut self) -> bool {
        self.client.has_input()
    }

    /// The next command.
    pub fn next_command(&mut self) -> Result<Command, Failure> {
        let count = self.number_behind(b'*', PART_COUNT_MAX)?;
        let mut command = Vec::new();
        for _ in 0..count {
            let size = self.number_behind(b'$', PART_SIZE_MAX)?;
            // It grows with what comes, not with what is claimed.
            let mut part = Vec::new();
            let read = self.client.input().take(size + 2).read_to_end(&mut part);
            read.map_err(|error| self.fail(&error))?;
            self.offset += part.len() as u64;
            if part.len() as u64 != size + 2 || !part.ends_with(b"\r\n") {
                return Err(self.strange("its stream"));
            }
            part.truncate(size as usize);
            command.push(part);
        }
        Ok(command)
    }

    /// Tells the source how far the target is: at once, or if that is some time ago.
    pub fn acknowledge(&mut self, at_once: bool) -> Result<(), Failure> {
        if !at_once && self.acknowledged_at.elapsed() < ACKNOWLEDGE_EVERY {
            return Ok(());
        }
        self.acknowledged_at = Instant::now();
        let offset = self.offset.to_string();
        self.client.add(&[b"REPLCONF", b"ACK", offset.as_bytes()]);
        self.client.send().map_err(|error| self.fail(&error))
    }

    fn number_behind(&mut self, mark: u8, max: u64) -> Result<u64, Failure> {
        let line = self.line()?;
        self.offset += line.len() as u64;
        let number = line.strip_prefix(&[mark]).and_then(|rest| rest.strip_suffix(b"\r\n"));
        let number = number.and_then(|number| std::str::from_utf8(number).ok()?.parse().ok());
        number.filter(|number| *number <= max).ok_or_else(|| self.strange("its stream"))
    }

    fn line(&mut self) -> Result<Vec<u8>, Failure> {
        let mut line = Vec::new();
        let read = self.client.input().take(LINE_SIZE_MAX).read_until(b'\n', &mut line);
        match read {
            Ok(0) => Err(self.fail(&ErrorKind::UnexpectedEof.into())),
            Ok(_) => Ok(line),
            Err(error) => Err(self.fail(&error)),
        }
    }

    /// A line, without its end. While the source makes its snapshot it sends empty ones.
    fn line_behind_signs_of_life(&mut self) -> Result<String, Failure> {
        loop {
            let line = self.line()?;
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end_matches(['\r', '\n']);
            if !line.is_empty() {
                return Ok(line.to_string());
            }
        }
    }

    fn fail(&self, error: &io::Error) -> Failure {
        fail(&self.place, error)
    }

    fn strange(&self, what: &str) -> Failure {
        let message = format!("{} sends what cannot be read as {what}", self.place);
        Failure::new(ExitCode::Io, message)
    }

    fn refusal(&self, error: &str) -> Failure {
        Failure::new(
            ExitCode::Io,
            format!(
                "{} does not send its stream of changes ({error}): import it into a pool, or let its user \
                 have the permissions +psync and +replconf",
                self.place
            ),
        )
    }
}

fn is_patience_over(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

fn fail(place: &str, error: &io::Error) -> Failure {
    let why = match is_patience_over(error) {
        true => format!("it has said nothing for {} s", PATIENCE.as_secs()),
        false => error.to_string(),
    };
    Failure::new(ExitCode::Io, format!("{place} cannot be read: {why}"))
}
