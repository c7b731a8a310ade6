//! A server on a fresh pool, and a client that speaks plain bytes.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "each test file uses a part; tests may fail"
)]

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use everleaf_server::{Config, Handle, Server, ServerError};

/// A server that runs until it is dropped.
pub struct TestServer {
    pub handle: Handle,
    pub address: SocketAddr,
    pub store: Arc<everleaf::Store>,
    thread: Option<JoinHandle<Result<(), ServerError>>>,
    pub folder: tempfile::TempDir,
}

impl TestServer {
    /// With two threads and defaults otherwise.
    pub fn start() -> Self {
        Self::with(|_| {})
    }

    /// With a configuration of its own.
    pub fn with(change: impl FnOnce(&mut Config)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = open(&folder.path().join("test.pool"), 4 << 30);
        Self::on(folder, store, change)
    }

    /// On a store of its own, which lies in the folder.
    pub fn on(
        folder: tempfile::TempDir,
        store: everleaf::Store,
        change: impl FnOnce(&mut Config),
    ) -> Self {
        Self::try_on(folder, store, change).unwrap()
    }

    /// The same on a store that a server may refuse.
    pub fn try_on(
        folder: tempfile::TempDir,
        store: everleaf::Store,
        change: impl FnOnce(&mut Config),
    ) -> Result<Self, ServerError> {
        let store = Arc::new(store);
        let mut config = Config { port: 0, threads: 2, ..Config::default() };
        change(&mut config);
        let server = Server::bind(config, Arc::clone(&store))?;
        let handle = server.handle();
        let address = handle.local_addr().unwrap();
        let thread = Some(std::thread::spawn(move || server.run()));
        Ok(TestServer { handle, address, store, thread, folder })
    }

    pub fn connect(&self) -> Client {
        Client::new(TcpStream::connect(self.address).unwrap())
    }

    /// Asks the server to stop and returns what `run` returned.
    pub fn stop(&mut self) -> Result<(), ServerError> {
        self.handle.shutdown();
        self.wait()
    }

    /// Waits for the server to stop by itself.
    pub fn wait(&mut self) -> Result<(), ServerError> {
        self.thread.take().expect("stopped once").join().expect("the server does not panic")
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        if self.thread.is_some() && !std::thread::panicking() {
            self.stop().unwrap();
        }
    }
}

/// Opens or creates a pool that may grow to a size.
pub fn open(path: &Path, size_max: u64) -> everleaf::Store {
    let options = everleaf::Options::new().create(true);
    options.initial_size_bytes(16 << 20).max_size_bytes(size_max).open(path).unwrap()
}

/// A connection that sends bytes and shows replies as text.
pub struct Client {
    pub stream: TcpStream,
    buffer: Vec<u8>,
    at: usize,
}

impl Client {
    pub fn new(stream: TcpStream) -> Self {
        // A reply that does not come is a failure, not a hang.
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.set_nodelay(true).unwrap();
        Client { stream, buffer: Vec::new(), at: 0 }
    }

    /// Sends bytes; a server that closes the connection meanwhile is noticed when reading.
    pub fn send(&mut self, bytes: &[u8]) {
        match self.stream.write_all(bytes) {
            Err(error)
                if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {}
            result => result.unwrap(),
        }
    }

    /// Sends one request and returns its reply.
    pub fn ask<A: AsRef<[u8]>>(&mut self, args: &[A]) -> String {
        self.send(&encode(args));
        self.reply()
    }

    /// Sends the words of a line as one request.
    pub fn line(&mut self, line: &str) -> String {
        self.ask(&line.split_whitespace().collect::<Vec<_>>())
    }

