//! The server as a process: it starts, answers, and ends as told.

use crate::common::{Ended, PoolFolder};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long something may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running server; killed when a test fails before it ended.
pub struct Serving {
    child: Child,
    address: String,
    ready: String,
    before: String,
}

/// A section of INFO.
pub fn info(serving: &Serving, section: &str) -> String {
    let mut stream = TcpStream::connect(&serving.address).expect("the server listens");
    let request = format!("INFO {section}\r\nQUIT\r\n");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut reply = String::new();
    stream.read_to_string(&mut reply).expect("it answers, and closes");
    reply
}

impl Serving {
    pub fn start(place: &PoolFolder, arguments: &[&str]) -> Self {
        let mut command = place.command([&["serve", "--port", "0"], arguments].concat());
        Self::spawn(&mut command)
    }

    pub fn spawn(command: &mut Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().expect("the binary runs");
        let stderr = child.stderr.as_mut().expect("it is piped");
        let mut lines = BufReader::with_capacity(1, stderr);
        let (mut ready, mut before) = (String::new(), String::new());
        while !ready.starts_with("everleaf: ready on ") {
            before.push_str(&ready);
            ready.clear();
            let size = lines.read_line(&mut ready).expect("stderr can be read");
            assert_ne!(size, 0, "it ended before it was ready");
        }
        let rest = ready.strip_prefix("everleaf: ready on ");
        let address = rest.and_then(|rest| rest.split(',').next()).unwrap_or_default().to_string();
        assert!(!address.is_empty(), "{ready}");
        Self { child, address, ready, before }
    }

    /// What was logged before it was ready.
    pub fn before(&self) -> &str {
        &self.before
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    pub fn ask(&self, request: &str, reply: &str) {
        let mut stream = TcpStream::connect(&self.address).expect("the server listens");
        let patience = Some(std::time::Duration::from_secs(60));
        stream.set_read_timeout(patience).expect("a timeout can be set");
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut got = vec![0; reply.len()];
        stream.read_exact(&mut got).expect("it answers");
        assert_eq!(String::from_utf8_lossy(&got), reply);
    }

    pub fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let status = Command::new("kill").args(["-s", name, &id]).status().expect("kill runs");
        assert!(status.success());
    }

    pub fn end(mut self) -> Ended {
        let mut err = String::new();
        let stderr = self.child.stderr.as_mut().expect("it is piped");
        stderr.read_to_string(&mut err).expect("stderr is UTF-8");
        let status = self.child.wait().expect("it ends");
        Ended { code: status.code().unwrap_or(-1), out: Vec::new(), err }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // It has usually ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a service manager hears, on a socket that it makes; and what the log says in JSON.
#[test]
fn a_service_manager_is_told_and_the_log_is_json() {
    let place = PoolFolder::empty();
    let path = place.path("notify");
    let manager = UnixDatagram::bind(&path).expect("it can be bound");
    let patience = Some(std::time::Duration::from_secs(60));
    manager.set_read_timeout(patience).expect("a timeout can be set");
    let arguments = ["serve", "new.pool", "--port", "0", "--log", "info", "--log-format", "json"];
    let mut command = place.command(arguments);
    let serving = Serving::spawn(command.env("NOTIFY_SOCKET", &path));
    let mut buffer = [0; 1000];
    let mut hear = || {
        let size = manager.recv(&mut buffer).expect("it is told");
        String::from_utf8_lossy(&buffer[..size]).into_owned()
    };
    assert_eq!(hear(), "STATUS=opening the pool");
    assert_eq!(hear(), format!("READY=1\nSTATUS=ready on {}", serving.address));
    serving.signal("TERM");
    assert_eq!(hear(), "STOPPING=1");
    assert_eq!(hear(), "STOPPING=1\nSTATUS=closing the pool");
    // And every few seconds again: a manager that stops a service kills it after a while, in the middle of a save.
    assert_eq!(hear(), "EXTEND_TIMEOUT_USEC=60000000");
    let ended = serving.end();
    assert_eq!(ended.code, 0, "{}", ended.err);
    let lines = ended.err.lines().filter(|line| !line.starts_with("everleaf: "));
    let told: Vec<serde_json::Value> =
        lines.map(|line| serde_json::from_str(line).expect("a line is an object")).collect();
    let has =
        |what: &str| told.iter().any(|line| line["message"] == what && line["level"] == "INFO");
    assert!(has("stopped"), "{told:?}");
}

/// It was remembered, as the first one, for a server that had still to replay its log.
#[test]
fn a_second_signal_ends_it_at_once_also_while_it_opens() {
    let place = PoolFolder::empty();
    place.run(["create", "pool", "--durability", "power", "--max-size", "64M"]).succeeded();
    std::fs::remove_file(place.path("pool")).expect("it is there");
    // It says that it replays the log, and waits for somebody to read that.
    let (_reader, mut full) = std::io::pipe().expect("there are descriptors");
    // SAFETY: asks for a number, of a descriptor that is ours.
    let size = unsafe { libc::fcntl(full.as_raw_fd(), libc::F_GETPIPE_SZ) };
    full.write_all(&vec![b'x'; usize::try_from(size).expect("it is a pipe")]).expect("so much");
    let mut command = place.command(["serve", "pool", "--port", "0"]);
    let mut child = command.stderr(full).spawn().expect("the binary runs");
    drop(command);
    let is_watching = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id()));
        let status = status.expect("it was started");
        let line = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = u64::from_str_radix(line.expect("it is told").trim(), 16).expect("a mask");
        // The last that it watches for.
        caught & 1 << (libc::SIGHUP - 1) > 0
    };
    let start = Instant::now();
    while !is_watching() {
        assert!(start.elapsed() < PATIENCE, "it watches for no signals");
        std::thread::yield_now();
    }
    // The second is the first that comes some time behind the first. It is killed if it goes on.
    while child.try_wait().expect("it is our child").is_none() && start.elapsed() < PATIENCE {
        let id = child.id().to_string();
        assert!(Command::new("kill").arg(&id).status().expect("kill runs").success());
    }
    let _ = child.kill();
    let status = child.wait().expect("it is our child");
    assert_eq!(status.signal(), Some(libc::SIGTERM), "{status}");
    place.run(["put", "pool", "key", "value", "--quiet"]).succeeded();
}

