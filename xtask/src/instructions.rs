//! `cargo xtask instructions BEFORE AFTER`: how many instructions and branches an operation takes with two builds.
//!
//! For a machine that is not quiet, where times say nothing: valgrind counts them. Each row is the difference of
//! two runs, one of which does three times as many operations, so that nothing else is in it. `BEFORE` and `AFTER`
//! are folders as those of `versus`; the counts of a server are those of its whole process.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::versus::{Folder, Server, ask, output_of, program};

const USAGE: &str = "usage: cargo xtask instructions BEFORE AFTER [keys [ROW ..]]";
const KEYS: u64 = 60_000;
/// What is counted of each index, with the operations of the short run, in parts of the keys.
const OPERATIONS: [(&str, u64); 6] =
    [("get", 3), ("put", 3), ("update", 3), ("insert", 3), ("remove", 3), ("scan", 100)];
const REFUSING: &str = include_str!("instructions/no_auxv.c");

/// Instructions and conditional branches.
#[derive(Clone, Copy)]
struct Counts {
    instructions: u64,
    branches: u64,
}

impl Counts {
    /// Those of each of the operations that `longer` did more.
    fn of_each(self, longer: Counts, operations: u64) -> [f64; 2] {
        let of_each = |short: u64, long: u64| (long as f64 - short as f64) / operations as f64;
        [of_each(self.instructions, longer.instructions), of_each(self.branches, longer.branches)]
    }
}

/// Counts and prints a table.
pub fn run(arguments: &[String]) -> bool {
    match count(arguments) {
        Ok(()) => true,
        Err(what) => {
            eprintln!("xtask: {what}");
            false
        }
    }
}

fn count(arguments: &[String]) -> Result<(), String> {
    let (builds, rest) = match arguments {
        [before, after, rest @ ..] => ([before, after].map(PathBuf::from), rest),
        _ => return Err(USAGE.into()),
    };
    let keys = match rest.first() {
        None => KEYS,
        Some(text) => text.parse().map_err(|_| USAGE.to_string())?,
    };
    let wanted = rest.get(1..).unwrap_or_default();
    let is_wanted = |name: &String| wanted.is_empty() || wanted.contains(name);
    if let Some(missing) = builds.iter().map(|build| program(build)).find(|path| !path.is_file()) {
        return Err(format!("there is no {}: build it first", missing.display()));
    }
    let folder = Folder::new()?;
    let valgrind = Valgrind::new(&folder.0)?;
    println!("| operation | instructions before | after | ratio | branches before | after |");
    println!("|---|---|---|---|---|---|");
    for index in ["u64", "bytes"] {
        for (operation, part) in OPERATIONS {
            let name = format!("{index}, {operation}");
            if !is_wanted(&name) {
                continue;
            }
            let count = keys / part;
            let of_build = |build: &PathBuf| -> Result<[f64; 2], String> {
                let [short, long] = [count, 3 * count].map(|operations| {
                    valgrind.bench(build, [index, operation], [keys, operations])
                });
                Ok(short?.of_each(long?, 2 * count))
            };
            print_row(&name, of_build(&builds[0])?, of_build(&builds[1])?);
        }
    }
    for operation in ["update", "get"] {
        let name = format!("server, process, {operation}");
        if !is_wanted(&name) {
            continue;
        }
        let of_build = |build: &PathBuf| -> Result<[f64; 2], String> {
            let [short, long] = [keys / 3, keys]
                .map(|operations| valgrind.server(build, &builds[1], operation, operations));
            Ok(short?.of_each(long?, keys - keys / 3))
        };
        print_row(&name, of_build(&builds[0])?, of_build(&builds[1])?);
    }
    Ok(())
}

fn print_row(name: &str, before: [f64; 2], after: [f64; 2]) {
    println!(
        "| {name} | {:.0} | {:.0} | {:.3} | {:.1} | {:.1} |",
        before[0],
        after[0],
        after[0] / before[0],
        before[1],
        after[1]
    );
}

/// The tool that counts, and where it does so.
struct Valgrind<'f> {
    folder: &'f Path,
}

impl Valgrind<'_> {
    fn new(folder: &Path) -> Result<Valgrind<'_>, String> {
        let source = folder.join("no_auxv.c");
        std::fs::write(&source, REFUSING).map_err(|error| error.to_string())?;
        let mut compiler = Command::new("cc");
        compiler.arg("-o").arg(folder.join("no_auxv")).arg(&source);
        let _ = output_of(&mut compiler)?;
        let _ = output_of(Command::new("valgrind").arg("--version"))?;
        Ok(Valgrind { folder })
    }

    /// A command that runs a program of `build` and leaves its counts in a file.
    fn command(&self, build: &Path) -> Command {
        let mut command = Command::new(self.folder.join("no_auxv"));
        let counts = format!("--callgrind-out-file={}", self.counts().display());
        command.args(["valgrind", "-q", "--tool=callgrind", "--branch-sim=yes"]).arg(counts);
        command.arg(program(build));
        command
    }

    fn counts(&self) -> PathBuf {
        self.folder.join("counts")
    }

    /// What the last run has left.
    fn read(&self) -> Result<Counts, String> {
        let path = self.counts();
        let text = std::fs::read_to_string(&path)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        std::fs::remove_file(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        total(&text).ok_or_else(|| format!("{} has no totals", path.display()))
    }

    fn bench(
        &self,
        build: &Path,
        [index, operation]: [&str; 2],
        [keys, operations]: [u64; 2],
    ) -> Result<Counts, String> {
        let mut command = self.command(build);
        command.args(["bench", "--index", index, operation, "--rounds", "1", "--json"]);
        command.args(["--keys", &keys.to_string(), "--ops", &operations.to_string()]);
        let _ = output_of(&mut command)?;
        self.read()
    }

    fn server(
        &self,
        build: &Path,
        client: &Path,
        operation: &str,
        keys: u64,
    ) -> Result<Counts, String> {
        let folder = Folder::named("counted")?;
        let mut server = Server::start_by(self.command(build), &folder.0, 0, "process")?;
        let _ = ask(client, &server.address, "get", KEYS, true)?;
        let _ = ask(client, &server.address, operation, keys, false)?;
        let mut connection =
            TcpStream::connect(&server.address).map_err(|error| error.to_string())?;
        // Whether it answers or ends at once.
        let _ = connection.write_all(b"SHUTDOWN NOSAVE\r\n");
        let _ = connection.read_to_end(&mut vec![]);
        server.wait()?;
        self.read()
    }
}

/// The last line with the counts of all.
fn total(text: &str) -> Option<Counts> {
    let named = |line: &&str| line.starts_with("totals:") || line.starts_with("summary:");
    let line = text.lines().rev().find(named)?;
    let mut numbers = line.split(' ').skip(1).map(|number| number.parse().ok());
    Some(Counts { instructions: numbers.next()??, branches: numbers.next()?? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_one_of_two_runs_did_is_counted() {
        let [short, long] = ["fn=(1)\n1 5\ntotals: 1000 70 3 0 0\n", "totals: 5000 90 9 1 1\n"]
            .map(|text| total(text).expect("it has totals"));
        assert_eq!(short.of_each(long, 10), [400.0, 2.0]);
        assert!(total("events: Ir Bc\n").is_none());
    }

    #[test]
    fn what_is_missing_is_named() {
        let arguments = ["/nowhere/before", "/nowhere/after"].map(String::from);
        assert!(count(&arguments).is_err_and(|what| what.contains("/nowhere/before/everleaf")));
        assert!(count(&arguments[..1]).is_err_and(|what| what.starts_with("usage")));
    }
}
