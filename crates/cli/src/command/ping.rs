//! `everleaf ping`: whether a server answers; for health checks, and to wait until it does.

use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::global::Global;
use crate::output::Output;
use crate::redis::client::connect_to_host;
use clap::Args;
use serde::Serialize;
use socket2::{Domain, SockAddr, Socket, Type};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

const EXAMPLES: &str = "\
Examples:
  everleaf ping
  everleaf ping 10.0.0.7:6399
  everleaf ping /run/everleaf/everleaf.sock
  everleaf ping --wait 60                           until it answers, for a minute at most

Ends with code 0 if the server answers, also if it wants a password first; with code 7 if it does
not. A server that is still opening its pool takes connections, and answers when it is ready.";

/// How long one attempt waits for the answer, and for the rest of one that has begun.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(50);
/// The longest answer that is looked at.
const ANSWER_MAX: usize = 512;

/// Ask a server whether it answers
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct PingArgs {
    /// Where it listens: HOST:PORT, or the path of its Unix socket
    #[arg(default_value = "127.0.0.1:6399")]
    pub address: String,
    /// Try again until it answers, for so long
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub wait: u32,
}

/// Asks until there is an answer, or no time is left.
pub fn run(args: PingArgs, global: Global, out: &mut Output) -> Result<(), Failure> {
    let started = Instant::now();
    let patience = Duration::from_secs(args.wait.into());
    loop {
        let left = patience.saturating_sub(started.elapsed());
        match ask(&args.address, left.max(PATIENCE)) {
            Ok(answer) => return tell(&answer, global, out),
            Err(error) if left.is_zero() => {
                let message = format!("{} does not answer: {error}", args.address);
                return Err(Failure::new(ExitCode::Io, message));
            }
            Err(_) => thread::sleep(PAUSE.min(left)),
        }
    }
}

/// What is told as JSON.
#[derive(Serialize)]
struct Answered<'a> {
    answer: &'a str,
}

fn tell(answer: &str, global: Global, out: &mut Output) -> Result<(), Failure> {
    match (global.json, global.quiet) {
        (true, _) => out.json(&Answered { answer }),
        (false, true) => Ok(()),
        (false, false) => out.line(answer),
    }
}

/// One attempt: the server's answer.
fn ask(address: &str, patience: Duration) -> io::Result<String> {
    let until = Instant::now() + patience;
    if address.contains('/') {
        let stream = connect_to_path(address, patience)?;
        stream.set_read_timeout(Some(patience))?;
        exchange(stream, until)
    } else {
        let stream = connect_to_host(address, patience)?;
        stream.set_read_timeout(Some(patience))?;
        exchange(stream, until)
    }
}

/// Connects to a path. A server that stands still, with as many connections waiting as it may have, is not waited for
/// without an end.
fn connect_to_path(path: &str, patience: Duration) -> io::Result<UnixStream> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // It is the limit of a connect to a path, too.
    socket.set_write_timeout(Some(patience))?;
    let connected = socket.connect(&SockAddr::unix(path)?);
    connected.map_err(|error| match error.kind() {
        ErrorKind::WouldBlock => ErrorKind::TimedOut.into(),
        _ => error,
    })?;
    Ok(socket.into())
}

/// Sends PING, and reads the one line that answers it, unless that comes byte by byte and too late.
fn exchange(mut stream: impl Read + Write, until: Instant) -> io::Result<String> {
    stream.write_all(b"PING\r\n")?;
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n") {
        let mut byte = [0];
        let got = stream.read(&mut byte).map_err(|error| match error.kind() {
            ErrorKind::WouldBlock => ErrorKind::TimedOut.into(),
            _ => error,
        })?;
        if got == 0 || answer.len() == ANSWER_MAX {
            return Err(io::Error::new(ErrorKind::InvalidData, "it is no server of this protocol"));
        }
        answer.push(byte[0]);
        if !answer.ends_with(b"\r\n") && Instant::now() > until {
            return Err(ErrorKind::TimedOut.into());
        }
    }
    match answer.trim_ascii_end() {
        b"+PONG" => Ok("PONG".to_string()),
        error if error.starts_with(b"-NOAUTH") => Ok("NOAUTH".to_string()),
        other => Err(io::Error::other(other.escape_ascii().to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It was waited for without an end.
    #[test]
    fn a_server_that_takes_no_connection_is_given_up() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let listener = Socket::new(Domain::UNIX, Type::STREAM, None).expect("a socket");
        listener.bind(&SockAddr::unix(&path).expect("a path")).expect("it can be bound");
        listener.listen(0).expect("it can listen");
        let path = path.to_str().expect("a name");
        let patience = Duration::from_millis(200);
        let waiting = std::iter::from_fn(|| connect_to_path(path, patience).ok());
        assert!(waiting.take(5).count() < 5, "nobody takes them");
        let error = ask(path, patience).expect_err("nobody answers");
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    }

    /// A server's side of an exchange: what it will say.
    struct Saying(&'static [u8]);

    impl Read for Saying {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            self.0.read(into)
        }
    }

    impl Write for Saying {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn answers_are_told_from_what_is_none() {
        let ask = |said| exchange(Saying(said), Instant::now() + PATIENCE);
        assert_eq!(ask(b"+PONG\r\n").unwrap(), "PONG");
        assert_eq!(ask(b"-NOAUTH give a password\r\n").unwrap(), "NOAUTH");
        let error = ask(b"-ERR too many clients\r\n").unwrap_err();
        assert_eq!(error.to_string(), "-ERR too many clients");
        for no_answer in [&b""[..], b"+PONG", &[b'x'; ANSWER_MAX + 9]] {
            assert_eq!(ask(no_answer).unwrap_err().kind(), ErrorKind::InvalidData);
        }
        // One that goes on and on.
        let late = exchange(Saying(b"+PONG"), Instant::now());
        assert_eq!(late.unwrap_err().kind(), ErrorKind::TimedOut);
    }
}
