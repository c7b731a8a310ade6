//! `everleaf import` and `export --format resp`, against Redis and Valkey, as far as they are installed.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests may fail, and say what they skip"
)]

use crate::common::PoolFolder;
use crate::redis::{Redis, SERVERS, fill, free_port};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Passes on what a client and a server say, and does something before the second `SCAN`: when all is copied, and
/// nothing compared. Ends with the connection. Where it listens.
fn between_copy_and_comparison(port: u16, act: impl FnOnce() + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("redis://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut server = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let (mut from_server, mut to_client) =
            (server.try_clone().unwrap(), client.try_clone().unwrap());
        std::thread::spawn(move || std::io::copy(&mut from_server, &mut to_client));
        let (mut act, mut scans, mut bytes) = (Some(act), 0, [0; 4096]);
        while let Ok(size) = client.read(&mut bytes) {
            // The client waits for each reply to it, so it comes in one piece. `HSCAN` and its like are others.
            scans += usize::from(bytes[..size].windows(6).any(|word| word == b"\nSCAN\r"));
            if scans == 2 {
                act.take().into_iter().for_each(|act| act());
            }
            if size == 0 || server.write_all(&bytes[..size]).is_err() {
                break;
            }
        }
        let _ = server.shutdown(std::net::Shutdown::Both);
    });
    address
}

/// Passes on what a client and a server say, as a server of Redis 6.2 would that does not know `PEXPIRETIME`, and that
/// takes longer over the first answers than over the same ones later. Where it listens.
fn older(port: u16) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("redis://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut server = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let (mut from_server, mut to_client) =
            (server.try_clone().unwrap(), client.try_clone().unwrap());
        std::thread::spawn(move || std::io::copy(&mut from_server, &mut to_client));
        let (mut delays, mut bytes) = ([30, 60].map(Duration::from_millis).to_vec(), [0; 1 << 16]);
        while let Ok(size) = client.read(&mut bytes) {
            let sent = &mut bytes[..size];
            if let Some(at) = sent.windows(11).position(|word| word == b"PEXPIRETIME") {
                sent[at] = b'X';
            }
            if sent.windows(4).any(|word| word == b"PTTL") {
                // What a key has to live when it is asked is less by this when it is told.
                delays.pop().into_iter().for_each(std::thread::sleep);
            }
            if size == 0 || server.write_all(sent).is_err() {
                break;
            }
        }
        let _ = server.shutdown(std::net::Shutdown::Both);
    });
    address
}

/// A server that tells how long keys have to live, and not until when, was refused as one that others write to: no two
/// readings told the same moment.
#[test]
fn an_older_server_is_taken_with_its_times() {
    for program in SERVERS {
        let place = PoolFolder::empty();
        let Some(redis) = Redis::start(program, &place, &[]) else { continue };
        redis.run("set a v px 900000000\nrpush list x y z\npexpire list 900000000\nset b w\n");
        for size in ["1", "1000000"] {
            let pool = format!("{size}.pool");
            let arguments = ["import", &older(redis.port), &pool, "--whole-size-max", size];
            let told = place.run(arguments).succeeded();
            assert!(told.contains("compared with the source"), "{told}");
        }
        let store = everleaf::Options::new().open(place.path("1.pool")).unwrap();
        let expiry = store.default_map().get_with_expiry("a", |_, expiry| expiry).unwrap().unwrap();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let left = expiry.as_unix_ms() - now.as_millis() as u64;
        assert!((890_000_000..=900_000_100).contains(&left), "{left}");
    }
}

/// A string of half a gigabyte was given up after a minute, in which a busy server was still making its reply.
#[test]
fn a_silent_server_is_waited_for_as_long_as_is_said() {
    let place = PoolFolder::empty();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("redis://{}", listener.local_addr().unwrap());
    let refused = place.run(["import", &address, "new.pool", "--timeout", "1"]).failed(7);
    assert!(refused.contains("silent for 1 s") && refused.contains("--timeout"), "{refused}");
    let help = place.run(["import", "--help"]).succeeded();
    assert!(help.contains("[default: 600]"), "{help}");
}

