//! A shell that runs the commands of a page in a folder of its own.

use super::block::{Command, is_printed};
use crate::redis::free_port;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command as Process, Stdio};
use std::time::{Duration, Instant};

/// What pages write for the ports of the server, of its figures and its TLS, and of a Redis server; each run gets free
/// ones.
const PORTS: [&str; 4] = ["6399", "6398", "6400", "6379"];
/// Begins the lines that part the output.
const MARK: &str = "@@guide";
/// How long a page may take: each takes seconds, and what has not ended by then waits for what does not come.
const PATIENCE: Duration = Duration::from_secs(300);

/// The commands of a page, with their lines in it.
#[derive(Default)]
pub struct Session {
    commands: Vec<(usize, Command)>,
    files: Vec<(String, String)>,
}

impl Session {
    /// Adds the commands of the block at this line.
    pub fn add(&mut self, line: usize, commands: &[Command]) {
        for Command { text, prints } in commands {
            let command = Command { text: text.clone(), prints: prints.clone() };
            self.commands.push((line, command));
        }
    }

    /// Adds a file.
    pub fn add_file(&mut self, name: &str, text: &str) {
        self.files.push((name.to_string(), text.to_string()));
    }

    /// Runs everything in one shell, and compares.
    pub fn run(&self, page: &str) {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let ports = PORTS.map(|_| free_port().to_string());
        let replaced = |text: &str| with_ports(text, &ports);
        for (name, text) in &self.files {
            std::fs::write(folder.path().join(name), replaced(text)).expect("it can be written");
        }
        let script = replaced(&self.script());
        let (output, ended) = shell(folder.path(), &script, PATIENCE);
        let logs = logs_of(folder.path());
        for (number, (line, command)) in self.commands.iter().enumerate() {
            let at = format!("{page}:{line}: `{}`", command.text);
            let (printed, code) = part(&output, number).unwrap_or_else(|| {
                panic!("{at}: the shell did not get to its end\n{output}\n{logs}")
            });
            assert_eq!(code, "0", "{at}\n{printed}\n{logs}");
            let page: Vec<String> = command.prints.iter().map(|line| replaced(line)).collect();
            let is_right =
                page.is_empty() || is_printed(&page, &printed.lines().collect::<Vec<_>>());
            let page = page.join("\n");
            assert!(is_right, "{at}\n---- the page\n{page}\n---- printed\n{printed}\n{logs}");
        }
        assert!(ended, "{page}: the shell failed\n{output}\n{logs}");
    }

    /// The script: each command is followed by a line with its number and how it ended.
    fn script(&self) -> String {
        let mut script = String::new();
        for (number, (_, command)) in self.commands.iter().enumerate() {
            script.push_str(&format!("{}\nprintf '{MARK} {number} %d\\n' $?\n", command.text));
        }
        script
    }
}

/// The text with these ports in place of those of the pages: whole numbers only, and each once.
fn with_ports(text: &str, ports: &[String; PORTS.len()]) -> String {
    let (mut replaced, mut rest) = (String::new(), text);
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let size = rest[start..].bytes().take_while(u8::is_ascii_digit).count();
        let number = &rest[start..start + size];
        let port = PORTS.iter().position(|port| *port == number).map(|index| ports[index].as_str());
        replaced.extend([&rest[..start], port.unwrap_or(number)]);
        rest = &rest[start + size..];
    }
    replaced + rest
}

/// What the command of this number printed, and its exit code.
fn part(output: &str, number: usize) -> Option<(&str, &str)> {
    let start = match number.checked_sub(1) {
        None => 0,
        Some(before) => {
            let mark = format!("{MARK} {before} ");
            let at = output.find(&mark)?;
            at + output[at..].find('\n')? + 1
        }
    };
    let rest = &output[start..];
    let mark = format!("{MARK} {number} ");
    let end = rest.find(&mark)?;
    let code = rest[end + mark.len()..].lines().next()?;
    Some((&rest[..end], code))
}

