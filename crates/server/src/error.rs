//! Why a server cannot start or go on.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a server cannot start or go on. The message says what, where, and what to do.
#[derive(Debug)]
#[non_exhaustive]
pub enum ServerError {
    /// The configuration contradicts itself. The text says how.
    Config(String),
    /// The address (first field, with the options that say it) cannot be listened on; see the kind of the I/O error.
    Bind(String, io::Error),
    /// The Unix socket (first field) cannot be listened on. The text says what helps.
    UnixSocket(PathBuf, io::Error, &'static str),
    /// The operating system refused something else. The text says what was tried.
    Io(&'static str, io::Error),
    /// [`crate::Server::run`] was called a second time.
    AlreadyRan,
    /// A serving thread failed; this is a defect of the server. All others were stopped.
    ThreadPanicked,
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerError::Config(text) => f.write_str(text),
            ServerError::Bind(address, error) => {
                write!(f, "cannot listen on {address}: {error}: {}", advice(error))
            }
            ServerError::UnixSocket(path, error, help) => {
                let path = path.display();
                write!(f, "cannot listen on the Unix socket {path} (--unixsocket): {error}: {help}")
            }
            ServerError::Io(what, error) => write!(f, "{what}: {error}"),
            ServerError::AlreadyRan => {
                f.write_str("the server ran already: bind a new one to serve again")
            }
            ServerError::ThreadPanicked => f.write_str(
                "a serving thread panicked, and the server was stopped: nothing acknowledged is \
                 lost; please report the message above",
            ),
        }
    }
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => "stop the program that uses it, or choose another port",
        io::ErrorKind::PermissionDenied => {
            "choose a port above 1023, or give the process CAP_NET_BIND_SERVICE"
        }
        io::ErrorKind::AddrNotAvailable => "choose an address that this machine has",
        _ => "check the address",
    }
}

impl std::error::Error for ServerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ServerError::Bind(_, error)
            | ServerError::UnixSocket(_, error, _)
            | ServerError::Io(_, error) => Some(error),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_in_use_tells_what_to_do() {
        let cause = io::Error::from(io::ErrorKind::AddrInUse);
        let text = ServerError::Bind("127.0.0.1:6399".into(), cause).to_string();
        assert!(text.contains("127.0.0.1:6399") && text.contains("another port"), "{text}");
    }
}
