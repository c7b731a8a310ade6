//! The command line as clap sees it. The arguments of a command are in the file of the command.

use crate::command::{
    backup, bench, check, compact, completions, create, del, export, get, import, load, man, maps,
    ping, put, repair, restore, scan, serve, snapshot, stat, upgrade,
};
use crate::exit_code;
use crate::failure::Failure;
use crate::global::{Global, HasGlobal};
use crate::output::{program, refuse_closed};
use clap::error::ErrorKind;
use clap::{FromArgMatches, Parser, Subcommand};

const EXAMPLES: &str = "\
Examples:
  everleaf create cities.pool --size 64M
  everleaf load cities.pool cities.tsv
  everleaf put cities.pool Paris 2102650
  everleaf get cities.pool Paris
  everleaf scan cities.pool --prefix Pa --limit 10
  everleaf export cities.pool --output backup.jsonl
  everleaf backup cities.pool cities.backup
  everleaf serve cities.pool --port 6399

Most commands take the pool first; it may be left out when the environment variable EVERLEAF_POOL
names it. `restore`, `repair` and `import` take first what they read, then the pool that they
create; `bench` makes a pool of its own; `ping` takes an address. Benchmarks of the published designs, the
prover and the experiments of the papers are another program, everleaf-lab.";

/// A persistent ordered key-value store: everything acknowledged survives `kill -9`
#[derive(Parser, Debug)]
#[command(name = "everleaf", version, max_term_width = 100, propagate_version = true)]
#[command(after_help = format!("{EXAMPLES}\n\n{}", exit_code::HELP))]
pub(crate) struct Cli {
    /// The command.
    #[command(subcommand)]
    pub(crate) command: Command,
    /// What every command takes.
    #[command(flatten)]
    pub global: Global,
}

/// The commands.
#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    Create(create::CreateArgs),
    Load(load::LoadArgs),
    Get(get::GetArgs),
    Put(put::PutArgs),
    Del(del::DelArgs),
    Scan(scan::ScanArgs),
    Export(export::ExportArgs),
    Import(Box<import::ImportArgs>),
    Stat(stat::StatArgs),
    Check(check::CheckArgs),
    Maps(maps::MapsArgs),
    Backup(backup::BackupArgs),
    Restore(restore::RestoreArgs),
    Snapshot(snapshot::SnapshotArgs),
    Compact(compact::CompactArgs),
    Repair(repair::RepairArgs),
    Upgrade(upgrade::UpgradeArgs),
    Serve(Box<serve::ServeArgs>),
    Bench(Box<bench::BenchArgs>),
    Ping(ping::PingArgs),
    Completions(completions::CompletionsArgs),
    Man(man::ManArgs),
}

impl HasGlobal for Cli {
    fn global(&self) -> Global {
        self.global
    }
}

/// What became of the command line.
pub enum Parsed<C> {
    /// A command to run.
    Run(Box<C>),
    /// Help or the version was asked for and has been shown.
    Shown,
    /// The command line is wrong.
    Refused {
        /// Why.
        failure: Failure,
        /// True when errors are wanted as JSON.
        json: bool,
    },
}

/// Parses the arguments of the process as this command, and shows help if that is what they ask for.
pub fn parse<C: FromArgMatches>(mut command: clap::Command) -> Parsed<C> {
    let found = command.try_get_matches_from_mut(std::env::args_os());
    let error = match found.and_then(|mut matches| C::from_arg_matches_mut(&mut matches)) {
        Ok(cli) => return Parsed::Run(Box::new(cli)),
        Err(error) => error,
    };
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        let shown = refuse_closed().and_then(|()| error.print().map_err(|e| Failure::output(&e)));
        return match shown {
            Ok(()) => Parsed::Shown,
            Err(failure) => Parsed::Refused { failure, json: false },
        };
    }
    // The arguments could not be parsed, so that clap cannot tell whether --json was among them.
    let json = std::env::args_os().skip(1).any(|argument| argument == "--json");
    Parsed::Refused { failure: refusal(&error), json }
}

fn refusal(error: &clap::Error) -> Failure {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let program = program();
        return Failure::usage(format!(
            "give a command: `{program} --help` lists them, with examples"
        ));
    }
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text).trim_end();
    Failure::usage(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definitions_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_has_examples_in_its_help() {
        for command in Cli::command().get_subcommands() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let line = format!("everleaf {}", command.get_name());
            assert!(help.contains("Example") && help.contains(&line), "{line}");
        }
    }
}
