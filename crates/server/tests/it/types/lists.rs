//! Lists of runs, which are entries of many elements: whatever is done to them, one by one or together, they have what
//! a model has.

use std::collections::VecDeque;

use super::series::pipeline;
use crate::support::{Client, TestServer, encode, eventually};

/// Numbers that look drawn.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        everleaf::random::next(&mut self.0) % bound
    }
}

/// Whether a command goes from the left.
fn is_left(name: &str) -> bool {
    name.starts_with('L')
}

/// A list, and what is asked of it.
struct Model {
    list: VecDeque<String>,
    random: Random,
    /// Elements that were made.
    made: usize,
}

pub(super) fn bulk(element: Option<String>) -> String {
    element.map_or("nil".into(), |element| format!("\"{element}\""))
}

pub(super) fn array<'e>(elements: impl Iterator<Item = &'e String>) -> String {
    let elements: Vec<String> = elements.map(|element| format!("\"{element}\"")).collect();
    format!("[{}]", elements.join(" "))
}

impl Model {
    fn element(&mut self) -> String {
        self.made += 1;
        let size = [0, 0, 0, 3, 60, 130, 700, 1_020, 3_000][self.random.below(9) as usize];
        format!("e{}{}", self.made, "x".repeat(size))
    }

    /// An element that is there, if there is one.
    fn found(&mut self) -> String {
        let at = self.random.below(self.list.len().max(1) as u64) as usize;
        self.list.get(at).cloned().unwrap_or("none".into())
    }

    fn push(&mut self, name: &str, count: u64) -> (String, String) {
        let mut line = format!("{name} list");
        for _ in 0..count {
            // Long rows of short ones, and of any.
            let element =
                if count > 100 { format!("s{}", self.random.below(500)) } else { self.element() };
            line = format!("{line} {element}");
            match is_left(name) {
                true => self.list.push_front(element),
                false => self.list.push_back(element),
            }
        }
        (line, format!(":{}", self.list.len()))
    }

    fn pop(&mut self, name: &str) -> (String, String) {
        let element = if is_left(name) { self.list.pop_front() } else { self.list.pop_back() };
        (format!("{name} list"), bulk(element))
    }

    fn pop_many(&mut self, name: &str) -> (String, String) {
        let count = [2, 20, 200, 700][self.random.below(4) as usize];
        let line = format!("{name} list {count}");
        if self.list.is_empty() {
            return (line, "nil[]".into());
        }
        let taken: Vec<String> = (0..count.min(self.list.len()))
            .filter_map(
                |_| if is_left(name) { self.list.pop_front() } else { self.list.pop_back() },
            )
            .collect();
        (line, array(taken.iter()))
    }

    fn trim(&mut self) -> (String, String) {
        let len = self.list.len() as u64;
        let first = self.random.below(len / 3 + 2) as usize;
        let last = len as usize - (self.random.below(len / 3 + 2) as usize).min(len as usize);
        self.list.truncate(last + 1);
        self.list.drain(..first.min(self.list.len()));
        (format!("LTRIM list {first} {last}"), "+OK".into())
    }

    fn insert(&mut self) -> (String, String) {
        let (pivot, element, after) = (self.found(), self.element(), self.random.below(2) as usize);
        let line = format!("LINSERT list {} {pivot} {element}", ["BEFORE", "AFTER"][after]);
        let reply = match self.list.iter().position(|it| *it == pivot) {
            _ if self.list.is_empty() => ":0".into(),
            None => ":-1".into(),
            Some(at) => {
                self.list.insert(at + after, element);
                format!(":{}", self.list.len())
            }
        };
        (line, reply)
    }

    fn set(&mut self) -> (String, String) {
        let (element, is_there) = (self.element(), !self.list.is_empty());
        let at = self.random.below(self.list.len() as u64 + 2) as usize;
        let reply = match self.list.get_mut(at) {
            None if is_there => "-ERR index out of range".into(),
            None => "-ERR no such key".into(),
            Some(found) => {
                found.clone_from(&element);
                "+OK".into()
            }
        };
        (format!("LSET list {at} {element}"), reply)
    }