#[test]
fn a_server_and_its_file_are_imported_and_go_back() {
    for program in SERVERS {
        let place = PoolFolder::empty();
        let Some(redis) = Redis::start(program, &place, &[]) else { continue };
        fill(&redis);
        let before = redis.digest();
        redis.run("save\n");
        let told = place.run(["import", &redis.address(), "live.pool"]).succeeded();
        assert!(told.contains("imported 6") && told.contains("3 databases"), "{told}");
        let json = place.run(["import", "dump.rdb", "file.pool", "--json"]).succeeded();
        assert!(json.contains("\"by_database\":{\"0\":613,\"15\":1,\"3\":2}"), "{json}");
        for pool in ["live.pool", "file.pool"] {
            assert!(place.run(["check", pool]).succeeded().starts_with("sound"));
            let file = format!("{pool}.resp");
            place.run(["export", pool, "--format", "resp", "--output", &file]).succeeded();
            redis.run("flushall\n");
            redis.pipe(&place.path(&file));
            assert_eq!(redis.digest(), before, "{pool}");
        }
        assert!(place.run(["import", "dump.rdb", "file.pool"]).failed(4).contains("exist"));
        let one = format!("{}/3", redis.address());
        let told = place.run(["import", &one, "one.pool"]).succeeded();
        assert!(told.starts_with("imported 2 keys of 1 database"), "{told}");
    }
}

#[test]
fn what_there_is_not_here_is_refused_or_left_away() {
    for program in SERVERS {
        let place = PoolFolder::empty();
        let Some(redis) = Redis::start(program, &place, &[]) else { continue };
        redis.run(
        "set k v\nxadd stream * f v\nxgroup create stream g 0\nxreadgroup group g c streams stream >\nset l v\nsave\n",
    );
        for source in [redis.address(), "dump.rdb".to_string()] {
            let refused = place.run(["import", &source, "new.pool"]).failed(4);
            assert!(
                refused.contains("\"stream\"") && refused.contains("--skip-unsupported"),
                "{refused}"
            );
            assert!(!place.path("new.pool").exists());
            let told = place.run(["import", &source, "new.pool", "--skip-unsupported"]).succeeded();
            assert!(told.starts_with("imported 2 keys"), "{told}");
            std::fs::remove_file(place.path("new.pool")).unwrap();
        }
        redis.run("config set requirepass secret\n");
        let refused = place.run(["import", &redis.address(), "new.pool"]).failed(7);
        assert!(refused.contains("NOAUTH"), "{refused}");
        let address = format!("redis://default:secret@127.0.0.1:{}", redis.port);
        place.run(["import", &address, "new.pool", "--skip-unsupported"]).succeeded();
        let nobody = place.run(["import", "redis://127.0.0.1:1", "other.pool"]).failed(7);
        assert!(nobody.contains("127.0.0.1:1 cannot be read"), "{nobody}");
    }
}

/// A file with a changed byte, or without its end, is refused with the place, and nothing is made.
#[test]
fn a_damaged_file_makes_no_pool() {
    for program in SERVERS {
        let place = PoolFolder::empty();
        let Some(redis) = Redis::start(program, &place, &[]) else { continue };
        redis.run("set k v px 900000000\nrpush l a b 3\nhset h f v\nzadd z 1 a 2 b\nsadd s 1 2 3\nselect 2\nset x \
            y\nsave\n");
        let whole = place.read("dump.rdb");
        let steps = (0..whole.len()).step_by(9).flat_map(|at| {
            let mut changed = whole.clone();
            changed[at] ^= 0x41;
            [changed, whole[..at].to_vec()]
        });
        for (number, bytes) in steps.enumerate() {
            place.write("bad.rdb", &bytes);
            let refused =
                place.run(["import", "bad.rdb", "new.pool", "--skip-unsupported"]).failed(4);
            assert!(refused.contains("bad.rdb: at byte "), "{number}: {refused}");
        }
        let left: Vec<_> =
            std::fs::read_dir(place.path("")).unwrap().map(|it| it.unwrap().file_name()).collect();
        assert!(!left.iter().any(|name| name.to_string_lossy().contains("new.pool")), "{left:?}");
        let mut newer = whole.clone();
        newer[5..9].copy_from_slice(b"0012");
        place.write("newer.rdb", &newer);
        let refused = place.run(["import", "newer.rdb", "new.pool"]).failed(4);
        assert!(refused.contains("version 12") && refused.contains("at byte 0"), "{refused}");
        assert!(place.run(["import", "none.rdb", "new.pool"]).failed(7).contains("none.rdb"));
    }
}