    /// The next reply: `+OK`, `-ERR ...`, `:1`, `"bytes"`, `nil`, `[a b]`, `{k v}`, `(a b)` for a
    /// set, `txt"..."` for text.
    pub fn reply(&mut self) -> String {
        let line = self.read_line();
        let (mark, rest) = line.split_at(1);
        match mark {
            "+" | "-" | ":" => line,
            "_" => "nil".into(),
            "$" if rest == "-1" => "nil".into(),
            "*" if rest == "-1" => "nil[]".into(),
            "$" => format!("\"{}\"", self.read_bulk(rest.parse().unwrap()).escape_ascii()),
            "=" => {
                let text = self.read_bulk(rest.parse().unwrap());
                format!("txt\"{}\"", text.strip_prefix(b"txt:").unwrap().escape_ascii())
            }
            "*" => format!("[{}]", self.replies(rest.parse().unwrap())),
            "~" => format!("({})", self.replies(rest.parse().unwrap())),
            "%" => format!("{{{}}}", self.replies(2 * rest.parse::<usize>().unwrap())),
            _ => panic!("a reply that is none: {line}"),
        }
    }

    fn replies(&mut self, count: usize) -> String {
        (0..count).map(|_| self.reply()).collect::<Vec<_>>().join(" ")
    }

    /// The bytes of a reply that must be a bulk.
    pub fn bulk(&mut self) -> Vec<u8> {
        let line = self.read_line();
        let size = line.strip_prefix('$').unwrap_or_else(|| panic!("not a bulk: {line}"));
        self.read_bulk(size.parse().unwrap())
    }

    fn read_line(&mut self) -> String {
        loop {
            let rest = &self.buffer[self.at..];
            if let Some(size) = rest.windows(2).position(|pair| pair == b"\r\n") {
                let line = String::from_utf8_lossy(&rest[..size]).into_owned();
                self.at += size + 2;
                return line;
            }
            assert!(self.fill(), "the connection ended in the middle of a reply");
        }
    }

    fn read_bulk(&mut self, size: usize) -> Vec<u8> {
        while self.buffer.len() < self.at + size + 2 {
            assert!(self.fill(), "the connection ended in the middle of a bulk");
        }
        let bulk = self.buffer[self.at..self.at + size].to_vec();
        assert_eq!(&self.buffer[self.at + size..self.at + size + 2], b"\r\n");
        self.at += size + 2;
        bulk
    }

    /// False at the end of the stream.
    fn fill(&mut self) -> bool {
        if self.at > 0 && self.at == self.buffer.len() {
            self.buffer.clear();
            self.at = 0;
        }
        let mut chunk = vec![0; 64 << 10];
        let size = loop {
            match self.stream.read(&mut chunk) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                result => break result.unwrap(),
            }
        };
        self.buffer.extend_from_slice(&chunk[..size]);
        size > 0
    }

    /// What was received and not looked at.
    pub fn buffered(&mut self) -> Vec<u8> {
        let rest = self.buffer.split_off(self.at);
        self.buffer.clear();
        self.at = 0;
        rest
    }

    /// Everything up to the end of the stream, which must come.
    pub fn rest(&mut self) -> Vec<u8> {
        let mut rest = self.buffer.split_off(self.at);
        self.buffer.clear();
        self.at = 0;
        let mut chunk = [0; 4096];
        loop {
            match self.stream.read(&mut chunk) {
                Ok(0) => return rest,
                Ok(size) => rest.extend_from_slice(&chunk[..size]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return rest,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => panic!("the connection stays open: {error}"),
            }
        }
    }

    /// True if the reply is a pong, false if it is an error or the connection was reset.
    pub fn rest_or_pong(&mut self) -> bool {
        let mut start = [0; 1];
        self.stream.read(&mut start).is_ok_and(|size| size == 1) && start == *b"+"
    }

    /// Waits for the server to close the connection; there must be no more replies.
    pub fn assert_closed(&mut self) {
        let rest = self.rest();
        assert!(rest.is_empty(), "more came: {}", rest.escape_ascii());
    }
}

/// A request as an array of bulk strings.
pub fn encode<A: AsRef<[u8]>>(args: &[A]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        let arg = arg.as_ref();
        bytes.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        bytes.extend_from_slice(arg);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// Waits until a condition holds that another thread brings about; fails after long.
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let start = std::time::Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(30), "never happened: {what}");
        std::thread::yield_now();
    }
}

