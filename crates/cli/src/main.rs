//! The `everleaf` command line: create, fill, query, check and serve a pool.
//!
//! One file per command is under [`command`], the file formats of `load` and `export` are under
//! [`format`], what a process may end with is in [`exit_code`]. Everything printed goes through
//! [`output`]; every error is a [`failure::Failure`]: one sentence and one exit code.

#![forbid(unsafe_code)]

mod arguments;
mod cli;
mod command;
mod exit_code;
mod failure;
mod format;
mod ingest;
mod open;
mod output;
mod progress;
mod target_file;

use cli::Parsed;

fn main() -> std::process::ExitCode {
    let end = match cli::parse() {
        Parsed::Run(cli) => {
            let json = cli.global.json;
            command::run(*cli).map_err(|failure| (failure, json))
        }
        Parsed::Shown => Ok(()),
        Parsed::Refused { failure, json } => Err((failure, json)),
    };
    match end {
        Ok(()) => exit_code::ExitCode::Success.into(),
        Err((failure, json)) => {
            failure.report(json);
            failure.code.into()
        }
    }
}