/// What was wrong: of a key that a file has twice the last one was taken, and without a comparison nobody was told.
#[test]
fn a_file_with_a_key_twice_makes_no_pool() {
    let place = PoolFolder::empty();
    let string = |key: &str| format!("\0\u{1}{key}\u{1}v").into_bytes();
    // So long that it is read in pieces.
    let count = 1_400_000_u32;
    let mut set = [&b"\x02\x01s\x80"[..], &count.to_be_bytes()].concat();
    for number in 0..count {
        set.extend([&b"\x0c"[..], &number.to_be_bytes(), b"a member"].concat());
    }
    let (k, l, s) = (string("k"), string("l"), string("s"));
    let twice = [
        (vec![&k, &l, &k], "at byte 21: the key \"k\" of database 0 is there a second time"),
        (vec![&s, &set], "at byte 16: the key \"s\""),
    ];
    for (records, expected) in twice {
        let records: Vec<u8> = records.into_iter().flatten().copied().collect();
        // A check sum of zeros is none.
        let file = [&b"REDIS0009\xfe\0"[..], &records, b"\xff", &[0; 8]].concat();
        place.write("twice.rdb", &file);
        for options in [&[][..], &["--no-verify"]] {
            let arguments = [&["import", "twice.rdb", "new.pool"][..], options].concat();
            let refused = place.run(arguments).failed(4);
            assert!(refused.contains(&format!("twice.rdb: {expected}")), "{refused}");
        }
        assert!(!place.path("new.pool").exists());
    }
    // Of two databases they are two keys.
    let file = [&b"REDIS0009\xfe\0"[..], &k, b"\xfe\x01", &k, b"\xff", &[0; 8]].concat();
    place.write("two.rdb", &file);
    let told = place.run(["import", "two.rdb", "new.pool"]).succeeded();
    assert!(told.contains("imported 2 keys of 2 databases"), "{told}");
}

/// It was code 4, as if the file were wrong.
#[test]
fn an_import_into_a_full_pool_is_code_6() {
    let place = PoolFolder::empty();
    let value = vec![b'v'; 1 << 16];
    let mut records = Vec::new();
    for key in 0..100_u8 {
        records.extend([&[0, 1, key, 0x80][..], &(1_u32 << 16).to_be_bytes(), &value].concat());
    }
    place.write("d.rdb", [&b"REDIS0009\xfe\0"[..], &records, b"\xff", &[0; 8]].concat());
    let refused = place.run(["import", "d.rdb", "new.pool", "--max-size", "2M"]).failed(6);
    assert!(refused.contains("full") && refused.contains("no pool was made"), "{refused}");
    assert!(!place.path("new.pool").exists());
    place.run(["import", "d.rdb", "new.pool", "--max-size", "64M"]).succeeded();
}

/// What was wrong: a file with a collection without members was refused, which Redis loads without that key.
#[test]
fn a_collection_without_members_is_left_away_and_counted() {
    let place = PoolFolder::empty();
    let (empty, key) = (b"\x04\x01h\0", b"\0\x01k\x01v");
    place.write("empty.rdb", [b"REDIS0009\xfe\0", &empty[..], key, b"\xff", &[0; 8]].concat());
    let told = place.run(["import", "empty.rdb", "new.pool"]).succeeded();
    assert!(told.contains("imported 1 key of 1 database") && told.contains("compared"), "{told}");
    assert!(told.contains(", 1 empty collection left away"), "{told}");
    assert_eq!(place.run(["get", "new.pool", "k"]).succeeded().trim(), "v");
    let json = place.run(["import", "empty.rdb", "other.pool", "--json"]).succeeded();
    assert!(json.contains("\"empty\":1") && json.contains("\"skipped\":0"), "{json}");
}

/// A key that went at the source after it was copied stayed, and the pool was told to be as the source.
#[test]
fn what_goes_at_the_source_while_it_is_copied_goes_here_too() {
    for program in SERVERS {
        let place = PoolFolder::empty();
        let Some(redis) = Redis::start(program, &place, &[]) else { continue };
        redis.run("set kept v\nset gone v\nrpush list a b\nset t v px 900000000\n");
        let port = redis.port.to_string();
        let change = |line: &'static str| {
            let port = port.clone();
            between_copy_and_comparison(redis.port, move || {
                let words = ["-p", &port].into_iter().chain(line.split(' '));
                assert!(Command::new("redis-cli").args(words).output().unwrap().status.success());
            })
        };
        let told = place.run(["import", &change("del gone list t"), "new.pool"]).succeeded();
        assert!(
            told.starts_with("imported 1 key of 1 database")
                && told.contains("compared with the source, 3 keys removed"),
            "{told}"
        );
        assert!(place.run(["check", "new.pool"]).succeeded().starts_with("sound"));
        place.run(["export", "new.pool", "--format", "resp", "--output", "new.resp"]).succeeded();
        assert!(!String::from_utf8(place.read("new.resp")).unwrap().contains("gone"));
        // What is changed or new is a difference, also if it is of a type that there is not here.
        for line in ["set kept w", "set other v", "expire kept 1000", "rename kept other"] {
            redis.run("flushall\nset kept v\n");
            let refused = place.run(["import", &change(line), "none.pool"]).failed(1);
            assert!(refused.contains("no pool was made"), "{line}: {refused}");
        }
        redis.run("flushall\nset kept v\n");
        let source =
            change("eval redis.call('del','kept');redis.call('xadd','kept','*','f','v') 0");
        let refused = place.run(["import", &source, "none.pool", "--skip-unsupported"]).failed(1);
        assert!(refused.contains("\"kept\" of database 0"), "{refused}");
        assert!(!place.path("none.pool").exists());
    }
}