    fn remove(&mut self) -> (String, String) {
        let (element, count) = (self.found(), [-2, 0, 1][self.random.below(3) as usize]);
        let mut places: Vec<usize> =
            (0..self.list.len()).filter(|at| self.list[*at] == element).collect();
        match count {
            1 => places.truncate(1),
            -2 => drop(places.drain(..places.len().saturating_sub(2))),
            _ => {}
        }
        places.iter().rev().for_each(|at| drop(self.list.remove(*at)));
        (format!("LREM list {count} {element}"), format!(":{}", places.len()))
    }

    /// Commands, and their replies.
    fn commands(&mut self) -> Vec<(String, String)> {
        let name = |names: [&'static str; 2], random: &mut Random| names[random.below(2) as usize];
        let push = name(["LPUSH", "RPUSH"], &mut self.random);
        let pop = name(["LPOP", "RPOP"], &mut self.random);
        let count = [1, 3, 10, 40, 700][self.random.below(5) as usize];
        let one = match self.random.below(14) {
            0 => self.push(push, count),
            1..3 => return (0..self.random.below(50)).map(|_| self.push(push, 1)).collect(),
            3..6 => return (0..self.random.below(50)).map(|_| self.pop(pop)).collect(),
            // To and fro at one end, or from one to the other.
            6 => {
                let both = |it: u64, model: &mut Self| match it % 3 {
                    0 => model.pop(pop),
                    _ => model.push(push, 1),
                };
                return (0..self.random.below(30)).map(|it| both(it, self)).collect();
            }
            7 => self.pop_many(pop),
            8 => self.set(),
            9 => self.remove(),
            10 => self.insert(),
            11 => self.trim(),
            12 => {
                let (first, count) = (self.random.below(self.list.len() as u64 + 1) as usize, 150);
                let line = format!("LRANGE list {first} {}", first + count - 1);
                (line, array(self.list.iter().skip(first).take(count)))
            }
            _ => {
                let at = self.random.below(self.list.len() as u64 + 1) as usize;
                (format!("LINDEX list {at}"), bulk(self.list.get(at).cloned()))
            }
        };
        vec![one]
    }

    fn check(&self, client: &mut Client, server: &TestServer) {
        assert_eq!(client.line("LRANGE list 0 -1"), array(self.list.iter()));
        let report = everleaf_server::check_collections(&server.store).unwrap();
        assert_eq!(report.problems, Vec::<String>::new());
    }
}

/// Among them those that are trimmed by more than is freed at once, and pushed to where that still is; and those that
/// were last changed when there were no runs.
#[test]
fn a_list_is_what_a_model_of_it_is() {
    for seed in 1..=4 {
        let server = TestServer::start();
        let mut client = server.connect();
        let mut model = Model { list: VecDeque::new(), random: Random(seed), made: 0 };
        for round in 0..250 {
            let asked = format!("seed {seed}, round {round}");
            let mut table: Vec<(String, String)> =
                (0..1 + model.random.below(4)).flat_map(|_| model.commands()).collect();
            if model.random.below(4) == 0 {
                let mut replies = Vec::new();
                table.iter_mut().for_each(|(_, reply)| {
                    replies.push(std::mem::replace(reply, "+QUEUED".into()));
                });
                table.insert(0, ("MULTI".into(), "+OK".into()));
                table.push(("EXEC".into(), format!("[{}]", replies.join(" "))));
            }
            let lines: Vec<&str> = table.iter().map(|(line, _)| line.as_str()).collect();
            for ((line, wanted), reply) in table.iter().zip(pipeline(&mut client, &lines)) {
                assert_eq!(reply, *wanted, "{asked}, {line}");
            }
            match model.random.below(12) {
                0 => model.check(&mut client, &server),
                1 if !model.list.is_empty() => {
                    assert_eq!(client.line("COPY list copy REPLACE"), ":1", "{asked}");
                    assert_eq!(client.line("RENAME copy list"), "+OK", "{asked}");
                }
                2 if !model.list.is_empty() => as_before_runs(&server),
                _ => {}
            }
        }
        model.check(&mut client, &server);
    }
}

/// Gives the list the header that it had before there were runs.
fn as_before_runs(server: &TestServer) {
    let map = server.store.default_map();
    let mut header = map.get("list").unwrap().unwrap();
    // What reaches out of the bounds is said by other bits.
    header[16] = 4;
    header[17] &= !1;
    map.put("list", &header).unwrap();
}

/// A list of a server that knew no runs has an entry for each element, and perhaps some outside of its bounds.
#[test]
fn a_list_from_before_runs_goes_on() {
    let server = TestServer::start();
    let mut client = server.connect();
    assert_eq!(client.line("RPUSH list e0"), ":1");
    let (map, members) = (server.store.default_map(), server.store.map("server.members").unwrap());
    let mut header = map.get("list").unwrap().unwrap();
    let id = u64::from_le_bytes(header[24..32].try_into().unwrap());
    let first = u64::from_le_bytes(header[48..56].try_into().unwrap());
    for number in 1..40 {
        let place = [id.to_be_bytes(), (first + number).to_be_bytes()].concat();
        members.put(place, format!("e{number}")).unwrap();
    }
    header[32..40].copy_from_slice(&20_u64.to_le_bytes());
    header[48..56].copy_from_slice(&(first + 10).to_le_bytes());
    members.put([2_u64.to_be_bytes(), id.to_be_bytes()].concat(), b"").unwrap();
    map.put("list", &header).unwrap();
    as_before_runs(&server);
    let words = |side: char| (0..15).map(move |number| format!("{side}{number}"));
    let push =
        |name: &str, side| [name.to_string(), "list".to_string()].into_iter().chain(words(side));
    assert_eq!(client.ask(&push("RPUSH", 'r').collect::<Vec<_>>()), ":35");
    assert_eq!(client.ask(&push("LPUSH", 'l').collect::<Vec<_>>()), ":50");
    let mut wanted: Vec<String> = words('l').collect();
    wanted.reverse();
    wanted.extend((10..30).map(|number| format!("e{number}")));
    wanted.extend(words('r'));
    assert_eq!(client.line("LRANGE list 0 -1"), array(wanted.iter()));
    assert_eq!(wanted.len(), 50);
    for (at, element) in wanted.iter().enumerate() {
        assert_eq!(client.line(&format!("LINDEX list {at}")), bulk(Some(element.clone())));
    }
    let report = everleaf_server::check_collections(&server.store).unwrap();
    assert_eq!((report.problems, report.members), (Vec::<String>::new(), 50));
    eventually("what was outside is freed", || {
        client.line("PING");
        // Two runs, of which one has 14 of those that were there, and the others; the mark, the start and the note.
        members.len() == 2 + 6 + 3
    });
    let taken: Vec<String> = pipeline(&mut client, &["RPOP list"; 50]);
    let wanted: Vec<String> = wanted.into_iter().rev().map(|element| bulk(Some(element))).collect();
    assert_eq!(taken, wanted);
    assert_eq!(client.line("EXISTS list"), ":0");
}

/// Sends lines between `MULTI` and `EXEC`, which is one step, and returns what `EXEC` answers.
fn transaction(client: &mut Client, lines: &[&str]) -> String {
    let lines: Vec<&str> = ["MULTI"].iter().chain(lines).chain(&["EXEC"]).copied().collect();
    pipeline(client, &lines).pop().unwrap()
}

/// What comes in one step is one entry for many elements, and goes so. Each command of a transaction wrote entries of
/// its own.
#[test]
fn what_a_step_pushes_is_a_run() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.line("RPUSH other x");
    let members = server.store.map("server.members").unwrap();
    let before = members.len();
    for side in ['L', 'R'] {
        let pushes: Vec<String> =
            (0..64).map(|number| format!("{side}PUSH list {number}")).collect();
        let mut lines: Vec<&str> = pushes.iter().map(String::as_str).collect();
        // One that fails changes nothing, and is rolled back between the others.
        lines.insert(40, "LSET list 64 x");
        lines.insert(20, "INCR list");
        transaction(&mut client, &lines);
        assert_eq!(client.line("LLEN list"), ":64");
        // The run, and the note.
        assert_eq!(members.len() - before, 2, "{side}");
        assert_eq!(client.line("LINDEX list 1"), if side == 'L' { "\"62\"" } else { "\"1\"" });
        transaction(&mut client, &["RPOP list"; 63]);
        assert_eq!(
            client.line("LRANGE list 0 -1"),
            if side == 'L' { "[\"63\"]" } else { "[\"0\"]" }
        );
        assert_eq!(client.line("LPOP list 5").matches('"').count(), 2);
        assert_eq!(client.line("EXISTS list"), ":0");
        eventually("its note is gone", || {
            client.line("PING");
            members.len() == before
        });
        // The same in a pipeline, whose steps end when they take long.
        let pushes: Vec<&str> = pushes.iter().map(String::as_str).collect();
        assert_eq!(pipeline(&mut client, &pushes)[63], ":64");
        assert_eq!(pipeline(&mut client, &["RPOP list"; 64]).len(), 64);
        assert_eq!(client.line("EXISTS list"), ":0");
        eventually("it is freed", || {
            client.line("PING");
            members.len() == before
        });
    }
}

