//! Building the test programs, and telling of each as soon as Cargo has linked it.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, IsTerminal};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::command::shown;
use crate::programs::{self, Program};

/// What Cargo built.
#[derive(Clone, Debug, Default)]
pub struct Built {
    /// The test programs.
    pub programs: Vec<Program>,
    /// The packages of which something was compiled.
    pub compiled: BTreeSet<String>,
    /// Those of which something was there from before.
    pub fresh: BTreeSet<String>,
    /// How many of them were handed on while it went on.
    pub handed_on: usize,
    /// CPU seconds that it took.
    pub cpu: f64,
    /// How long it took.
    pub time: Duration,
    /// What does not compile or link, a line each; none if everything was built.
    pub failures: Vec<String>,
}

/// Builds all test programs, or those that the arguments choose, and calls `see` with each as soon as it is
/// there, if anything has to be compiled.
pub fn build(mut command: Command, see: &mut dyn FnMut(&Program)) -> Built {
    let name = shown(&command);
    let format = match std::io::stderr().is_terminal() {
        true => "--message-format=json-diagnostic-rendered-ansi",
        false => "--message-format=json",
    };
    command.args(["--no-run", format]);
    let started = Instant::now();
    let mut built = Built::default();
    let mut child = match command.stdout(Stdio::piped()).spawn() {
        Ok(child) => child,
        Err(error) => {
            built.failures.push(format!("{name}: it cannot be started: {error}"));
            return built;
        }
    };
    let mut messages = Messages { built: &mut built, is_compiling: false };
    for line in child.stdout.take().into_iter().flat_map(|output| BufReader::new(output).lines()) {
        let Ok(line) = line else { break };
        if let Ok(message) = serde_json::from_str(&line) {
            messages.read(&message, see);
        }
    }
    built.cpu = programs::cpu_when_ended(&child);
    built.time = started.elapsed();
    match child.wait() {
        Ok(status) if status.success() => built.failures.clear(),
        Ok(status) => built.failures.push(format!("{name}: {status}: not everything was built")),
        Err(error) => built.failures.push(format!("{name}: {error}")),
    }
    built
}

/// What is known while Cargo works.
struct Messages<'b> {
    built: &'b mut Built,
    /// Whether anything was compiled: before, it may be that nothing has to be.
    is_compiling: bool,
}

impl Built {
    /// Whether nothing was there from before but these packages: `cargo xtask` has built itself when it begins.
    pub fn is_cold(&self, but: &BTreeSet<String>) -> bool {
        !self.compiled.is_empty() && self.fresh.is_subset(but)
    }

    /// Whether all of these packages were compiled, and nothing of those was.
    pub fn is_just(&self, these: &BTreeSet<String>, those: &BTreeSet<String>) -> bool {
        self.fresh.is_disjoint(these) && self.compiled.is_disjoint(those)
    }
}

impl Messages<'_> {
    /// Reads a message.
    fn read(&mut self, message: &serde_json::Value, see: &mut dyn FnMut(&Program)) {
        match message["reason"].as_str() {
            Some("compiler-artifact") => {
                let is_fresh = message["fresh"] == true;
                self.is_compiling |= !is_fresh;
                if let Some(id) = message["package_id"].as_str() {
                    let built = &mut *self.built;
                    let list = if is_fresh { &mut built.fresh } else { &mut built.compiled };
                    list.insert(programs::package_of(id));
                }
                self.built.programs.extend(programs::program_of(message));
                self.hand_on(see);
            }
            Some("compiler-message") => {
                let told = &message["message"];
                eprint!("{}", told["rendered"].as_str().unwrap_or_default());
                // A library and its tests tell of the same.
                let error = error_in(message).filter(|error| !self.built.failures.contains(error));
                self.built.failures.extend(error);
            }
            _ => {}
        }
    }

    /// Hands on the programs that were not.
    fn hand_on(&mut self, see: &mut dyn FnMut(&Program)) {
        if self.is_compiling {
            self.built.programs[self.built.handed_on..].iter().for_each(see);
            self.built.handed_on = self.built.programs.len();
        }
    }
}

/// The error that a message of the compiler tells of, with its package and place.
fn error_in(message: &serde_json::Value) -> Option<String> {
    let told = &message["message"];
    let place = told["spans"].as_array()?.iter().find(|span| span["is_primary"] == true);
    if told["level"] != "error" || is_count(told) {
        return None;
    }
    let package = programs::package_of(message["package_id"].as_str()?);
    let text = told["message"].as_str()?.lines().next()?;
    let place = place.map_or_else(String::new, |span| {
        format!(" ({}:{})", span["file_name"].as_str().unwrap_or_default(), span["line_start"])
    });
    Some(format!("build of {package}: {text}{place}"))
}

