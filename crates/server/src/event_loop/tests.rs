//! An event loop without a server: what it does in its turns.

use std::io::{Read, Write};
use std::os::unix::fs::FileExt;

use everleaf::{Durability, Options};
use mio::net::TcpStream;

use super::*;
use crate::batch::test_run::Bench;
use crate::databases::MapNumber;

/// An event loop, and the other end of its one connection.
fn with_client(bench: &Bench) -> (EventLoop<'_>, std::net::TcpStream) {
    let mut event_loop = EventLoop::new(0, Poll::new().unwrap(), &bench.shared);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let peer = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let accepted = listener.accept().unwrap().0;
    accepted.set_nonblocking(true).unwrap();
    let socket = Socket::Tcp(TcpStream::from_std(accepted));
    event_loop.adopt(socket, bench.client().client).unwrap();
    (event_loop, peer)
}

/// A socket that is readable and not read must not make an event loop turn.
#[test]
fn a_loop_rests_whatever_a_waiting_client_has_sent() {
    let bench = Bench::new(Bench::config());
    let (mut event_loop, mut peer) = with_client(&bench);
    peer.write_all(b"BLPOP k 0\r\n").unwrap();
    peer.set_nonblocking(true).unwrap();
    let (mut events, mut sent) = (Events::with_capacity(EVENT_COUNT), 0);
    let chunk = b"PING\r\n".repeat(10_000);
    // Until nothing more is taken: the connection has read as much as it wants, and the socket is full.
    let rests = (0..10_000).any(|_| {
        let before = sent;
        while let Ok(size) = peer.write(&chunk[sent % 6..]) {
            sent += size;
        }
        event_loop.turn(&mut events, Some(Duration::from_millis(2))).unwrap();
        let is_full = sent == before && sent > 1 << 20;
        is_full && events.is_empty() && event_loop.timeout().is_none()
    });
    assert!(rests, "{sent} bytes were taken, and it has something to do in each turn");
    // It rests because it waits, and not because the client was given up.
    let nothing = peer.read(&mut [0]).unwrap_err();
    assert_eq!(nothing.kind(), std::io::ErrorKind::WouldBlock);
}

/// What was lost: writes that nobody is told of were waited for by nobody, until somebody else wrote, and were in
/// memory only, however many they were.
#[test]
fn writes_without_a_reply_are_waited_for() {
    let options = Options::new().durability(Durability::Power);
    let bench = Bench::on(Bench::config(), options);
    let (mut event_loop, mut peer) = with_client(&bench);
    peer.write_all(b"CLIENT REPLY OFF\r\n").unwrap();
    let (mut events, value) = (Events::with_capacity(EVENT_COUNT), "v".repeat(1000));
    let mut key_count = 0;
    while key_count < 2000 {
        for _ in 0..20 {
            peer.write_all(format!("SET {key_count} {value}\r\n").as_bytes()).unwrap();
            key_count += 1;
        }
        event_loop.turn(&mut events, Some(Duration::ZERO)).unwrap();
        let lag = bench.shared.store.statistics().log_lag;
        assert_eq!(lag, 0, "writes that are in memory only, of {key_count}");
    }
    let is_all_there = || bench.shared.store.default_map().len() == key_count;
    let turns = (0..10_000).take_while(|_| !is_all_there());
    turns.for_each(|_| event_loop.turn(&mut events, Some(Duration::from_millis(2))).unwrap());
    assert!(is_all_there(), "they were made");
    assert_eq!(bench.shared.store.statistics().log_lag, 0);
    peer.set_nonblocking(true).unwrap();
    let nothing = peer.read(&mut [0]).unwrap_err();
    assert_eq!(nothing.kind(), std::io::ErrorKind::WouldBlock);
}

/// What was forgotten: clients that the store had refused to serve waited until somebody made what was there already.
#[test]
fn clients_that_could_not_be_served_are_served_later() {
    let bench = Bench::new(Bench::config());
    let (mut event_loop, _peer) = with_client(&bench);
    let (mut client, place) = (bench.client(), MapNumber::default());
    assert_eq!(bench.run(&mut client, "BLPOP k 0"), "");
    // As if the store had had no room.
    let (_, waiter) = bench.shared.waiters.lock().take_client(client.client.id).unwrap();
    assert_eq!(bench.run(&mut bench.client(), "RPUSH k a"), ":1");
    bench.shared.waiters.lock().add(waiter);
    bench.shared.loops[0].serve_later(vec![(place, b"k".to_vec())]);
    let mut events = Events::with_capacity(EVENT_COUNT);
    assert_eq!(event_loop.timeout(), None);
    event_loop.turn(&mut events, Some(Duration::ZERO)).unwrap();
    assert!(bench.shared.loops[0].has_made(), "it is not tried in each turn");
    let pause = event_loop.timeout().expect("it is tried again");
    assert!(pause <= Duration::from_millis(RETRY_MS + 1), "{pause:?}");
    let due_ms = event_loop.left_due_ms;
    while bench.shared.now_ms() + RETRY_MS <= due_ms.unwrap() {
        std::thread::sleep(Duration::from_millis(1));
    }
    event_loop.turn(&mut events, Some(Duration::ZERO)).unwrap();
    assert_eq!(event_loop.left_due_ms, due_ms, "other turns do not put it off");
    event_loop.left_due_ms = Some(0);
    event_loop.turn(&mut events, Some(Duration::ZERO)).unwrap();
    assert_eq!(bench.shared.waiters.total(), 0);
    let replies = bench.shared.loops[0].take_deliveries();
    assert_eq!(replies.len(), 1);
    assert_eq!(replies[0].reply, b"*2\r\n$1\r\nk\r\n$1\r\na\r\n");
    assert_eq!(event_loop.timeout(), None);
}

