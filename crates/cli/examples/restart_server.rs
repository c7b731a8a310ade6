//! How long a killed server takes to answer again.
//!
//! Run: `cargo build --release && cargo run --release -p everleaf-cli --example restart_server -- [KEYS [ROUNDS]]`
//! (10 million keys of 8 bytes with values of 8 bytes, 5 rounds). Each round starts the server,
//! writes one key, kills it with SIGKILL, starts it again, and measures from the start of the
//! process to the reply to a GET of that key over the network.

use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A running server, killed when it goes.
struct Server {
    child: Child,
    address: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may be gone already; then there is nothing to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The program built in the same profile: beside the folder of the examples.
fn program() -> Result<PathBuf> {
    let example = std::env::current_exe()?;
    let folder = example.parent().and_then(Path::parent).ok_or("the examples have no folder")?;
    let program = folder.join("everleaf");
    if !program.exists() {
        return Err(format!("{} is missing: run `cargo build --release`", program.display()).into());
    }
    Ok(program)
}

fn start(program: &Path, pool: &Path) -> Result<Server> {
    let child = Command::new(program)
        .arg("serve")
        .arg(pool)
        .args(["--port", "0"])
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()?;
    let mut server = Server { child, address: String::new() };
    let mut lines = BufReader::new(server.child.stderr.take().ok_or("stderr is not piped")?);
    let mut line = String::new();
    while lines.read_line(&mut line)? > 0 {
        if let Some((_, rest)) = line.split_once("127.0.0.1:") {
            let port: String = rest.chars().take_while(char::is_ascii_digit).collect();
            server.address = format!("127.0.0.1:{port}");
            return Ok(server);
        }
        line.clear();
    }
    Err("the server ended before it listened".into())
}

/// Sends one command and returns `expected.len()` bytes of the reply, which must be `expected`.
fn ask(address: &str, command: &str, expected: &str) -> Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    stream.write_all(command.as_bytes())?;
    let mut reply = vec![0; expected.len()];
    stream.read_exact(&mut reply)?;
    if reply != expected.as_bytes() {
        return Err(format!("a wrong reply: {}", String::from_utf8_lossy(&reply)).into());
    }
    Ok(())
}

fn fill(pool: &Path, keys: u64) -> everleaf::Result<()> {
    let store = everleaf::Options::new().create(true).open(pool)?;
    // An odd multiplier permutes the numbers, so the keys come in no order.
    let key = |n: u64| n.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
    for n in 0..keys {
        store.default_map().put(key(n), n.to_be_bytes())?;
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the result")]
fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let keys = arguments.next().map_or(Ok(10_000_000), |text| text.parse())?;
    let rounds: u32 = arguments.next().map_or(Ok(5), |text| text.parse())?;
    let program = program()?;
    let folder = tempfile::tempdir()?;
    let pool = folder.path().join("restart.pool");
    fill(&pool, keys)?;
    for round in 0..rounds {
        let before = start(&program, &pool)?;
        ask(&before.address, &format!("SET round:{round} there\r\n"), "+OK\r\n")?;
        drop(before);
        let started = Instant::now();
        let after = start(&program, &pool)?;
        ask(&after.address, &format!("GET round:{round}\r\n"), "$5\r\nthere\r\n")?;
        println!("{keys} keys, round {round}: {:.0} ms", started.elapsed().as_secs_f64() * 1e3);
    }
    Ok(())
}
