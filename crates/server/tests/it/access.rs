//! What a client may do: the password, the limits before it, the number of clients, silence.

mod tls;

use std::time::Duration;

use crate::support::{Client, TestServer, encode, eventually};

fn with_password() -> TestServer {
    TestServer::with(|config| config.password = Some("open sesame".into()))
}

/// All commands the server knows, by asking it.
fn all_commands(server: &TestServer) -> Vec<String> {
    let mut client = server.connect();
    assert_eq!(client.ask(&["AUTH", "open sesame"]), "+OK");
    let list = client.line("COMMAND LIST");
    let names = list.split('"').skip(1).step_by(2).filter(|name| !name.contains('|'));
    names.map(str::to_string).collect()
}

#[test]
fn without_the_password_only_the_way_in_and_out_is_open() {
    let server = with_password();
    let commands = all_commands(&server);
    assert!(commands.len() > 40);
    let open = ["auth", "hello", "quit", "reset"];
    for name in &commands {
        // Too few, enough, and too many arguments: none may tell more than the others.
        for count in 1..=4 {
            let mut request = vec![name.clone()];
            request.resize(count, "1".into());
            let reply = server.connect().ask(&request);
            if open.contains(&name.as_str()) {
                assert_ne!(reply, "-NOAUTH Authentication required.", "{request:?}");
            } else {
                assert_eq!(reply, "-NOAUTH Authentication required.", "{request:?}");
            }
        }
    }
    assert_eq!(server.connect().line("NOSUCH"), "-NOAUTH Authentication required.");
    assert_eq!(server.store.default_map().len(), 0);
}

#[test]
fn pipelined_requests_before_the_password_stay_outside() {
    let server = with_password();
    let mut client = server.connect();
    let mut stream = b"SET a 1\r\n".to_vec();
    stream.extend(encode(&["GET", "a"]));
    stream.extend(encode(&["SET", "a", "2"]));
    stream.extend(encode(&["AUTH", "open sesame"]));
    stream.extend(encode(&["GET", "a"]));
    stream.extend(encode(&["SET", "a", "3"]));
    client.send(&stream);
    let replies: Vec<String> = (0..6).map(|_| client.reply()).collect();
    let refused = "-NOAUTH Authentication required.";
    assert_eq!(replies, [refused, refused, refused, "+OK", "nil", "+OK"]);
    assert_eq!(client.line("RESET"), "+RESET");
    assert_eq!(client.line("GET a"), refused);
}

#[test]
fn the_password_is_taken_in_every_spelling_of_the_request() {
    let server = with_password();
    let wrong = "-WRONGPASS invalid username-password pair or user is disabled.";
    let tries: [(&[&str], &str); 8] = [
        (&["AUTH", "open sesame"], "+OK"),
        (&["AUTH", "default", "open sesame"], "+OK"),
        (&["AUTH", "somebody", "open sesame"], wrong),
        (&["AUTH", "Open sesame"], wrong),
        (&["AUTH", ""], wrong),
        (&["AUTH", "open sesame "], wrong),
        (&["AUTH", "a", "b", "c"], "-ERR syntax error"),
        (&["AUTH"], "-ERR wrong number of arguments for 'auth' command"),
    ];
    for (request, expected) in tries {
        let mut client = server.connect();
        assert_eq!(client.ask(request), expected, "{request:?}");
        let allowed = client.line("GET k") == "nil";
        assert_eq!(allowed, expected == "+OK", "{request:?}");
    }
    let mut client = server.connect();
    assert!(client.line("HELLO 3").starts_with("-NOAUTH HELLO must be called"));
    assert_eq!(client.ask(&["HELLO", "3", "AUTH", "default", "no"]), wrong);
    let hello = client.ask(&["HELLO", "3", "AUTH", "default", "open sesame", "SETNAME", "me"]);
    assert!(hello.starts_with('{'), "{hello}");
    assert_eq!(client.line("CLIENT GETNAME"), "\"me\"");
}

#[test]
fn a_password_nobody_asked_for_is_an_error() {
    let server = TestServer::start();
    let mut client = server.connect();
    assert!(client.line("AUTH x").starts_with("-ERR AUTH <password> called without any password"));
    assert_eq!(client.line("AUTH default x"), "+OK");
    assert!(client.line("AUTH other x").starts_with("-WRONGPASS"));
}

