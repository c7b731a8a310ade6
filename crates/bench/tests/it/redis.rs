//! The bench over the network, against a small server of this test that answers like Redis.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use everleaf_bench::measure::redis::{self, Server};
use everleaf_bench::measure::{Case, Length, Settings};
use everleaf_bench::report::Report;
use everleaf_bench::{Arrivals, BenchError, Workload};

type Pairs = Arc<Mutex<BTreeMap<Vec<u8>, Vec<u8>>>>;

/// How the server behaves.
#[derive(Clone, Copy, PartialEq)]
enum Mood {
    Honest,
    /// Forgets every hundredth key.
    Forgetful,
    /// Answers every SET by an error.
    ReadOnly,
    /// Wants a password.
    Closed,
}

fn serve(mood: Mood) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it is bound").to_string();
    let pairs = Pairs::default();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let pairs = pairs.clone();
            thread::spawn(move || answer_all(stream.expect("a client comes"), &pairs, mood));
        }
    });
    address
}

fn answer_all(stream: TcpStream, pairs: &Pairs, mood: Mood) -> Option<()> {
    stream.set_nodelay(true).expect("a socket");
    let mut output = stream.try_clone().expect("a socket");
    let mut input = BufReader::new(stream);
    let mut is_open = mood != Mood::Closed;
    loop {
        let words = read_request(&mut input)?;
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let reply = match words.as_slice() {
            [b"AUTH", password] => {
                is_open |= *password == b"secret";
                if is_open { b"+OK\r\n".to_vec() } else { b"-WRONGPASS no\r\n".to_vec() }
            }
            _ if !is_open => b"-NOAUTH Authentication required.\r\n".to_vec(),
            words => answer(words, &mut pairs.lock().expect("no panic"), mood),
        };
        output.write_all(&reply).ok()?;
    }
}

fn read_request(input: &mut impl BufRead) -> Option<Vec<Vec<u8>>> {
    let count = read_number(input, '*')?;
    let mut words = Vec::new();
    for _ in 0..count {
        let size = read_number(input, '$')?;
        let mut word = vec![0; size + 2];
        input.read_exact(&mut word).ok()?;
        word.truncate(size);
        words.push(word);
    }
    Some(words)
}

fn read_number(input: &mut impl BufRead, kind: char) -> Option<usize> {
    let mut line = String::new();
    input.read_line(&mut line).ok()?;
    line.trim_end().strip_prefix(kind)?.parse().ok()
}

fn bulk(value: Option<&Vec<u8>>) -> Vec<u8> {
    match value {
        None => b"$-1\r\n".to_vec(),
        Some(value) => [format!("${}\r\n", value.len()).as_bytes(), value, b"\r\n"].concat(),
    }
}

fn answer(words: &[&[u8]], pairs: &mut BTreeMap<Vec<u8>, Vec<u8>>, mood: Mood) -> Vec<u8> {
    match words {
        [b"PING"] => b"+PONG\r\n".to_vec(),
        [b"INFO"] => bulk(Some(&b"redis_version:9.9.9\r\nused_memory:12345\r\n".to_vec())),
        [b"DBSIZE"] => format!(":{}\r\n", pairs.len()).into_bytes(),
        [b"SET", ..] if mood == Mood::ReadOnly => b"-READONLY You can't write\r\n".to_vec(),
        [b"SET", key, value] => {
            if mood != Mood::Forgetful || key[key.len() - 1] % 100 != 0 {
                pairs.insert(key.to_vec(), value.to_vec());
            }
            b"+OK\r\n".to_vec()
        }
        [b"GET", key] => bulk(pairs.get(*key)),
        [b"DEL", key] => format!(":{}\r\n", u8::from(pairs.remove(*key).is_some())).into_bytes(),
        [b"MGET", keys @ ..] => {
            let values = keys.iter().map(|key| bulk(pairs.get(*key))).collect::<Vec<_>>();
            [format!("*{}\r\n", values.len()).into_bytes(), values.concat()].concat()
        }
        _ => b"-ERR unknown command\r\n".to_vec(),
    }
}

const KEYS: u64 = 3000;
const OPERATIONS: u64 = 1200;

fn server(mood: Mood) -> Server {
    let (connections, depth) = (6, 4);
    Server { address: serve(mood), password: None, connections, depth, is_loading: true }
}

