//! A source as one of its replicas: a snapshot of its keys, and every command behind it that changes one.
//!
//! Where the connection is lost behind the snapshot there is another, and the stream goes on behind the last command
//! that came as a whole, as long as the source still has what was sent since. If it has not, only a new snapshot would
//! do, and in front of it the target would have to be emptied: that is left to a user who knows that nobody writes to
//! it.

use super::super::item::{Item, each_record};
use super::changes::Command;
use super::refusal::NO_COPY;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::redis::address::Address;
use crate::redis::client::{Client, Reply};
use crate::redis::{log_in, try_log_in};
use std::cell::Cell;
use std::io::{self, BufRead, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a source may be silent: it says something every ten seconds unless it was told otherwise.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often the source is told how far we are, if it does not ask.
const ACKNOWLEDGE_EVERY: Duration = Duration::from_secs(1);
/// How long it is tried to reach a source again, and how long the first and the longest rest between two attempts is.
const RECONNECT_FOR: Duration = Duration::from_secs(60);
const RECONNECT_REST: Duration = Duration::from_millis(100);
const RECONNECT_REST_MAX: Duration = Duration::from_secs(5);
/// How long a source may take for each answer while it is reached again: an attempt takes less than the times last that
/// are held back in front of it.
const RECONNECT_PATIENCE: Duration = Duration::from_secs(8);
/// A source that was not heard for so long is not known to be silent: it says something every ten seconds.
pub const UNHEARD: Duration = Duration::from_secs(12);
/// The longest line, and the most parts of a command.
const LINE_SIZE_MAX: u64 = 1 << 16;
const PART_COUNT_MAX: u64 = 1 << 20;
/// The longest part of a command, and the longest command: a source takes none of more than 1 GiB itself.
const PART_SIZE_MAX: u64 = 1 << 30;
const COMMAND_SIZE_MAX: u64 = 2 << 30;
/// What a part takes besides itself.
const PART_OVERHEAD: u64 = 40;
/// The most empty lines before a snapshot: one a second is twelve days.
const SIGN_COUNT_MAX: usize = 1 << 20;

/// A source that sends its stream.
pub struct Replica {
    client: Client,
    address: Address,
    cacert: Option<PathBuf>,
    place: String,
    /// The name of the source's stream.
    stream: String,
    /// Where in it we are, in bytes.
    offset: u64,
    /// Where the last command ended that came as a whole.
    ended: u64,
    /// The longest command.
    command_size_max: u64,
    /// Whether the connection has failed.
    is_lost: Cell<bool>,
    acknowledged_at: Instant,
    /// When the last of its stream came.
    heard_at: Instant,
}

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
        let mut replica = Replica {
            client: log_in_to(address, cacert, &place, PATIENCE)?,
            address: address.clone(),
            cacert: cacert.map(Path::to_path_buf),
            place,
            stream: String::new(),
            offset: 0,
            ended: 0,
            command_size_max: COMMAND_SIZE_MAX,
            is_lost: Cell::new(false),
            acknowledged_at: Instant::now(),
            heard_at: Instant::now(),
        };
        let line = replica.ask_for_stream("?", "-1")?;
        let whole = line.strip_prefix("+FULLRESYNC ").and_then(|rest| rest.split_once(' '));
        // A source counts in 63 bits; from there on we could not count on.
        let whole =
            whole.and_then(|(name, offset)| Some((name, offset.trim().parse::<i64>().ok()?)));
        let whole = whole.and_then(|(name, offset)| Some((name, u64::try_from(offset).ok()?)));
        let Some((name, offset)) = whole else {
            return Err(replica.refusal(line.trim_start_matches('-')));
        };
        replica.stream = name.to_string();
        (replica.offset, replica.ended) = (offset, offset);
        Ok(replica)
    }

    /// Asks for the stream of this name from a byte on. Returns what is answered.
    fn ask_for_stream(&mut self, name: &str, from: &str) -> Result<String, Failure> {
        let known = self.client.ask(&[b"REPLCONF", b"capa", b"psync2"]);
        if let Reply::Error(error) = known.map_err(|error| self.fail(&error))? {
            return Err(self.refusal(&error));
        }
        self.client.add(&[b"PSYNC", name.as_bytes(), from.as_bytes()]);
        self.client.send().map_err(|error| self.fail(&error))?;
        self.line_behind_signs_of_life()
    }

    /// Whether the connection has failed, and not what came over it.
    pub fn is_lost(&self) -> bool {
        self.is_lost.get()
    }

    /// Whether nothing has come for so long that it is not known what the source does.
    pub fn is_unheard(&self) -> bool {
        self.heard_at.elapsed() >= UNHEARD
    }

    /// How far the source's stream goes, as it says over another connection: over this one nothing may come though
    /// there is something. Nothing, if it does not tell that to its user.
    ///
    /// *Errors:* it cannot be asked.
    pub fn told_offset(&self) -> io::Result<Option<u64>> {
        let cacert = self.cacert.as_deref();
        let mut client = Client::connect(&self.address, cacert, RECONNECT_PATIENCE)?;
        if try_log_in(&mut client, &self.address)?.is_err() {
            return Ok(None);
        }
        let Reply::Text(text) = client.ask(&[b"INFO", b"replication"])? else { return Ok(None) };
        let text = String::from_utf8_lossy(&text);
        let offset = text.lines().find_map(|line| line.strip_prefix("master_repl_offset:"));
        Ok(offset.and_then(|offset| offset.trim().parse().ok()))
    }

    /// Reaches the source again, and goes on behind the last command that came as a whole. Each attempt begins with
    /// what is to be done meanwhile.
    ///
    /// *Errors:* it cannot be reached for a while; it has the stream from there on no more.
    pub fn reconnect(
        &mut self,
        mut meanwhile: impl FnMut() -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let (start, mut rest) = (Instant::now(), RECONNECT_REST);
        loop {
            meanwhile()?;
            match self.resume() {
                Ok(true) => return Ok(()),
                Ok(false) => return Err(self.gone()),
                Err(failure) if start.elapsed() >= RECONNECT_FOR => return Err(failure),
                Err(_) => std::thread::sleep(rest),
            }
            rest = (2 * rest).min(RECONNECT_REST_MAX);
        }
    }

    /// One attempt. Returns whether the source still has the stream from where we are.
    fn resume(&mut self) -> Result<bool, Failure> {
        let cacert = self.cacert.as_deref();
        self.client = log_in_to(&self.address, cacert, &self.place, RECONNECT_PATIENCE)?;
        let (name, from) = (self.stream.clone(), self.ended + 1);
        let line = self.ask_for_stream(&name, &from.to_string())?;
        if line.starts_with("+FULLRESYNC") {
            return Ok(false);
        }
        let Some(name) = line.strip_prefix("+CONTINUE") else {
            return Err(self.refusal(line.trim_start_matches('-')));
        };
        if !name.trim().is_empty() {
            self.stream = name.trim().to_string();
        }
        self.client.set_patience(PATIENCE).map_err(|error| self.fail(&error))?;
        self.offset = self.ended;
        self.heard_at = Instant::now();
        self.is_lost.set(false);
        Ok(true)
    }

    fn gone(&self) -> Failure {
        let message = format!(
            "the connection to {} was lost, and it no longer has the changes since then (raise its \
             repl-backlog-size); {NO_COPY}",
            self.place
        );
        Failure::new(ExitCode::Io, message)
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
            Ok(_) if body.limit() == 0 => {
                self.heard_at = Instant::now();
                Ok(database)
            }
            Ok(_) => Err(fail(&place, &ErrorKind::UnexpectedEof.into())),
            Err(error) => Err(fail(&place, &error)),
        }
    }

    /// Waits for the stream; returns whether something came.
    pub fn wait(&mut self, patience: Duration) -> Result<bool, Failure> {
        if self.has_more() {
            self.heard_at = Instant::now();
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
        if matches!(came, Ok(true)) {
            self.heard_at = Instant::now();
        }
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
        let (mut command, mut left) = (Vec::new(), self.command_size_max);
        for _ in 0..count {
            let size = self.number_behind(b'$', PART_SIZE_MAX)?;
            let rest = left.checked_sub(size + PART_OVERHEAD);
            left = rest.ok_or_else(|| self.strange("a command of its stream: it is too long"))?;
            // It grows with what comes, not with what is claimed.
            let mut part = Vec::new();
            let read = self.client.input().take(size + 2).read_to_end(&mut part);
            read.map_err(|error| self.fail(&error))?;
            self.offset += part.len() as u64;
            if part.len() as u64 != size + 2 {
                return Err(self.fail(&ErrorKind::UnexpectedEof.into()));
            }
            if !part.ends_with(b"\r\n") {
                return Err(self.strange("its stream"));
            }
            part.truncate(size as usize);
            command.push(part);
        }
        self.ended = self.offset;
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
            Ok(size) if size < LINE_SIZE_MAX as usize && !line.ends_with(b"\n") => {
                Err(self.fail(&ErrorKind::UnexpectedEof.into()))
            }
            Ok(_) => Ok(line),
            Err(error) => Err(self.fail(&error)),
        }
    }

    /// A line, without its end. While the source makes its snapshot it sends empty ones.
    fn line_behind_signs_of_life(&mut self) -> Result<String, Failure> {
        for _ in 0..SIGN_COUNT_MAX {
            let line = self.line()?;
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end_matches(['\r', '\n']);
            if !line.is_empty() {
                return Ok(line.to_string());
            }
        }
        Err(self.strange("its snapshot: empty lines without an end"))
    }

    fn fail(&self, error: &io::Error) -> Failure {
        self.is_lost.set(true);
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

/// A connection to a source, which knows who we are.
fn log_in_to(
    address: &Address,
    cacert: Option<&Path>,
    place: &str,
    patience: Duration,
) -> Result<Client, Failure> {
    let connected = Client::connect(address, cacert, patience);
    let mut client = connected.map_err(|error| fail(place, &error))?;
    log_in(&mut client, address)?;
    Ok(client)
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    /// Takes a connection, answers what comes before `PSYNC`, and returns what that asks for.
    fn accept(listener: &TcpListener) -> (TcpStream, String) {
        let (mut stream, _) = listener.accept().expect("it comes");
        let mut input = io::BufReader::new(stream.try_clone().expect("a second handle"));
        loop {
            let mut lines = input.by_ref().lines().map(|line| line.expect("readable"));
            let count: usize = lines.next().expect("a request")[1..].parse().expect("a number");
            let parts: Vec<String> = lines.skip(1).step_by(2).take(count).collect();
            if parts[0] == "PSYNC" {
                return (stream, parts[1..].join(" "));
            }
            stream.write_all(b"+OK\r\n").expect("it listens");
        }
    }

    fn command(replica: &mut Replica) -> Result<String, Failure> {
        Ok(replica.next_command()?.concat().iter().map(|byte| *byte as char).collect())
    }

    /// What was lost: the whole copy, by the first lost connection of a source that was followed for days.
    #[test]
    fn a_lost_source_is_followed_from_its_last_whole_command() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = listener.local_addr().expect("it has an address").port();
        let source = std::thread::spawn(move || {
            let say = |answer: &str| {
                let (mut stream, asked) = accept(&listener);
                stream.write_all(answer.as_bytes()).expect("it listens");
                asked
            };
            let mut all =
                vec![say("+FULLRESYNC name 100\r\n*1\r\n$4\r\nPING\r\n*2\r\n$3\r\nDEL\r\n$1")];
            // It is busy, and then there, and lost in the middle of another part.
            all.push(say("-LOADING not yet\r\n"));
            all.push(say("+CONTINUE\r\n*2\r\n$3\r\nDEL\r\n$1\r\nk\r\n*2\r\n$3\r\nDEL\r\n$4\r\nab"));
            all.push(say("+CONTINUE other\r\n*2\r\n$3\r\nDEL\r\n$4\r\nabcd\r\n"));
            all.push(say("+FULLRESYNC new 7\r\n"));
            all
        });
        let address = Address::parse(&format!("redis://127.0.0.1:{port}"));
        let address = address.expect("it can be read").expect("it is one");
        let mut replica = Replica::connect(&address, None).expect("it answers");
        assert_eq!(command(&mut replica).expect("whole"), "PING");
        let mut attempts = 0;
        for whole in ["DELk", "DELabcd"] {
            assert!(command(&mut replica).is_err() && replica.is_lost());
            let meanwhile = || {
                attempts += 1;
                Ok(())
            };
            replica.reconnect(meanwhile).expect("it goes on");
            assert!(!replica.is_lost());
            assert_eq!(command(&mut replica).expect("whole"), whole);
        }
        assert!(command(&mut replica).is_err() && replica.is_lost());
        // What was lost: times were held back before the first attempt only, and came while there were others.
        assert_eq!(attempts, 3);
        let gone = replica.reconnect(|| Ok(())).expect_err("it begins anew").message;
        assert!(gone.contains("repl-backlog-size") && gone.contains("empty it"), "{gone}");
        let asked = source.join().expect("it does not panic");
        assert_eq!(asked, ["? -1", "name 115", "name 115", "name 135", "other 158"]);
    }

    fn address_of(listener: &TcpListener) -> Address {
        let port = listener.local_addr().expect("it has an address").port();
        let address = Address::parse(&format!("redis://127.0.0.1:{port}"));
        address.expect("it can be read").expect("it is one")
    }

    /// What was taken: as much memory as the source had to say, and as much time. A command could have a million parts
    /// of a gigabyte; empty lines, which are signs of life, could come for ever; and a position behind which there is
    /// no other number ended builds that look for overflow.
    #[test]
    fn a_source_that_claims_without_an_end_is_left() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = address_of(&listener);
        let source = std::thread::spawn(move || {
            let long = "*4\r\n$3\r\nDEL\r\n$50\r\n".to_string() + &"k".repeat(50) + "\r\n";
            let signs = "\n".repeat(SIGN_COUNT_MAX + 1);
            for answer in [
                "+FULLRESYNC name 1\r\n".to_string() + &long + "$50\r\n",
                signs,
                "+FULLRESYNC name 18446744073709551615\r\n".into(),
                "+FULLRESYNC name 9223372036854775808\r\n".into(),
                "+FULLRESYNC name -1\r\n".into(),
            ] {
                let (mut stream, _) = accept(&listener);
                // It may be left before all is said.
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        let mut replica = Replica::connect(&address, None).expect("it answers");
        replica.command_size_max = 200;
        let failure = command(&mut replica).expect_err("it is too long");
        assert!(failure.message.contains("too long") && !replica.is_lost(), "{}", failure.message);
        for expected in ["without an end", "does not send", "does not send", "does not send"] {
            let failure = Replica::connect(&address, None).err().expect("it is refused");
            assert!(failure.message.contains(expected), "{}", failure.message);
        }
        source.join().expect("it does not panic");
    }

    /// What was lost: what is written while the network is silent, which was taken for silence of the programs.
    #[test]
    fn a_source_is_asked_how_far_its_stream_goes() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = address_of(&listener);
        let answers = ["$22\r\nmaster_repl_offset:101\r\n", "-NOPERM\r\n", "$1\r\nx\r\n", ""];
        let (send, receive) = std::sync::mpsc::channel();
        let source = std::thread::spawn(move || {
            let (mut stream, _) = accept(&listener);
            stream.write_all(b"+FULLRESYNC name 100\r\n").expect("it listens");
            for answer in answers {
                answer_question(&listener, "replication", answer);
            }
            receive.recv().expect("it is told");
            stream.write_all(b"*1\r\n$4\r\nPING\r\n").expect("it listens");
            stream
        });
        let mut replica = Replica::connect(&address, None).expect("it answers");
        assert!(!replica.is_unheard());
        assert_eq!(replica.told_offset().expect("it is told"), Some(101));
        for _ in 0..2 {
            assert_eq!(replica.told_offset().expect("it is answered"), None, "it does not say");
        }
        replica.told_offset().expect_err("it cannot be asked");
        replica.heard_at = replica.heard_at.checked_sub(UNHEARD).expect("there was a time before");
        assert!(
            replica.is_unheard() && !replica.wait(Duration::from_millis(1)).expect("it is there")
        );
        send.send(()).expect("it waits");
        assert!(replica.wait(PATIENCE).expect("it is there") && !replica.is_unheard());
        source.join().expect("it does not panic");
    }

    /// What was taken for the answer of a source that does not tell: the end of a connection before any answer.
    #[test]
    fn a_source_that_ends_during_auth_has_told_nothing() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = listener.local_addr().expect("it has an address").port();
        let address = Address::parse(&format!("redis://:secret@127.0.0.1:{port}"));
        let address = address.expect("it can be read").expect("it is one");
        let source = std::thread::spawn(move || {
            let (mut stream, _) = accept(&listener);
            stream.write_all(b"+FULLRESYNC name 100\r\n").expect("it listens");
            answer_question(&listener, "secret", "");
            answer_question(&listener, "secret", "-WRONGPASS no\r\n");
            stream
        });
        let replica = Replica::connect(&address, None).expect("it answers");
        replica.told_offset().expect_err("it is not answered");
        assert_eq!(replica.told_offset().expect("it is answered"), None, "it is refused");
        source.join().expect("it does not panic");
    }

    /// Takes a connection, gives this answer to the line, and ends it.
    fn answer_question(listener: &TcpListener, question: &str, answer: &str) {
        let (mut asked, _) = listener.accept().expect("it comes");
        let mut lines = io::BufReader::new(asked.try_clone().expect("a second handle")).lines();
        lines.find(|line| line.as_ref().is_ok_and(|line| line == question));
        asked.write_all(answer.as_bytes()).expect("it listens");
    }

    /// What is no part of a stream is told, and is no reason for another connection.
    #[test]
    fn a_stream_that_cannot_be_read_is_not_lost() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = listener.local_addr().expect("it has an address").port();
        let source = std::thread::spawn(move || {
            let (mut stream, _) = accept(&listener);
            stream.write_all(b"+FULLRESYNC name 1\r\n*1\r\n$4\r\nPINGxx").expect("it listens");
        });
        let address = Address::parse(&format!("redis://127.0.0.1:{port}"));
        let address = address.expect("it can be read").expect("it is one");
        let mut replica = Replica::connect(&address, None).expect("it answers");
        assert!(command(&mut replica).is_err() && !replica.is_lost());
        source.join().expect("it does not panic");
    }
}