/// The server takes a socket that somebody else listens on, and leaves its path when it ends.
#[test]
fn sockets_that_are_handed_over_are_served() {
    let place = PoolFolder::empty();
    let path = place.path("handed.sock");
    let tcp = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = tcp.local_addr().expect("it has an address").to_string();
    let unix = UnixListener::bind(&path).expect("it can be bound");
    let end = |socket: OwnedFd, count: &str| {
        let script = "exec 3<&0 </dev/null; LISTEN_PID=$$ exec \"$0\" serve new.pool --port 1";
        let program = place.command([""; 0]).get_program().to_os_string();
        let mut command = Command::new("sh");
        command.current_dir(place.path("")).args(["-c", script]).arg(program);
        command.env("LISTEN_FDS", count).stdin(Stdio::from(socket)).stderr(Stdio::piped());
        command
    };
    let mut command = end(OwnedFd::from(tcp), "1");
    let mut serving = Serving::spawn(&mut command);
    assert_eq!(serving.address, address);
    serving.ask("PING\r\n", "+PONG\r\n");
    serving.signal("TERM");
    assert_eq!(serving.end().code, 0);
    let mut command = end(OwnedFd::from(unix), "1");
    serving = Serving::spawn(&mut command);
    let mut stream = UnixStream::connect(&path).expect("it listens");
    stream.write_all(b"PING\r\n").expect("it reads");
    let mut reply = [0; 7];
    stream.read_exact(&mut reply).expect("it answers");
    assert_eq!(&reply, b"+PONG\r\n");
    drop(stream);
    serving.signal("TERM");
    assert_eq!(serving.end().code, 0);
    assert!(path.exists(), "the process that made it removes it");
    // A file is no socket, a connected one is not listened on, and a second one was not handed over: the server took
    // what it had opened itself by then, and could not be ended any more.
    let file = std::fs::File::open(place.path("new.pool")).expect("it is there");
    let (connected, _other) = UnixStream::pair().expect("there are sockets");
    let listening = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    for (socket, count, wrong) in [
        (OwnedFd::from(file), "1", "descriptor 3 is no"),
        (OwnedFd::from(connected), "1", "descriptor 3 is no"),
        (OwnedFd::from(listening), "2", "descriptor 4 is no"),
    ] {
        let output = end(socket, count).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(wrong), "{output:?}");
    }
}

