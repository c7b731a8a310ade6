//! `everleaf import` from sources, and to targets, that are not as most are: a dump that goes on behind its end,
//! servers of a newer or older format, and such as have little memory.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests may fail, and say what they skip"
)]

use crate::common::PoolFolder;
use crate::redis::{Redis, SERVERS, fill};
use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

/// Changes the words of a request, and the reply to it.
type Alter = dyn Fn(&mut Vec<Vec<u8>>, Vec<u8>) -> Vec<u8> + Send + Sync;

/// Passes on what clients and a server say, one request after the other: first `alter` sees each request, with an empty
/// reply, and then with the server's. Where it listens.
fn between(
    port: u16,
    alter: impl Fn(&mut Vec<Vec<u8>>, Vec<u8>) -> Vec<u8> + Send + Sync + 'static,
) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("redis://{}", listener.local_addr().unwrap());
    let alter: Arc<Alter> = Arc::new(alter);
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (client, alter) = (client.unwrap(), Arc::clone(&alter));
            let server = TcpStream::connect(("127.0.0.1", port)).unwrap();
            // The end of either is the end of both.
            std::thread::spawn(move || pass_on(client, server, &*alter));
        }
    });
    address
}

fn pass_on(mut client: TcpStream, mut server: TcpStream, alter: &Alter) -> io::Result<()> {
    let mut requests = BufReader::new(client.try_clone()?);
    let mut replies = BufReader::new(server.try_clone()?);
    loop {
        let mut words = words_of(&mut requests)?;
        alter(&mut words, Vec::new());
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in &words {
            request.extend(format!("${}\r\n", word.len()).bytes());
            request.extend([&word[..], b"\r\n"].concat());
        }
        server.write_all(&request)?;
        let mut reply = Vec::new();
        copy_reply(&mut replies, &mut reply)?;
        client.write_all(&alter(&mut words, reply))?;
        if words[0].eq_ignore_ascii_case(b"PSYNC") {
            // What follows are no replies.
            std::thread::spawn(move || io::copy(&mut requests, &mut server));
            return io::copy(&mut replies, &mut client).map(drop);
        }
    }
}

fn line_of(input: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    match input.read_until(b'\n', &mut line)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(line),
    }
}

/// The number in a line, behind its mark.
fn number_in(line: &[u8]) -> i64 {
    std::str::from_utf8(&line[1..]).unwrap().trim_end().parse().unwrap()
}

fn words_of(input: &mut impl BufRead) -> io::Result<Vec<Vec<u8>>> {
    let count = number_in(&line_of(input)?);
    let mut words = Vec::new();
    for _ in 0..count {
        let mut word = vec![0; number_in(&line_of(input)?) as usize + 2];
        input.read_exact(&mut word)?;
        word.truncate(word.len() - 2);
        words.push(word);
    }
    Ok(words)
}

fn copy_reply(input: &mut impl BufRead, reply: &mut Vec<u8>) -> io::Result<()> {
    let line = line_of(input)?;
    reply.extend_from_slice(&line);
    match line[0] {
        b'$' if number_in(&line) >= 0 => {
            let mut text = vec![0; number_in(&line) as usize + 2];
            input.read_exact(&mut text)?;
            reply.extend(text);
            Ok(())
        }
        b'*' => (0..number_in(&line)).try_for_each(|_| copy_reply(input, reply)),
        _ => Ok(()),
    }
}

/// CRC-64 with the polynomial of Jones.
fn crc64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |sum, byte| {
        (0..8)
            .fold(sum ^ u64::from(*byte), |sum, _| (sum >> 1) ^ ((sum & 1) * 0x95ac_9329_ac4b_c9b5))
    })
}

/// The payload in a reply to `DUMP`, as a server of Redis 7.4 makes it; with the type of hashes whose fields expire,
/// if the key is called so.
fn of_version_12(words: &[Vec<u8>], mut reply: Vec<u8>) -> Vec<u8> {
    if !words[0].eq_ignore_ascii_case(b"DUMP") || !reply.starts_with(b"$") || reply == b"$-1\r\n" {
        return reply;
    }
    let start = reply.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let end = reply.len() - 2;
    if words[1] == b"expiring fields" {
        reply[start] = 24;
    }
    reply[end - 10..end - 8].copy_from_slice(&12_u16.to_le_bytes());
    let sum = crc64(&reply[start..end - 8]);
    reply[end - 8..end].copy_from_slice(&sum.to_le_bytes());
    reply
}

