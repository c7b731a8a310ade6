//! A client of Redis for one purpose: requests are sent together, and their replies read one by one.

use super::address::Address;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The certificates that the system trusts.
const SYSTEM_CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";
/// The longest line, and the longest string, of a reply.
const LINE_SIZE_MAX: u64 = 1 << 20;
const STRING_SIZE_MAX: u64 = 1 << 30;
/// The longest reply, and what an item takes besides itself.
const REPLY_SIZE_MAX: u64 = 4 << 30;
const ITEM_OVERHEAD: u64 = 40;
/// How deep arrays may lie in one another.
const DEPTH_MAX: usize = 8;
/// How long an address may take to answer at all.
const CONNECT_TIME: Duration = Duration::from_secs(5);
/// The buffer of what comes in.
const BUFFER_SIZE: usize = 256 << 10;

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    Null,
    Text(Vec<u8>),
    Number(i64),
    Error(String),
    Array(Vec<Reply>),
}

trait Stream: Read + Write {}

impl<S: Read + Write> Stream for S {}

/// A connection.
pub struct Client {
    stream: BufReader<Box<dyn Stream>>,
    /// What lies below, if it is a connection.
    socket: Option<TcpStream>,
    requests: Vec<u8>,
    /// How long the server may say nothing, and take nothing. It says nothing while it makes a long reply.
    patience: Duration,
}

impl Client {
    /// Connects, with TLS if the address says so.
    pub fn connect(
        address: &Address,
        cacert: Option<&Path>,
        patience: Duration,
    ) -> io::Result<Self> {
        let socket = connect_to_host((&*address.host, address.port), patience.min(CONNECT_TIME))?;
        socket.set_read_timeout(Some(patience))?;
        socket.set_write_timeout(Some(patience))?;
        socket.set_nodelay(true)?;
        let below = socket.try_clone()?;
        let stream: Box<dyn Stream> = match address.is_tls {
            false => Box::new(socket),
            true => {
                let name = ServerName::try_from(address.host.clone()).map_err(io::Error::other)?;
                let session = ClientConnection::new(trusted(cacert)?, name);
                Box::new(StreamOwned::new(session.map_err(io::Error::other)?, socket))
            }
        };
        Ok(Client { socket: Some(below), ..Self::on(stream, patience) })
    }

    fn on(stream: Box<dyn Stream>, patience: Duration) -> Self {
        let stream = BufReader::with_capacity(BUFFER_SIZE, stream);
        Client { stream, socket: None, requests: Vec::new(), patience }
    }

    /// What the server sends that is no reply.
    pub fn input(&mut self) -> &mut impl BufRead {
        &mut self.stream
    }

    /// Whether something is here that was not read.
    pub fn has_input(&self) -> bool {
        !self.stream.buffer().is_empty()
    }

    /// How long the server may be silent from now on.
    pub fn set_patience(&self, patience: Duration) -> io::Result<()> {
        self.socket.as_ref().map_or(Ok(()), |socket| socket.set_read_timeout(Some(patience)))
    }

    /// Bytes that were added and not sent.
    pub fn pending_size(&self) -> usize {
        self.requests.len()
    }

    /// Says of a time that is over which one it is.
    fn told(&self, error: io::Error) -> io::Error {
        if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) {
            return error;
        }
        let seconds = self.patience.as_secs();
        let text = format!("it was silent for {seconds} s: --timeout SECONDS waits longer");
        io::Error::new(ErrorKind::TimedOut, text)
    }

    /// Adds a request to those that are sent next.
    pub fn add(&mut self, args: &[&[u8]]) {
        let out = &mut self.requests;
        out.extend_from_slice(format!("*{}\r\n", args.len()).as_bytes());
        for arg in args {
            out.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
            out.extend_from_slice(arg);
            out.extend_from_slice(b"\r\n");
        }
    }

    /// Adds a request in the form in which it is sent.
    pub fn add_encoded(&mut self, request: &[u8]) {
        self.requests.extend_from_slice(request);
    }

    /// Sends what was added.
    pub fn send(&mut self) -> io::Result<()> {
        let stream = self.stream.get_mut();
        let sent = stream.write_all(&self.requests).and_then(|()| stream.flush());
        self.requests.clear();
        sent.map_err(|error| self.told(error))
    }

    /// Sends one request and reads its reply.
    pub fn ask(&mut self, args: &[&[u8]]) -> io::Result<Reply> {
        self.add(args);
        self.send()?;
        self.reply()
    }

    /// The next reply.
    pub fn reply(&mut self) -> io::Result<Reply> {
        self.reply_up_to(REPLY_SIZE_MAX)
    }

    fn reply_up_to(&mut self, size_max: u64) -> io::Result<Reply> {
        let mut left = size_max;
        self.reply_within(DEPTH_MAX, &mut left).map_err(|error| self.told(error))
    }

    /// The next reply, or a part of one, which may take so many bytes.
    fn reply_within(&mut self, depth: usize, left: &mut u64) -> io::Result<Reply> {
        let strange = || io::Error::new(ErrorKind::InvalidData, "it is no server of this protocol");
        let mut line = Vec::new();
        (&mut self.stream).take(LINE_SIZE_MAX).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let line = line.strip_suffix(b"\r\n").ok_or_else(strange)?;
        spend(left, line.len() as u64 + ITEM_OVERHEAD)?;
        let (&mark, rest) = line.split_first().ok_or_else(strange)?;
        let number = || std::str::from_utf8(rest).ok().and_then(|rest| rest.parse::<i64>().ok());
        match mark {
            b'+' => Ok(Reply::Text(rest.to_vec())),
            b'-' => Ok(Reply::Error(String::from_utf8_lossy(rest).into_owned())),
            b':' => Ok(Reply::Number(number().ok_or_else(strange)?)),
            b'$' | b'*' if number() == Some(-1) => Ok(Reply::Null),
            b'$' => {
                let size = number().and_then(|size| u64::try_from(size).ok());
                let size = size.filter(|size| *size <= STRING_SIZE_MAX).ok_or_else(strange)?;
                spend(left, size)?;
                // It grows with what comes, not with what is claimed.
                let mut text = Vec::new();
                (&mut self.stream).take(size + 2).read_to_end(&mut text)?;
                if text.len() as u64 != size + 2 {
                    return Err(ErrorKind::UnexpectedEof.into());
                }
                if !text.ends_with(b"\r\n") {
                    return Err(strange());
                }
                text.truncate(size as usize);
                Ok(Reply::Text(text))
            }
            b'*' if depth > 0 => {
                let count = number().and_then(|count| u64::try_from(count).ok());
                let mut items = Vec::new();
                for _ in 0..count.ok_or_else(strange)? {
                    items.push(self.reply_within(depth - 1, left)?);
                }
                Ok(Reply::Array(items))
            }
            _ => Err(strange()),
        }
    }
}

