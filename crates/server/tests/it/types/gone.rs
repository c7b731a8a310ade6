//! Clients that go while a command of theirs waits, and have sent much behind it: that is read on, up to a limit, or
//! the end of their half would never come.

use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use socket2::SockRef;

use crate::support::{Client, TestServer, encode, eventually};

/// More than a socket holds that nobody reads.
const MUCH: usize = 900_000;

/// A number of `INFO`.
fn number(client: &mut Client, name: &str) -> u64 {
    let info = client.line("INFO");
    let rest = info.split(&format!("{name}:")).nth(1).unwrap();
    rest.split("\\r").next().unwrap().parse().unwrap()
}

/// A client on whose stream a command waits.
fn waiting(observer: &mut Client, stream: TcpStream) -> Client {
    let mut client = Client::new(stream);
    client.send(b"BLPOP k 0\r\n");
    eventually("it waits", || number(observer, "blocked_clients") == 1);
    client
}

/// What was lost: the connection. It was not read behind 64 KiB, and so the end of the peer's half, which comes behind
/// them, was never seen.
#[test]
fn who_goes_while_it_waits_is_missed_whatever_it_has_sent() {
    let server = TestServer::start();
    let mut observer = server.connect();
    let requests = b"SET x y\r\n".repeat(MUCH / 9);
    let ends: [fn(Client); 3] = [
        |mut client| {
            client.stream.shutdown(Shutdown::Write).unwrap();
            assert_eq!(client.rest(), b"", "nothing is answered, and the end is");
        },
        drop,
        |client| {
            // A reset.
            SockRef::from(&client.stream).set_linger(Some(Duration::ZERO)).unwrap();
        },
    ];
    for end in ends {
        let mut client = waiting(&mut observer, TcpStream::connect(server.address).unwrap());
        client.send(&requests);
        end(client);
        eventually("it is gone", || number(&mut observer, "connected_clients") == 1);
        assert_eq!(number(&mut observer, "blocked_clients"), 0);
        assert_eq!(
            observer.line("EXISTS x"),
            ":0",
            "what is behind a command that waits is not run"
        );
        assert_eq!(observer.line("RPUSH k 1"), ":1");
        assert_eq!(observer.line("DEL k"), ":1", "nobody was given it");
        eventually("what it had sent is given back", || {
            number(&mut observer, "mem_clients_normal") < 64 << 10
        });
    }
}

#[test]
fn what_is_read_on_is_counted_limited_and_run_in_order() {
    const COUNT: usize = 3_000;
    let server = TestServer::start();
    let mut observer = server.connect();
    let mut client = waiting(&mut observer, TcpStream::connect(server.address).unwrap());
    // More than sockets hold, with commands among it that wait again.
    let pad = "p".repeat(8_000);
    let shown = pad.clone();
    let mut sender = client.stream.try_clone().unwrap();
    let request = move |number: usize| match number % 100 {
        99 => encode(&["BLPOP", "k", "0"]),
        _ => encode(&["ECHO", &format!("{number}:{pad}")]),
    };
    let sending = std::thread::spawn(move || {
        sender.write_all(&(0..COUNT).flat_map(request).collect::<Vec<_>>())
    });
    eventually("much is held", || number(&mut observer, "mem_clients_normal") > MUCH as u64);
    std::thread::sleep(Duration::from_millis(50));
    let held = number(&mut observer, "mem_clients_normal");
    assert!(held < 3 << 20, "{held} bytes are held, which is twice what it may send");
    assert!(!sending.is_finished(), "the server takes whatever is sent");
    assert_eq!(observer.line("RPUSH k 1"), ":1");
    assert_eq!(client.reply(), "[\"k\" \"1\"]");
    for number in 0..COUNT {
        if number % 100 == 99 {
            assert_eq!(observer.line(&format!("RPUSH k {number}")), ":1");
            assert_eq!(client.reply(), format!("[\"k\" \"{number}\"]"));
        } else {
            assert_eq!(client.reply(), format!("\"{number}:{shown}\""));
        }
    }
    sending.join().unwrap().unwrap();
    drop(client);
    eventually("it is gone", || number(&mut observer, "connected_clients") == 1);
}
