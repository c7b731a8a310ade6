//! `cargo xtask servers FOLDER [--threads N] [PART ..]`: Everleaf's server, Redis and Valkey side by side, by one
//! client.
//!
//! With `--threads` Everleaf has so many event loops, otherwise those that `serve` has by itself: one per CPU but one.
//! `FOLDER` has a release build of `everleaf` (as `target/release`). Parts: `commands` (all of redis-benchmark, with 1
//! and with 32 requests in flight; `commands:lpush,lpop` those tests alone), `ycsb` (its six mixes of commands),
//! `sorted-set` (one of 10^7 members: memory, and speed), `tls`. Without a part all of them. Each prints a section of
//! `docs/results/servers.md`. Nothing is written to a disk by anybody: what is compared survives the death of the
//! process at most, and all files are in a folder in memory, without which this ends. For a quiet machine.
//! `processor` is for a machine that is not: the processor's time that the servers take for a command with 32 in
//! flight (`processor:sadd,zpopmin`: of those tests alone); also with Everleaf's durability `interval`, on the disk
//! that `FOLDER` is on. `removal` has a set of 10^7 members removed, and one expire, and tells what another client
//! notices; `removal:COUNT` one of so many. `claims` opens 3,000 clients that announce 100 MB each and send 152 bytes,
//! and tells what is held for them (`ulimit -n 8192` before).

mod claims;
mod client;
mod commands;
mod contender;
mod processor;
mod removal;
mod sections;
mod ycsb;

use std::path::Path;

use contender::Contender;

const USAGE: &str = "usage: cargo xtask servers FOLDER [--threads N] \
    [commands[:TEST,..]|ycsb|sorted-set|tls|processor[:TEST,..]|claims|removal[:COUNT] ..]";

/// Measures and prints sections.
pub fn run(arguments: &[String]) -> bool {
    match measure(arguments) {
        Ok(()) => true,
        Err(what) => {
            eprintln!("xtask: {what}");
            false
        }
    }
}

fn measure(arguments: &[String]) -> Result<(), String> {
    let (folder, parts) = arguments.split_first().ok_or(USAGE)?;
    let (threads, parts) = match parts {
        [first, count, rest @ ..] if first == "--threads" => (
            Some(count.parse().map_err(|_| format!("--threads {count}: that is no number"))?),
            rest,
        ),
        parts => (None, parts),
    };
    let contenders = Contender::all(Path::new(folder), threads)?;
    let all = ["commands", "ycsb", "sorted-set", "tls"].map(String::from);
    for part in if parts.is_empty() { &all[..] } else { parts } {
        let section = match part.as_str() {
            "commands" => sections::commands(&contenders, "")?,
            "ycsb" => ycsb::section(&contenders)?,
            "sorted-set" => sections::sorted_set(&contenders)?,
            "tls" => sections::tls(&contenders)?,
            "claims" => claims::section(&contenders)?,
            "removal" => removal::section(&contenders, sections::MEMBERS)?,
            "processor" => processor::section(&contenders, Path::new(folder), "")?,
            part if part.starts_with("processor:") => {
                processor::section(&contenders, Path::new(folder), &part["processor:".len()..])?
            }
            part if part.starts_with("commands:") => {
                sections::commands(&contenders, &part["commands:".len()..])?
            }
            part => {
                let count = part.strip_prefix("removal:").and_then(|count| count.parse().ok());
                removal::section(&contenders, count.ok_or(USAGE)?)?
            }
        };
        println!("{section}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        let arguments = ["/nowhere".to_string()];
        assert!(measure(&arguments).is_err_and(|what| what.contains("/nowhere/everleaf")));
        let threads = ["/nowhere", "--threads", "x"].map(String::from);
        assert!(measure(&threads).is_err_and(|what| what.contains("--threads x")));
        assert!(measure(&[]).is_err_and(|what| what.starts_with("usage")));
    }
}