/// Set, to a folder, for a process that plays the server.
const PROCESS_FOLDER: &str = "EVERLEAF_TEST_SERVER_FOLDER";
/// How long its replies may be, if not as usual.
pub const PROCESS_REPLY_SIZE: &str = "EVERLEAF_TEST_SERVER_REPLY_SIZE";
/// Set for one that tells metrics, too.
pub const PROCESS_METRICS: &str = "EVERLEAF_TEST_SERVER_METRICS";
/// How durable its store is.
const PROCESS_DURABILITY: &str = "EVERLEAF_TEST_SERVER_DURABILITY";

/// A server in a process of its own, which may be short of something, or be killed.
///
/// The process is this test program again, asked to run its one test `server_process`, which calls
/// [`ServerProcess::play`].
pub struct ServerProcess {
    pub child: Child,
    pub port: u16,
    /// Where it tells metrics, if it does.
    pub metrics_port: Option<u16>,
    /// Kept open, because the process still writes to it.
    output: BufReader<ChildStdout>,
}

impl ServerProcess {
    /// Starts one on the pool in `folder`, after the given shell command.
    pub fn start(folder: &Path, setup: &str) -> Self {
        Self::start_with(folder, setup, "process")
    }

    /// The same with a durability: `process`, `interval` or `power`.
    pub fn start_with(folder: &Path, setup: &str, durability: &str) -> Self {
        let mut child = Self::spawn(folder, setup, durability);
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut metrics_port = None;
        let port = output.by_ref().lines().find_map(|line| {
            let line = line.unwrap();
            let number = |word| line.split(word).nth(1).map(|port| port.parse::<u16>().unwrap());
            metrics_port = metrics_port.or(number("METRICS "));
            number("PORT ")
        });
        let port = port.unwrap_or_else(|| panic!("the process ended: {:?}", child.wait()));
        ServerProcess { child, port, metrics_port, output }
    }

    /// The process, which serves in a while.
    pub fn spawn(folder: &Path, setup: &str, durability: &str) -> Child {
        Command::new("sh")
            .args(["-c", &format!("{setup} exec \"$0\" --exact server_process --nocapture")])
            .arg(std::env::current_exe().unwrap())
            .env(PROCESS_FOLDER, folder)
            .env(PROCESS_DURABILITY, durability)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Is the server, if this process was started to be one, until its standard input is closed.
    pub fn play() {
        let Some(folder) = std::env::var_os(PROCESS_FOLDER) else { return };
        let path = Path::new(&folder).join("test.pool");
        let durability = match std::env::var(PROCESS_DURABILITY).as_deref() {
            Ok("power") => Some(everleaf::Durability::Power),
            Ok("interval") => Some(everleaf::Durability::Interval(Duration::from_secs(1))),
            _ => None,
        };
        let store = match durability {
            Some(durability) => {
                let options = everleaf::Options::new().create(true).max_size_bytes(1 << 30);
                options.durability(durability).open(&path).unwrap()
            }
            None => open(&path, 1 << 30),
        };
        let reply_size = std::env::var(PROCESS_REPLY_SIZE).ok().and_then(|size| size.parse().ok());
        let server = TestServer::on(tempfile::tempdir().unwrap(), store, |config| {
            config.reply_size_max = reply_size.unwrap_or(config.reply_size_max);
            config.metrics = std::env::var_os(PROCESS_METRICS).map(|_| "127.0.0.1:0".to_string());
        });
        if let Some(address) = server.handle.metrics_addr() {
            println!("\nMETRICS {}", address.port());
        }
        println!("PORT {}", server.address.port());
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    }

    pub fn connect(&self) -> Client {
        Client::new(TcpStream::connect(("127.0.0.1", self.port)).unwrap())
    }

    /// Ends it at once, as a crash would.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Ends it properly.
    pub fn stop(mut self) {
        drop(self.child.stdin.take());
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        assert!(self.child.wait().unwrap().success(), "{rest}");
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // After a failed test; otherwise it has ended, and this does nothing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
