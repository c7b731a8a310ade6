//! `cargo xtask versus BEFORE AFTER`: the same work by two builds of the program, turn by turn.
//!
//! `BEFORE` and `AFTER` are folders with a release build of `everleaf` (as `target/release`). Each round asks
//! both, now one first and now the other: `everleaf bench` of either index, a server of each durability, which the
//! client of `AFTER` asks for both, and puts with a log, if both folders have `examples/log_cost`. What counts
//! is the processor's time of an operation, and of a server that of the whole process. The pools are in the folder
//! for temporary files. With rows named, as the table names them ("u64, put"), only those are measured, so that more
//! rounds of one that is not decided take less time.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

const USAGE: &str = "usage: cargo xtask versus BEFORE AFTER [rounds [keys [ROW ..]]]";
const ROUNDS: usize = 11;
const KEYS: u64 = 1_000_000;
/// Slower by more than this is told.
const ALLOWED: f64 = 1.03;
/// From so many rounds on it can be told whether a median is above 1.
const SURE_ROUNDS: usize = 6;
/// Durability of the servers.
const LEVELS: [&str; 3] = ["process", "interval", "power"];
/// What servers are asked.
const SERVED: [&str; 2] = ["update", "get"];
/// Indexes that are measured without a server.
const INDEXES: [&str; 2] = ["u64", "bytes"];

/// What an operation cost: nanoseconds on a CPU, and on the clock.
#[derive(Clone, Copy)]
struct Cost {
    cpu_ns: f64,
    clock_ns: f64,
}

/// What each round found of an operation, by each build.
#[derive(Default)]
struct Findings {
    operations: BTreeMap<String, [Vec<Cost>; 2]>,
}

/// Measures and prints a table.
pub fn run(arguments: &[String]) -> bool {
    match measure(arguments) {
        Ok(findings) => {
            findings.print();
            true
        }
        Err(what) => {
            eprintln!("xtask: {what}");
            false
        }
    }
}

fn measure(arguments: &[String]) -> Result<Findings, String> {
    let (builds, rest) = match arguments {
        [before, after, rest @ ..] => ([PathBuf::from(before), PathBuf::from(after)], rest),
        _ => return Err(USAGE.into()),
    };
    let number = |at: usize, default: u64| match rest.get(at) {
        None => Ok(default),
        Some(text) => text.parse().map_err(|_| USAGE.to_string()),
    };
    let (rounds, keys) = (number(0, ROUNDS as u64)?, number(1, KEYS)?);
    let wanted = Wanted::new(rest.get(2..).unwrap_or_default())?;
    for build in &builds {
        if !program(build).is_file() {
            return Err(format!("there is no {}: build it first", program(build).display()));
        }
    }
    let mut findings = Findings::default();
    for round in 0..rounds {
        // The program that is first has the caches as the one before left them.
        let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
        for (index, operations) in &wanted.of_indexes {
            for build in order {
                bench_index(&mut findings, build, &builds[build], index, operations, keys)?;
            }
        }
        let puts = |build: &PathBuf| build.join("examples/log_cost");
        if wanted.puts && builds.iter().all(|build| puts(build).is_file()) {
            for build in order {
                bench_puts(&mut findings, build, &puts(&builds[build]), keys)?;
            }
        }
        for (level, operations) in &wanted.of_servers {
            let folder = Folder::new()?;
            let servers =
                [0, 1].map(|build| Server::start(&builds[build], &folder.0, build, level));
            let [before, after] = servers;
            let servers = [before?, after?];
            for server in &servers {
                ask(&builds[1], &server.address, "get", keys, true)?;
            }
            for operation in operations {
                for build in order {
                    let (server, cpu) = (&servers[build], servers[build].cpu_ns()?);
                    let clock_ns = ask(&builds[1], &server.address, operation, keys, false)?;
                    let cpu_ns = (server.cpu_ns()? - cpu) / keys as f64;
                    let name = format!("server, {level}, {operation}");
                    findings.add(name, build, Cost { cpu_ns, clock_ns });
                }
            }
        }
        eprintln!("round {} of {rounds} is done", round + 1);
    }
    Ok(findings)
}