/// Each pop of one element out of a run wrote the rest of the run again, and later each eighth.
#[test]
fn no_pop_writes_a_run() {
    let server = TestServer::start();
    let mut client = server.connect();
    let words: Vec<String> = (0..128).map(|number| format!("e{number}")).collect();
    let members = server.store.map("server.members").unwrap();
    let entries = |client: &mut Client, id: &[u8]| {
        assert_eq!(client.line("PING"), "+PONG");
        let all = members.range(..).map(|pair| pair.unwrap());
        all.filter(|(key, _)| key.len() == 17 && key.starts_with(id)).collect::<Vec<_>>()
    };
    let takes = ["LPOP list", "RPOP list", "LTRIM list 1 -1", "LTRIM list 0 -2", "BRPOP list 0"];
    for take in takes.into_iter().chain(["LMOVE list other LEFT LEFT", "LPOP list 3"]) {
        client.line("DEL list other");
        eventually("it is freed", || entries(&mut client, b"").is_empty());
        let push = ["RPUSH".to_string(), "list".to_string()];
        client.ask(&push.iter().chain(&words).collect::<Vec<_>>());
        let before = entries(&mut client, b"");
        assert_eq!(before.len(), 1);
        // What comes to another list becomes a run there.
        let id = &before[0].0[..8];
        let step = if take.ends_with(" 3") { 3 } else { 1 };
        for taken in 1..=128 / step {
            client.line(take);
            let left = 128 - taken * step;
            match left {
                0 => eventually("it is freed", || entries(&mut client, id).is_empty()),
                _ => assert_eq!(entries(&mut client, id), before, "{take}"),
            }
            assert_eq!(client.line("LLEN list"), format!(":{left}"));
            let report = everleaf_server::check_collections(&server.store).unwrap();
            assert_eq!(report.problems, Vec::<String>::new(), "{take}");
        }
    }
}