/// What was lost: Redis 4 to 6 keep changes behind the dump of an append-only file, and Redis 7 beside it. The dump
/// alone was imported, and compared with itself.
/// A name that is no UTF-8 was refused without being named.
#[test]
fn a_file_to_import_may_have_any_name() {
    use std::os::unix::ffi::OsStrExt;
    let place = PoolFolder::empty();
    let name = std::ffi::OsStr::from_bytes(b"d\xe9.rdb");
    let file = [&b"REDIS0009\xfe\0"[..], b"\0\x01k\x01v", b"\xff", &[0; 8]].concat();
    std::fs::write(place.path(".").join(name), file).expect("room");
    let mut command = place.command(["import"]);
    let output = command.arg(name).arg("new.pool").output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(place.run(["get", "new.pool", "k"]).succeeded(), "v");
}

#[test]
fn what_follows_a_dump_is_not_left_away_in_silence() {
    for program in SERVERS {
        let place = PoolFolder::empty();
        let options = ["--appendonly", "yes", "--aof-use-rdb-preamble", "yes"];
        let Some(redis) = Redis::start(program, &place, &options) else { continue };
        redis.run("set k v\nsave\n");
        let whole = place.read("dump.rdb");
        for more in [&b"*1\r\n$4\r\nPING\r\n"[..], b"\0"] {
            place.write("long.rdb", [&whole[..], more].concat());
            let refused = place.run(["import", "long.rdb", "new.pool"]).failed(4);
            let at = format!("long.rdb: at byte {}: ", whole.len());
            assert!(refused.contains(&at) && refused.contains("lost"), "{refused}");
        }
        let base = |folder: &str| {
            let mut files = std::fs::read_dir(place.path(folder)).unwrap();
            let found = files.find_map(|file| {
                let name = file.unwrap().file_name().into_string().unwrap();
                name.ends_with(".base.rdb").then_some(name)
            });
            format!("{folder}/{}", found.unwrap())
        };
        let refused = place.run(["import", &base("appendonlydir"), "new.pool"]).failed(4);
        assert!(refused.contains("at byte ") && refused.contains(".incr.aof"), "{refused}");
        assert!(!place.path("new.pool").exists());
        place.run(["import", "dump.rdb", "new.pool"]).succeeded();
    }
}

/// What was refused: whatever there is at a server of Redis 7.4 or 8, of which `DUMP` has a newer version; its file
/// was, too, and told to copy from the server.
#[test]
fn a_server_of_a_newer_format_is_read_by_type() {
    for program in SERVERS {
        let place = PoolFolder::empty();
        let Some(redis) = Redis::start(program, &place, &[]) else { continue };
        fill(&redis);
        redis.run("pexpireat bighash 4102444800000\n");
        let before = redis.digest();
        let newer = || between(redis.port, |words, reply| of_version_12(words, reply));
        let told = place.run(["import", &newer(), "new.pool"]).succeeded();
        assert!(told.contains("imported 6") && told.contains("compared with the source"), "{told}");
        place.run(["export", "new.pool", "--format", "resp", "--output", "new.resp"]).succeeded();
        redis.run("flushall\n");
        redis.pipe(&place.path("new.resp"));
        assert_eq!(redis.digest(), before);
        // What has no counterpart is told, and never taken without what it lacks here.
        redis.run("flushall\nset k v\nxadd stream * f v\nhset \"expiring fields\" f v\n");
        let refused = place.run(["import", &newer(), "none.pool"]).failed(4);
        assert!(refused.contains("--skip-unsupported"), "{refused}");
        let told = place.run(["import", &newer(), "some.pool", "--skip-unsupported"]).succeeded();
        assert!(told.starts_with("imported 1 key") && told.contains("2 unsupported"), "{told}");
    }
}

/// The same of a hash that is read in pieces, by which its fields' times are not told.
#[test]
fn a_large_hash_with_fields_that_expire_is_refused() {
    let place = PoolFolder::empty();
    let Some(redis) = Redis::start(SERVERS[0], &place, &[]) else { return };
    redis.run("hset h f v g w\n");
    for (times, is_taken) in
        [("*2\r\n:-1\r\n:-1\r\n", true), ("*2\r\n:-1\r\n:4102444800000\r\n", false)]
    {
        let address = between(redis.port, move |words, reply| match words[0] == b"HPEXPIRETIME" {
            true => times.into(),
            false => reply,
        });
        let ended = place.run(["import", &address, "new.pool", "--whole-size-max", "1"]);
        match is_taken {
            true => drop(ended.succeeded()),
            false => assert!(
                ended.failed(4).contains("\"h\" of database 0 holds a hash whose fields expire")
            ),
        }
        let _ = std::fs::remove_file(place.path("new.pool"));
    }
}

