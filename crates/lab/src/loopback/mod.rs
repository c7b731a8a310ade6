//! A server of the protocol of Redis around a tree of the catalogue, on this machine's own network: what a tree
//! is worth where a server and its protocol stand before it. A thread for each connection; `PING`, `GET`, `SET` and
//! `DEL`; keys of 8 bytes and values of 7, which every design can hold.
//!
//! It is made to compare trees with each other, and serves nobody else: the server of this project is another.

mod request;

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use everleaf_bench::BenchError;
use everleaf_lab_designs::count::pool_bytes;
use everleaf_lab_designs::{IndexError, NamedIndex};

/// Bytes of a value.
pub(crate) const VALUE_SIZE: usize = 7;
/// Bytes of a key.
const KEY_SIZE: usize = 8;
/// Bytes that are read at once.
const CHUNK_SIZE: usize = 64 << 10;
/// Bytes that a new tree may have beside its keys.
const SPARE_BYTES: u64 = 64 << 20;

/// A server, until dropped.
pub(crate) struct Loopback {
    address: SocketAddr,
    is_ending: Arc<AtomicBool>,
    acceptor: Option<JoinHandle<()>>,
}

impl Loopback {
    /// Serves a new, empty tree of this design in memory, with room for so many keys.
    ///
    /// # Errors
    /// No such design, no memory, no port.
    pub(crate) fn start(design: &str, keys: u64) -> Result<Self, BenchError> {
        let index =
            Arc::new(NamedIndex::open(design, None, 2 * pool_bytes(keys) as u64 + SPARE_BYTES)?);
        let refused =
            |error| BenchError::Io("cannot listen on this machine's own network".into(), error);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let is_ending = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&is_ending);
        let acceptor = thread::spawn(move || accept(&listener, &index, &seen));
        Ok(Loopback { address, is_ending, acceptor: Some(acceptor) })
    }

    /// Host and port.
    pub(crate) fn address(&self) -> String {
        self.address.to_string()
    }
}

impl Drop for Loopback {
    /// Waits for the clients, who have gone.
    fn drop(&mut self) {
        // Release: pairs with the acquire in `accept`, which the next connection wakes.
        self.is_ending.store(true, Ordering::Release);
        let is_woken = TcpStream::connect(self.address).is_ok();
        if let Some(acceptor) = self.acceptor.take().filter(|_| is_woken) {
            let _ = acceptor.join();
        }
    }
}

fn accept(listener: &TcpListener, index: &NamedIndex, is_ending: &AtomicBool) {
    thread::scope(|scope| {
        for stream in listener.incoming() {
            // Acquire: pairs with the release in `drop`.
            if is_ending.load(Ordering::Acquire) {
                return;
            }
            // A client whose connection breaks notices it.
            let Ok(stream) = stream else { continue };
            scope.spawn(move || serve(stream, index));
        }
    });
}

/// Answers the requests of one client, those that came together at once, until it goes.
fn serve(mut stream: TcpStream, index: &NamedIndex) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut input, mut output, mut chunk) = (Vec::new(), Vec::new(), vec![0; CHUNK_SIZE]);
    loop {
        let size = stream.read(&mut chunk)?;
        if size == 0 {
            return Ok(());
        }
        input.extend_from_slice(&chunk[..size]);
        let mut done = 0;
        while let Some((words, size)) = request::parse(&input[done..])? {
            answer(&words, index, &mut output);
            done += size;
        }
        input.drain(..done);
        stream.write_all(&output)?;
        output.clear();
    }
}

/// Appends the reply to one request.
fn answer(words: &[&[u8]], index: &NamedIndex, output: &mut Vec<u8>) {
    let reply = match words {
        [name] if name.eq_ignore_ascii_case(b"PING") => Ok(b"+PONG\r\n".to_vec()),
        [name, key] if name.eq_ignore_ascii_case(b"GET") => get(index, key),
        [name, key] if name.eq_ignore_ascii_case(b"DEL") => remove(index, key),
        [name, key, value] if name.eq_ignore_ascii_case(b"SET") => set(index, key, value),
        _ => Err("unknown command, or not as many words as it has".to_owned()),
    };
    match reply {
        Ok(reply) => output.extend_from_slice(&reply),
        Err(text) => output.extend_from_slice(format!("-ERR {text}\r\n").as_bytes()),
    }
}

fn get(index: &NamedIndex, key: &[u8]) -> Result<Vec<u8>, String> {
    let key = key_of(key)?;
    let found = index.with(|tree, session| tree.get(session, key)).map_err(told)?;
    Ok(found.map_or_else(|| b"$-1\r\n".to_vec(), bulk))
}

fn set(index: &NamedIndex, key: &[u8], value: &[u8]) -> Result<Vec<u8>, String> {
    let (key, value) = (key_of(key)?, value_of(value)?);
    index.with(|tree, session| tree.upsert(session, key, value)).map_err(told)?;
    Ok(b"+OK\r\n".to_vec())
}

fn remove(index: &NamedIndex, key: &[u8]) -> Result<Vec<u8>, String> {
    let key = key_of(key)?;
    let old = index.with(|tree, session| tree.remove(session, key)).map_err(told)?;
    Ok(format!(":{}\r\n", u8::from(old.is_some())).into_bytes())
}

fn told(error: IndexError) -> String {
    error.to_string().replace(['\r', '\n'], " ")
}

fn key_of(key: &[u8]) -> Result<u64, String> {
    let bytes: [u8; KEY_SIZE] = key.try_into().map_err(|_| "keys have 8 bytes here".to_owned())?;
    Ok(u64::from_be_bytes(bytes))
}

fn value_of(value: &[u8]) -> Result<u64, String> {
    let few: [u8; VALUE_SIZE] =
        value.try_into().map_err(|_| "values have 7 bytes here".to_owned())?;
    let mut bytes = [0; 8];
    bytes[1..].copy_from_slice(&few);
    Ok(u64::from_be_bytes(bytes))
}

fn bulk(value: u64) -> Vec<u8> {
    let mut reply = format!("${VALUE_SIZE}\r\n").into_bytes();
    reply.extend_from_slice(&value.to_be_bytes()[1..]);
    reply.extend_from_slice(b"\r\n");
    reply
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_there_and_what_is_wrong_is_refused() {
        let server = Loopback::start("fast-fair", 1000).expect("a server");
        let mut stream = TcpStream::connect(server.address()).expect("a connection");
        let mut says = |request: &[u8], reply: &[u8]| {
            stream.write_all(request).expect("sent");
            let mut told = vec![0; reply.len()];
            stream.read_exact(&mut told).expect("a reply");
            assert_eq!(told, reply, "{}", request.escape_ascii());
        };
        says(b"*1\r\n$4\r\nping\r\n", b"+PONG\r\n");
        let key = b"$8\r\nkey 0001\r\n";
        let get = [b"*2\r\n$3\r\nGET\r\n".as_slice(), key].concat();
        let set = [b"*3\r\n$3\r\nSET\r\n".as_slice(), key, b"$7\r\nseven !\r\n"].concat();
        let del = [b"*2\r\n$3\r\nDEL\r\n".as_slice(), key].concat();
        says(&get, b"$-1\r\n");
        // Several at once.
        says(&[set, get.clone()].concat(), b"+OK\r\n$7\r\nseven !\r\n");
        says(&[del.clone(), del, get].concat(), b":1\r\n:0\r\n$-1\r\n");
        says(b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", b"-ERR keys have 8 bytes here\r\n");
        says(b"*1\r\n$4\r\nSAVE\r\n", b"-ERR unknown command");
    }
}