/// What is to be measured.
#[derive(Debug, PartialEq)]
struct Wanted {
    /// Indexes with the operations that were named of them; all, if none is.
    of_indexes: Vec<(&'static str, Vec<String>)>,
    /// Levels of durability, with the operations that servers are asked.
    of_servers: Vec<(&'static str, Vec<&'static str>)>,
    /// Puts into a store with and without a log.
    puts: bool,
}

impl Wanted {
    /// Rows as the table names them; everything if there are none.
    fn new(rows: &[String]) -> Result<Wanted, String> {
        let is_wanted = |row: &str| rows.is_empty() || rows.iter().any(|wanted| wanted == row);
        let of_index = |index: &'static str| {
            let operation =
                |row: &String| row.strip_prefix(index)?.strip_prefix(", ").map(String::from);
            let operations: Vec<String> = rows.iter().filter_map(operation).collect();
            (rows.is_empty() || !operations.is_empty()).then_some((index, operations))
        };
        let of_server = |level: &'static str| {
            let of_row = |operation: &&str| is_wanted(&format!("server, {level}, {operation}"));
            let operations: Vec<&str> = SERVED.into_iter().filter(of_row).collect();
            (!operations.is_empty()).then_some((level, operations))
        };
        let wanted = Wanted {
            of_indexes: INDEXES.into_iter().filter_map(of_index).collect(),
            of_servers: LEVELS.into_iter().filter_map(of_server).collect(),
            puts: rows.is_empty(),
        };
        let count = |lists: usize| if rows.is_empty() { 0 } else { lists };
        let named = wanted.of_indexes.iter().map(|(_, operations)| operations.len()).sum::<usize>()
            + wanted.of_servers.iter().map(|(_, operations)| operations.len()).sum::<usize>();
        match count(named) == rows.len() {
            true => Ok(wanted),
            false => Err(format!("a row that the table does not have; {USAGE}")),
        }
    }
}

impl Findings {
    fn add(&mut self, name: String, build: usize, cost: Cost) {
        self.operations.entry(name).or_default()[build].push(cost);
    }

    fn print(&self) {
        println!("| operation | before, ns | after, ns | ratio | 95 % | ratio by the clock |");
        println!("|---|---|---|---|---|---|");
        let mut slower = Vec::new();
        for (name, [before, after]) in &self.operations {
            let pairs = || before.iter().zip(after);
            let mut cpu: Vec<f64> = pairs().map(|(b, a)| a.cpu_ns / b.cpu_ns).collect();
            let mut clock: Vec<f64> = pairs().map(|(b, a)| a.clock_ns / b.clock_ns).collect();
            let ns =
                |costs: &[Cost]| median(&mut costs.iter().map(|c| c.cpu_ns).collect::<Vec<_>>());
            let (ratio, by_clock) = (median(&mut cpu), median(&mut clock));
            let (least, most) = interval(&cpu);
            println!(
                "| {name} | {:.1} | {:.1} | {ratio:.3} | {least:.3} - {most:.3} | {by_clock:.3} |",
                ns(before),
                ns(after)
            );
            if ratio > ALLOWED {
                let is_sure = cpu.len() >= SURE_ROUNDS && least > 1.0;
                slower.push(format!("{name}{}", if is_sure { "" } else { " (not sure)" }));
            }
        }
        let share = (ALLOWED - 1.0) * 100.0;
        println!(
            "\nslower by more than {share:.0} %: {}",
            match slower.as_slice() {
                [] => "nothing".to_string(),
                names => names.join("; "),
            }
        );
    }
}

/// Where the median of all possible rounds is with a confidence of at least 95 %, by the ranks of those there were,
/// which are sorted; with fewer than [`SURE_ROUNDS`], from the least to the greatest.
fn interval(sorted: &[f64]) -> (f64, f64) {
    let count = sorted.len();
    // A round is below the median as often as a coin falls on one side.
    let (mut below, mut ways, mut outside) = (0, 1.0, 2.0 * 0.5_f64.powi(count as i32));
    loop {
        ways *= (count - below.min(count)) as f64 / (below + 1) as f64;
        outside += 2.0 * ways * 0.5_f64.powi(count as i32);
        if outside > 0.05 {
            break;
        }
        below += 1;
    }
    match sorted {
        [] => (f64::NAN, f64::NAN),
        _ => (sorted[below], sorted[count - 1 - below]),
    }
}