/// The pool was made before the server found that it cannot listen, and stayed.
/// Exports of pairs wrote the headers of collections as strings, without a word and without the members; loaded
/// again, they were lists without elements.
#[test]
fn collections_are_not_taken_for_strings() {
    let place = PoolFolder::with_pool();
    let serving = Serving::start(&place, &["pool"]);
    serving.ask("RPUSH l a b c\r\nHSET h f 1\r\nSET s x\r\n", ":3\r\n:1\r\n+OK\r\n");
    serving.signal("TERM");
    assert_eq!(serving.end().code, 0);
    for name in ["out.tsv", "out.csv", "out.jsonl"] {
        let refused = place.run(["export", "pool", "--output", name]).failed(1);
        assert!(
            refused.contains("the key \"h\" holds a hash") && refused.contains("resp"),
            "{refused}"
        );
        assert!(!place.path(name).exists(), "{name}");
    }
    let some = place.run(["export", "pool", "--strings-only"]);
    assert_eq!((some.text().as_str(), some.code), ("s\tx\n", 0));
    assert!(some.err.contains("2 keys"), "{}", some.err);
    assert_eq!(place.run(["export", "pool", "--keys-only"]).succeeded(), "h\nl\ns\n");
    assert_eq!(place.run(["scan", "pool", "--keys-only"]).succeeded(), "h\nl\ns\n");
    let scanned = place.run(["scan", "pool"]);
    assert_eq!(scanned.text(), "s\tx\n");
    assert!(scanned.failed(1).contains("2 keys"));
    assert!(place.run(["get", "pool", "l"]).failed(1).contains("holds a list"));
    let everything = place.run(["export", "pool", "--format", "resp"]).succeeded();
    assert!(everything.contains("RPUSH"), "{everything}");
}

/// What an export of before wrote of a collection is refused, where the pool can know it.
#[test]
fn a_header_of_a_collection_is_not_loaded() {
    let place = PoolFolder::with_pool();
    let serving = Serving::start(&place, &["pool"]);
    serving.ask("RPUSH l a\r\n", ":1\r\n");
    serving.signal("TERM");
    assert_eq!(serving.end().code, 0);
    let header = {
        let store = everleaf::Options::new().open(place.path("pool")).expect("nobody has it");
        store.default_map().get("l").expect("it is sound").expect("it is there")
    };
    let mut line = b"m\t".to_vec();
    for byte in header {
        match byte {
            b'\t' => line.extend(b"\\t"),
            b'\n' => line.extend(b"\\n"),
            b'\r' => line.extend(b"\\r"),
            b'\\' => line.extend(b"\\\\"),
            byte => line.push(byte),
        }
    }
    line.push(b'\n');
    place.write("old.tsv", line);
    assert!(place.run(["load", "pool", "old.tsv"]).failed(3).contains("of a list"));
    assert!(place.run(["get", "pool", "m"]).failed(1).contains("no key"));
}

/// What was left: a server whose port is taken had made the pool and its log first.
#[test]
fn a_server_that_cannot_listen_makes_no_pool() {
    let place = PoolFolder::empty();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = taken.local_addr().expect("it has an address").port().to_string();
    let log = ["serve", "new.pool", "--durability", "power", "--port", &port];
    for arguments in [&log[..], &["serve", "new.pool", "--port", &port]] {
        let ended = place.run(arguments);
        assert_ne!(ended.code, 0);
        assert!(ended.err.contains(&port), "{}", ended.err);
        let left = std::fs::read_dir(place.path(".")).expect("the folder is there").count();
        assert_eq!(left, 0, "nothing is made");
    }
}

/// What was lost: after a crash of the machine a pool that `serve` had made without being told how durable was refused.
#[test]
fn a_server_makes_a_pool_that_survives_a_crash_of_the_machine() {
    let place = PoolFolder::empty();
    let made = |pool: &str, more: &[&str]| {
        let serving = Serving::start(&place, &[&[pool], more].concat());
        serving.ask("PING\r\n", "+PONG\r\n");
        serving.signal("TERM");
        assert_eq!(serving.end().code, 0);
        place.run(["stat", pool, "--json"]).json()
    };
    let stat = made("new.pool", &[]);
    // Where stores survive the machine there is no need for a log.
    let wanted = if stat["domain"] == "process" { "interval" } else { "process" };
    assert_eq!(stat["durability"], wanted, "{stat}");
    assert_eq!(place.path("new.pool.log").exists(), wanted == "interval");
    let stat = made("asked.pool", &["--durability", "process"]);
    assert_eq!(stat["durability"], "process", "{stat}");
    // What there is stays as it is.
    place.run(["create", "old.pool", "--quiet"]).succeeded();
    let before = place.run(["stat", "old.pool", "--json"]).json()["durability"].clone();
    assert_eq!(made("old.pool", &[])["durability"], before);
}

