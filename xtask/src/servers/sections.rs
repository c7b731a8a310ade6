//! What is measured, and the sections that tell it.

use std::fmt::Write;

use super::client::{Connection, Figures, Row, benchmark, medians, mixed};
use super::commands::{ROUNDS, rows};
use super::contender::{Contender, Folder, Server, certificates};

/// Everleaf's aims: of the others' speed, with one request in flight and with 32.
const AIMS: [(&str, f64); 2] = [("1", 1.0), ("32", 1.5)];
/// Members of the large sorted set.
pub const MEMBERS: u64 = 10_000_000;

/// A table: Everleaf's figures first, then those of the others, and what is below the aim in words.
pub fn table(contenders: &[Contender], rows: &[Row], aim: f64) -> String {
    let mut text = String::from("| |");
    for it in contenders {
        let _ = write!(text, " {} {}, a second (p99, ms) |", it.name, it.version);
    }
    for it in &contenders[1..] {
        let _ = write!(text, " of {} |", it.name);
    }
    text += "\n|---|";
    text += &"---|".repeat(2 * contenders.len() - 1);
    let mut below = Vec::new();
    for (name, figures) in rows {
        let _ = write!(text, "\n| {name} |");
        for it in figures {
            let _ = write!(text, " {:.0} ({:.2}) |", it.per_second, it.p99_ms);
        }
        for (it, other) in contenders[1..].iter().zip(&figures[1..]) {
            let ratio = figures[0].per_second / other.per_second;
            let _ = write!(text, " {ratio:.2} |");
            if ratio < aim {
                below.push(format!("{name} ({ratio:.2} of {})", it.name));
            }
        }
    }
    let below = if below.is_empty() { "nothing".to_string() } else { below.join(", ") };
    let _ = write!(text, "\n\nBelow the aim of {aim}: {below}.\n");
    text
}

/// Starts everybody without data.
pub fn start_all(contenders: &[Contender], folder: &Folder) -> Result<Vec<Server>, String> {
    contenders.iter().map(|it| it.start(&folder.0)).collect()
}

/// The tests of redis-benchmark of these names, parted by commas, or all.
pub fn commands(contenders: &[Contender], tests: &str) -> Result<String, String> {
    let mut text = String::new();
    for (pipeline, aim) in AIMS {
        let folder = Folder::new()?;
        let servers = start_all(contenders, &folder)?;
        let rows = rows(&servers, pipeline, tests)?;
        let _ = write!(
            text,
            "## redis-benchmark, {pipeline} in flight\n\n50 connections, keys of 100,000; medians of {ROUNDS} \
             rounds, each of as many requests as take the fastest a second at least. What is taken by LPOP, RPOP, SPOP \
             and ZPOPMIN was put there before each round.\n\n{}\n",
            table(contenders, &rows, aim)
        );
    }
    Ok(text)
}

/// A sorted set of many members: what it takes, and what asking costs.
pub fn sorted_set(contenders: &[Contender]) -> Result<String, String> {
    const AT_ONCE: u64 = 200;
    let mut memory = Vec::new();
    let mut all: Vec<Vec<(String, Figures)>> = Vec::new();
    for it in contenders {
        let folder = Folder::new()?;
        let server = it.start(&folder.0)?;
        let empty = server.memory_mib("RssAnon")?;
        let mut connection = Connection::new(server.port)?;
        let begin = std::time::Instant::now();
        for start in (0..MEMBERS).step_by(AT_ONCE as usize) {
            let pairs: Vec<(String, String)> = (start..start + AT_ONCE)
                .map(|number| ((mixed(number) % MEMBERS).to_string(), format!("m:{number:012}")))
                .collect();
            let mut words = vec![&b"ZADD"[..], b"large"];
            words.extend(
                pairs.iter().flat_map(|(score, member)| [score.as_bytes(), member.as_bytes()]),
            );
            connection.add(&words);
            connection.send(1)?;
        }
        let load_s = begin.elapsed().as_secs_f64();
        let (private, whole) = (server.memory_mib("RssAnon")? - empty, server.memory_mib("VmRSS")?);
        memory.push(format!(
            "| {} {} | {load_s:.0} s | {private:.0} | {whole:.0} |",
            it.name, it.version
        ));
        let random = MEMBERS.to_string();
        let tests: [&[&str]; 4] = [
            &["zadd", "large", "__rand_int__", "m:__rand_int__"],
            &["zrank", "large", "m:__rand_int__"],
            &["zscore", "large", "m:__rand_int__"],
            &["zrange", "large", "__rand_int__", "+inf", "byscore", "limit", "0", "10"],
        ];
        let mut figures = Vec::new();
        for test in tests {
            for (pipeline, requests) in [("1", "50000"), ("32", "100000")] {
                let options = ["-P", pipeline, "-n", requests, "-c", "50", "-r", &random];
                let found = benchmark(server.port, &[&options[..], test].concat())?;
                let found = found.first().ok_or("no row")?.1;
                figures.push((format!("{}, {pipeline} in flight", test[0].to_uppercase()), found));
            }
        }
        // All of it takes minutes: what a run that is cut has found is not lost.
        eprintln!("{}: {}, {figures:?}", it.name, memory.last().map_or("", String::as_str));
        all.push(figures);
    }
    let rows: Vec<Row> = (0..all[0].len())
        .map(|index| (all[0][index].0.clone(), all.iter().map(|it| it[index].1).collect()))
        .collect();
    Ok(format!(
        "## A sorted set of {MEMBERS} members\n\nMembers of 14 bytes, added {AT_ONCE} at a time. Memory in MiB: of \
         the process's own, without what it had when it was empty; and resident as a whole, with what is mapped \
         of Everleaf's pool.\n\n| | load | own | resident |\n|---|---|---|---|\n{}\n\n{}",
        memory.join("\n"),
        table(contenders, &rows, 1.0)
    ))
}

/// What TLS costs everybody.
pub fn tls(contenders: &[Contender]) -> Result<String, String> {
    let folder = Folder::new()?;
    certificates(&folder.0)?;
    let servers = start_all(contenders, &folder)?;
    let certificate = folder.0.join("server.crt").display().to_string();
    let mut rows: Vec<Row> = Vec::new();
    for (pipeline, requests) in [("1", "30000"), ("32", "200000")] {
        let options = ["-P", pipeline, "-n", requests, "-c", "50", "-r", "100000", "-t", "set,get"];
        let secure = [&options[..], &["--tls", "--cacert", &certificate]].concat();
        let mut found: Vec<Vec<Vec<(String, Figures)>>> = servers.iter().map(|_| vec![]).collect();
        for _ in 0..ROUNDS {
            for (server, found) in servers.iter().zip(&mut found) {
                found.push(benchmark(server.tls_port, &secure)?);
            }
        }
        let all: Vec<_> = found.iter().map(|rounds| medians(rounds)).collect();
        for name in ["SET", "GET"] {
            let figures: Option<Vec<Figures>> =
                all.iter().map(|it| it.get(name).copied()).collect();
            rows.push((
                format!("{name}, {pipeline} in flight"),
                figures.ok_or("a test is missing")?,
            ));
        }
    }
    Ok(format!(
        "## TLS\n\n50 connections of TLS, one certificate.\n\n{}",
        table(contenders, &rows, 1.0)
    ))
}
