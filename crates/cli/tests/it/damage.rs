//! Damaged pools and logs, by the program and its server: nothing wrong is printed, copied or sent with
//! success, no command panics, is killed or hangs, and every loss is told by somebody.
//!
//! The stores, and what is done to their files, are those of the store's own test of damage. Each variant is
//! checked, read (`get`, `scan`, `export`), copied (`backup`, `restore`, `repair`, `compact`, and a snapshot
//! from which the pool is rebuilt) and served. What was copied with success is judged by a check and an
//! export of the copy.
//!
//! What was lost: `check` told of a changed byte, and `get`, `export`, `backup` and `compact` ended with 0; the
//! copy had a fresh check sum and was called sound.
#![allow(clippy::print_stdout, reason = "a long run says how far it is")]

#[path = "../../../store/tests/processes/damage/stores.rs"]
mod stores;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use stores::{Damage, KINDS, Kind, Random, Truth, copy, damage, key, make_all};

/// How many variants the long run tries, and where they begin.
const COUNT: &str = "EVERLEAF_DAMAGE_COUNT";
const START: &str = "EVERLEAF_DAMAGE_START";
/// A command that takes longer hangs, also on a machine with much else to do.
const PATIENCE: Duration = Duration::from_secs(600);

/// Why the judge does not let something pass, if it does not.
type Verdict = Result<(), String>;

/// How a command ended.
struct Ended {
    is_done: bool,
    out: Vec<u8>,
}

impl Ended {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.out).into_owned()
    }
}

/// Waits for a process; an error if it hangs, panics or is killed.
fn wait(child: &mut Child, what: &str) -> Result<bool, String> {
    let id = child.id();
    let (ended, is_ended) = mpsc::channel::<()>();
    let watch = std::thread::spawn(move || {
        let hangs = is_ended.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout);
        if hangs {
            // SAFETY: a system call without memory; the process is ours.
            unsafe { libc::kill(id as i32, libc::SIGKILL) };
        }
        hangs
    });
    let status = child.wait().expect("it is ours");
    drop(ended);
    if watch.join().expect("it does not panic") {
        return Err(format!("{what}: hangs"));
    }
    match (status.code(), status.signal()) {
        (Some(101) | None, _) | (_, Some(_)) => Err(format!("{what}: {status}")),
        (code, None) => Ok(code == Some(0)),
    }
}

/// One damaged store.
struct Victim<'t> {
    folder: PathBuf,
    truth: &'t Truth,
    kind: Kind,
    damage: Damage,
    /// Whether somebody said that something may be missing.
    is_told: bool,
    /// Whether the check found nothing wrong.
    is_sound: bool,
    /// Whether the check said that it cannot prove that nothing is missing: only then may a copy that was
    /// made with success lack something.
    is_unproven: bool,
    random: Random,
}

