//! Unix sockets that listen at a path: what is there already, and what is left behind.

use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use mio::net::UnixListener;
use socket2::{Domain, SockAddr, Type};

use super::{BACKLOG, Listener};
use crate::ServerError;

/// A socket that was made at a path.
#[derive(Debug)]
pub struct Made {
    path: PathBuf,
    /// Its device and number.
    file: (u64, u64),
}

impl Made {
    fn at(path: &Path) -> io::Result<Made> {
        let found = std::fs::symlink_metadata(path)?;
        Ok(Made { path: path.to_path_buf(), file: (found.dev(), found.ino()) })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes it, unless something else has its path by now: another server's socket, or somebody's file.
    pub fn remove(&self) -> io::Result<()> {
        match Made::at(&self.path)?.file == self.file {
            true => std::fs::remove_file(&self.path),
            false => Ok(()),
        }
    }
}

/// Listens at a path, with these permissions, if any are given.
pub fn listen_unix(path: &Path, mode: Option<u32>) -> Result<Listener, ServerError> {
    let fail = |error| {
        let help = help_for(path, &error);
        ServerError::UnixSocket(path.to_path_buf(), error, help)
    };
    // Only a socket that nobody answers at is removed, never another kind of file.
    let refused = connect_to(path).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused);
    if refused && is_socket(path) {
        tracing::info!("replacing the dead socket {}", path.display());
        std::fs::remove_file(path).map_err(fail)?;
    }
    let (listener, made) = match mode {
        None => (UnixListener::bind(path).map_err(fail)?, Made::at(path).map_err(fail)?),
        Some(mode) => bind_with(path, mode).map_err(fail)?,
    };
    Ok(Listener::Unix(listener, Some(made)))
}

/// Looks whether somebody listens at a path. One who stands still, with as many connections waiting as there may be, is
/// not waited for.
fn connect_to(path: &Path) -> io::Result<()> {
    let socket = socket2::Socket::new(Domain::UNIX, Type::STREAM.nonblocking(), None)?;
    socket.connect(&SockAddr::unix(path)?)
}

/// What helps where a path cannot be listened on.
fn help_for(path: &Path, error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::InvalidInput => {
            "a socket's path has 107 bytes at most: choose a shorter one, or start the server in its folder and \
             give the name alone"
        }
        ErrorKind::NotFound | ErrorKind::NotADirectory => {
            "make its folder first, or choose another path"
        }
        ErrorKind::PermissionDenied => {
            "let this user make and remove files in its folder, or choose another path"
        }
        ErrorKind::AddrInUse if !is_socket(path) => {
            "what is there is no socket, and stays: move it away, or choose another path"
        }
        ErrorKind::AddrInUse if is_forbidden(path) => {
            "a socket is there that this user may not connect to: remove it if no server has it, or choose another \
             path"
        }
        ErrorKind::AddrInUse => "a server answers there: stop it, or choose another path",
        _ => "choose another path",
    }
}

fn is_socket(path: &Path) -> bool {
    let found = std::fs::symlink_metadata(path);
    found.is_ok_and(|found| found.file_type().is_socket())
}

fn is_forbidden(path: &Path) -> bool {
    connect_to(path).is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
}

/// Listens at a path once it has these permissions: nobody connects who may not.
fn bind_with(path: &Path, mode: u32) -> io::Result<(UnixListener, Made)> {
    let socket = socket2::Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.bind(&SockAddr::unix(path)?)?;
    let made = Made::at(path)?;
    let permissions = std::fs::Permissions::from_mode(mode);
    let listening = std::fs::set_permissions(path, permissions).and_then(|()| {
        socket.set_nonblocking(true)?;
        socket.listen(BACKLOG)
    });
    if let Err(error) = listening {
        // Otherwise the next start finds it, and takes it for one that is dead.
        let _ = made.remove();
        return Err(error);
    }
    Ok((UnixListener::from_std(socket.into()), made))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::Socket;

    #[test]
    fn a_dead_unix_socket_is_replaced_and_a_live_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let live = listen_unix(&path, None).unwrap();
        let error = listen_unix(&path, None).unwrap_err();
        assert!(error.to_string().contains("another path"), "{error}");
        // Also one that has no room for another connection, which was waited for without an end.
        drop(live);
        let full = socket2::Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        full.bind(&SockAddr::unix(&path).unwrap()).unwrap();
        full.listen(0).unwrap();
        let clients: Vec<_> = (0..2).map(|_| connect_to(&path)).collect();
        assert!(clients.iter().any(Result::is_err));
        let error = listen_unix(&path, None).unwrap_err();
        assert!(error.to_string().contains("another path"), "{error}");
        drop(full);
        let live = listen_unix(&path, None).unwrap();
        drop(live);
        assert!(!path.exists());
    }

    /// Nobody but root could use the socket of a service whose umask is 0077.
    #[test]
    fn a_unix_socket_has_the_permissions_that_are_given() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        for mode in [0o777, 0o770, 0o600] {
            // The one before, which nobody answers at any more, is replaced.
            let dead = std::os::unix::net::UnixListener::bind(&path).unwrap();
            drop(dead);
            let live = listen_unix(&path, Some(mode)).unwrap();
            let found = std::fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(found & 0o7777, mode);
            assert!(std::os::unix::net::UnixStream::connect(&path).is_ok());
            assert!(matches!(live.accept().unwrap(), Socket::Unix(_)));
            let nobody = live.accept().unwrap_err();
            assert_eq!(nobody.kind(), io::ErrorKind::WouldBlock, "it does not block");
            drop(live);
            assert!(!path.exists());
        }
    }

    /// What was removed when a server ended: whatever had the path of its socket by then.
    #[test]
    fn what_has_taken_the_path_of_a_socket_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let first = listen_unix(&path, None).unwrap();
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "precious").unwrap();
        drop(first);
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
        std::fs::remove_file(&path).unwrap();
        let second = listen_unix(&path, None).unwrap();
        std::fs::remove_file(&path).unwrap();
        let third = listen_unix(&path, None).unwrap();
        drop(second);
        assert!(std::os::unix::net::UnixStream::connect(&path).is_ok());
        drop(third);
        assert!(!path.exists());
    }

    #[test]
    fn an_ordinary_file_is_never_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        std::fs::write(&path, "precious").unwrap();
        assert!(listen_unix(&path, None).is_err() && listen_unix(&path, Some(0o777)).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    }

    /// What was told: to choose another port, whatever was there, and to "check the address".
    #[test]
    fn it_is_said_what_helps_where_a_path_cannot_be_used() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("file"), "precious").unwrap();
        std::os::unix::fs::symlink("nowhere", at("link")).unwrap();
        let live = listen_unix(&at("live"), None).unwrap();
        let long = "x".repeat(108);
        for (name, helps) in [
            ("file", "no socket, and stays"),
            ("link", "no socket, and stays"),
            ("live", "a server answers there"),
            ("none/s", "make its folder"),
            ("file/s", "make its folder"),
            (long.as_str(), "107 bytes at most"),
        ] {
            for mode in [None, Some(0o770)] {
                let text = listen_unix(&at(name), mode).unwrap_err().to_string();
                let expected = format!("Unix socket {} (--unixsocket): ", at(name).display());
                assert!(text.contains(&expected) && text.contains(helps), "{text}");
                assert!(!text.contains("port"), "{text}");
            }
        }
        drop(live);
        assert_eq!(std::fs::read_to_string(at("file")).unwrap(), "precious");
    }
}
