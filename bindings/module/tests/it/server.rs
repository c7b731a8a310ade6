//! A server of a test: a process in a folder of its own, ended with the value.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use redis::{Connection, FromRedisValue, RedisResult, Value};
use tempfile::TempDir;

/// How long anything may take before a test gives up.
fn patience() -> Duration {
    Duration::from_secs(setting("EVERLEAF_PATIENCE", 120))
}

/// A running server with the module.
pub struct Server {
    child: Child,
    pub port: u16,
    pub folder: TempDir,
    options: Vec<String>,
}

/// The program of the server under test: what is asked for, or the first that is installed.
pub fn program() -> String {
    const SERVERS: [&str; 2] = ["redis-server", "valkey-server"];
    std::env::var("EVERLEAF_SERVER").unwrap_or_else(|_| {
        let mut installed = SERVERS.into_iter().filter(|server| is_installed(server));
        installed.next().unwrap_or(SERVERS[0]).to_string()
    })
}

fn is_installed(program: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).any(|folder| folder.join(program).is_file())
}

/// The module under test.
pub fn module() -> PathBuf {
    if let Some(path) = std::env::var_os("EVERLEAF_MODULE") {
        return path.into();
    }
    let test = std::env::current_exe().expect("a test has a path");
    let folder = test.parent().and_then(|deps| deps.parent()).expect("target/release/deps");
    folder.join("libeverleaf_module.so")
}

/// The seed of a random test.
pub fn seed() -> u64 {
    let given = std::env::var("EVERLEAF_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(rand::random);
    println!("EVERLEAF_SEED={seed}");
    seed
}

/// A number from the environment, such as how much to try.
pub fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// A port that was free a moment ago.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("it is bound").port()
}

/// Asks until the answer is yes.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + patience();
    while !holds() {
        assert!(Instant::now() < end, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

impl Server {
    /// With the module and these options.
    pub fn start(options: &[&str]) -> Server {
        let folder = TempDir::new().expect("a folder");
        let options = options.iter().map(|option| option.to_string()).collect();
        Self::start_in(folder, free_port(), options).unwrap_or_else(|log| panic!("{log}"))
    }

    /// On the files of a folder.
    ///
    /// # Errors
    /// It ended; the log says why.
    pub fn start_in(folder: TempDir, port: u16, options: Vec<String>) -> Result<Server, String> {
        let child = spawn(&folder, port, &options);
        let mut server = Server { child, port, folder, options };
        let end = Instant::now() + patience();
        loop {
            if let Some(status) = server.child.try_wait().expect("a child of ours") {
                return Err(format!("{status}\n{}", server.log()));
            }
            if let Ok(mut connection) = server.try_connect()
                && redis::cmd("PING").query::<String>(&mut connection).is_ok()
            {
                return Ok(server);
            }
            assert!(Instant::now() < end, "no answer: {}", server.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn try_connect(&self) -> RedisResult<Connection> {
        let client = redis::Client::open(format!("redis://127.0.0.1:{}/", self.port))?;
        client.get_connection_with_timeout(patience())
    }

    /// A connection.
    pub fn connect(&self) -> Connection {
        self.try_connect().unwrap_or_else(|error| panic!("{error}\n{}", self.log()))
    }

    /// Kills it at once and starts it on the same files and port.
    pub fn restart(&mut self) {
        self.kill();
        self.child = spawn(&self.folder, self.port, &self.options);
        eventually("an answer behind the restart", || {
            let ended = self.child.try_wait().expect("a child of ours");
            assert!(ended.is_none(), "it ended: {}", self.log());
            let Ok(mut connection) = self.try_connect() else { return false };
            redis::cmd("PING").query::<String>(&mut connection).is_ok()
        });
    }

    /// Kills it at once.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Whether it runs.
    pub fn is_alive(&mut self) -> bool {
        self.child.try_wait().expect("a child of ours").is_none()
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

fn spawn(folder: &TempDir, port: u16, options: &[String]) -> Child {
    let mut command = Command::new(program());
    command.current_dir(folder.path()).args(["--port", &port.to_string(), "--logfile", "log"]);
    command.args(["--enable-debug-command", "yes", "--save", "", "--bind", "127.0.0.1"]);
    command.arg("--loadmodule").arg(module()).args(options);
    command.stdout(Stdio::null()).stderr(Stdio::null()).stdin(Stdio::null());
    command.spawn().unwrap_or_else(|error| panic!("{}: {error}", program()))
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Runs a command given as words.
pub fn ask<T: FromRedisValue>(connection: &mut Connection, words: &[&str]) -> RedisResult<T> {
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    ask_bytes(connection, &words)
}

/// Runs a command given as words of any bytes.
pub fn ask_bytes<T: FromRedisValue>(
    connection: &mut Connection,
    words: &[&[u8]],
) -> RedisResult<T> {
    let mut command = redis::Cmd::new();
    for word in words {
        command.arg(*word);
    }
    command.query(connection)
}

/// Runs a command that must work.
pub fn tell(connection: &mut Connection, words: &[&str]) -> Value {
    ask(connection, words).unwrap_or_else(|error| panic!("{words:?}: {error}"))
}

/// The error of a command that must not work.
pub fn refusal(connection: &mut Connection, words: &[&str]) -> String {
    match ask::<Value>(connection, words) {
        Ok(value) => panic!("{words:?}: {value:?}"),
        Err(error) => error.to_string(),
    }
}

/// The check sum of all data.
pub fn digest(connection: &mut Connection) -> String {
    ask(connection, &["DEBUG", "DIGEST"]).expect("a digest")
}

/// A field of `INFO`.
pub fn info(connection: &mut Connection, field: &str) -> String {
    let text: String = ask(connection, &["INFO", "everything"]).expect("INFO");
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {field} in INFO")).to_string()
}