/// Commands that the model has not, of a list of long runs and of one whose elements were pushed one by one.
#[test]
fn lists_of_runs_answer_as_those_without() {
    let server = TestServer::start();
    let mut client = server.connect();
    let words: Vec<String> = (0..300).map(|number| (number * 7 % 100).to_string()).collect();
    let mut answers = Vec::new();
    for is_packed in [true, false] {
        client.line("FLUSHALL");
        match is_packed {
            true => drop(
                client.ask(
                    &["RPUSH", "list"]
                        .into_iter()
                        .chain(words.iter().map(String::as_str))
                        .collect::<Vec<_>>(),
                ),
            ),
            false => words.iter().for_each(|word| drop(client.line(&format!("RPUSH list {word}")))),
        }
        let lines = [
            "LPOS list 21",
            "LPOS list 21 RANK -1",
            "LPOS list 21 COUNT 0 MAXLEN 250",
            "LINDEX list 200",
            "LINDEX list -1",
            "SORT list LIMIT 10 5 DESC",
            "SORT list STORE sorted",
            "LRANGE sorted 100 105",
            "LMOVE list other LEFT RIGHT",
            "LMOVE list list RIGHT LEFT",
            "RPOPLPUSH list list",
            "BLMOVE list other RIGHT LEFT 0",
            "LMPOP 1 list LEFT COUNT 3",
            "LRANGE other 0 -1",
            "COPY list copy",
            "LREM list 0 21",
            "LINSERT list BEFORE 35 new",
            "LSET list 150 set",
            "LTRIM list 3 -4",
            "LLEN list",
            "LRANGE list 0 -1",
            "LRANGE copy 0 -1",
        ];
        let mut replies: Vec<String> = lines.iter().map(|line| client.line(line)).collect();
        client.send(&encode(&["DUMP", "copy"]));
        let payload = client.bulk();
        client.send(&encode(&[&b"RESTORE"[..], b"restored", b"0", &payload]));
        replies.push(client.reply());
        replies.push(client.line("LRANGE restored 0 -1"));
        answers.push(replies);
        let report = everleaf_server::check_collections(&server.store).unwrap();
        assert_eq!(report.problems, Vec::<String>::new());
    }
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[0][23], answers[0][21]);
}

