//! Scripts of several connections, of which some wait, whose replies must be the same in both servers.

use super::{Connection, Redis};
use crate::support::{TestServer, encode, eventually};

/// Each line begins with a connection: `a: X` asks, `a! X` sends what must wait, `a? ` reads what came of it.
const SCRIPTS: &[&str] = &[
    "a! BLPOP k 0\nb: RPUSH k 1 2\na?\nb: LRANGE k 0 -1",
    "a: HELLO 3\na! BZPOPMIN j k 0\nb: ZADD k 1.5 m 2 n\na?\nb: ZRANGE k 0 -1 WITHSCORES",
    "a: HELLO 3\na! BZMPOP 0 2 j k MAX COUNT 2\nb: ZADD k 1.5 m 2 n 3 o\na?",
    "a! BZMPOP 0 1 k MIN\nb: ZADD k 1.5 m 2 n\na?\na! BZPOPMAX j 0\nb: ZADD j 1 m\na?",
    "a! BLMPOP 0 2 j k RIGHT COUNT 2\nb: RPUSH k 1 2 3\na?\nb: LRANGE k 0 -1",
    "a! BLMOVE k j LEFT RIGHT 0\nb! BLMOVE j l LEFT LEFT 0\nc: RPUSH k x y\na?\nb?\nc: LRANGE l 0 -1",
    "a! BRPOPLPUSH k k 0\nb! BLPOP k 0\nc: RPUSH k x\na?\nb?\nc: EXISTS k",
    "a! BLPOP k 0\nb! BRPOP k 0\nc: RPUSH k 1 2 3 4\na?\nb?\nc: LRANGE k 0 -1",
    "a! BLPOP j k 0\nb: MULTI\nb: RPUSH k 1\nb: RPUSH j 2\nb: EXEC\na?\nb: EXISTS j k",
    "a! BLPOP k 0\nb: MULTI\nb: RPUSH k 1\nb: DEL k\nb: EXEC\nb: RPUSH k 2\na?",
    "a! BLPOP k 0\nb: MULTI\nb: RPUSH k 1\nb: RPUSH k 2\nb: LPOP k\nb: EXEC\na?",
    "a! BLPOP k 0\nb: ZADD k 1 m\nb: DEL k\nb: SET k x\nb: DEL k\nb: RPUSH k y\na?",
    "a! BLPOP k 0\nb! BZPOPMIN k 0\nc: ZADD k 1 m 2 n\nb?\nc: ZREM k n\nc: LPUSH k x\na?",
    "c: SET s x\na! BRPOPLPUSH k s 0\nb! BLPOP k 0\nc: RPUSH k 1 2\na?\nb?\nc: LRANGE k 0 -1",
    "a! BLPOP k 0.05\na?\na! BLMOVE k j LEFT LEFT 0.05\na?\na! BRPOPLPUSH k j 0.05\na?",
    "a: HELLO 3\na! BLPOP k 0.05\na?\na! BLMOVE k j LEFT LEFT 0.05\na?\na! BZMPOP 0.05 1 k MIN\na?",
    "a! BLPOP k 0\nb: WATCH k\nb: MULTI\nb: PING\nc: RPUSH k 1\nb: EXEC\na?",
    "a! BLMOVE k j LEFT LEFT 0\nb: WATCH j\nb: MULTI\nb: PING\nc: RPUSH k 1\nb: EXEC\na?",
    "a! BLPOP k k k 0\nb: RPUSH k 1 2\na?\nb: LLEN k",
    "a! BLPOP k 0\nb: RPUSH j 1\nb: LMOVE j k LEFT LEFT\na?",
    "a! BZPOPMIN k 0\nb: ZADD j 1 m\nb: ZUNIONSTORE k 1 j\na?\na! BZPOPMIN l 0\nb: ZRANGESTORE l j 0 -1\na?",
    "a: MULTI\na: BLPOP k 0\na: BLMOVE k j LEFT LEFT 0\na: BZPOPMIN k 0\na: BLMPOP 0 1 k LEFT\na: EXEC",
    "a: MULTI\na: RPUSH k 1\na: BLPOP k 0\na: BRPOP k 0\na: EXEC",
    "a: CLIENT REPLY ON\na! BLPOP k 0\nb: RPUSHX k 1\nb: RPUSH k 1\na?",
    "a! BLMPOP 0 1 k LEFT COUNT 2\nb! BLMPOP 0 1 k LEFT COUNT 10\nc: RPUSH k 1 2 3 4 5\na?\nb?\nc: EXISTS k",
];

/// Whether a request may wait for longer than a moment.
pub fn waits_long(request: &[Vec<u8>]) -> bool {
    let timeout = match request[0].to_ascii_lowercase().as_slice() {
        b"blmpop" | b"bzmpop" => request.get(1),
        b"blpop" | b"brpop" | b"blmove" | b"brpoplpush" | b"bzpopmin" | b"bzpopmax" => {
            request.last()
        }
        _ => None,
    };
    let text = timeout.and_then(|timeout| std::str::from_utf8(timeout).ok());
    let seconds = text.and_then(|text| text.parse::<f64>().ok());
    seconds.is_some_and(|seconds| {
        let milliseconds = (seconds * 1000.0).ceil();
        milliseconds == 0.0 || (10.0..1e19).contains(&milliseconds)
    })
}

/// A server as a script sees it.
struct Seen {
    connections: Vec<Connection>,
    control: Connection,
    waiting: usize,
}

impl Seen {
    fn new(address: std::net::SocketAddr) -> Self {
        let connections = (0..3).map(|_| Connection::new(address)).collect();
        Seen { connections, control: Connection::new(address), waiting: 0 }
    }

    fn blocked(&mut self) -> usize {
        let info = self.control.ask(&[b"INFO".to_vec(), b"clients".to_vec()]);
        let text = String::from_utf8(info.bytes).unwrap();
        let count = text.split("blocked_clients:").nth(1).unwrap();
        count.split('\r').next().unwrap().parse().unwrap()
    }

    /// Does a line of a script. Returns the reply, if there is one.
    fn step(&mut self, line: &str) -> Option<String> {
        let connection = usize::from(line.as_bytes()[0] - b'a');
        let words: Vec<Vec<u8>> =
            line[2..].split_whitespace().map(|word| word.as_bytes().to_vec()).collect();
        match line.as_bytes()[1] {
            b'!' => {
                self.waiting = self.blocked();
                let stream = &mut self.connections[connection].stream;
                std::io::Write::write_all(stream, &encode(&words)).unwrap();
                let expected = self.waiting + 1;
                eventually("the command waits", || self.blocked() == expected);
                None
            }
            b'?' => Some(self.connections[connection].reply().bytes.escape_ascii().to_string()),
            _ => Some(self.connections[connection].ask(&words).bytes.escape_ascii().to_string()),
        }
    }
}

#[test]
fn clients_that_wait_are_served_as_those_of_redis() {
    let Some(redis) = Redis::start() else {
        println!("skipped: there is no redis-server here; apt-get install redis-server");
        return;
    };
    let server = TestServer::start();
    for script in SCRIPTS {
        let (mut theirs, mut ours) = (Seen::new(redis.address), Seen::new(server.address));
        for seen in [&mut theirs, &mut ours] {
            seen.control.ask(&[b"FLUSHALL".to_vec()]);
        }
        for line in script.lines() {
            let (expected, told) = (theirs.step(line), ours.step(line));
            // What HELLO tells of the server is its own.
            if !line.contains("HELLO") {
                assert_eq!(told, expected, "{line} of\n{script}");
            }
        }
    }
}