#[test]
fn a_server_keeps_what_it_was_told_and_ends_cleanly_on_a_signal() {
    let place = PoolFolder::empty();
    for (signal, expected) in [("TERM", "0 keys"), ("INT", "1 key")] {
        let serving = Serving::start(&place, &["words.pool", "--threads", "1"]);
        assert!(serving.ready.contains(&format!(", {expected}, recovered in ")));
        serving.ask("SET apple red\r\n", "+OK\r\n");
        serving.ask("GET apple\r\n", "$3\r\nred\r\n");
        serving.signal(signal);
        assert_eq!(serving.end().succeeded(), "");
        assert_eq!(place.run(["stat", "words.pool", "--json"]).json()["was_clean"], true);
        assert_eq!(place.run(["get", "words.pool", "apple"]).succeeded(), "red");
    }
}

#[test]
fn what_was_acknowledged_survives_kill_9() {
    let place = PoolFolder::with_pool();
    let serving = Serving::start(&place, &["pool"]);
    serving.ask("SET apple red\r\n", "+OK\r\n");
    serving.signal("KILL");
    assert_eq!(serving.end().code, -1, "it was killed");
    assert_eq!(place.run(["stat", "pool", "--json"]).json()["was_clean"], false);
    assert_eq!(place.run(["get", "pool", "apple"]).succeeded(), "red");
}

/// The program that read the log of a server went away (`everleaf serve --log info 2>&1 | head -1`), and at the next
/// event the server ended: telling on the same standard error that the event cannot be written panicked.
#[test]
fn a_server_goes_on_when_nobody_reads_its_log() {
    let place = PoolFolder::with_pool();
    let mut serving = Serving::start(&place, &["pool", "--log", "trace"]);
    drop(serving.child.stderr.take());
    for _ in 0..3 {
        serving.ask("SET apple red\r\n", "+OK\r\n");
    }
    serving.signal("TERM");
    assert_eq!(serving.child.wait().expect("it ends").code(), Some(0));
}

#[test]
fn the_pool_may_be_left_out() {
    let place = PoolFolder::empty();
    let serving = Serving::start(&place, &[]);
    serving.signal("TERM");
    assert_eq!(serving.end().succeeded(), "");
    assert_eq!(place.run(["scan", "everleaf.pool", "--count"]).succeeded(), "0\n");
}

#[test]
fn a_served_pool_is_locked_for_others() {
    let place = PoolFolder::with_pool();
    let serving = Serving::start(&place, &["pool"]);
    assert!(place.run(["get", "pool", "a"]).failed(5).contains("pool"));
    serving.signal("TERM");
    assert_eq!(serving.end().succeeded(), "");
}

#[test]
fn a_port_in_use_is_code_7_and_says_so() {
    let place = PoolFolder::with_pool();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let sentence = place.run(["serve", "pool", "--port", &port]).failed(7);
    let expected = format!("cannot listen on 127.0.0.1:{port}");
    assert!(sentence.contains(&expected) && sentence.contains("another port"), "{sentence}");
}

#[test]
fn a_password_can_come_from_a_file_or_the_environment() {
    let place = PoolFolder::with_pool();
    place.write("password", "from file\n");
    let check = |serving: Serving, password: &str| {
        serving.ask("GET a\r\n", "-NOAUTH");
        serving.ask(&format!("AUTH \"{password}\"\r\nGET a\r\n"), "+OK\r\n$-1\r\n");
        serving.signal("TERM");
        assert_eq!(serving.end().succeeded(), "");
    };
    check(Serving::start(&place, &["pool", "--requirepass-file", "password"]), "from file");
    let mut command = place.command(["serve", "pool", "--port", "0"]);
    check(Serving::spawn(command.env("EVERLEAF_REQUIREPASS", "from env")), "from env");
    place.write("password", "\n");
    let sentence = place.run(["serve", "pool", "--requirepass-file", "password"]).failed(2);
    assert!(sentence.contains("first line of password is empty"), "{sentence}");
    place.run(["serve", "pool", "--requirepass-file", "none"]).failed(7);
}

