//! The test programs: built together (`building.rs`), run as jobs, each with its time.
//!
//! `cargo test` would run them as well, but one after the other and none before all are built, and would not
//! say which program took how long, nor what the processor did. So Cargo only builds and names them, and they
//! are run as Cargo runs them: in the folder of their package.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};
use std::{mem, thread};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use crate::silence;
use crate::summary::{Reader, Totals};

/// A test program that Cargo built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The package, and the target if it is not the library: `everleaf-pool`, `everleaf-pool it`.
    pub name: String,
    /// The package alone.
    pub package: String,
    executable: PathBuf,
    folder: PathBuf,
}

/// What one program did.
#[derive(Clone, Debug, Default)]
pub struct Ran {
    /// Its name.
    pub name: String,
    /// Its package.
    pub package: String,
    /// CPU seconds, those of processes that it started included.
    pub cpu: f64,
    /// Whether it began while others were still compiled.
    pub is_early: bool,
    /// How many of its tests passed.
    pub passed: u64,
    /// Its tests with their seconds, where the test runner tells them.
    pub tests: Vec<(String, f64)>,
}

/// The test program that a message of Cargo tells of, if it does.
pub fn program_of(message: &serde_json::Value) -> Option<Program> {
    if message["profile"]["test"] != true {
        return None;
    }
    let executable = PathBuf::from(message["executable"].as_str()?);
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_path_buf();
    let package = package_of(message["package_id"].as_str()?);
    let target = message["target"]["name"].as_str()?;
    let name = match message["target"]["kind"][0].as_str()? {
        "lib" => package.clone(),
        "bin" => format!("{package} (program)"),
        _ => format!("{package} {target}"),
    };
    Some(Program { name, package, executable, folder })
}

/// The name in a package id: `path+file:///a/crates/pool#everleaf-pool@0.1.0`, or, where the folder
/// has the same name, `path+file:///a/xtask#0.1.0`.
pub fn package_of(id: &str) -> String {
    let (path, rest) = id.rsplit_once('#').unwrap_or((id, id));
    match rest.split_once('@') {
        Some((name, _)) => name.to_string(),
        None => path.rsplit('/').next().unwrap_or(path).to_string(),
    }
}

/// Something to be run that prints as test programs do.
#[derive(Debug)]
pub struct Job {
    /// What it is called.
    pub name: String,
    /// The package whose tests it runs.
    pub package: String,
    /// How to start it.
    pub command: Command,
}

/// A program, to be run with these arguments and variables.
pub fn job(program: &Program, arguments: &[&str], variables: &[(&str, &str)]) -> Job {
    let mut command = command_of(program);
    command.envs(variables.iter().copied());
    if tells_times(program) {
        command.env(UNSTABLE, "1").args(TIMES);
    }
    command.args(arguments);
    Job { name: program.name.clone(), package: program.package.clone(), command }
}

/// How many of a program's tests these arguments choose.
pub fn count(program: &Program, arguments: &[&str]) -> usize {
    let mut command = command_of(program);
    let listed = command.args(arguments).args(["--list", "--format", "terse"]).output();
    let text = listed.map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&text).lines().filter(|line| line.ends_with(": test")).count()
}

/// A program, to be run as Cargo runs it.
fn command_of(program: &Program) -> Command {
    let mut command = Command::new(&program.executable);
    command.current_dir(&program.folder).env("CARGO_MANIFEST_DIR", &program.folder);
    command
}

/// How long nothing must come before it is looked at whether a program has ended.
const SILENCE: Duration = Duration::from_millis(500);
/// How long a program whose tests each print a line may print none. The longest of them takes some minutes on a
/// machine that does other things as well; a longer silence is a test that waits for what never comes, and all would
/// wait with it.
const SILENCE_MAX: Duration = Duration::from_secs(15 * 60);

/// Runs a job and hands each line of its output to `print`; its errors go where `print` sends them, too,
/// if they are `together`, and to our own otherwise. One whose errors are with its output is ended when it has
/// printed nothing for [`SILENCE_MAX`]; others may be searches of hours. Returns what it did, its totals with the
/// names of what failed, and whether it passed.
pub fn run(job: Job, together: bool, print: &mut dyn FnMut(&[u8])) -> (Ran, Totals, bool) {
    run_for(job, together, if together { SILENCE_MAX } else { Duration::MAX }, print)
}