/// Of a run that reaches out of the bounds nothing is freed with what is outside as a whole.
#[test]
fn what_reaches_out_of_the_bounds_stays_until_it_is_gone() {
    let server = TestServer::start();
    let mut client = server.connect();
    let words: Vec<String> = (0..3000).map(|number| format!("e{number}")).collect();
    let push: Vec<&str> =
        ["RPUSH", "list"].into_iter().chain(words.iter().map(String::as_str)).collect();
    assert_eq!(client.ask(&push), ":3000");
    let members = server.store.map("server.members").unwrap();
    let runs = || members.range(..).filter(|pair| pair.as_ref().unwrap().0.len() == 17).count();
    assert_eq!(runs(), 24);
    for (line, first, last, left) in
        [("LTRIM list 1000 1999", 1000, 1999, 9), ("LPOP list 600", 1600, 1999, 4)]
    {
        client.line(line);
        eventually("what is outside is freed", || {
            client.line("PING");
            runs() == left && members.prefix(2_u64.to_be_bytes()).next().is_none()
        });
        assert_eq!(client.line("LRANGE list 0 -1"), array(words[first..=last].iter()));
        let report = everleaf_server::check_collections(&server.store).unwrap();
        assert_eq!(report.problems, Vec::<String>::new(), "{line}");
    }
    assert_eq!(client.line("RPUSH list right"), ":401");
    assert_eq!(client.line("LPUSH list left"), ":402");
    assert_eq!(client.line("LINDEX list 0"), "\"left\"");
    assert_eq!(client.line("LRANGE list 400 -1"), "[\"e1999\" \"right\"]");
    assert_eq!(client.line("LRANGE list 0 1"), "[\"left\" \"e1600\"]");
    let report = everleaf_server::check_collections(&server.store).unwrap();
    assert_eq!((report.problems, report.members), (Vec::<String>::new(), 402));
}

/// What was lost: an element. What a trim leaves outside of a list, until it is freed, was read ahead with the list's
/// first elements; one that was pushed into that place meanwhile was answered with what had been there, and removed.
#[test]
fn what_was_trimmed_is_not_read_ahead_of_what_is_pushed() {
    let server = TestServer::start();
    let mut client = server.connect();
    // So long that each is an entry by itself.
    let element = |name: &str| format!("{name}{}", "-".repeat(1100));
    for first in (0..700).step_by(100) {
        let elements = (first..first + 100).map(|number| element(&format!("e{number}.")));
        let words: Vec<String> =
            ["RPUSH".to_string(), "q".to_string()].into_iter().chain(elements).collect();
        assert_eq!(client.ask(&words), format!(":{}", first + 100));
    }
    let push = format!("RPUSH q {}", element("new."));
    let mut lines = vec!["MULTI", "LTRIM q 0 4", "LPOP q", "LPOP q", &push];
    lines.extend(["LPOP q", "LPOP q", "LPOP q", "LPOP q", "LLEN q", "EXEC"]);
    let replies = pipeline(&mut client, &lines);
    let expected = format!(
        "[+OK \"{}\" \"{}\" :4 \"{}\" \"{}\" \"{}\" \"{}\" :0]",
        element("e0."),
        element("e1."),
        element("e2."),
        element("e3."),
        element("e4."),
        element("new."),
    );
    assert_eq!(replies.last(), Some(&expected));
}