/// A target of a newer format could get all, and then not be compared.
#[test]
fn a_target_of_a_newer_format_is_compared_by_type() {
    let (place, other) = (PoolFolder::empty(), PoolFolder::empty());
    let Some(source) = Redis::start(SERVERS[0], &place, &[]) else { return };
    let target = Redis::start(SERVERS[0], &other, &[]).unwrap();
    fill(&source);
    let newer = between(target.port, |words, reply| of_version_12(words, reply));
    let told = place.run(["import", &source.address(), &newer]).succeeded();
    assert!(told.starts_with("copied 6") && told.contains("compared with the source"), "{told}");
    assert_eq!(source.digest(), target.digest());
    // What the target has not taken as it was is told, of each type.
    for (command, damaged) in [
        ("SET", "set s v\n"),
        ("RPUSH", "rpush l a b\n"),
        ("SADD", "sadd t a b\n"),
        ("HSET", "hset h f v g w\n"),
        ("ZADD", "zadd z 1 a 2 b\n"),
    ] {
        source.run("flushall\n");
        source.run(damaged);
        target.run("flushall\n");
        let newer = between(target.port, move |words, reply| {
            if reply.is_empty() && words[0] == command.as_bytes() {
                // A member of another name, or another value.
                let last = words.last_mut().unwrap();
                *last = [&last[..], b"x"].concat();
            }
            of_version_12(words, reply)
        });
        let refused = place.run(["import", &source.address(), &newer]).failed(1);
        assert!(refused.contains("1 key of the source differ"), "{command}: {refused}");
    }
}

/// What was lost: keys of a source with a limit of memory and a policy of eviction, by the replies to 64 `DUMP`s at
/// once that it had to hold.
#[test]
fn a_source_holds_replies_of_a_few_long_values_only() {
    for program in SERVERS {
        let place = PoolFolder::empty();
        let options = ["--rdbcompression", "no", "--maxmemory-policy", "allkeys-lru"];
        let Some(redis) = Redis::start(program, &place, &options) else { continue };
        redis.run("debug populate 64 k 1048576\n");
        let used = redis.run("info memory\n");
        let used = used.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap();
        let used: u64 = used.trim().parse().unwrap();
        redis.run(&format!("config set maxmemory {}\n", used + (40 << 20)));
        let told = place.run(["import", &redis.address(), "new.pool"]).succeeded();
        let stats = redis.run("info stats\n");
        assert!(stats.contains("evicted_keys:0\r\n"), "{told}{stats}");
        assert!(told.starts_with("imported 64 keys"), "{told}");
    }
}

/// What was wrong: keys with less than a day to live had a year at a target that does not tell when they expire, and
/// the copy was said to be compared.
#[test]
fn a_target_that_does_not_tell_times_cannot_follow() {
    let (place, other) = (PoolFolder::empty(), PoolFolder::empty());
    let Some(source) = Redis::start(SERVERS[0], &place, &[]) else { return };
    let target = Redis::start(SERVERS[0], &other, &[]).unwrap();
    source.run("set k v px 3600000\n");
    let older = || {
        between(target.port, |words, reply| {
            if words[0] == b"PEXPIRETIME" {
                words[0] = b"XEXPIRETIME".to_vec();
            }
            reply
        })
    };
    for options in [&["--follow", "1"][..], &["--follow", "1", "--skip-unsupported"]] {
        let (from, to) = (source.address(), older());
        let refused = place.run([&["import", &from, &to][..], options].concat()).failed(7);
        assert!(
            refused.contains("--follow") && refused.contains("nothing was copied"),
            "{refused}"
        );
        assert_eq!(target.run("dbsize\n"), "0\n");
    }
    // Without it nothing is held back.
    place.run(["import", &source.address(), &older(), "--skip-unsupported"]).succeeded();
    let left: i64 = target.run("pttl k\n").trim().parse().unwrap();
    assert!((1..=3_600_000).contains(&left), "{left}");
}
