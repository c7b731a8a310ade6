//! A server on a store with a log: what was answered is in the log, many writes share a wait, and
//! saving works while it serves.

#![allow(clippy::unwrap_used, reason = "tests may fail")]

use std::time::Duration;

use crate::support::{TestServer, encode, eventually};
use everleaf::{Durability, Options, Store};

fn open(path: &std::path::Path, durability: Durability) -> Store {
    Options::new().create(true).max_size_bytes(1 << 30).durability(durability).open(path).unwrap()
}

#[test]
fn what_was_answered_is_rebuilt_from_the_log_of_a_lost_pool() {
    for durability in [Durability::Power, Durability::Interval(Duration::from_millis(10))] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pool");
        let mut server = TestServer::on(folder, open(&path, durability), |_| {});
        let mut client = server.connect();
        let mut requests = Vec::new();
        for number in 0..500 {
            requests.extend(encode(&["SET", &format!("key:{number}"), &number.to_string()]));
        }
        client.send(&requests);
        for _ in 0..500 {
            assert_eq!(client.reply(), "+OK");
        }
        for line in ["MULTI", "INCR key:7", "DEL key:8", "EXPIREAT key:9 4000000000"] {
            client.line(line);
        }
        assert_eq!(client.line("EXEC"), "[:8 :1 :1]");
        assert_eq!(client.line("SAVE"), "+OK");
        assert_eq!(client.line("SET after 1"), "+OK");
        let info = client.line("INFO persistence");
        assert!(info.contains("aof_enabled:1") && info.contains("rdb_last_bgsave_status:ok"));
        server.stop().unwrap();
        let TestServer { store, folder, .. } = &server;
        store.sync().unwrap();
        // As a crash of the machine: the log is copied, and the pool is not.
        let copy = folder.path().join("copy.log");
        std::fs::create_dir(&copy).unwrap();
        for file in std::fs::read_dir(folder.path().join("pool.log")).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), copy.join(file.file_name())).unwrap();
        }
        let again = open(&folder.path().join("copy"), durability);
        assert!(again.rebuilt().is_some());
        assert_eq!(again.default_map().len(), 500);
        assert_eq!(again.default_map().get(b"key:7").unwrap(), Some(b"8".to_vec()));
        assert_eq!(again.default_map().get(b"key:8").unwrap(), None);
        assert_eq!(again.default_map().get(b"key:499").unwrap(), Some(b"499".to_vec()));
    }
}

/// A write that met the end of the log, as on a full disk, was not answered at all: its client saw no more than the end
/// of the connection, and so did a client that waited for what it wrote.
#[test]
fn who_writes_while_the_log_ends_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("pool"), Durability::Power);
    let server = TestServer::on(folder, store, |_| {});
    let (reader, mut writer) = (server.connect(), server.connect());
    assert_eq!(writer.line("SET first value"), "+OK");
    // What is open can be written, but there is no next segment: what it is made of has its name in use.
    let log = server.folder.path().join("pool.log");
    let names = std::fs::read_dir(&log)
        .unwrap()
        .filter_map(|it| it.unwrap().file_name().into_string().ok());
    let number = |name: String| u64::from_str_radix(name.strip_prefix("log-")?, 16).ok();
    let last = names.filter_map(number).max().unwrap();
    std::fs::write(log.join(format!("spare-{:016x}", last + 1)), "").unwrap();
    let value = vec![b'v'; 1 << 20];
    let mut count = 0;
    let told = loop {
        // Of two replies that go together the first tells of nothing that can be lost.
        let set = encode(&["SET".as_bytes(), b"key", &value]);
        writer.send(&[encode(&["ECHO", "said"]), set].concat());
        let said = writer.reply();
        if said != "\"said\"" {
            break said;
        }
        match writer.reply() {
            reply if reply == "+OK" => count += 1,
            reply => break reply,
        }
        assert!(count < 1000, "the log goes on");
    };
    assert!(count > 30, "{count}");
    assert!(told.starts_with("-MISCONF what was written since the last reply may be"), "{told}");
    assert!(told.contains("the log has failed"), "{told}");
    writer.assert_closed();
    // Reads go on, on both event loops; writes are refused, and their connections go on, too.
    let mut others = [server.connect(), server.connect(), reader];
    for client in &mut others {
        for _ in 0..2 {
            assert_eq!(client.line("GET first"), "\"value\"");
            let told = client.line("SET other value");
            assert!(told.starts_with("-MISCONF the log has failed"), "{told}");
            assert_eq!(client.line("GET other"), "nil");
        }
    }
}

#[test]
fn saving_without_a_log_writes_a_backup_beside_the_pool() {
    let server = TestServer::start();
    let mut client = server.connect();
    assert_eq!(client.line("SET k v"), "+OK");
    assert_eq!(client.line("BGSAVE"), "+Background saving started");
    let backup = server.folder.path().join("test.pool.backup");
    eventually("the backup is there", || {
        client.line("INFO persistence").contains("rdb_bgsave_in_progress:0") && backup.exists()
    });
    assert_eq!(client.line("SET k w"), "+OK");
    assert_eq!(client.line("SAVE"), "+OK");
    let saved: u64 = client.line("LASTSAVE")[1..].parse().unwrap();
    assert!(saved > 1_600_000_000);
    let copy = Options::new().read_only(true).open(&backup).unwrap();
    assert_eq!(copy.default_map().get(b"k").unwrap(), Some(b"w".to_vec()));
}

/// What was acknowledged and lost: a server went on without a word when the folder of its log was removed.
#[test]
fn a_server_whose_log_is_removed_says_so_at_the_next_write() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("pool"), Durability::Power);
    let server =
        TestServer::on(folder, store, |config| config.metrics = Some("127.0.0.1:0".into()));
    let mut client = server.connect();
    assert_eq!(client.line("SET first value"), "+OK");
    std::fs::remove_dir_all(server.folder.path().join("pool.log")).unwrap();
    let told = client.line("SET second value");
    assert!(told.starts_with("-MISCONF"), "{told}");
    assert!(told.contains("somebody has removed it"), "{told}");
    assert_eq!(server.connect().line("GET first"), "\"value\"");
    assert!(server.store.has_log_failed(), "/health asks for this");
}

/// What was acknowledged and lost: the same of a pool without a log.
#[test]
fn a_server_whose_pool_is_removed_saves_what_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let pool = folder.path().join("pool");
    let server = TestServer::on(folder, open(&pool, Durability::Process), |_| {});
    let mut client = server.connect();
    assert_eq!(client.line("SET first value"), "+OK");
    std::fs::remove_file(&pool).unwrap();
    let mut told = String::new();
    eventually("it is noticed", || {
        told = client.line("SET second value");
        told != "+OK"
    });
    assert!(told.starts_with("-MISCONF") && told.contains("`SAVE`"), "{told}");
    assert!(server.store.is_pool_gone(), "/health asks for this");
    assert_eq!(client.line("GET first"), "\"value\"");
    assert_eq!(client.line("SAVE"), "+OK");
    let copy = Options::new().read_only(true).open(pool.with_extension("backup")).unwrap();
    assert_eq!(copy.default_map().get(b"first").unwrap(), Some(b"value".to_vec()));
    assert!(client.line("FLUSHALL").starts_with("-MISCONF"));
    assert!(client.line("LPUSH list element").starts_with("-MISCONF"));
}