/// Connects to the first address of a host that answers. Without a limit the kernel would try each for minutes.
pub(crate) fn connect_to_host(
    host: impl ToSocketAddrs,
    patience: Duration,
) -> io::Result<TcpStream> {
    let mut failure = io::Error::from(ErrorKind::AddrNotAvailable);
    for address in host.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, patience) {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// Takes what a part of a reply has from what the whole may have.
fn spend(left: &mut u64, size: u64) -> io::Result<()> {
    let too_long = || io::Error::new(ErrorKind::InvalidData, "its reply is too long to be held");
    *left = left.checked_sub(size).ok_or_else(too_long)?;
    Ok(())
}

/// What is believed of certificates.
fn trusted(cacert: Option<&Path>) -> io::Result<Arc<ClientConfig>> {
    let file = cacert.unwrap_or(Path::new(SYSTEM_CERTIFICATES));
    let wrong = |why: &dyn std::fmt::Display| {
        io::Error::other(format!("the certificates in {} cannot be used: {why}", file.display()))
    };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).map_err(|error| wrong(&error))? {
        let certificate = certificate.map_err(|error| wrong(&error))?;
        // Of the system's some may be of a kind that is not known.
        if let (Err(error), Some(_)) = (roots.add(certificate), cacert) {
            return Err(wrong(&error));
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(io::Error::other)?.with_root_certificates(roots);
    Ok(Arc::new(builder.with_no_client_auth()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply_of(bytes: &'static [u8]) -> io::Result<Reply> {
        Client::on(Box::new(io::Cursor::new(bytes.to_vec())), Duration::MAX).reply()
    }

    /// What was taken: as much memory as the server had items to send, which are four bytes each.
    #[test]
    fn a_reply_has_an_end() {
        let items = b"*5\r\n:1\r\n:2\r\n:3\r\n:4\r\n:5\r\n";
        let mut client = Client::on(Box::new(io::Cursor::new(items.repeat(2))), Duration::MAX);
        assert!(client.reply_up_to(300).is_ok());
        let error = client.reply_up_to(200).unwrap_err();
        assert!(error.to_string().contains("too long"), "{error}");
        let mut long = Client::on(Box::new(io::Cursor::new(b"$300\r\nab".to_vec())), Duration::MAX);
        let error = long.reply_up_to(200).unwrap_err();
        assert!(error.to_string().contains("too long"), "{error}");
    }

    #[test]
    fn replies_are_read_and_what_is_none_is_refused() {
        let reply = reply_of(b"*4\r\n$2\r\nab\r\n:-7\r\n$-1\r\n*1\r\n+OK\r\n").unwrap();
        let ok = Reply::Array(vec![Reply::Text(b"OK".to_vec())]);
        let items = vec![Reply::Text(b"ab".to_vec()), Reply::Number(-7), Reply::Null, ok];
        assert_eq!(reply, Reply::Array(items));
        for bytes in [
            &b"HTTP/1.1 400\r\n"[..],
            b"$99999999999999\r\n",
            b"$5\r\nab\r\n",
            b"$2\r\nabcd",
            b":x\r\n",
            b"*2\r\n:1\r\n",
            b"+OK",
            b"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n",
            b"",
        ] {
            assert!(reply_of(bytes).is_err(), "{}", bytes.escape_ascii());
        }
    }
}
