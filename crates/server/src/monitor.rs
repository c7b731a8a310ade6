//! Clients that are shown what all others do (`MONITOR`).
//!
//! Each command that was run is a line, behind what it did, and those of a transaction stand before its `EXEC`. What is
//! administration is not shown, passwords neither. The thread that ran the command puts the line into the
//! mailbox of each monitor; the event loop of the monitor takes what is there and sends it. From then on it is unsent
//! output like any other, and counts as the memory of a client; a mailbox that is not emptied in time has a limit of
//! its own.
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

/// Bytes of a line beside each argument: a space, and a quotation mark on each side.
const SEPARATOR_SIZE: usize = 3;
/// Bytes that a mailbox may hold, if clients may hold as much.
const MAILBOX_SIZE_MAX: usize = 64 << 20;

/// As many monitors are kept before those that are gone are forgotten.
const FORGET_COUNT_MIN: usize = 16;

/// All monitors. Thread-safe.
#[derive(Debug, Default)]
pub struct Monitors {
    count: Arc<AtomicUsize>,
    list: Mutex<List>,
}

/// The monitors, of which some are gone.
#[derive(Debug, Default)]
struct List {
    all: Vec<Weak<Monitor>>,
    /// How many there were when it was last looked which of them are gone.
    count: usize,
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
        // Relaxed: a client that begins at this moment may miss what is run at this moment.
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Lets a client be one.
    pub fn begin(&self, client: &Arc<Client>) -> Arc<Monitor> {
        // Relaxed: a client that looks at this moment may miss it, as in `any`.
        self.count.fetch_add(1, Ordering::Relaxed);
        let (client, count) = (Arc::clone(client), Arc::clone(&self.count));
        let monitor = Arc::new(Monitor { client, mailbox: Mutex::default(), count });
        let mut list = lock(&self.list);
        if list.all.len() >= FORGET_COUNT_MIN.max(2 * list.count) {
            list.all.retain(|it| it.strong_count() > 0);
            list.count = list.all.len();
        }
        list.all.push(Arc::downgrade(&monitor));
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
        // Counted before it is made: it may be four times as long as the command.
        let is_fit = size_shown(&args) <= size_max;
        let line = is_fit.then(|| line(client, database, &args));
        lock(&self.list).all.retain(|monitor| match monitor.upgrade() {
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

/// Bytes that the arguments of a command take in its line.
fn size_shown(args: &[&[u8]]) -> usize {
    let size_of_arg = |(arg, is_hidden): (&&[u8], bool)| match is_hidden {
        true => HIDDEN.len(),
        false => arg.iter().map(|byte| size_of_escaped(*byte)).sum(),
    };
    args.iter().zip(hidden(args)).map(|pair| size_of_arg(pair) + SEPARATOR_SIZE).sum()
}

/// Bytes that a byte takes where [`push_escaped`] has added it.
fn size_of_escaped(byte: u8) -> usize {
    match byte {
        b'\\' | b'"' | b'\n' | b'\r' | b'\t' | 0x07 | 0x08 => 2,
        b' '..=b'~' => 1,
        _ => 4,
    }
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

    /// What was lost: of a command of 60 MiB that is no text a line of 240 MiB was made, by each event loop at once,
    /// only for the monitor to be closed because it was too long.
    #[test]
    fn the_size_of_a_line_is_known_before_it_is_made() {
        let all: Vec<u8> = (0..=255).collect();
        let cases: [&[&[u8]]; 3] = [&[b"SET", b"k", &all], &[b"AUTH", b"u", &[0; 99]], &[b"", b""]];
        for args in cases {
            // In front of them are the database and the address.
            let arguments = shown(args).split_once("] ").unwrap().1.len() + 1;
            assert_eq!(size_shown(args) + "\r\n".len(), arguments);
        }
    }

    /// What was lost: a client that asked for `MONITOR` and `RESET` again and again left something behind each time,
    /// for good.
    #[test]
    fn those_who_are_gone_are_forgotten() {
        let (monitors, registry) = (Monitors::default(), Registry::new());
        let client = registry.add(("a:1".into(), "b:2".into()), 0, 5);
        let kept: Vec<_> = (0..5).map(|_| monitors.begin(&client)).collect();
        (0..10_000).for_each(|_| drop(monitors.begin(&client)));
        let list = lock(&monitors.list);
        assert!(list.all.len() <= FORGET_COUNT_MIN, "{}", list.all.len());
        let alive = list.all.iter().filter(|it| it.strong_count() > 0).count();
        assert_eq!(alive, kept.len());
    }

    #[test]
    fn a_monitor_that_is_gone_is_none() {
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
