//! A client of the server that a trial has started.

use super::steps::text_of;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

/// Longer than any answer takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection.
pub struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    /// # Errors
    /// Nobody listens there.
    pub fn connect(address: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Client { stream: BufReader::new(stream) })
    }

    /// Sends a command; its reply, as `redis-cli` prints a reply of one value.
    ///
    /// # Errors
    /// The connection ended; the reply is an error or none of one value.
    pub fn ask(&mut self, words: &[&str]) -> io::Result<String> {
        let mut request = format!("*{}\r\n", words.len());
        for word in words {
            request += &format!("${}\r\n{word}\r\n", word.len());
        }
        self.stream.get_mut().write_all(request.as_bytes())?;
        let line = self.line()?;
        match line.split_at_checked(1) {
            Some(("+" | ":", text)) => Ok(text.to_string()),
            Some(("$", "-1")) => Ok(String::new()),
            Some(("$", size)) => self.bulk(size.parse().map_err(io::Error::other)?),
            _ => Err(io::Error::other(format!("the server said {line} to {words:?}"))),
        }
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        match line.strip_suffix("\r\n") {
            Some(line) => Ok(line.to_string()),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    fn bulk(&mut self, size: usize) -> io::Result<String> {
        let mut bytes = vec![0; size + 2];
        self.stream.read_exact(&mut bytes)?;
        bytes.truncate(size);
        String::from_utf8(bytes).map_err(io::Error::other)
    }
}

/// Asks one thing, with `redis-cli` if it is here.
///
/// # Errors
/// The server does not answer, or not this.
pub fn expect(address: &str, words: &[&str], expected: &str) -> io::Result<()> {
    let (host, port) = address.rsplit_once(':').ok_or_else(|| io::Error::other("no port"))?;
    let has_program = Command::new("redis-cli").arg("--version").output().is_ok();
    let answer = match has_program {
        true => text_of(Command::new("redis-cli").args(["-h", host, "-p", port]).args(words))?,
        false => Client::connect(address)?.ask(words)?,
    };
    match answer.trim_end() == expected {
        true => Ok(()),
        false => Err(io::Error::other(format!("the server said {answer:?} to {words:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// What a client makes of these bytes.
    fn reply(bytes: &'static [u8]) -> io::Result<String> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = std::thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            let mut request = [0; 23];
            stream.read_exact(&mut request).unwrap();
            assert_eq!(&request, b"*2\r\n$3\r\nGET\r\n$4\r\npear\r\n");
            stream.write_all(bytes).unwrap();
        });
        let answer = Client::connect(&address).unwrap().ask(&["GET", "pear"]);
        server.join().unwrap();
        answer
    }

    #[test]
    fn replies_of_one_value_are_told_from_errors_and_halves() {
        assert_eq!(reply(b"+OK\r\n").unwrap(), "OK");
        assert_eq!(reply(b":12\r\n").unwrap(), "12");
        assert_eq!(reply(b"$6\r\nqu\r\nce\r\n").unwrap(), "qu\r\nce");
        assert_eq!(reply(b"$-1\r\n").unwrap(), "");
        for wrong in [&b"-ERR no\r\n"[..], b"*1\r\n:1\r\n", b"\r\n", b"+OK", b"$9\r\nquince\r\n"] {
            assert!(reply(wrong).is_err(), "{}", wrong.escape_ascii());
        }
    }
}
