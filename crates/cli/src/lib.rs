//! The `everleaf` command line: create, fill, query, check and serve a pool.
//!
//! One file per command is under [`command`], the file formats of `load` and `export` are under
//! `format`, what a process may end with is in [`exit_code`]. Everything printed goes through
//! [`output`]; every error is a [`failure::Failure`]: one sentence and one exit code.
//!
//! This is a library only so that `everleaf-lab`, which is another program, prints, fails and parses
//! in the same way, and has the same `bench`.

#![forbid(unsafe_code)]

pub mod arguments;
pub mod cli;
pub mod command;
mod config;
pub mod exit_code;
pub mod failure;
mod format;
pub mod global;
mod ingest;
mod input;
mod open;
pub mod output;
mod progress;
mod redis;
mod service_manager;
pub mod target_file;

/// The Rust of the guide, whose commands are run by `tests/it/guide.rs`.
#[cfg(doctest)]
#[allow(rustdoc::invalid_codeblock_attributes, reason = "they are for the test of the guide")]
#[doc = include_str!("../../../docs/guide/embed.md")]
mod guide {}

use clap::CommandFactory;
use failure::Failure;
use global::HasGlobal;
use signal_hook::consts::signal::SIGXFSZ;
use std::sync::Arc;

/// Runs the program to its end: parses the arguments of the process and runs the command.
pub fn main() -> std::process::ExitCode {
    // A file that may not grow is an error like a full disk, and not the end of the process. If there cannot be a
    // handler, it is that.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
    finish(cli::parse::<cli::Cli>(cli::Cli::command()), |cli| command::run(*cli))
}

/// Runs what was parsed, if it is to be run, and says what went wrong.
pub fn finish<C: HasGlobal>(
    parsed: cli::Parsed<C>,
    run: impl FnOnce(Box<C>) -> Result<(), Failure>,
) -> std::process::ExitCode {
    let end = match parsed {
        cli::Parsed::Run(cli) => {
            let json = cli.global().json;
            if json {
                output::report_as_json();
            }
            run(cli).map_err(|failure| (failure, json))
        }
        cli::Parsed::Shown => Ok(()),
        cli::Parsed::Refused { failure, json } => Err((failure, json)),
    };
    match end {
        Ok(()) => exit_code::ExitCode::Success.into(),
        Err((failure, json)) => {
            failure.report(json);
            failure.code.into()
        }
    }
}