impl Victim<'_> {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(crate::PROGRAM);
        command.args(arguments).current_dir(&self.folder);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.env_remove("EVERLEAF_POOL").env_remove("EVERLEAF_REQUIREPASS");
        command
    }

    fn run(&self, arguments: &[&str]) -> Result<Ended, String> {
        let what = arguments.join(" ");
        let mut child = self.command(arguments).spawn().expect("the program starts");
        let (mut out, mut err) = (child.stdout.take(), child.stderr.take());
        std::thread::scope(|scope| {
            let read = scope.spawn(move || {
                let mut bytes = vec![];
                let _ = out.as_mut().map(|out| out.read_to_end(&mut bytes));
                bytes
            });
            scope.spawn(move || err.as_mut().map(|err| std::io::copy(err, &mut std::io::sink())));
            let is_done = wait(&mut child, &what)?;
            Ok(Ended { is_done, out: read.join().expect("it only reads") })
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Judges pairs of a map as they are printed, one a line; all of them have to be there if that `is_all`.
    fn judge_pairs(
        &self,
        map: &str,
        lines: &[u8],
        (is_all, may_lack): (bool, bool),
        by: &str,
    ) -> Verdict {
        let nothing = BTreeMap::new();
        let expected = self.truth.get(map).unwrap_or(&nothing);
        let mut count = 0;
        for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let parted = line.iter().position(|byte| *byte == b'\t');
            let Some(at) = parted else {
                // The last one of a command that failed may be cut.
                if is_all {
                    return Err(format!("{by}: a line that is no pair"));
                }
                continue;
            };
            let (key, value) = (unescaped(&line[..at]), unescaped(&line[at + 1..]));
            let is_right = expected.get(&key).is_some_and(|(found, _)| *found == value);
            if !is_right && is_all {
                return Err(format!("{by}: a pair that nobody wrote: {}", key.escape_ascii()));
            }
            let is_start = |found: &Vec<u8>| found.starts_with(&value);
            if !is_right && !expected.get(&key).is_some_and(|(found, _)| is_start(found)) {
                return Err(format!("{by}: printed what nobody wrote: {}", key.escape_ascii()));
            }
            count += 1;
        }
        if is_all && count < expected.len() && !may_lack {
            return Err(format!("{by}: {} keys are missing untold", expected.len() - count));
        }
        Ok(())
    }

    /// What a command made with success is sound and right, of each map.
    fn judge_copy(&self, name: &str, may_lack: bool, by: &str) -> Verdict {
        let checked = self.run(&["check", name])?;
        if !checked.is_done {
            return Err(format!("{by}: the copy is not sound: {}", checked.text()));
        }
        for map in ["default", "other"] {
            let exported = self.run(&["export", name, "--map", map])?;
            match exported.is_done {
                true => self.judge_pairs(map, &exported.out, (true, may_lack), by)?,
                // A map that was lost.
                false if may_lack => {}
                false => return Err(format!("{by}: the copy lacks {map}")),
            }
        }
        Ok(())
    }

    /// Runs a command that makes the file `made`, which is judged, or must not be there.
    fn try_making(&self, arguments: &[&str]) -> Verdict {
        let by = arguments.join(" ");
        let ended = self.run(arguments)?;
        if ended.is_done {
            self.judge_copy("made", self.is_unproven, &by)?;
        } else if self.path("made").exists() {
            return Err(format!("{by}: failed, and left its file"));
        }
        let _ = std::fs::remove_file(self.path("made"));
        Ok(())
    }

    fn try_reads(&mut self) -> Verdict {
        let checked = self.run(&["check", "pool"])?;
        self.is_unproven = checked.text().contains("cannot be proven");
        self.is_sound = checked.is_done;
        self.is_told = !self.is_sound || self.is_unproven;
        for _ in 0..3 {
            let number = self.random.below(900) as u32;
            let (key, truth) = (key(number), &self.truth["default"]);
            let name = String::from_utf8(key.clone()).expect("text");
            let ended = self.run(&["get", "pool", &name])?;
            let is_right = truth.get(&key).is_some_and(|(value, _)| *value == ended.out);
            if ended.is_done && !is_right {
                return Err(format!("get: another value of {name}"));
            }
        }
        for map in ["default", "other"] {
            let scanned = self.run(&["scan", "pool", "--map", map])?;
            self.judge_pairs(map, &scanned.out, (scanned.is_done, self.is_told), "scan")?;
            let exported = self.run(&["export", "pool", "--map", map, "-o", "pairs"])?;
            if exported.is_done != self.path("pairs").exists() {
                return Err("export: the file does not say how it ended".into());
            }
            if exported.is_done {
                let pairs = std::fs::read(self.path("pairs")).expect("it is there");
                self.judge_pairs(map, &pairs, (true, self.is_unproven), "export")?;
                std::fs::remove_file(self.path("pairs")).expect("it is there");
            }
        }
        for arguments in [&["stat", "pool"][..], &["maps", "pool"]] {
            let _ = self.run(arguments)?;
        }
        Ok(())
    }

    fn try_copies(&mut self, folder: &Path) -> Verdict {
        self.try_making(&["backup", "pool", "made"])?;
        self.try_making(&["restore", "pool", "made"])?;
        let repaired = self.run(&["repair", "pool", "made"])?;
        let is_told = !repaired.is_done || repaired.text().contains("may be missing");
        if self.path("made").exists() {
            self.judge_copy("made", self.is_told || is_told, "repair")?;
            std::fs::remove_file(self.path("made")).expect("it is there");
        }
        if self.run(&["compact", "pool"])?.is_done {
            self.judge_copy("pool", self.is_unproven, "compact")?;
        }
        if self.kind.has_log {
            self.begin_anew(folder);
            // What is rebuilt from a log that was cut is an earlier state.
            let may_lack = self.is_unproven || self.damage.cuts_log;
            if self.run(&["snapshot", "pool"])?.is_done {
                // What the check told of before is not repaired by a snapshot, which may have all pairs.
                if self.is_sound {
                    self.judge_copy("pool", may_lack, "beside its snapshot")?;
                }
                std::fs::remove_file(self.path("pool")).expect("it is there");
                if !self.run(&["snapshot", "pool"])?.is_done {
                    return Err("the pool cannot be made from its snapshot".into());
                }
                self.judge_copy("pool", may_lack, "made from its snapshot")?;
            }
        }
        Ok(())
    }

    /// The damaged files as they were.
    fn begin_anew(&self, folder: &Path) {
        copy(folder, &self.folder);
    }

    /// Serves the pool, and asks for everything.
    fn try_server(&mut self) -> Verdict {
        let mut child =
            self.command(&["serve", "pool", "--port", "0"]).spawn().expect("the program starts");
        let mut out = child.stdout.take().expect("it is piped");
        let reading = std::thread::spawn(move || std::io::copy(&mut out, &mut std::io::sink()));
        let mut lines = BufReader::new(child.stderr.take().expect("it is piped"));
        let (mut line, mut address) = (String::new(), None);
        while address.is_none() && lines.read_line(&mut line).unwrap_or(0) > 0 {
            let told = line.split("ready on ").nth(1);
            address = told.and_then(|rest| rest.split([',', ' ', '\n']).next()).map(String::from);
        }
        let draining = std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        let asked = address.map_or(Ok(()), |address| {
            let asked = self.ask_server(&address);
            // SAFETY: a system call without memory; the process is ours and was not waited for.
            unsafe { libc::kill(child.id() as i32, libc::SIGTERM) };
            asked
        });
        let ended = wait(&mut child, "serve");
        let _ = (reading.join(), draining.join());
        asked.and(ended.map(drop))
    }

    fn ask_server(&self, address: &str) -> Verdict {
        let gone = |error: std::io::Error| format!("serve: {error}");
        let mut stream = TcpStream::connect(address).map_err(gone)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(gone)?;
        let mut replies = BufReader::new(stream.try_clone().map_err(gone)?);
        let truth = &self.truth["default"];
        // Those that were removed as well.
        let removed = (0..900).step_by(4).map(key);
        let keys: Vec<Vec<u8>> = truth.keys().cloned().chain(removed).collect();
        let (mut missing, mut errors) = (0, 0);
        for part in keys.chunks(100) {
            let requests: Vec<u8> = part.iter().flat_map(|key| request(&[b"GET", key])).collect();
            stream.write_all(&requests).map_err(gone)?;
            for key in part {
                let found = reply(&mut replies).map_err(gone)?;
                let expected = truth.get(key).map(|(value, _)| value);
                match found {
                    Reply::Error => errors += 1,
                    Reply::Bulk(found) if found.as_ref() == expected => {}
                    Reply::Bulk(None) => missing += 1,
                    Reply::Bulk(Some(_)) => {
                        return Err(format!("serve: another value of {}", key.escape_ascii()));
                    }
                }
            }
        }
        if missing > 0 && !self.is_told {
            return Err(format!("serve: {missing} keys are missing, {errors} errors, untold"));
        }
        Ok(())
    }
}

fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut bytes = vec![];
    let mut rest = field.iter();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'\\' => match rest.next() {
                Some(b't') => b'\t',
                Some(b'n') => b'\n',
                Some(b'r') => b'\r',
                other => other.copied().unwrap_or(b'\\'),
            },
            byte => *byte,
        });
    }
    bytes
}

