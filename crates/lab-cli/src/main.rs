//! The program `everleaf-lab`: benchmarks of all designs, the prover, and the laboratory.
//!
//! One file per command is under [`command`]. What is printed, and how a command fails, is the
//! library of `everleaf`'s own command line.

#![forbid(unsafe_code)]

mod cli;
mod command;

use everleaf_cli::output::name_program;

fn main() -> std::process::ExitCode {
    name_program("everleaf-lab");
    everleaf_cli::finish(everleaf_cli::cli::parse::<cli::Cli>(cli::command()), |cli| {
        command::run(*cli)
    })
}