/// The median; sorts.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        count if count % 2 == 0 => (values[middle - 1] + values[middle]) / 2.0,
        _ => values[middle],
    }
}

/// The program of a build.
pub fn program(build: &Path) -> PathBuf {
    build.join("everleaf")
}

/// Runs to the end: what it printed.
pub fn output_of(command: &mut Command) -> Result<String, String> {
    let what = format!("{command:?}");
    let ended = command.stderr(Stdio::inherit()).output();
    let ended = ended.map_err(|error| format!("{what}: {error}"))?;
    if !ended.status.success() {
        return Err(format!("{what}: {}", ended.status));
    }
    String::from_utf8(ended.stdout).map_err(|_| format!("{what}: no text"))
}

/// The rows of a report.
fn rows_of(text: &str) -> Result<Vec<Value>, String> {
    let report: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    report["rows"].as_array().cloned().ok_or_else(|| "the report has no rows".to_string())
}

fn number_in(value: &Value, what: &str) -> Result<f64, String> {
    value.as_f64().ok_or_else(|| format!("the report has no {what}"))
}

/// The operations of an index; all if none is named.
fn bench_index(
    findings: &mut Findings,
    build: usize,
    folder: &Path,
    index: &str,
    operations: &[String],
    keys: u64,
) -> Result<(), String> {
    let keys = keys.to_string();
    let mut command = Command::new(program(folder));
    command.args(["bench", "--index", index]).args(operations);
    command.args(["--keys", &keys, "--rounds", "1", "--json"]);
    for row in rows_of(&output_of(&mut command)?)? {
        let workload = row["workload"].as_str().unwrap_or_default();
        let clock_ns = 1e9 / number_in(&row["per_second"]["median"], "throughput")?;
        let cpu_ns = number_in(&row["unit_ns"]["median"], "cost")?;
        findings.add(format!("{index}, {workload}"), build, Cost { cpu_ns, clock_ns });
    }
    Ok(())
}

/// Puts into a store with and without a log.
fn bench_puts(
    findings: &mut Findings,
    build: usize,
    program: &Path,
    keys: u64,
) -> Result<(), String> {
    let folder = Folder::new()?;
    let mut command = Command::new(program);
    let text = output_of(command.arg(&folder.0).arg(keys.to_string()))?;
    for line in text.lines() {
        let row: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
        let cpu_ns = number_in(&row["cpu_ns"], "cost")?;
        let clock_ns = number_in(&row["clock_ns"], "time")?;
        let name = format!("store, {}", row["what"].as_str().unwrap_or_default());
        findings.add(name, build, Cost { cpu_ns, clock_ns });
    }
    Ok(())
}

/// Asks a server, with the client of one build: nanoseconds of the clock an operation.
pub fn ask(
    client: &Path,
    address: &str,
    operation: &str,
    keys: u64,
    loads: bool,
) -> Result<f64, String> {
    let keys = keys.to_string();
    let mut command = Command::new(program(client));
    command.args(["bench", "--redis", address, operation, "--keys", &keys, "--ops", &keys]);
    command.args(["--rounds", "1", "--connections", "16", "--pipeline", "32", "--json"]);
    if !loads {
        command.arg("--no-load");
    }
    let rows = rows_of(&output_of(&mut command)?)?;
    let row = rows.first().ok_or("the report is empty")?;
    Ok(1e9 / number_in(&row["per_second"]["median"], "throughput")?)
}

/// A folder that goes with this.
pub struct Folder(pub PathBuf);

impl Folder {
    /// An empty one.
    pub fn new() -> Result<Folder, String> {
        Folder::named("versus")
    }