fn request(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend(format!("${}\r\n", word.len()).into_bytes());
        bytes.extend(*word);
        bytes.extend(b"\r\n");
    }
    bytes
}

enum Reply {
    Error,
    Bulk(Option<Vec<u8>>),
}

fn reply(replies: &mut impl BufRead) -> std::io::Result<Reply> {
    let mut line = String::new();
    if replies.read_line(&mut line)? == 0 {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    let Some(size) = line.strip_prefix('$') else { return Ok(Reply::Error) };
    let Ok(size) = size.trim_end().parse::<usize>() else { return Ok(Reply::Bulk(None)) };
    let mut value = vec![0; size + 2];
    replies.read_exact(&mut value)?;
    value.truncate(size);
    Ok(Reply::Bulk(Some(value)))
}

/// Does everything with one damaged store that there is a command for.
fn try_variant(all: &Path, folder: &Path, truths: &[Truth], number: u64) -> Verdict {
    let kind_number = (number % KINDS.len() as u64) as usize;
    let (kind, truth) = (KINDS[kind_number], &truths[kind_number]);
    let damaged = folder.join("damaged");
    copy(&all.join(kind_number.to_string()), &damaged);
    let mut random = Random(number);
    let damage = damage(&mut random, &damaged, kind);
    let what = damage.what.clone();
    let mut victim = Victim {
        folder: folder.join("victim"),
        truth,
        kind,
        damage,
        is_told: false,
        is_sound: false,
        is_unproven: false,
        random,
    };
    victim.begin_anew(&damaged);
    let mut go = || {
        victim.try_reads()?;
        victim.try_copies(&damaged)?;
        victim.begin_anew(&damaged);
        victim.try_server()
    };
    go().map_err(|wrong| format!("variant {number}, {kind:?}, {what}: {wrong}"))
}

/// Tries variants on some threads: what the judge objects to.
fn hunt(first: u64, last: u64, threads: usize) -> Vec<String> {
    let all = tempfile::tempdir().expect("a temporary folder");
    let truths = make_all(all.path());
    let (next, wrong) = (AtomicU64::new(first), Mutex::new(vec![]));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let folder = tempfile::tempdir().expect("a temporary folder");
                loop {
                    // Relaxed: only distinct numbers are wanted.
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= last {
                        break;
                    }
                    let tried = try_variant(all.path(), folder.path(), &truths, number);
                    if let Err(what) = tried {
                        println!("{what}");
                        wrong.lock().expect("nobody panicked").push(what);
                    }
                    if number % 100 == 99 {
                        println!("variant {number} is done");
                    }
                }
            });
        }
    });
    wrong.into_inner().expect("nobody panicked")
}

#[test]
fn no_command_shows_or_copies_what_is_damaged() {
    assert_eq!(hunt(0, 1, 1), Vec::<String>::new());
}

#[test]
#[ignore = "guards a landing"]
fn landing_no_command_shows_what_is_damaged_in_any_kind() {
    assert_eq!(hunt(1, 1 + KINDS.len() as u64, 2), Vec::<String>::new());
}

/// The long run: `EVERLEAF_DAMAGE_COUNT` variants (5,000) from `EVERLEAF_DAMAGE_START` (0) on.
#[test]
#[ignore = "a long run: an hour"]
fn no_command_shows_or_copies_what_5000_damages_left() {
    let given = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (start, count) = (given(START).unwrap_or(0), given(COUNT).unwrap_or(5000));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let wrong = hunt(start, start + count, threads);
    assert_eq!(wrong.len(), 0, "of {count} variants: {wrong:#?}");
}