fn settings(workloads: &[Workload], threads: usize) -> Settings {
    let case = |workload: &Workload| Case {
        workload: *workload,
        distribution: workload.default_distribution(0.99),
        threads,
    };
    Settings {
        keys: KEYS,
        key_size: 16,
        value_size: 20,
        cases: workloads.iter().map(case).collect(),
        rounds: 2,
        length: Length::Operations(OPERATIONS),
        batch: 10,
        miss_region: 1 << 20,
        ..Settings::default()
    }
}

fn run(server: &Server, settings: &Settings) -> Result<Report, BenchError> {
    redis::run(server, settings, &mut |_| {})
}

const PLAIN: [Workload; 13] = [
    Workload::Load,
    Workload::Get,
    Workload::GetAbsent,
    Workload::GetMany,
    Workload::Update,
    Workload::Insert,
    Workload::Remove,
    Workload::YcsbA,
    Workload::YcsbD,
    Workload::YcsbF,
    Workload::Writes { percent: 30 },
    Workload::Mix4To16To1,
    Workload::MixQuarters,
];

#[test]
fn every_workload_on_single_keys_is_asked_and_answered_in_full() {
    for threads in [1, 2] {
        let report = run(&server(Mood::Honest), &settings(&PLAIN, threads)).unwrap();
        for row in &report.rows {
            for round in &row.rounds {
                let (operations, units) = match row.workload {
                    "load" => (KEYS, KEYS),
                    "get-many" => (OPERATIONS / 10, OPERATIONS),
                    _ => (OPERATIONS, OPERATIONS),
                };
                assert_eq!((round.operations, round.units), (operations, units), "{row:?}");
            }
            assert_eq!(row.latency.samples, 2 * row.rounds[0].operations, "every one is timed");
        }
        assert_eq!(report.setup.domain, "redis 9.9.9");
        let text = redis::render(&report);
        assert!(text.contains("redis 9.9.9 at 127.0.0.1") && text.contains("ycsb-f"), "{text}");
    }
}

#[test]
fn in_an_open_loop_latency_counts_from_when_a_request_was_due() {
    let arrivals = Some(Arrivals { per_second: 20_000.0, burst: 1 });
    let open = Settings { arrivals, ..settings(&[Workload::Get], 1) };
    let report = run(&server(Mood::Honest), &open).unwrap();
    // 1,200 requests at 20,000 a second: 60 ms, but for luck.
    assert!(report.rows[0].rounds.iter().all(|round| round.elapsed_ns > 40_000_000));
    assert_eq!(report.rows[0].latency.samples, 2 * OPERATIONS);
    assert!(redis::render(&report).contains("20,000 requests a second are due"));
}

#[test]
fn a_server_that_is_absent_errs_or_forgets_is_named() {
    let good = settings(&[Workload::Get, Workload::Update], 1);
    let fault = |server: &Server, settings: &Settings| match run(server, settings) {
        Err(error) => error.to_string(),
        Ok(report) => panic!("{report:?}"),
    };
    let nobody = Server { address: "127.0.0.1:1".to_owned(), ..server(Mood::Honest) };
    assert!(fault(&nobody, &good).contains("cannot reach the server at 127.0.0.1:1"));
    let text = fault(&server(Mood::ReadOnly), &good);
    assert!(text.contains("answers SET by \"READONLY You can't write\""), "{text}");
    let text = fault(&server(Mood::Forgetful), &good);
    assert!(text.contains("does not have the key \""), "{text}");
    let text = fault(&server(Mood::Honest), &settings(&[Workload::Scan], 1));
    assert!(text.contains("answers RANGE by \"ERR unknown command"), "{text}");
    let closed = server(Mood::Closed);
    assert!(fault(&closed, &good).contains("NOAUTH"));
    let wrong = Server { password: Some("guess".to_owned()), ..closed.clone() };
    assert!(fault(&wrong, &good).contains("WRONGPASS"));
    let right = Server { password: Some("secret".to_owned()), ..closed };
    assert!(run(&right, &good).is_ok());
    let crowd = settings(&[Workload::Get], 7);
    assert!(fault(&server(Mood::Honest), &crowd).contains("connection for each thread"));
    let tpcc = settings(&["tpcc-w1".parse().unwrap()], 1);
    assert!(fault(&server(Mood::Honest), &tpcc).contains("over the network"));
}