/// What was written to the logs in a folder.
fn logs_of(folder: &Path) -> String {
    let entries = std::fs::read_dir(folder).expect("it is there").flatten();
    let logs = entries.filter(|entry| entry.path().extension().is_some_and(|it| it == "log"));
    let files = logs.filter(|entry| entry.path().is_file());
    let shown = files.map(|entry| {
        let text = std::fs::read(entry.path()).unwrap_or_default();
        format!("---- {}\n{}", entry.path().display(), String::from_utf8_lossy(&text))
    });
    shown.collect()
}

/// Waits until a process has ended, for so long.
fn has_ended(child: &mut Child, patience: Duration) -> bool {
    let start = Instant::now();
    while start.elapsed() < patience {
        if child.try_wait().expect("it is ours").is_some() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    false
}

/// Runs a script to its end, or for so long; what it printed, and whether it ended well. What runs then is killed.
fn shell(folder: &Path, script: &str, patience: Duration) -> (String, bool) {
    let output = folder.join(".output");
    let file = std::fs::File::create(&output).expect("it can be made");
    let program = Path::new(crate::PROGRAM).parent().expect("it is in a folder");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::iter::once(program.to_path_buf()).chain(std::env::split_paths(&path));
    let mut bash = Process::new("bash");
    bash.args(["--norc", "-c", script]).current_dir(folder).stdin(Stdio::null());
    bash.stdout(file.try_clone().expect("it can be shared")).stderr(file);
    bash.env("PATH", std::env::join_paths(path).expect("it was a path"));
    bash.env("HOME", folder).env("LC_ALL", "C").env_remove("EVERLEAF_POOL");
    bash.env_remove("EVERLEAF_REQUIREPASS").process_group(0);
    let mut child = bash.spawn().expect("bash runs");
    let has_ended = has_ended(&mut child, patience);
    // Whether there was anything left to kill does not matter.
    let group = format!("-{}", child.id());
    let _ = Process::new("kill").args(["-9", "--", &group]).stderr(Stdio::null()).status();
    let status = child.wait().expect("it ends");
    let text = std::fs::read(&output).expect("it is there");
    let is_good = has_ended && status.signal().is_none();
    (String::from_utf8_lossy(&text).into_owned(), is_good)
}

fn run_of(text: &str, prints: &[&str]) {
    let prints = prints.iter().map(ToString::to_string).collect();
    let mut session = Session::default();
    session.add(1, &[Command { text: text.to_string(), prints }]);
    session.run("a page");
}

#[test]
fn a_shell_goes_on_in_its_folder() {
    run_of("echo 6399 > port; cat port", &["6399"]);
    run_of("printf 'no line end'", &["no line end"]);
    run_of("echo what a page does not show is not compared", &[]);
}

/// The free port may have a port of the pages in its digits, which was replaced again: what came of it was none.
#[test]
fn ports_are_replaced_once_and_as_whole_numbers() {
    let ports = ["16379", "16398", "6399", "12000"].map(String::from);
    let text = "6399 -p 6398,127.0.0.1:6400 redis://h:6379 16379 63990 1.6399";
    let expected = "16379 -p 16398,127.0.0.1:6399 redis://h:12000 16379 63990 1.16379";
    assert_eq!(with_ports(text, &ports), expected);
    assert_eq!(with_ports("no port", &ports), "no port");
}

#[test]
#[should_panic(expected = "---- printed")]
fn another_output_is_told() {
    run_of("echo two", &["one"]);
}

#[test]
#[should_panic(expected = "left: \"3\"")]
fn a_command_that_fails_is_told() {
    run_of("(exit 3)", &[]);
}

/// What did not end: continuous integration, by a loop of a page that waited for a program that had failed.
#[test]
fn a_shell_that_waits_for_ever_is_ended() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let script = "echo why > server.log; echo begun; until false; do sleep 0.1; done";
    let (output, ended) = shell(folder.path(), script, Duration::from_secs(1));
    assert_eq!((output.as_str(), ended), ("begun\n", false));
    assert!(logs_of(folder.path()).ends_with("server.log\nwhy\n"));
}