/// Whether the compiler says how many errors there were.
fn is_count(told: &serde_json::Value) -> bool {
    told["message"].as_str().is_some_and(|text| text.starts_with("aborting due to"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn artifact(name: &str, fresh: bool) -> String {
        format!(
            r#"{{"reason":"compiler-artifact","package_id":"path+file:///a/crates/{name}#{name}@0.1.0",
            "manifest_path":"/a/crates/{name}/Cargo.toml","target":{{"kind":["test"],"name":"it"}},
            "profile":{{"test":true}},"executable":"/t/{name}","fresh":{fresh}}}"#
        )
        .replace('\n', "")
    }

    /// A command that prints these lines as Cargo does, and ends so.
    fn script(lines: &[String], end: &str) -> Command {
        let mut command = Command::new("sh");
        let print: String =
            lines.iter().map(|line| format!("echo '{line}'; sleep 0.05; ")).collect();
        command.args(["-c", &(print + end)]);
        command
    }

    fn names(programs: &[Program]) -> Vec<&str> {
        programs.iter().map(|program| program.package.as_str()).collect()
    }

    #[test]
    fn a_program_is_handed_on_while_others_are_compiled() {
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join("mark");
        // The build ends when the first program was handed on, or else with failure.
        let wait = format!(
            "for i in 1 2 3 4 5 6 7 8 9; do [ -e {0} ] && exit 0; sleep 1; done; exit 1",
            mark.display()
        );
        let mut seen = Vec::new();
        let built =
            build(script(&[artifact("b", true), artifact("a", false)], &wait), &mut |program| {
                seen.push(program.clone());
                std::fs::write(&mark, "").unwrap();
            });
        assert_eq!((names(&seen), built.failures.len()), (vec!["b", "a"], 0));
        assert!(built.programs == seen && built.handed_on == 2);
        let [a, b] = ["a", "b"].map(|name| BTreeSet::from([name.to_string()]));
        assert!(built.is_cold(&b) && !built.is_cold(&a) && !built.is_cold(&BTreeSet::new()));
        assert!(built.is_just(&a, &b) && !built.is_just(&b, &a) && !built.is_just(&b, &b));
        assert!(!built.is_just(&a, &a));
    }

    /// They would begin one after the other, in the order of Cargo.
    #[test]
    fn when_nothing_is_compiled_nothing_is_handed_on() {
        let lines = [artifact("b", true), artifact("a", true)];
        let built = build(script(&lines, "true"), &mut |_| panic!("nothing is compiled"));
        let [a, b] = ["a", "b"].map(String::from);
        assert!(built.failures.is_empty() && !built.is_cold(&BTreeSet::from([a, b])));
        assert_eq!((names(&built.programs), built.handed_on), (vec!["b", "a"], 0));
    }

    #[test]
    fn a_build_that_fails_says_where() {
        let error = |message: &str, spans: &str| {
            format!(
                r#"{{"reason":"compiler-message","package_id":"path+file:///a/crates/pool#everleaf-pool@0.1.0",
                "message":{{"level":"error","message":"{message}","spans":[{spans}],"rendered":""}}}}"#
            )
            .replace('\n', "")
        };
        let span = r#"{"is_primary":true,"file_name":"crates/pool/src/a.rs","line_start":7}"#;
        let lines = [
            artifact("a", false),
            error("no such name", span),
            error("aborting due to 1 previous error", ""),
        ];
        let mut seen = 0;
        let built = build(script(&lines, "exit 101"), &mut |_| seen += 1);
        assert_eq!((seen, built.failures.len()), (1, 2), "{:?}", built.failures);
        assert_eq!(
            built.failures[0],
            "build of everleaf-pool: no such name (crates/pool/src/a.rs:7)"
        );
        assert!(built.failures[1].ends_with("exit status: 101: not everything was built"));
    }

    #[test]
    fn what_the_build_takes_is_counted_without_what_runs_beside_it() {
        let work = |rounds: u32| format!("i=0; while [ $i -lt {rounds} ]; do i=$((i+1)); done");
        let built = build(script(&[artifact("a", false)], &work(50_000)), &mut |_| {
            // Much more by another child, which was waited for.
            assert!(Command::new("sh").args(["-c", &work(800_000)]).status().unwrap().success());
        });
        let beside = programs::children_cpu();
        assert!(built.cpu > 0.0 && built.cpu < beside / 2.0, "{} of {beside}", built.cpu);
    }
}
