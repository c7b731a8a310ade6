//! Running out of file descriptors, and of memory.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

use crate::support::{PROCESS_METRICS, ServerProcess};

#[test]
fn without_descriptors_clients_are_refused_and_served_later() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path(), "ulimit -n 40 &&");
    let ask = |mut stream: &TcpStream| {
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let mut reply = [0; 64];
        match stream.write_all(b"PING\r\n").and_then(|()| stream.read(&mut reply)) {
            Ok(size) => String::from_utf8_lossy(&reply[..size]).into_owned(),
            // Closed before it could be read.
            Err(_) => String::new(),
        }
    };
    let connect = || TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    let (mut served, mut refused) = (Vec::new(), 0);
    for _ in 0..100 {
        let stream = connect();
        match ask(&stream).as_str() {
            "+PONG\r\n" => served.push(stream),
            "" | "-ERR max number of clients reached\r\n" => refused += 1,
            other => panic!("{other}"),
        }
    }
    assert!(served.len() >= 10 && refused >= 60, "{} served, {refused} refused", served.len());
    assert!(served.iter().all(|stream| ask(stream) == "+PONG\r\n"), "the others are not harmed");
    served.clear();
    crate::support::eventually("there is room again", || ask(&connect()) == "+PONG\r\n");
    server.stop();
}

/// Connections got the last descriptors, too: the log found none for its next file, and took no more writes until the
/// server was started again. Snapshots need one as a segment does.
#[test]
fn connections_leave_descriptors_for_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start_with(folder.path(), "ulimit -n 48 &&", "power");
    let mut client = server.connect();
    let connect = || TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    let crowd: Vec<TcpStream> = (0..100).map(|_| connect()).collect();
    // All of them were accepted or refused: the last one is told, or closed.
    let mut last = crowd.last().unwrap();
    last.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let _ = last.read(&mut [0; 64]);
    for _ in 0..3 {
        assert_eq!(client.line("SET key value"), "+OK");
        assert_eq!(client.line("SAVE"), "+OK");
    }
    drop(crowd);
    server.stop();
}

/// The processor time that a process has taken, in ticks.
fn ticks_of(process: u32) -> u64 {
    let line = std::fs::read_to_string(format!("/proc/{process}/stat")).expect("it runs");
    let (_, fields) = line.rsplit_once(')').expect("the name of its program");
    let ticks = fields.split_whitespace().skip(11).take(2);
    ticks.map(|ticks| ticks.parse::<u64>().expect("a number")).sum()
}

/// The thread that accepts turned round and round, a core for nothing, from when there were fewer descriptors than
/// were taken, as the limit may be lowered from outside, until clients went: Linux says that there are none before it
/// looks whether anybody waits.
#[test]
fn who_accepts_rests_while_descriptors_lack() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path(), "");
    let connect = || TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    let crowd: Vec<TcpStream> = (0..60).map(|_| connect()).collect();
    let ask = |mut stream: &TcpStream, reply: &mut [u8]| {
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.write_all(b"PING\r\n").and_then(|()| stream.read(reply))
    };
    assert_eq!(ask(crowd.last().unwrap(), &mut [0; 7]).unwrap(), 7);
    let process = server.child.id();
    let limit = Rlimit { current: Some(50), maximum: getrlimit(Resource::Nofile).maximum };
    prlimit(Pid::from_raw(process.cast_signed()), Resource::Nofile, limit).unwrap();
    // Told, or closed before it could be.
    let _ = ask(&connect(), &mut [0; 64]);
    let before = ticks_of(process);
    std::thread::sleep(Duration::from_secs(1));
    let taken = ticks_of(process) - before;
    assert!(taken < 30, "{taken} ticks of 100 for nothing");
    drop(crowd);
    crate::support::eventually("there is room again", || {
        ask(&connect(), &mut [0; 7]).is_ok_and(|size| size == 7)
    });
    server.stop();
}

/// Those that ask for metrics took the last descriptors, which others do not get, and ended the log for good. One at a
/// time may have one of them, so that it can be seen how a server is that is short of them.
#[test]
fn metrics_leave_descriptors_for_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let setup = format!("export {PROCESS_METRICS}=yes; ulimit -n 48 &&");
    let server = ServerProcess::start_with(folder.path(), &setup, "power");
    let mut client = server.connect();
    let connect = |port| {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        stream
    };
    let crowd: Vec<TcpStream> = (0..100).map(|_| connect(server.port)).collect();
    let _ = crowd.last().unwrap().read(&mut [0; 64]);
    let curious: Vec<TcpStream> = (0..40).map(|_| connect(server.metrics_port.unwrap())).collect();
    // The last one is accepted, so the one before it is closed.
    let _ = (&curious[38]).read(&mut [0; 64]);
    for _ in 0..3 {
        assert_eq!(client.line("SET key value"), "+OK");
        assert_eq!(client.line("SAVE"), "+OK");
    }
    let mut asking = connect(server.metrics_port.unwrap());
    asking.write_all(b"GET /health HTTP/1.1\r\n\r\n").unwrap();
    let mut reply = String::new();
    asking.read_to_string(&mut reply).unwrap();
    assert!(reply.starts_with("HTTP/1.1 200 OK"), "{reply}");
    drop((crowd, curious));
    server.stop();
}

/// `EXPIRE` copied the value into memory twice before it wrote it: of a long one the server, limited to
/// less than that, died.
#[test]
fn an_expiry_is_changed_without_a_copy_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    // In KiB; the pool is mapped, and does not count. One copy of the value fits, as it is received.
    let server = ServerProcess::start(folder.path(), "ulimit -d 230000 &&");
    let mut client = server.connect();
    let value = vec![b'v'; 128 << 20];
    assert_eq!(client.ask(&["SET".as_bytes(), b"k", &value]), "+OK");
    for (line, reply) in [
        ("EXPIREAT k 4000000000", ":1"),
        ("PEXPIREAT k 4000000001000 GT", ":1"),
        ("EXPIRETIME k", ":4000000001"),
        ("PERSIST k", ":1"),
        ("STRLEN k", ":134217728"),
        // A transaction made three copies of it: on its stage, in its batch and in the journal.
        ("MULTI", "+OK"),
        ("EXPIREAT k 4000000002", "+QUEUED"),
        ("EXPIRETIME k", "+QUEUED"),
        ("EXEC", "[:1 :4000000002]"),
        ("EXPIRETIME k", ":4000000002"),
    ] {
        assert_eq!(client.line(line), reply, "{line}");
    }
    server.stop();
}