/// What was forgotten: with one key that cannot be served, here a damaged one, all others were tried again for ever,
/// and noted anew with each exchange.
#[test]
fn a_key_that_cannot_be_served_holds_up_no_other() {
    const MARK: &[u8] = b"a value that will rot";
    let bench = Bench::on(Bench::config(), Options::new().verify_reads(true));
    let (mut event_loop, _peer) = with_client(&bench);
    let (mut first, mut second, mut writer) = (bench.client(), bench.client(), bench.client());
    assert_eq!(bench.run(&mut first, "BLPOP damaged 0"), "");
    assert_eq!(bench.run(&mut second, "BLPOP sound 0"), "");
    assert_eq!(bench.run(&mut writer, "SELECT 1"), "+OK");
    assert_eq!(bench.run_args(&mut writer, &[b"SET", b"damaged", MARK]), "+OK");
    assert_eq!(bench.run(&mut writer, "RPUSH sound a"), ":1");
    let pool = std::fs::read(bench.path()).unwrap();
    let at = pool.windows(MARK.len()).position(|bytes| bytes == MARK).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(bench.path()).unwrap();
    file.write_all_at(b"A", at as u64).unwrap();
    for _ in 0..3 {
        assert_eq!(bench.run(&mut writer, "SWAPDB 0 1"), "+OK");
    }
    let state = &bench.shared.loops[0];
    let (made, keys) = (state.take_made(), [&b"damaged"[..], b"sound"]);
    assert_eq!(made.iter().map(|(_, key)| &key[..]).collect::<Vec<_>>(), keys, "each once");
    state.serve_later(made);
    assert_eq!(bench.shared.waiters.total(), 2);
    event_loop.left_due_ms = Some(0);
    let mut events = Events::with_capacity(EVENT_COUNT);
    event_loop.turn(&mut events, Some(Duration::ZERO)).unwrap();
    assert_eq!(bench.shared.waiters.total(), 1);
    let replies = state.take_deliveries();
    assert_eq!(replies[0].reply, b"*2\r\n$5\r\nsound\r\n$1\r\na\r\n");
    assert_eq!(state.take_made().len(), 1, "it is tried again");
}

/// What was not counted: of many clients that want no replies one turn had all writes in memory.
#[test]
fn a_turn_ends_behind_many_writes_without_a_reply() {
    let options = Options::new().durability(Durability::Power);
    let bench = Bench::on(Bench::config(), options);
    let (mut event_loop, mut peer) = with_client(&bench);
    peer.set_nonblocking(true).unwrap();
    peer.write_all(b"CLIENT REPLY OFF\r\n").unwrap();
    let request = format!("SET k {}\r\n", "v".repeat(10_000)).into_bytes();
    let (mut events, mut sent, mut most) = (Events::with_capacity(EVENT_COUNT), 0, 0);
    bench.shared.store.defer_sync();
    while sent < 2 * TURN_SIZE_MAX as usize {
        while let Ok(size) = peer.write(&request[sent % request.len()..]) {
            sent += size;
        }
        // As many connections that are served in one turn.
        event_loop.poll.poll(&mut events, Some(Duration::from_millis(1))).unwrap();
        let connection = event_loop.connections[0].as_mut().unwrap();
        events.iter().for_each(|event| connection.notice(event));
        event_loop.serve(0, 0);
        most = most.max(bench.shared.store.statistics().log_lag);
    }
    let most_size = most * request.len() as u64;
    assert!(most_size > TURN_SIZE_MAX / 2, "{most_size} bytes wait for the end of the turn");
    assert!(most_size < TURN_SIZE_MAX + (1 << 20), "{most_size} bytes wait");
}

/// What was told: a client that had written without replies heard that all is well when it asked for one, though what
/// it had written was lost.
#[test]
fn lost_writes_without_a_reply_close_the_connection() {
    let options = Options::new().durability(Durability::Power);
    let bench = Bench::on(Bench::config(), options);
    let (mut event_loop, mut peer) = with_client(&bench);
    let mut events = Events::with_capacity(EVENT_COUNT);
    let mut turns = |count| {
        for _ in 0..count {
            event_loop.turn(&mut events, Some(Duration::from_millis(5))).unwrap();
        }
    };
    peer.write_all(b"SET k v\r\nCLIENT REPLY OFF\r\n").unwrap();
    turns(10);
    let mut reply = [0; 5];
    peer.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"+OK\r\n");
    std::fs::remove_dir_all(bench.path().with_extension("log")).unwrap();
    peer.write_all(b"SET k lost\r\n").unwrap();
    turns(10);
    // It may be closed already.
    let _ = peer.write_all(b"CLIENT REPLY ON\r\n");
    turns(10);
    peer.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    let mut rest = vec![];
    let ended = peer.read_to_end(&mut rest);
    assert_eq!(String::from_utf8_lossy(&rest), "", "{ended:?}");
    assert!(!matches!(&ended, Err(error) if error.kind() == ErrorKind::WouldBlock), "{ended:?}");
}
