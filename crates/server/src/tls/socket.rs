//! A connection's socket with a session of TLS on it.
//!
//! It answers as a plain non-blocking socket would: a read that is shorter than the buffer has emptied the socket, and
//! a write takes what fits. Records that the kernel did not take are kept, and nothing is taken before they are gone,
//! so that at most one chunk is kept ([`CHUNK_SIZE`]). Of what the peer sends, a session keeps parts of a record, or of
//! a message of the handshake, until they are whole; they count as they come ([`UNREAD_SIZE_MAX`]).

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
/// The most that a session keeps of what has come: a message of the handshake, and a record.
const UNREAD_SIZE_MAX: usize = (64 << 10) + (18 << 10);

/// A TCP socket with a session of TLS on it; non-blocking.
#[derive(Debug)]
pub struct TlsSocket {
    stream: TcpStream,
    session: Box<ServerConnection>,
    /// The peer ended its half.
    ended: bool,
    /// Bytes that came since a request's last ones were given out: the session may keep them.
    unread: usize,
}

impl TlsSocket {
    /// The session begins with the first bytes of the peer.
    pub fn new(stream: TcpStream, tls: &Arc<Tls>) -> io::Result<Self> {
        let mut session = Box::new(ServerConnection::new(tls.config()).map_err(io::Error::other)?);
        session.set_buffer_limit(None);
        Ok(TlsSocket { stream, session, ended: false, unread: 0 })
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

    /// Whether a read would find something, or the end, without an event.
    pub fn has_more(&self) -> bool {
        self.ended
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

    /// Fills the buffer as far as there is something.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
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
            match self.receive() {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => match filled {
                    0 => return Err(error),
                    _ => break,
                },
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    /// Takes records from the kernel once.
    fn receive(&mut self) -> io::Result<()> {
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
        Ok(())
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
