//! Many requests, many clients, slow clients, and a shutdown in the middle of it all.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use crate::support::{TestServer, encode, eventually};

#[test]
fn a_pipeline_of_mixed_requests_is_answered_in_order() {
    let server = TestServer::start();
    let mut client = server.connect();
    let (mut stream, mut expected) = (Vec::new(), Vec::new());
    for index in 0..10_000u32 {
        let key = format!("k{}", index % 500);
        let known = index >= 500;
        let last = |index: u32| format!("\"v{}\"", index - 500);
        // Runs of GETs of every length between the others.
        if known && index % 7 != 0 {
            stream.extend(encode(&["GET", &key]));
            expected.push(last(index));
            stream.extend(encode(&["GET", "none"]));
            expected.push("nil".into());
        }
        stream.extend(encode(&["SET", &key, &format!("v{index}")]));
        expected.push("+OK".into());
        if index % 3 == 0 {
            stream.extend(format!("GET {key}\r\n").into_bytes());
            expected.push(format!("\"v{index}\""));
            stream.extend(b"PING\r\nFOO\r\n");
            expected.push("+PONG".into());
            let unknown = "-ERR unknown command 'FOO', with args beginning with: (what differs from Redis: \
                           docs/redis-differences.md)";
            expected.push(unknown.into());
        }
    }
    let mut writer = client.stream.try_clone().unwrap();
    let thread = std::thread::spawn(move || writer.write_all(&stream).unwrap());
    for (index, expected) in expected.iter().enumerate() {
        assert_eq!(client.reply(), *expected, "reply {index}");
    }
    thread.join().unwrap();
}

#[test]
fn one_write_answers_a_whole_pipeline() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.send(&encode(&["SET", "k", "v"]).repeat(100));
    let mut replies = vec![0; 500];
    // All of them come with the first read, because they were sent with one write.
    let size = client.stream.read(&mut replies).unwrap();
    assert_eq!(size, 500);
    assert_eq!(replies, b"+OK\r\n".repeat(100));
}

