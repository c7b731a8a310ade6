//! Saved maps that were damaged, or that a newer module wrote: refused with the place and the reason, and
//! nothing of them is kept.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use redis::{Connection, Value};

use crate::persistence::fill;
use crate::server::{Server, ask, digest, free_port, seed, setting, tell};

/// Bytes of a payload in front of what the module wrote: the kind of the value, and a mark and eight bytes
/// for the type and its version.
const HEAD: usize = 10;
/// Bytes of a payload behind the value: a version of RDB files and a check sum.
const TAIL: usize = 10;

/// The check sum of payloads: CRC-64 with the polynomial of Jones, lowest bit first.
fn crc64(bytes: &[u8]) -> u64 {
    const POLYNOMIAL: u64 = 0xad93_d235_94c9_35a9;
    let reflected = POLYNOMIAL.reverse_bits();
    bytes.iter().fold(0, |sum, byte| {
        (0..8).fold(sum ^ u64::from(*byte), |sum, _| {
            if sum & 1 == 1 { sum >> 1 ^ reflected } else { sum >> 1 }
        })
    })
}

/// Makes the check sum of a payload right, as somebody who means harm would.
fn sign(payload: &mut [u8]) {
    let at = payload.len() - 8;
    let sum = crc64(&payload[..at]);
    payload[at..].copy_from_slice(&sum.to_le_bytes());
}

fn restore(connection: &mut Connection, key: &str, payload: &[u8]) -> Result<(), String> {
    let mut command = redis::cmd("RESTORE");
    command.arg(key).arg(0).arg(payload).arg("REPLACE");
    command.query::<()>(connection).map_err(|error| error.to_string())
}

fn dump(connection: &mut Connection, key: &str) -> Vec<u8> {
    ask(connection, &["DUMP", key]).expect("a payload")
}

#[test]
fn a_newer_version_is_refused_with_its_number() {
    let server = Server::start(&[]);
    let c = &mut server.connect();
    tell(c, &["EL.PUT", "k", "a", "1"]);
    let mut payload = dump(c, "k");
    assert_eq!((payload[0], payload[1]), (7, 0x81), "a module's value, a number of eight bytes");
    let mut same = payload.clone();
    sign(&mut same);
    assert_eq!(same, payload, "our check sum is the server's");
    // The lowest ten bits of the type's number are the version.
    payload[HEAD - 1] += 1;
    sign(&mut payload);
    restore(c, "newer", &payload).expect_err("newer");
    assert_eq!(tell(c, &["EXISTS", "newer"]), Value::Int(0));
    let log = server.log();
    let line = log.lines().find(|line| line.contains("cannot be loaded")).expect("a sentence");
    assert!(line.contains("version 2") && line.contains("load a newer module"), "{line}");
    assert!(line.contains("at byte 0"), "{line}");
}

#[test]
fn damaged_payloads_are_refused_by_the_thousand() {
    let mut server = Server::start(&["--loglevel", "warning"]);
    let c = &mut server.connect();
    let mut random = StdRng::seed_from_u64(seed());
    fill(c, &mut random);
    tell(c, &["DEL", "map7"]);
    let before = digest(c);
    let (mut refused, mut taken) = (0, 0);
    for round in 0..setting("EVERLEAF_PAYLOADS", 6000) {
        let key = format!("map{}", [0, 1, 2, 3, 5, 6][round as usize % 6]);
        let mut payload = dump(c, &key);
        spoil(&mut random, &mut payload);
        sign(&mut payload);
        match restore(c, "damaged", &payload) {
            Err(_) => refused += 1,
            Ok(()) => {
                // Whatever was taken is a map in order.
                taken += 1;
                let names: Vec<Vec<u8>> =
                    ask(c, &["EL.RANGE", "damaged", "-", "+", "NOVALUES"]).expect("a list");
                assert!(!names.is_empty() && names.is_sorted());
                tell(c, &["DEL", "damaged"]);
            }
        }
        assert_eq!(tell(c, &["EXISTS", "damaged"]), Value::Int(0), "nothing half loaded");
    }
    println!("{refused} refused, {taken} taken");
    assert!(refused > taken, "{refused} refused, {taken} taken");
    assert_eq!(digest(c), before);
    assert!(server.is_alive());
    let log = server.log();
    assert!(log.contains("the check sum of a block is wrong"), "{log}");
}

/// Changes, removes, adds or swaps some bytes of what the module wrote.
fn spoil(random: &mut StdRng, payload: &mut Vec<u8>) {
    let end = payload.len() - TAIL;
    let place = |random: &mut StdRng| random.random_range(HEAD..end);
    match random.random_range(0..5) {
        0 => {
            let at = place(random);
            payload[at] ^= 1 << random.random_range(0..8);
        }
        1 => {
            for _ in 0..random.random_range(1..20) {
                let at = place(random);
                payload[at] = random.random();
            }
        }
        2 => {
            let (a, b) = (place(random), place(random));
            payload.drain(a.min(b)..a.max(b));
        }
        3 => {
            let at = place(random);
            let bytes: Vec<u8> = (0..random.random_range(1..50)).map(|_| random.random()).collect();
            payload.splice(at..at, bytes);
        }
        _ => {
            let (a, b) = (place(random), place(random));
            payload.swap(a, b);
            // The number of entries and the lengths in front of the first block.
            let at = random.random_range(HEAD..(HEAD + 8).min(end));
            payload[at] = random.random();
        }
    }
}

/// A server does not start on a file with a damaged map, and says why. The server's own check sum of the file is
/// switched off: it would be found first, or last.
#[test]
fn a_damaged_file_is_refused_at_the_start_with_its_reason() {
    let options = ["--rdbchecksum", "no", "--rdbcompression", "no"];
    let mut server = Server::start(&options);
    let c = &mut server.connect();
    for number in 0..500 {
        tell(c, &["EL.PUT", "map", &format!("entry:{number:04}"), &format!("value:{number:04}")]);
    }
    tell(c, &["SAVE"]);
    server.kill();
    let whole = std::fs::read(server.folder.path().join("dump.rdb")).expect("it was saved");
    let at = whole.windows(10).position(|part| part == b"value:0250").expect("it is not packed");
    let start = |bytes: &[u8]| {
        let folder = tempfile::TempDir::new().expect("a folder");
        std::fs::write(folder.path().join("dump.rdb"), bytes).expect("it can be written");
        let options = options.iter().map(|option| option.to_string()).collect();
        Server::start_in(folder, free_port(), options)
    };
    let Ok(server) = start(&whole) else { panic!("the whole file is refused") };
    assert_eq!(tell(&mut server.connect(), &["EL.COUNT", "map"]), Value::Int(500));
    let mut changed = whole.clone();
    changed[at + 7] ^= 1;
    let Err(log) = start(&changed) else { panic!("a damaged file is loaded") };
    let line = log.lines().find(|line| line.contains("cannot be loaded"));
    let line = line.unwrap_or_else(|| panic!("no reason: {log}"));
    assert!(
        line.contains("the check sum of a block is wrong") && line.contains("at byte"),
        "{line}"
    );
    let Err(log) = start(&whole[..at]) else { panic!("half a file is loaded") };
    assert!(log.contains("Unexpected EOF") || log.contains("cannot be loaded"), "{log}");
}
