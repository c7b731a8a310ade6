//! The first words with a server: whether it is there, and what it is.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use super::protocol::{self, Reply};
use super::server::Server;
use crate::error::BenchError;

/// How long a server may take to accept a connection, or to answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// What a server says of itself.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Description {
    /// Its name and version, such as `redis 7.0.15`.
    pub name: String,
    /// Bytes of memory that it says it uses; 0 if it does not say.
    pub memory_bytes: u64,
    /// Keys that it holds; `None` if it does not say.
    pub keys: Option<u64>,
}

/// Opens a connection that is logged in.
pub(super) fn connect(server: &Server) -> Result<TcpStream, BenchError> {
    let address = &server.address;
    let refused = |error| BenchError::Io(format!("cannot reach the server at {address}"), error);
    let places: Vec<SocketAddr> = address.to_socket_addrs().map_err(refused)?.collect();
    let mut last = ErrorKind::AddrNotAvailable.into();
    for place in places {
        match TcpStream::connect_timeout(&place, PATIENCE) {
            Err(error) => last = error,
            Ok(stream) => {
                stream.set_nodelay(true).map_err(refused)?;
                stream.set_read_timeout(Some(PATIENCE)).map_err(refused)?;
                return log_in(server, stream);
            }
        }
    }
    Err(refused(last))
}

fn log_in(server: &Server, mut stream: TcpStream) -> Result<TcpStream, BenchError> {
    if let Some(password) = &server.password {
        ask(server, &mut stream, &[b"AUTH", password.as_bytes()], |_| ())?;
    }
    Ok(stream)
}

/// Sends one command and hands its reply over.
fn ask<R>(
    server: &Server,
    stream: &mut TcpStream,
    words: &[&[u8]],
    see: impl FnOnce(&Reply<'_>) -> R,
) -> Result<R, BenchError> {
    let command = String::from_utf8_lossy(words[0]).into_owned();
    let failed = |error| {
        BenchError::Io(format!("the server at {} does not answer {command}", server.address), error)
    };
    let mut request = Vec::new();
    protocol::encode(words, &mut request);
    stream.write_all(&request).map_err(failed)?;
    let (mut input, mut chunk) = (Vec::new(), [0; 4096]);
    loop {
        match protocol::parse(&input).map_err(|text| server.says(&command, &text))? {
            Some((Reply::Error(text), _)) => return Err(server.refuses(&command, text)),
            Some((reply, _)) => return Ok(see(&reply)),
            None => {}
        }
        match stream.read(&mut chunk).map_err(failed)? {
            0 => return Err(failed(ErrorKind::UnexpectedEof.into())),
            size => input.extend_from_slice(&chunk[..size]),
        }
    }
}

/// Makes sure that the server answers.
pub(super) fn greet(server: &Server) -> Result<(), BenchError> {
    let mut stream = connect(server)?;
    let is_pong = ask(server, &mut stream, &[b"PING"], |reply| *reply == Reply::Simple(b"PONG"))?;
    match is_pong {
        true => Ok(()),
        false => Err(server.says("PING", "something else than PONG: is it a server of this kind?")),
    }
}

/// What the server says of itself, as far as it does.
pub(super) fn describe(server: &Server) -> Result<Description, BenchError> {
    let mut stream = connect(server)?;
    let info = ask(server, &mut stream, &[b"INFO"], |reply| match reply {
        Reply::Bulk(text) => String::from_utf8_lossy(text).into_owned(),
        _ => String::new(),
    });
    let keys = ask(server, &mut stream, &[b"DBSIZE"], |reply| match reply {
        Reply::Integer(count) => u64::try_from(*count).ok(),
        _ => None,
    });
    // A server that does not know these commands can be measured all the same.
    let described = info.map(|text| description_of(&text)).unwrap_or_default();
    Ok(Description { keys: keys.unwrap_or(None), ..described })
}

fn description_of(info: &str) -> Description {
    let field = |name: &str| {
        let mut lines = info.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(found, _)| *found == name).map(|(_, value)| value.trim().to_owned())
    };
    let named = [
        ("everleaf_version", "everleaf"),
        ("valkey_version", "valkey"),
        ("redis_version", "redis"),
    ];
    let name = named.iter().find_map(|(key, name)| Some(format!("{name} {}", field(key)?)));
    let memory_bytes = field("used_memory").and_then(|text| text.parse().ok()).unwrap_or(0);
    Description { name: name.unwrap_or_default(), memory_bytes, keys: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_called_by_its_own_name() {
        let info = "# Server\r\nredis_version:7.2.4\r\nused_memory:1048576\r\n";
        let redis = description_of(info);
        assert_eq!((redis.name.as_str(), redis.memory_bytes), ("redis 7.2.4", 1 << 20));
        let everleaf = description_of(&format!("{info}everleaf_version:0.1.0\r\n"));
        assert_eq!(everleaf.name, "everleaf 0.1.0");
        assert_eq!(description_of("nothing"), Description::default());
    }
}
