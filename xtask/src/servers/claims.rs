//! What a server holds of clients that announce much and send little: each a value of 100 MB, of which few bytes come.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::client::Connection;
use super::contender::{Contender, Folder, Server};

const CLIENTS: usize = 3_000;
/// What each sends, with a pause behind each part: 32 bytes announce the value, 120 are of it.
const PARTS: [&[u8]; 3] =
    [b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$100000000\r\n", &[b'v'; 60], &[b'v'; 60]];
/// How long a server may take to read what was sent, or to forget clients that have gone.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a server says of itself, and the kernel of its process.
struct Held {
    used: u64,
    clients: u64,
    resident_mib: f64,
}

/// Opens the clients, and tells what each server holds before they come, with them, with their claims, and behind them.
pub fn section(contenders: &[Contender]) -> Result<String, String> {
    let folder = Folder::new()?;
    let mut text = String::from("## Clients that announce much\n\n");
    let sent: usize = PARTS.iter().map(|part| part.len()).sum();
    let _ = write!(
        text,
        "{CLIENTS} clients that announce a value of 100 MB each and send {sent} bytes in all: `used_memory` and \
         `mem_clients_normal` of `INFO`, and the process's own memory (`RssAnon`), in MiB.\n\n| | |"
    );
    for head in ["before", "connected", "announced", "gone"] {
        let _ = write!(text, " {head} |");
    }
    text += "\n|---|---|---|---|---|---|";
    for contender in contenders {
        let held = measure(&contender.start(&folder.0)?)
            .map_err(|what| format!("{}: {what} (`ulimit -n 8192`?)", contender.name))?;
        let fields: [(&str, Field); 3] = [
            ("used_memory", |held| mib(held.used)),
            ("mem_clients_normal", |held| mib(held.clients)),
            ("RssAnon", |held| held.resident_mib),
        ];
        for (field, value) in fields {
            let _ = write!(text, "\n| {} {} | {field} |", contender.name, contender.version);
            for held in &held {
                let _ = write!(text, " {:.2} |", value(held));
            }
        }
    }
    Ok(text + "\n")
}

/// What of it a row tells, in MiB.
type Field = fn(&Held) -> f64;

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn measure(server: &Server) -> Result<[Held; 4], String> {
    let mut observer = Connection::new(server.port)?;
    let before = held(server, &mut observer)?;
    let mut clients = Vec::with_capacity(CLIENTS);
    for _ in 0..CLIENTS {
        let client = TcpStream::connect(("127.0.0.1", server.port));
        clients.push(client.map_err(|error| error.to_string())?);
    }
    until(&mut observer, "connected_clients", |count| count > CLIENTS as u64)?;
    let connected = held(server, &mut observer)?;
    for part in PARTS {
        let received = number(&mut observer, "total_net_input_bytes")?;
        for client in &mut clients {
            client.write_all(part).map_err(|error| error.to_string())?;
        }
        let due = received + (CLIENTS * part.len()) as u64;
        until(&mut observer, "total_net_input_bytes", |received| received >= due)?;
    }
    let announced = held(server, &mut observer)?;
    drop(clients);
    until(&mut observer, "connected_clients", |count| count == 1)?;
    // What is given back to the system is so behind a while.
    std::thread::sleep(Duration::from_secs(1));
    Ok([before, connected, announced, held(server, &mut observer)?])
}

fn held(server: &Server, observer: &mut Connection) -> Result<Held, String> {
    Ok(Held {
        used: number(observer, "used_memory")?,
        clients: number(observer, "mem_clients_normal")?,
        resident_mib: server.memory_mib("RssAnon")?,
    })
}

/// A number that `INFO` shows.
fn number(observer: &mut Connection, name: &str) -> Result<u64, String> {
    observer.add(&[b"INFO"]);
    let told = observer.send(1)?;
    let told = String::from_utf8_lossy(told.first().ok_or("INFO says nothing")?).into_owned();
    field_of(&told, name).ok_or_else(|| format!("INFO says nothing of {name}"))
}

fn field_of(told: &str, name: &str) -> Option<u64> {
    told.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')?.trim().parse().ok())
}

/// Waits until a number is as it should be.
fn until(observer: &mut Connection, name: &str, is_so: impl Fn(u64) -> bool) -> Result<(), String> {
    let start = Instant::now();
    loop {
        let found = number(observer, name)?;
        if is_so(found) {
            return Ok(());
        }
        if start.elapsed() > PATIENCE {
            return Err(format!("{name} stays at {found}"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        let told = "# Memory\r\nused_memory_peak:9\r\nused_memory:7\r\nused_memory_human:7B\r\n";
        assert_eq!(field_of(told, "used_memory"), Some(7));
        assert_eq!(field_of(told, "used_memory_human"), None);
        assert_eq!(field_of(told, "used"), None);
    }
}
