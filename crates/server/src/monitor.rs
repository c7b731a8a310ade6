//! Clients that are shown what all others do (`MONITOR`).
//!
//! Each command that was run is a line, behind what it did, and those of a transaction stand before its `EXEC`. What is
//! administration is not shown, passwords neither. The thread that ran the command puts the line into the
//! mailbox of each monitor; the event loop of the monitor takes what is there and sends it. From then on it is unsent
//! output like any other, and counts as the memory of a client; a mailbox that is not emptied in time has a limit of its own.
//!
//! Nobody pays for it while there is no monitor, but for one load.

use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::acl::commands;
use crate::databases::Database;
use crate::registry::Client;
use crate::resp::Request;
use crate::secrets::{HIDDEN, hidden};

/// Bytes that a mailbox may hold, if clients may hold as much.
const MAILBOX_SIZE_MAX: usize = 64 << 20;

/// All monitors. Thread-safe.
#[derive(Debug, Default)]
pub struct Monitors {
    count: Arc<AtomicUsize>,
    list: Mutex<Vec<Weak<Monitor>>>,
}

/// A client that is shown what others do, until this is dropped.
#[derive(Debug)]
pub struct Monitor {
    client: Arc<Client>,
    /// Lines that its event loop has not taken.
    mailbox: Mutex<Vec<u8>>,
    count: Arc<AtomicUsize>,
}

/// A panic elsewhere cannot have left it half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Monitors {
    /// Whether there is one.
    #[inline]
    pub fn any(&self) -> bool {
        // Relaxed: who begins at this moment may miss what is run at this moment.
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Lets a client be one.
    pub fn begin(&self, client: &Arc<Client>) -> Arc<Monitor> {
        // Relaxed: a client that looks at this moment may miss it, as in `any`.
        self.count.fetch_add(1, Ordering::Relaxed);
        let (client, count) = (Arc::clone(client), Arc::clone(&self.count));
        let monitor = Arc::new(Monitor { client, mailbox: Mutex::default(), count });
        lock(&self.list).push(Arc::downgrade(&monitor));
        monitor
    }

    /// Shows a command that was run, by its index in the table, to all of them. Mailboxes hold at most
    /// `size_max` bytes. `tell` is told of each client that has to be looked at, and whether it was closed.
    pub fn show(
        &self,
        size_max: usize,
        (client, database): (&Client, Database),
        request: &Request<'_>,
        index: usize,
        mut tell: impl FnMut(&Client, bool),
    ) {
        let args: Vec<&[u8]> = request.args_from(0).collect();
        if commands::is_administration(index, &args) {
            return;
        }
        let size_max = size_max.min(MAILBOX_SIZE_MAX);
        let is_fit = args.iter().map(|arg| arg.len()).sum::<usize>() <= size_max;
        let line = is_fit.then(|| line(client, database, &args));
        lock(&self.list).retain(|monitor| match monitor.upgrade() {
            None => false,
            Some(monitor) => {
                monitor.post(line.as_deref(), size_max, &mut tell);
                true
            }
        });
    }
}

impl Monitor {
    /// Puts a line into the mailbox. If that gets too large, or the line alone is (`None`), the client is closed.
    fn post(&self, line: Option<&str>, size_max: usize, tell: &mut impl FnMut(&Client, bool)) {
        let mut mailbox = lock(&self.mailbox);
        let was_empty = mailbox.is_empty();
        let line = line.filter(|line| mailbox.len() + line.len() <= size_max);
        match line {
            Some(line) => mailbox.extend_from_slice(line.as_bytes()),
            None => {
                *mailbox = Vec::new();
                self.client.kill();
            }
        }
        drop(mailbox);
        if was_empty || self.client.is_killed() {
            tell(&self.client, line.is_none());
        }
    }

    /// The lines that came since the last call.
    pub fn take(&self) -> Vec<u8> {
        std::mem::take(&mut lock(&self.mailbox))
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        // Relaxed: see `Monitors::any`.
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A command as monitors are shown it.
fn line(client: &Client, database: Database, args: &[&[u8]]) -> String {
    // A clock before 1970 has not been set yet.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let (seconds, micros) = (now.as_secs(), now.subsec_micros());
    let mut line = format!("+{seconds}.{micros:06} [{database} {}]", client.peer);
    for (arg, is_hidden) in args.iter().zip(hidden(args)) {
        line.push_str(" \"");
        match is_hidden {
            true => line.push_str(HIDDEN),
            false => push_escaped(&mut line, arg),
        }
        line.push('"');
    }
    line.push_str("\r\n");
    line
}

/// Adds bytes as the protocol's original server shows them.
fn push_escaped(line: &mut String, bytes: &[u8]) {
    for byte in bytes {
        match byte {
            b'\\' => line.push_str("\\\\"),
            b'"' => line.push_str("\\\""),
            b'\n' => line.push_str("\\n"),
            b'\r' => line.push_str("\\r"),
            b'\t' => line.push_str("\\t"),
            0x07 => line.push_str("\\a"),
            0x08 => line.push_str("\\b"),
            b' '..=b'~' => line.push(char::from(*byte)),
            _ => write!(line, "\\x{byte:02x}").expect("writing to a string cannot fail"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Registry;

    fn shown(args: &[&[u8]]) -> String {
        let client = Registry::new().add(("a:1".into(), "b:2".into()), 0, 5);
        let line = line(&client, 3, args);
        let (time, rest) = line.split_once(' ').unwrap();
        let (seconds, micros) = time.strip_prefix('+').unwrap().split_once('.').unwrap();
        assert!(seconds.parse::<u64>().is_ok() && micros.len() == 6, "{time}");
        rest.to_string()
    }

    #[test]
    fn lines_are_those_of_redis() {
        assert_eq!(
            shown(&[b"SET", b"k\0\"\\\n\r\t\x07\x08\x80\xff ", b""]),
            "[3 a:1] \"SET\" \"k\\x00\\\"\\\\\\n\\r\\t\\a\\b\\x80\\xff \" \"\"\r\n"
        );
        let hidden = "\"(redacted)\"";
        assert_eq!(
            shown(&[b"auth", b"u", b"p"]),
            format!("[3 a:1] \"auth\" {hidden} {hidden}\r\n")
        );
        assert_eq!(
            shown(&[b"HELLO", b"3", b"SETNAME", b"n", b"Auth", b"u", b"p", b"x"]),
            format!(
                "[3 a:1] \"HELLO\" \"3\" \"SETNAME\" \"n\" \"Auth\" {hidden} {hidden} \"x\"\r\n"
            )
        );
    }

    #[test]
    fn who_is_gone_is_none() {
        let (monitors, registry) = (Monitors::default(), Registry::new());
        let client = registry.add(("a:1".into(), "b:2".into()), 0, 5);
        let (one, other) = (monitors.begin(&client), monitors.begin(&client));
        assert!(monitors.any());
        drop(one);
        assert!(monitors.any());
        drop(other);
        assert!(!monitors.any());
    }
}
