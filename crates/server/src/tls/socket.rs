//! A connection's socket with a session of TLS on it.
//!
//! It answers as a plain non-blocking socket would: a read that is shorter than the buffer has emptied the socket, or
//! [`TlsSocket::has_more`] says that it has not, and a write takes what fits. A read takes a limited number of bytes
//! from the kernel, whatever they hold: records without plaintext, which a peer may send without an end, do not keep
//! others waiting ([`READ_SIZE_MAX`]). Records that the kernel did not take are kept, and nothing is taken before they
//! are gone, so that at most one chunk is kept ([`CHUNK_SIZE`]). Of what the peer sends, a session keeps parts of a
//! record, or of a message of the handshake, until they are whole; they count as they come ([`UNREAD_SIZE_MAX`]).

use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;

use mio::net::TcpStream;
use rustls::ServerConnection;

use super::Tls;

/// Bytes that become records at once.
const CHUNK_SIZE: usize = 64 << 10;
/// What a session holds, about, with what it reads at once.
const SESSION_SIZE: usize = 16 << 10;
/// What a session reads at once.
const READ_SIZE: usize = 4 << 10;
/// What one read takes from the kernel before it ends, however little plaintext that was.
const READ_SIZE_MAX: usize = 64 << 10;
/// The most that a session keeps of what has come: a message of the handshake, and a record.
const UNREAD_SIZE_MAX: usize = (64 << 10) + (18 << 10);

/// A TCP socket with a session of TLS on it; non-blocking.
#[derive(Debug)]
pub struct TlsSocket {
    stream: TcpStream,
    session: Box<ServerConnection>,
    /// The peer ended its half.
    ended: bool,
    /// What one read takes at most ([`READ_SIZE_MAX`]; less in tests).
    read_size_max: usize,
    /// The last read took as much as one may.
    is_behind: bool,
    /// Bytes that came since a request's last ones were given out: the session may keep them.
    unread: usize,
}

impl TlsSocket {
    /// The session begins with the first bytes of the peer.
    pub fn new(stream: TcpStream, tls: &Arc<Tls>) -> io::Result<Self> {
        let mut session = Box::new(ServerConnection::new(tls.config()).map_err(io::Error::other)?);
        session.set_buffer_limit(None);
        let read_size_max = READ_SIZE_MAX;
        Ok(TlsSocket { stream, session, ended: false, read_size_max, is_behind: false, unread: 0 })
    }

