//! The commands, one file each: its arguments, its help, and what it does.

pub mod backup;
pub mod bench;
pub mod check;
pub mod compact;
pub mod completions;
pub mod create;
pub mod del;
pub mod export;
pub mod get;
pub mod lab;
pub mod load;
pub mod maps;
pub mod prove;
pub mod put;
pub mod repair;
pub mod restore;
pub mod scan;
pub mod serve;
pub mod snapshot;
pub mod stat;
pub mod upgrade;

use crate::cli::{Cli, Command};
use crate::failure::Failure;
use crate::output::Output;

/// Runs the command, and writes out what it printed even if it failed in the end.
pub fn run(cli: Cli) -> Result<(), Failure> {
    let mut output = Output::new();
    let (global, out) = (cli.global, &mut output);
    let end = match cli.command {
        Command::Create(args) => create::run(args, global, out),
        Command::Load(args) => load::run(args, global, out),
        Command::Get(args) => get::run(args, global, out),
        Command::Put(args) => put::run(args, global, out),
        Command::Del(args) => del::run(args, global, out),
        Command::Scan(args) => scan::run(args, global, out),
        Command::Export(args) => export::run(args, global, out),
        Command::Stat(args) => stat::run(args, global, out),
        Command::Check(args) => check::run(args, global, out),
        Command::Maps(args) => maps::run(args, global, out),
        Command::Backup(args) => backup::run(args, global, out),
        Command::Restore(args) => restore::run(args, global, out),
        Command::Snapshot(args) => snapshot::run(args, global, out),
        Command::Compact(args) => compact::run(args, global, out),
        Command::Repair(args) => repair::run(args, global, out),
        Command::Upgrade(args) => upgrade::run(args, global, out),
        Command::Serve(args) => serve::run(args, global, out),
        Command::Bench(args) => bench::run(*args, global, out),
        Command::Lab(args) => lab::run(args, global, out),
        Command::Prove(args) => prove::run(args, global, out),
        Command::Completions(args) => completions::run(args, out),
    };
    let flushed = output.flush();
    end.and(flushed)
}