#[test]
fn strangers_may_send_little() {
    let server = with_password();
    let refused = |stream: &[u8]| {
        let mut client = server.connect();
        client.send(stream);
        let reply = client.reply();
        client.assert_closed();
        reply
    };
    assert_eq!(refused(b"*11\r\n"), "-ERR Protocol error: unauthenticated multibulk length");
    assert_eq!(
        refused(b"*2\r\n$4\r\nAUTH\r\n$16385\r\n"),
        "-ERR Protocol error: unauthenticated bulk length"
    );
    assert_eq!(refused(&[b'x'; 16_385]), "-ERR Protocol error: too big inline request");
    let mut client = server.connect();
    assert!(client.ask(&["AUTH", &"x".repeat(16_384)]).starts_with("-WRONGPASS"));
    assert_eq!(client.ask(&["AUTH", "open sesame"]), "+OK");
    assert_eq!(client.ask(&["ECHO", &"x".repeat(100_000)]).len(), 100_002);
}

#[test]
fn one_client_too_many_is_told_so() {
    let server = TestServer::with(|config| config.client_count_max = 3);
    let mut clients: Vec<Client> = (0..3).map(|_| server.connect()).collect();
    for client in &mut clients {
        assert_eq!(client.line("PING"), "+PONG");
    }
    let mut refused = server.connect();
    assert_eq!(refused.rest(), b"-ERR max number of clients reached\r\n");
    assert!(clients[0].line("INFO stats").contains("rejected_connections:1"));
    clients.pop();
    eventually("there is room again", || {
        let mut client = server.connect();
        client.send(b"PING\r\n");
        client.rest_or_pong()
    });
}

#[test]
fn silent_clients_are_closed_and_others_are_not() {
    let server = TestServer::with(|config| config.idle_timeout = Some(Duration::from_secs(1)));
    let (mut silent, mut busy) = (server.connect(), server.connect());
    assert_eq!(silent.line("PING"), "+PONG");
    let start = std::time::Instant::now();
    let reader = std::thread::spawn(move || silent.assert_closed());
    while !reader.is_finished() {
        assert_eq!(busy.line("PING"), "+PONG");
        assert!(start.elapsed() < Duration::from_secs(20), "the silent client was not closed");
    }
    reader.join().unwrap();
    assert!(start.elapsed() >= Duration::from_millis(900), "closed too early");
    assert_eq!(busy.line("PING"), "+PONG");
}

#[test]
fn a_timeout_set_while_everybody_sleeps_takes_effect() {
    let server = TestServer::start();
    let (mut silent, mut admin) = (server.connect(), server.connect());
    assert_eq!(silent.line("PING"), "+PONG");
    assert_eq!(admin.line("CONFIG SET timeout 1"), "+OK");
    silent.assert_closed();
}

#[test]
fn connections_are_spread_evenly_over_the_threads() {
    let server = TestServer::start();
    let mut clients: Vec<Client> = (0..50).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.line("PING");
    }
    let info = clients[0].line("INFO clients");
    assert!(info.contains("thread0_clients:25") && info.contains("thread1_clients:25"), "{info}");
    // Also after one thread's clients left.
    let list = clients[0].line("CLIENT LIST");
    let on_zero: Vec<u16> = list
        .split("\\n")
        .filter(|line| line.contains("loop=0"))
        .map(|line| line.split("addr=127.0.0.1:").nth(1).unwrap().split(' ').next().unwrap())
        .map(|port| port.parse().unwrap())
        .collect();
    assert_eq!(on_zero.len(), 25);
    let keep = clients[0].stream.local_addr().unwrap().port();
    clients.retain(|client| {
        let port = client.stream.local_addr().unwrap().port();
        port == keep || !on_zero.contains(&port)
    });
    let left = clients.len();
    eventually("the closed ones are gone", || {
        clients[0].line("INFO clients").contains(&format!("connected_clients:{left}\\r"))
    });
    while clients.len() < 50 {
        let mut client = server.connect();
        client.line("PING");
        clients.push(client);
    }
    let info = clients[0].line("INFO clients");
    assert!(info.contains("thread0_clients:25") && info.contains("thread1_clients:25"), "{info}");
}