    /// An empty one beside those of other names.
    pub fn named(name: &str) -> Result<Folder, String> {
        let path = std::env::temp_dir().join(format!("everleaf-{name}-{}", std::process::id()));
        // What an earlier run left that was killed.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is removed by the next.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A running server; killed when it goes.
pub struct Server {
    child: Child,
    /// Where it listens.
    pub address: String,
}

impl Server {
    fn start(build: &Path, folder: &Path, number: usize, level: &str) -> Result<Server, String> {
        Server::start_by(Command::new(program(build)), folder, number, level)
    }

    /// Starts one by a command that begins with its program.
    pub fn start_by(
        mut command: Command,
        folder: &Path,
        number: usize,
        level: &str,
    ) -> Result<Server, String> {
        command.arg("serve").arg(folder.join(number.to_string()));
        command.args(["--port", "0", "--threads", "1", "--durability", level]);
        // Little enough of addresses for valgrind, too.
        command.args(["--max-size", "4G"]).stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.stderr(Stdio::piped()).spawn().map_err(|error| error.to_string())?;
        let mut server = Server { child, address: String::new() };
        let stderr = server.child.stderr.take().ok_or("stderr is piped")?;
        let (mut lines, mut line) = (BufReader::new(stderr), String::new());
        while lines.read_line(&mut line).is_ok_and(|size| size > 0) {
            if let Some(rest) = line.split("ready on ").nth(1) {
                let end = rest.find([',', ' ', '\n']).unwrap_or(rest.len());
                server.address = rest[..end].to_string();
                // A program that logs needs a reader.
                std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
                return Ok(server);
            }
            line.clear();
        }
        Err(format!("{command:?}: the server ended"))
    }

    /// Waits until it has ended.
    pub fn wait(&mut self) -> Result<(), String> {
        self.child.wait().map(|_| ()).map_err(|error| error.to_string())
    }

    /// What all its threads have had of the processors.
    fn cpu_ns(&self) -> Result<f64, String> {
        let folder = format!("/proc/{}/task", self.child.id());
        let tasks = fs::read_dir(&folder).map_err(|error| format!("{folder}: {error}"))?;
        let of_task = |path: PathBuf| {
            let text = fs::read_to_string(path.join("schedstat")).unwrap_or_default();
            text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(0.0)
        };
        Ok(tasks.filter_map(|task| Some(of_task(task.ok()?.path()))).sum())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_that_of_the_ratios_of_the_rounds() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&mut [4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&mut []).is_nan());
    }

    /// The ranks are those of the tables of the sign test.
    #[test]
    fn an_interval_leaves_out_what_may_be_chance() {
        let ranks =
            |count: usize| interval(&(1..=count).map(|rank| rank as f64).collect::<Vec<_>>());
        assert_eq!(
            [ranks(1), ranks(5), ranks(6), ranks(8)],
            [(1., 1.), (1., 5.), (1., 6.), (1., 8.)]
        );
        assert_eq!(
            [ranks(9), ranks(11), ranks(12), ranks(20)],
            [(2., 8.), (2., 10.), (3., 10.), (6., 15.)]
        );
        assert!(interval(&[]).0.is_nan());
    }

    #[test]
    fn rows_that_are_named_are_measured_alone() {
        let wanted = |rows: &[&str]| {
            Wanted::new(&rows.iter().map(|row| row.to_string()).collect::<Vec<_>>())
        };
        let all = wanted(&[]).unwrap();
        assert_eq!((all.of_indexes.len(), all.of_servers.len(), all.puts), (2, 3, true));
        let some = wanted(&["u64, put", "server, power, get", "u64, get-many"]).unwrap();
        let operations = ["put", "get-many"].map(String::from).to_vec();
        assert_eq!(some.of_indexes, [("u64", operations)]);
        assert_eq!((some.of_servers, some.puts), (vec![("power", vec!["get"])], false));
        assert!(wanted(&["u64, put", "server, put"]).is_err_and(|what| what.contains("usage")));
    }

    #[test]
    fn what_is_missing_is_named() {
        let arguments = ["/nowhere/before", "/nowhere/after"].map(String::from);
        assert!(measure(&arguments).is_err_and(|what| what.contains("/nowhere/before/everleaf")));
        assert!(measure(&arguments[..1]).is_err_and(|what| what.starts_with("usage")));
    }
}