#[test]
fn with_json_the_ready_line_is_an_object_on_the_standard_output() {
    let place = PoolFolder::with_pool();
    let mut command = place.command(["serve", "pool", "--port", "0", "--json"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let serving = Serving { child, address: String::new(), ready: line, before: String::new() };
    let ready: serde_json::Value = serde_json::from_str(&serving.ready).unwrap();
    assert!(ready["ready"].as_str().unwrap().starts_with("127.0.0.1:"));
    assert_eq!(ready["keys"], 0);
}

#[test]
fn the_memory_of_clients_has_a_limit_in_human_units() {
    let place = PoolFolder::with_pool();
    for (size, shown) in [("64M", "67108864"), ("0", "0")] {
        let serving = Serving::start(&place, &["pool", "--client-memory", size]);
        let reply = format!("*2\r\n$17\r\nmaxmemory-clients\r\n${}\r\n{shown}\r\n", shown.len());
        serving.ask("CONFIG GET maxmemory-clients\r\n", &reply);
        serving.signal("TERM");
        assert_eq!(serving.end().succeeded(), "");
    }
    let sentence = place.run(["serve", "pool", "--client-memory", "much"]).failed(2);
    assert!(sentence.contains("64M"), "{sentence}");
}

#[test]
fn a_server_takes_options_from_a_file_below_the_command_line() {
    let place = PoolFolder::empty();
    place.write("e.toml", "pool = 'filed.pool'\nport = 1\nrequirepass = 'secret'\n");
    let serving = Serving::start(&place, &["--config", "e.toml"]);
    serving.ask("GET a\r\n", "-NOAUTH");
    serving.ask("AUTH secret\r\nSET a b\r\n", "+OK\r\n+OK\r\n");
    serving.signal("TERM");
    assert_eq!(serving.end().succeeded(), "");
    assert_eq!(place.run(["get", "filed.pool", "a"]).succeeded(), "b");
    place.write("wrong.toml", "port = 1\nthread = 2\n");
    let sentence = place.run(["serve", "--config", "wrong.toml"]).failed(2);
    assert!(sentence.starts_with("wrong.toml:2: thread: "), "{sentence}");
    place.run(["serve", "--config", "none.toml"]).failed(7);
}

/// A client of another user could not connect to the socket of a service, whose umask keeps it for its user alone.
#[test]
fn a_unix_socket_has_the_permissions_of_its_option() {
    use std::os::unix::fs::PermissionsExt;
    let place = PoolFolder::empty();
    let arguments = ["--unixsocket", "s.sock", "--unixsocketperm", "777"];
    let serving = Serving::start(&place, &arguments);
    let found = std::fs::metadata(place.path("s.sock")).expect("it listens").permissions();
    assert_eq!(found.mode() & 0o777, 0o777);
    assert_eq!(place.run(["ping", "./s.sock"]).succeeded(), "PONG\n");
    serving.ask("CONFIG GET unixsocketperm\r\n", "*2\r\n$14\r\nunixsocketperm\r\n$3\r\n777\r\n");
    serving.signal("TERM");
    assert_eq!(serving.end().succeeded(), "");
    assert!(!place.path("s.sock").exists());
    let sentence = place.run(["serve", "--port", "0", "--unixsocketperm", "777"]).failed(2);
    assert!(sentence.contains("give --unixsocket"), "{sentence}");
}

#[test]
fn ping_tells_whether_a_server_answers() {
    let place = PoolFolder::empty();
    let serving = Serving::start(&place, &["--unixsocket", "s.sock", "--requirepass", "secret"]);
    assert_eq!(place.run(["ping", &serving.address]).succeeded(), "NOAUTH\n");
    assert_eq!(place.run(["ping", "./s.sock", "--wait", "60"]).succeeded(), "NOAUTH\n");
    let address = serving.address.clone();
    serving.signal("TERM");
    assert_eq!(serving.end().succeeded(), "");
    let sentence = place.run(["ping", &address]).failed(7);
    assert!(sentence.starts_with(&format!("{address} does not answer: ")), "{sentence}");
    let serving = Serving::start(&place, &[]);
    let answer = place.run(["ping", &serving.address, "--json"]).json();
    assert_eq!(answer["answer"], "PONG");
    assert_eq!(place.run(["ping", &serving.address, "--quiet"]).succeeded(), "");
    serving.signal("TERM");
    assert_eq!(serving.end().succeeded(), "");
}
