//! The commands, one file each: its arguments, its help, and what it does.

pub(crate) mod backup;
pub mod bench;
pub(crate) mod check;
pub(crate) mod compact;
pub(crate) mod completions;
pub(crate) mod create;
pub(crate) mod del;
pub(crate) mod export;
pub(crate) mod get;
pub(crate) mod import;
pub(crate) mod load;
pub(crate) mod man;
pub(crate) mod maps;
pub(crate) mod ping;
pub(crate) mod put;
pub(crate) mod repair;
pub(crate) mod restore;
pub(crate) mod scan;
pub(crate) mod serve;
pub(crate) mod snapshot;
pub(crate) mod stat;
pub(crate) mod upgrade;

use crate::cli::{Cli, Command};
use crate::failure::Failure;
use crate::output::Output;
use clap::CommandFactory;

/// Runs the command, and writes out what it printed even if it failed in the end.
pub(crate) fn run(cli: Cli) -> Result<(), Failure> {
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
        Command::Import(args) => import::run(*args, global, out),
        Command::Stat(args) => stat::run(args, global, out),
        Command::Check(args) => check::run(args, global, out),
        Command::Maps(args) => maps::run(args, global, out),
        Command::Backup(args) => backup::run(args, global, out),
        Command::Restore(args) => restore::run(args, global, out),
        Command::Snapshot(args) => snapshot::run(args, global, out),
        Command::Compact(args) => compact::run(args, global, out),
        Command::Repair(args) => repair::run(args, global, out),
        Command::Upgrade(args) => upgrade::run(args, global, out),
        Command::Serve(args) => serve::run(*args, global, out),
        Command::Bench(args) => bench::run(*args, &[], global, out),
        Command::Ping(args) => ping::run(args, global, out),
        Command::Man(args) => man::run(args, Cli::command(), out),
        Command::Completions(args) => completions::run(args, Cli::command(), out),
    };
    let flushed = output.flush();
    end.and(flushed)
}