fn run_for(
    job: Job,
    together: bool,
    silence_max: Duration,
    print: &mut dyn FnMut(&[u8]),
) -> (Ran, Totals, bool) {
    let Job { name, package, mut command } = job;
    let mut ran = Ran { name, package, ..Ran::default() };
    let mut reader = Reader::default();
    let spawned = std::io::pipe().and_then(|(output, input)| {
        if together {
            command.stderr(input.try_clone()?);
        }
        Ok((command.stdout(input).spawn()?, output))
    });
    // It holds our ends of the pipe, which would never end.
    drop(command);
    let status = match spawned {
        Ok((mut child, output)) => {
            let mut see = |line: &[u8]| {
                let text = String::from_utf8_lossy(line);
                reader.read(&text);
                ran.tests.extend(time_of(&text));
                print(line);
            };
            let is_silent = !pass_on(output, || has_ended(&child), silence_max, &mut see);
            if is_silent {
                silence::end(&child);
            }
            ran.cpu = cpu_when_ended(&child);
            match child.wait() {
                Ok(_) if is_silent => Err(silence::said(silence_max)),
                Ok(status) if status.success() => Ok(()),
                Ok(status) => Err(status.to_string()),
                Err(error) => Err(error.to_string()),
            }
        }
        Err(error) => {
            print(format!("xtask: cannot start {}: {error}\n", ran.name).as_bytes());
            Err(format!("it cannot be started: {error}"))
        }
    };
    let passed = status.is_ok();
    let totals = reader.end(&ran.name, status);
    ran.passed = totals.passed;
    (ran, totals, passed)
}

/// Writes to standard output at once.
pub fn print_now(bytes: &[u8]) {
    // A closed terminal must not stop the tests.
    let _ = std::io::stdout().write_all(bytes);
}

/// Shows the lines of a program's output until that ends, or until the program has and nothing comes any more:
/// a process that it has left behind may hold the other end for ever. Returns whether it ended, and not only was
/// silent for so long.
fn pass_on(
    output: impl Read + Send + 'static,
    has_ended: impl Fn() -> bool,
    silence_max: Duration,
    see: &mut dyn FnMut(&[u8]),
) -> bool {
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        let mut reader = BufReader::new(output);
        let mut line = Vec::new();
        // By bytes, because a test may print anything.
        while reader.read_until(b'\n', &mut line).is_ok_and(|size| size > 0) {
            if sender.send(mem::take(&mut line)).is_err() {
                break;
            }
        }
    });
    let (mut was_ended, mut heard) = (false, Instant::now());
    loop {
        match lines.recv_timeout(SILENCE) {
            Ok(line) => {
                see(&line);
                heard = Instant::now();
            }
            Err(RecvTimeoutError::Disconnected) => return true,
            Err(RecvTimeoutError::Timeout) if was_ended => return true,
            // What it wrote last may come now.
            Err(RecvTimeoutError::Timeout) => was_ended = has_ended(),
        }
        if !was_ended && heard.elapsed() >= silence_max {
            return false;
        }
    }
}

/// Whether a process has ended, which is left there to be waited for.
fn has_ended(child: &Child) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    id.is_none_or(|id| waitid(WaitId::Pid(id), options).is_ok_and(|status| status.is_some()))
}

/// Test and seconds in a line such as `test a::b ... ok <0.123s>`.
fn time_of(line: &str) -> Option<(String, f64)> {
    let (name, rest) = line.trim_end().strip_prefix("test ")?.split_once(" ... ")?;
    let seconds = rest.rsplit_once('<')?.1.strip_suffix("s>")?.parse().ok()?;
    Some((name.to_string(), seconds))
}

/// What lets the test runner of a stable compiler take [`TIMES`]. It is set for running only.
const UNSTABLE: &str = "RUSTC_BOOTSTRAP";
/// What makes it print the time of each test.
const TIMES: [&str; 2] = ["-Zunstable-options", "--report-time"];