#[test]
fn increments_of_eight_clients_add_up() {
    let server = TestServer::start();
    let start = Arc::new(Barrier::new(8));
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let (mut client, start) = (server.connect(), Arc::clone(&start));
            std::thread::spawn(move || {
                start.wait();
                for _ in 0..25 {
                    client.send(&encode(&["INCR", "counter"]).repeat(100));
                    let values: Vec<i64> =
                        (0..100).map(|_| client.reply()[1..].parse().unwrap()).collect();
                    assert!(values.windows(2).all(|pair| pair[0] < pair[1]));
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(server.connect().line("GET counter"), "\"20000\"");
}

#[test]
fn a_client_that_never_reads_holds_only_itself_up() {
    let server = TestServer::with(|config| config.output_pause_size = 1 << 20);
    let mut reader = server.connect();
    assert_eq!(reader.ask(&[&b"SET"[..], b"big", &vec![b'x'; 1 << 20]]), "+OK");
    // Far more replies than fit anywhere: 50 clients, 1 GiB each.
    let mut deaf: Vec<_> = (0..50).map(|_| server.connect()).collect();
    for client in &mut deaf {
        client.send(&encode(&["GET", "big"]).repeat(1_000));
    }
    let output_bytes = |info: &str| {
        let start = info.find("client_output_bytes:").unwrap() + "client_output_bytes:".len();
        info[start..].split("\\r").next().unwrap().parse::<u64>().unwrap()
    };
    let mut peak = 0;
    for _ in 0..200 {
        assert_eq!(reader.line("PING"), "+PONG");
        peak = peak.max(output_bytes(&reader.line("INFO clients")));
    }
    eventually("the deaf clients are held up", || {
        output_bytes(&reader.line("INFO clients")) > 10 << 20
    });
    peak = peak.max(output_bytes(&reader.line("INFO clients")));
    assert!(peak < 50 * (3 << 20), "{peak} bytes are kept for clients that do not read");
    // One of them starts to read and gets everything it asked for.
    let client = &mut deaf[0];
    for _ in 0..1_000 {
        assert_eq!(client.bulk().len(), 1 << 20);
    }
    assert_eq!(client.line("PING"), "+PONG");
}

#[test]
fn clients_that_do_not_read_cannot_exceed_the_total() {
    let server = TestServer::with(|config| {
        config.output_pause_size = 1 << 20;
        config.client_memory_max = Some(20 << 20);
    });
    let mut observer = server.connect();
    assert_eq!(observer.ask(&[&b"SET"[..], b"big", &vec![b'x'; 8 << 20]]), "+OK");
    let mut deaf: Vec<_> = (0..10).map(|_| server.connect()).collect();
    for client in &mut deaf {
        client.send(&encode(&["GET", "big"]));
    }
    eventually("those beyond the total are closed", || {
        let info = observer.line("INFO clients");
        let start = info.find("connected_clients:").unwrap() + "connected_clients:".len();
        let count: usize = info[start..].split("\\r").next().unwrap().parse().unwrap();
        count < 11
    });
    assert_eq!(observer.line("PING"), "+PONG");
}

#[test]
fn a_shutdown_while_clients_write_loses_nothing_acknowledged() {
    let mut server = TestServer::start();
    let acknowledged = Arc::new(AtomicU64::new(0));
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            let (mut client, acknowledged) = (server.connect(), Arc::clone(&acknowledged));
            std::thread::spawn(move || {
                let mut count = 0u64;
                loop {
                    let key = format!("{thread}:{count}");
                    let sent = client.stream.write_all(&encode(&["SET", &key, "v"]));
                    let mut reply = [0; 5];
                    if sent.is_err() || client.stream.read_exact(&mut reply).is_err() {
                        return (thread, count);
                    }
                    assert_eq!(&reply, b"+OK\r\n");
                    count += 1;
                    acknowledged.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    eventually("the clients write", || acknowledged.load(Ordering::Relaxed) > 2_000);
    server.stop().unwrap();
    for thread in threads {
        let (thread, count) = thread.join().unwrap();
        for index in 0..count {
            let key = format!("{thread}:{index}");
            assert!(
                server.store.default_map().contains(key.as_bytes()).unwrap(),
                "{key} was acknowledged"
            );
        }
    }
}

#[test]
fn a_shutdown_sends_what_is_due_and_does_not_wait_for_the_deaf() {
    let mut server = TestServer::with(|config| config.shutdown_grace = Duration::from_millis(300));
    let mut client = server.connect();
    assert_eq!(client.ask(&[&b"SET"[..], b"big", &vec![b'x'; 30 << 20]]), "+OK");
    let mut deaf = server.connect();
    deaf.send(&encode(&["GET", "big"]));
    eventually("the reply waits", || {
        !client.line("INFO clients").contains("client_output_bytes:0\\r")
    });
    let start = Instant::now();
    server.stop().unwrap();
    assert!(start.elapsed() < Duration::from_secs(10));
    let mut server = TestServer::start();
    let mut client = server.connect();
    assert_eq!(client.ask(&[&b"SET"[..], b"big", &vec![b'x'; 30 << 20]]), "+OK");
    client.send(&encode(&["GET", "big"]));
    let mut observer = server.connect();
    eventually("the reply waits", || {
        !observer.line("INFO clients").contains("client_output_bytes:0\\r")
    });
    server.handle.shutdown();
    assert_eq!(client.bulk().len(), 30 << 20, "a client that reads gets its reply");
    server.wait().unwrap();
}

/// What was wrong: one write of a client, of thousands of short requests that take long, kept its event loop for an
/// hour: others got no answer, and neither `CLIENT KILL` nor a stop came through.
#[test]
fn a_batch_of_long_commands_gives_way() {
    let mut server = TestServer::with(|config| {
        config.threads = 1;
        config.shutdown_grace = Duration::from_millis(300);
    });
    let mut client = server.connect();
    for key in ["a", "b"] {
        assert_eq!(client.ask(&["SET", key, &key.repeat(3_000)]), "+OK");
    }
    let in_time = |began: Instant| assert!(began.elapsed() < Duration::from_secs(20), "{began:?}");
    let busy = || {
        let mut busy = server.connect();
        let id = busy.line("CLIENT ID");
        busy.send(&b"LCS a b LEN\r\n".repeat(3_000));
        assert_eq!(busy.reply(), ":0");
        (busy, id[1..].to_string())
    };
    let (mut killed, id) = busy();
    let began = Instant::now();
    assert_eq!(client.line("PING"), "+PONG");
    assert_eq!(client.line(&format!("CLIENT KILL ID {id}")), ":1");
    let mut rest = Vec::new();
    // It may be reset, since not all of it was read.
    let _ = killed.stream.read_to_end(&mut rest);
    assert!(rest.len() < 4 * 1_000, "{}", rest.len());
    in_time(began);
    let (_busy, _) = busy();
    let began = Instant::now();
    server.stop().unwrap();
    in_time(began);
}

/// What was wrong: the time was not looked at behind commands that should be fast, each of which sums a whole value,
/// nor behind those that are collected.
#[test]
fn a_batch_that_reads_long_values_gives_way() {
    let server = TestServer::with(|config| config.threads = 1);
    let mut client = server.connect();
    assert_eq!(client.line("SETRANGE k 67108863 x"), ":67108864");
    let mut busy = server.connect();
    let id = busy.line("CLIENT ID");
    let began = Instant::now();
    busy.ask(&["INCR", "k"]);
    let alone = began.elapsed();
    busy.send(&encode(&["INCR", "k"]).repeat(2_000));
    busy.reply();
    let began = Instant::now();
    assert_eq!(client.line("PING"), "+PONG");
    assert_eq!(client.line(&format!("CLIENT KILL ID {}", &id[1..])), ":1");
    let (took, limit) = (began.elapsed(), Duration::from_secs(2) + 500 * alone);
    assert!(took < limit, "{took:?}, where one takes {alone:?}");
    // Of those that are looked up together only what is answered is read.
    let first_byte = |count: usize| {
        let mut busy = server.connect();
        let began = Instant::now();
        busy.send(&encode(&["GET", "k"]).repeat(count));
        assert_eq!(busy.stream.read(&mut [0]).unwrap(), 1);
        began.elapsed()
    };
    let alone = (0..3).map(|_| first_byte(1)).max().unwrap();
    let many = (0..3).map(|_| first_byte(64)).min().unwrap();
    assert!(many < 10 * alone, "{many:?}, where one takes {alone:?}");
}

/// The server closed connections with requests unread, which resets them: replies that were on their
/// way, of requests that were done, were lost.
#[test]
fn a_shutdown_loses_no_reply_of_a_client_that_goes_on_sending() {
    let mut server = TestServer::with(|config| config.shutdown_grace = Duration::from_secs(60));
    let mut client = server.connect();
    let mut writer = client.stream.try_clone().unwrap();
    let text = "x".repeat(4_000);
    std::thread::scope(|scope| {
        let requests = [encode(&["INCR", "n"]), encode(&["ECHO", &text])].concat();
        scope.spawn(move || while writer.write_all(&requests).is_ok() {});
        let text = format!("\"{text}\"");
        for count in 1..=100 {
            assert_eq!(client.reply(), format!(":{count}"));
            assert_eq!(client.reply(), text);
        }
        server.handle.shutdown();
        // Much is on its way by now, and is read slowly.
        let (rest, mut replies, mut chunk) = (client.buffered(), Vec::new(), [0; 500]);
        let received = loop {
            std::thread::yield_now();
            match client.stream.read(&mut chunk) {
                Ok(0) => break Ok(()),
                Ok(size) => replies.extend_from_slice(&chunk[..size]),
                Err(error) => break Err(error),
            }
        };
        let _ = client.stream.shutdown(std::net::Shutdown::Both);
        server.wait().unwrap();
        let replies = [rest, replies].concat();
        received.expect("no reply was lost");
        let mut numbers =
            replies.split(|&byte| byte == b'\n').filter(|line| line.starts_with(b":"));
        let last = numbers.next_back().map_or("100".into(), |line| {
            String::from_utf8(line[1..].to_vec()).unwrap().trim().to_string()
        });
        let done = server.store.default_map().get(b"n").unwrap().unwrap();
        assert_eq!(String::from_utf8(done).unwrap(), last, "what was done was answered");
    });
}

#[test]
fn a_second_run_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = everleaf::Options::new().create(true).open(folder.path().join("p")).unwrap();
    let config = everleaf_server::Config { port: 0, ..Default::default() };
    let server = everleaf_server::Server::bind(config, Arc::new(store)).unwrap();
    server.handle().shutdown();
    server.run().unwrap();
    assert!(matches!(server.run(), Err(everleaf_server::ServerError::AlreadyRan)));
}

#[test]
fn a_port_in_use_is_reported() {
    let server = TestServer::start();
    let config = everleaf_server::Config { port: server.address.port(), ..Default::default() };
    let Err(error) = everleaf_server::Server::bind(config, Arc::clone(&server.store)) else {
        panic!("two servers on one port");
    };
    assert!(error.to_string().contains("another port"), "{error}");
}

#[test]
fn a_stopped_server_lets_the_store_go() {
    let folder = tempfile::tempdir().unwrap();
    let store = everleaf::Options::new().create(true).open(folder.path().join("p")).unwrap();
    let store = Arc::new(store);
    let config = everleaf_server::Config { port: 0, ..Default::default() };
    let server = everleaf_server::Server::bind(config, Arc::clone(&store)).unwrap();
    let handle = server.handle();
    handle.shutdown();
    server.run().unwrap();
    drop(server);
    let store = Arc::try_unwrap(store).unwrap_or_else(|_| panic!("the handle keeps the store"));
    store.close().unwrap();
    assert!(handle.local_addr().is_some());
}
