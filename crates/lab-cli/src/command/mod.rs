//! The commands, one file each: its arguments, its help, and what it does. `bench` is the one of
//! `everleaf`, with all designs.

pub mod check;
pub mod compare;
pub mod completions;
pub mod create;
pub mod list;
pub mod pibench;
pub mod prove;
pub mod report;
pub mod run;

use everleaf_cli::command::bench;
use everleaf_cli::failure::Failure;
use everleaf_cli::output::Output;

use crate::cli::{Cli, Command};

/// Runs the command, and writes out what it printed even if it failed in the end.
pub fn run(cli: Cli) -> Result<(), Failure> {
    let mut output = Output::new();
    let (global, out) = (cli.global, &mut output);
    let end = match cli.command {
        Command::Bench(args) => bench::run(*args, &everleaf_lab::designs(), global, out),
        Command::Pibench(args) => pibench::run(&args, global, out),
        Command::List(_) => list::run(global, out),
        Command::Run(args) => run::run(&args, global, out),
        Command::Compare(args) => compare::run(&args, global, out),
        Command::Report(args) => report::run(&args, global, out),
        Command::Prove(args) => prove::run(*args, global, out),
        Command::Create(args) => create::run(args, global, out),
        Command::Check(args) => check::run(args, global, out),
        Command::Completions(args) => completions::run(args, out),
    };
    let flushed = output.flush();
    end.and(flushed)
}