#[test]
fn keys_of_high_databases_are_told_and_a_pipe_is_refused() {
    for program in SERVERS {
        let place = PoolFolder::empty();
        let started = Redis::start(program, &place, &["--databases", "32"]);
        let Some(redis) = started else { continue };
        redis.run("set k v\nselect 20\nset k v\nsave\n");
        let told = place.run(["import", &redis.address(), "new.pool"]).succeeded();
        assert!(told.contains("database 20 has keys") && told.contains("--databases 21"), "{told}");
        let refused = place.run(["serve", "new.pool", "--port", "0"]).failed(2);
        assert!(refused.contains("--databases to 21") && !refused.contains("ready"), "{refused}");
        let json = place.run(["import", &redis.address(), "json.pool", "--json"]).succeeded();
        assert!(json.contains("\"databases_needed\":21"), "{json}");
        let pipe = place.path("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        // Nobody writes to it: a process that opened it would wait.
        let refused = place.run(["import", "pipe", "other.pool"]).failed(2);
        assert!(refused.contains("--no-verify") && refused.contains("pipe"), "{refused}");
        let folder = place.run(["import", ".", "other.pool", "--no-verify"]).failed(2);
        assert!(folder.contains("folder"), "{folder}");
        let whole = place.read("dump.rdb");
        let writer = std::thread::spawn(move || std::fs::write(pipe, whole).unwrap());
        let told = place.run(["import", "pipe", "other.pool", "--no-verify"]).succeeded();
        assert!(told.contains("imported 2 keys") && told.contains("not compared"), "{told}");
        writer.join().unwrap();
    }
}

/// With a small limit in place of that of 64 MiB.
#[test]
fn large_collections_are_taken_and_compared_in_pieces() {
    for program in SERVERS {
        let place = PoolFolder::empty();
        let Some(redis) = Redis::start(program, &place, &[]) else { continue };
        fill(&redis);
        redis.run("pexpireat bighash 4102444800000\n");
        let before = redis.digest();
        let import = |source: &str, pool: &str| {
            place.run(["import", source, pool, "--whole-size-max", "1000"])
        };
        let told = import(&redis.address(), "new.pool").succeeded();
        assert!(told.contains("imported 6") && told.contains("compared with the source"), "{told}");
        assert!(place.run(["check", "new.pool"]).succeeded().starts_with("sound"));
        place.run(["export", "new.pool", "--format", "resp", "--output", "new.resp"]).succeeded();
        redis.run("flushall\n");
        redis.pipe(&place.path("new.resp"));
        assert_eq!(redis.digest(), before);
        // Every difference is noticed that comes behind the copy; what the comparison asks is the same of both servers.
        let count = if program == SERVERS[0] { usize::MAX } else { 2 };
        let changes = [
            ("bighash", "hset bighash 5 other"),
            ("bighash", "hdel bighash 5"),
            ("bighash", "hset bighash new x"),
            ("bighash", "persist bighash"),
            ("long", "lset long 300 x"),
            ("long", "rpush long x"),
            ("long", "lmove long long left right"),
            ("bigset", "sadd bigset x"),
            ("bigset", "spop bigset"),
            ("bigz", "zincrby bigz 0.5 m7"),
            ("bigz", "zrem bigz m7"),
            ("bigz", "rename h bigz"),
            ("h", "rename long h"),
        ];
        for (key, line) in changes.into_iter().take(count) {
            redis.run("flushall\n");
            fill(&redis);
            redis.run("pexpireat bighash 4102444800000\n");
            let port = redis.port.to_string();
            let source = between_copy_and_comparison(redis.port, move || {
                let words = ["-p", &port].into_iter().chain(line.split(' '));
                let done = Command::new("redis-cli").args(words).output().unwrap();
                assert!(done.status.success() && !done.stdout.starts_with(b"ERR"), "{line}");
            });
            let refused = import(&source, "none.pool").failed(1);
            let named = format!("\"{key}\" of database 0");
            assert!(refused.contains(&named), "{program}, {line}: {refused}");
            assert!(!place.path("none.pool").exists());
        }
    }
}

/// A server of ours on a pool of its own.
pub(crate) fn serve(place: &PoolFolder, pool: &str) -> Redis {
    let port = free_port();
    let mut command = place.command(["serve", pool, "--port", &port.to_string()]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let output = child.stderr.take().unwrap();
    Redis::when_up(child, port, output, "ready on ")
}

/// What is written to a source while it is followed: of all types, alone and in transactions, in two databases; with
/// commands that it sends on as others, because they depend on chance or on the time.
fn writes(round: u32) -> String {
    let mut lines = format!(
        "select 0\nset new:{round} v ex 100000\nincr n\nincrbyfloat f 0.25\nspop bigset 3\nlpush l x{round}\n\
         lmove long l left right\nhset h r{round} 1\nhincrbyfloat h sum 1.5\nzincrby z 1 a\nzpopmin bigz 2\n\
         getdel k{round}\nrename new:{round} renamed:{round}\nappend s {round}\nsetrange zeros {round} y\n\
         multi\nset t1 {round}\nrpush t2 {round}\ndel t3\nexec\nselect 3\nset s {round}\nsadd set m{round}\n"
    );
    if round.is_multiple_of(5) {
        lines +=
            "sort l by nosort store sorted\ncopy s c replace\nexpire set 100000\npersist set\n";
    }
    lines
}

/// A server is copied to one of ours that runs, and from there to an empty one of its own kind, while it is written to.
#[test]
fn a_server_is_followed_until_it_is_silent() {
    for program in SERVERS {
        let place = PoolFolder::empty();
        let Some(source) = Redis::start(program, &place, &[]) else { continue };
        let ours = serve(&place, "ours.pool");
        fill(&source);
        let mut follow = place.command([
            "import",
            &source.address(),
            &ours.address(),
            "--follow",
            "3",
            "--whole-size-max",
            "1000",
        ]);
        let follow = follow.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let start = Instant::now();
        while source.run("wait 1 100\n").trim() != "1" {
            assert!(start.elapsed() < Duration::from_secs(60), "nobody follows");
        }
        for round in 0..60 {
            source.run(&writes(round));
        }
        // What the source's `WAIT` says is there, is there.
        assert_eq!(source.run("set last v\nwait 1 20000\n"), "OK\n1\n");
        assert_eq!(ours.run("get last\n"), "v\n");
        let ended = follow.wait_with_output().unwrap();
        let told = String::from_utf8(ended.stdout).unwrap();
        let remarks = String::from_utf8(ended.stderr).unwrap();
        assert!(ended.status.success(), "{told}{remarks}");
        assert!(
            told.starts_with("copied 6") && told.contains("compared with the source"),
            "{told}"
        );
        assert!(remarks.contains("in step with the source"), "{remarks}");
        // Back into a pool, whose keys are those of the source.
        let before = source.digest();
        place.run(["import", &ours.address(), "back.pool"]).succeeded();
        let export = ["export", "back.pool", "--format", "resp", "--output", "back.resp"];
        place.run(export).succeeded();
        source.run("flushall\n");
        source.pipe(&place.path("back.resp"));
        assert_eq!(source.digest(), before);
    }
}

/// What was lost: all databases but the first of a source that does not tell which it has; the copy was said to be
/// compared.
#[test]
fn a_source_that_hides_its_databases_has_one_named() {
    let place = PoolFolder::empty();
    let (source, other) = (serve(&place, "source.pool"), serve(&place, "other.pool"));
    source.run(
        "set a 1\nselect 1\nset b 2\n\
         acl setuser mover on >x ~* +scan +type +dump +pexpiretime +select +memory|usage\n",
    );
    let address = source.address().replace("redis://", "redis://mover:x@");
    for target in ["new.pool", &other.address()] {
        let refused = place.run(["import", &address, target]).failed(7);
        assert!(refused.contains("+info") && refused.contains("redis://HOST/0"), "{refused}");
    }
    assert!(!place.path("new.pool").exists());
    let told = place.run(["import", &format!("{address}/1"), "new.pool"]).succeeded();
    assert!(told.contains("1 key") && told.contains("compared with the source"), "{told}");
}

#[test]
fn a_target_is_empty_and_a_source_has_a_stream() {
    let place = PoolFolder::empty();
    let (ours, other) = (serve(&place, "ours.pool"), serve(&place, "other.pool"));
    let refused = place.run(["import", &ours.address(), &other.address()]).failed(7);
    assert!(refused.contains("stream of changes") && refused.contains("into a pool"), "{refused}");
    let refused = place.run(["import", "dump.rdb", &other.address()]).failed(2);
    assert!(refused.contains("redis-cli --pipe"), "{refused}");
    let refused = place.run(["import", &ours.address(), "new.pool", "--follow", "3"]).failed(2);
    assert!(refused.contains("--follow") && !place.path("new.pool").exists(), "{refused}");
    other.run("set k v\n");
    let refused = place.run(["import", &ours.address(), &other.address()]).failed(2);
    assert!(refused.contains("1 key") && refused.contains("FLUSHALL"), "{refused}");
    let Some(redis) = Redis::start(SERVERS[0], &place, &[]) else { return };
    other.run("flushall\n");
    redis.run("set k v\nxadd stream * f v\n");
    let refused = place.run(["import", &redis.address(), &other.address()]).failed(4);
    assert!(refused.contains("\"stream\"") && refused.contains("--skip-unsupported"), "{refused}");
    other.run("flushall\n");
    let told = place.run(["import", &redis.address(), &other.address(), "--skip-unsupported"]);
    let told = told.succeeded();
    assert!(told.starts_with("copied 1 key, 1 unsupported item skipped"), "{told}");
    // A target that is no copy any more is told.
    other.run("flushall\n");
    let mut follow = place.command([
        "import",
        &redis.address(),
        &other.address(),
        "--skip-unsupported",
        "--follow",
        "2",
    ]);
    let follow = follow.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let start = Instant::now();
    while redis.run("wait 1 100\n").trim() != "1" {
        assert!(start.elapsed() < Duration::from_secs(60), "nobody follows");
    }
    // What is left away of a transaction takes nothing else with it.
    redis.run("multi\nxadd stream * f w\nset in v\nexec\nrename stream renamed\nset last v\n");
    assert_eq!(redis.run("wait 1 20000\n"), "1\n");
    assert_eq!(other.run("mget in last\n"), "v\nv\n");
    other.run("set k w\n");
    let ended = follow.wait_with_output().unwrap();
    let remarks = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{remarks}");
    assert!(remarks.contains("\"k\" of database 0"), "{remarks}");
}

/// A replica passes on what its master sends, in which no database is named anew; and what is published is no change:
/// it went into the database of the last key of the snapshot, and the end was never seen.
#[test]
fn a_replica_is_followed_as_its_master() {
    for program in SERVERS {
        let place = PoolFolder::empty();
        let Some(master) = Redis::start(program, &place, &[]) else { continue };
        let (folder, port) = (PoolFolder::empty(), master.port.to_string());
        let replica = Redis::start(program, &folder, &["--replicaof", "127.0.0.1", &port]).unwrap();
        let ours = serve(&place, "ours.pool");
        master.run("select 3\nset x 1\nselect 0\nset a 1\nset s v px 30000\n");
        let start = Instant::now();
        while replica.run("get a\n") != "1\n" {
            assert!(start.elapsed() < Duration::from_secs(60), "no replica");
        }
        let follow = ["import", &replica.address(), &ours.address(), "--follow", "2"];
        let mut follow = place.command(follow);
        let follow = follow.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        while ours.run("get a\n") != "1\n" {
            assert!(start.elapsed() < Duration::from_secs(60), "nobody follows");
        }
        let noise = ["-p", &port, "-r", "-1", "-i", "0.05", "publish", "channel", "noise"];
        let mut noise =
            Command::new("redis-cli").args(noise).stdout(Stdio::null()).spawn().unwrap();
        master.run("set b 2\ndel a\npexpire s 100000000\n");
        let ended = follow.wait_with_output().unwrap();
        noise.kill().unwrap();
        noise.wait().unwrap();
        let remarks = String::from_utf8(ended.stderr).unwrap();
        assert!(ended.status.success(), "{remarks}");
        assert_eq!(ours.run("mget a b s\nselect 3\nmget a b x\n"), "\n2\nv\nOK\n\n\n1\n");
        assert!(ours.run("pttl s\n").trim().parse::<u64>().unwrap() > 10_000_000);
    }
}