/// Whether the program's test runner knows how to print times; if a compiler takes that away, the
/// tests run without.
fn tells_times(program: &Program) -> bool {
    let mut command = command_of(program);
    command.args(TIMES).args(["--list", "--format", "terse"]).env(UNSTABLE, "1");
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// CPU seconds of all processes that this one has started and waited for, and of theirs.
#[cfg(test)]
pub fn children_cpu() -> f64 {
    cpu_in("/proc/self/stat", &[13, 14])
}

/// CPU seconds of a process and of all that it waited for, once it has ended. Only while nobody has
/// waited for it does the system still know, so it is left there to be waited for.
pub fn cpu_when_ended(child: &Child) -> f64 {
    let Ok(id) = i32::try_from(child.id()) else { return 0.0 };
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    let ended = Pid::from_raw(id).map(|pid| waitid(WaitId::Pid(pid), options));
    match ended {
        Some(Ok(_)) => cpu_in(&format!("/proc/{id}/stat"), &[11, 12, 13, 14]),
        _ => 0.0,
    }
}

/// The sum of these fields of a `stat` file, in seconds; the first field behind the name has the index 0.
fn cpu_in(file: &str, indices: &[usize]) -> f64 {
    /// Linux counts in hundredths of a second here, on every machine.
    const TICKS: f64 = 100.0;
    let text = std::fs::read_to_string(file).unwrap_or_default();
    // The second field is a name in parentheses and may hold anything.
    let fields = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let ticks = |index: &usize| fields.get(*index)?.parse::<f64>().ok();
    indices.iter().filter_map(ticks).sum::<f64>() / TICKS
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    /// The lane of such a program never ended.
    #[test]
    fn a_process_that_is_left_behind_is_not_waited_for() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 30 & echo 'test result: ok. 1 passed; 0 failed'; exit 3"]);
        let job = Job { name: "left".into(), package: "left".into(), command };
        let mut printed = Vec::new();
        let start = std::time::Instant::now();
        let (_, _, passed) = run(job, true, &mut |line| printed.extend_from_slice(line));
        assert!(!passed && printed.starts_with(b"test result: ok. 1 passed"));
        assert!(start.elapsed() < std::time::Duration::from_secs(25), "it was waited for");
    }

    /// What was lost: 90 minutes of continuous integration, and everything that it was to let land.
    #[test]
    fn a_program_that_waits_for_ever_is_ended_with_its_children() {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        // What is started behind a `&` has no standard input, but what it is given under another number.
        let script = "exec 3<&0; echo 'test a ... ok'; (until false; do sleep 0.05; done) & wait";
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(OwnedFd::from(theirs));
        let job = Job { name: "stuck".into(), package: "stuck".into(), command };
        let (_, totals, passed) = run_for(job, true, Duration::from_secs(1), &mut |_| ());
        assert!(!passed && totals.failed == 1, "{totals:?}");
        // Its child is no more: nobody has the other end.
        ours.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        assert_eq!(ours.read(&mut [0]).unwrap(), 0, "its child goes on");
    }

    #[test]
    fn the_time_of_a_test_is_read_from_its_line() {
        let found = time_of("test a::b ... ok <1.250s>\n");
        assert_eq!(found, Some(("a::b".to_string(), 1.25)));
        assert_eq!(time_of("test a ... FAILED <0.001s>"), Some(("a".to_string(), 0.001)));
        for other in ["test a ... ok", "test a ... ignored", "test result: ok. 1 passed", "<1s>"] {
            assert_eq!(time_of(other), None, "{other}");
        }
    }

    #[test]
    fn packages_are_named_by_their_ids() {
        assert_eq!(package_of("path+file:///a/crates/pool#everleaf-pool@0.1.0"), "everleaf-pool");
        assert_eq!(package_of("path+file:///a/xtask#0.1.0"), "xtask");
    }

    #[test]
    fn a_message_of_cargo_names_a_program() {
        let text = r#"{"reason":"compiler-artifact","package_id":"path+file:///a/crates/pool#everleaf-pool@0.1.0",
            "manifest_path":"/a/crates/pool/Cargo.toml","target":{"kind":["test"],"name":"it"},
            "profile":{"test":true},"executable":"/t/it-1","fresh":true}"#;
        let mut message: serde_json::Value = serde_json::from_str(text).unwrap();
        let program = program_of(&message).unwrap();
        assert_eq!(
            (program.name.as_str(), program.folder),
            ("everleaf-pool it", "/a/crates/pool".into())
        );
        message["profile"]["test"] = false.into();
        assert_eq!(program_of(&message), None);
    }

    #[test]
    fn a_child_that_works_is_counted() {
        let before = children_cpu();
        let count = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        assert!(Command::new("sh").args(["-c", count]).status().unwrap().success());
        assert!(children_cpu() > before);
    }

    #[test]
    fn a_job_is_measured_counted_and_printed_with_its_errors() {
        let script = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo oops >&2; \
                      echo 'test a ... ok <0.500s>'; echo 'test result: ok. 1 passed; 0 failed'; exit 3";
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let job = Job { name: "sh".into(), package: "p".into(), command };
        let mut text = Vec::new();
        let (ran, totals, passed) = run(job, true, &mut |line| text.extend_from_slice(line));
        assert!(ran.cpu > 0.0 && !passed);
        assert_eq!((totals.passed, ran.passed, ran.tests.len()), (1, 1, 1));
        assert!(text.starts_with(b"oops\n"));
    }
}
