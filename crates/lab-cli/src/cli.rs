//! The command line as clap sees it. The arguments of a command are in the file of the command.

use clap::{CommandFactory, Parser, Subcommand};
use everleaf_cli::command::bench;
use everleaf_cli::exit_code;
use everleaf_cli::global::{Global, HasGlobal};

use crate::command::{check, compare, completions, create, list, pibench, prove, report, run};

const EXAMPLES: &str = "\
Examples:
  everleaf-lab bench get insert scan --index fast-fair
  everleaf-lab bench get insert update remove scan --index all
  everleaf-lab prove nbtree --budget 10m
  everleaf-lab list
  everleaf-lab run all --quick
  everleaf-lab report everleaf-lab -o report.html

The store, the server and the tools are another program, everleaf.";

const VIOLATED: &str = "  8  `prove` found a violation (or did not find a bug that was planted)";

/// What `bench` can do here and not in `everleaf`.
const BENCH_EXAMPLES: &str = "\
Examples of designs:
  everleaf-lab bench get insert scan --index fast-fair
  everleaf-lab bench get insert update remove scan --index all
  everleaf-lab bench mix-4-16-1 tpcc-w1 tpcc-w4 --index fast-fair";

/// The research beside Everleaf: benchmarks of all designs, the prover, the papers' experiments
#[derive(Parser, Debug)]
#[command(name = "everleaf-lab", version, max_term_width = 100, propagate_version = true)]
#[command(after_help = format!("{EXAMPLES}\n\n{}\n{VIOLATED}", exit_code::HELP))]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
    /// What every command takes.
    #[command(flatten)]
    pub global: Global,
}

/// The commands.
#[derive(Subcommand, Debug)]
pub enum Command {
    Bench(Box<bench::BenchArgs>),
    Pibench(Box<pibench::PibenchArgs>),
    Prove(Box<prove::ProveArgs>),
    List(list::ListArgs),
    Run(run::RunArgs),
    Compare(compare::CompareArgs),
    Report(report::ReportArgs),
    Create(create::CreateArgs),
    Check(check::CheckArgs),
    Completions(completions::CompletionsArgs),
}

impl HasGlobal for Cli {
    fn global(&self) -> Global {
        self.global
    }
}

/// The command line, with the help of `bench` in this program's words.
pub fn command() -> clap::Command {
    Cli::command().mut_subcommand("bench", |bench| {
        let help = bench.get_after_help().map(ToString::to_string).unwrap_or_default();
        let help = help.replace("everleaf bench", "everleaf-lab bench");
        bench.after_help(format!("{BENCH_EXAMPLES}\n\n{help}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definitions_are_consistent() {
        command().debug_assert();
    }

    #[test]
    fn every_command_has_examples_in_its_help() {
        for command in command().get_subcommands() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let line = format!("everleaf-lab {}", command.get_name());
            assert!(help.contains("Example") && help.contains(&line), "{line}");
        }
    }
}