    /// The socket below.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// The socket below, to register it.
    pub fn stream_mut(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    /// Whether the two sides have not yet agreed.
    pub fn is_handshaking(&self) -> bool {
        self.session.is_handshaking()
    }

    /// Whether a read may find something, or the end, without an event.
    pub fn has_more(&self) -> bool {
        self.ended || self.is_behind
    }

    /// Whether records wait for the kernel to take them.
    pub fn has_unsent(&self) -> bool {
        self.session.wants_write()
    }

    /// Bytes that it holds, about.
    pub fn memory(&self) -> usize {
        let unsent = if self.has_unsent() { CHUNK_SIZE } else { 0 };
        SESSION_SIZE + self.unread.saturating_sub(READ_SIZE) + unsent
    }

    /// Fills the buffer as far as there is something, and as one read may take.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (mut filled, mut taken) = (0, 0);
        self.is_behind = false;
        while filled < buffer.len() {
            match self.session.reader().read(&mut buffer[filled..]) {
                Ok(0) => {
                    self.ended = true;
                    break;
                }
                Ok(size) => {
                    filled += size;
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // The peer has gone without saying so; requests say themselves where they end.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                    self.ended = true;
                    break;
                }
                Err(error) => return Err(error),
            }
            self.is_behind = taken >= self.read_size_max;
            let received = match self.is_behind {
                true => Err(ErrorKind::WouldBlock.into()),
                false => self.receive(),
            };
            match received {
                Ok(size) => taken += size,
                Err(error) if error.kind() == ErrorKind::WouldBlock => match filled {
                    0 => return Err(error),
                    _ => break,
                },
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    /// Takes records from the kernel once. Returns how many bytes.
    fn receive(&mut self) -> io::Result<usize> {
        let size = loop {
            match self.session.read_tls(&mut self.stream) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                result => break result?,
            }
        };
        let was_handshaking = self.session.is_handshaking();
        let processed = self.session.process_new_packets();
        let given = processed.as_ref().is_ok_and(|state| state.plaintext_bytes_to_read() > 0);
        let kept = if given || was_handshaking != self.session.is_handshaking() {
            0 // but for what came last
        } else {
            self.unread
        };
        self.unread = (kept + size).min(UNREAD_SIZE_MAX);
        // The handshake, or why there is none.
        let flushed = self.flush();
        processed.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        flushed?;
        if size == 0 && self.session.is_handshaking() {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        Ok(size)
    }

    /// Takes as much as fits.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.flush()?;
        if self.has_unsent() {
            return Err(ErrorKind::WouldBlock.into());
        }
        let size = self.session.writer().write(&bytes[..bytes.len().min(CHUNK_SIZE)])?;
        self.flush()?;
        Ok(size)
    }

    /// Gives the kernel what it takes of the records that wait.
    pub fn flush(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut self.stream) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Tells the peer that nothing more will come.
    pub fn finish(&mut self) -> io::Result<()> {
        self.session.send_close_notify();
        self.flush()?;
        self.stream.shutdown(Shutdown::Write)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, ServerName};
    use rustls::{ClientConfig, ClientConnection, RootCertStore};

    use super::*;
    use crate::batch::test_run::Bench;
    use crate::connection::{Connection, Fate};
    use crate::scratch::Scratch;
    use crate::socket::Socket;
    use crate::statistics::Tally;
    use crate::tls::TlsFiles;

    /// What is sent at most: enough for a read to end before it.
    const SENT_SIZE: usize = 150 << 10;

    /// A socket of a server, and a client that has not said anything.
    fn pair() -> (TlsSocket, std::net::TcpStream, ClientConnection) {
        let folder = tempfile::tempdir().unwrap();
        let signed = rcgen::generate_simple_self_signed(vec!["localhost".to_string()]).unwrap();
        let (certificate, key) = (folder.path().join("c"), folder.path().join("k"));
        std::fs::write(&certificate, signed.cert.pem()).unwrap();
        std::fs::write(&key, signed.signing_key.serialize_pem()).unwrap();
        let (client_authorities, client_certificates) = (None, None);
        let files = TlsFiles { certificate, key, client_authorities, client_certificates };
        let tls = Arc::new(Tls::load(files).unwrap());
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        // All that is sent must fit.
        socket2::SockRef::from(&listener).set_recv_buffer_size(4 << 20).unwrap();
        let peer = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let accepted = listener.accept().unwrap().0;
        accepted.set_nonblocking(true).unwrap();
        let socket = TlsSocket::new(TcpStream::from_std(accepted), &tls).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(signed.cert.pem().as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider);
        let config = config.with_safe_default_protocol_versions().unwrap();
        let config = Arc::new(config.with_root_certificates(roots).with_no_client_auth());
        let name = ServerName::try_from("localhost").unwrap();
        (socket, peer, ClientConnection::new(config, name).unwrap())
    }

    /// Reads until a read finds nothing and knows of nothing more.
    fn read_all(socket: &mut TlsSocket) -> Vec<u8> {
        let (mut all, mut buffer) = (Vec::new(), [0; 64 << 10]);
        loop {
            match socket.read(&mut buffer) {
                Ok(size) => all.extend_from_slice(&buffer[..size]),
                Err(error) if error.kind() == ErrorKind::WouldBlock && socket.has_more() => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return all,
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// What has come and was not taken.
    fn waiting(socket: &TlsSocket) -> usize {
        socket.stream().peek(&mut vec![0; 2 * SENT_SIZE]).unwrap_or(0)
    }

    /// The handshake.
    fn agree(
        socket: &mut TlsSocket,
        peer: &mut std::net::TcpStream,
        client: &mut ClientConnection,
    ) {
        peer.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        while client.is_handshaking() || socket.is_handshaking() {
            while client.wants_write() {
                client.write_tls(peer).unwrap();
            }
            assert!(read_all(socket).is_empty());
            if client.is_handshaking() {
                client.read_tls(peer).unwrap();
                client.process_new_packets().unwrap();
            }
        }
    }

    /// Sends, and waits until all has come.
    fn send(peer: &mut std::net::TcpStream, records: &[u8], socket: &TlsSocket) {
        peer.write_all(records).unwrap();
        while waiting(socket) < records.len() {
            std::thread::yield_now();
        }
    }

    /// One read took such records as long as they came, and nobody else of its event loop was served.
    #[test]
    fn a_read_ends_though_records_hold_next_to_nothing() {
        let (mut socket, mut peer, mut client) = pair();
        agree(&mut socket, &mut peer, &mut client);
        let (mut records, mut count) = (Vec::new(), 0);
        while records.len() < SENT_SIZE {
            // As many as are allowed without any data between them.
            (0..32).for_each(|_| client.refresh_traffic_keys().unwrap());
            client.writer().write_all(b"\n").unwrap();
            count += 1;
            while client.wants_write() {
                client.write_tls(&mut records).unwrap();
            }
        }
        send(&mut peer, &records, &socket);
        let mut buffer = [0; 64 << 10];
        let size = socket.read(&mut buffer).unwrap();
        let taken = records.len() - waiting(&socket);
        assert!(taken < READ_SIZE_MAX + READ_SIZE, "one read took {taken} of {}", records.len());
        assert!(socket.has_more(), "the rest makes no event");
        let rest = read_all(&mut socket);
        assert_eq!([&buffer[..size], &rest].concat(), vec![b'\n'; count]);
        assert_eq!(waiting(&socket), 0);
    }

    /// What has come makes no event any more: a connection whose read took as much as it may goes on without one.
    #[test]
    fn a_connection_goes_on_behind_a_read_without_plaintext() {
        let (mut socket, mut peer, mut client) = pair();
        agree(&mut socket, &mut peer, &mut client);
        let requests = b"PING\r\n".repeat(2000);
        // In one record, of which a read takes a part.
        client.writer().write_all(&requests).unwrap();
        let mut records = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut records).unwrap();
        }
        send(&mut peer, &records, &socket);
        socket.read_size_max = READ_SIZE;
        let mut buffer = [0; 64 << 10];
        let error = socket.read(&mut buffer).expect_err("it has no plaintext yet");
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        let bench = Bench::new(Bench::config());
        let mut connection = Connection::new(Socket::Tls(socket), bench.client(), 0);
        let (mut scratch, mut tally) = (Scratch::new(), Tally::default());
        while connection.serve(&mut scratch, &bench.shared, &mut tally, 0) == Fate::More {}
        assert_eq!(tally.bytes_in, requests.len() as u64);
    }
}
